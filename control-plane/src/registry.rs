//! Takes registrations of workers: where they are, so that the drivers can dial them.

use millrace_protocol::v1::{
    RegisterRequest, RegisterResponse,
    control_plane_server::{self, ControlPlaneServer},
};
use millrace_types::{ExecutionId, JobId, WorkerId};
use tonic::{Request, Response, Status};

use crate::{
    live::LiveJobs,
    problem::chain,
    store::{Registration, Store, StoreError},
};

/// The ControlPlane service of one replica.
#[derive(Clone)]
pub(crate) struct Service {
    store: Store,
    live: LiveJobs,
}

impl Service {
    pub(crate) fn new(store: Store, live: LiveJobs) -> Self {
        Service { store, live }
    }

    pub(crate) fn into_server(self) -> ControlPlaneServer<Self> {
        ControlPlaneServer::new(self)
    }
}

#[tonic::async_trait]
impl control_plane_server::ControlPlane for Service {
    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let registration = read(request.into_inner())?;
        match self.store.register_worker(&registration).await {
            Ok(wanted) => {
                if wanted {
                    self.live.wake(registration.job);
                } else {
                    tracing::info!(worker = %registration.worker, job = %registration.job,
                        "a worker that nobody wants was told to exit");
                }
                Ok(Response::new(RegisterResponse { wanted }))
            }
            // The worker repeats it anyway.
            Err(error @ StoreError::Unavailable { .. }) => Err(Status::unavailable(chain(&error))),
            Err(error) => {
                tracing::error!(error = chain(&error), "a registration failed");
                Err(Status::internal("the registration could not be stored"))
            }
        }
    }
}

fn read(request: RegisterRequest) -> Result<Registration, Status> {
    let invalid =
        |field: &str, reason: String| Status::invalid_argument(format!("{field}: {reason}"));
    let worker: WorkerId = request
        .worker_id
        .parse()
        .map_err(|error: millrace_types::IdError| invalid("worker_id", error.to_string()))?;
    let job: JobId = request
        .job_id
        .parse()
        .map_err(|error: millrace_types::IdError| invalid("job_id", error.to_string()))?;
    let execution =
        match request.execution_id.as_str() {
            "" => None,
            text => Some(text.parse::<ExecutionId>().map_err(
                |error: millrace_types::IdError| invalid("execution_id", error.to_string()),
            )?),
        };
    if request.address.is_empty() || request.address.len() > 300 {
        return Err(invalid("address", "expected host:port".into()));
    }
    Ok(Registration {
        worker,
        job,
        address: request.address,
        slots: request.slots,
        pid: request.pid,
        version: request.version.chars().take(100).collect(),
        execution,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RegisterRequest {
        RegisterRequest {
            worker_id: "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11".into(),
            job_id: "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a12".into(),
            address: "127.0.0.1:4711".into(),
            slots: 2,
            pid: 42,
            version: "0.1.0".into(),
            execution_id: String::new(),
        }
    }

    #[test]
    fn a_registration_is_read_or_refused_by_field() {
        let read_one = read(request()).unwrap();
        assert_eq!((read_one.slots, read_one.execution), (2, None));
        type Spoil = fn(&mut RegisterRequest);
        let cases: [(&str, Spoil); 4] = [
            ("worker_id", |r| r.worker_id = "x".into()),
            ("job_id", |r| r.job_id = String::new()),
            ("execution_id", |r| r.execution_id = "1".into()),
            ("address", |r| r.address = String::new()),
        ];
        for (field, spoil) in cases {
            let mut spoilt = request();
            spoil(&mut spoilt);
            let status = read(spoilt).unwrap_err();
            assert!(status.message().starts_with(field), "{status:?}");
        }
    }
}
