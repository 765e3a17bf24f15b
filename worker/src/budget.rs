//! How a worker's memory is shared out, so that it stays under its limit whatever the job does.

const MIB: usize = 1 << 20;
/// Code, stacks, runtime, connections.
const PROCESS: usize = 64 * MIB;
/// Credit is given back in portions well below this.
const MIN_CHANNEL: usize = 64 << 10;
/// More would only add latency.
const MAX_CHANNEL: usize = 4 * MIB;

/// What uploading one slot's snapshot holds: parts of some files at a time.
const UPLOAD: usize = 40 * MIB;
const MAX_UPLOADS: usize = 4;

/// Bytes for each use. What is left over, a good third, covers what follows from them: deltas on
/// their way into RocksDB (a snapshot's can be as large as the hot state), uploads, columns that
/// grow by moving, batches in operators, frames on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryBudget {
    /// RocksDB's block cache and memtables, of all slots.
    pub(crate) rocksdb: usize,
    /// Hot state of all slots.
    pub(crate) hot_state: usize,
    /// Queues between subtasks, of all channels.
    pub(crate) queues: usize,
    /// Output that waits for somebody to read it.
    pub(crate) output: usize,
}

impl MemoryBudget {
    pub(crate) fn of(memory_mib: u32) -> Self {
        let total = (memory_mib as usize).saturating_mul(MIB);
        let usable = total.saturating_sub(PROCESS).max(total / 4);
        MemoryBudget {
            rocksdb: usable / 100 * 20,
            hot_state: usable / 100 * 30,
            queues: usable / 100 * 10,
            output: (usable / 100 * 3).clamp(MIB, 16 * MIB),
        }
    }

    /// Capacity of each of this many channels.
    pub(crate) fn channel_bytes(&self, channels: usize) -> usize {
        (self.queues / channels.max(1)).clamp(MIN_CHANNEL, MAX_CHANNEL)
    }

    /// Slots that may upload a snapshot at once.
    pub(crate) fn parallel_uploads(&self) -> usize {
        // Uploads come out of what is left over, about half of the hot state's part.
        (self.hot_state / 2 / UPLOAD).clamp(1, MAX_UPLOADS)
    }

    /// Hot state of each of this many slots.
    pub(crate) fn slot_bytes(&self, slots: usize) -> usize {
        self.hot_state / slots.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_leave_room_under_the_limit() {
        for memory_mib in [128, 256, 1_024, 16_384] {
            let budget = MemoryBudget::of(memory_mib);
            let parts = budget.rocksdb + budget.hot_state + budget.queues + budget.output;
            let total = memory_mib as usize * MIB;
            assert!(parts + PROCESS <= total, "{memory_mib} MiB: {budget:?}");
            assert!(parts + PROCESS >= total / 2, "{memory_mib} MiB: {budget:?}");
        }
    }

    #[test]
    fn channels_share_their_part_within_bounds() {
        let budget = MemoryBudget::of(1_024);
        assert_eq!(budget.channel_bytes(1), MAX_CHANNEL);
        assert_eq!(budget.channel_bytes(1_000_000), MIN_CHANNEL);
        // 960 MiB usable; 10 % of it over 128 channels.
        assert_eq!(budget.channel_bytes(128), budget.queues / 128);
        assert!(budget.channel_bytes(128) > 750 << 10);
    }
}
