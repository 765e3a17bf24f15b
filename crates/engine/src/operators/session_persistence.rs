//! How sessions are kept over a barrier, and how keys leave memory and come back.
//!
//! Table `sessions`: key, then the session's start (8 bytes, big-endian with the sign flipped) →
//! entry (see `session_entries`). After a barrier it holds the sessions that are in memory; the
//! keys that are not are in `session_cold`. A key is in the one or in the other with all of its
//! sessions. So barriers cost nothing more for jobs that never lack memory, and a restore brings
//! into memory what was there, piece by piece.

use std::sync::Arc;

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_state::{Delta, Table};
use millrace_types::CheckpointId;

use super::{
    session_cold::{ColdKeys, PlacedKey},
    session_due::DueBuckets,
    session_entries as entries,
    session_state::SessionState,
    sessions::Session,
    state_layout::StateLayouts,
    watermark_state,
};
use crate::{
    Clock, OpenContext, OperatorError, OperatorSnapshot,
    key_table::{KeyTable, key_group},
};

/// How much is done in one go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces {
    /// Persisted bytes brought into memory before the slot may ask for memory again.
    pub(crate) bytes: usize,
    /// Cold keys looked up at a time.
    pub(crate) keys: usize,
    /// What a batch of results should not be much larger than.
    pub(crate) result_bytes: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            bytes: 1 << 20,
            keys: 512,
            result_bytes: 1 << 20,
        }
    }
}

pub(crate) struct SessionPersistence {
    state_id: StateId,
    table: Table,
    layouts: StateLayouts,
    key_groups: KeyGroupRange,
    max_parallelism: u32,
    clock: Arc<dyn Clock>,
    /// Of `table`.
    deleted: Delta,
    pub(crate) cold: ColdKeys,
    pieces: Pieces,
    /// What of `table` a restore has not brought into memory yet.
    unread: Option<Unread>,
}

struct Unread {
    group: u16,
    after: Option<Vec<u8>>,
}

impl SessionPersistence {
    /// Opens the tables. What they hold is to be brought in by `read_piece`.
    pub(crate) fn open(
        state_id: &StateId,
        gap: i64,
        pieces: Pieces,
        state: &mut SessionState,
        context: &mut OpenContext<'_>,
    ) -> Result<Self, OperatorError> {
        let plan = Arc::clone(state.set.plan());
        let (key_groups, restored) = (context.key_groups, context.restored);
        state.watermark = watermark_state::restore(state_id, key_groups, restored)?;
        let table = context.tables.open_table(state_id, "sessions", 0)?;
        let cold = context.tables.open_table(state_id, "cold", 0)?;
        let due = context.tables.open_table(state_id, "due", 0)?;
        let buckets = DueBuckets::open(gap, state_id, key_groups, restored)?;
        Ok(SessionPersistence {
            state_id: state_id.clone(),
            layouts: StateLayouts::open(state_id, &plan, restored)?,
            pieces,
            key_groups,
            max_parallelism: context.max_parallelism,
            clock: Arc::clone(&context.clock),
            deleted: table.delta(),
            cold: ColdKeys::new(cold, due, buckets),
            unread: (!table.is_empty()).then_some(Unread {
                group: key_groups.start,
                after: None,
            }),
            table,
        })
    }

    /// Whether a restore has more to bring into memory.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// Brings more of what a restore found into memory, whole keys.
    pub(crate) fn read_piece(&mut self, state: &mut SessionState) -> Result<(), OperatorError> {
        let Some(Unread { group, mut after }) = self.unread.take() else {
            return Ok(());
        };
        let mut bytes = 0;
        for group in group..self.key_groups.end {
            let (layouts, at_most) = (&self.layouts, self.pieces.bytes);
            let mut failure = None;
            let mut last: Option<Vec<u8>> = None;
            let mut is_whole = true;
            let visit = &mut |stored: &[u8], value: millrace_state::Value| {
                let Some((key, start)) = stored.split_last_chunk::<8>() else {
                    failure = Some(entries::damaged());
                    return Ok(false);
                };
                let same_key = last
                    .as_ref()
                    .is_some_and(|last| last.len() == stored.len() && last.starts_with(key));
                if bytes >= at_most && !same_key {
                    is_whole = false;
                    return Ok(false);
                }
                bytes += stored.len() + value.payload.len();
                failure = read(layouts, state, key, *start, &value.payload).err();
                last = Some(stored.to_vec());
                Ok(failure.is_none())
            };
            self.table
                .scan_prefix_after(KeyGroup(group), &[], after.as_deref(), visit)?;
            if let Some(failure) = failure {
                return Err(failure);
            }
            if !is_whole {
                let after = last.or(after);
                self.unread = Some(Unread { group, after });
                return Ok(());
            }
            after = None;
        }
        Ok(())
    }

    /// Brings those of the keys back that are cold. They must be new in memory.
    pub(crate) fn take_back(
        &mut self,
        state: &mut SessionState,
        keys: &[u32],
    ) -> Result<(), OperatorError> {
        if self.cold.is_empty() {
            return Ok(());
        }
        for keys in keys.chunks(self.pieces.keys) {
            let placed: Vec<PlacedKey> = keys
                .iter()
                .map(|key| self.placed_key(&state.keys, *key))
                .collect();
            let found = self.cold.find(&placed)?;
            for ((key, placed), found) in keys.iter().zip(placed).zip(found) {
                if let Some(entry) = found {
                    entries::decode_key(&self.layouts, state, *key, &entry)?;
                    self.cold.take_back(placed);
                }
            }
        }
        Ok(())
    }

    /// Brings keys of the next bucket back, not much more than a piece: how many bytes of them.
    pub(crate) fn take_due(&mut self, state: &mut SessionState) -> Result<usize, OperatorError> {
        let bucket = self.cold.next_due();
        let mut bytes = 0;
        while bucket.is_some() && self.cold.next_due() == bucket && bytes < self.pieces.bytes {
            let placed = self.cold.take_due(self.pieces.keys)?;
            let found = self.cold.find(&placed)?;
            for (placed, found) in placed.into_iter().zip(found) {
                bytes += placed.1.len();
                if let Some(entry) = found {
                    bytes += entry.len();
                    let (key, _) = state.keys.intern_encoded(&placed.1)?;
                    state.resize_keys();
                    entries::decode_key(&self.layouts, state, key, &entry)?;
                    self.cold.take_back(placed);
                }
            }
        }
        Ok(bytes)
    }

    /// The session is gone: so will be what is persisted of it.
    pub(crate) fn delete(&mut self, keys: &KeyTable, session: &Session) {
        if let Some(start) = session.persisted {
            let (group, key) = self.entry_key(keys, session.key, start);
            self.deleted.delete(group, &key);
        }
    }

    /// Lets go of about this many bytes. `ahead`: how far a session's end is from the present.
    pub(crate) fn relieve(
        &mut self,
        state: &mut SessionState,
        bytes: u64,
        ahead: impl Fn(i64) -> i64,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), OperatorError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let target = (state.bytes() + self.bytes()).saturating_sub(bytes);
        let now = self.clock.now_ms();
        let keys = state.keys_by_use();
        let mut rest = &keys[..];
        while !rest.is_empty() {
            // Changes go in any case.
            let held = state.bytes() + self.cold.index_bytes();
            let Some(excess) = held.checked_sub(target).filter(|excess| *excess > 0) else {
                break;
            };
            let per_key = state.bytes() / rest.len() + 1;
            let (leave, stay) = rest.split_at((excess / per_key + 1).min(rest.len()));
            for key in leave {
                self.make_cold(state, *key, &ahead, now);
            }
            rest = stay;
        }
        state.shrink()?;
        deltas.push(std::mem::replace(&mut self.deleted, self.table.delta()));
        self.cold.relieve(deltas);
        deltas.retain(|delta| !delta.is_empty());
        Ok(())
    }

    fn make_cold(
        &mut self,
        state: &mut SessionState,
        key: u32,
        ahead: impl Fn(i64) -> i64,
        now: i64,
    ) {
        let sessions = state.sessions.take_key(key);
        let entry = entries::encode_key(&self.layouts, state, &sessions);
        let ends = sessions
            .iter()
            .map(|number| state.sessions.get(*number).end);
        if let Some(end) = ends.min() {
            let placed = self.placed_key(&state.keys, key);
            self.cold.put(&placed, (end, ahead(end)), now, &entry);
        }
        for number in sessions {
            self.delete(&state.keys, state.sessions.get(number));
            state.release(number);
        }
        state.release_key_if_idle(key);
    }

    fn placed_key(&self, keys: &KeyTable, number: u32) -> PlacedKey {
        let mut key = Vec::with_capacity(32);
        keys.encode_key(number, &mut key);
        (key_group(&key, self.max_parallelism), key)
    }

    fn entry_key(&self, keys: &KeyTable, number: u32, start: i64) -> PlacedKey {
        let (group, mut key) = self.placed_key(keys, number);
        key.extend_from_slice(&(start as u64 ^ 1 << 63).to_be_bytes());
        (group, key)
    }

    /// Memory beside the sessions.
    pub(crate) fn bytes(&self) -> usize {
        self.deleted.bytes() + self.cold.bytes()
    }

    /// Writes what changed since the last barrier.
    pub(crate) fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        state: &mut SessionState,
        snapshot: &mut OperatorSnapshot,
    ) {
        let now = self.clock.now_ms();
        // Deletions first: a new session may start where an old one did.
        let mut delta = std::mem::replace(&mut self.deleted, self.table.delta());
        let dirty = state.sessions.take_dirty();
        for number in &dirty {
            let session = state.sessions.get(*number);
            if let Some(start) = session.persisted.filter(|start| *start != session.start) {
                let (group, key) = self.entry_key(&state.keys, session.key, start);
                delta.delete(group, &key);
            }
        }
        let mut entry = Vec::new();
        for number in dirty {
            entry.clear();
            entries::encode(&self.layouts, state, number, &mut entry);
            let session = state.sessions.get_mut(number);
            session.dirty = false;
            session.persisted = Some(session.start);
            let (number, start) = (session.key, session.start);
            let (group, key) = self.entry_key(&state.keys, number, start);
            delta.put(group, &key, now, &entry);
        }
        snapshot.delta(delta);
        self.cold.snapshot(checkpoint, &self.state_id, snapshot);
        watermark_state::save(&self.state_id, self.key_groups, state.watermark, snapshot);
        self.layouts.snapshot(&self.state_id, snapshot);
    }
}

fn read(
    layouts: &StateLayouts,
    state: &mut SessionState,
    key: &[u8],
    start: [u8; 8],
    entry: &[u8],
) -> Result<(), OperatorError> {
    let start = (u64::from_be_bytes(start) ^ 1 << 63) as i64;
    let (key, _) = state.keys.intern_encoded(key)?;
    state.resize_keys();
    entries::decode(layouts, state, key, (start, true), entry)
}
