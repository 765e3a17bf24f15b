//! What handlers share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    live::LiveJobs,
    problem::{Answer, Code, Problem},
    sql::Compiler,
    store::Store,
};

/// Live streams served at once.
const MAX_STREAMS: usize = 256;

/// How far the service is with its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The schema is not there yet, and why.
    Waiting(String),
    Ready,
}

/// Handed to every handler.
#[derive(Clone)]
pub(crate) struct ApiState(Arc<Shared>);

struct Shared {
    store: Store,
    live: LiveJobs,
    readiness: watch::Receiver<Readiness>,
    shutdown: CancellationToken,
    streams: Arc<Semaphore>,
    compiler: Compiler,
    replica: String,
}

impl ApiState {
    pub(crate) fn new(
        replica: String,
        store: Store,
        live: LiveJobs,
        compiler: Compiler,
        readiness: watch::Receiver<Readiness>,
        shutdown: CancellationToken,
    ) -> Self {
        ApiState(Arc::new(Shared {
            store,
            live,
            readiness,
            shutdown,
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            compiler,
            replica,
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn live(&self) -> &LiveJobs {
        &self.0.live
    }

    /// Ends when the service does: streams must not outlive it.
    pub(crate) fn shutdown(&self) -> CancellationToken {
        self.0.shutdown.clone()
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.0.compiler
    }

    /// The name of this replica among those that share the database.
    pub(crate) fn replica(&self) -> &str {
        &self.0.replica
    }

    /// A place among the live streams, given back when dropped.
    pub(crate) fn open_stream(&self) -> Answer<OwnedSemaphorePermit> {
        self.0.streams.clone().try_acquire_owned().map_err(|_| {
            Problem::new(
                Code::TooManyStreams,
                format!("{MAX_STREAMS} live streams are open, the service serves no more at once"),
            )
            .with_hint("close a stream, or read the listing page by page")
            .with_retry_after(5)
        })
    }

    /// Refuses work that needs the schema before it is there.
    pub(crate) fn check_ready(&self) -> Answer<()> {
        match &*self.0.readiness.borrow() {
            Readiness::Ready => Ok(()),
            Readiness::Waiting(reason) => Err(Problem::new(
                Code::NotReady,
                format!("the service is waiting for its database: {reason}"),
            )
            .with_hint("start Postgres, or check the database URL; the service goes on by itself")
            .with_retry_after(2)),
        }
    }
}
