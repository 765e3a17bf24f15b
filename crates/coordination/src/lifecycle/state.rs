//! What is known of a job: its state, and what outlives the states.

use millrace_types::{
    CheckpointId, Condition, ExecutionId, JobState, RestartSpec, SavepointId, UpgradeMode,
    VersionNumber,
};
use serde::{Deserialize, Serialize};

use super::{RootCause, effect::FinalSnapshot, event::Failure, event::StartAt, event::Target};

/// The stored form that this version writes.
pub const FORMAT: u32 = 1;

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`FORMAT`].
    pub format: u32,
    pub context: Context,
    pub state: State,
}

/// What is known in every state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The version that runs, or that the next start runs.
    pub version: VersionNumber,
    pub policy: Policy,
    /// What the next start of this version restores: the newest snapshot of the line of
    /// executions that the owner chose.
    pub restore: Restore,
    /// The version has completed a checkpoint.
    pub proven: bool,
    /// Another version that the next start shall run.
    pub target: Option<Target>,
    /// The version is new and can still be rolled back.
    pub trial: Option<Trial>,
    pub troubles: Troubles,
}

/// The parts of a job spec that the lifecycle obeys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub restart: RestartSpec,
    /// How an upgrade *to* this version is made.
    pub upgrade: UpgradeMode,
    /// Zero: no periodic checkpoints.
    pub checkpoint_interval_ms: u64,
}

/// Where an execution starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restore {
    Empty,
    Checkpoint(CheckpointId),
    Savepoint {
        savepoint: SavepointId,
        /// The barrier that wrote it.
        checkpoint: CheckpointId,
    },
}

impl Restore {
    /// The barrier of the snapshot.
    pub fn checkpoint(self) -> Option<CheckpointId> {
        match self {
            Restore::Empty => None,
            Restore::Checkpoint(checkpoint) | Restore::Savepoint { checkpoint, .. } => {
                Some(checkpoint)
            }
        }
    }
}

impl std::fmt::Display for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Restore::Empty => f.write_str("empty state"),
            Restore::Checkpoint(id) => write!(f, "checkpoint {id}"),
            Restore::Savepoint { savepoint, .. } => write!(f, "savepoint {savepoint}"),
        }
    }
}

/// A new version on probation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Without a checkpoint by then it is rolled back. Epoch milliseconds.
    pub deadline_ms: i64,
    pub failures: u32,
    pub change: Change,
    pub fallback: Fallback,
}

/// What a rollback returns to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fallback {
    pub version: VersionNumber,
    pub policy: Policy,
    pub restore: Restore,
}

/// What a new version changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Upgrade,
    /// Only how many subtasks and workers there are.
    Rescale,
}

/// The failures behind a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Troubles {
    /// Since the job was last healthy for long enough.
    pub failures: u32,
    /// Failures with the latest root cause, without a checkpoint between them.
    pub same_cause: u32,
    pub cause: Option<RootCause>,
    pub degraded: Option<Degraded>,
}

/// Why a job is degraded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    pub reason: String,
    pub cause: RootCause,
}

/// One attempt to run a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub execution: ExecutionId,
    pub version: VersionNumber,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No workers, nothing to do until the owner asks.
    Resting(Rest),
    Starting {
        attempt: Attempt,
        cause: Cause,
        phase: Phase,
        deadline_ms: i64,
    },
    Running {
        attempt: Attempt,
        since_ms: i64,
    },
    /// Taking its last snapshot.
    Saving {
        attempt: Attempt,
        since_ms: i64,
        snapshot: FinalSnapshot,
        phase: SavePhase,
        next: Next,
    },
    TearingDown {
        execution: ExecutionId,
        next: Next,
        /// When to ask again.
        repeat_ms: i64,
    },
    /// Waits for its backoff after a failure.
    Waiting {
        /// The execution that failed.
        after: ExecutionId,
        until_ms: i64,
    },
    /// The service was shut down; its next start resumes the job.
    Suspended,
    Deleting {
        repeat_ms: i64,
    },
    Deleted,
}

/// Why a job rests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rest {
    Created,
    Stopped,
    Finished,
    Failed(Failure),
    Canceled,
}

/// Why an execution is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Start,
    Restart,
    Upgrade,
    Rescale,
}

/// How far a start is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Waits for workers.
    Provisioning,
    /// The workers compile, restore and connect.
    Deploying,
    /// The workers are told to go.
    Launching,
}

/// How far a final snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavePhase {
    Snapshotting,
    /// It is durable; sinks commit and subtasks end.
    Committing {
        deadline_ms: i64,
    },
}

/// What follows when an execution is gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    Rest(Rest),
    Retry { until_ms: i64 },
    Start { cause: Cause, from: StartAt },
    Suspend,
    Delete,
}

impl Job {
    /// A job that was never started.
    pub fn new(version: VersionNumber, policy: Policy) -> Self {
        Job {
            format: FORMAT,
            context: Context {
                version,
                policy,
                restore: Restore::Empty,
                proven: false,
                target: None,
                trial: None,
                troubles: Troubles::default(),
            },
            state: State::Resting(Rest::Created),
        }
    }

    /// The state as the world sees it.
    pub fn job_state(&self) -> JobState {
        match &self.state {
            State::Resting(rest) => match rest {
                Rest::Created => JobState::Created,
                Rest::Stopped => JobState::Stopped,
                Rest::Finished => JobState::Finished,
                Rest::Failed(_) => JobState::Failed,
                Rest::Canceled => JobState::Canceled,
            },
            State::Starting { cause, .. } => cause.job_state(),
            State::Running { .. } => JobState::Running,
            State::Saving { next, .. } | State::TearingDown { next, .. } => match next {
                Next::Rest(_) | Next::Delete => JobState::Stopping,
                Next::Retry { .. } | Next::Suspend => JobState::Restarting,
                Next::Start { cause, .. } => cause.job_state(),
            },
            State::Waiting { .. } | State::Suspended => JobState::Restarting,
            State::Deleting { .. } | State::Deleted => JobState::Stopping,
        }
    }

    /// Whether the job does well, and if not why.
    pub fn condition(&self) -> (Condition, Option<&Degraded>) {
        match &self.context.troubles.degraded {
            None => (Condition::Healthy, None),
            Some(degraded) => (Condition::Degraded, Some(degraded)),
        }
    }

    /// The execution that may have workers busy.
    pub fn execution(&self) -> Option<ExecutionId> {
        match &self.state {
            State::Starting { attempt, .. }
            | State::Running { attempt, .. }
            | State::Saving { attempt, .. } => Some(attempt.execution),
            State::TearingDown { execution, .. } => Some(*execution),
            State::Resting(_)
            | State::Waiting { .. }
            | State::Suspended
            | State::Deleting { .. }
            | State::Deleted => None,
        }
    }

    /// Whether there is nothing to do for a driver until the owner asks for something.
    pub fn is_resting(&self) -> bool {
        matches!(self.state, State::Resting(_) | State::Deleted)
    }

    /// The version the job shall run, once everything asked for is done.
    pub fn wanted_version(&self) -> VersionNumber {
        match &self.context.target {
            Some(target) => target.version,
            None => self.context.version,
        }
    }

    /// When [`Event::Wake`](super::Event::Wake) is due, in epoch milliseconds.
    pub fn next_wake(&self) -> Option<i64> {
        match &self.state {
            State::Resting(_) | State::Suspended | State::Deleted => None,
            State::Starting { deadline_ms, .. } => Some(*deadline_ms),
            State::Running { .. } => self.context.trial.as_ref().map(|trial| trial.deadline_ms),
            State::Saving { phase, .. } => match phase {
                SavePhase::Snapshotting => None,
                SavePhase::Committing { deadline_ms } => Some(*deadline_ms),
            },
            State::TearingDown { repeat_ms, .. } | State::Deleting { repeat_ms } => {
                Some(*repeat_ms)
            }
            State::Waiting { until_ms, .. } => Some(*until_ms),
        }
    }
}

impl Cause {
    fn job_state(self) -> JobState {
        match self {
            Cause::Start => JobState::Starting,
            Cause::Restart => JobState::Restarting,
            Cause::Upgrade => JobState::Upgrading,
            Cause::Rescale => JobState::Rescaling,
        }
    }
}

impl From<Change> for Cause {
    fn from(change: Change) -> Cause {
        match change {
            Change::Upgrade => Cause::Upgrade,
            Change::Rescale => Cause::Rescale,
        }
    }
}
