//! The groups of an updating aggregate: keys, accumulators, how many rows each has, and their
//! way to and from the state tables.
//!
//! Table `groups`: key → version tag, number of rows, aggregate entry (see `state_layout`).
//! Table `values`: key with its length before it, identity of the value set (8 bytes), value →
//! version tag, the calls that it counts for (see `state_layout`).
//!
//! Invariants: a group that is not in memory is in the table or empty. A group without rows
//! keeps its number until its deletion has been handed over. A group leaves memory only
//! together with its changes, which the slot makes readable before the next row comes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use millrace_dataflow::{GroupAggregateNode, KeyGroup};
use millrace_state::{Delta, Table};

use super::state_layout::StateLayouts;
use crate::{
    Clock, OpenContext, OperatorError, OperatorSnapshot, StateSize,
    aggregate::{AggregatePlan, AggregateSet, MissingValue, Rows, ValueEntry, codec},
    key_table::{KeyTable, key_group},
};

const FORMAT: u8 = 1;
/// Groups looked at per batch for having outlived the TTL.
const SWEPT_PER_BATCH: usize = 128;

/// What a group is beside its accumulators.
#[derive(Debug, Clone, Copy, Default)]
struct Meta {
    /// The number is in use.
    live: bool,
    /// Rows that make up the group; 0: it does not exist.
    rows: i64,
    /// Last change, epoch ms.
    written_at: i64,
    /// Number of the last batch that touched it.
    batch: u32,
    dirty: bool,
    persisted: bool,
}

pub(crate) struct GroupState {
    node: Arc<GroupAggregateNode>,
    pub(crate) keys: KeyTable,
    pub(crate) set: AggregateSet,
    metas: Vec<Meta>,
    /// By group: some of its distinct values may be in the table only.
    is_partial: Vec<bool>,
    any_partial: bool,
    dirty: Vec<u32>,
    /// Whether the table may hold groups that are not in memory.
    cold: bool,
    batch: u32,
    sweep: usize,
    store: Option<Store>,
    created: Vec<u32>,
}

struct Store {
    groups: Table,
    values: Option<Table>,
    layouts: StateLayouts,
    clock: Arc<dyn Clock>,
    max_parallelism: u32,
}

impl GroupState {
    pub(crate) fn new(
        node: Arc<GroupAggregateNode>,
        keys: KeyTable,
        plan: &Arc<AggregatePlan>,
    ) -> Result<Self, OperatorError> {
        Ok(GroupState {
            node,
            keys,
            set: plan.set()?,
            metas: Vec::new(),
            is_partial: Vec::new(),
            any_partial: false,
            dirty: Vec::new(),
            cold: false,
            batch: 0,
            sweep: 0,
            store: None,
            created: Vec::new(),
        })
    }

    pub(crate) fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        let (id, ttl) = (&self.node.state_id, self.node.ttl_ms);
        let plan = Arc::clone(self.set.plan());
        let groups = context.tables.open_table(id, "groups", ttl)?;
        let values = if !plan.value_sets().is_empty() {
            self.set.track_values();
            Some(context.tables.open_table(id, "values", ttl)?)
        } else {
            None
        };
        self.cold = !groups.is_empty();
        self.store = Some(Store {
            groups,
            values,
            layouts: StateLayouts::open(id, &plan, context.restored)?,
            clock: Arc::clone(&context.clock),
            max_parallelism: context.max_parallelism,
        });
        Ok(())
    }

    pub(crate) fn now(&self) -> i64 {
        self.store.as_ref().map_or(0, |store| store.clock.now_ms())
    }

    pub(crate) fn rows(&self, group: u32) -> i64 {
        self.metas[group as usize].rows
    }

    pub(crate) fn add_rows(&mut self, group: u32, rows: i64) {
        self.metas[group as usize].rows += rows;
    }

    /// The group of every row, loaded from the table where need be and emptied where expired.
    /// `touched`: each group once, in order of first appearance.
    pub(crate) fn intern(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        now: i64,
        groups: &mut Vec<u32>,
        touched: &mut Vec<u32>,
    ) -> Result<(), OperatorError> {
        self.created.clear();
        self.set.set_time(now);
        self.keys.intern(columns, rows, groups, &mut self.created);
        self.resize();
        self.load_created(now)?;
        touched.clear();
        self.batch = self.batch.wrapping_add(1);
        for group in groups.iter() {
            let meta = &mut self.metas[*group as usize];
            if meta.batch != self.batch {
                meta.batch = self.batch;
                touched.push(*group);
            }
        }
        if self.node.ttl_ms > 0 {
            for group in touched.iter() {
                self.expire(*group, now);
            }
        }
        Ok(())
    }

    /// Groups that the last `intern` met for the first time and that exist nowhere.
    pub(crate) fn take_new(&mut self) -> Vec<u32> {
        let metas = &self.metas;
        self.created
            .retain(|group| metas[*group as usize].rows == 0);
        std::mem::take(&mut self.created)
    }

    fn resize(&mut self) {
        let bound = self.keys.group_bound();
        if bound > self.metas.len() {
            // Stamps of the batch start at 1, so that a fresh group is in none.
            self.metas.resize(bound, Meta::default());
            self.is_partial.resize(bound, false);
            self.set.resize(bound);
        }
        for group in &self.created {
            self.metas[*group as usize] = Meta {
                live: true,
                batch: self.batch,
                ..Meta::default()
            };
            self.is_partial[*group as usize] = false;
        }
    }

    fn load_created(&mut self, now: i64) -> Result<(), OperatorError> {
        let Some(store) = self.store.as_ref().filter(|_| self.cold) else {
            return Ok(());
        };
        if self.created.is_empty() {
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = self
            .created
            .iter()
            .map(|group| {
                let mut key = Vec::new();
                self.keys.encode_key(*group, &mut key);
                key
            })
            .collect();
        let lookups: Vec<(KeyGroup, &[u8])> = keys
            .iter()
            .map(|key| (key_group(key, store.max_parallelism), key.as_slice()))
            .collect();
        let found = store.groups.multi_get(&lookups)?;
        for (group, value) in self.created.iter().zip(found) {
            let Some(value) = value else {
                continue;
            };
            if is_expired(value.written_at_ms, self.node.ttl_ms, now) {
                continue;
            }
            let mut payload = value.payload.as_slice();
            let fail = || OperatorError::Internal("an entry in the state of an aggregate".into());
            if codec::take_u8(&mut payload) != Some(FORMAT) {
                return Err(fail());
            }
            let meta = &mut self.metas[*group as usize];
            meta.rows = codec::take_i64(&mut payload).ok_or_else(fail)?;
            meta.written_at = value.written_at_ms;
            meta.persisted = true;
            store.layouts.decode(&mut self.set, *group, payload)?;
            if store.values.is_some() {
                self.is_partial[*group as usize] = true;
                self.any_partial = true;
            }
        }
        Ok(())
    }

    /// Brings those distinct values into memory that the rows are about to meet.
    pub(crate) fn load_values(
        &mut self,
        columns: &[ArrayRef],
        rows: Rows<'_>,
    ) -> Result<(), OperatorError> {
        if !self.any_partial {
            return Ok(());
        }
        let missing = self.set.missing_values(columns, rows, &self.is_partial)?;
        self.fetch_values(missing)
    }

    /// Like [`GroupState::load_values`], for partials.
    pub(crate) fn load_merged_values(
        &mut self,
        partials: &[ArrayRef],
        groups: &[u32],
    ) -> Result<(), OperatorError> {
        if !self.any_partial {
            return Ok(());
        }
        let missing = self
            .set
            .missing_in_partials(partials, groups, &self.is_partial)?;
        self.fetch_values(missing)
    }

    fn fetch_values(&mut self, missing: Vec<MissingValue>) -> Result<(), OperatorError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let Some(values) = &store.values else {
            return Ok(());
        };
        let plan = Arc::clone(self.set.plan());
        let keys: Vec<(KeyGroup, Vec<u8>)> = missing
            .iter()
            .map(|missing| {
                let identity = plan.value_sets()[missing.set].identity;
                let mut key = ValueKey::new(store.max_parallelism);
                let (group, key) = key.get(&self.keys, missing.group, identity, &missing.value);
                (group, key.to_vec())
            })
            .collect();
        let lookups: Vec<(KeyGroup, &[u8])> = keys
            .iter()
            .map(|(group, key)| (*group, key.as_slice()))
            .collect();
        let found = values.multi_get(&lookups)?;
        for (missing, stored) in missing.iter().zip(found) {
            let Some(stored) = stored else {
                continue;
            };
            let mut payload = stored.payload.as_slice();
            if codec::take_u8(&mut payload) != Some(FORMAT) {
                return Err(OperatorError::Internal(
                    "a value in the state of an aggregate".into(),
                ));
            }
            let calls = &plan.value_sets()[missing.set].calls;
            let counts = store.layouts.decode_value(calls, &mut payload)?;
            self.set.load_value(
                missing.set,
                ValueEntry {
                    group: missing.group,
                    value: &missing.value,
                    counts: &counts,
                    seen_ms: stored.written_at_ms,
                },
            )?;
        }
        Ok(())
    }

    /// Notes that the groups changed.
    pub(crate) fn mark_dirty(&mut self, groups: &[u32], now: i64) {
        for group in groups {
            let meta = &mut self.metas[*group as usize];
            meta.written_at = now;
            if !meta.dirty {
                meta.dirty = true;
                self.dirty.push(*group);
            }
        }
    }

    /// Empties the accumulators of a group that has no rows left; the next barrier removes it.
    pub(crate) fn clear(&mut self, group: u32) {
        self.set.clear(group);
        self.metas[group as usize].rows = 0;
        self.is_partial[group as usize] = false;
    }

    fn expire(&mut self, group: u32, now: i64) {
        let meta = self.metas[group as usize];
        if meta.rows != 0 && is_expired(meta.written_at, self.node.ttl_ms, now) {
            self.clear(group);
            self.mark_dirty(&[group], now);
        }
    }

    /// Removes a few groups that have outlived the TTL unseen.
    pub(crate) fn sweep(&mut self, now: i64) {
        if self.node.ttl_ms == 0 || self.metas.is_empty() {
            return;
        }
        for _ in 0..SWEPT_PER_BATCH.min(self.metas.len()) {
            self.sweep = (self.sweep + 1) % self.metas.len();
            self.expire(self.sweep as u32, now);
        }
    }

    /// Writes what changed since the last barrier and removes what is empty.
    pub(crate) fn snapshot(
        &mut self,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        let Some(store) = &self.store else {
            return Err(OperatorError::Internal("a snapshot before open".into()));
        };
        store.layouts.snapshot(&self.node.state_id, snapshot);
        self.write_values(&mut snapshot.deltas);
        self.set.sweep_values();
        let dirty = std::mem::take(&mut self.dirty);
        self.write_groups(dirty, &mut snapshot.deltas);
        Ok(())
    }

    /// Writes the distinct values that have changed.
    fn write_values(&mut self, deltas: &mut Vec<Delta>) {
        let Some(store) = &self.store else {
            return;
        };
        let Some(values) = &store.values else {
            return;
        };
        let mut delta = values.delta();
        let keys = &self.keys;
        let mut payload = Vec::new();
        let plan = Arc::clone(self.set.plan());
        let sets = plan.value_sets();
        // More than enough: memory that is not touched costs nothing, growing does.
        delta.reserve(self.set.noted_values(), 96, 32);
        let mut key = ValueKey::new(store.max_parallelism);
        self.set.take_value_changes(
            |groups| rank_by_key(groups, keys, store.max_parallelism),
            &mut |set, change| {
                let (group, key) = key.get(keys, change.group, sets[set].identity, change.value);
                if change.counts.is_empty() {
                    delta.delete(group, key);
                    return;
                }
                payload.clear();
                payload.push(FORMAT);
                store
                    .layouts
                    .encode_value(&sets[set].calls, change.counts, &mut payload);
                delta.put(group, key, change.seen_ms, &payload);
            },
        );
        deltas.push(delta);
    }

    /// Writes those of the groups that are dirty and lets go of those without rows.
    fn write_groups(&mut self, mut groups: Vec<u32>, deltas: &mut Vec<Delta>) {
        let Some(store) = &self.store else {
            return;
        };
        // Groups that were evicted since they were listed are clean, or listed twice.
        groups.retain(|group| self.metas[*group as usize].dirty);
        rank_by_key(&mut groups, &self.keys, store.max_parallelism);
        let mut delta = store.groups.delta();
        delta.reserve(groups.len(), 64, 128);
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        for group in &groups {
            let meta = &mut self.metas[*group as usize];
            if !std::mem::take(&mut meta.dirty) {
                continue;
            }
            key.clear();
            self.keys.encode_key(*group, &mut key);
            let place = key_group(&key, store.max_parallelism);
            if meta.rows == 0 {
                if meta.persisted {
                    delta.delete(place, &key);
                }
                continue;
            }
            payload.clear();
            payload.push(FORMAT);
            codec::put_i64(&mut payload, meta.rows);
            store.layouts.encode(&self.set, *group, &mut payload);
            delta.put(place, &key, meta.written_at, &payload);
            meta.persisted = true;
        }
        deltas.push(delta);
        for group in groups {
            let meta = &self.metas[group as usize];
            // A group that is listed twice has been let go of by the first entry.
            if meta.live && meta.rows == 0 {
                self.forget(group);
            }
        }
    }

    /// Lets go of about this many bytes: the groups touched least recently, their changes handed
    /// over first.
    pub(crate) fn relieve(&mut self, bytes: u64, deltas: &mut Vec<Delta>) {
        let size = self.state_size();
        if size.entries == 0 || self.store.is_none() {
            return;
        }
        self.write_values(deltas);
        let mut coldest: Vec<(u32, u32)> = (0..self.metas.len() as u32)
            .filter(|group| self.metas[*group as usize].live)
            .map(|group| {
                // How many batches ago, also when the counter has come round.
                let age = self.batch.wrapping_sub(self.metas[group as usize].batch);
                (u32::MAX - age, group)
            })
            .collect();
        let wanted =
            (bytes.min(size.bytes) as f64 / size.bytes as f64 * size.entries as f64).ceil();
        let wanted = wanted as usize;
        if wanted < coldest.len() {
            coldest.select_nth_unstable(wanted);
            coldest.truncate(wanted);
        }
        let coldest: Vec<u32> = coldest.into_iter().map(|(_, group)| group).collect();
        self.write_groups(coldest.clone(), deltas);
        self.cold = true;
        for group in coldest {
            if self.metas[group as usize].live {
                self.clear(group);
                self.forget(group);
            }
        }
        let metas = &self.metas;
        self.dirty.retain(|group| metas[*group as usize].dirty);
    }

    fn forget(&mut self, group: u32) {
        self.metas[group as usize] = Meta::default();
        self.keys.remove(group);
        self.keys.release(group);
    }

    pub(crate) fn state_size(&self) -> StateSize {
        let entries = self.keys.len() as u64;
        let heap = (self.keys.heap_bytes() + self.set.heap_bytes()) as u64;
        let allocated =
            self.keys.bytes() + self.set.bytes() + self.metas.capacity() * (size_of::<Meta>() + 1);
        // Columns do not shrink; what evicted groups leave free is used again.
        let bound = self.keys.group_bound().max(1) as u64;
        StateSize {
            entries,
            bytes: (allocated as u64 - heap) * entries / bound + heap,
        }
    }
}

fn is_expired(written_at: i64, ttl_ms: u64, now: i64) -> bool {
    ttl_ms > 0 && now.saturating_sub_unsigned(ttl_ms) >= written_at
}

/// Most groups worth sorting here.
const RANKED_GROUPS: usize = 1 << 16;

/// Puts groups in the order in which their values lie in the table, so that the delta comes out
/// sorted: sorting many values by their whole keys later costs far more.
fn rank_by_key(groups: &mut [u32], keys: &KeyTable, max_parallelism: u32) {
    if groups.len() > RANKED_GROUPS {
        return;
    }
    groups.sort_by_cached_key(|group| {
        let mut key = Vec::new();
        keys.encode_key(*group, &mut key);
        (key_group(&key, max_parallelism), key.len(), key)
    });
}

/// Keys of values; what consecutive values of one group share is made once.
struct ValueKey {
    max_parallelism: u32,
    group: Option<(u32, KeyGroup)>,
    /// Length of the part that belongs to the group.
    prefix: usize,
    key: Vec<u8>,
}

impl ValueKey {
    fn new(max_parallelism: u32) -> Self {
        ValueKey {
            max_parallelism,
            group: None,
            prefix: 0,
            key: Vec::new(),
        }
    }

    fn get(
        &mut self,
        keys: &KeyTable,
        group: u32,
        identity: u64,
        value: &[u8],
    ) -> (KeyGroup, &[u8]) {
        let place = match self.group {
            Some((same, place)) if same == group => place,
            _ => {
                let mut group_key = Vec::new();
                keys.encode_key(group, &mut group_key);
                self.key.clear();
                codec::put_bytes(&mut self.key, &group_key);
                self.prefix = self.key.len();
                let place = key_group(&group_key, self.max_parallelism);
                self.group = Some((group, place));
                place
            }
        };
        self.key.truncate(self.prefix);
        self.key.extend_from_slice(&identity.to_be_bytes());
        self.key.extend_from_slice(value);
        (place, &self.key)
    }
}
