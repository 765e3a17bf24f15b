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
    parts: usize,
    items: Vec<OperatorStateItem>,
    started_nanos: u64,
    pause_nanos: u64,
}

/// The slot's snapshot in the making. A checkpoint that is given up half-way leaves its deltas
/// for the next one: they are changes that RocksDB does not have yet.
pub struct SlotSnapshots {
    tasks: usize,
    pending: Option<Pending>,
    deltas: Vec<Delta>,
    triggered: BTreeSet<(CheckpointId, u64)>,
}

impl SlotSnapshots {
    pub fn new(tasks: usize) -> Self {
        SlotSnapshots {
            tasks,
            pending: None,
            deltas: Vec::new(),
            triggered: BTreeSet::new(),
        }
    }

    /// The slot was told to take a checkpoint at this time.
    pub fn triggered(&mut self, checkpoint: CheckpointId, now_nanos: u64) {
        self.triggered.insert((checkpoint, now_nanos));
    }

    /// Adds a task's part, for which the slot did nothing else for `pause_nanos`; returns the
    /// snapshot when it was the last.
    pub fn add(
        &mut self,
        barrier: BarrierInfo,
        part: OperatorSnapshot,
        now_nanos: u64,
        pause_nanos: u64,
    ) -> Option<WholeSnapshot> {
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
            self.pending = Some(Pending {
                checkpoint: barrier.checkpoint,
                parts: 0,
                items: Vec::new(),
                started_nanos: started,
                pause_nanos: 0,
            });
        }
        self.deltas.extend(part.deltas);
        let pending = self.pending.as_mut()?;
        if pending.checkpoint != barrier.checkpoint {
            // Part of a checkpoint that was given up: only its changes matter.
            return None;
        }
        pending.items.extend(part.items);
        pending.parts += 1;
        pending.pause_nanos += pause_nanos;
        if pending.parts < self.tasks {
            return None;
        }
        let done = self.pending.take()?;
        Some(WholeSnapshot {
            deltas: std::mem::take(&mut self.deltas),
            items: done.items,
            timings: SnapshotTimings {
                alignment_ms: now_nanos.saturating_sub(done.started_nanos) / NANOS_PER_MS,
                pause_ms: done.pause_nanos / NANOS_PER_MS,
            },
        })
    }
}
