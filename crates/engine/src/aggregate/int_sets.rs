//! Value sets in the layout of the common case: integer-like values, rows only added, no TTL.
//!
//! One open-addressing table per group with the value and its calls side by side, so that a
//! look-up touches one place in memory, which for large sets is all that it costs.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ListArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field},
};

use super::{
    Rows,
    kept::{Kept, Presence},
    notes::{Arranged, Note, Notes},
    value_set::{Passed, RowCalls, ValueEntry, ValueSets},
};
use crate::{
    OperatorError,
    key_table::{hash_int, int_array, int_values},
};

/// A value and the calls that have it, one bit each; none: the slot is free.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    value: i64,
    calls: u32,
}

/// The set of one group. The number of slots is zero or a power of two; at most three quarters
/// are taken; a value lies in the first slot from its hash on that was free when it came.
#[derive(Debug, Default)]
struct Set {
    slots: Box<[Slot]>,
    len: usize,
}

const FIRST_SLOTS: usize = 4;

impl Set {
    #[inline(always)]
    fn home(&self, value: i64) -> usize {
        hash_int(value) as usize & self.slots.len().wrapping_sub(1)
    }

    /// Adds calls to a value: those it had not, and all it has.
    #[inline(always)]
    fn add(&mut self, value: i64, calls: u32) -> (u32, u32) {
        if self.len * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let mut place = self.home(value);
        loop {
            let slot = &mut self.slots[place];
            if slot.calls == 0 {
                *slot = Slot { value, calls };
                self.len += 1;
                return (calls, calls);
            }
            if slot.value == value {
                let come = calls & !slot.calls;
                slot.calls |= calls;
                return (come, slot.calls);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(FIRST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots].into());
        for slot in old.iter().filter(|slot| slot.calls != 0) {
            let mut place = self.home(slot.value);
            while self.slots[place].calls != 0 {
                place = (place + 1) & (slots - 1);
            }
            self.slots[place] = *slot;
        }
    }

    fn contains(&self, value: i64) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let mut place = self.home(value);
        loop {
            let slot = &self.slots[place];
            if slot.calls == 0 || slot.value == value {
                return slot.calls != 0;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.calls != 0)
    }
}

pub(super) struct IntSets {
    input: DataType,
    sets: Vec<Set>,
    changed: Notes<i64>,
    arranged: Arranged<i64>,
    tracking: bool,
    /// Slots of all sets.
    slots: usize,
    /// What changes are written with, so that a TTL can be switched on later.
    now_ms: i64,
}

/// Rows looked up ahead, and from how many slots on that pays.
const AHEAD: usize = 64;
const AHEAD_FROM: usize = 1 << 15;

impl IntSets {
    pub(super) fn new(input: DataType) -> Self {
        IntSets {
            input,
            sets: Vec::new(),
            changed: Notes::default(),
            arranged: Arranged::default(),
            tracking: false,
            slots: 0,
            now_ms: 0,
        }
    }

    /// Reads where rows will look, so that memory comes into the cache for many of them side by
    /// side rather than for one after the other.
    fn look_ahead(
        &self,
        values: &[i64],
        groups: &[u32],
        rows: std::ops::Range<usize>,
        position_of: impl Fn(usize) -> usize,
    ) {
        let mut seen = 0;
        for row in rows {
            let set = &self.sets[groups[row] as usize];
            let home = set.home(values[position_of(row)]);
            seen |= set.slots.get(home).map_or(0, |slot| slot.calls);
        }
        std::hint::black_box(seen);
    }
}

impl ValueSets for IntSets {
    fn resize(&mut self, groups: usize) {
        self.sets.resize_with(groups, Set::default);
    }

    fn clear(&mut self, group: u32) {
        let set = std::mem::take(&mut self.sets[group as usize]);
        self.slots -= set.slots.len();
    }

    fn bytes(&self) -> usize {
        self.sets.capacity() * size_of::<Set>() + self.heap_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.slots * size_of::<Slot>() + self.changed.bytes()
    }

    fn track(&mut self) {
        self.tracking = true;
    }

    fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    fn sweep(&mut self) {}

    fn pass(
        &mut self,
        column: &ArrayRef,
        rows: Rows<'_>,
        calls: RowCalls<'_>,
        passed: &mut [Passed],
    ) -> Result<(), OperatorError> {
        let values = int_values(column.as_ref());
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let position_of = |row: usize| match rows.positions {
            Some(positions) => positions[row] as usize,
            None => row,
        };
        for start in (0..rows.groups.len()).step_by(AHEAD) {
            let chunk = start..(start + AHEAD).min(rows.groups.len());
            if self.slots >= AHEAD_FROM {
                self.look_ahead(&values, rows.groups, chunk.clone(), position_of);
            }
            for row in chunk {
                let (group, position) = (rows.groups[row], position_of(row));
                let mask = match calls {
                    RowCalls::All(mask) => mask,
                    RowCalls::Each(masks) => masks[row],
                };
                if mask == 0 || nulls.is_some_and(|nulls| nulls.is_null(position)) {
                    continue;
                }
                let value = values[position];
                let set = &mut self.sets[group as usize];
                let before = set.slots.len();
                let (mut come, all) = set.add(value, mask);
                self.slots += set.slots.len() - before;
                if come == 0 {
                    continue;
                }
                if self.tracking {
                    self.changed.push(Note {
                        group,
                        presence: all,
                        value,
                    });
                }
                while come != 0 {
                    let passed = &mut passed[come.trailing_zeros() as usize];
                    come &= come - 1;
                    passed.positions.push(position as u32);
                    passed.groups.push(group);
                }
            }
        }
        Ok(())
    }

    fn lists(&self, call: usize, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let mut lengths = Vec::with_capacity(groups.len());
        let mut values = Vec::new();
        for group in groups {
            let before = values.len();
            let of_call = self.sets[*group as usize].iter();
            values.extend(
                of_call
                    .filter(|slot| slot.calls & 1 << call != 0)
                    .map(|slot| slot.value),
            );
            lengths.push(values.len() - before);
        }
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new("item", self.input.clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            int_array(&self.input, values, None),
            None,
        )?))
    }

    fn noted(&self) -> usize {
        self.changed.len()
    }

    fn changed_groups(&self, place: &mut [u32], groups: &mut Vec<u32>) {
        self.changed.groups(place, groups);
    }

    fn arrange_changes(&mut self, place: &[u32], places: usize) {
        self.arranged = self.changed.arrange(place, places);
    }

    fn changes_done(&mut self) {
        self.arranged = Arranged::default();
    }

    fn visit_changes(&mut self, place: usize, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>)) {
        let (mut cell, mut counts) = (Vec::new(), Vec::new());
        let (input, seen_ms) = (&self.input, self.now_ms);
        self.arranged.visit(place, |value, calls| {
            cell.clear();
            counts.clear();
            value.encode(input, &mut cell);
            calls.each(|call, count| counts.push((call, count)));
            visit(ValueEntry {
                group,
                value: &cell,
                counts: &counts,
                seen_ms,
            });
        });
    }

    fn each(&self, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>)) {
        let (mut cell, mut counts) = (Vec::new(), Vec::new());
        for slot in self.sets[group as usize].iter() {
            cell.clear();
            counts.clear();
            slot.value.encode(&self.input, &mut cell);
            slot.calls.each(|call, count| counts.push((call, count)));
            visit(ValueEntry {
                group,
                value: &cell,
                counts: &counts,
                seen_ms: self.now_ms,
            });
        }
    }

    fn load(&mut self, entry: ValueEntry<'_>) -> Result<(), OperatorError> {
        let value = i64::decode(&self.input, entry.value)?;
        let set = &mut self.sets[entry.group as usize];
        if set.contains(value) {
            return Ok(());
        }
        let mut calls = 0u32;
        for (call, count) in entry.counts {
            calls.set(*call, *count);
        }
        if calls != 0 {
            let before = set.slots.len();
            set.add(value, calls);
            self.slots += set.slots.len() - before;
        }
        Ok(())
    }

    fn missing(
        &self,
        column: &ArrayRef,
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError> {
        let values = int_values(column.as_ref());
        let mut missing = Vec::new();
        rows.each_valid(column.as_ref(), |group, position, _| {
            let value = values[position];
            if is_partial[group] && !self.sets[group].contains(value) {
                let mut cell = Vec::new();
                value.encode(&self.input, &mut cell);
                missing.push((group as u32, cell));
            }
        });
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_set_is_a_map_from_values_to_calls() {
        let mut set = Set::default();
        let mut model: BTreeMap<i64, u32> = BTreeMap::new();
        let mut random = 7u64;
        for step in 0..20_000u32 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Dense and sparse values, and the extremes.
            let value = match random % 3 {
                0 => (random >> 8) as i64 % 500,
                1 => i64::MIN + (random >> 8) as i64 % 500,
                _ => random as i64 | 1 << 20,
            };
            let calls = 1 << (step % 32);
            let known = model.entry(value).or_default();
            let come = calls & !*known;
            *known |= calls;
            assert_eq!(set.add(value, calls), (come, *known));
            assert!(set.contains(value));
            assert!(!set.contains(value ^ 1 << 62), "of {value}");
        }
        assert_eq!(set.len, model.len());
        let mut slots: Vec<(i64, u32)> = set.iter().map(|slot| (slot.value, slot.calls)).collect();
        slots.sort_unstable();
        assert_eq!(slots, model.into_iter().collect::<Vec<_>>());
    }
}
