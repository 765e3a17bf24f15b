//! The state of window aggregation: slices, each a table of keys with their accumulators, and
//! the windows that are still to fire.
//!
//! Invariants: a window fires once, when the watermark reaches its trigger, in the order of
//! window ends; a slice lives until its last window has fired; a row whose slice has no window
//! left to fire is late. The watermark is part of the snapshot, so this holds over a restore.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{columns::batch_of, window_slices::Slicing, window_time::WindowTime};
use crate::{
    Batch, LateRows, OperatorError, Output, StateSize,
    aggregate::{AggregatePlan, AggregateSet},
    batch::MAX_BATCH_ROWS,
    key_table::{KeyTable, int_array},
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

pub(crate) struct Slice {
    pub(crate) keys: KeyTable,
    pub(crate) set: AggregateSet,
    /// By group.
    pub(crate) flags: Vec<u8>,
}

impl Slice {
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
}

pub(crate) struct WindowStore {
    pub(crate) windows: Windows,
    pub(crate) time: WindowTime,
    pub(crate) slices: BTreeMap<SliceKey, Slice>,
    /// Windows to fire: of every slice at least the next one.
    pending: BTreeSet<SliceKey>,
    pub(crate) watermark: i64,
    pub(crate) late: LateRows,
    /// Slices (or what was merged away) whose persisted entries are to be deleted.
    pub(crate) dropped: Vec<(SliceKey, Slice)>,
    pub(crate) tracks_values: bool,
    template: KeyTable,
    plan: Arc<AggregatePlan>,
    schema: SchemaRef,
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
            watermark: i64::MIN,
            late: LateRows::default(),
            dropped: Vec::new(),
            tracks_values: false,
            template,
            plan,
            schema,
        }
    }

    pub(crate) fn plan(&self) -> &Arc<AggregatePlan> {
        &self.plan
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

    /// The slice, made if new; its next window is then due, and each window makes the next due.
    pub(crate) fn slice(&mut self, key: SliceKey) -> Result<&mut Slice, OperatorError> {
        // `entry` would borrow over the early return of the error.
        if !self.slices.contains_key(&key) {
            let mut set = self.plan.set()?;
            if self.tracks_values {
                set.track_values();
            }
            let slice = Slice {
                keys: self.template.like(),
                set,
                flags: Vec::new(),
            };
            self.slices.insert(key, slice);
            if let Some(window) = self.next_window(key) {
                self.pending.insert(window);
            }
        }
        self.slices
            .get_mut(&key)
            .ok_or_else(|| OperatorError::Internal("a slice just made".into()))
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

    /// Fires all windows whose trigger is at or before `time`.
    pub(crate) fn fire(&mut self, time: i64, out: &mut Output) -> Result<(), OperatorError> {
        while let Some(window) = self.pending.first().copied() {
            if self.time.trigger(window.end) > time {
                break;
            }
            self.pending.pop_first();
            self.fire_window(window, out)?;
        }
        Ok(())
    }

    fn fire_window(&mut self, window: SliceKey, out: &mut Output) -> Result<(), OperatorError> {
        let Windows::Sliced(slicing) = self.windows else {
            if let Some(slice) = self.slices.remove(&window) {
                self.emit(&slice.keys, &slice.set, window.start, window.end, out)?;
                self.drop_slice(window, slice);
            }
            return Ok(());
        };
        let start = slicing.window_start(window.end);
        let keys: Vec<SliceKey> = self
            .slices
            .range(
                SliceKey {
                    end: start.saturating_add(1),
                    start: i64::MIN,
                }..=SliceKey {
                    end: window.end,
                    start: i64::MAX,
                },
            )
            .map(|(key, _)| *key)
            .collect();
        match keys.as_slice() {
            [] => return Ok(()),
            [only] => {
                let slice = &self.slices[only];
                self.emit(&slice.keys, &slice.set, start, window.end, out)?;
            }
            [first, others @ ..] if slicing.accumulates() => {
                // All later windows want these slices together: merge them once and for all.
                for other in others {
                    let other_slice = self.slices.remove(other);
                    let target = self.slices.get_mut(first);
                    if let (Some(slice), Some(target)) = (other_slice, target) {
                        let mut groups = Vec::new();
                        merge_slice(&mut target.keys, &mut target.set, &slice, &mut groups)?;
                        target.resize();
                        target.mark_dirty(&groups);
                        self.drop_slice(*other, slice);
                    }
                }
                let slice = &self.slices[first];
                self.emit(&slice.keys, &slice.set, start, window.end, out)?;
            }
            several => {
                let (mut table, mut set) = (self.template.like(), self.plan.set()?);
                let mut groups = Vec::new();
                for key in several {
                    merge_slice(&mut table, &mut set, &self.slices[key], &mut groups)?;
                }
                self.emit(&table, &set, start, window.end, out)?;
            }
        }
        for key in keys {
            let done = slicing
                .last_window_end(key.end)
                .is_none_or(|last| last <= window.end);
            if !done {
                let next = window.end + slicing.step();
                self.pending.insert(SliceKey::ending(next));
            } else if let Some(slice) = self.slices.remove(&key) {
                self.drop_slice(key, slice);
            }
        }
        Ok(())
    }

    /// Most slices live and die between two barriers and leave nothing to delete.
    fn drop_slice(&mut self, key: SliceKey, slice: Slice) {
        if slice.flags.iter().any(|flags| flags & PERSISTED != 0) {
            self.dropped.push((key, slice));
        }
    }

    fn emit(
        &self,
        keys: &KeyTable,
        set: &AggregateSet,
        start: i64,
        end: i64,
        out: &mut Output,
    ) -> Result<(), OperatorError> {
        let window_time = if self.time.is_shifted() {
            self.time.trigger(end)
        } else {
            end.saturating_sub(1)
        };
        // Groups of a slice are never removed one by one.
        let groups: Vec<u32> = (0..keys.group_bound() as u32).collect();
        for groups in groups.chunks(MAX_BATCH_ROWS) {
            let mut columns = keys.columns(groups)?;
            columns.extend(set.emit(groups)?);
            let rows = window_batch(
                &self.schema,
                columns,
                groups.len(),
                &[start, end, window_time],
            )?;
            out.emit(Batch::inserts(rows));
        }
        Ok(())
    }

    pub(crate) fn state_size(&self) -> StateSize {
        let mut size = StateSize::default();
        for slice in self.slices.values() {
            size.entries += slice.keys.len() as u64;
            size.bytes += (slice.keys.bytes() + slice.set.bytes() + slice.flags.capacity()) as u64;
        }
        size
    }
}

/// Merges all of a slice into a table and set; `groups`: where they went.
fn merge_slice(
    table: &mut KeyTable,
    set: &mut AggregateSet,
    slice: &Slice,
    groups: &mut Vec<u32>,
) -> Result<(), OperatorError> {
    let from: Vec<u32> = (0..slice.keys.group_bound() as u32).collect();
    table.intern_from(&slice.keys, &from, groups);
    set.resize(table.group_bound());
    set.merge_from(&slice.set, &from, groups)
}

/// A batch whose last columns are the same in all rows: window start, end, time.
pub(crate) fn window_batch(
    schema: &SchemaRef,
    mut columns: Vec<arrow::array::ArrayRef>,
    rows: usize,
    constants: &[i64],
) -> Result<RecordBatch, OperatorError> {
    let first = columns.len();
    for (position, value) in constants.iter().enumerate() {
        let field = schema.fields().get(first + position).ok_or_else(|| {
            OperatorError::Internal("a window aggregate without its window columns".into())
        })?;
        columns.push(int_array(field.data_type(), vec![*value; rows], None));
    }
    batch_of(schema, columns, rows)
}
