//! One step of a job's lifecycle, committed: the job and everything the step writes.

use millrace_coordination::lifecycle::{
    ExecutionEnd, Job, Rest, SavepointOrigin, Severity, State, Write,
};
use millrace_types::{ExecutionId, VersionNumber};
use sqlx::{Postgres, Transaction};

use super::{
    EventRecord, ExecutionState, Lease, NewEvent, Result, Store, StoreError, convert, events,
    jobs::announce,
};

/// A step to commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit<'a> {
    pub job: &'a Job,
    pub writes: &'a [Write],
    /// The number of this step: one more than the last.
    pub step: u64,
    /// What of the owner's requests the job has now taken in.
    pub observed_revision: u64,
    pub observed_command: u64,
    /// Of the version that a begun execution runs.
    pub parallelism: u32,
}

/// What a commit wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub events: Vec<EventRecord>,
}

const SAVE: &str = "
    UPDATE jobs
    SET core = $2, state = $3, condition = $4, condition_reason = $5, condition_cause = $6,
        failures = $7, execution = $8, running_version = $9, observed_revision = $10,
        observed_command = $11, observed_at = now(), step = $12,
        updated_at = CASE WHEN state = $3 AND condition = $4 AND execution IS NOT DISTINCT FROM $8
            THEN updated_at ELSE now() END
    WHERE id = $1 AND step = $12 - 1";

const STEP: &str = "SELECT step FROM jobs WHERE id = $1";

const OPEN_EXECUTION: &str = "
    INSERT INTO executions (tenant, job, id, version, parallelism, restored_from)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (job, id) DO NOTHING";

const EXECUTION_RUNS: &str = "
    UPDATE executions SET running_at = coalesce(running_at, now()) WHERE job = $1 AND id = $2";

const CLOSE_EXECUTION: &str = "
    UPDATE executions
    SET ended_at = now(), end_reason = $3, failure = $4, failed_operator = $5, failed_subtask = $6
    WHERE job = $1 AND id = $2 AND ended_at IS NULL";

const FAIL_OPEN_CHECKPOINTS: &str = "
    UPDATE checkpoints SET status = 'failed', completed_at = now(), failure = 'the execution ended first'
    WHERE job = $1 AND execution = $2 AND status = 'in-progress'";

/// Those that were asked for and not begun are not of the execution, but of the running job.
const FAIL_OPEN_SAVEPOINTS: &str = "
    UPDATE savepoints SET status = 'failed', completed_at = now(), failure = 'the execution ended first'
    WHERE job = $1 AND status = 'in-progress' AND origin = 'request'";

const SET_FAILURE: &str = "UPDATE jobs SET failure = $2 WHERE id = $1";

const OPEN_SAVEPOINT: &str = "
    INSERT INTO savepoints (tenant, job, id, origin, version) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (job, id) DO NOTHING";

const FAIL_SAVEPOINT: &str = "
    UPDATE savepoints SET status = 'failed', completed_at = now(), failure = $3
    WHERE job = $1 AND id = $2 AND status = 'in-progress'";

const MARK_ROLLED_BACK: &str = "
    UPDATE job_versions SET rolled_back_reason = $3 WHERE job = $1 AND version = $2";

/// Unless the owner has moved on to yet another version.
const GO_BACK: &str = "UPDATE jobs SET version = $3 WHERE id = $1 AND version = $2";

/// Unless the owner has asked for something else meanwhile.
const DESIRE_RUNNING: &str = "
    UPDATE jobs SET desired_state = 'running', stop_mode = NULL WHERE id = $1 AND command = $2";

const FORGET: &str = "DELETE FROM jobs WHERE id = $1";

const FORGET_KEYS: &str = "DELETE FROM idempotency_keys WHERE job = $1";

impl Store {
    /// Commits a step, before any of its actions is performed. Can be repeated.
    pub(crate) async fn commit(&self, lease: &Lease, commit: Commit<'_>) -> Result<Committed> {
        let mut tx = self.begin_fenced(lease).await?;
        let job = commit.job;
        let (condition, degraded) = job.condition();
        let (execution, version) = running(&job.state);
        let step = convert::to_i64(commit.step);
        let saved = sqlx::query(SAVE)
            .bind(lease.job.0)
            .bind(convert::to_json("lifecycle", job)?)
            .bind(job.job_state().as_str())
            .bind(condition.as_str())
            .bind(degraded.map(|degraded| degraded.reason.replace('\0', "")))
            .bind(degraded.map(|degraded| degraded.cause.0.as_str()))
            .bind(i64::from(job.context.troubles.failures))
            .bind(execution.map(|id| id.0))
            .bind(version.map(|version| i64::from(version.0)))
            .bind(convert::to_i64(commit.observed_revision))
            .bind(convert::to_i64(commit.observed_command))
            .bind(step)
            .execute(&mut *tx)
            .await?;
        if saved.rows_affected() == 0 {
            let (stored,): (i64,) = sqlx::query_as(STEP)
                .bind(lease.job.0)
                .fetch_one(&mut *tx)
                .await?;
            return if stored == step {
                // Committed before; only the answer was lost.
                Ok(Committed::default())
            } else {
                Err(StoreError::corrupt(
                    "lifecycle",
                    format!("step {step} follows step {stored}"),
                ))
            };
        }
        let mut committed = Committed::default();
        for write in commit.writes {
            apply(&mut tx, lease, &commit, write, &mut committed).await?;
        }
        if let State::Resting(Rest::Failed(failure)) = &job.state {
            set_failure(&mut tx, lease, &failure.to_string()).await?;
        }
        tx.commit().await?;
        Ok(committed)
    }

    /// Deletes the job and all rows of it.
    pub(crate) async fn forget_job(&self, lease: &Lease) -> Result<()> {
        let mut tx = self.begin_fenced(lease).await?;
        sqlx::query(FORGET_KEYS)
            .bind(lease.job.0)
            .execute(&mut *tx)
            .await?;
        sqlx::query(FORGET)
            .bind(lease.job.0)
            .execute(&mut *tx)
            .await?;
        announce(&mut tx, lease.job).await?;
        tx.commit().await?;
        Ok(())
    }
}

fn running(state: &State) -> (Option<ExecutionId>, Option<VersionNumber>) {
    match state {
        State::Starting { attempt, .. }
        | State::Running { attempt, .. }
        | State::Saving { attempt, .. } => (Some(attempt.execution), Some(attempt.version)),
        State::TearingDown { execution, .. } => (Some(*execution), None),
        State::Resting(_)
        | State::Waiting { .. }
        | State::Suspended
        | State::Deleting { .. }
        | State::Deleted => (None, None),
    }
}

async fn apply(
    tx: &mut Transaction<'static, Postgres>,
    lease: &Lease,
    commit: &Commit<'_>,
    write: &Write,
    committed: &mut Committed,
) -> Result<()> {
    let job = lease.job.0;
    match write {
        Write::OpenExecution { attempt, restore } => {
            sqlx::query(OPEN_EXECUTION)
                .bind(lease.tenant.as_str())
                .bind(job)
                .bind(attempt.execution.0)
                .bind(i64::from(attempt.version.0))
                .bind(i64::from(commit.parallelism))
                .bind(convert::to_json("restore", restore)?)
                .execute(&mut **tx)
                .await?;
        }
        Write::ExecutionRuns { execution } => {
            sqlx::query(EXECUTION_RUNS)
                .bind(job)
                .bind(execution.0)
                .execute(&mut **tx)
                .await?;
        }
        Write::CloseExecution { execution, end } => {
            close_execution(tx, lease, *execution, end).await?;
        }
        Write::OpenSavepoint { savepoint, origin } => {
            let origin = match origin {
                SavepointOrigin::Stop => "stop",
                SavepointOrigin::Upgrade => "upgrade",
            };
            let (_, version) = running(&commit.job.state);
            let version = version.unwrap_or(commit.job.context.version);
            sqlx::query(OPEN_SAVEPOINT)
                .bind(lease.tenant.as_str())
                .bind(job)
                .bind(convert::to_i64(savepoint.0))
                .bind(origin)
                .bind(i64::from(version.0))
                .execute(&mut **tx)
                .await?;
        }
        Write::FailSavepoint { savepoint, reason } => {
            sqlx::query(FAIL_SAVEPOINT)
                .bind(job)
                .bind(convert::to_i64(savepoint.0))
                .bind(reason.replace('\0', ""))
                .execute(&mut **tx)
                .await?;
        }
        Write::AbandonVersion {
            version,
            back_to,
            reason,
        } => {
            sqlx::query(MARK_ROLLED_BACK)
                .bind(job)
                .bind(i64::from(version.0))
                .bind(reason.replace('\0', ""))
                .execute(&mut **tx)
                .await?;
            sqlx::query(GO_BACK)
                .bind(job)
                .bind(i64::from(version.0))
                .bind(i64::from(back_to.0))
                .execute(&mut **tx)
                .await?;
        }
        Write::DesireRunning => {
            sqlx::query(DESIRE_RUNNING)
                .bind(job)
                .bind(convert::to_i64(commit.observed_command))
                .execute(&mut **tx)
                .await?;
        }
        Write::Record(record) => {
            let event = NewEvent {
                severity: match record.severity {
                    Severity::Info => "info",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                },
                kind: record.kind.to_owned(),
                message: record.message.clone(),
            };
            committed
                .events
                .push(events::insert(tx, lease, &event).await?);
        }
    }
    Ok(())
}

async fn close_execution(
    tx: &mut Transaction<'static, Postgres>,
    lease: &Lease,
    execution: ExecutionId,
    end: &ExecutionEnd,
) -> Result<()> {
    let (state, failure) = match end {
        ExecutionEnd::Finished => (ExecutionState::Finished, None),
        ExecutionEnd::Stopped => (ExecutionState::Stopped, None),
        ExecutionEnd::Canceled => (ExecutionState::Canceled, None),
        ExecutionEnd::Replaced => (ExecutionState::Replaced, None),
        ExecutionEnd::Suspended => (ExecutionState::Suspended, None),
        ExecutionEnd::Failed(failure) => (ExecutionState::Failed, Some(failure)),
    };
    let place = failure.and_then(|failure| failure.place.as_ref());
    sqlx::query(CLOSE_EXECUTION)
        .bind(lease.job.0)
        .bind(execution.0)
        .bind(state.as_str())
        .bind(failure.map(|failure| failure.to_string().replace('\0', "")))
        .bind(place.map(|place| place.operator.replace('\0', "")))
        .bind(place.map(|place| i64::from(place.subtask.0)))
        .execute(&mut **tx)
        .await?;
    sqlx::query(FAIL_OPEN_CHECKPOINTS)
        .bind(lease.job.0)
        .bind(execution.0)
        .execute(&mut **tx)
        .await?;
    sqlx::query(FAIL_OPEN_SAVEPOINTS)
        .bind(lease.job.0)
        .execute(&mut **tx)
        .await?;
    if let Some(failure) = failure {
        set_failure(tx, lease, &failure.to_string()).await?;
    }
    Ok(())
}

async fn set_failure(
    tx: &mut Transaction<'static, Postgres>,
    lease: &Lease,
    failure: &str,
) -> Result<()> {
    sqlx::query(SET_FAILURE)
        .bind(lease.job.0)
        .bind(failure.replace('\0', ""))
        .execute(&mut **tx)
        .await?;
    Ok(())
}
