//! What the worker runs, and the orders it takes: one execution at a time, from the driver
//! with the highest epoch.
//!
//! Deploy, Cancel and Shutdown exclude each other. One that comes while a deployment is under
//! way stops it first.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::stream::BoxStream;
use millrace_engine::channel::BarrierInfo;
use millrace_protocol::v1::{self, WorkerState};
use millrace_types::{CheckpointId, Epoch, ExecutionId, SavepointId};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    deploy::Deployer, deploy_error::DeployError, events::EventHub, exchange::ExchangeHub,
    execution::Execution, progress::Failure,
};

/// See the module.
pub(crate) struct Supervisor {
    deployer: Deployer,
    hub: Arc<ExchangeHub>,
    epoch: Mutex<Epoch>,
    /// Held by whatever changes the execution.
    changing: tokio::sync::Mutex<()>,
    current: Mutex<Current>,
    /// Fires when the process is to end.
    shutdown: CancellationToken,
}

struct Current {
    execution: Option<Arc<Execution>>,
    /// Stops the deployment under way.
    deploying: Option<CancellationToken>,
    /// Nothing has been at work since.
    idle_since: Instant,
}

impl Supervisor {
    pub(crate) fn new(
        deployer: Deployer,
        hub: Arc<ExchangeHub>,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Supervisor {
            deployer,
            hub,
            epoch: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            current: Mutex::new(Current {
                execution: None,
                deploying: None,
                idle_since: Instant::now(),
            }),
            shutdown,
        })
    }

    fn events(&self) -> &Arc<EventHub> {
        &self.deployer.events
    }

    /// The execution that the worker has, whatever its state.
    pub(crate) fn execution(&self) -> Option<Arc<Execution>> {
        self.current.lock().execution.clone()
    }

    /// How long no execution has been at work.
    pub(crate) fn idle_for(&self) -> Duration {
        let mut current = self.current.lock();
        let active = current
            .execution
            .as_ref()
            .is_some_and(|execution| execution.is_active());
        if active || current.deploying.is_some() {
            current.idle_since = Instant::now();
        }
        current.idle_since.elapsed()
    }

    /// Refuses whoever has been replaced.
    fn fence(&self, epoch: u64) -> Result<(), Status> {
        let mut newest = self.epoch.lock();
        if epoch < newest.0 {
            return Err(Status::permission_denied(format!(
                "epoch {epoch} is over: a driver with epoch {newest} has taken over"
            )));
        }
        *newest = Epoch(epoch);
        Ok(())
    }

    fn check_job(&self, job: &str) -> Result<(), Status> {
        if job == self.deployer.job.to_string() {
            return Ok(());
        }
        Err(Status::failed_precondition(format!(
            "this worker is for job {}, not for `{}`",
            self.deployer.job,
            job.chars().take(80).collect::<String>()
        )))
    }

    /// The execution, if it is the one that is meant.
    fn expect(&self, execution: &str) -> Result<Arc<Execution>, Status> {
        let id: ExecutionId = execution
            .parse()
            .map_err(|error| Status::invalid_argument(format!("execution_id: {error}")))?;
        match self.execution() {
            Some(current) if current.id() == id => Ok(current),
            Some(current) => Err(Status::not_found(format!(
                "this worker runs execution {}, not {id}",
                current.id()
            ))),
            None => Err(Status::not_found(format!(
                "this worker runs nothing, in particular not execution {id}"
            ))),
        }
    }

    /// As [`Supervisor::expect`], and it is at work.
    fn expect_running(&self, execution: &str) -> Result<Arc<Execution>, Status> {
        let execution = self.expect(execution)?;
        let status = execution.progress().status();
        match (status.state(), status.failure) {
            (WorkerState::Running, _) => Ok(execution),
            (_, Some(failure)) => Err(failed(&failure)),
            (_, None) => Err(Status::aborted(format!(
                "execution {} is not running here",
                execution.id()
            ))),
        }
    }

    pub(crate) fn attach(
        &self,
        request: &v1::AttachRequest,
    ) -> Result<BoxStream<'static, Result<v1::WorkerEvent, Status>>, Status> {
        self.check_job(&request.job_id)?;
        self.fence(request.epoch)?;
        let status = match self.execution() {
            Some(execution) => execution.progress().status(),
            None => v1::Status {
                state: WorkerState::Idle.into(),
                ..v1::Status::default()
            },
        };
        tracing::info!(epoch = request.epoch, "a driver has attached");
        Ok(self.events().attach(status))
    }

    pub(crate) async fn deploy(
        &self,
        request: v1::DeployRequest,
    ) -> Result<v1::DeployResponse, Status> {
        self.check_job(&request.job_id)?;
        self.fence(request.epoch)?;
        let _changing = self.change().await;
        // Somebody newer may have come while this one waited.
        self.fence(request.epoch)?;
        self.tear_down().await;
        let stop = CancellationToken::new();
        self.current.lock().deploying = Some(stop.clone());
        let execution_id = request.execution_id.clone();
        let deployed = tokio::select! {
            deployed = self.deployer.deploy(request) => deployed,
            () = stop.cancelled() => Err(DeployError::Replaced),
        };
        self.current.lock().deploying = None;
        match deployed {
            Ok(deployed) => {
                self.hub.set(Some(deployed.inbound));
                self.current.lock().execution = Some(deployed.execution);
                tracing::info!(execution = execution_id, "deployed");
                Ok(v1::DeployResponse {
                    fingerprint: deployed.fingerprint,
                })
            }
            Err(error) => {
                let status = Status::from(error);
                tracing::warn!(
                    execution = execution_id,
                    error = status.message(),
                    "deployment failed"
                );
                if let Ok(execution) = execution_id.parse() {
                    self.remove_dir(self.deployer.execution_dir(execution))
                        .await;
                }
                Err(status)
            }
        }
    }

    pub(crate) fn start(&self, request: &v1::ExecutionRequest) -> Result<(), Status> {
        self.fence(request.epoch)?;
        let execution = self.expect(&request.execution_id)?;
        if let Some(failure) = execution.progress().failure() {
            return Err(failed(&failure));
        }
        execution.start();
        Ok(())
    }

    pub(crate) fn trigger(&self, request: &v1::TriggerCheckpointRequest) -> Result<(), Status> {
        self.fence(request.epoch)?;
        if request.checkpoint_id == 0 {
            return Err(Status::invalid_argument(
                "checkpoint_id: checkpoints are numbered from 1",
            ));
        }
        let execution = self.expect_running(&request.execution_id)?;
        execution.trigger(BarrierInfo {
            checkpoint: CheckpointId(request.checkpoint_id),
            savepoint: (request.savepoint_id != 0).then_some(SavepointId(request.savepoint_id)),
            stop_after: request.stop_after,
        });
        Ok(())
    }

    pub(crate) fn notify(&self, request: &v1::NotifyCheckpointRequest) -> Result<(), Status> {
        self.fence(request.epoch)?;
        let execution = self.expect(&request.execution_id)?;
        let checkpoint = CheckpointId(request.checkpoint_id);
        if request.completed {
            execution.completed(checkpoint, request.r#final);
        } else {
            execution.aborted(checkpoint);
        }
        Ok(())
    }

    pub(crate) fn drain(&self, request: &v1::ExecutionRequest) -> Result<(), Status> {
        self.fence(request.epoch)?;
        self.expect_running(&request.execution_id)?.drain();
        Ok(())
    }

    /// Ends an execution; one that is not there has ended.
    pub(crate) async fn cancel(&self, request: &v1::ExecutionRequest) -> Result<(), Status> {
        self.fence(request.epoch)?;
        let id: ExecutionId = request
            .execution_id
            .parse()
            .map_err(|error| Status::invalid_argument(format!("execution_id: {error}")))?;
        let _changing = self.change().await;
        if self
            .execution()
            .is_some_and(|execution| execution.id() == id)
        {
            self.tear_down().await;
        }
        Ok(())
    }

    /// Ends the process.
    pub(crate) async fn shut_down(&self, request: &v1::AttachRequest) -> Result<(), Status> {
        self.check_job(&request.job_id)?;
        self.fence(request.epoch)?;
        let _changing = self.change().await;
        self.tear_down().await;
        self.shutdown.cancel();
        Ok(())
    }

    /// Ends the execution because the process was told to end; the driver learns why.
    pub(crate) async fn terminate(&self, reason: &str) {
        let _changing = self.change().await;
        if let Some(execution) = self.execution() {
            execution.progress().fail(Failure::retryable(reason));
            // The queue empties as fast as the driver reads.
            for _ in 0..20 {
                if self.events().is_drained() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            self.tear_down().await;
        }
    }

    /// Tells the metrics of whatever runs.
    pub(crate) fn publish_metrics(&self) {
        if let Some(execution) = self.execution() {
            execution.publish_metrics();
        }
    }

    /// Waits for its turn to change the execution, stopping a deployment that is under way.
    async fn change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let deploying = self.current.lock().deploying.clone();
        if let Some(deploying) = deploying {
            deploying.cancel();
        }
        self.changing.lock().await
    }

    async fn tear_down(&self) {
        let execution = self.current.lock().execution.take();
        if let Some(execution) = execution {
            self.hub.set(None);
            if execution.tear_down().await {
                tracing::info!(execution = %execution.id(), "execution ended");
            } else {
                // Its state and its outputs may still be in use: only a new process is clean.
                tracing::error!(execution = %execution.id(), "a slot hangs, the worker ends");
                self.shutdown.cancel();
            }
        }
        self.events().clear();
    }

    async fn remove_dir(&self, dir: std::path::PathBuf) {
        let removed = tokio::task::spawn_blocking(move || remove_dir(&dir)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "local state could not be removed");
        }
    }
}

/// The answer to orders for an execution that has failed. As with deployments,
/// `FailedPrecondition` says that another attempt is of no use.
fn failed(failure: &v1::ExecutionFailed) -> Status {
    let message = format!("the execution has failed here: {}", failure.reason);
    if failure.retryable {
        Status::aborted(message)
    } else {
        Status::failed_precondition(message)
    }
}

fn remove_dir(dir: &Path) {
    if let Err(error) = std::fs::remove_dir_all(dir)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "local state could not be removed");
    }
}
