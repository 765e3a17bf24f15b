//! The Worker service: hands calls to the supervisor.
//!
//! Calls that change the execution run in tasks of their own, so that a driver that hangs up
//! does not leave them half done.

use std::sync::Arc;

use futures::stream::BoxStream;
use millrace_protocol::v1::{self, worker_server::Worker};
use tonic::{Request, Response, Status};

use crate::supervisor::Supervisor;

/// See the module.
#[derive(Clone)]
pub(crate) struct WorkerService {
    supervisor: Arc<Supervisor>,
}

impl WorkerService {
    pub(crate) fn new(supervisor: Arc<Supervisor>) -> Self {
        WorkerService { supervisor }
    }

    async fn detached<T, F>(&self, work: impl FnOnce(Arc<Supervisor>) -> F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        tokio::spawn(work(Arc::clone(&self.supervisor)))
            .await
            .map_err(|error| {
                Status::internal(format!("internal fault: {error}: please report it"))
            })?
    }
}

type Events = BoxStream<'static, Result<v1::WorkerEvent, Status>>;

fn ack() -> Response<v1::Ack> {
    Response::new(v1::Ack {})
}

#[tonic::async_trait]
impl Worker for WorkerService {
    type AttachStream = Events;

    async fn attach(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<Events>, Status> {
        let events = self.supervisor.attach(request.get_ref())?;
        Ok(Response::new(events))
    }

    async fn deploy(
        &self,
        request: Request<v1::DeployRequest>,
    ) -> Result<Response<v1::DeployResponse>, Status> {
        let request = request.into_inner();
        self.detached(|supervisor| async move { supervisor.deploy(request).await })
            .await
            .map(Response::new)
    }

    async fn start(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.supervisor.start(request.get_ref())?;
        Ok(ack())
    }

    async fn trigger_checkpoint(
        &self,
        request: Request<v1::TriggerCheckpointRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.supervisor.trigger(request.get_ref())?;
        Ok(ack())
    }

    async fn notify_checkpoint(
        &self,
        request: Request<v1::NotifyCheckpointRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.supervisor.notify(request.get_ref())?;
        Ok(ack())
    }

    async fn drain(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.supervisor.drain(request.get_ref())?;
        Ok(ack())
    }

    async fn cancel(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        let request = request.into_inner();
        self.detached(|supervisor| async move { supervisor.cancel(&request).await })
            .await?;
        Ok(ack())
    }

    async fn shutdown(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        let request = request.into_inner();
        self.detached(|supervisor| async move { supervisor.shut_down(&request).await })
            .await?;
        Ok(ack())
    }
}
