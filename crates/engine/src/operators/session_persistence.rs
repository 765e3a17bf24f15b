//! How sessions are kept over a barrier.
//!
//! Table `sessions`: key, then the session's start (8 bytes, big-endian with the sign flipped) →
//! version tag, end, value sets (number, then per set its identity, number of values, and per
//! value the value and the calls that it counts for), aggregate entry (see `state_layout`). Value sets are part of the entry, not
//! entries of their own as elsewhere: a session's start moves, and theirs would have to as well.

use std::sync::Arc;

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_state::Table;

use super::{
    session_aggregate::SessionState, sessions::Session, state_layout::StateLayouts, watermark_state,
};
use crate::{
    Clock, OpenContext, OperatorError, OperatorSnapshot,
    aggregate::{ValueEntry, codec},
    key_table::{KeyTable, key_group},
};

const FORMAT: u8 = 1;

pub(crate) struct SessionPersistence {
    state_id: StateId,
    table: Table,
    layouts: StateLayouts,
    key_groups: KeyGroupRange,
    max_parallelism: u32,
    clock: Arc<dyn Clock>,
    deleted: Vec<(KeyGroup, Vec<u8>)>,
}

impl SessionPersistence {
    /// Opens the table and fills the state with what it holds.
    pub(crate) fn open(
        state_id: &StateId,
        state: &mut SessionState,
        context: &mut OpenContext<'_>,
    ) -> Result<Self, OperatorError> {
        let plan = Arc::clone(state.set.plan());
        let persistence = SessionPersistence {
            state_id: state_id.clone(),
            table: context.tables.open_table(state_id, "sessions", 0)?,
            layouts: StateLayouts::open(state_id, &plan, context.restored)?,
            key_groups: context.key_groups,
            max_parallelism: context.max_parallelism,
            clock: Arc::clone(&context.clock),
            deleted: Vec::new(),
        };
        state.watermark = watermark_state::restore(state_id, context.key_groups, context.restored)?;
        let mut failure = None;
        persistence.table.scan(&mut |group, key, value| {
            if failure.is_none() && context.key_groups.contains(group) {
                failure = persistence.load(state, key, &value.payload).err();
            }
            Ok(())
        })?;
        failure.map_or(Ok(persistence), Err)
    }

    fn load(
        &self,
        state: &mut SessionState,
        key: &[u8],
        mut payload: &[u8],
    ) -> Result<(), OperatorError> {
        let fail = || OperatorError::Internal("an entry in the state of a session".into());
        let (key, start) = key.split_last_chunk::<8>().ok_or_else(fail)?;
        let start = (u64::from_be_bytes(*start) ^ 1 << 63) as i64;
        if codec::take_u8(&mut payload) != Some(FORMAT) {
            return Err(fail());
        }
        let end = codec::take_i64(&mut payload).ok_or_else(fail)?;
        let (group, _) = state.keys.intern_encoded(key)?;
        state.sessions.resize_keys(state.keys.group_bound());
        let session = state.sessions.restore(group, start, end);
        state.set.resize(state.sessions.bound());
        for _ in 0..codec::take_u64(&mut payload).ok_or_else(fail)? {
            let (identity, rest) = payload.split_first_chunk::<8>().ok_or_else(fail)?;
            payload = rest;
            let identity = u64::from_be_bytes(*identity);
            let plan = Arc::clone(state.set.plan());
            let mut sets = plan.value_sets().iter().enumerate();
            let set = sets.find(|(_, set)| set.identity == identity);
            for _ in 0..codec::take_u64(&mut payload).ok_or_else(fail)? {
                let value = codec::take_bytes(&mut payload).ok_or_else(fail)?;
                let calls = set.map_or(&[][..], |(_, set)| &set.calls[..]);
                let counts = self.layouts.decode_value(calls, &mut payload)?;
                if let Some((number, _)) = set {
                    let entry = ValueEntry {
                        group: session,
                        value,
                        counts: &counts,
                        seen_ms: 0,
                    };
                    state.set.load_value(number, entry)?;
                }
            }
        }
        self.layouts.decode(&mut state.set, session, payload)
    }

    /// The session is gone: so will be what is persisted of it.
    pub(crate) fn delete(&mut self, keys: &KeyTable, session: &Session) {
        if let Some(start) = session.persisted {
            let entry = self.entry_key(keys, session.key, start);
            self.deleted.push(entry);
        }
    }

    fn entry_key(&self, keys: &KeyTable, group: u32, start: i64) -> (KeyGroup, Vec<u8>) {
        let mut key = Vec::with_capacity(32);
        keys.encode_key(group, &mut key);
        let place = key_group(&key, self.max_parallelism);
        key.extend_from_slice(&(start as u64 ^ 1 << 63).to_be_bytes());
        (place, key)
    }

    /// Writes what changed since the last barrier.
    pub(crate) fn snapshot(
        &mut self,
        state: &mut SessionState,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        let now = self.clock.now_ms();
        let mut delta = self.table.delta();
        let mut dirty = std::mem::take(&mut state.sessions.dirty);
        // Numbers freed since are clean, numbers given out again are listed twice.
        dirty.sort_unstable();
        dirty.dedup();
        dirty.retain(|session| state.sessions.get(*session).dirty);
        // Deletions first: a new session may start where an old one did.
        for (group, key) in self.deleted.drain(..) {
            delta.delete(group, &key);
        }
        for number in &dirty {
            let session = state.sessions.get(*number);
            if let Some(start) = session.persisted.filter(|start| *start != session.start) {
                let (group, key) = self.entry_key(&state.keys, session.key, start);
                delta.delete(group, &key);
            }
        }
        let mut entry = Vec::new();
        for number in dirty {
            let session = state.sessions.get_mut(number);
            session.dirty = false;
            session.persisted = Some(session.start);
            let (end, key, start) = (session.end, session.key, session.start);
            entry.clear();
            entry.push(FORMAT);
            codec::put_i64(&mut entry, end);
            let plan = state.set.plan();
            codec::put_u64(&mut entry, plan.value_sets().len() as u64);
            for (position, set) in plan.value_sets().iter().enumerate() {
                let (mut count, mut values) = (0, Vec::new());
                state.set.each_value(position, number, &mut |value| {
                    count += 1;
                    codec::put_bytes(&mut values, value.value);
                    self.layouts
                        .encode_value(&set.calls, value.counts, &mut values);
                });
                entry.extend_from_slice(&set.identity.to_be_bytes());
                codec::put_u64(&mut entry, count);
                entry.extend_from_slice(&values);
            }
            self.layouts.encode(&state.set, number, &mut entry);
            let (group, key) = self.entry_key(&state.keys, key, start);
            delta.put(group, &key, now, &entry);
        }
        snapshot.delta(delta);
        watermark_state::save(&self.state_id, self.key_groups, state.watermark, snapshot);
        self.layouts.snapshot(&self.state_id, snapshot);
        Ok(())
    }
}
