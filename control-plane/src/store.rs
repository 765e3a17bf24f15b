//! The truth about jobs, in Postgres.
//!
//! Invariants:
//! - Desired state is written by the API and raises `jobs.revision`; observed state is written
//!   by the driver that holds the job's lease, and every such write checks the lease's epoch
//!   while it holds the job's row.
//! - A step of the lifecycle and everything it writes is one transaction ([`Store::commit`]).
//! - All SQL is static text; every query names the tenant or comes from a lease.
//!
//! [`StoreError::Unavailable`] means that the same call may work later: the driver repeats it
//! with backoff, the API answers 503.

mod checkpoints;
mod commit;
mod connect;
mod convert;
mod desired;
mod error;
mod events;
mod executions;
mod housekeeping;
mod jobs;
mod leases;
mod savepoints;
mod versions;
mod workers;

#[cfg(test)]
pub(crate) mod test_database;
#[cfg(test)]
mod tests;

use std::{str::FromStr, time::Duration};

use millrace_types::JobId;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};

pub(crate) use checkpoints::{CheckpointDone, CheckpointRecord};
pub(crate) use commit::Commit;
pub use error::StoreError;
pub(crate) use events::{EventRecord, NewEvent};
pub(crate) use executions::{ExecutionRecord, ExecutionState, WorkerPlacement};
pub(crate) use jobs::{JobFilter, JobRecord, JobRef, NewJob};
pub(crate) use leases::{DrivenJob, Lease};
pub(crate) use savepoints::{SavepointErrand, SavepointRecord};
pub(crate) use versions::VersionRecord;
pub(crate) use workers::{NewWorker, Registration, WorkerRecord, WorkerRowState};

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// Channel on which every change of a job's desired state is announced, with the job's id.
const CHANNEL: &str = "millrace_jobs";
/// A request gives up waiting for a connection after this time.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// The database. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pool: PgPool,
}

impl Store {
    /// Checks the URL; connections are made when they are needed, so Postgres need not be up.
    pub(crate) fn connect_lazy(database_url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(database_url)
            .map_err(|source| StoreError::Url { source })?;
        Ok(Store::with_options(options))
    }

    pub(crate) fn with_options(options: PgConnectOptions) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(Duration::from_secs(300))
            .connect_lazy_with(options.application_name("millrace"));
        Store { pool }
    }

    /// Brings the schema to this version's. Several replicas may call it at once.
    pub(crate) async fn migrate(&self) -> Result<()> {
        sqlx::migrate!("../migrations")
            .run(&self.pool)
            .await
            .map_err(StoreError::from_migration)
    }

    /// Whether Postgres answers, or why not.
    pub(crate) async fn ping(&self) -> Result<()> {
        let answer = sqlx::query("SELECT 1").execute(&self.pool).await;
        match answer.map_err(StoreError::from) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.probe().await?;
                Err(error)
            }
        }
    }

    /// Connects once, past the pool: when that fails, it tells why.
    pub(crate) async fn probe(&self) -> Result<()> {
        connect::probe(&self.pool.connect_options()).await
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Listens for changes of desired state, made by any replica.
    pub(crate) async fn changes(&self) -> Result<Changes> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(Changes { listener })
    }
}

/// See [`Store::changes`].
pub(crate) struct Changes {
    listener: PgListener,
}

impl Changes {
    /// The next job that changed. After an error, listen anew and look at all jobs.
    pub(crate) async fn next(&mut self) -> Result<Option<JobId>> {
        // Without a reconnection inside, so that the caller learns of the gap.
        match self.listener.try_recv().await? {
            Some(notification) => Ok(notification.payload().parse().ok()),
            None => Err(StoreError::Unavailable {
                source: sqlx::Error::PoolClosed,
            }),
        }
    }
}
