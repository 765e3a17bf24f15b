//! What a session aggregate keeps in memory, how much that is, and which keys were used last.

use std::sync::Arc;

use super::sessions::Sessions;
use crate::{
    OperatorError,
    aggregate::{AggregatePlan, AggregateSet},
    key_table::KeyTable,
};

pub(crate) struct SessionState {
    gap: i64,
    pub(crate) keys: KeyTable,
    pub(crate) sessions: Sessions,
    /// By session number.
    pub(crate) set: AggregateSet,
    pub(crate) watermark: i64,
    /// By key: the last batch that had a row of it.
    used: Vec<u32>,
    batch: u32,
}

impl SessionState {
    pub(crate) fn new(
        gap: i64,
        keys: KeyTable,
        plan: &Arc<AggregatePlan>,
    ) -> Result<Self, OperatorError> {
        Ok(SessionState {
            gap,
            keys,
            sessions: Sessions::new(gap),
            set: plan.set()?,
            watermark: i64::MIN,
            used: Vec::new(),
            batch: 0,
        })
    }

    /// Makes room for new keys.
    pub(crate) fn resize_keys(&mut self) {
        let keys = self.keys.group_bound();
        self.sessions.resize_keys(keys);
        if keys > self.used.len() {
            self.used.resize(keys, self.batch);
        }
    }

    /// A batch has rows of these keys.
    pub(crate) fn note_use(&mut self, keys: &[u32]) {
        self.batch = self.batch.wrapping_add(1);
        for key in keys {
            self.used[*key as usize] = self.batch;
        }
    }

    /// Puts a session back.
    pub(crate) fn restore(&mut self, key: u32, start: i64, end: i64, persisted: bool) -> u32 {
        let session = self.sessions.restore(key, start, end, persisted);
        self.used[key as usize] = self.batch;
        self.set.resize(self.sessions.bound());
        session
    }

    /// Forgets a session that is in no list.
    pub(crate) fn release(&mut self, session: u32) {
        self.set.clear(session);
        self.sessions.release(session);
    }

    /// Forgets the key if it has no sessions.
    pub(crate) fn release_key_if_idle(&mut self, key: u32) {
        if self.sessions.is_idle(key) {
            self.keys.remove(key);
            self.keys.release(key);
        }
    }

    /// All keys, those first that were not used for the longest time.
    pub(crate) fn keys_by_use(&self) -> Vec<u32> {
        let mut keys: Vec<(u32, u32)> = self
            .sessions
            .keys()
            .map(|key| (self.batch.wrapping_sub(self.used[key as usize]), key))
            .collect();
        keys.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Gives back memory that nothing uses.
    pub(crate) fn shrink(&mut self) -> Result<(), OperatorError> {
        if self.sessions.len() > 0 {
            self.sessions.sweep();
            return Ok(());
        }
        self.keys = self.keys.like();
        self.sessions = Sessions::new(self.gap);
        self.set = self.set.plan().set()?;
        self.used = Vec::new();
        Ok(())
    }

    /// Memory in use. Room that new keys and sessions will find is not counted.
    pub(crate) fn bytes(&self) -> usize {
        let heap = self.keys.heap_bytes() + self.set.heap_bytes();
        let of_keys = self.keys.bytes() - self.keys.heap_bytes()
            + self.sessions.key_bytes()
            + self.used.capacity() * size_of::<u32>();
        let of_set = self.set.bytes() - self.set.heap_bytes();
        heap + self.sessions.bytes()
            + of_keys * self.keys.len() / self.keys.group_bound().max(1)
            + of_set * self.sessions.len() / self.sessions.bound().max(1)
    }
}
