//! How window state is kept over a barrier.
//!
//! Table `slices`: slice (end, and start for windows that rows bring along, big-endian with the
//! sign flipped) then key → version tag, aggregate entry (see `state_layout`). Table `values`:
//! slice, identity of the value set (8 bytes), key with its length before it, value → version
//! tag, the calls that it counts for. Lists: see `state_layout` and `watermark_state`.

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_state::{Delta, Table};

use super::{
    state_layout::StateLayouts,
    watermark_state,
    window_store::{DIRTY, PERSISTED, Slice, SliceKey, WindowStore, Windows},
};
use crate::{
    OpenContext, OperatorError, OperatorSnapshot,
    aggregate::{AggregatePlan, ValueEntry, codec},
    key_table::{KeyTable, key_group},
};

const FORMAT: u8 = 1;

pub(crate) struct WindowPersistence {
    state_id: StateId,
    slices: Table,
    values: Option<Table>,
    layouts: StateLayouts,
    key_groups: KeyGroupRange,
    max_parallelism: u32,
    clock: std::sync::Arc<dyn crate::Clock>,
}

impl WindowPersistence {
    /// Opens the tables and fills the store with what they hold.
    pub(crate) fn open(
        state_id: &StateId,
        store: &mut WindowStore,
        context: &mut OpenContext<'_>,
    ) -> Result<Self, OperatorError> {
        let plan = std::sync::Arc::clone(store.plan());
        let persistence = WindowPersistence {
            state_id: state_id.clone(),
            slices: context.tables.open_table(state_id, "slices", 0)?,
            values: if !plan.value_sets().is_empty() {
                Some(context.tables.open_table(state_id, "values", 0)?)
            } else {
                None
            },
            layouts: StateLayouts::open(state_id, &plan, context.restored)?,
            key_groups: context.key_groups,
            max_parallelism: context.max_parallelism,
            clock: std::sync::Arc::clone(&context.clock),
        };
        store.tracks_values = persistence.values.is_some();
        store.watermark = watermark_state::restore(state_id, context.key_groups, context.restored)?;
        persistence.load(store, &plan)?;
        Ok(persistence)
    }

    fn load(&self, store: &mut WindowStore, plan: &AggregatePlan) -> Result<(), OperatorError> {
        let mut failure = None;
        let mut visit = |group: KeyGroup, key: &[u8], payload: &[u8]| {
            if self.key_groups.contains(group) {
                self.load_group(store, key, payload)?;
            }
            Ok(())
        };
        self.slices.scan(&mut |group, key, value| {
            if failure.is_none() {
                failure = visit(group, key, &value.payload).err();
            }
            Ok(())
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let Some(values) = &self.values else {
            return Ok(());
        };
        let mut failure = None;
        values.scan(&mut |group, key, value| {
            if failure.is_none() && self.key_groups.contains(group) {
                failure = self.load_value(store, plan, key, &value.payload).err();
            }
            Ok(())
        })?;
        failure.map_or(Ok(()), Err)
    }

    fn load_group(
        &self,
        store: &mut WindowStore,
        mut key: &[u8],
        mut payload: &[u8],
    ) -> Result<(), OperatorError> {
        let slice_key = decode_slice(&store.windows, &mut key).ok_or_else(|| damaged("key"))?;
        if codec::take_u8(&mut payload) != Some(FORMAT) {
            return Err(damaged("entry"));
        }
        let slice = store.slice(slice_key)?;
        let (group, _) = slice.keys.intern_encoded(key)?;
        slice.resize();
        slice.flags[group as usize] = PERSISTED;
        self.layouts.decode(&mut slice.set, group, payload)
    }

    fn load_value(
        &self,
        store: &mut WindowStore,
        plan: &AggregatePlan,
        mut key: &[u8],
        mut payload: &[u8],
    ) -> Result<(), OperatorError> {
        let fail = || damaged("value");
        let slice_key = decode_slice(&store.windows, &mut key).ok_or_else(fail)?;
        let (identity, rest) = key.split_first_chunk::<8>().ok_or_else(fail)?;
        key = rest;
        let group_key = codec::take_bytes(&mut key).ok_or_else(fail)?;
        if codec::take_u8(&mut payload) != Some(FORMAT) {
            return Err(fail());
        }
        let Some(slice) = store.slices.get_mut(&slice_key) else {
            return Ok(());
        };
        let (group, _) = slice.keys.intern_encoded(group_key)?;
        slice.resize();
        let identity = u64::from_be_bytes(*identity);
        let sets = plan.value_sets().iter().enumerate();
        if let Some((number, set)) = sets.into_iter().find(|(_, set)| set.identity == identity) {
            let counts = self.layouts.decode_value(&set.calls, &mut payload)?;
            slice.set.load_value(
                number,
                ValueEntry {
                    group,
                    value: key,
                    counts: &counts,
                    seen_ms: 0,
                },
            )?;
        }
        Ok(())
    }

    /// Writes what changed since the last barrier.
    pub(crate) fn snapshot(
        &mut self,
        store: &mut WindowStore,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        let now = self.clock.now_ms();
        let plan = std::sync::Arc::clone(store.plan());
        let mut delta = self.slices.delta();
        let mut values = self.values.as_ref().map(Table::delta);
        let windows = store.windows;
        // Deletions first: the key of a slice merged away may have been used again since.
        for (key, slice) in std::mem::take(&mut store.dropped) {
            self.delete_slice(&windows, key, &slice, &plan, &mut delta, values.as_mut());
        }
        let mut entry = Vec::new();
        for (slice_key, slice) in &mut store.slices {
            for group in 0..slice.flags.len() as u32 {
                if slice.flags[group as usize] & DIRTY == 0 {
                    continue;
                }
                slice.flags[group as usize] = PERSISTED;
                let (key_group, key) = self.entry_key(&windows, *slice_key, slice, group);
                entry.clear();
                entry.push(FORMAT);
                self.layouts.encode(&slice.set, group, &mut entry);
                delta.put(key_group, &key, now, &entry);
            }
            let Some(values) = &mut values else {
                continue;
            };
            let keys = &slice.keys;
            for (number, set) in plan.value_sets().iter().enumerate() {
                let prefix = value_prefix(&windows, *slice_key, set.identity);
                slice.set.take_value_changes(number, &mut |change| {
                    let (key_group, key) =
                        self.value_key(&prefix, keys, change.group, change.value);
                    entry.clear();
                    entry.push(FORMAT);
                    self.layouts
                        .encode_value(&set.calls, change.counts, &mut entry);
                    values.put(key_group, &key, now, &entry);
                });
            }
        }
        snapshot.delta(delta);
        if let Some(values) = values {
            snapshot.delta(values);
        }
        watermark_state::save(&self.state_id, self.key_groups, store.watermark, snapshot);
        self.layouts.snapshot(&self.state_id, snapshot);
        Ok(())
    }

    fn delete_slice(
        &self,
        windows: &Windows,
        slice_key: SliceKey,
        slice: &Slice,
        plan: &AggregatePlan,
        delta: &mut Delta,
        mut values: Option<&mut Delta>,
    ) {
        for group in 0..slice.flags.len() as u32 {
            if slice.flags[group as usize] & PERSISTED == 0 {
                continue;
            }
            let (key_group, key) = self.entry_key(windows, slice_key, slice, group);
            delta.delete(key_group, &key);
            let Some(values) = values.as_deref_mut() else {
                continue;
            };
            for (number, set) in plan.value_sets().iter().enumerate() {
                let prefix = value_prefix(windows, slice_key, set.identity);
                slice.set.each_value(number, group, &mut |entry| {
                    let (key_group, key) = self.value_key(&prefix, &slice.keys, group, entry.value);
                    values.delete(key_group, &key);
                });
            }
        }
    }

    fn entry_key(
        &self,
        windows: &Windows,
        slice_key: SliceKey,
        slice: &Slice,
        group: u32,
    ) -> (KeyGroup, Vec<u8>) {
        let mut key = encode_slice(windows, slice_key);
        let start = key.len();
        slice.keys.encode_key(group, &mut key);
        (key_group(&key[start..], self.max_parallelism), key)
    }

    fn value_key(
        &self,
        prefix: &[u8],
        keys: &KeyTable,
        group: u32,
        value: &[u8],
    ) -> (KeyGroup, Vec<u8>) {
        let mut group_key = Vec::new();
        keys.encode_key(group, &mut group_key);
        let mut key = Vec::with_capacity(prefix.len() + group_key.len() + value.len() + 2);
        key.extend_from_slice(prefix);
        codec::put_bytes(&mut key, &group_key);
        key.extend_from_slice(value);
        (key_group(&group_key, self.max_parallelism), key)
    }
}

/// The part of a value's key before the group's key.
fn value_prefix(windows: &Windows, slice: SliceKey, identity: u64) -> Vec<u8> {
    let mut prefix = encode_slice(windows, slice);
    prefix.extend_from_slice(&identity.to_be_bytes());
    prefix
}

fn damaged(what: &str) -> OperatorError {
    OperatorError::Internal(format!("a {what} in the state of a window aggregate"))
}

fn encode_slice(windows: &Windows, key: SliceKey) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48);
    bytes.extend_from_slice(&(key.end as u64 ^ 1 << 63).to_be_bytes());
    if matches!(windows, Windows::Attached) {
        bytes.extend_from_slice(&(key.start as u64 ^ 1 << 63).to_be_bytes());
    }
    bytes
}

fn decode_slice(windows: &Windows, bytes: &mut &[u8]) -> Option<SliceKey> {
    let mut take = || {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some((u64::from_be_bytes(*head) ^ 1 << 63) as i64)
    };
    let end = take()?;
    let start = match windows {
        Windows::Attached => take()?,
        Windows::Sliced(_) => 0,
    };
    Some(SliceKey { end, start })
}
