//! How window state is kept over a barrier.
//!
//! Table `slices`: slice (end, and start for windows that rows bring along, big-endian with the
//! sign flipped) then key → version tag, aggregate entry (see `state_layout`). Table `values`:
//! slice, identity of the call (8 bytes), key with its length before it, value → version tag,
//! number of rows. Lists: see `state_layout` and `watermark_state`.

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_state::{Delta, Table};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    state_layout::StateLayouts,
    watermark_state,
    window_store::{DIRTY, PERSISTED, Slice, SliceKey, WindowStore, Windows},
};
use crate::{
    OpenContext, OperatorError, OperatorSnapshot,
    aggregate::{AggregatePlan, codec},
    key_table::key_group,
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
            values: if plan.has_value_sets() {
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
        let calls: Vec<u64> = plan.meanings().map(call_identity).collect();
        let mut failure = None;
        values.scan(&mut |group, key, value| {
            if failure.is_none() && self.key_groups.contains(group) {
                failure = self.load_value(store, &calls, key, &value.payload).err();
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
        calls: &[u64],
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
        let count = codec::take_i64(&mut payload).ok_or_else(fail)?;
        let Some(slice) = store.slices.get_mut(&slice_key) else {
            return Ok(());
        };
        let (group, _) = slice.keys.intern_encoded(group_key)?;
        slice.resize();
        let identity = u64::from_be_bytes(*identity);
        for (call, accumulator) in slice.set.value_sets() {
            if calls.get(call) == Some(&identity) {
                accumulator.load_value(group, key, count, 0)?;
            }
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
        let calls: Vec<u64> = store.plan().meanings().map(call_identity).collect();
        let mut delta = self.slices.delta();
        let mut values = self.values.as_ref().map(Table::delta);
        let windows = store.windows;
        // Deletions first: the key of a slice merged away may have been used again since.
        for (key, mut slice) in std::mem::take(&mut store.dropped) {
            self.delete_slice(
                &windows,
                key,
                &mut slice,
                &calls,
                &mut delta,
                values.as_mut(),
            );
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
            for (call, accumulator) in slice.set.value_sets() {
                accumulator.take_value_changes(&mut |change| {
                    let (key_group, key) = self.value_key(
                        &windows,
                        *slice_key,
                        calls[call],
                        keys,
                        change.group,
                        change.value,
                    );
                    entry.clear();
                    entry.push(FORMAT);
                    codec::put_i64(&mut entry, change.count);
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
        slice: &mut Slice,
        calls: &[u64],
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
            let keys = &slice.keys;
            for (call, accumulator) in slice.set.value_sets() {
                accumulator.each_value(group, &mut |value| {
                    let (key_group, key) =
                        self.value_key(windows, slice_key, calls[call], keys, group, value);
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
        windows: &Windows,
        slice_key: SliceKey,
        call: u64,
        keys: &crate::key_table::KeyTable,
        group: u32,
        value: &[u8],
    ) -> (KeyGroup, Vec<u8>) {
        let mut group_key = Vec::new();
        keys.encode_key(group, &mut group_key);
        let mut key = encode_slice(windows, slice_key);
        key.extend_from_slice(&call.to_be_bytes());
        codec::put_bytes(&mut key, &group_key);
        key.extend_from_slice(value);
        (key_group(&group_key, self.max_parallelism), key)
    }
}

/// Identifies a call within its node.
pub(crate) fn call_identity(meaning: &str) -> u64 {
    xxh3_64(meaning.as_bytes())
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
