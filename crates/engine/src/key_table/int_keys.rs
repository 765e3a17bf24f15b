//! Keys of one integer-like column, kept as 64-bit integers inside the hash table, so that a
//! look-up touches one cache line and encodes nothing.

use arrow::{
    array::{Array, ArrayRef},
    buffer::NullBuffer,
    datatypes::DataType,
};
use hashbrown::{HashTable, hash_table::Entry};
use millrace_dataflow::decode_key_column;

use super::{Numbers, hash_int, int_array, int_values};
use crate::OperatorError;

#[derive(Debug, Default)]
pub(super) struct IntKeys {
    table: HashTable<(i64, u32)>,
    null: Option<u32>,
    /// By group; also of removed groups until their number is used again.
    keys: Vec<i64>,
    is_null: Vec<bool>,
}

impl IntKeys {
    pub(super) fn bytes(&self) -> usize {
        self.table.capacity() * 18 + self.keys.capacity() * 8 + self.is_null.capacity()
    }

    pub(super) fn intern(
        &mut self,
        column: &ArrayRef,
        numbers: &mut Numbers,
        groups: &mut Vec<u32>,
        created: &mut Vec<u32>,
    ) {
        let values = int_values(column.as_ref());
        groups.reserve(values.len());
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                for value in values.iter() {
                    let (group, new) = self.get_or_insert(*value, numbers);
                    if new {
                        created.push(group);
                    }
                    groups.push(group);
                }
            }
            Some(nulls) => {
                for (value, valid) in values.iter().zip(nulls) {
                    let (group, new) = if valid {
                        self.get_or_insert(*value, numbers)
                    } else {
                        self.get_or_insert_null(numbers)
                    };
                    if new {
                        created.push(group);
                    }
                    groups.push(group);
                }
            }
        }
    }

    pub(super) fn intern_encoded(
        &mut self,
        key: &[u8],
        data_type: &DataType,
        numbers: &mut Numbers,
    ) -> Result<(u32, bool), OperatorError> {
        let column = decode_key_column(data_type, &mut [key])
            .map_err(|error| OperatorError::Internal(format!("a stored key: {error}")))?;
        if column.is_null(0) {
            Ok(self.get_or_insert_null(numbers))
        } else {
            Ok(self.get_or_insert(int_values(column.as_ref())[0], numbers))
        }
    }

    pub(super) fn intern_from(
        &mut self,
        other: &IntKeys,
        groups: &[u32],
        numbers: &mut Numbers,
        out: &mut Vec<u32>,
    ) {
        out.extend(groups.iter().map(|group| {
            let group = *group as usize;
            if other.is_null[group] {
                self.get_or_insert_null(numbers).0
            } else {
                self.get_or_insert(other.keys[group], numbers).0
            }
        }));
    }

    #[inline]
    fn get_or_insert(&mut self, value: i64, numbers: &mut Numbers) -> (u32, bool) {
        let entry = self.table.entry(
            hash_int(value),
            |(other, _)| *other == value,
            |(other, _)| hash_int(*other),
        );
        match entry {
            Entry::Occupied(entry) => (entry.get().1, false),
            Entry::Vacant(entry) => {
                let group = numbers.next();
                entry.insert((value, group));
                set(&mut self.keys, group, value);
                set(&mut self.is_null, group, false);
                (group, true)
            }
        }
    }

    fn get_or_insert_null(&mut self, numbers: &mut Numbers) -> (u32, bool) {
        match self.null {
            Some(group) => (group, false),
            None => {
                let group = numbers.next();
                self.null = Some(group);
                set(&mut self.keys, group, 0);
                set(&mut self.is_null, group, true);
                (group, true)
            }
        }
    }

    pub(super) fn encode_key(&self, group: u32, data_type: &DataType, out: &mut Vec<u8>) {
        let group = group as usize;
        if self.is_null[group] {
            out.push(0);
            return;
        }
        out.push(1);
        let value = self.keys[group];
        match data_type {
            DataType::Boolean => out.push(value as u8),
            DataType::Int8 => out.push(value as u8 ^ (1 << 7)),
            DataType::Int16 => out.extend_from_slice(&(value as u16 ^ (1 << 15)).to_be_bytes()),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                out.extend_from_slice(&(value as u32 ^ (1 << 31)).to_be_bytes());
            }
            _ => out.extend_from_slice(&(value as u64 ^ (1 << 63)).to_be_bytes()),
        }
    }

    pub(super) fn column(&self, groups: &[u32], data_type: &DataType) -> ArrayRef {
        let values = groups.iter().map(|g| self.keys[*g as usize]).collect();
        let nulls = groups
            .iter()
            .any(|g| self.is_null[*g as usize])
            .then(|| NullBuffer::from_iter(groups.iter().map(|g| !self.is_null[*g as usize])));
        int_array(data_type, values, nulls)
    }

    pub(super) fn remove(&mut self, group: u32) {
        if self.null == Some(group) {
            self.null = None;
            return;
        }
        let value = self.keys[group as usize];
        if let Ok(entry) = self
            .table
            .find_entry(hash_int(value), |(other, _)| *other == value)
        {
            entry.remove();
        }
    }
}

fn set<T: Clone + Default>(column: &mut Vec<T>, group: u32, value: T) {
    let group = group as usize;
    if group >= column.len() {
        column.resize(group + 1, T::default());
    }
    column[group] = value;
}
