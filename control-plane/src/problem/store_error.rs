//! What the store's errors are to a caller.

use super::{Code, Problem, chain};
use crate::store::StoreError;

/// A restart of Postgres takes about this long.
const RETRY_AFTER_S: u32 = 2;

impl From<StoreError> for Box<Problem> {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match &error {
            StoreError::TenantNotFound { .. } => Problem::new(Code::TenantNotFound, detail),
            StoreError::JobNotFound { .. } => Problem::new(Code::JobNotFound, detail)
                .with_hint("list the tenant's jobs: names are case-sensitive"),
            StoreError::VersionNotFound { .. } => Problem::new(Code::VersionNotFound, detail),
            StoreError::ExecutionNotFound { .. } => Problem::new(Code::ExecutionNotFound, detail),
            StoreError::CheckpointNotFound { .. } => Problem::new(Code::CheckpointNotFound, detail),
            StoreError::SavepointNotFound { .. } => Problem::new(Code::SavepointNotFound, detail),
            StoreError::NameTaken { .. } => Problem::new(Code::NameTaken, detail)
                .with_hint("choose another name, or update the job that has it"),
            StoreError::VersionMismatch { .. } => Problem::new(Code::VersionMismatch, detail)
                .with_hint(
                    "GET the job, apply the change to what it is now, and send its new ETag",
                ),
            StoreError::IdempotencyMismatch { .. } => {
                Problem::new(Code::IdempotencyKeyReused, detail)
                    .with_hint("use a fresh Idempotency-Key for every new request")
            }
            StoreError::InvalidState { .. } => Problem::new(Code::InvalidTransition, detail),
            StoreError::Drained { .. } => Problem::new(Code::JobDrained, detail)
                .with_hint("start it empty, or name a savepoint to start from it in spite of that"),
            StoreError::Unavailable { .. } | StoreError::NoConnection { .. } => {
                tracing::warn!(cause = chain(&error), "the database cannot be reached");
                Problem::new(Code::DatabaseUnavailable, detail)
                    .with_hint("jobs that run go on; try again when Postgres is back")
                    .with_retry_after(RETRY_AFTER_S)
            }
            StoreError::Fenced { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Url { .. }
            | StoreError::Migration { .. }
            | StoreError::Internal { .. } => Problem::internal("the store failed", &error),
        }
    }
}
