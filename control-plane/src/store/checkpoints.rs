//! Checkpoints: begun, completed, failed, deleted.

use chrono::{DateTime, Utc};
use millrace_coordination::checkpoint::Barrier;
use millrace_types::{
    CheckpointId, CheckpointStatus, ExecutionId, JobId, SavepointId, TenantName, VersionNumber,
};
use uuid::Uuid;

use super::{Lease, Result, Store, StoreError, convert};

/// One checkpoint, or the barrier of a savepoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckpointRecord {
    pub id: CheckpointId,
    /// The savepoint it wrote, if it was one.
    pub savepoint: Option<SavepointId>,
    pub execution: ExecutionId,
    pub version: VersionNumber,
    pub status: CheckpointStatus,
    /// The execution ended with it.
    pub last: bool,
    pub started_at: DateTime<Utc>,
    pub completed_at: Option<DateTime<Utc>>,
    /// Object path.
    pub manifest: Option<String>,
    pub full_bytes: u64,
    pub uploaded_bytes: u64,
    /// The longest of all subtasks, in milliseconds, as the next two.
    pub alignment_ms: u64,
    pub pause_ms: u64,
    pub async_ms: u64,
    pub failure: Option<String>,
}

impl CheckpointRecord {
    pub(crate) fn barrier(&self) -> Barrier {
        Barrier {
            checkpoint: self.id,
            savepoint: self.savepoint,
            last: self.last,
        }
    }
}

/// What is known of a completed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointDone {
    pub manifest: String,
    pub full_bytes: u64,
    pub uploaded_bytes: u64,
    pub alignment_ms: u64,
    pub pause_ms: u64,
    pub async_ms: u64,
}

#[derive(sqlx::FromRow)]
struct CheckpointRow {
    id: i64,
    savepoint: Option<i64>,
    execution: Uuid,
    version: i64,
    status: String,
    last: bool,
    started_at: DateTime<Utc>,
    completed_at: Option<DateTime<Utc>>,
    manifest: Option<String>,
    full_bytes: i64,
    uploaded_bytes: i64,
    alignment_ms: i64,
    pause_ms: i64,
    async_ms: i64,
    failure: Option<String>,
}

impl TryFrom<CheckpointRow> for CheckpointRecord {
    type Error = StoreError;

    fn try_from(row: CheckpointRow) -> Result<Self> {
        Ok(CheckpointRecord {
            id: convert::checkpoint(row.id)?,
            savepoint: row.savepoint.map(convert::savepoint).transpose()?,
            execution: ExecutionId(row.execution),
            version: convert::version(row.version)?,
            status: convert::state("checkpoint status", &row.status, CheckpointStatus::parse)?,
            last: row.last,
            started_at: row.started_at,
            completed_at: row.completed_at,
            manifest: row.manifest,
            full_bytes: convert::to_u64("size", row.full_bytes)?,
            uploaded_bytes: convert::to_u64("size", row.uploaded_bytes)?,
            alignment_ms: convert::to_u64("duration", row.alignment_ms)?,
            pause_ms: convert::to_u64("duration", row.pause_ms)?,
            async_ms: convert::to_u64("duration", row.async_ms)?,
            failure: row.failure,
        })
    }
}

const LIST: &str = "
    SELECT id, savepoint, execution, version, status, final AS last, started_at, completed_at,
           manifest, full_bytes, uploaded_bytes, alignment_ms, pause_ms, async_ms, failure
    FROM checkpoints
    WHERE tenant = $1 AND job = $2 AND ($3::bigint IS NULL OR id < $3)
    ORDER BY id DESC LIMIT $4";

const ONE: &str = "
    SELECT id, savepoint, execution, version, status, final AS last, started_at, completed_at,
           manifest, full_bytes, uploaded_bytes, alignment_ms, pause_ms, async_ms, failure
    FROM checkpoints WHERE tenant = $1 AND job = $2 AND id = $3";

/// What is not over: in progress, or completed and still kept.
const LIVE: &str = "
    SELECT id, savepoint, execution, version, status, final AS last, started_at, completed_at,
           manifest, full_bytes, uploaded_bytes, alignment_ms, pause_ms, async_ms, failure
    FROM checkpoints WHERE job = $1 AND status IN ('in-progress', 'completed') ORDER BY id";

const COUNT: &str = "UPDATE jobs SET last_checkpoint = $2 WHERE id = $1 AND last_checkpoint < $2";

const BEGIN: &str = "
    INSERT INTO checkpoints (tenant, job, id, savepoint, execution, version, final)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (job, id) DO NOTHING";

const COMPLETE: &str = "
    UPDATE checkpoints
    SET status = 'completed', completed_at = now(), manifest = $3, full_bytes = $4,
        uploaded_bytes = $5, alignment_ms = $6, pause_ms = $7, async_ms = $8
    WHERE job = $1 AND id = $2 AND status = 'in-progress'";

const STATUS: &str = "SELECT status FROM checkpoints WHERE job = $1 AND id = $2";

/// Also one whose earlier barrier failed: what counts is the barrier that wrote it.
const COMPLETE_SAVEPOINT: &str = "
    UPDATE savepoints
    SET status = 'completed', completed_at = now(), checkpoint = $3, manifest = $4,
        full_bytes = $5, failure = NULL
    WHERE job = $1 AND id = $2 AND status IN ('in-progress', 'failed')";

const FAIL: &str = "
    UPDATE checkpoints SET status = 'failed', completed_at = now(), failure = $3
    WHERE job = $1 AND id = $2 AND status = 'in-progress'";

const FAIL_SAVEPOINT: &str = "
    UPDATE savepoints SET status = 'failed', completed_at = now(), failure = $3
    WHERE job = $1 AND id = $2 AND status = 'in-progress'";

const DELETE: &str = "
    UPDATE checkpoints SET status = 'deleted' WHERE job = $1 AND id = $2
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $3)";

impl Store {
    /// Newest first; `after` is the last one of the page before.
    pub(crate) async fn list_checkpoints(
        &self,
        tenant: &TenantName,
        job: JobId,
        after: Option<CheckpointId>,
        limit: u32,
    ) -> Result<Vec<CheckpointRecord>> {
        let rows: Vec<CheckpointRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(after.map(|id| convert::to_i64(id.0)))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(CheckpointRecord::try_from).collect()
    }

    pub(crate) async fn get_checkpoint(
        &self,
        tenant: &TenantName,
        job: JobId,
        checkpoint: CheckpointId,
    ) -> Result<CheckpointRecord> {
        let row: Option<CheckpointRow> = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(convert::to_i64(checkpoint.0))
            .fetch_optional(self.pool())
            .await?;
        row.ok_or_else(|| StoreError::CheckpointNotFound {
            job,
            checkpoint: checkpoint.to_string(),
        })?
        .try_into()
    }

    /// Checkpoints in progress and those completed and kept, oldest first.
    pub(crate) async fn live_checkpoints(&self, lease: &Lease) -> Result<Vec<CheckpointRecord>> {
        let rows: Vec<CheckpointRow> = sqlx::query_as(LIVE)
            .bind(lease.job.0)
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(CheckpointRecord::try_from).collect()
    }

    /// Notes a barrier before it is sent. Can be repeated.
    pub(crate) async fn begin_checkpoint(
        &self,
        lease: &Lease,
        execution: ExecutionId,
        version: VersionNumber,
        barrier: &Barrier,
    ) -> Result<()> {
        let mut tx = self.begin_fenced(lease).await?;
        let id = convert::to_i64(barrier.checkpoint.0);
        sqlx::query(COUNT)
            .bind(lease.job.0)
            .bind(id)
            .execute(&mut *tx)
            .await?;
        sqlx::query(BEGIN)
            .bind(lease.tenant.as_str())
            .bind(lease.job.0)
            .bind(id)
            .bind(barrier.savepoint.map(|id| convert::to_i64(id.0)))
            .bind(execution.0)
            .bind(i64::from(version.0))
            .bind(barrier.last)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Completes a barrier whose manifest is written. False: it was given up meanwhile. Can be
    /// repeated.
    pub(crate) async fn complete_checkpoint(
        &self,
        lease: &Lease,
        barrier: &Barrier,
        done: &CheckpointDone,
    ) -> Result<bool> {
        let mut tx = self.begin_fenced(lease).await?;
        let id = convert::to_i64(barrier.checkpoint.0);
        let full_bytes = convert::to_i64(done.full_bytes);
        let completed = sqlx::query(COMPLETE)
            .bind(lease.job.0)
            .bind(id)
            .bind(&done.manifest)
            .bind(full_bytes)
            .bind(convert::to_i64(done.uploaded_bytes))
            .bind(convert::to_i64(done.alignment_ms))
            .bind(convert::to_i64(done.pause_ms))
            .bind(convert::to_i64(done.async_ms))
            .execute(&mut *tx)
            .await?;
        if completed.rows_affected() == 0 {
            // Perhaps a repetition of a commit whose answer was lost.
            let status: Option<(String,)> = sqlx::query_as(STATUS)
                .bind(lease.job.0)
                .bind(id)
                .fetch_optional(&mut *tx)
                .await?;
            return Ok(
                status.is_some_and(|(status,)| status == CheckpointStatus::Completed.as_str())
            );
        }
        if let Some(savepoint) = barrier.savepoint {
            sqlx::query(COMPLETE_SAVEPOINT)
                .bind(lease.job.0)
                .bind(convert::to_i64(savepoint.0))
                .bind(id)
                .bind(&done.manifest)
                .bind(full_bytes)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Gives a barrier up, and the savepoint that fails with it. Can be repeated.
    pub(crate) async fn fail_checkpoint(
        &self,
        lease: &Lease,
        checkpoint: CheckpointId,
        savepoint: Option<SavepointId>,
        reason: &str,
    ) -> Result<()> {
        let mut tx = self.begin_fenced(lease).await?;
        let reason = reason.replace('\0', "");
        sqlx::query(FAIL)
            .bind(lease.job.0)
            .bind(convert::to_i64(checkpoint.0))
            .bind(&reason)
            .execute(&mut *tx)
            .await?;
        if let Some(savepoint) = savepoint {
            sqlx::query(FAIL_SAVEPOINT)
                .bind(lease.job.0)
                .bind(convert::to_i64(savepoint.0))
                .bind(&reason)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// The checkpoint is no longer kept. Before its objects are deleted.
    pub(crate) async fn delete_checkpoint(
        &self,
        lease: &Lease,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        let deleted = sqlx::query(DELETE)
            .bind(lease.job.0)
            .bind(convert::to_i64(checkpoint.0))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        lease.check(deleted.rows_affected())
    }
}
