//! The state of window aggregation: slices, each a table of keys with their accumulators, and
//! the windows that are still to fire.
//!
//! Invariants: a window fires once, when the watermark reaches its trigger, in the order of
//! window ends; a slice lives until its last window has fired; a row whose slice has no window
//! left to fire is late. The watermark is part of the snapshot, so this holds over a restore.
//!
//! A slice is in memory, in the state table, or partly here and there: see `window_runs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::datatypes::SchemaRef;

use super::{
    window_firing::Firing, window_runs::Cold, window_slices::Slicing, window_time::WindowTime,
};
use crate::{
    LateRows, OperatorError, StateSize,
    aggregate::{AggregatePlan, AggregateSet},
    key_table::KeyTable,
};

/// A slice or window: its end, and for windows that rows bring along their start (else 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SliceKey {
    pub(crate) end: i64,
    pub(crate) start: i64,
}

impl SliceKey {
    pub(crate) fn ending(end: i64) -> Self {
        SliceKey { end, start: 0 }
    }
}

/// How windows are made of slices.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Windows {
    Sliced(Slicing),
    /// Every window is its own slice.
    Attached,
}

/// Flags of a group within its slice.
pub(crate) const DIRTY: u8 = 1;
pub(crate) const PERSISTED: u8 = 2;

/// The part of a slice that is in memory.
pub(crate) struct Hot {
    pub(crate) keys: KeyTable,
    pub(crate) set: AggregateSet,
    /// By group. Groups are never removed one by one.
    pub(crate) flags: Vec<u8>,
}

impl Hot {
    /// Makes room for all groups of the key table.
    pub(crate) fn resize(&mut self) {
        let groups = self.keys.group_bound();
        self.set.resize(groups);
        self.flags.resize(groups, 0);
    }

    pub(crate) fn mark_dirty(&mut self, groups: &[u32]) {
        for group in groups {
            self.flags[*group as usize] |= DIRTY;
        }
    }

    fn size(&self) -> StateSize {
        StateSize {
            entries: self.keys.len() as u64,
            bytes: (self.keys.bytes() + self.set.bytes() + self.flags.capacity()) as u64,
        }
    }
}

pub(crate) struct Slice {
    pub(crate) hot: Option<Hot>,
    /// The run that the hot part is written as.
    pub(crate) run: u32,
    /// Entries of earlier runs in the state table, about.
    pub(crate) cold: u64,
    /// When rows came last, counted in batches.
    pub(crate) used: u64,
    /// What it adds to the size of the store.
    counted: StateSize,
}

impl Slice {
    /// Whether a part of it is in the state table only.
    pub(crate) fn is_cold(&self) -> bool {
        self.run > 0
    }
}

pub(crate) struct WindowStore {
    pub(crate) windows: Windows,
    pub(crate) time: WindowTime,
    pub(crate) slices: BTreeMap<SliceKey, Slice>,
    /// Windows to fire: of every slice at least the next one.
    pub(super) pending: BTreeSet<SliceKey>,
    /// The window of which not all rows are out.
    pub(super) firing: Option<Firing>,
    pub(crate) watermark: i64,
    pub(crate) late: LateRows,
    pub(crate) tracks_values: bool,
    /// Of all slices.
    size: StateSize,
    batches: u64,
    template: KeyTable,
    plan: Arc<AggregatePlan>,
    pub(super) schema: SchemaRef,
}

impl WindowStore {
    /// `template`: an empty table for the key columns. `schema`: keys, results, window columns.
    pub(crate) fn new(
        windows: Windows,
        time: WindowTime,
        template: KeyTable,
        plan: Arc<AggregatePlan>,
        schema: SchemaRef,
    ) -> Self {
        WindowStore {
            windows,
            time,
            slices: BTreeMap::new(),
            pending: BTreeSet::new(),
            firing: None,
            watermark: i64::MIN,
            late: LateRows::default(),
            tracks_values: false,
            size: StateSize::default(),
            batches: 0,
            template,
            plan,
            schema,
        }
    }

    pub(crate) fn plan(&self) -> &Arc<AggregatePlan> {
        &self.plan
    }

    /// An empty table for the key columns.
    pub(crate) fn empty_keys(&self) -> KeyTable {
        self.template.like()
    }

    /// Whether the slice is part of no window at all.
    pub(crate) fn is_gap(&self, key: SliceKey) -> bool {
        self.last_window_end(key).is_none()
    }

    /// Whether all windows of the slice have fired.
    pub(crate) fn is_late(&self, key: SliceKey) -> bool {
        self.last_window_end(key)
            .is_some_and(|end| self.time.trigger(end) <= self.watermark)
    }

    fn last_window_end(&self, key: SliceKey) -> Option<i64> {
        match &self.windows {
            Windows::Sliced(slicing) => slicing.last_window_end(key.end),
            Windows::Attached => Some(key.end),
        }
    }

    /// Whether no window after this one contains the slice.
    pub(super) fn ends_with(&self, key: SliceKey, window: SliceKey) -> bool {
        self.last_window_end(key)
            .is_none_or(|last| last <= window.end)
    }

    /// The hot part of a slice, made if there is none. Its next window is then due, and each window
    /// makes the next due. After a change call [`WindowStore::recount`].
    pub(crate) fn hot(&mut self, key: SliceKey) -> Result<&mut Hot, OperatorError> {
        self.batches += 1;
        // `entry` would borrow over the early return of the error.
        if !self.slices.contains_key(&key) {
            self.add_slice(key, Cold::default());
        }
        let slice = self
            .slices
            .get_mut(&key)
            .ok_or_else(|| OperatorError::Internal("a slice just made".into()))?;
        slice.used = self.batches;
        if slice.hot.is_none() {
            let mut set = self.plan.set()?;
            if self.tracks_values {
                set.track_values();
            }
            slice.hot = Some(Hot {
                keys: self.template.like(),
                set,
                flags: Vec::new(),
            });
        }
        slice
            .hot
            .as_mut()
            .ok_or_else(|| OperatorError::Internal("a hot part just made".into()))
    }

    /// Adds a slice of which the state table has this, unless all its windows have fired.
    pub(crate) fn add_slice(&mut self, key: SliceKey, cold: Cold) {
        if let Some(window) = self.next_window(key) {
            self.pending.insert(window);
            let slice = Slice {
                hot: None,
                run: cold.next_run,
                cold: cold.entries,
                used: 0,
                counted: StateSize::default(),
            };
            self.slices.insert(key, slice);
            self.recount(key);
        }
    }

    /// Takes a slice out.
    pub(super) fn remove(&mut self, key: SliceKey) -> Option<Slice> {
        let slice = self.slices.remove(&key)?;
        self.size.entries -= slice.counted.entries;
        self.size.bytes -= slice.counted.bytes;
        Some(slice)
    }

    /// Brings the size of the store up to date with a slice that changed: asking all slices
    /// whenever the size is wanted would be too slow.
    pub(crate) fn recount(&mut self, key: SliceKey) {
        if let Some(slice) = self.slices.get_mut(&key) {
            let mut size = slice.hot.as_ref().map(Hot::size).unwrap_or_default();
            size.entries += slice.cold;
            self.size.entries = self.size.entries + size.entries - slice.counted.entries;
            self.size.bytes = self.size.bytes + size.bytes - slice.counted.bytes;
            slice.counted = size;
        }
    }

    /// Keys in memory and entries in the table; bytes in memory.
    pub(crate) fn state_size(&self) -> StateSize {
        self.size
    }

    /// Bytes in memory of these slices together.
    pub(super) fn hot_bytes(&self, keys: &[SliceKey]) -> u64 {
        let slices = keys.iter().filter_map(|key| self.slices.get(key));
        slices.map(|slice| slice.counted.bytes).sum()
    }

    /// The slices with a hot part that may leave memory, those used least recently first.
    pub(crate) fn evictable(&self) -> Vec<SliceKey> {
        let pinned = self.firing.as_ref().map_or(&[][..], Firing::slices);
        let mut keys: Vec<(u64, SliceKey)> = self
            .slices
            .iter()
            .filter(|(key, slice)| slice.hot.is_some() && !pinned.contains(key))
            .map(|(key, slice)| (slice.used, *key))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets the hot part of a slice, which must have been written; returns the bytes freed.
    pub(crate) fn forget_hot(&mut self, key: SliceKey) -> u64 {
        let before = self.size.bytes;
        if let Some(slice) = self.slices.get_mut(&key)
            && let Some(hot) = slice.hot.take()
        {
            slice.cold += hot.keys.len() as u64;
            slice.run += 1;
        }
        self.recount(key);
        before - self.size.bytes
    }

    /// The first window of a slice that has not fired.
    fn next_window(&self, key: SliceKey) -> Option<SliceKey> {
        let Windows::Sliced(slicing) = &self.windows else {
            return Some(key);
        };
        let (first, last) = (
            slicing.first_window_end(key.end),
            slicing.last_window_end(key.end)?,
        );
        // Triggers grow with the end, so the first beyond the watermark is found by halving.
        let is_open = |i: i64| self.time.trigger(first + i * slicing.step()) > self.watermark;
        let (mut low, mut high) = (0, (last - first) / slicing.step() + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_open(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let end = first + low * slicing.step();
        (end <= last).then(|| SliceKey::ending(end))
    }

    /// When the next window fires, in event time.
    pub(crate) fn next_trigger(&self) -> Option<i64> {
        self.pending
            .first()
            .map(|window| self.time.trigger(window.end))
    }
}
