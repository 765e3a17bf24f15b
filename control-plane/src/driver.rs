//! Drives jobs: leases them, asks the pure cores in `coordination` what to do, does it, and
//! feeds the results back.
//!
//! One [`replica`] loop per process holds the leases; one task per leased job ([`job_task`]) owns
//! everything of that job and handles one thing at a time. What takes long (provisioning,
//! deploying, tearing down, writing manifests) runs in tasks beside it that answer by messages.
//!
//! Invariants:
//! - A step of the lifecycle is committed before its actions are performed; while Postgres is
//!   away the job's task waits and its workers go on.
//! - Every call to a worker carries the lease's epoch, every write is fenced by it; a task that
//!   learns of a higher epoch ends at once and touches nothing more.
//! - Sinks are told to commit only after the manifest, the checkpoint's row and the lifecycle
//!   step that makes it the job's restore point are durable, in this order.

mod actions;
mod ambient;
mod barriers;
mod connection;
mod crew;
mod desired;
mod forget;
mod garbage;
mod inbox;
mod job_task;
mod messages;
mod patience;
mod plan;
mod replica;
mod takeover;
mod teardown;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use millrace_state::{StateError, storage};
use object_store::{ObjectStore, path::Path};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    config::ControlPlaneConfig, live::LiveJobs, provision::Provisioner, sql::Compiler, store::Store,
};

/// What the drivers of a replica share.
#[derive(Clone)]
pub(crate) struct Parts(Arc<Shared>);

struct Shared {
    store: Store,
    live: LiveJobs,
    provisioner: Arc<dyn Provisioner>,
    compiler: Compiler,
    config: ControlPlaneConfig,
    storage: Arc<dyn ObjectStore>,
    /// Prefix in the storage.
    root: Path,
    /// Of this life of the replica.
    incarnation: Uuid,
}

impl Parts {
    /// Fails if the checkpoint storage cannot be used.
    pub(crate) fn new(
        store: Store,
        live: LiveJobs,
        provisioner: impl Provisioner,
        compiler: Compiler,
        config: ControlPlaneConfig,
    ) -> Result<Self, StateError> {
        let (storage, root) = storage::open(&config.storage_url)?;
        Ok(Parts(Arc::new(Shared {
            store,
            live,
            provisioner: Arc::new(provisioner),
            compiler,
            config,
            storage,
            root,
            incarnation: Uuid::now_v7(),
        })))
    }
}

/// Drives jobs until `shutdown` is canceled, then suspends or releases them and ends.
pub(crate) fn spawn(parts: Parts, shutdown: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(replica::run(parts.0, shutdown))
}
