//! Worker processes: provisioned by a driver, registered by themselves.

use chrono::{DateTime, Utc};
use millrace_types::{ExecutionId, JobId, TenantName, WorkerId};
use uuid::Uuid;

use super::{Lease, Result, Store, StoreError, convert, jobs::announce};

/// One worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WorkerRecord {
    pub id: WorkerId,
    pub job: JobId,
    pub tenant: TenantName,
    pub state: WorkerRowState,
    pub slots: u32,
    pub memory_mib: u32,
    pub pid: Option<u32>,
    /// `host:port` of its gRPC server, once registered.
    pub address: Option<String>,
    pub version: Option<String>,
    /// What it said it runs when it registered last.
    pub execution: Option<ExecutionId>,
    pub started_at: DateTime<Utc>,
    pub last_seen: Option<DateTime<Utc>>,
    pub gone_reason: Option<String>,
}

/// What is known of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerRowState {
    /// Provisioned, not registered yet.
    Starting,
    Registered,
    Gone,
}

impl WorkerRowState {
    pub(crate) const ALL: &'static [WorkerRowState] = &[
        WorkerRowState::Starting,
        WorkerRowState::Registered,
        WorkerRowState::Gone,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WorkerRowState::Starting => "starting",
            WorkerRowState::Registered => "registered",
            WorkerRowState::Gone => "gone",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|state| state.as_str() == text)
    }
}

/// A worker that is about to be provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewWorker {
    pub id: WorkerId,
    pub slots: u32,
    pub memory_mib: u32,
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    pub worker: WorkerId,
    pub job: JobId,
    pub address: String,
    pub slots: u32,
    pub pid: u32,
    pub version: String,
    pub execution: Option<ExecutionId>,
}

#[derive(sqlx::FromRow)]
struct WorkerRow {
    id: Uuid,
    job: Uuid,
    tenant: String,
    state: String,
    slots: i64,
    memory_mib: i64,
    pid: Option<i64>,
    address: Option<String>,
    worker_version: Option<String>,
    execution: Option<Uuid>,
    started_at: DateTime<Utc>,
    last_seen_at: Option<DateTime<Utc>>,
    gone_reason: Option<String>,
}

impl TryFrom<WorkerRow> for WorkerRecord {
    type Error = StoreError;

    fn try_from(row: WorkerRow) -> Result<Self> {
        Ok(WorkerRecord {
            id: WorkerId(row.id),
            job: JobId(row.job),
            tenant: convert::text("tenant name", row.tenant, TenantName::new)?,
            state: convert::state("worker state", &row.state, WorkerRowState::parse)?,
            slots: convert::to_u32("number of slots", row.slots)?,
            memory_mib: convert::to_u32("memory size", row.memory_mib)?,
            pid: row
                .pid
                .map(|pid| convert::to_u32("process id", pid))
                .transpose()?,
            address: row.address,
            version: row.worker_version,
            execution: row.execution.map(ExecutionId),
            started_at: row.started_at,
            last_seen: row.last_seen_at,
            gone_reason: row.gone_reason,
        })
    }
}

const LIST: &str = "
    SELECT id, job, tenant, state, slots, memory_mib, pid, address, worker_version, execution,
           started_at, last_seen_at, gone_reason
    FROM workers
    WHERE state <> 'gone' AND ($1::uuid IS NULL OR job = $1) AND ($2::uuid IS NULL OR id > $2)
    ORDER BY id LIMIT $3";

const OF_JOB: &str = "
    SELECT id, job, tenant, state, slots, memory_mib, pid, address, worker_version, execution,
           started_at, last_seen_at, gone_reason
    FROM workers WHERE job = $1 AND state <> 'gone' ORDER BY id";

const INSERT: &str = "
    INSERT INTO workers (tenant, job, id, slots, memory_mib)
    SELECT $1, $2, $3, $4, $5 FROM jobs WHERE jobs.id = $2 AND lease_epoch = $6";

const SET_PID: &str = "
    UPDATE workers SET pid = $3 WHERE job = $1 AND id = $2
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $4)";

const SET_GONE: &str = "
    UPDATE workers SET state = 'gone', gone_at = now(), gone_reason = $3
    WHERE job = $1 AND id = $2 AND state <> 'gone'
      AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = $1 AND lease_epoch = $4)";

/// `changed` tells whether a driver that waits for this worker has something to see.
const REGISTER: &str = "
    WITH former AS (SELECT id, state, address FROM workers WHERE id = $1 FOR UPDATE)
    UPDATE workers w
    SET state = 'registered', address = $3, slots = $4, pid = $5, worker_version = $6,
        execution = $7, last_seen_at = now(), registered_at = coalesce(w.registered_at, now())
    FROM former
    WHERE w.id = $1 AND w.job = $2 AND w.state <> 'gone'
    RETURNING former.state <> 'registered' OR former.address IS DISTINCT FROM $3";

impl Store {
    /// Workers that are there or expected, by id.
    pub(crate) async fn list_workers(
        &self,
        job: Option<JobId>,
        after: Option<WorkerId>,
        limit: u32,
    ) -> Result<Vec<WorkerRecord>> {
        let rows: Vec<WorkerRow> = sqlx::query_as(LIST)
            .bind(job.map(|id| id.0))
            .bind(after.map(|id| id.0))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(WorkerRecord::try_from).collect()
    }

    /// Takes a worker's registration in. False: nobody wants it, it should exit.
    pub(crate) async fn register_worker(&self, registration: &Registration) -> Result<bool> {
        let mut tx = self.pool().begin().await?;
        let row: Option<(bool,)> = sqlx::query_as(REGISTER)
            .bind(registration.worker.0)
            .bind(registration.job.0)
            .bind(&registration.address)
            .bind(i64::from(registration.slots))
            .bind(i64::from(registration.pid))
            .bind(&registration.version)
            .bind(registration.execution.map(|id| id.0))
            .fetch_optional(&mut *tx)
            .await?;
        let Some((changed,)) = row else {
            return Ok(false);
        };
        if changed {
            announce(&mut tx, registration.job).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// All workers of the job that are not gone.
    pub(crate) async fn workers_of(&self, lease: &Lease) -> Result<Vec<WorkerRecord>> {
        let rows: Vec<WorkerRow> = sqlx::query_as(OF_JOB)
            .bind(lease.job.0)
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(WorkerRecord::try_from).collect()
    }

    /// Announces a worker, before it is provisioned.
    pub(crate) async fn add_worker(&self, lease: &Lease, worker: &NewWorker) -> Result<()> {
        let added = sqlx::query(INSERT)
            .bind(lease.tenant.as_str())
            .bind(lease.job.0)
            .bind(worker.id.0)
            .bind(i64::from(worker.slots))
            .bind(i64::from(worker.memory_mib))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        lease.check(added.rows_affected())
    }

    pub(crate) async fn set_worker_pid(
        &self,
        lease: &Lease,
        worker: WorkerId,
        pid: u32,
    ) -> Result<()> {
        sqlx::query(SET_PID)
            .bind(lease.job.0)
            .bind(worker.0)
            .bind(i64::from(pid))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// The worker has ended, or is given up; it will not be let in again.
    pub(crate) async fn worker_gone(
        &self,
        lease: &Lease,
        worker: WorkerId,
        reason: &str,
    ) -> Result<()> {
        sqlx::query(SET_GONE)
            .bind(lease.job.0)
            .bind(worker.0)
            .bind(reason.replace('\0', ""))
            .bind(convert::to_i64(lease.epoch.0))
            .execute(self.pool())
            .await?;
        Ok(())
    }
}
