//! Leases of jobs, and what a driver loads under them.

use std::time::Duration;

use millrace_coordination::lifecycle::Job;
use millrace_types::{
    CheckpointId, DesiredState, Epoch, JobId, SavepointId, StartFrom, StopMode, TenantName,
    VersionNumber,
};
use serde_json::Value;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use super::{Result, Store, StoreError, convert, desired::parse_stop_mode};

/// The right to drive a job, until somebody else takes it with a higher epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub job: JobId,
    pub tenant: TenantName,
    pub epoch: Epoch,
}

impl Lease {
    pub(super) fn fenced(&self) -> StoreError {
        StoreError::Fenced {
            job: self.job,
            epoch: self.epoch,
        }
    }

    /// A write that checks the epoch and touched no row was fenced.
    pub(super) fn check(&self, rows_affected: u64) -> Result<()> {
        if rows_affected == 0 {
            Err(self.fenced())
        } else {
            Ok(())
        }
    }
}

/// What a driver needs of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DrivenJob {
    pub revision: u64,
    pub observed_revision: u64,
    pub command: u64,
    pub observed_command: u64,
    pub version: VersionNumber,
    pub desired: DesiredState,
    pub stop_mode: StopMode,
    pub start_from: StartFrom,
    /// Absent for a job that no driver has seen yet.
    pub core: Option<Job>,
    /// Steps committed so far.
    pub step: u64,
    pub last_checkpoint: CheckpointId,
    pub last_savepoint: SavepointId,
    pub errands: bool,
}

#[derive(sqlx::FromRow)]
struct LeaseRow {
    id: Uuid,
    tenant: String,
    lease_epoch: i64,
}

#[derive(sqlx::FromRow)]
struct DrivenRow {
    revision: i64,
    observed_revision: i64,
    command: i64,
    observed_command: i64,
    version: i64,
    desired_state: String,
    stop_mode: Option<String>,
    start_from: Value,
    core: Option<Value>,
    step: i64,
    last_checkpoint: i64,
    last_savepoint: i64,
    errands: bool,
}

/// A lease of an earlier life of this replica is free at once: names are unique among the living.
const ACQUIRE: &str = "
    UPDATE jobs
    SET lease_owner = $1, lease_incarnation = $2, lease_epoch = lease_epoch + 1,
        lease_expires_at = now() + make_interval(secs => $3)
    WHERE id IN (
        SELECT id FROM jobs
        WHERE needs_driver AND NOT (id = ANY($4))
          AND (lease_expires_at IS NULL OR lease_expires_at < now()
               OR (lease_owner = $1 AND lease_incarnation IS DISTINCT FROM $2))
        ORDER BY lease_expires_at NULLS FIRST
        LIMIT $5 FOR UPDATE SKIP LOCKED)
    RETURNING id, tenant, lease_epoch";

const RENEW: &str = "
    UPDATE jobs SET lease_expires_at = now() + make_interval(secs => $3)
    FROM unnest($1::uuid[], $2::bigint[]) AS held (job, epoch)
    WHERE jobs.id = held.job AND jobs.lease_epoch = held.epoch
    RETURNING jobs.id";

/// Only while there is nothing left to do, so that no request falls between two drivers.
const RELEASE: &str = "
    UPDATE jobs SET lease_owner = NULL, lease_incarnation = NULL, lease_expires_at = NULL
    WHERE id = $1 AND lease_epoch = $2 AND ($3 OR NOT needs_driver)";

const DRIVER: &str = "
    SELECT lease_owner FROM jobs
    WHERE id = $1 AND lease_owner IS NOT NULL AND lease_expires_at > now()";

const LOAD: &str = "
    SELECT revision, observed_revision, command, observed_command, version, desired_state,
           stop_mode, start_from, core, step, last_checkpoint, last_savepoint, errands
    FROM jobs WHERE id = $1 AND lease_epoch = $2";

const LOCK: &str = "SELECT 1 FROM jobs WHERE id = $1 AND lease_epoch = $2 FOR UPDATE";

const NEXT_SAVEPOINT: &str = "
    UPDATE jobs SET last_savepoint = last_savepoint + 1
    WHERE id = $1 AND lease_epoch = $2 RETURNING last_savepoint";

impl Store {
    /// Takes up to `limit` jobs that need a driver and have none.
    pub(crate) async fn acquire_leases(
        &self,
        owner: &str,
        incarnation: Uuid,
        duration: Duration,
        held: &[JobId],
        limit: u32,
    ) -> Result<Vec<Lease>> {
        let held: Vec<Uuid> = held.iter().map(|job| job.0).collect();
        let rows: Vec<LeaseRow> = sqlx::query_as(ACQUIRE)
            .bind(owner)
            .bind(incarnation)
            .bind(duration.as_secs_f64())
            .bind(held)
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter()
            .map(|row| {
                Ok(Lease {
                    job: JobId(row.id),
                    tenant: convert::text("tenant name", row.tenant, TenantName::new)?,
                    epoch: convert::epoch(row.lease_epoch)?,
                })
            })
            .collect()
    }

    /// Prolongs leases; those not returned are lost. An expired one that nobody has taken is
    /// prolonged too.
    pub(crate) async fn renew_leases(
        &self,
        leases: &[(JobId, Epoch)],
        duration: Duration,
    ) -> Result<Vec<JobId>> {
        let jobs: Vec<Uuid> = leases.iter().map(|(job, _)| job.0).collect();
        let epochs: Vec<i64> = leases
            .iter()
            .map(|(_, epoch)| convert::to_i64(epoch.0))
            .collect();
        let rows: Vec<(Uuid,)> = sqlx::query_as(RENEW)
            .bind(jobs)
            .bind(epochs)
            .bind(duration.as_secs_f64())
            .fetch_all(self.pool())
            .await?;
        Ok(rows.into_iter().map(|(id,)| JobId(id)).collect())
    }

    /// Gives a lease up. False: there is work again, go on. `always`: for a shutdown.
    pub(crate) async fn release_lease(&self, lease: &Lease, always: bool) -> Result<bool> {
        let released = sqlx::query(RELEASE)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .bind(always)
            .execute(self.pool())
            .await?;
        Ok(released.rows_affected() > 0)
    }

    /// The replica that drives the job, if one does.
    pub(crate) async fn driver_of(&self, job: JobId) -> Result<Option<String>> {
        let row: Option<(String,)> = sqlx::query_as(DRIVER)
            .bind(job.0)
            .fetch_optional(self.pool())
            .await?;
        Ok(row.map(|(owner,)| owner))
    }

    pub(crate) async fn load_job(&self, lease: &Lease) -> Result<DrivenJob> {
        let row: Option<DrivenRow> = sqlx::query_as(LOAD)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .fetch_optional(self.pool())
            .await?;
        let row = row.ok_or_else(|| lease.fenced())?;
        let stop_mode = match row.stop_mode {
            None => StopMode::default(),
            Some(text) => convert::state("stop mode", &text, parse_stop_mode)?,
        };
        Ok(DrivenJob {
            revision: convert::to_u64("revision", row.revision)?,
            observed_revision: convert::to_u64("revision", row.observed_revision)?,
            command: convert::to_u64("command", row.command)?,
            observed_command: convert::to_u64("command", row.observed_command)?,
            version: convert::version(row.version)?,
            desired: convert::state("desired state", &row.desired_state, DesiredState::parse)?,
            stop_mode,
            start_from: convert::from_json("start", row.start_from)?,
            core: row
                .core
                .map(|core| convert::from_json("lifecycle", core))
                .transpose()?,
            step: convert::to_u64("step", row.step)?,
            last_checkpoint: convert::checkpoint(row.last_checkpoint)?,
            last_savepoint: convert::savepoint(row.last_savepoint)?,
            errands: row.errands,
        })
    }

    /// A number for a savepoint that the driver may take.
    pub(crate) async fn next_savepoint(&self, lease: &Lease) -> Result<SavepointId> {
        let row: Option<(i64,)> = sqlx::query_as(NEXT_SAVEPOINT)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .fetch_optional(self.pool())
            .await?;
        let (number,) = row.ok_or_else(|| lease.fenced())?;
        convert::savepoint(number)
    }

    /// A transaction that holds the job's row under the lease.
    pub(super) async fn begin_fenced(
        &self,
        lease: &Lease,
    ) -> Result<Transaction<'static, Postgres>> {
        let mut tx = self.pool().begin().await?;
        let held = sqlx::query(LOCK)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .fetch_optional(&mut *tx)
            .await?;
        match held {
            Some(_) => Ok(tx),
            None => Err(lease.fenced()),
        }
    }
}
