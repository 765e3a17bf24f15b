//! Savepoints: asked for, taken, deleted.

use chrono::{DateTime, Utc};
use millrace_coordination::lifecycle::{Job, Restore};
use millrace_types::{
    CheckpointId, JobId, JobState, SavepointId, SavepointStatus, TenantName, VersionNumber,
};
use serde_json::Value;

use super::{
    JobRef, Lease, Result, Store, StoreError, convert,
    jobs::{announce, job_not_found},
};

/// One savepoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SavepointRecord {
    pub id: SavepointId,
    pub status: SavepointStatus,
    /// `request`, `stop` or `upgrade`: what it was taken for.
    pub origin: String,
    pub checkpoint: Option<CheckpointId>,
    /// The version whose state it holds.
    pub version: VersionNumber,
    pub created_at: DateTime<Utc>,
    pub completed_at: Option<DateTime<Utc>>,
    /// Object path.
    pub manifest: Option<String>,
    pub full_bytes: u64,
    pub failure: Option<String>,
}

/// Something a driver has to do about a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavepointErrand {
    Take(SavepointId),
    /// Delete its objects.
    Purge(SavepointId),
}

#[derive(sqlx::FromRow)]
struct SavepointRow {
    id: i64,
    status: String,
    origin: String,
    checkpoint: Option<i64>,
    version: i64,
    created_at: DateTime<Utc>,
    completed_at: Option<DateTime<Utc>>,
    manifest: Option<String>,
    full_bytes: i64,
    failure: Option<String>,
}

impl TryFrom<SavepointRow> for SavepointRecord {
    type Error = StoreError;

    fn try_from(row: SavepointRow) -> Result<Self> {
        Ok(SavepointRecord {
            id: convert::savepoint(row.id)?,
            status: convert::state("savepoint status", &row.status, SavepointStatus::parse)?,
            origin: row.origin,
            checkpoint: row.checkpoint.map(convert::checkpoint).transpose()?,
            version: convert::version(row.version)?,
            created_at: row.created_at,
            completed_at: row.completed_at,
            manifest: row.manifest,
            full_bytes: convert::to_u64("size", row.full_bytes)?,
            failure: row.failure,
        })
    }
}

const LIST: &str = "
    SELECT id, status, origin, checkpoint, version, created_at, completed_at, manifest, full_bytes, failure
    FROM savepoints
    WHERE tenant = $1 AND job = $2 AND ($3::bigint IS NULL OR id < $3)
    ORDER BY id DESC LIMIT $4";

const ONE: &str = "
    SELECT id, status, origin, checkpoint, version, created_at, completed_at, manifest, full_bytes, failure
    FROM savepoints WHERE tenant = $1 AND job = $2 AND id = $3";

const LOCK: &str = "
    SELECT shown_state, running_version, last_savepoint, core FROM jobs
    WHERE tenant = $1 AND id = $2 FOR UPDATE";

const INSERT: &str = "
    INSERT INTO savepoints (tenant, job, id, origin, version) VALUES ($1, $2, $3, 'request', $4)";

const COUNT: &str = "
    UPDATE jobs SET last_savepoint = $2, errands = true, updated_at = now() WHERE id = $1";

const MARK_DELETED: &str = "
    UPDATE savepoints SET status = 'deleted', purge = true WHERE job = $1 AND id = $2";

const SET_ERRANDS: &str = "UPDATE jobs SET errands = true WHERE id = $1";

const ERRANDS: &str = "
    SELECT id, purge FROM savepoints
    WHERE job = $1 AND (purge OR (status = 'in-progress' AND origin = 'request'))
    ORDER BY id";

const PURGED: &str = "
    UPDATE savepoints SET purge = false WHERE job = $1 AND id = $2
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $3)";

const CLEAR_ERRANDS: &str = "
    UPDATE jobs SET errands = false WHERE id = $1 AND lease_epoch = $2
      AND NOT EXISTS (
        SELECT 1 FROM savepoints
        WHERE job = $1 AND (purge OR (status = 'in-progress' AND origin = 'request')))";

const REFUSE: &str = "
    UPDATE savepoints SET status = 'failed', completed_at = now(), failure = $3
    WHERE job = $1 AND id = $2 AND status = 'in-progress'
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $4)";

impl Store {
    /// Asks for a savepoint of a running job. It is taken later: look at its status.
    pub(crate) async fn create_savepoint(
        &self,
        tenant: &TenantName,
        job: JobId,
    ) -> Result<SavepointRecord> {
        let mut tx = self.pool().begin().await?;
        let locked: Option<(String, Option<i64>, i64, Option<Value>)> = sqlx::query_as(LOCK)
            .bind(tenant.as_str())
            .bind(job.0)
            .fetch_optional(&mut *tx)
            .await?;
        let (state, running_version, last, _) =
            locked.ok_or_else(|| job_not_found(tenant, &JobRef::Id(job)))?;
        let state = convert::state("job state", &state, JobState::parse)?;
        let version = match (state, running_version) {
            (JobState::Running, Some(version)) => version,
            _ => {
                return Err(StoreError::InvalidState {
                    state,
                    what: "a savepoint can only be taken of a running job".into(),
                });
            }
        };
        sqlx::query(INSERT)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(last + 1)
            .bind(version)
            .execute(&mut *tx)
            .await?;
        sqlx::query(COUNT)
            .bind(job.0)
            .bind(last + 1)
            .execute(&mut *tx)
            .await?;
        announce(&mut tx, job).await?;
        let row: SavepointRow = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(last + 1)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        row.try_into()
    }

    /// Newest first; `after` is the last one of the page before.
    pub(crate) async fn list_savepoints(
        &self,
        tenant: &TenantName,
        job: JobId,
        after: Option<SavepointId>,
        limit: u32,
    ) -> Result<Vec<SavepointRecord>> {
        let rows: Vec<SavepointRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(after.map(|id| convert::to_i64(id.0)))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(SavepointRecord::try_from).collect()
    }

    pub(crate) async fn get_savepoint(
        &self,
        tenant: &TenantName,
        job: JobId,
        savepoint: SavepointId,
    ) -> Result<SavepointRecord> {
        let row: Option<SavepointRow> = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(convert::to_i64(savepoint.0))
            .fetch_optional(self.pool())
            .await?;
        row.ok_or_else(|| savepoint_not_found(job, savepoint))?
            .try_into()
    }

    /// Deletes a savepoint that nothing depends on; its objects go later.
    pub(crate) async fn delete_savepoint(
        &self,
        tenant: &TenantName,
        job: JobId,
        savepoint: SavepointId,
    ) -> Result<()> {
        let mut tx = self.pool().begin().await?;
        let locked: Option<(String, Option<i64>, i64, Option<Value>)> = sqlx::query_as(LOCK)
            .bind(tenant.as_str())
            .bind(job.0)
            .fetch_optional(&mut *tx)
            .await?;
        let (state, _, _, core) = locked.ok_or_else(|| job_not_found(tenant, &JobRef::Id(job)))?;
        let state = convert::state("job state", &state, JobState::parse)?;
        let row: Option<SavepointRow> = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(convert::to_i64(savepoint.0))
            .fetch_optional(&mut *tx)
            .await?;
        let record =
            SavepointRecord::try_from(row.ok_or_else(|| savepoint_not_found(job, savepoint))?)?;
        match record.status {
            SavepointStatus::Completed | SavepointStatus::Failed => {}
            SavepointStatus::Deleted => return Ok(()),
            SavepointStatus::InProgress => {
                return Err(StoreError::InvalidState {
                    state,
                    what: format!("savepoint {savepoint} is still being taken"),
                });
            }
        }
        if let Some(core) = core {
            let core: Job = convert::from_json("lifecycle", core)?;
            let used = |restore: &Restore| matches!(restore, Restore::Savepoint { savepoint: used, .. } if *used == savepoint);
            let fallback = core.context.trial.as_ref().map(|trial| &trial.fallback);
            if used(&core.context.restore) || fallback.is_some_and(|back| used(&back.restore)) {
                return Err(StoreError::InvalidState {
                    state,
                    what: format!(
                        "savepoint {savepoint} is what it would restart from; delete it after the next checkpoint, or with the job"
                    ),
                });
            }
        }
        sqlx::query(MARK_DELETED)
            .bind(job.0)
            .bind(convert::to_i64(savepoint.0))
            .execute(&mut *tx)
            .await?;
        sqlx::query(SET_ERRANDS)
            .bind(job.0)
            .execute(&mut *tx)
            .await?;
        announce(&mut tx, job).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Savepoints to take or whose objects are to be deleted.
    pub(crate) async fn savepoint_errands(&self, lease: &Lease) -> Result<Vec<SavepointErrand>> {
        let rows: Vec<(i64, bool)> = sqlx::query_as(ERRANDS)
            .bind(lease.job.0)
            .fetch_all(self.pool())
            .await?;
        rows.into_iter()
            .map(|(id, purge)| {
                let savepoint = convert::savepoint(id)?;
                Ok(if purge {
                    SavepointErrand::Purge(savepoint)
                } else {
                    SavepointErrand::Take(savepoint)
                })
            })
            .collect()
    }

    /// The objects of a deleted savepoint are gone.
    pub(crate) async fn savepoint_purged(
        &self,
        lease: &Lease,
        savepoint: SavepointId,
    ) -> Result<()> {
        let purged = sqlx::query(PURGED)
            .bind(lease.job.0)
            .bind(convert::to_i64(savepoint.0))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        lease.check(purged.rows_affected())
    }

    /// Notes that there are no more errands, if there are none.
    pub(crate) async fn clear_errands(&self, lease: &Lease) -> Result<()> {
        sqlx::query(CLEAR_ERRANDS)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// A savepoint that was asked for will not be taken.
    pub(crate) async fn refuse_savepoint(
        &self,
        lease: &Lease,
        savepoint: SavepointId,
        reason: &str,
    ) -> Result<()> {
        sqlx::query(REFUSE)
            .bind(lease.job.0)
            .bind(convert::to_i64(savepoint.0))
            .bind(reason.replace('\0', ""))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        Ok(())
    }
}

fn savepoint_not_found(job: JobId, savepoint: SavepointId) -> StoreError {
    StoreError::SavepointNotFound {
        job,
        savepoint: savepoint.to_string(),
    }
}
