//! Deltas: what an operator changed since the last one, as columns appended in any order, and
//! their frozen form, which is readable until RocksDB has it.
//!
//! Invariants: stored values are never empty, so an empty value marks a deletion; of several
//! entries with one key the last one counts.

use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;
use millrace_dataflow::KeyGroup;
use xxhash_rust::xxh3::xxh3_64;

use crate::{table::TableShared, value};

/// Entries as one key buffer and one value buffer.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    keys: Vec<u8>,
    values: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.values.len() + self.ends.len() * size_of::<(usize, usize)>()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.ends.clear();
    }

    /// Appends a stored key and value as they are.
    pub(crate) fn push_stored(&mut self, key: &[u8], value: &[u8]) {
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(value);
        self.close();
    }

    fn close(&mut self) {
        self.ends.push((self.keys.len(), self.values.len()));
    }

    fn start(&self, entry: usize) -> (usize, usize) {
        if entry == 0 {
            (0, 0)
        } else {
            self.ends[entry - 1]
        }
    }

    pub(crate) fn key(&self, entry: usize) -> &[u8] {
        &self.keys[self.start(entry).0..self.ends[entry].0]
    }

    /// The stored value; `None` for a deletion.
    pub(crate) fn value(&self, entry: usize) -> Option<&[u8]> {
        let value = &self.values[self.start(entry).1..self.ends[entry].1];
        (!value.is_empty()).then_some(value)
    }

    /// The entries in key order, each key once, with the entry that counts.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        // Operators with many changes write them in order.
        if (1..self.len()).all(|entry| self.key(entry - 1) < self.key(entry)) {
            return (0..self.len() as u32).collect();
        }
        // Most comparisons are settled by the first 16 bytes, which sit in the sorted array.
        let mut order: Vec<(u128, u32)> = (0..self.len())
            .map(|entry| (prefix(self.key(entry)), entry as u32))
            .collect();
        // A stable sort: large deltas come as a few sorted runs, which it only has to merge, and
        // the entries of one key stay in their order.
        order.sort_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| {
                let (x, y) = (self.key(a.1 as usize), self.key(b.1 as usize));
                // Equal prefixes of short keys may differ only in trailing zeros.
                x.cmp(y)
            })
        });
        let mut last_writes: Vec<u32> = Vec::with_capacity(order.len());
        for (_, entry) in order {
            match last_writes.last_mut() {
                Some(last) if self.key(*last as usize) == self.key(entry as usize) => {
                    *last = entry;
                }
                _ => last_writes.push(entry),
            }
        }
        last_writes
    }
}

fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let len = key.len().min(16);
    bytes[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(bytes)
}

/// Changes to one table that are not yet part of it. Appending is all an operator does; the
/// last write of a key wins.
#[derive(Debug)]
pub struct Delta {
    pub(crate) table: Arc<TableShared>,
    pub(crate) columns: Columns,
}

impl Delta {
    pub(crate) fn new(table: Arc<TableShared>) -> Self {
        Delta {
            table,
            columns: Columns::default(),
        }
    }

    /// Sets a key's value. `written_at_ms` is what a TTL counts from.
    pub fn put(&mut self, group: KeyGroup, key: &[u8], written_at_ms: i64, payload: &[u8]) {
        self.put_with(group, key, written_at_ms, |out| {
            out.extend_from_slice(payload)
        });
    }

    /// Like [`Delta::put`], with the payload appended in place by `write`, which must not touch
    /// what is in the buffer before.
    pub fn put_with(
        &mut self,
        group: KeyGroup,
        key: &[u8],
        written_at_ms: i64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        value::append_key(&mut self.columns.keys, group, key);
        value::append_value_header(&mut self.columns.values, written_at_ms);
        write(&mut self.columns.values);
        self.columns.close();
    }

    /// Removes a key.
    pub fn delete(&mut self, group: KeyGroup, key: &[u8]) {
        value::append_key(&mut self.columns.keys, group, key);
        self.columns.close();
    }

    /// Makes room for this many more entries of about this size.
    pub fn reserve(&mut self, entries: usize, key_bytes: usize, payload_bytes: usize) {
        self.columns.ends.reserve(entries);
        self.columns
            .keys
            .reserve(entries * (key_bytes + value::GROUP_BYTES));
        self.columns
            .values
            .reserve(entries * (payload_bytes + value::VALUE_HEADER));
    }

    /// Entries appended, repeated keys counted each time.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.columns.len() == 0
    }

    /// Memory in use.
    pub fn bytes(&self) -> usize {
        self.columns.bytes()
    }
}

/// A delta that no longer changes. The index over it is built by the first look-up, so a slot
/// whose keys are all in memory never pays for it.
#[derive(Debug)]
pub(crate) struct FrozenDelta {
    pub(crate) table: Arc<TableShared>,
    pub(crate) columns: Columns,
    index: OnceLock<HashTable<u32>>,
    order: OnceLock<Vec<u32>>,
}

impl FrozenDelta {
    pub(crate) fn new(delta: Delta) -> Self {
        FrozenDelta {
            table: delta.table,
            columns: delta.columns,
            index: OnceLock::new(),
            order: OnceLock::new(),
        }
    }

    /// `None`: the delta does not know the key. `Some(None)`: it deletes the key.
    pub(crate) fn get(&self, stored_key: &[u8]) -> Option<Option<&[u8]>> {
        let index = self.index.get_or_init(|| self.build_index());
        let entry = index.find(xxh3_64(stored_key), |entry| {
            self.columns.key(*entry as usize) == stored_key
        })?;
        Some(self.columns.value(*entry as usize))
    }

    /// Entries in key order, each key once.
    pub(crate) fn order(&self) -> &[u32] {
        self.order.get_or_init(|| self.columns.sorted())
    }

    fn build_index(&self) -> HashTable<u32> {
        let hash = |entry: u32| xxh3_64(self.columns.key(entry as usize));
        let mut index = HashTable::with_capacity(self.columns.len());
        for entry in 0..self.columns.len() as u32 {
            let key = self.columns.key(entry as usize);
            index
                .entry(
                    xxh3_64(key),
                    |other| self.columns.key(*other as usize) == key,
                    |other| hash(*other),
                )
                .and_modify(|other| *other = entry)
                .or_insert(entry);
        }
        index
    }
}
