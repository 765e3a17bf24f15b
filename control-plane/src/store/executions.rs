//! Executions of a job.

use chrono::{DateTime, Utc};
use millrace_coordination::lifecycle::Restore;
use millrace_types::{ExecutionId, JobId, TenantName, VersionNumber, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{Lease, Result, Store, StoreError, convert};

/// One execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutionRecord {
    pub id: ExecutionId,
    pub version: VersionNumber,
    pub parallelism: u32,
    pub state: ExecutionState,
    pub started_at: DateTime<Utc>,
    /// When it began to process.
    pub running_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    /// `checkpoint 17` or `savepoint 2`; absent for an empty start.
    pub restored_from: Option<String>,
    pub failure: Option<String>,
}

/// How far an execution is, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutionState {
    Starting,
    Running,
    Finished,
    Stopped,
    Canceled,
    Failed,
    Replaced,
    Suspended,
}

impl ExecutionState {
    pub(crate) const ENDS: &'static [ExecutionState] = &[
        ExecutionState::Finished,
        ExecutionState::Stopped,
        ExecutionState::Canceled,
        ExecutionState::Failed,
        ExecutionState::Replaced,
        ExecutionState::Suspended,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ExecutionState::Starting => "starting",
            ExecutionState::Running => "running",
            ExecutionState::Finished => "finished",
            ExecutionState::Stopped => "stopped",
            ExecutionState::Canceled => "canceled",
            ExecutionState::Failed => "failed",
            ExecutionState::Replaced => "replaced",
            ExecutionState::Suspended => "suspended",
        }
    }

    fn parse_end(text: &str) -> Option<Self> {
        Self::ENDS
            .iter()
            .copied()
            .find(|state| state.as_str() == text)
    }
}

/// Which subtasks a worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerPlacement {
    pub worker: WorkerId,
    /// From and up to, exclusive.
    pub subtasks: std::ops::Range<u32>,
}

#[derive(sqlx::FromRow)]
struct ExecutionRow {
    id: Uuid,
    version: i64,
    parallelism: i64,
    restored_from: Value,
    started_at: DateTime<Utc>,
    running_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    end_reason: Option<String>,
    failure: Option<String>,
}

impl TryFrom<ExecutionRow> for ExecutionRecord {
    type Error = StoreError;

    fn try_from(row: ExecutionRow) -> Result<Self> {
        let state = match (&row.end_reason, &row.running_at) {
            (Some(reason), _) => {
                convert::state("end of an execution", reason, ExecutionState::parse_end)?
            }
            (None, Some(_)) => ExecutionState::Running,
            (None, None) => ExecutionState::Starting,
        };
        let restore: Restore = convert::from_json("restore", row.restored_from)?;
        Ok(ExecutionRecord {
            id: ExecutionId(row.id),
            version: convert::version(row.version)?,
            parallelism: convert::to_u32("parallelism", row.parallelism)?,
            state,
            started_at: row.started_at,
            running_at: row.running_at,
            ended_at: row.ended_at,
            restored_from: restore.checkpoint().map(|_| restore.to_string()),
            failure: row.failure,
        })
    }
}

const LIST: &str = "
    SELECT id, version, parallelism, restored_from, started_at, running_at, ended_at, end_reason, failure
    FROM executions
    WHERE tenant = $1 AND job = $2 AND ($3::uuid IS NULL OR id < $3)
    ORDER BY id DESC LIMIT $4";

const ONE: &str = "
    SELECT id, version, parallelism, restored_from, started_at, running_at, ended_at, end_reason, failure
    FROM executions WHERE tenant = $1 AND job = $2 AND id = $3";

const PLACE: &str = "
    UPDATE executions SET placement = $3
    WHERE job = $1 AND id = $2
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $4)";

impl Store {
    /// Newest first (ids are made in order of time); `after` is the last one of the page before.
    pub(crate) async fn list_executions(
        &self,
        tenant: &TenantName,
        job: JobId,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<ExecutionRecord>> {
        let rows: Vec<ExecutionRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(after.map(|id| id.0))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(ExecutionRecord::try_from).collect()
    }

    pub(crate) async fn get_execution(
        &self,
        tenant: &TenantName,
        job: JobId,
        execution: ExecutionId,
    ) -> Result<ExecutionRecord> {
        let row: Option<ExecutionRow> = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(execution.0)
            .fetch_optional(self.pool())
            .await?;
        row.ok_or_else(|| StoreError::ExecutionNotFound {
            job,
            execution: execution.to_string(),
        })?
        .try_into()
    }

    /// Notes which worker runs what, before it is deployed.
    pub(crate) async fn place_execution(
        &self,
        lease: &Lease,
        execution: ExecutionId,
        placement: &[WorkerPlacement],
    ) -> Result<()> {
        let placed = sqlx::query(PLACE)
            .bind(lease.job.0)
            .bind(execution.0)
            .bind(convert::to_json("placement", &placement)?)
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        lease.check(placed.rows_affected())
    }

    /// What [`Store::place_execution`] noted; empty if nothing.
    pub(crate) async fn placement(
        &self,
        lease: &Lease,
        execution: ExecutionId,
    ) -> Result<Vec<WorkerPlacement>> {
        let row: Option<(Option<Value>,)> =
            sqlx::query_as("SELECT placement FROM executions WHERE job = $1 AND id = $2")
                .bind(lease.job.0)
                .bind(execution.0)
                .fetch_optional(self.pool())
                .await?;
        match row {
            Some((Some(placement),)) => convert::from_json("placement", placement),
            Some((None,)) | None => Ok(Vec::new()),
        }
    }
}
