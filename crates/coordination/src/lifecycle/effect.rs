//! What a step wants done. [`Write`]s are committed together with the job itself, before any
//! [`Action`] is performed; actions are performed in order and may be repeated.

use millrace_types::{ExecutionId, SavepointId, VersionNumber};
use serde::{Deserialize, Serialize};

use super::{
    event::Failure,
    state::{Attempt, Restore},
};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Write(Write),
    Do(Action),
}

/// A change of what is stored, committed with the job.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    OpenExecution {
        attempt: Attempt,
        restore: Restore,
    },
    /// The execution processes.
    ExecutionRuns {
        execution: ExecutionId,
    },
    /// Also gives up its checkpoints in progress.
    CloseExecution {
        execution: ExecutionId,
        end: ExecutionEnd,
    },
    OpenSavepoint {
        savepoint: SavepointId,
        origin: SavepointOrigin,
    },
    FailSavepoint {
        savepoint: SavepointId,
        reason: String,
    },
    /// The version is given up for an older one.
    AbandonVersion {
        version: VersionNumber,
        back_to: VersionNumber,
        reason: String,
    },
    /// The stop that the owner asked for failed: what is desired is to run, again.
    DesireRunning,
    /// An entry in the job's history.
    Record(Record),
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionEnd {
    Finished,
    Stopped,
    Canceled,
    Failed(Failure),
    /// By another execution: an upgrade, a rescale, a repeated start.
    Replaced,
    Suspended,
}

/// Who wanted a savepoint that the lifecycle takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavepointOrigin {
    Stop,
    Upgrade,
}

/// An entry in the job's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub severity: Severity,
    /// A stable name for programs.
    pub kind: &'static str,
    pub message: String,
}

/// How much an entry matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// A thing to be done in the world.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Have the version's workers there, keeping those that fit. Answer: `WorkersReady` or `Failed`.
    Provision { attempt: Attempt },
    /// Answer: `Deployed` or `Failed`.
    Deploy { attempt: Attempt, restore: Restore },
    /// Answer: `Launched` or `Failed`.
    Launch { execution: ExecutionId },
    /// Begin to take checkpoints of the execution.
    Checkpoint { execution: ExecutionId },
    /// Go on taking checkpoints of an execution that another driver began: give up what is in
    /// flight, repeat the notification of the newest completed one.
    AdoptCheckpoints { execution: ExecutionId },
    /// End all inputs of the execution as if they had ended.
    Drain { execution: ExecutionId },
    /// Take a last snapshot. Answer: `FinalCompleted` or `FinalFailed`, then `Finished`.
    Snapshot {
        execution: ExecutionId,
        snapshot: FinalSnapshot,
    },
    /// Stop the execution everywhere, and the checkpoints of it; kill workers that do not
    /// answer. Answer: `TornDown`.
    TearDown {
        execution: ExecutionId,
        /// Healthy workers wait for the next execution.
        keep_workers: bool,
    },
    /// Delete the job's objects and rows. Answer: `Forgotten`.
    Forget,
}

/// The last snapshot of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinalSnapshot {
    Savepoint {
        savepoint: SavepointId,
        /// Only once all inputs have ended.
        drain: bool,
    },
    Checkpoint,
}
