//! `SUM`. Integers wrap, as Flink's do; a DECIMAL sum of more than 38 digits is NULL.

use std::{any::Any, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array},
    datatypes::DataType,
};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    codec,
    number::{Number, nulls_where},
};
use crate::OperatorError;

/// The largest magnitude of a DECIMAL(38, s), exclusive.
pub(super) const DECIMAL_LIMIT: u128 = 10u128.pow(38);

#[derive(Debug)]
pub(super) struct Sum<N> {
    output: DataType,
    sums: Vec<N>,
    /// Non-null rows; the sum of none is NULL.
    counts: Vec<i64>,
}

impl<N: Number> Sum<N> {
    pub(super) fn new(output: DataType) -> Self {
        Sum {
            output,
            sums: Vec::new(),
            counts: Vec::new(),
        }
    }
}

impl<N: Number + Fits> Accumulator for Sum<N> {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, N::default());
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = argument(values)?;
        let values = N::read(column.as_ref());
        let (values, sums, counts) = (&*values, &mut self.sums[..], &mut self.counts[..]);
        rows.each_valid(column.as_ref(), |group, position, retract| {
            if retract {
                sums[group] = sums[group].minus(values[position]);
                counts[group] -= 1;
            } else {
                sums[group] = sums[group].plus(values[position]);
                counts[group] += 1;
            }
        });
        Ok(())
    }

    fn partial_width(&self) -> usize {
        2
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let sums = N::read(partials[0].as_ref());
        let counts = i64::read(partials[1].as_ref());
        for (row, group) in groups.iter().enumerate() {
            let group = *group as usize;
            self.sums[group] = self.sums[group].plus(sums[row]);
            self.counts[group] += counts[row];
        }
        Ok(())
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let sums = groups.iter().map(|g| self.sums[*g as usize]).collect();
        let counts = groups.iter().map(|g| self.counts[*g as usize]);
        Ok(vec![
            N::array(&self.output, sums, None),
            Arc::new(Int64Array::from_iter_values(counts)),
        ])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let sums = groups.iter().map(|g| self.sums[*g as usize]).collect();
        let nulls = nulls_where(groups.iter().map(|g| {
            let group = *g as usize;
            self.counts[group] != 0 && self.sums[group].fits()
        }));
        Ok(N::array(&self.output, sums, nulls))
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        self.sums[group as usize].encode(out);
        codec::put_i64(out, self.counts[group as usize]);
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        self.sums[group as usize] = N::decode(&mut bytes).ok_or_else(|| damaged("SUM"))?;
        self.counts[group as usize] = codec::take_i64(&mut bytes).ok_or_else(|| damaged("SUM"))?;
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        self.sums[group as usize] = N::default();
        self.counts[group as usize] = 0;
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<N>() + self.counts.capacity() * size_of::<i64>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whether a sum is in its type's range.
pub(super) trait Fits {
    fn fits(self) -> bool;
}

impl Fits for i64 {
    fn fits(self) -> bool {
        true
    }
}

impl Fits for f64 {
    fn fits(self) -> bool {
        true
    }
}

impl Fits for i128 {
    fn fits(self) -> bool {
        self.unsigned_abs() < DECIMAL_LIMIT
    }
}

/// The argument column of a call that must have one.
pub(super) fn argument(values: Option<&ArrayRef>) -> Result<&ArrayRef, OperatorError> {
    values.ok_or_else(|| OperatorError::Internal("an aggregate call without its argument".into()))
}
