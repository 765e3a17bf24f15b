//! `MIN`, `MAX`, `FIRST_VALUE` and `LAST_VALUE` of strings and bytes over append-only input.
//! Strings compare by their UTF-8 bytes, as in Flink.

use std::{any::Any, marker::PhantomData, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, StringArray},
    datatypes::DataType,
};

use super::{Accumulator, Rows, accumulator::damaged, codec, extreme::Pick, sum::argument};
use crate::OperatorError;

pub(super) struct ExtremeBytes<P> {
    output: DataType,
    values: Vec<Option<Box<[u8]>>>,
    heap_bytes: usize,
    pick: PhantomData<P>,
}

impl<P: Pick> ExtremeBytes<P> {
    pub(super) fn new(output: DataType) -> Self {
        ExtremeBytes {
            output,
            values: Vec::new(),
            heap_bytes: 0,
            pick: PhantomData,
        }
    }

    fn set(&mut self, group: usize, value: Option<Box<[u8]>>) {
        let kept = &mut self.values[group];
        self.heap_bytes += value.as_ref().map_or(0, |bytes| bytes.len());
        self.heap_bytes -= kept.as_ref().map_or(0, |bytes| bytes.len());
        *kept = value;
    }
}

/// The bytes of row `position` of a string or binary column.
pub(super) fn bytes_at(column: &dyn Array, position: usize) -> &[u8] {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(position).as_bytes(),
        _ => column.as_binary::<i32>().value(position),
    }
}

impl<P: Pick> Accumulator for ExtremeBytes<P> {
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = argument(values)?.as_ref();
        rows.each_valid(column, |group, position, _| {
            let value = bytes_at(column, position);
            let replaces = match &self.values[group] {
                None => true,
                Some(kept) => P::replaces(kept.as_ref(), value),
            };
            if replaces {
                self.set(group, Some(value.into()));
            }
        });
        Ok(())
    }

    fn partial_width(&self) -> usize {
        1
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        self.update(partials.first(), Rows::all(groups))
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        Ok(vec![self.emit(groups)?])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let values = groups.iter().map(|g| self.values[*g as usize].as_deref());
        if self.output == DataType::Binary {
            return Ok(Arc::new(values.collect::<BinaryArray>()));
        }
        let strings = values
            .map(|bytes| bytes.map(std::str::from_utf8).transpose())
            .collect::<Result<StringArray, _>>()
            .map_err(|_| OperatorError::Internal("a kept string that is not UTF-8".into()))?;
        Ok(Arc::new(strings))
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        match &self.values[group as usize] {
            None => out.push(0),
            Some(bytes) => {
                out.push(1);
                codec::put_bytes(out, bytes);
            }
        }
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        let what = || damaged("MIN, MAX, FIRST_VALUE or LAST_VALUE");
        let value = match codec::take_u8(&mut bytes) {
            Some(0) => None,
            Some(1) => Some(codec::take_bytes(&mut bytes).ok_or_else(what)?.into()),
            _ => return Err(what()),
        };
        self.set(group as usize, value);
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        self.set(group as usize, None);
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<Box<[u8]>>>() + self.heap_bytes
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
