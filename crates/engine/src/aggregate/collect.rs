//! Functions that keep the values themselves, in arrival order: `ARRAY_AGG`, `LISTAGG`, and
//! `FIRST_VALUE`/`LAST_VALUE` where rows can be taken back. A retraction removes the oldest
//! equal value.

use std::{any::Any, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, StringBuilder},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, FieldRef},
};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    cell::{decode_cells, encode_cells},
    codec,
    number::nulls_where,
    sum::argument,
};
use crate::OperatorError;

/// What the kept values become.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Array,
    Joined { separator: String },
    First,
    Last,
}

pub(super) struct Collect {
    shape: Shape,
    element: FieldRef,
    /// Of `ARRAY_AGG`'s result.
    output_element: FieldRef,
    values: Vec<Vec<Box<[u8]>>>,
    heap_bytes: usize,
}

impl Collect {
    pub(super) fn new(shape: Shape, input: &DataType, output: &DataType) -> Self {
        let element = Arc::new(Field::new("item", input.clone(), true));
        let output_element = match output {
            DataType::List(field) => Arc::clone(field),
            _ => Arc::clone(&element),
        };
        Collect {
            shape,
            element,
            output_element,
            values: Vec::new(),
            heap_bytes: 0,
        }
    }

    fn push(&mut self, group: usize, cell: &[u8]) {
        self.heap_bytes += cell.len() + size_of::<Box<[u8]>>();
        self.values[group].push(cell.into());
    }

    fn decode_all<'a>(
        &self,
        cells: impl Iterator<Item = &'a Box<[u8]>>,
    ) -> Result<ArrayRef, OperatorError> {
        let mut cursors: Vec<&[u8]> = cells.map(AsRef::as_ref).collect();
        decode_cells(self.element.data_type(), &mut cursors)
    }

    fn lists(&self, groups: &[u32], element: &FieldRef) -> Result<ArrayRef, OperatorError> {
        let lists = || groups.iter().map(|g| &self.values[*g as usize]);
        let elements = self.decode_all(lists().flatten())?;
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(element),
            OffsetBuffer::from_lengths(lists().map(Vec::len)),
            elements,
            nulls_where(lists().map(|list| !list.is_empty())),
        )?))
    }
}

impl Accumulator for Collect {
    fn resize(&mut self, groups: usize) {
        self.values.resize_with(groups, Vec::new);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = argument(values)?;
        let cells = encode_cells(column)?;
        let takes_nulls = matches!(self.shape, Shape::Array);
        let mut visit = |group: usize, position: usize, retract: bool| {
            let cell = cells.get(position);
            if retract {
                let list = &mut self.values[group];
                if let Some(place) = list.iter().position(|other| other.as_ref() == cell) {
                    list.remove(place);
                    self.heap_bytes -= cell.len() + size_of::<Box<[u8]>>();
                }
            } else {
                self.push(group, cell);
            }
        };
        if takes_nulls {
            rows.each(&mut visit);
        } else {
            rows.each_valid(column.as_ref(), &mut visit);
        }
        Ok(())
    }

    fn partial_width(&self) -> usize {
        1
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let list = partials[0].as_list::<i32>();
        let cells = encode_cells(list.values())?;
        for (row, group) in groups.iter().enumerate() {
            if list.is_valid(row) {
                let range = list.offsets()[row] as usize..list.offsets()[row + 1] as usize;
                for position in range {
                    self.push(*group as usize, cells.get(position));
                }
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        Ok(vec![self.lists(groups, &self.element)?])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        match &self.shape {
            Shape::Array => self.lists(groups, &self.output_element),
            Shape::First | Shape::Last => {
                let null: Box<[u8]> = Box::new([0]);
                let last = matches!(self.shape, Shape::Last);
                self.decode_all(groups.iter().map(|group| {
                    let list = &self.values[*group as usize];
                    let kept = if last { list.last() } else { list.first() };
                    kept.unwrap_or(&null)
                }))
            }
            Shape::Joined { separator } => {
                let mut joined = StringBuilder::new();
                for group in groups {
                    let list = &self.values[*group as usize];
                    if list.is_empty() {
                        joined.append_null();
                        continue;
                    }
                    let parts = self.decode_all(list.iter())?;
                    let parts: Vec<&str> = parts.as_string::<i32>().iter().flatten().collect();
                    joined.append_value(parts.join(separator));
                }
                Ok(Arc::new(joined.finish()))
            }
        }
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        let list = &self.values[group as usize];
        codec::put_u64(out, list.len() as u64);
        for cell in list {
            codec::put_bytes(out, cell);
        }
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        let fail = || damaged("ARRAY_AGG, LISTAGG, FIRST_VALUE or LAST_VALUE");
        self.clear(group);
        for _ in 0..codec::take_u64(&mut bytes).ok_or_else(fail)? {
            let cell = codec::take_bytes(&mut bytes).ok_or_else(fail)?;
            self.push(group as usize, cell);
        }
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        for cell in self.values[group as usize].drain(..) {
            self.heap_bytes -= cell.len() + size_of::<Box<[u8]>>();
        }
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Vec<Box<[u8]>>>() + self.heap_bytes
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
