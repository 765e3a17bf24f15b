//! Starts and ends the workers of jobs.
//!
//! A provisioner knows processes or pods, not jobs: the driver decides which workers are wanted,
//! announces each in the store before it is started, and finds them there again after a
//! take-over.

mod process;

use std::time::Duration;

use async_trait::async_trait;
use millrace_types::{JobId, WorkerId};
use tokio::sync::mpsc;

pub(crate) use process::ProcessProvisioner;

/// A worker to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartWorker {
    pub job: JobId,
    pub worker: WorkerId,
    pub slots: u32,
    pub memory_mib: u32,
}

/// A worker that was started, perhaps by another control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerHandle {
    pub job: JobId,
    pub worker: WorkerId,
    /// Of its process, where known.
    pub pid: Option<u32>,
}

/// A worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerExit {
    pub worker: WorkerId,
    /// In words for the owner of the job.
    pub reason: String,
}

/// Where exits are told.
pub(crate) type ExitSender = mpsc::UnboundedSender<WorkerExit>;

/// A worker could not be started.
#[derive(Debug, thiserror::Error)]
#[error("a worker could not be started: {action}: {source}")]
pub(crate) struct ProvisionError {
    pub action: String,
    pub source: std::io::Error,
}

/// See the [module](self).
#[async_trait]
pub(crate) trait Provisioner: Send + Sync + 'static {
    /// Starts a worker, which registers by itself. When it ends, `exits` is told once.
    async fn start(
        &self,
        worker: StartWorker,
        exits: ExitSender,
    ) -> Result<WorkerHandle, ProvisionError>;

    /// Watches a worker that another control plane started, as if this one had.
    fn watch(&self, worker: WorkerHandle, exits: ExitSender);

    /// Ends a worker: asks it to, and kills it if it is still there after `grace`. Returns when
    /// it is gone. One that is not there is fine.
    async fn stop(&self, worker: WorkerHandle, grace: Duration);

    /// Removes what a worker that is gone has left on this machine, except for its newest logs.
    async fn clean(&self, worker: WorkerHandle);

    /// Removes everything of a deleted job.
    async fn forget(&self, job: JobId);
}
