//! What the store can answer instead of a result, as the caller's next action.

use millrace_types::{Epoch, JobId, JobState, TenantName, VersionNumber};

/// A failed call of the store. Display omits the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("there is no tenant `{tenant}`")]
    TenantNotFound { tenant: TenantName },
    #[error("tenant `{tenant}` has no job `{job}`")]
    JobNotFound { tenant: TenantName, job: String },
    #[error("job {job} has no version {version}")]
    VersionNotFound { job: JobId, version: String },
    #[error("job {job} has no execution {execution}")]
    ExecutionNotFound { job: JobId, execution: String },
    #[error("job {job} has no checkpoint {checkpoint}")]
    CheckpointNotFound { job: JobId, checkpoint: String },
    #[error("job {job} has no savepoint {savepoint}")]
    SavepointNotFound { job: JobId, savepoint: String },
    #[error("the tenant has another job named `{name}`")]
    NameTaken { name: String },
    #[error("the change is based on version {expected}, the job is at version {current}")]
    VersionMismatch {
        expected: VersionNumber,
        current: VersionNumber,
    },
    #[error("the idempotency key `{key}` was used for another request")]
    IdempotencyMismatch { key: String },
    /// The job's state does not allow it.
    #[error("the job is {state}: {what}")]
    InvalidState { state: JobState, what: String },
    /// Its inputs were ended to stop it, so its latest snapshot is past every window.
    #[error(
        "the job is {state} and was drained: its windows are closed for ever, rows to come would be late"
    )]
    Drained { state: JobState },
    /// Another driver has taken the job over, or the job is gone: stop driving it.
    #[error("the lease of job {job} with epoch {epoch} is lost")]
    Fenced { job: JobId, epoch: Epoch },
    /// Postgres cannot be reached or is overloaded; the call can be repeated.
    #[error("the database is not available")]
    Unavailable { source: sqlx::Error },
    /// The same, with what a person can do about it.
    #[error("{reason}")]
    NoConnection { reason: String, source: sqlx::Error },
    /// A row says something that no version of Millrace that this one knows would write.
    #[error("the database holds an unreadable {what}: {reason}")]
    Corrupt { what: &'static str, reason: String },
    #[error("the database URL is not valid")]
    Url { source: sqlx::Error },
    #[error("the database schema cannot be brought to this version's")]
    Migration { source: sqlx::migrate::MigrateError },
    #[error("a database query failed")]
    Internal { source: sqlx::Error },
}

impl StoreError {
    /// Whether the same call may work later.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(
            self,
            StoreError::Unavailable { .. } | StoreError::NoConnection { .. }
        )
    }

    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self, StoreError::Fenced { .. })
    }

    pub(super) fn corrupt(what: &'static str, reason: impl std::fmt::Display) -> Self {
        StoreError::Corrupt {
            what,
            reason: reason.to_string(),
        }
    }

    pub(super) fn from_migration(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::Execute(source) if is_unavailable(&source) => {
                StoreError::Unavailable { source }
            }
            source => StoreError::Migration { source },
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(source: sqlx::Error) -> Self {
        if is_unavailable(&source) {
            StoreError::Unavailable { source }
        } else {
            StoreError::Internal { source }
        }
    }
}

fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(database) => database.code().is_some_and(|code| {
            // Connection exceptions, resources, operator intervention (shutdown, starting up),
            // and transactions that lost a race.
            let class = code.get(..2).unwrap_or_default();
            matches!(class, "08" | "53" | "57" | "58") || matches!(&*code, "40001" | "40P01")
        }),
        _ => false,
    }
}
