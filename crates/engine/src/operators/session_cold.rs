//! The keys of session windows that had to leave memory, with all their sessions.
//!
//! Table `cold`: key → the key's sessions (see `session_entries`).
//! Table `due`: start of a bucket (8 bytes, big-endian with the sign flipped), key → nothing; see
//! `session_due`.
//!
//! Invariants: every key in `cold` is in `due`, in a bucket that starts at or before its first end.
//! The reverse does not hold: a key that came back by itself stays in `due` until its bucket comes.
//!
//! Changes become readable from the tables only some time after they are handed over with a
//! snapshot, so keys that came back are remembered until then.

use std::collections::HashSet;

use millrace_dataflow::{KeyGroup, StateId};
use millrace_state::{Delta, Table};
use millrace_types::CheckpointId;

use super::session_due::DueBuckets;
use crate::{OperatorError, OperatorSnapshot};

pub(crate) struct ColdKeys {
    cold: Table,
    due: Table,
    buckets: DueBuckets,
    cold_changes: Delta,
    due_changes: Delta,
    /// Keys that came back and that `cold` may still hold.
    back: HashSet<Vec<u8>>,
    /// The same, handed over with the snapshots of these checkpoints.
    handed_over: Vec<(CheckpointId, HashSet<Vec<u8>>)>,
    back_bytes: usize,
    /// The bucket that is being emptied, and the last entry taken of its first key group.
    emptying: Option<(i64, Option<Vec<u8>>)>,
}

/// A key with its group.
pub(crate) type PlacedKey = (KeyGroup, Vec<u8>);

impl ColdKeys {
    pub(crate) fn new(cold: Table, due: Table, buckets: DueBuckets) -> Self {
        ColdKeys {
            cold_changes: cold.delta(),
            due_changes: due.delta(),
            cold,
            due,
            buckets,
            back: HashSet::new(),
            handed_over: Vec::new(),
            back_bytes: 0,
            emptying: None,
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The sessions of those of the keys that are cold.
    pub(crate) fn find(&self, keys: &[PlacedKey]) -> Result<Vec<Option<Vec<u8>>>, OperatorError> {
        let mut found = vec![None; keys.len()];
        let wanted: Vec<usize> = (0..keys.len())
            .filter(|position| !self.came_back(&keys[*position].1))
            .collect();
        let lookups: Vec<(KeyGroup, &[u8])> = wanted
            .iter()
            .map(|position| (keys[*position].0, keys[*position].1.as_slice()))
            .collect();
        for (position, value) in wanted.into_iter().zip(self.cold.multi_get(&lookups)?) {
            found[position] = value.map(|value| value.payload);
        }
        Ok(found)
    }

    fn came_back(&self, key: &[u8]) -> bool {
        self.back.contains(key) || self.handed_over.iter().any(|(_, back)| back.contains(key))
    }

    /// The key's sessions are in memory from now on.
    pub(crate) fn take_back(&mut self, (group, key): PlacedKey) {
        self.cold_changes.delete(group, &key);
        // About what a set needs beside the bytes.
        self.back_bytes += key.len() + 64;
        self.back.insert(key);
    }

    /// The key's sessions, the first of which ends at `end`, leave memory. `ahead`: how far that is
    /// from the present.
    pub(crate) fn put(
        &mut self,
        (group, key): &PlacedKey,
        (end, ahead): (i64, i64),
        now: i64,
        sessions: &[u8],
    ) {
        self.cold_changes.put(*group, key, now, sessions);
        let bucket = self.buckets.bucket_of(end, ahead);
        let mut entry = bucket_prefix(bucket).to_vec();
        entry.extend_from_slice(key);
        self.due_changes.put(*group, &entry, now, &[]);
        self.buckets.insert(bucket, *group);
    }

    /// When the next bucket starts from which keys must be taken.
    pub(crate) fn next_due(&self) -> Option<i64> {
        match self.emptying {
            Some((bucket, _)) => Some(bucket),
            None => self.buckets.first(),
        }
    }

    /// What ends before this may fire. Of a bucket that is too large to be taken at once, parts
    /// fire one after the other.
    pub(crate) fn horizon(&self) -> Option<i64> {
        match self.emptying {
            Some((bucket, _)) => self.buckets.first_after(bucket),
            None => self.buckets.first(),
        }
    }

    /// Takes up to `at_most` keys from the next bucket. Some may not be cold any more.
    pub(crate) fn take_due(&mut self, at_most: usize) -> Result<Vec<PlacedKey>, OperatorError> {
        let mut keys = Vec::new();
        let Some(bucket) = self.next_due() else {
            return Ok(keys);
        };
        let mut after = self.emptying.take().and_then(|(_, after)| after);
        let prefix = bucket_prefix(bucket);
        while let Some(group) = self.buckets.group_in(bucket) {
            let (due, changes) = (&self.due, &mut self.due_changes);
            let mut last = None;
            due.scan_prefix_after(group, &prefix, after.as_deref(), &mut |entry, _| {
                changes.delete(group, entry);
                keys.push((group, entry[prefix.len()..].to_vec()));
                let go_on = keys.len() < at_most;
                if !go_on {
                    last = Some(entry.to_vec());
                }
                Ok(go_on)
            })?;
            if last.is_some() {
                self.emptying = Some((bucket, last));
                break;
            }
            self.buckets.remove(bucket, group);
            after = None;
        }
        Ok(keys)
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.cold_changes.bytes() + self.due_changes.bytes() + self.back_bytes + self.index_bytes()
    }

    /// That part of it which cannot be handed over.
    pub(crate) fn index_bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// Hands over what changed, to be readable as soon as this call has returned.
    pub(crate) fn relieve(&mut self, deltas: &mut Vec<Delta>) {
        deltas.extend(self.take_changes());
        self.back = HashSet::new();
        self.handed_over = Vec::new();
        self.back_bytes = 0;
        // Keys may have been put before the place where it stopped.
        self.emptying = None;
    }

    /// Hands over what changed, to be readable when the checkpoint is complete.
    pub(crate) fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        state_id: &StateId,
        snapshot: &mut OperatorSnapshot,
    ) {
        for delta in self.take_changes() {
            snapshot.delta(delta);
        }
        self.buckets.save(state_id, snapshot);
        if !self.back.is_empty() {
            let back = std::mem::take(&mut self.back);
            self.handed_over.push((checkpoint, back));
        }
    }

    pub(crate) fn complete(&mut self, checkpoint: CheckpointId) {
        self.handed_over.retain(|(handed, back)| {
            let is_readable = *handed <= checkpoint;
            if is_readable {
                self.back_bytes -= back.iter().map(|key| key.len() + 64).sum::<usize>();
            }
            !is_readable
        });
    }

    fn take_changes(&mut self) -> [Delta; 2] {
        [
            std::mem::replace(&mut self.cold_changes, self.cold.delta()),
            std::mem::replace(&mut self.due_changes, self.due.delta()),
        ]
    }
}

fn bucket_prefix(bucket: i64) -> [u8; 8] {
    (bucket as u64 ^ 1 << 63).to_be_bytes()
}
