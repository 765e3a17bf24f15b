//! What the owner asks of a job: start, stop, cancel, delete.

use millrace_types::{
    DesiredState, JobId, JobState, SavepointId, SavepointStatus, StartFrom, StopMode, TenantName,
};
use sqlx::PgConnection;

use super::{
    JobRecord, JobRef, Result, Store, StoreError, convert,
    jobs::{announce, fetch, job_not_found},
};

const LOCK: &str = "
    SELECT shown_state, desired_state FROM jobs WHERE tenant = $1 AND id = $2 FOR UPDATE";

const SET: &str = "
    UPDATE jobs
    SET desired_state = $2, stop_mode = $3, start_from = $4, command = command + 1,
        revision = revision + 1, updated_at = now()
    WHERE id = $1";

const SAVEPOINT_STATUS: &str = "SELECT status FROM savepoints WHERE job = $1 AND id = $2";

/// Whether the newest execution's inputs have been ended for a stop: such a stop takes its
/// savepoint in the execution that it drains. One that was stopped before it ran takes none.
const DRAINED: &str = "
    SELECT EXISTS (
        SELECT 1 FROM jobs j JOIN savepoints s ON s.job = j.id
        WHERE j.id = $1 AND j.stop_mode = 'drain' AND s.origin = 'stop'
          AND s.created_at >= (SELECT max(e.started_at) FROM executions e WHERE e.job = j.id))";

/// A request, and the state in which it makes sense.
enum Request {
    Start(StartFrom),
    Stop(StopMode),
    #[allow(dead_code, reason = "see `cancel_job`")]
    Cancel,
    Delete,
}

/// Whether the request still has to be made.
enum Verdict {
    Go,
    /// It is so already.
    Done,
    Refused(String),
}

impl Request {
    fn verdict(&self, state: JobState, desired: DesiredState) -> Verdict {
        if desired == DesiredState::Deleted {
            return match self {
                Request::Delete => Verdict::Done,
                Request::Start(_) | Request::Stop(_) | Request::Cancel => {
                    Verdict::Refused("it is being deleted".into())
                }
            };
        }
        match self {
            Request::Start(from) => match (state, from) {
                (
                    JobState::Starting
                    | JobState::Running
                    | JobState::Upgrading
                    | JobState::Rescaling,
                    StartFrom::Latest,
                ) => Verdict::Done,
                (
                    JobState::Starting
                    | JobState::Running
                    | JobState::Upgrading
                    | JobState::Rescaling,
                    StartFrom::Savepoint(_) | StartFrom::Empty,
                ) => Verdict::Refused(
                    "stop it first, only a stopped job can be started from another snapshot".into(),
                ),
                (
                    JobState::Created
                    | JobState::Restarting
                    | JobState::Stopping
                    | JobState::Stopped
                    | JobState::Finished
                    | JobState::Failed
                    | JobState::Canceled,
                    _,
                ) => Verdict::Go,
            },
            Request::Stop(_) => match state {
                JobState::Stopped => Verdict::Done,
                JobState::Finished | JobState::Failed | JobState::Canceled => {
                    Verdict::Refused("there is nothing to stop".into())
                }
                JobState::Created
                | JobState::Starting
                | JobState::Running
                | JobState::Restarting
                | JobState::Rescaling
                | JobState::Upgrading
                | JobState::Stopping => Verdict::Go,
            },
            Request::Cancel => match state {
                JobState::Canceled => Verdict::Done,
                JobState::Finished | JobState::Failed => {
                    Verdict::Refused("there is nothing to cancel".into())
                }
                JobState::Created
                | JobState::Starting
                | JobState::Running
                | JobState::Restarting
                | JobState::Rescaling
                | JobState::Upgrading
                | JobState::Stopping
                | JobState::Stopped => Verdict::Go,
            },
            Request::Delete => Verdict::Go,
        }
    }

    fn desired(&self) -> DesiredState {
        match self {
            Request::Start(_) => DesiredState::Running,
            Request::Stop(_) => DesiredState::Stopped,
            Request::Cancel => DesiredState::Canceled,
            Request::Delete => DesiredState::Deleted,
        }
    }
}

/// The stored form of a stop mode.
pub(super) fn stop_mode_text(mode: StopMode) -> &'static str {
    match mode {
        StopMode::Savepoint => "savepoint",
        StopMode::Drain => "drain",
        StopMode::Now => "now",
    }
}

pub(super) fn parse_stop_mode(text: &str) -> Option<StopMode> {
    match text {
        "savepoint" => Some(StopMode::Savepoint),
        "drain" => Some(StopMode::Drain),
        "now" => Some(StopMode::Now),
        _ => None,
    }
}

impl Store {
    pub(crate) async fn start_job(
        &self,
        tenant: &TenantName,
        job: JobId,
        from: StartFrom,
    ) -> Result<JobRecord> {
        self.request(tenant, job, Request::Start(from)).await
    }

    pub(crate) async fn stop_job(
        &self,
        tenant: &TenantName,
        job: JobId,
        mode: StopMode,
    ) -> Result<JobRecord> {
        self.request(tenant, job, Request::Stop(mode)).await
    }

    #[allow(
        dead_code,
        reason = "no route cancels yet; the drivers do what it asks for"
    )]
    pub(crate) async fn cancel_job(&self, tenant: &TenantName, job: JobId) -> Result<JobRecord> {
        self.request(tenant, job, Request::Cancel).await
    }

    /// The job and everything of it goes; until then it shows as stopping.
    pub(crate) async fn delete_job(&self, tenant: &TenantName, job: JobId) -> Result<JobRecord> {
        self.request(tenant, job, Request::Delete).await
    }

    async fn request(
        &self,
        tenant: &TenantName,
        job: JobId,
        request: Request,
    ) -> Result<JobRecord> {
        let mut tx = self.pool().begin().await?;
        let locked: Option<(String, String)> = sqlx::query_as(LOCK)
            .bind(tenant.as_str())
            .bind(job.0)
            .fetch_optional(&mut *tx)
            .await?;
        let (state, desired) = locked.ok_or_else(|| job_not_found(tenant, &JobRef::Id(job)))?;
        let state = convert::state("job state", &state, JobState::parse)?;
        let desired = convert::state("desired state", &desired, DesiredState::parse)?;
        match request.verdict(state, desired) {
            Verdict::Done => return fetch(&mut tx, tenant, &JobRef::Id(job)).await,
            Verdict::Refused(what) => return Err(StoreError::InvalidState { state, what }),
            Verdict::Go => {}
        }
        let (stop_mode, start_from) = match &request {
            Request::Start(from) => {
                match from {
                    StartFrom::Savepoint(savepoint) => {
                        check_savepoint(&mut tx, job, *savepoint, state).await?;
                    }
                    StartFrom::Latest => check_drained(&mut tx, job, state).await?,
                    StartFrom::Empty => {}
                }
                (None, *from)
            }
            Request::Stop(mode) => (Some(stop_mode_text(*mode)), StartFrom::Latest),
            Request::Cancel | Request::Delete => (None, StartFrom::Latest),
        };
        sqlx::query(SET)
            .bind(job.0)
            .bind(request.desired().as_str())
            .bind(stop_mode)
            .bind(convert::to_json("start", &start_from)?)
            .execute(&mut *tx)
            .await?;
        announce(&mut tx, job).await?;
        let record = fetch(&mut tx, tenant, &JobRef::Id(job)).await?;
        tx.commit().await?;
        Ok(record)
    }
}

async fn check_savepoint(
    connection: &mut PgConnection,
    job: JobId,
    savepoint: SavepointId,
    state: JobState,
) -> Result<()> {
    let status: Option<(String,)> = sqlx::query_as(SAVEPOINT_STATUS)
        .bind(job.0)
        .bind(convert::to_i64(savepoint.0))
        .fetch_optional(connection)
        .await?;
    let (status,) = status.ok_or_else(|| StoreError::SavepointNotFound {
        job,
        savepoint: savepoint.to_string(),
    })?;
    match convert::state("savepoint status", &status, SavepointStatus::parse)? {
        SavepointStatus::Completed => Ok(()),
        status @ (SavepointStatus::InProgress
        | SavepointStatus::Failed
        | SavepointStatus::Deleted) => Err(StoreError::InvalidState {
            state,
            what: format!("it cannot start from savepoint {savepoint}, which is {status}"),
        }),
    }
}

/// Refuses to go on where the windows are closed for ever.
async fn check_drained(connection: &mut PgConnection, job: JobId, state: JobState) -> Result<()> {
    if !matches!(state, JobState::Stopping | JobState::Stopped) {
        return Ok(());
    }
    let (drained,): (bool,) = sqlx::query_as(DRAINED)
        .bind(job.0)
        .fetch_one(connection)
        .await?;
    if drained {
        return Err(StoreError::Drained { state });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_modes_read_back() {
        for mode in [StopMode::Savepoint, StopMode::Drain, StopMode::Now] {
            assert_eq!(parse_stop_mode(stop_mode_text(mode)), Some(mode));
        }
    }

    #[test]
    fn requests_make_sense_or_are_refused() {
        use JobState::*;
        let verdict = |request: Request, state| match request.verdict(state, DesiredState::Running)
        {
            Verdict::Go => "go",
            Verdict::Done => "done",
            Verdict::Refused(_) => "refused",
        };
        for (state, start, restart_from, stop, cancel) in [
            (Created, "go", "go", "go", "go"),
            (Running, "done", "refused", "go", "go"),
            (Restarting, "go", "go", "go", "go"),
            (Stopping, "go", "go", "go", "go"),
            (Stopped, "go", "go", "done", "go"),
            (Finished, "go", "go", "refused", "refused"),
            (Failed, "go", "go", "refused", "refused"),
            (Canceled, "go", "go", "refused", "done"),
        ] {
            assert_eq!(verdict(Request::Start(StartFrom::Latest), state), start);
            assert_eq!(
                verdict(Request::Start(StartFrom::Empty), state),
                restart_from
            );
            assert_eq!(verdict(Request::Stop(StopMode::Now), state), stop);
            assert_eq!(verdict(Request::Cancel, state), cancel);
            assert_eq!(verdict(Request::Delete, state), "go");
        }
    }
}
