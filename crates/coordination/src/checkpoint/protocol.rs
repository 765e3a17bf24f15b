//! What goes into the coordinator and what comes out.

use millrace_types::{CheckpointId, CheckpointSpec, ExecutionId, SavepointId, SubtaskIndex};

use crate::lifecycle::{Event, FinalSnapshot};

/// The parts of a job spec that the coordinator obeys. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Zero: no periodic checkpoints.
    pub interval_ms: i64,
    pub min_pause_ms: i64,
    pub timeout_ms: i64,
    pub tolerable_failures: u32,
    /// Completed checkpoints kept.
    pub retained: usize,
}

impl From<&CheckpointSpec> for Settings {
    fn from(spec: &CheckpointSpec) -> Self {
        let ms = |millis: millrace_types::Millis| millis.0.min(1 << 50) as i64;
        Settings {
            interval_ms: ms(spec.interval),
            min_pause_ms: ms(spec.min_pause),
            timeout_ms: ms(spec.timeout),
            tolerable_failures: spec.tolerable_failures,
            retained: spec.retained as usize,
        }
    }
}

/// What a coordinator starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub settings: Settings,
    pub execution: ExecutionId,
    pub subtasks: u32,
    /// The newest id that was ever given to a barrier of the job.
    pub last: CheckpointId,
    /// Completed checkpoints (no savepoints) that are kept, in ascending order.
    pub retained: Vec<CheckpointId>,
}

/// What is known of an execution that another driver began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adopted {
    /// Barriers whose rows are still in progress.
    pub in_flight: Vec<Barrier>,
    /// The newest completed barrier of this execution.
    pub completed: Option<Barrier>,
    /// The newest completion that *every* worker was told of.
    pub notified: CheckpointId,
    pub drained: Vec<SubtaskIndex>,
    pub finished: Vec<SubtaskIndex>,
}

/// One barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    pub checkpoint: CheckpointId,
    /// The savepoint it writes, if it is one.
    pub savepoint: Option<SavepointId>,
    /// The execution ends with it.
    pub last: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed, see [`Coordinator::next_wake`](super::Coordinator::next_wake).
    Tick,
    /// The owner wants a savepoint.
    Savepoint { savepoint: SavepointId },
    /// The lifecycle wants the last snapshot.
    Final { snapshot: FinalSnapshot },
    /// A subtask's part is durable.
    Acknowledged {
        execution: ExecutionId,
        checkpoint: CheckpointId,
        subtask: SubtaskIndex,
    },
    /// A subtask, or the call that should have reached its worker, failed.
    Declined {
        execution: ExecutionId,
        checkpoint: CheckpointId,
        reason: String,
    },
    /// The subtask has reached the end of all its inputs.
    Drained {
        execution: ExecutionId,
        subtask: SubtaskIndex,
    },
    /// The subtask has committed the last checkpoint and ended.
    Finished {
        execution: ExecutionId,
        subtask: SubtaskIndex,
    },
    /// Manifest and row are written.
    Persisted { checkpoint: CheckpointId },
    PersistFailed {
        checkpoint: CheckpointId,
        reason: String,
    },
}

/// What to do about it, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Record the barrier, then send it to all workers. `last` barriers are stop-after.
    Begin(Barrier),
    /// Every subtask has acknowledged: write the manifest, then the row.
    Persist(Barrier),
    /// Record that it failed and tell the workers. A savepoint it would have written fails with
    /// it only if `failed` names it: otherwise a later barrier writes it, or the lifecycle, which
    /// ordered it, fails it in its own step.
    Abort {
        barrier: Barrier,
        failed: Option<SavepointId>,
        reason: String,
    },
    /// Tell the lifecycle.
    Report(Event),
    /// Tell the workers that it is complete.
    Notify(Barrier),
    /// Delete these checkpoints: newer ones replace them.
    Retire(Vec<CheckpointId>),
    /// A savepoint that the owner asked for will not be taken.
    Refuse {
        savepoint: SavepointId,
        reason: String,
    },
}
