//! `COUNT(*)` and `COUNT(x)`.

use std::{any::Any, sync::Arc};

use arrow::array::{ArrayRef, Int64Array};

use super::{Accumulator, Rows, accumulator::damaged, codec, number::Number};
use crate::OperatorError;

#[derive(Debug, Default)]
pub(super) struct Count {
    counts: Vec<i64>,
}

impl Count {
    fn gather(&self, groups: &[u32]) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            groups.iter().map(|group| self.counts[*group as usize]),
        ))
    }
}

impl Accumulator for Count {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let counts = self.counts.as_mut_slice();
        let add = |group: usize, _, retract| counts[group] += if retract { -1 } else { 1 };
        match values {
            Some(values) => rows.each_valid(values.as_ref(), add),
            None => rows.each(add),
        }
        Ok(())
    }

    fn partial_width(&self) -> usize {
        1
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        for (count, group) in i64::read(partials[0].as_ref()).iter().zip(groups) {
            self.counts[*group as usize] += count;
        }
        Ok(())
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        Ok(vec![self.gather(groups)])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        Ok(self.gather(groups))
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        codec::put_i64(out, self.counts[group as usize]);
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        self.counts[group as usize] =
            codec::take_i64(&mut bytes).ok_or_else(|| damaged("COUNT"))?;
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        self.counts[group as usize] = 0;
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }

    fn merge_from(
        &mut self,
        other: &dyn Accumulator,
        from: &[u32],
        to: &[u32],
    ) -> Result<(), OperatorError> {
        match other.as_any().downcast_ref::<Self>() {
            Some(other) => {
                for (from, to) in from.iter().zip(to) {
                    self.counts[*to as usize] += other.counts[*from as usize];
                }
                Ok(())
            }
            None => self.merge(&other.partials(from)?, to),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
