//! `DISTINCT` in front of any function: a set of values per group lets each value through to
//! the inner function once, and takes it back when the last row that has it goes.
//!
//! Value sets can be large, so they are persisted value by value: only values whose count
//! changed since the last barrier are handed over ([`Accumulator::take_value_changes`]). Under a
//! TTL every value has its own: one not seen for so long counts as new, as in Flink.

use std::{any::Any, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field},
};

use super::{
    Accumulator, Rows, ValueChange,
    sum::argument,
    value_set::{Effect, Kept, Seen, ValueSets},
};
use crate::{OperatorError, key_table::is_int_like};

/// What is the same for all layouts of the sets.
#[derive(Debug, Clone)]
pub(super) struct DistinctOptions {
    pub(super) input: DataType,
    /// Whether rows can be taken back.
    pub(super) counting: bool,
    /// Whether null is a value (`ARRAY_AGG`) rather than skipped.
    pub(super) takes_nulls: bool,
    /// Whether the inner function keeps the values in order of arrival itself.
    pub(super) inner_keeps_values: bool,
    /// 0: values are kept for ever.
    pub(super) ttl_ms: u64,
}

/// The accumulator for `inner` over distinct values.
pub(super) fn distinct(
    options: DistinctOptions,
    inner: Box<dyn Accumulator>,
) -> Box<dyn Accumulator> {
    let ints = is_int_like(&options.input) && !options.takes_nulls;
    match (ints, options.ttl_ms > 0) {
        (true, false) => Box::new(Distinct::<i64, ()>::new(options, inner)),
        (true, true) => Box::new(Distinct::<i64, i64>::new(options, inner)),
        (false, false) => Box::new(Distinct::<Box<[u8]>, ()>::new(options, inner)),
        (false, true) => Box::new(Distinct::<Box<[u8]>, i64>::new(options, inner)),
    }
}

struct Distinct<V, S> {
    options: DistinctOptions,
    sets: ValueSets<V, S>,
    inner: Box<dyn Accumulator>,
    passed: Passed,
}

/// The rows that change their set.
#[derive(Default)]
struct Passed {
    positions: Vec<u32>,
    groups: Vec<u32>,
    retract: Vec<bool>,
}

impl<V: Kept, S: Seen> Distinct<V, S> {
    fn new(options: DistinctOptions, inner: Box<dyn Accumulator>) -> Self {
        Distinct {
            sets: ValueSets::new(options.counting, options.ttl_ms),
            options,
            inner,
            passed: Passed::default(),
        }
    }

    /// Takes rows and hands those on that bring a new value or take the last of one away.
    fn pass(&mut self, column: &ArrayRef, rows: Rows<'_>) -> Result<(), OperatorError> {
        let values = V::read(column)?;
        let Passed {
            positions,
            groups,
            retract,
        } = &mut self.passed;
        positions.clear();
        groups.clear();
        retract.clear();
        let sets = &mut self.sets;
        let visit = |group: usize, position: usize, retracts: bool| {
            let effect = sets.apply(group, V::at(&values, position), retracts);
            if effect != Effect::None {
                positions.push(position as u32);
                groups.push(group as u32);
                retract.push(effect == Effect::Left);
            }
        };
        if self.options.takes_nulls {
            rows.each(visit);
        } else {
            rows.each_valid(column.as_ref(), visit);
        }
        if groups.is_empty() {
            return Ok(());
        }
        self.inner.update(
            Some(column),
            Rows {
                positions: Some(positions),
                groups,
                retract: self.sets.is_counting().then_some(&retract[..]),
            },
        )
    }
}

impl<V: Kept, S: Seen> Accumulator for Distinct<V, S> {
    fn resize(&mut self, groups: usize) {
        self.sets.resize(groups);
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
        if self.options.inner_keeps_values {
            return self.inner.partials(groups);
        }
        let lengths = groups.iter().map(|group| self.sets.len_of(*group));
        let values = groups.iter().flat_map(|group| self.sets.values_of(*group));
        Ok(vec![Arc::new(ListArray::try_new(
            Arc::new(Field::new("item", self.options.input.clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            V::array(&self.options.input, values)?,
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
        self.sets.clear(group);
        self.inner.clear(group);
    }

    fn bytes(&self) -> usize {
        self.inner.bytes() + self.sets.bytes()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn has_value_set(&self) -> bool {
        true
    }

    fn track_values(&mut self) {
        self.sets.track();
    }

    fn set_time(&mut self, now_ms: i64) {
        self.sets.now_ms = now_ms;
    }

    fn take_value_changes(&mut self, visit: &mut dyn FnMut(ValueChange<'_>)) {
        let mut cell = Vec::new();
        let input = &self.options.input;
        self.sets.take_changes(|group, value, count, seen_ms| {
            cell.clear();
            value.encode(input, &mut cell);
            visit(ValueChange {
                group,
                value: &cell,
                count,
                seen_ms,
            });
        });
    }

    fn each_value(&self, group: u32, visit: &mut dyn FnMut(&[u8])) {
        let mut cell = Vec::new();
        for value in self.sets.values_of(group) {
            cell.clear();
            value.encode(&self.options.input, &mut cell);
            visit(&cell);
        }
    }

    fn load_value(
        &mut self,
        group: u32,
        value: &[u8],
        count: i64,
        seen_ms: i64,
    ) -> Result<(), OperatorError> {
        let value = V::decode(&self.options.input, value)?;
        self.sets.load(group, value, count, seen_ms);
        Ok(())
    }

    fn missing_values(
        &self,
        values: Option<&ArrayRef>,
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError> {
        let column = argument(values)?;
        let values = V::read(column)?;
        let mut missing = Vec::new();
        let visit = |group: usize, position: usize, _| {
            let value = V::at(&values, position);
            if is_partial[group] && !self.sets.contains(group, value) {
                let mut cell = Vec::new();
                V::own(value).encode(&self.options.input, &mut cell);
                missing.push((group as u32, cell));
            }
        };
        if self.options.takes_nulls {
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
