//! `MIN` and `MAX` where rows can be taken back: every value with the number of rows that have
//! it, ordered, so that the next extreme is at hand when one goes.

use std::{any::Any, collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field},
};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    cell::{decode_cells, encode_cells},
    codec,
    sum::argument,
};
use crate::OperatorError;

/// Approximate bytes of a tree entry beside its value.
const ENTRY_BYTES: usize = 40;

pub(super) struct Multiset {
    output: DataType,
    largest: bool,
    /// Canonical encodings order as the values do. A negative count is a retraction that came
    /// before its row.
    values: Vec<BTreeMap<Box<[u8]>, i64>>,
    heap_bytes: usize,
}

impl Multiset {
    pub(super) fn new(output: DataType, largest: bool) -> Self {
        Multiset {
            output,
            largest,
            values: Vec::new(),
            heap_bytes: 0,
        }
    }

    fn add(&mut self, group: usize, cell: &[u8], by: i64) {
        let set = &mut self.values[group];
        match set.get_mut(cell) {
            Some(count) => {
                *count += by;
                if *count == 0 {
                    set.remove(cell);
                    self.heap_bytes -= cell.len() + ENTRY_BYTES;
                }
            }
            None => {
                set.insert(cell.into(), by);
                self.heap_bytes += cell.len() + ENTRY_BYTES;
            }
        }
    }
}

impl Accumulator for Multiset {
    fn resize(&mut self, groups: usize) {
        self.values.resize_with(groups, BTreeMap::new);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = argument(values)?;
        let cells = encode_cells(column)?;
        rows.each_valid(column.as_ref(), |group, position, retract| {
            self.add(group, cells.get(position), if retract { -1 } else { 1 });
        });
        Ok(())
    }

    fn partial_width(&self) -> usize {
        1
    }

    /// Partials are lists of the values, each as often as rows have it.
    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        if partials[0].data_type() == &self.output {
            return self.update(partials.first(), Rows::all(groups));
        }
        let list = partials[0].as_list::<i32>();
        let cells = encode_cells(list.values())?;
        for (row, group) in groups.iter().enumerate() {
            let range = list.offsets()[row] as usize..list.offsets()[row + 1] as usize;
            for position in range {
                self.add(*group as usize, cells.get(position), 1);
            }
        }
        Ok(())
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let repeated = |group: &u32| {
            self.values[*group as usize]
                .iter()
                .flat_map(|(cell, count)| (0..*count).map(move |_| cell.as_ref()))
        };
        let lengths: Vec<usize> = groups.iter().map(|group| repeated(group).count()).collect();
        let mut cells: Vec<&[u8]> = groups.iter().flat_map(repeated).collect();
        Ok(vec![Arc::new(ListArray::try_new(
            Arc::new(Field::new("item", self.output.clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            decode_cells(&self.output, &mut cells)?,
            None,
        )?)])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let mut cells: Vec<&[u8]> = groups
            .iter()
            .map(|group| {
                let mut present = self.values[*group as usize]
                    .iter()
                    .filter(|(_, count)| **count > 0);
                let extreme = if self.largest {
                    present.next_back()
                } else {
                    present.next()
                };
                extreme.map_or(&[0][..], |(cell, _)| cell)
            })
            .collect();
        decode_cells(&self.output, &mut cells)
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        let set = &self.values[group as usize];
        codec::put_u64(out, set.len() as u64);
        for (cell, count) in set {
            codec::put_bytes(out, cell);
            codec::put_i64(out, *count);
        }
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        let fail = || damaged("MIN or MAX with retraction");
        self.clear(group);
        for _ in 0..codec::take_u64(&mut bytes).ok_or_else(fail)? {
            let cell = codec::take_bytes(&mut bytes).ok_or_else(fail)?;
            let count = codec::take_i64(&mut bytes).ok_or_else(fail)?;
            self.add(group as usize, cell, count);
        }
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        for cell in std::mem::take(&mut self.values[group as usize]).keys() {
            self.heap_bytes -= cell.len() + ENTRY_BYTES;
        }
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<BTreeMap<Box<[u8]>, i64>>() + self.heap_bytes
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
