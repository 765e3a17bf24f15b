//! How window state leaves memory, at a barrier and in between, and what a restore reads.
//!
//! Table `slices`: slice, run, key (see `window_runs`) → version tag, aggregate entry (see
//! `state_layout`). Table `values`: slice, identity of the value set (8 bytes), run and key with
//! their length before them, value → version tag, the calls that it counts for. Lists: see
//! `state_layout`, `watermark_state` and `window_runs`.
//!
//! Invariants: a slice's hot part is written as its current run and no other; when it leaves
//! memory the run is closed. Deletions are handed over before anything that is written after them,
//! since the key of a slice merged away may be used again.

use std::{collections::BTreeMap, sync::Arc};

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_state::{Delta, Table};

use super::{
    state_layout::StateLayouts,
    watermark_state,
    window_runs::{self, Cold},
    window_store::{DIRTY, Hot, PERSISTED, SliceKey, WindowStore, Windows},
};
use crate::{
    Clock, OpenContext, OperatorError, OperatorSnapshot,
    aggregate::{AggregatePlan, codec},
    key_table::{KeyTable, key_group},
};

pub(super) const FORMAT: u8 = 1;

/// Changes to the tables.
pub(super) struct Changes {
    pub(super) slices: Delta,
    pub(super) values: Option<Delta>,
}

impl Changes {
    fn bytes(&self) -> usize {
        self.slices.bytes() + self.values.as_ref().map_or(0, Delta::bytes)
    }

    fn into_deltas(self) -> impl Iterator<Item = Delta> {
        let deltas = std::iter::once(self.slices).chain(self.values);
        deltas.filter(|delta| !delta.is_empty())
    }
}

pub(crate) struct WindowPersistence {
    state_id: StateId,
    windows: Windows,
    plan: Arc<AggregatePlan>,
    pub(super) slices: Table,
    pub(super) values: Option<Table>,
    pub(super) layouts: StateLayouts,
    pub(super) key_groups: KeyGroupRange,
    pub(super) max_parallelism: u32,
    clock: Arc<dyn Clock>,
    /// Deletions that have not been handed over.
    pub(super) gone: Changes,
}

impl WindowPersistence {
    /// Opens the tables and tells the store what slices they hold.
    pub(crate) fn open(
        state_id: &StateId,
        store: &mut WindowStore,
        context: &mut OpenContext<'_>,
    ) -> Result<Self, OperatorError> {
        let plan = Arc::clone(store.plan());
        let slices = context.tables.open_table(state_id, "slices", 0)?;
        let values = if plan.value_sets().is_empty() {
            None
        } else {
            Some(context.tables.open_table(state_id, "values", 0)?)
        };
        store.tracks_values = values.is_some();
        store.watermark = watermark_state::restore(state_id, context.key_groups, context.restored)?;
        let persistence = WindowPersistence {
            state_id: state_id.clone(),
            windows: store.windows,
            layouts: StateLayouts::open(state_id, &plan, context.restored)?,
            key_groups: context.key_groups,
            max_parallelism: context.max_parallelism,
            clock: Arc::clone(&context.clock),
            gone: Changes {
                slices: slices.delta(),
                values: values.as_ref().map(Table::delta),
            },
            plan,
            slices,
            values,
        };
        let known = window_runs::restore(state_id, context.key_groups, context.restored)?;
        let known = match known {
            Some(known) => known,
            None => persistence.find_slices()?,
        };
        for (key, cold) in known {
            store.add_slice(key, cold);
        }
        Ok(persistence)
    }

    /// The slices of state from before they were listed.
    fn find_slices(&self) -> Result<BTreeMap<SliceKey, Cold>, OperatorError> {
        let mut found: BTreeMap<SliceKey, Cold> = BTreeMap::new();
        let mut is_damaged = false;
        if self.slices.is_empty() {
            return Ok(found);
        }
        self.slices.scan(&mut |group, mut key, _| {
            if self.key_groups.contains(group) {
                let slice = window_runs::take_slice(&self.windows, &mut key);
                match slice.zip(window_runs::take_run(&mut key)) {
                    Some((slice, run)) => {
                        let cold = found.entry(slice).or_default();
                        cold.next_run = cold.next_run.max(run + 1);
                        cold.entries += 1;
                    }
                    None => is_damaged = true,
                }
            }
            Ok(())
        })?;
        if is_damaged {
            return Err(damaged("key"));
        }
        Ok(found)
    }

    /// Writes what changed since the last barrier. All rows of windows that fired are out.
    pub(crate) fn snapshot(&mut self, store: &mut WindowStore, snapshot: &mut OperatorSnapshot) {
        snapshot.deltas.extend(self.take_gone().into_deltas());
        let mut changes = self.no_changes();
        let mut slices = Vec::with_capacity(store.slices.len());
        for (key, slice) in &mut store.slices {
            let mut cold = Cold {
                next_run: slice.run,
                entries: slice.cold,
            };
            if let Some(hot) = &mut slice.hot {
                self.write_hot(*key, slice.run, hot, &mut changes);
                cold.next_run += 1;
                cold.entries += hot.keys.len() as u64;
            }
            slices.push((*key, cold));
        }
        snapshot.deltas.extend(changes.into_deltas());
        window_runs::save(&self.state_id, self.key_groups, &slices, snapshot);
        watermark_state::save(&self.state_id, self.key_groups, store.watermark, snapshot);
        self.layouts.snapshot(&self.state_id, snapshot);
    }

    /// Hands deletions over, then hot parts until about so many bytes are free.
    pub(crate) fn relieve(&mut self, store: &mut WindowStore, bytes: u64, deltas: &mut Vec<Delta>) {
        let gone = self.take_gone();
        let mut freed = gone.bytes() as u64;
        deltas.extend(gone.into_deltas());
        let mut changes = self.no_changes();
        for key in store.evictable() {
            if freed >= bytes {
                break;
            }
            if let Some(slice) = store.slices.get_mut(&key)
                && let Some(hot) = &mut slice.hot
            {
                self.write_hot(key, slice.run, hot, &mut changes);
            }
            freed += store.forget_hot(key);
        }
        deltas.extend(changes.into_deltas());
    }

    /// Memory held by deletions that have not been handed over.
    pub(crate) fn gone_bytes(&self) -> u64 {
        self.gone.bytes() as u64
    }

    fn no_changes(&self) -> Changes {
        Changes {
            slices: self.slices.delta(),
            values: self.values.as_ref().map(Table::delta),
        }
    }

    fn take_gone(&mut self) -> Changes {
        let none = self.no_changes();
        std::mem::replace(&mut self.gone, none)
    }

    /// Writes the dirty groups of a hot part.
    fn write_hot(&self, slice: SliceKey, run: u32, hot: &mut Hot, changes: &mut Changes) {
        let now = self.clock.now_ms();
        let mut entry = Vec::new();
        for group in 0..hot.flags.len() as u32 {
            if hot.flags[group as usize] & DIRTY == 0 {
                continue;
            }
            hot.flags[group as usize] = PERSISTED;
            let (key_group, key) = self.entry_key(slice, run, &hot.keys, group);
            entry.clear();
            entry.push(FORMAT);
            self.layouts.encode(&hot.set, group, &mut entry);
            changes.slices.put(key_group, &key, now, &entry);
        }
        let Some(values) = &mut changes.values else {
            return;
        };
        let (keys, sets) = (&hot.keys, self.plan.value_sets());
        hot.set.take_value_changes(|_| {}, &mut |set, change| {
            let (key_group, key) = self.value_key(
                slice,
                sets[set].identity,
                run,
                keys,
                change.group,
                change.value,
            );
            entry.clear();
            entry.push(FORMAT);
            self.layouts
                .encode_value(&sets[set].calls, change.counts, &mut entry);
            values.put(key_group, &key, now, &entry);
        });
    }

    /// Notes that the entries of a hot part go. Most slices live and die between two barriers and
    /// leave nothing to delete.
    pub(super) fn delete_hot(&mut self, slice: SliceKey, run: u32, hot: &Hot) {
        for group in 0..hot.flags.len() as u32 {
            if hot.flags[group as usize] & PERSISTED == 0 {
                continue;
            }
            let (key_group, key) = self.entry_key(slice, run, &hot.keys, group);
            self.gone.slices.delete(key_group, &key);
            for (number, set) in self.plan.value_sets().iter().enumerate() {
                let mut keys = Vec::new();
                hot.set.each_value(number, group, &mut |entry| {
                    keys.push(self.value_key(
                        slice,
                        set.identity,
                        run,
                        &hot.keys,
                        group,
                        entry.value,
                    ));
                });
                if let Some(values) = &mut self.gone.values {
                    for (key_group, key) in keys {
                        values.delete(key_group, &key);
                    }
                }
            }
        }
    }

    fn entry_key(
        &self,
        slice: SliceKey,
        run: u32,
        keys: &KeyTable,
        group: u32,
    ) -> (KeyGroup, Vec<u8>) {
        let mut key = Vec::with_capacity(48);
        window_runs::put_slice(&self.windows, slice, &mut key);
        window_runs::put_run(run, &mut key);
        let start = key.len();
        keys.encode_key(group, &mut key);
        (key_group(&key[start..], self.max_parallelism), key)
    }

    fn value_key(
        &self,
        slice: SliceKey,
        identity: u64,
        run: u32,
        keys: &KeyTable,
        group: u32,
        value: &[u8],
    ) -> (KeyGroup, Vec<u8>) {
        let mut run_and_key = Vec::with_capacity(32);
        window_runs::put_run(run, &mut run_and_key);
        let start = run_and_key.len();
        keys.encode_key(group, &mut run_and_key);
        let key_group = key_group(&run_and_key[start..], self.max_parallelism);
        let mut key = Vec::with_capacity(32 + run_and_key.len() + value.len());
        window_runs::put_slice(&self.windows, slice, &mut key);
        key.extend_from_slice(&identity.to_be_bytes());
        codec::put_bytes(&mut key, &run_and_key);
        key.extend_from_slice(value);
        (key_group, key)
    }
}

pub(super) fn damaged(what: &str) -> OperatorError {
    OperatorError::Internal(format!("a {what} in the state of a window aggregate"))
}
