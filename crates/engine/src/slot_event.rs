//! What a slot tells its surroundings, and what it is told.

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use millrace_state::{FrozenSnapshot, OperatorStateItem, Spill};
use millrace_types::CheckpointId;

use crate::channel::{BarrierInfo, SlotWaker};

/// An order to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotCommand {
    /// Sources emit this barrier.
    TriggerCheckpoint(BarrierInfo),
    /// Durable: sinks commit. After the final one the slot ends.
    CheckpointCompleted {
        checkpoint: CheckpointId,
        is_final: bool,
    },
    /// Given up: sources that paused for it go on.
    CheckpointAborted { checkpoint: CheckpointId },
    /// Sources end as if their input had.
    Drain,
    /// Ends the slot at once.
    Cancel,
}

/// How long a snapshot took on the slot's side, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotTimings {
    /// From the first barrier that reached the slot to the last.
    pub alignment_ms: u64,
    /// Time in which the slot did nothing but the snapshot.
    pub pause_ms: u64,
}

/// Why a slot ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotFailure {
    pub subtask: u32,
    /// Name of the operator, when one failed.
    pub operator: String,
    pub reason: String,
    /// False when another attempt would fail in the same way.
    pub retryable: bool,
}

/// Receives what a slot has to tell. Called on the slot's thread: must not block for long.
pub trait SlotEvents: Send + Sync {
    /// All tasks of the slot took the barrier. Persisting happens off the slot's thread.
    fn snapshot_taken(
        &self,
        subtask: u32,
        barrier: BarrierInfo,
        keyed: FrozenSnapshot,
        operator_state: Vec<OperatorStateItem>,
        timings: SnapshotTimings,
    );

    /// State has to leave memory between two snapshots: write it, off the slot's thread, and wake
    /// the slot when that is done. A failure to write must end the slot.
    fn spilled(&self, subtask: u32, spill: Spill, waker: SlotWaker);

    /// Sinks of the slot committed a checkpoint.
    fn committed(&self, subtask: u32, checkpoint: CheckpointId);

    /// All inputs of the slot have ended; it waits for the final checkpoint.
    fn drained(&self, subtask: u32);

    /// The final checkpoint is committed and the slot has ended.
    fn finished(&self, subtask: u32);

    fn failed(&self, failure: SlotFailure);

    /// Something that belongs in the job's history: `severity` is `info`, `warning` or `error`.
    fn notice(&self, _severity: &str, _message: &str) {}

    /// Rows of a print or collect table.
    fn output_rows(&self, table: &str, subtask: u32, rows: &RecordBatch, kinds: Option<&[RowKind]>);
}
