//! Collects the parts of a slot's snapshot: each task hands over its own when its barrier
//! passes, at different moments; the snapshot is whole when all have.

use std::collections::BTreeSet;

use millrace_state::{Delta, OperatorStateItem};
use millrace_types::CheckpointId;

use crate::{OperatorSnapshot, channel::BarrierInfo, slot_event::SnapshotTimings};

const NANOS_PER_MS: u64 = 1_000_000;

/// A whole snapshot of the slot.
pub struct WholeSnapshot {
    /// In the order they were taken: of two changes to a key the later one counts.
    pub deltas: Vec<Delta>,
    pub items: Vec<OperatorStateItem>,
    pub timings: SnapshotTimings,
}

struct Pending {
    checkpoint: CheckpointId,
    /// Tasks that have handed over theirs.
    parts: BTreeSet<usize>,
    items: Vec<OperatorStateItem>,
    started_nanos: u64,
    pause_nanos: u64,
}

/// The slot's snapshot in the making. A checkpoint that is given up half-way leaves its deltas
/// for the next one: they are changes that RocksDB does not have yet.
pub struct SlotSnapshots {
    tasks: usize,
    pending: Option<Pending>,
    /// Of the parts of the pending snapshot.
    deltas: Vec<Delta>,
    /// Of snapshots that were given up: changes from before `deltas`.
    left_over: Vec<Delta>,
    given_up: CheckpointId,
    triggered: BTreeSet<(CheckpointId, u64)>,
}

impl SlotSnapshots {
    pub fn new(tasks: usize) -> Self {
        SlotSnapshots {
            tasks,
            pending: None,
            deltas: Vec::new(),
            left_over: Vec::new(),
            given_up: CheckpointId(0),
            triggered: BTreeSet::new(),
        }
    }

    /// The slot was told to take a checkpoint at this time.
    pub fn triggered(&mut self, checkpoint: CheckpointId, now_nanos: u64) {
        self.triggered.insert((checkpoint, now_nanos));
    }

    /// Whether the task's changes since its part must wait until the snapshot is whole: they would
    /// get into it.
    pub fn holds_back(&self, task: usize) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.parts.contains(&task))
    }

    /// Gives up this snapshot and all before it, as far as they have come or will come: all deltas
    /// that wait here for them, in order.
    pub fn give_up(&mut self, checkpoint: CheckpointId) -> Vec<Delta> {
        self.given_up = self.given_up.max(checkpoint);
        let mut deltas = self.take_left_over();
        let pending = self.pending.as_ref();
        if pending.is_some_and(|pending| pending.checkpoint <= checkpoint) {
            self.pending = None;
            deltas.append(&mut self.deltas);
        }
        deltas
    }

    /// Deltas of snapshots that were given up: they come before all later changes.
    pub fn take_left_over(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.left_over)
    }

    /// Adds a task's part, for which the slot did nothing else for `pause_nanos`; returns the
    /// snapshot when it was the last.
    pub fn add(
        &mut self,
        task: usize,
        barrier: BarrierInfo,
        part: OperatorSnapshot,
        now_nanos: u64,
        pause_nanos: u64,
    ) -> Option<WholeSnapshot> {
        if barrier.checkpoint <= self.given_up {
            self.left_over.extend(part.deltas);
            return None;
        }
        let newer = self
            .pending
            .as_ref()
            .is_none_or(|pending| pending.checkpoint < barrier.checkpoint);
        if newer {
            let started = self
                .triggered
                .iter()
                .find(|(id, _)| *id == barrier.checkpoint)
                .map_or(now_nanos, |(_, at)| *at);
            self.triggered.retain(|(id, _)| *id > barrier.checkpoint);
            self.left_over.append(&mut self.deltas);
            self.pending = Some(Pending {
                checkpoint: barrier.checkpoint,
                parts: BTreeSet::new(),
                items: Vec::new(),
                started_nanos: started,
                pause_nanos: 0,
            });
        }
        let pending = self.pending.as_mut()?;
        if pending.checkpoint != barrier.checkpoint {
            // Part of a checkpoint that was given up: only its changes matter.
            self.left_over.extend(part.deltas);
            return None;
        }
        self.deltas.extend(part.deltas);
        pending.items.extend(part.items);
        pending.parts.insert(task);
        pending.pause_nanos += pause_nanos;
        if pending.parts.len() < self.tasks {
            return None;
        }
        let done = self.pending.take()?;
        let mut deltas = self.take_left_over();
        deltas.append(&mut self.deltas);
        Some(WholeSnapshot {
            deltas,
            items: done.items,
            timings: SnapshotTimings {
                alignment_ms: now_nanos.saturating_sub(done.started_nanos) / NANOS_PER_MS,
                pause_ms: done.pause_nanos / NANOS_PER_MS,
            },
        })
    }
}
