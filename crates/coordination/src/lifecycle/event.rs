//! What happens to a job.

use millrace_types::{
    CheckpointId, ExecutionId, SavepointId, StopMode, SubtaskIndex, VersionNumber,
};
use serde::{Deserialize, Serialize};

use super::state::{Change, Policy, Restore};

/// Time and chance, as they are at one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ambient {
    /// Epoch milliseconds.
    pub now_ms: i64,
    /// A random number in 0..1.
    pub jitter: f64,
    /// An id that was never used, for an execution that the step may begin.
    pub execution: ExecutionId,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The owner wants the job to run.
    Start {
        from: StartAt,
    },
    /// The owner wants the job to stop. The number is for the savepoint that may be taken.
    Stop {
        mode: StopMode,
        savepoint: SavepointId,
    },
    Cancel,
    Delete,
    /// The owner has changed the spec. The number is for the savepoint that may be taken.
    NewVersion {
        target: Target,
        savepoint: SavepointId,
    },
    /// The service is being shut down, with its workers.
    Suspend,

    /// Enough workers are there.
    WorkersReady {
        execution: ExecutionId,
    },
    /// Every worker has deployed.
    Deployed {
        execution: ExecutionId,
    },
    /// Every worker was told to go.
    Launched {
        execution: ExecutionId,
    },
    /// The execution cannot go on: an operator failed, a worker was lost, a step of the start
    /// was refused, too many checkpoints failed.
    Failed {
        execution: ExecutionId,
        failure: Failure,
    },
    /// A checkpoint or savepoint is durable and recorded; sinks may commit.
    CheckpointCompleted {
        execution: ExecutionId,
        checkpoint: CheckpointId,
        savepoint: Option<SavepointId>,
    },
    /// The snapshot asked for by [`Action::Snapshot`](super::Action::Snapshot) is durable.
    FinalCompleted {
        execution: ExecutionId,
    },
    /// It failed; sources go on.
    FinalFailed {
        execution: ExecutionId,
        reason: String,
    },
    /// Every subtask has committed the final checkpoint and ended.
    Finished {
        execution: ExecutionId,
    },
    /// No worker runs the execution any more.
    TornDown {
        execution: ExecutionId,
    },
    /// Everything of a deleted job is gone.
    Forgotten,

    /// [`Job::next_wake`](super::Job::next_wake) has come.
    Wake,
    /// Another driver has taken the job over.
    TakenOver {
        found: Found,
    },
}

/// Which snapshot a start uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartAt {
    /// The newest of the job's line of executions.
    Latest,
    Exactly(Restore),
}

/// A version to move to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub version: VersionNumber,
    pub policy: Policy,
    pub change: Change,
}

/// Why an execution failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// In words for the owner of the job.
    pub reason: String,
    /// The operator and subtask, when one of them failed.
    pub place: Option<Place>,
    /// False: starting again cannot help.
    pub retryable: bool,
}

/// Where a failure was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub operator: String,
    pub subtask: SubtaskIndex,
}

impl Failure {
    /// A failure of no operator in particular that a restart may heal.
    pub fn retryable(reason: impl Into<String>) -> Self {
        Failure {
            reason: reason.into(),
            place: None,
            retryable: true,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            None => f.write_str(&self.reason),
            Some(place) => write!(
                f,
                "{} (subtask {}): {}",
                place.operator, place.subtask, self.reason
            ),
        }
    }
}

/// What a driver that takes over finds on the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Not all workers of any execution.
    Nothing,
    /// All workers of this execution process, or have processed, its subtasks.
    Running { execution: ExecutionId },
}
