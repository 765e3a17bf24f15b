//! Sets of values with the number of rows that have each, one set per group.

use std::borrow::Cow;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::DataType,
};
use hashbrown::{HashTable, hash_table::Entry};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    accumulator::damaged,
    cell::{Cells, decode_cells, encode_cells},
};
use crate::{
    OperatorError,
    key_table::{hash_int, int_array, int_values},
};

/// How a value is kept: as itself if integer-like, else by its encoding (see `cell`).
pub(super) trait Kept: Clone + Send + 'static {
    type Column<'a>;
    type Ref<'a>: Copy;

    fn read(column: &ArrayRef) -> Result<Self::Column<'_>, OperatorError>;
    fn at<'a>(column: &'a Self::Column<'_>, position: usize) -> Self::Ref<'a>;
    fn hash(value: Self::Ref<'_>) -> u64;
    fn is(&self, value: Self::Ref<'_>) -> bool;
    fn own(value: Self::Ref<'_>) -> Self;
    fn by_ref(&self) -> Self::Ref<'_>;
    fn heap_bytes(&self) -> usize;
    /// An array of these values.
    fn array<'a>(
        data_type: &DataType,
        values: impl Iterator<Item = &'a Self>,
    ) -> Result<ArrayRef, OperatorError>;
    /// Appends the canonical encoding.
    fn encode(&self, data_type: &DataType, out: &mut Vec<u8>);
    fn decode(data_type: &DataType, bytes: &[u8]) -> Result<Self, OperatorError>;
}

impl Kept for i64 {
    type Column<'a> = Cow<'a, [i64]>;
    type Ref<'a> = i64;

    fn read(column: &ArrayRef) -> Result<Cow<'_, [i64]>, OperatorError> {
        Ok(int_values(column.as_ref()))
    }

    #[inline(always)]
    fn at(column: &Cow<'_, [i64]>, position: usize) -> i64 {
        column[position]
    }

    #[inline(always)]
    fn hash(value: i64) -> u64 {
        hash_int(value)
    }

    #[inline(always)]
    fn is(&self, value: i64) -> bool {
        *self == value
    }

    fn own(value: i64) -> i64 {
        value
    }

    fn by_ref(&self) -> i64 {
        *self
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn array<'a>(
        data_type: &DataType,
        values: impl Iterator<Item = &'a i64>,
    ) -> Result<ArrayRef, OperatorError> {
        Ok(int_array(data_type, values.copied().collect(), None))
    }

    fn encode(&self, data_type: &DataType, out: &mut Vec<u8>) {
        out.push(1);
        if data_type == &DataType::Boolean {
            out.push(*self as u8);
            return;
        }
        let width = data_type.primitive_width().unwrap_or(8);
        let ordered = *self as u64 ^ 1 << (8 * width - 1);
        out.extend_from_slice(&ordered.to_be_bytes()[8 - width..]);
    }

    fn decode(data_type: &DataType, bytes: &[u8]) -> Result<i64, OperatorError> {
        let column = decode_cells(data_type, &mut [bytes])?;
        if column.is_null(0) {
            return Err(damaged("a DISTINCT value"));
        }
        Ok(int_values(column.as_ref())[0])
    }
}

impl Kept for Box<[u8]> {
    type Column<'a> = Cells;
    type Ref<'a> = &'a [u8];

    fn read(column: &ArrayRef) -> Result<Cells, OperatorError> {
        encode_cells(column)
    }

    fn at<'a>(column: &'a Cells, position: usize) -> &'a [u8] {
        column.get(position)
    }

    fn hash(value: &[u8]) -> u64 {
        xxh3_64(value)
    }

    fn is(&self, value: &[u8]) -> bool {
        **self == *value
    }

    fn own(value: &[u8]) -> Self {
        value.into()
    }

    fn by_ref(&self) -> &[u8] {
        self
    }

    fn heap_bytes(&self) -> usize {
        self.len()
    }

    fn array<'a>(
        data_type: &DataType,
        values: impl Iterator<Item = &'a Self>,
    ) -> Result<ArrayRef, OperatorError> {
        let mut cells: Vec<&[u8]> = values.map(AsRef::as_ref).collect();
        decode_cells(data_type, &mut cells)
    }

    fn encode(&self, _: &DataType, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(_: &DataType, bytes: &[u8]) -> Result<Self, OperatorError> {
        Ok(bytes.into())
    }
}

/// When a value was last seen. Takes no room where state is kept for ever.
pub(super) trait Seen: Copy + Send + 'static {
    const EXPIRES: bool;
    fn at(now_ms: i64) -> Self;
    fn is_expired(self, now_ms: i64, ttl_ms: u64) -> bool;
    fn or(self, now_ms: i64) -> i64;
}

impl Seen for () {
    const EXPIRES: bool = false;

    fn at(_: i64) {}

    fn is_expired(self, _: i64, _: u64) -> bool {
        false
    }

    fn or(self, now_ms: i64) -> i64 {
        now_ms
    }
}

impl Seen for i64 {
    const EXPIRES: bool = true;

    fn at(now_ms: i64) -> i64 {
        now_ms
    }

    fn is_expired(self, now_ms: i64, ttl_ms: u64) -> bool {
        ttl_ms > 0 && now_ms.saturating_sub_unsigned(ttl_ms) >= self
    }

    fn or(self, _: i64) -> i64 {
        self
    }
}

struct Member<V, S> {
    value: V,
    count: i32,
    /// Already noted as changed since the last barrier.
    noted: bool,
    seen: S,
}

/// Adding one more row cannot matter beyond this.
const COUNT_LIMIT: i32 = i32::MAX - 1;

/// What a row did to its set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Effect {
    None,
    Entered,
    Left,
}

pub(super) struct ValueSets<V, S> {
    sets: Vec<HashTable<Member<V, S>>>,
    /// Whether the number of rows per value matters, i.e. rows can be taken back.
    counting: bool,
    changed: Vec<(u32, V)>,
    tracking: bool,
    members: usize,
    heap_bytes: usize,
    pub(super) now_ms: i64,
    ttl_ms: u64,
}

impl<V: Kept, S: Seen> ValueSets<V, S> {
    pub(super) fn new(counting: bool, ttl_ms: u64) -> Self {
        ValueSets {
            sets: Vec::new(),
            counting,
            changed: Vec::new(),
            tracking: false,
            members: 0,
            heap_bytes: 0,
            now_ms: 0,
            ttl_ms,
        }
    }

    pub(super) fn resize(&mut self, groups: usize) {
        self.sets.resize_with(groups, HashTable::new);
    }

    /// From now on changes are noted.
    pub(super) fn track(&mut self) {
        self.tracking = true;
    }

    pub(super) fn is_counting(&self) -> bool {
        self.counting
    }

    /// Adds a row to the group's set, or takes one back.
    #[inline(always)]
    pub(super) fn apply(&mut self, group: usize, value: V::Ref<'_>, retract: bool) -> Effect {
        let entry = self.sets[group].entry(
            V::hash(value),
            |member| member.value.is(value),
            |member| V::hash(member.value.by_ref()),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                if !self.counting && !S::EXPIRES {
                    return Effect::None;
                }
                let member = entry.get_mut();
                let before = if member.seen.is_expired(self.now_ms, self.ttl_ms) {
                    0
                } else {
                    member.count
                };
                let after = if retract {
                    before - 1
                } else if self.counting {
                    (before + 1).min(COUNT_LIMIT)
                } else {
                    1
                };
                member.count = after;
                member.seen = S::at(self.now_ms);
                if self.tracking && !member.noted {
                    member.noted = true;
                    self.changed.push((group as u32, V::own(value)));
                }
                if after == 0 {
                    let (member, _) = entry.remove();
                    self.members -= 1;
                    self.heap_bytes -= member.value.heap_bytes();
                }
                match (before > 0, after > 0) {
                    (false, true) => Effect::Entered,
                    (true, false) => Effect::Left,
                    _ => Effect::None,
                }
            }
            Entry::Vacant(entry) => {
                let value = V::own(value);
                self.members += 1;
                self.heap_bytes += value.heap_bytes();
                if self.tracking {
                    self.changed.push((group as u32, value.clone()));
                }
                entry.insert(Member {
                    value,
                    count: if retract { -1 } else { 1 },
                    noted: self.tracking,
                    seen: S::at(self.now_ms),
                });
                if retract {
                    Effect::None
                } else {
                    Effect::Entered
                }
            }
        }
    }

    pub(super) fn contains(&self, group: usize, value: V::Ref<'_>) -> bool {
        self.sets[group]
            .find(V::hash(value), |member| member.value.is(value))
            .is_some()
    }

    /// Puts a persisted value back, unless it is there.
    pub(super) fn load(&mut self, group: u32, value: V, count: i64, seen_ms: i64) {
        let entry = self.sets[group as usize].entry(
            V::hash(value.by_ref()),
            |member| member.value.is(value.by_ref()),
            |member| V::hash(member.value.by_ref()),
        );
        if let Entry::Vacant(entry) = entry {
            self.members += 1;
            self.heap_bytes += value.heap_bytes();
            entry.insert(Member {
                value,
                count: count.clamp(i64::from(i32::MIN), i64::from(COUNT_LIMIT)) as i32,
                noted: false,
                seen: S::at(seen_ms),
            });
        }
    }

    pub(super) fn clear(&mut self, group: u32) {
        let set = &mut self.sets[group as usize];
        self.members -= set.len();
        for member in set.drain() {
            self.heap_bytes -= member.value.heap_bytes();
        }
        *set = HashTable::new();
    }

    pub(super) fn bytes(&self) -> usize {
        // A table is between 7/16 and 7/8 full.
        self.sets.capacity() * size_of::<HashTable<Member<V, S>>>()
            + self.members * (size_of::<Member<V, S>>() + 1) * 3 / 2
            + self.heap_bytes
            + self.changed.capacity() * size_of::<(u32, V)>()
    }

    pub(super) fn len_of(&self, group: u32) -> usize {
        self.sets[group as usize].len()
    }

    pub(super) fn values_of(&self, group: u32) -> impl Iterator<Item = &V> {
        self.sets[group as usize].iter().map(|member| &member.value)
    }

    /// What changed since the last call: group, value, number of rows, when last seen. A value
    /// that went and came back is visited more than once, with its present count.
    pub(super) fn take_changes(&mut self, mut visit: impl FnMut(u32, &V, i64, i64)) {
        for (group, value) in std::mem::take(&mut self.changed) {
            let member = self.sets[group as usize].find_mut(V::hash(value.by_ref()), |member| {
                member.value.is(value.by_ref())
            });
            let (count, seen) = match member {
                Some(member) => {
                    member.noted = false;
                    (i64::from(member.count), member.seen.or(self.now_ms))
                }
                None => (0, self.now_ms),
            };
            visit(group, &value, count, seen);
        }
    }
}
