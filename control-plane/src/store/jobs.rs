//! Jobs: create, find, list, and change the spec.

use chrono::{DateTime, Utc};
use millrace_types::{
    Condition, DesiredState, ExecutionId, Fingerprint, JobId, JobName, JobSpec, JobState,
    TenantName, VersionNumber,
};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{NewEvent, Result, Store, StoreError, convert, events};

/// A job as the API shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobRecord {
    pub id: JobId,
    pub tenant: TenantName,
    pub name: JobName,
    /// The version that the job shall run; its spec and fingerprint follow.
    pub version: VersionNumber,
    pub spec: JobSpec,
    pub fingerprint: Fingerprint,
    pub state: JobState,
    pub condition: Condition,
    /// Why the job is degraded, restarting or failed.
    pub reason: Option<String>,
    pub desired: DesiredState,
    /// Since the job was last healthy for a while.
    pub failures: u32,
    pub execution: Option<ExecutionId>,
    pub running_version: Option<VersionNumber>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// How a caller names a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobRef {
    Id(JobId),
    Name(JobName),
}

impl std::fmt::Display for JobRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobRef::Id(id) => id.fmt(f),
            JobRef::Name(name) => name.fmt(f),
        }
    }
}

/// A job to create.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewJob {
    pub spec: JobSpec,
    pub fingerprint: Fingerprint,
    /// Whether to start it at once.
    pub start: bool,
    /// The caller's key and a digest of the request: a repeated request gets the first one's job.
    pub idempotency: Option<(String, String)>,
}

/// Which jobs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobFilter {
    pub state: Option<JobState>,
    pub name_prefix: Option<String>,
}

#[derive(sqlx::FromRow)]
pub(super) struct JobRow {
    id: Uuid,
    tenant: String,
    name: String,
    version: i64,
    spec: Value,
    fingerprint: String,
    shown_state: String,
    condition: String,
    condition_reason: Option<String>,
    failure: Option<String>,
    desired_state: String,
    failures: i64,
    execution: Option<Uuid>,
    running_version: Option<i64>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<JobRow> for JobRecord {
    type Error = StoreError;

    fn try_from(row: JobRow) -> Result<Self> {
        let state = convert::state("job state", &row.shown_state, JobState::parse)?;
        let failure = match state {
            JobState::Restarting
            | JobState::Upgrading
            | JobState::Rescaling
            | JobState::Starting
            | JobState::Failed => row.failure,
            JobState::Created
            | JobState::Running
            | JobState::Stopping
            | JobState::Stopped
            | JobState::Finished
            | JobState::Canceled => None,
        };
        Ok(JobRecord {
            id: JobId(row.id),
            tenant: convert::text("tenant name", row.tenant, TenantName::new)?,
            name: convert::text("job name", row.name, JobName::new)?,
            version: convert::version(row.version)?,
            spec: convert::from_json("job spec", row.spec)?,
            fingerprint: Fingerprint(row.fingerprint),
            state,
            condition: convert::state("condition", &row.condition, Condition::parse)?,
            reason: row.condition_reason.or(failure),
            desired: convert::state("desired state", &row.desired_state, DesiredState::parse)?,
            failures: convert::to_u32("number of failures", row.failures)?,
            execution: row.execution.map(ExecutionId),
            running_version: row.running_version.map(convert::version).transpose()?,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

const BY_ID: &str = "
    SELECT j.id, j.tenant, j.name, j.version, v.spec, v.fingerprint, j.shown_state, j.condition,
           j.condition_reason, j.failure, j.desired_state, j.failures, j.execution,
           j.running_version, j.created_at, j.updated_at
    FROM jobs j JOIN job_versions v ON v.job = j.id AND v.version = j.version
    WHERE j.tenant = $1 AND j.id = $2";

const BY_NAME: &str = "
    SELECT j.id, j.tenant, j.name, j.version, v.spec, v.fingerprint, j.shown_state, j.condition,
           j.condition_reason, j.failure, j.desired_state, j.failures, j.execution,
           j.running_version, j.created_at, j.updated_at
    FROM jobs j JOIN job_versions v ON v.job = j.id AND v.version = j.version
    WHERE j.tenant = $1 AND j.name = $2";

const LIST: &str = "
    SELECT j.id, j.tenant, j.name, j.version, v.spec, v.fingerprint, j.shown_state, j.condition,
           j.condition_reason, j.failure, j.desired_state, j.failures, j.execution,
           j.running_version, j.created_at, j.updated_at
    FROM jobs j JOIN job_versions v ON v.job = j.id AND v.version = j.version
    WHERE j.tenant = $1
      AND ($2::uuid IS NULL OR j.id > $2)
      AND ($3::text IS NULL OR j.shown_state = $3)
      AND ($4::text IS NULL OR starts_with(j.name, $4))
    ORDER BY j.id
    LIMIT $5";

const INSERT_JOB: &str = "
    INSERT INTO jobs (id, tenant, name, desired_state, command)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant, name) DO NOTHING";

const INSERT_VERSION: &str = "
    INSERT INTO job_versions (tenant, job, version, spec, fingerprint) VALUES ($1, $2, $3, $4, $5)";

const CLAIM_KEY: &str = "
    INSERT INTO idempotency_keys (tenant, key, request_hash, job) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, key) DO NOTHING";

const READ_KEY: &str =
    "SELECT request_hash, job FROM idempotency_keys WHERE tenant = $1 AND key = $2";

const LOCK_FOR_UPDATE: &str = "
    SELECT version, last_version, shown_state, desired_state FROM jobs
    WHERE tenant = $1 AND id = $2 FOR UPDATE";

const SET_VERSION: &str = "
    UPDATE jobs SET version = $2, last_version = $2, revision = revision + 1, updated_at = now()
    WHERE id = $1";

impl Store {
    /// Whether the tenant exists.
    pub(crate) async fn check_tenant(&self, tenant: &TenantName) -> Result<()> {
        let found = sqlx::query("SELECT 1 FROM tenants WHERE name = $1")
            .bind(tenant.as_str())
            .fetch_optional(self.pool())
            .await?;
        match found {
            Some(_) => Ok(()),
            None => Err(StoreError::TenantNotFound {
                tenant: tenant.clone(),
            }),
        }
    }

    /// Creates a job. False: a request with the same idempotency key created it before.
    pub(crate) async fn create_job(
        &self,
        tenant: &TenantName,
        new: NewJob,
    ) -> Result<(JobRecord, bool)> {
        self.check_tenant(tenant).await?;
        let id = JobId(Uuid::now_v7());
        let mut tx = self.pool().begin().await?;
        if let Some((key, digest)) = &new.idempotency {
            let claimed = sqlx::query(CLAIM_KEY)
                .bind(tenant.as_str())
                .bind(key)
                .bind(digest)
                .bind(id.0)
                .execute(&mut *tx)
                .await?;
            if claimed.rows_affected() == 0 {
                let (used_for, job): (String, Uuid) = sqlx::query_as(READ_KEY)
                    .bind(tenant.as_str())
                    .bind(key)
                    .fetch_one(&mut *tx)
                    .await?;
                if used_for != *digest {
                    return Err(StoreError::IdempotencyMismatch { key: key.clone() });
                }
                let job = JobId(job);
                let record = fetch(&mut tx, tenant, &JobRef::Id(job)).await?;
                return Ok((record, false));
            }
        }
        let desired = if new.start {
            DesiredState::Running
        } else {
            DesiredState::Stopped
        };
        let inserted = sqlx::query(INSERT_JOB)
            .bind(id.0)
            .bind(tenant.as_str())
            .bind(new.spec.name.as_str())
            .bind(desired.as_str())
            .bind(i64::from(new.start))
            .execute(&mut *tx)
            .await?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::NameTaken {
                name: new.spec.name.to_string(),
            });
        }
        sqlx::query(INSERT_VERSION)
            .bind(tenant.as_str())
            .bind(id.0)
            .bind(1_i64)
            .bind(convert::to_json("job spec", &new.spec)?)
            .bind(&new.fingerprint.0)
            .execute(&mut *tx)
            .await?;
        announce(&mut tx, id).await?;
        let record = fetch(&mut tx, tenant, &JobRef::Id(id)).await?;
        tx.commit().await?;
        Ok((record, true))
    }

    pub(crate) async fn get_job(&self, tenant: &TenantName, job: &JobRef) -> Result<JobRecord> {
        let mut connection = self.pool().acquire().await?;
        let found = fetch(&mut connection, tenant, job).await;
        if matches!(found, Err(StoreError::JobNotFound { .. })) {
            self.check_tenant(tenant).await?;
        }
        found
    }

    /// Jobs in the order of their ids, which is the order of their creation.
    pub(crate) async fn list_jobs(
        &self,
        tenant: &TenantName,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<JobRecord>> {
        self.check_tenant(tenant).await?;
        let rows: Vec<JobRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(after.map(|id| id.0))
            .bind(filter.state.map(JobState::as_str))
            .bind(filter.name_prefix.as_deref())
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(JobRecord::try_from).collect()
    }

    /// As [`Store::change_job`], without an entry in the history.
    #[cfg(test)]
    pub(crate) async fn update_job(
        &self,
        tenant: &TenantName,
        job: JobId,
        expected: VersionNumber,
        spec: JobSpec,
        fingerprint: Fingerprint,
    ) -> Result<JobRecord> {
        self.change_job(tenant, job, expected, spec, fingerprint, |_| None)
            .await
    }

    /// Adds a version, to which the job moves, if `expected` is its version. `note` gets the new
    /// version's number and says what the history shall tell of it.
    pub(crate) async fn change_job(
        &self,
        tenant: &TenantName,
        job: JobId,
        expected: VersionNumber,
        spec: JobSpec,
        fingerprint: Fingerprint,
        note: impl FnOnce(VersionNumber) -> Option<NewEvent>,
    ) -> Result<JobRecord> {
        let mut tx = self.pool().begin().await?;
        let locked: Option<(i64, i64, String, String)> = sqlx::query_as(LOCK_FOR_UPDATE)
            .bind(tenant.as_str())
            .bind(job.0)
            .fetch_optional(&mut *tx)
            .await?;
        let (current, last, state, desired) =
            locked.ok_or_else(|| job_not_found(tenant, &JobRef::Id(job)))?;
        let current = convert::version(current)?;
        if current != expected {
            return Err(StoreError::VersionMismatch { expected, current });
        }
        if desired == DesiredState::Deleted.as_str() {
            return Err(StoreError::InvalidState {
                state: convert::state("job state", &state, JobState::parse)?,
                what: "it is being deleted, its spec cannot be changed".into(),
            });
        }
        sqlx::query(INSERT_VERSION)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(last + 1)
            .bind(convert::to_json("job spec", &spec)?)
            .bind(&fingerprint.0)
            .execute(&mut *tx)
            .await?;
        sqlx::query(SET_VERSION)
            .bind(job.0)
            .bind(last + 1)
            .execute(&mut *tx)
            .await?;
        if let Some(event) = note(convert::version(last + 1)?) {
            events::insert_for(&mut tx, tenant, job, &event).await?;
        }
        announce(&mut tx, job).await?;
        let record = fetch(&mut tx, tenant, &JobRef::Id(job)).await?;
        tx.commit().await?;
        Ok(record)
    }
}

pub(super) fn job_not_found(tenant: &TenantName, job: &JobRef) -> StoreError {
    StoreError::JobNotFound {
        tenant: tenant.clone(),
        job: job.to_string(),
    }
}

pub(super) async fn fetch(
    connection: &mut PgConnection,
    tenant: &TenantName,
    job: &JobRef,
) -> Result<JobRecord> {
    let query = match job {
        JobRef::Id(id) => sqlx::query_as(BY_ID).bind(tenant.as_str()).bind(id.0),
        JobRef::Name(name) => sqlx::query_as(BY_NAME)
            .bind(tenant.as_str())
            .bind(name.to_string()),
    };
    let row: Option<JobRow> = query.fetch_optional(connection).await?;
    row.ok_or_else(|| job_not_found(tenant, job))?.try_into()
}

/// Tells all replicas, once the transaction is committed.
pub(super) async fn announce(connection: &mut PgConnection, job: JobId) -> Result<()> {
    sqlx::query("SELECT pg_notify('millrace_jobs', $1)")
        .bind(job.to_string())
        .execute(connection)
        .await?;
    Ok(())
}
