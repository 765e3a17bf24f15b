//! Interns keys: every distinct key gets a small, dense number (its **group**), by which
//! operators index their columns of state.
//!
//! Invariants: a group's key never changes while the group lives. A removed group keeps its
//! number and its readable key until [`KeyTable::release`], so that what is still to be
//! persisted about it can be; released numbers are given out again.
//!
//! The layout in memory follows the key's type (a single integer is kept as such). What is
//! persisted or exchanged is always the canonical encoding of `millrace_dataflow`.

mod byte_keys;
mod int_column;
mod int_keys;
#[cfg(test)]
mod tests;

use arrow::{array::ArrayRef, datatypes::DataType};
use millrace_dataflow::{KeyGroup, key_hash};

pub(crate) use self::int_column::{int_array, int_values, is_int_like};
use self::{byte_keys::ByteKeys, int_keys::IntKeys};
use crate::OperatorError;

/// Keys of one operator (or of one slice of a window) and their groups.
#[derive(Debug)]
pub struct KeyTable {
    types: Vec<DataType>,
    keys: Keys,
    numbers: Numbers,
}

#[derive(Debug)]
enum Keys {
    /// No key columns: one key, the empty one.
    Empty {
        group: Option<u32>,
    },
    Int(IntKeys),
    Bytes(ByteKeys),
}

/// Hands out group numbers.
#[derive(Debug, Default)]
struct Numbers {
    end: u32,
    free: Vec<u32>,
    live: usize,
}

impl Numbers {
    fn next(&mut self) -> u32 {
        self.live += 1;
        self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }
}

impl KeyTable {
    /// A table for key columns of these types.
    pub fn new(types: Vec<DataType>) -> Result<Self, OperatorError> {
        let keys = match types.as_slice() {
            [] => Keys::Empty { group: None },
            [only] if is_int_like(only) => Keys::Int(IntKeys::default()),
            _ => Keys::Bytes(ByteKeys::new(&types)?),
        };
        Ok(KeyTable {
            types,
            keys,
            numbers: Numbers::default(),
        })
    }

    /// An empty table for the same key columns.
    pub fn like(&self) -> Self {
        KeyTable {
            types: self.types.clone(),
            keys: match &self.keys {
                Keys::Empty { .. } => Keys::Empty { group: None },
                Keys::Int(_) => Keys::Int(IntKeys::default()),
                Keys::Bytes(keys) => Keys::Bytes(keys.like()),
            },
            numbers: Numbers::default(),
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.numbers.live
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.live == 0
    }

    /// All group numbers given out so far are below this.
    pub fn group_bound(&self) -> usize {
        self.numbers.end as usize
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.numbers.free.capacity() * 4
            + match &self.keys {
                Keys::Empty { .. } => 0,
                Keys::Int(keys) => keys.bytes(),
                Keys::Bytes(keys) => keys.bytes(),
            }
    }

    /// Bytes of the keys themselves, where they are of varying length: these are freed with them,
    /// while the room of the rest is used again.
    pub fn heap_bytes(&self) -> usize {
        match &self.keys {
            Keys::Empty { .. } | Keys::Int(_) => 0,
            Keys::Bytes(keys) => keys.heap_bytes(),
        }
    }

    /// The group of every row's key, into `groups` (cleared first). Groups that are new are
    /// appended to `created`, in order of first appearance.
    pub fn intern(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        groups: &mut Vec<u32>,
        created: &mut Vec<u32>,
    ) {
        groups.clear();
        let numbers = &mut self.numbers;
        match &mut self.keys {
            Keys::Empty { group } => {
                if rows > 0 {
                    let group = *group.get_or_insert_with(|| {
                        let group = numbers.next();
                        created.push(group);
                        group
                    });
                    groups.resize(rows, group);
                }
            }
            Keys::Int(keys) => keys.intern(&columns[0], numbers, groups, created),
            Keys::Bytes(keys) => keys.intern(columns, rows, numbers, groups, created),
        }
    }

    /// The group of a canonically encoded key, and whether it is new.
    pub fn intern_encoded(&mut self, key: &[u8]) -> Result<(u32, bool), OperatorError> {
        let numbers = &mut self.numbers;
        match &mut self.keys {
            Keys::Empty { group } => match group {
                Some(group) => Ok((*group, false)),
                None => Ok((*group.insert(numbers.next()), true)),
            },
            Keys::Int(keys) => keys.intern_encoded(key, &self.types[0], numbers),
            Keys::Bytes(keys) => Ok(keys.intern_encoded(key, numbers)),
        }
    }

    /// The groups here of the keys that `groups` have in `other`, a table for the same columns.
    pub fn intern_from(&mut self, other: &KeyTable, groups: &[u32], out: &mut Vec<u32>) {
        out.clear();
        let numbers = &mut self.numbers;
        match (&mut self.keys, &other.keys) {
            (Keys::Empty { group }, Keys::Empty { .. }) => {
                if !groups.is_empty() {
                    let group = *group.get_or_insert_with(|| numbers.next());
                    out.resize(groups.len(), group);
                }
            }
            (Keys::Int(keys), Keys::Int(others)) => keys.intern_from(others, groups, numbers, out),
            (Keys::Bytes(keys), Keys::Bytes(others)) => {
                out.extend(
                    groups
                        .iter()
                        .map(|group| keys.intern_encoded(others.key(*group), numbers).0),
                );
            }
            _ => unreachable!("tables for the same columns have the same layout"),
        }
    }

    /// Appends the canonical encoding of the group's key.
    pub fn encode_key(&self, group: u32, out: &mut Vec<u8>) {
        match &self.keys {
            Keys::Empty { .. } => {}
            Keys::Int(keys) => keys.encode_key(group, &self.types[0], out),
            Keys::Bytes(keys) => out.extend_from_slice(keys.key(group)),
        }
    }

    /// The key columns of these groups.
    pub fn columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        match &self.keys {
            Keys::Empty { .. } => Ok(Vec::new()),
            Keys::Int(keys) => Ok(vec![keys.column(groups, &self.types[0])]),
            Keys::Bytes(keys) => keys.columns(groups, &self.types),
        }
    }

    /// Forgets the group's key; the number stays taken and its key readable until it is released.
    pub fn remove(&mut self, group: u32) {
        self.numbers.live -= 1;
        match &mut self.keys {
            Keys::Empty { group } => *group = None,
            Keys::Int(keys) => keys.remove(group),
            Keys::Bytes(keys) => keys.remove(group),
        }
    }

    /// Lets the number of a removed group be given out again.
    pub fn release(&mut self, group: u32) {
        if let Keys::Bytes(keys) = &mut self.keys {
            keys.release(group);
        }
        self.numbers.free.push(group);
    }
}

/// The key group of a canonically encoded key.
pub fn key_group(key: &[u8], max_parallelism: u32) -> KeyGroup {
    KeyGroup::of_hash(key_hash(key), max_parallelism)
}

/// Mixes the bits of an integer key. Private to memory, so it may change at any time.
#[inline]
pub(crate) fn hash_int(value: i64) -> u64 {
    let product = u128::from(value as u64 ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    (product as u64) ^ ((product >> 64) as u64)
}
