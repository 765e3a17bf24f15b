//! Firing windows, with pauses when enough is out.
//!
//! A window whose slices are all in memory is emitted from there: from its only slice, or from a
//! merged copy of several. Where a part is in the state table only, or the copy would be large,
//! the window goes by key groups (see `window_parts`), so that no more than those of one batch are
//! in memory at a time.
//!
//! A window's slices stay as they are until all of it is out; then those that no later window
//! wants are dropped, and what the table has of them is deleted.

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    columns::batch_of,
    window_parts::Parts,
    window_persistence::WindowPersistence,
    window_store::{Hot, SliceKey, WindowStore, Windows},
};
use crate::{
    Batch, OperatorError, Output,
    aggregate::AggregateSet,
    batch::MAX_BATCH_ROWS,
    key_table::{KeyTable, int_array},
};

/// Hot slices larger than this together are not copied to be merged.
const MAX_COPIED_BYTES: u64 = 32 << 20;

/// Most memory of groups that become one batch, unless a single group has more.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Keys with their accumulators, merged from several slices or runs.
pub(super) struct Merged {
    pub(super) keys: KeyTable,
    pub(super) set: AggregateSet,
}

impl Merged {
    pub(super) fn new(store: &WindowStore) -> Result<Self, OperatorError> {
        Ok(Merged {
            keys: store.empty_keys(),
            set: store.plan().set()?,
        })
    }

    /// Merges groups of a hot part.
    pub(super) fn add(&mut self, hot: &Hot, groups: &[u32]) -> Result<(), OperatorError> {
        let mut to = Vec::new();
        merge(&mut self.keys, &mut self.set, hot, groups, &mut to)
    }
}

/// Merges groups of a hot part into a table and set; `to`: where they went.
fn merge(
    keys: &mut KeyTable,
    set: &mut AggregateSet,
    hot: &Hot,
    groups: &[u32],
    to: &mut Vec<u32>,
) -> Result<(), OperatorError> {
    keys.intern_from(&hot.keys, groups, to);
    set.resize(keys.group_bound());
    set.merge_from(&hot.set, groups, to)
}

fn all_groups(keys: &KeyTable) -> Vec<u32> {
    (0..keys.group_bound() as u32).collect()
}

/// Where the rows of a window come from.
enum Source {
    /// Its only slice, which is in memory.
    Slice(SliceKey),
    Copy(Merged),
    Parts(Parts),
}

/// A window on its way out.
pub(crate) struct Firing {
    window: SliceKey,
    start: i64,
    /// In order.
    slices: Vec<SliceKey>,
    source: Source,
    /// Groups of the source that are out.
    emitted: usize,
}

impl Firing {
    pub(crate) fn slices(&self) -> &[SliceKey] {
        &self.slices
    }

    /// Emits rows until there are no more, or enough: whether the window is out.
    fn emit(
        &mut self,
        store: &WindowStore,
        state: &mut WindowPersistence,
        out: &mut Output,
    ) -> Result<bool, OperatorError> {
        loop {
            let (keys, set) = match &self.source {
                Source::Slice(key) => {
                    let hot = store.slices.get(key).and_then(|slice| slice.hot.as_ref());
                    let hot = hot.ok_or_else(|| gone(*key))?;
                    (&hot.keys, &hot.set)
                }
                Source::Copy(merged) => (&merged.keys, &merged.set),
                Source::Parts(parts) => (&parts.merged.keys, &parts.merged.set),
            };
            let per_group = set.bytes() / keys.group_bound().max(1);
            let at_once = (MAX_BATCH_BYTES / per_group.max(1)).clamp(1, MAX_BATCH_ROWS);
            while self.emitted < keys.group_bound() {
                let end = keys.group_bound().min(self.emitted + at_once);
                let groups: Vec<u32> = (self.emitted as u32..end as u32).collect();
                self.emitted = end;
                let mut columns = keys.columns(&groups)?;
                columns.extend(set.emit(&groups)?);
                let window_time = if store.time.is_shifted() {
                    store.time.trigger(self.window.end)
                } else {
                    self.window.end.saturating_sub(1)
                };
                let rows = window_batch(
                    &store.schema,
                    columns,
                    groups.len(),
                    &[self.start, self.window.end, window_time],
                )?;
                out.emit(Batch::inserts(rows));
                if out.is_full() {
                    return Ok(false);
                }
            }
            match &mut self.source {
                Source::Parts(parts) if parts.has_more() => {
                    parts.read(store, state)?;
                    self.emitted = 0;
                }
                _ => return Ok(true),
            }
        }
    }
}

impl WindowStore {
    /// Fires windows whose trigger is at or before `time`, in order, until all are out or enough
    /// is: whether all are out.
    pub(crate) fn fire(
        &mut self,
        time: i64,
        state: &mut WindowPersistence,
        out: &mut Output,
    ) -> Result<bool, OperatorError> {
        loop {
            if self.firing.is_none() {
                let next = self.pending.first().copied();
                let Some(window) = next.filter(|window| self.time.trigger(window.end) <= time)
                else {
                    return Ok(true);
                };
                self.pending.pop_first();
                self.firing = Some(self.begin(window, state)?);
            }
            if let Some(mut firing) = self.firing.take() {
                if !firing.emit(self, state, out)? {
                    self.firing = Some(firing);
                    return Ok(false);
                }
                self.finish(&firing, state);
                if out.is_full() {
                    return Ok(self.next_trigger().is_none_or(|next| next > time));
                }
            }
        }
    }

    fn begin(
        &mut self,
        window: SliceKey,
        state: &mut WindowPersistence,
    ) -> Result<Firing, OperatorError> {
        let (start, slices) = match &self.windows {
            Windows::Attached => (window.start, vec![window]),
            Windows::Sliced(slicing) => {
                let start = slicing.window_start(window.end);
                (start, self.slices_between(start, window.end))
            }
        };
        let slices: Vec<SliceKey> = slices
            .into_iter()
            .filter(|key| self.slices.contains_key(key))
            .collect();
        let source = self.source(window, &slices, state)?;
        Ok(Firing {
            window,
            start,
            slices,
            source,
            emitted: 0,
        })
    }

    /// The slices that end in `(start, end]`.
    fn slices_between(&self, start: i64, end: i64) -> Vec<SliceKey> {
        let first = SliceKey {
            end: start.saturating_add(1),
            start: i64::MIN,
        };
        let last = SliceKey {
            end,
            start: i64::MAX,
        };
        self.slices
            .range(first..=last)
            .map(|(key, _)| *key)
            .collect()
    }

    fn source(
        &mut self,
        window: SliceKey,
        slices: &[SliceKey],
        state: &mut WindowPersistence,
    ) -> Result<Source, OperatorError> {
        let any_cold = slices.iter().any(|key| self.slices[key].is_cold());
        let accumulates = match &self.windows {
            Windows::Sliced(slicing) => slicing.accumulates(),
            Windows::Attached => false,
        };
        match slices {
            _ if any_cold => Parts::new(self, window, slices, state).map(Source::Parts),
            [only] => Ok(Source::Slice(*only)),
            [first, others @ ..] if accumulates => {
                self.accumulate(*first, others, state)?;
                Ok(Source::Slice(*first))
            }
            several => {
                if self.hot_bytes(several) > MAX_COPIED_BYTES {
                    return Parts::new(self, window, slices, state).map(Source::Parts);
                }
                let mut merged = Merged::new(self)?;
                for hot in several
                    .iter()
                    .filter_map(|key| self.slices[key].hot.as_ref())
                {
                    merged.add(hot, &all_groups(&hot.keys))?;
                }
                Ok(Source::Copy(merged))
            }
        }
    }

    /// Merges slices into the first for good, as all later windows want them together.
    fn accumulate(
        &mut self,
        first: SliceKey,
        others: &[SliceKey],
        state: &mut WindowPersistence,
    ) -> Result<(), OperatorError> {
        for other in others {
            let other_hot = self.remove(*other).and_then(|slice| slice.hot);
            let target = self.slices.get_mut(&first);
            if let (Some(hot), Some(target)) =
                (other_hot, target.and_then(|target| target.hot.as_mut()))
            {
                let mut to = Vec::new();
                let groups = all_groups(&hot.keys);
                merge(&mut target.keys, &mut target.set, &hot, &groups, &mut to)?;
                target.resize();
                target.mark_dirty(&to);
                state.delete_hot(*other, 0, &hot);
            }
        }
        self.recount(first);
        Ok(())
    }

    fn finish(&mut self, firing: &Firing, state: &mut WindowPersistence) {
        for key in &firing.slices {
            if !self.ends_with(*key, firing.window) {
                if let Windows::Sliced(slicing) = &self.windows {
                    let next = firing.window.end + slicing.step();
                    self.pending.insert(SliceKey::ending(next));
                }
            } else if let Some(slice) = self.remove(*key)
                && let Some(hot) = slice.hot
            {
                state.delete_hot(*key, slice.run, &hot);
            }
        }
    }
}

fn gone(key: SliceKey) -> OperatorError {
    OperatorError::Internal(format!(
        "the slice that ends at {} left memory while its window fired",
        key.end
    ))
}

/// A batch whose last columns are the same in all rows: window start, end, time.
fn window_batch(
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
