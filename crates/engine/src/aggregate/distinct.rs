//! `DISTINCT` in front of any function: a set of values per group lets each value through to
//! the inner function once, and takes it back when the last row that has it goes.
//!
//! Value sets can be large, so they are persisted value by value: only values whose count
//! changed since the last barrier are handed over ([`Accumulator::take_value_changes`]).

use std::{any::Any, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field},
};
use hashbrown::{HashTable, hash_table::Entry};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Accumulator, Rows, ValueChange,
    accumulator::damaged,
    cell::{decode_cells, encode_cells},
    sum::argument,
};
use crate::{
    OperatorError,
    key_table::{hash_int, int_array, int_values, is_int_like},
};

/// How values are kept: as themselves if integer-like, else by their canonical encoding.
trait Kept: Clone + Send + 'static {
    type Ref<'a>: Copy;
    fn hash(value: Self::Ref<'_>) -> u64;
    fn is(&self, value: Self::Ref<'_>) -> bool;
    fn own(value: Self::Ref<'_>) -> Self;
    fn by_ref(&self) -> Self::Ref<'_>;
    fn heap_bytes(&self) -> usize;
}

impl Kept for i64 {
    type Ref<'a> = i64;

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
}

impl Kept for Box<[u8]> {
    type Ref<'a> = &'a [u8];

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
}

struct Member<V> {
    value: V,
    count: i32,
    /// Already noted as changed since the last barrier.
    noted: bool,
}

/// Adding one more row cannot matter beyond this.
const COUNT_LIMIT: i32 = i32::MAX - 1;

struct Sets<V> {
    sets: Vec<HashTable<Member<V>>>,
    changed: Vec<(u32, V)>,
    tracking: bool,
    members: usize,
    heap_bytes: usize,
}

/// What a row did to its set.
#[derive(PartialEq)]
enum Effect {
    None,
    Entered,
    Left,
}

impl<V: Kept> Sets<V> {
    fn new() -> Self {
        Sets {
            sets: Vec::new(),
            changed: Vec::new(),
            tracking: false,
            members: 0,
            heap_bytes: 0,
        }
    }

    /// `counting`: whether the number of rows per value matters, i.e. rows can be taken back.
    #[inline(always)]
    fn apply(&mut self, group: usize, value: V::Ref<'_>, retract: bool, counting: bool) -> Effect {
        let entry = self.sets[group].entry(
            V::hash(value),
            |member| member.value.is(value),
            |member| V::hash(member.value.by_ref()),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                let member = entry.get_mut();
                if !counting {
                    return Effect::None;
                }
                let before = member.count;
                member.count = if retract {
                    before - 1
                } else {
                    (before + 1).min(COUNT_LIMIT)
                };
                let after = member.count;
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
                });
                if retract {
                    Effect::None
                } else {
                    Effect::Entered
                }
            }
        }
    }

    fn count(&self, group: u32, value: V::Ref<'_>) -> Option<&Member<V>> {
        self.sets[group as usize].find(V::hash(value), |member| member.value.is(value))
    }

    fn load(&mut self, group: u32, value: V::Ref<'_>, count: i64) {
        let entry = self.sets[group as usize].entry(
            V::hash(value),
            |member| member.value.is(value),
            |member| V::hash(member.value.by_ref()),
        );
        if let Entry::Vacant(entry) = entry {
            let value = V::own(value);
            self.members += 1;
            self.heap_bytes += value.heap_bytes();
            entry.insert(Member {
                value,
                count: count.clamp(i64::from(i32::MIN), i64::from(COUNT_LIMIT)) as i32,
                noted: false,
            });
        }
    }

    fn clear(&mut self, group: u32) {
        let set = &mut self.sets[group as usize];
        self.members -= set.len();
        for member in set.drain() {
            self.heap_bytes -= member.value.heap_bytes();
        }
        *set = HashTable::new();
    }

    fn bytes(&self) -> usize {
        // A table is at most 7/8 full and on average about 2/3.
        self.sets.capacity() * size_of::<HashTable<Member<V>>>()
            + self.members * (size_of::<Member<V>>() + 1) * 3 / 2
            + self.heap_bytes
            + self.changed.capacity() * size_of::<(u32, V)>()
    }

    /// Changes since the last call; a value that changed, went and came back is visited once
    /// per note with its present count.
    fn take_changes(&mut self, mut visit: impl FnMut(u32, &V, i64)) {
        for (group, value) in std::mem::take(&mut self.changed) {
            let set = &mut self.sets[group as usize];
            let member = set.find_mut(V::hash(value.by_ref()), |m| m.value.is(value.by_ref()));
            let count = match member {
                Some(member) => {
                    member.noted = false;
                    i64::from(member.count)
                }
                None => 0,
            };
            visit(group, &value, count);
        }
    }
}

enum Store {
    Ints(Sets<i64>),
    Bytes(Sets<Box<[u8]>>),
}

pub(super) struct Distinct {
    input: DataType,
    /// Whether rows can be taken back.
    counting: bool,
    /// Whether null is a value (`ARRAY_AGG`) rather than skipped.
    takes_nulls: bool,
    store: Store,
    inner: Box<dyn Accumulator>,
}

impl Distinct {
    pub(super) fn new(
        input: DataType,
        counting: bool,
        takes_nulls: bool,
        inner: Box<dyn Accumulator>,
    ) -> Self {
        let store = if is_int_like(&input) && !takes_nulls {
            Store::Ints(Sets::new())
        } else {
            Store::Bytes(Sets::new())
        };
        Distinct {
            input,
            counting,
            takes_nulls,
            store,
            inner,
        }
    }

    /// Positions and groups of the rows that bring a new value or take the last of one away.
    fn pass(&mut self, column: &ArrayRef, rows: Rows<'_>) -> Result<(), OperatorError> {
        let mut passed = Passed::default();
        let counting = self.counting;
        match &mut self.store {
            Store::Ints(sets) => {
                let values = int_values(column.as_ref());
                rows.each_valid(column.as_ref(), |group, position, retract| {
                    let effect = sets.apply(group, values[position], retract, counting);
                    passed.note(effect, group, position);
                });
            }
            Store::Bytes(sets) => {
                let cells = encode_cells(column)?;
                let visit = |group: usize, position: usize, retract| {
                    let effect = sets.apply(group, cells.get(position), retract, counting);
                    passed.note(effect, group, position);
                };
                if self.takes_nulls {
                    rows.each(visit);
                } else {
                    rows.each_valid(column.as_ref(), visit);
                }
            }
        }
        if passed.groups.is_empty() {
            return Ok(());
        }
        self.inner.update(
            Some(column),
            Rows {
                positions: Some(&passed.positions),
                groups: &passed.groups,
                retract: counting.then_some(&passed.retract[..]),
            },
        )
    }

    fn decode_int(&self, value: &[u8]) -> Result<Option<i64>, OperatorError> {
        let column = decode_cells(&self.input, &mut [value])?;
        Ok(column.is_valid(0).then(|| int_values(column.as_ref())[0]))
    }
}

#[derive(Default)]
struct Passed {
    positions: Vec<u32>,
    groups: Vec<u32>,
    retract: Vec<bool>,
}

impl Passed {
    #[inline(always)]
    fn note(&mut self, effect: Effect, group: usize, position: usize) {
        if effect != Effect::None {
            self.positions.push(position as u32);
            self.groups.push(group as u32);
            self.retract.push(effect == Effect::Left);
        }
    }
}

impl Accumulator for Distinct {
    fn resize(&mut self, groups: usize) {
        match &mut self.store {
            Store::Ints(sets) => sets.sets.resize_with(groups, HashTable::new),
            Store::Bytes(sets) => sets.sets.resize_with(groups, HashTable::new),
        }
        self.inner.resize(groups);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        self.pass(argument(values)?, rows)
    }

    fn partial_width(&self) -> usize {
        1
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let list = partials[0].as_list::<i32>();
        let (positions, of) = flatten(list, groups);
        self.pass(
            list.values(),
            Rows {
                positions: Some(&positions),
                groups: &of,
                retract: None,
            },
        )
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let lengths: Vec<usize>;
        let elements = match &self.store {
            Store::Ints(sets) => {
                let of = || groups.iter().map(|g| &sets.sets[*g as usize]);
                lengths = of().map(HashTable::len).collect();
                let values = of().flat_map(|set| set.iter().map(|m| m.value)).collect();
                int_array(&self.input, values, None)
            }
            Store::Bytes(sets) => {
                let of = || groups.iter().map(|g| &sets.sets[*g as usize]);
                lengths = of().map(HashTable::len).collect();
                let mut cells: Vec<&[u8]> = of()
                    .flat_map(|set| set.iter().map(|m| m.value.as_ref()))
                    .collect();
                decode_cells(&self.input, &mut cells)?
            }
        };
        Ok(vec![Arc::new(ListArray::try_new(
            Arc::new(Field::new("item", self.input.clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            elements,
            None,
        )?)])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        self.inner.emit(groups)
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        self.inner.encode(group, out);
    }

    fn decode(&mut self, group: u32, bytes: &[u8]) -> Result<(), OperatorError> {
        self.inner.decode(group, bytes)
    }

    fn clear(&mut self, group: u32) {
        match &mut self.store {
            Store::Ints(sets) => sets.clear(group),
            Store::Bytes(sets) => sets.clear(group),
        }
        self.inner.clear(group);
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
            + match &self.store {
                Store::Ints(sets) => sets.bytes(),
                Store::Bytes(sets) => sets.bytes(),
            }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn has_value_set(&self) -> bool {
        true
    }

    fn track_values(&mut self) {
        match &mut self.store {
            Store::Ints(sets) => sets.tracking = true,
            Store::Bytes(sets) => sets.tracking = true,
        }
    }

    fn take_value_changes(&mut self, visit: &mut dyn FnMut(ValueChange<'_>)) {
        match &mut self.store {
            Store::Ints(sets) => {
                let mut encode = IntCell::new(&self.input);
                sets.take_changes(|group, value, count| {
                    visit(ValueChange {
                        group,
                        value: encode.get(*value),
                        count,
                    });
                });
            }
            Store::Bytes(sets) => sets.take_changes(|group, value, count| {
                visit(ValueChange {
                    group,
                    value,
                    count,
                });
            }),
        }
    }

    fn each_value(&self, group: u32, visit: &mut dyn FnMut(&[u8])) {
        match &self.store {
            Store::Ints(sets) => {
                let mut encode = IntCell::new(&self.input);
                for member in &sets.sets[group as usize] {
                    visit(encode.get(member.value));
                }
            }
            Store::Bytes(sets) => {
                for member in &sets.sets[group as usize] {
                    visit(&member.value);
                }
            }
        }
    }

    fn load_value(&mut self, group: u32, value: &[u8], count: i64) -> Result<(), OperatorError> {
        if matches!(self.store, Store::Ints(_)) {
            let value = self
                .decode_int(value)?
                .ok_or_else(|| damaged("a DISTINCT value"))?;
            if let Store::Ints(sets) = &mut self.store {
                sets.load(group, value, count);
            }
        } else if let Store::Bytes(sets) = &mut self.store {
            sets.load(group, value, count);
        }
        Ok(())
    }

    fn missing_values(
        &self,
        values: Option<&ArrayRef>,
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError> {
        let mut missing = Vec::new();
        let column = argument(values)?;
        let cells = encode_cells(column)?;
        let ints = match self.store {
            Store::Ints(_) => int_values(column.as_ref()),
            Store::Bytes(_) => Default::default(),
        };
        let visit = |group: usize, position: usize, _| {
            if !is_partial[group] {
                return;
            }
            let known = match &self.store {
                Store::Ints(sets) => sets.count(group as u32, ints[position]).is_some(),
                Store::Bytes(sets) => sets.count(group as u32, cells.get(position)).is_some(),
            };
            if !known {
                missing.push((group as u32, cells.get(position).to_vec()));
            }
        };
        if self.takes_nulls {
            rows.each(visit);
        } else {
            rows.each_valid(column.as_ref(), visit);
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }
}

/// Positions of the elements of all lists, and the group each goes to.
pub(super) fn flatten(list: &ListArray, groups: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut positions, mut of) = (Vec::new(), Vec::new());
    for (row, group) in groups.iter().enumerate() {
        if list.is_valid(row) {
            let range = list.offsets()[row] as u32..list.offsets()[row + 1] as u32;
            of.resize(of.len() + range.len(), *group);
            positions.extend(range);
        }
    }
    (positions, of)
}

/// Encodes single integers canonically.
struct IntCell {
    width: usize,
    boolean: bool,
    bytes: [u8; 9],
}

impl IntCell {
    fn new(data_type: &DataType) -> Self {
        IntCell {
            width: data_type.primitive_width().unwrap_or(1),
            boolean: data_type == &DataType::Boolean,
            bytes: [1; 9],
        }
    }

    fn get(&mut self, value: i64) -> &[u8] {
        let bits = 8 * self.width as u32;
        let ordered = if self.boolean {
            value as u64
        } else {
            value as u64 ^ 1 << (bits - 1)
        };
        let all = ordered.to_be_bytes();
        self.bytes[1..=self.width].copy_from_slice(&all[8 - self.width..]);
        &self.bytes[..=self.width]
    }
}
