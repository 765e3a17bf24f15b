//! How the members of value sets are kept: the value, who has it, and when it was last seen.

use std::borrow::Cow;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::DataType,
};
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
pub(super) trait Kept: Clone + Default + Ord + Send + 'static {
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

    fn at(column: &Cells, position: usize) -> &[u8] {
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

/// For which calls a value counts. Bit `i` of a mask stands for the `i`-th call of the set.
pub(super) trait Presence: Clone + Send + 'static {
    /// Whether it fits into a note, so that it need not be looked up when notes are taken.
    const IN_NOTES: bool;
    /// What a note holds of it.
    fn note(&self) -> u32;
    /// Call and number of rows that a note holds.
    fn each_noted(note: u32, visit: impl FnMut(usize, i64));
    /// Of no call.
    fn none(calls: usize) -> Self;
    /// Adds a row for these calls, or takes one back: the calls for which the value has come,
    /// those for which it has gone, and whether anything changed.
    fn apply(&mut self, calls: u32, retract: bool) -> (u32, u32, bool);
    /// Whether no call knows of it.
    fn is_none(&self) -> bool;
    /// Call and number of rows, where not 0.
    fn each(&self, visit: impl FnMut(usize, i64));
    fn set(&mut self, call: usize, count: i64);
    fn heap_bytes(&self) -> usize;
}

/// Where rows are only added: has it or not.
impl Presence for u32 {
    const IN_NOTES: bool = true;

    fn note(&self) -> u32 {
        *self
    }

    fn each_noted(note: u32, visit: impl FnMut(usize, i64)) {
        note.each(visit);
    }

    fn none(_: usize) -> Self {
        0
    }

    #[inline(always)]
    fn apply(&mut self, calls: u32, _: bool) -> (u32, u32, bool) {
        let come = calls & !*self;
        *self |= calls;
        (come, 0, come != 0)
    }

    fn is_none(&self) -> bool {
        *self == 0
    }

    fn each(&self, mut visit: impl FnMut(usize, i64)) {
        for call in 0..32 {
            if self & 1 << call != 0 {
                visit(call, 1);
            }
        }
    }

    fn set(&mut self, call: usize, count: i64) {
        if count > 0 {
            *self |= 1 << call;
        }
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Adding one more row cannot matter beyond this.
const COUNT_LIMIT: i32 = i32::MAX - 1;

/// Where rows can be taken back: how many rows have it, by call.
impl Presence for Box<[i32]> {
    const IN_NOTES: bool = false;

    fn note(&self) -> u32 {
        0
    }

    fn each_noted(_: u32, _: impl FnMut(usize, i64)) {}

    fn none(calls: usize) -> Self {
        vec![0; calls].into()
    }

    fn apply(&mut self, calls: u32, retract: bool) -> (u32, u32, bool) {
        let (mut come, mut gone) = (0, 0);
        for (call, count) in self.iter_mut().enumerate() {
            if calls & 1 << call == 0 {
                continue;
            }
            let before = *count;
            *count = if retract {
                before - 1
            } else {
                (before + 1).min(COUNT_LIMIT)
            };
            match (before > 0, *count > 0) {
                (false, true) => come |= 1 << call,
                (true, false) => gone |= 1 << call,
                _ => {}
            }
        }
        (come, gone, true)
    }

    fn is_none(&self) -> bool {
        self.iter().all(|count| *count == 0)
    }

    fn each(&self, mut visit: impl FnMut(usize, i64)) {
        for (call, count) in self.iter().enumerate() {
            if *count != 0 {
                visit(call, i64::from(*count));
            }
        }
    }

    fn set(&mut self, call: usize, count: i64) {
        if let Some(own) = self.get_mut(call) {
            *own = count.clamp(i64::from(i32::MIN), i64::from(COUNT_LIMIT)) as i32;
        }
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&**self)
    }
}
