//! `AVG`. Integers: the BIGINT sum divided with truncation toward zero. Decimals: rounded half
//! up at the result's scale.

use std::{any::Any, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array},
    datatypes::{DataType, i256},
};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    codec,
    number::{Number, nulls_where},
    sum::{DECIMAL_LIMIT, argument},
};
use crate::OperatorError;

/// Division of a sum by a count, as the result type wants it.
pub(super) trait Divide: Number {
    /// `None`: the result does not fit. `scale_up`: by how many digits the result's scale exceeds
    /// the sum's.
    fn divide(self, count: i64, scale_up: i32) -> Option<Self>;
}

impl Divide for i64 {
    fn divide(self, count: i64, _: i32) -> Option<Self> {
        Some(self.wrapping_div(count))
    }
}

impl Divide for f64 {
    fn divide(self, count: i64, _: i32) -> Option<Self> {
        Some(self / count as f64)
    }
}

impl Divide for i128 {
    fn divide(self, count: i64, scale_up: i32) -> Option<Self> {
        let power = |digits: u32| i256::from_i128(10).checked_pow(digits);
        let (mut dividend, mut divisor) =
            (i256::from_i128(self), i256::from_i128(i128::from(count)));
        if scale_up >= 0 {
            dividend = dividend.checked_mul(power(scale_up.unsigned_abs())?)?;
        } else {
            divisor = divisor.checked_mul(power(scale_up.unsigned_abs())?)?;
        }
        let quotient = dividend.checked_div(divisor)?;
        let rest = dividend.wrapping_sub(quotient.wrapping_mul(divisor));
        let magnitude = |value: i256| {
            if value < i256::ZERO {
                value.wrapping_neg()
            } else {
                value
            }
        };
        let twice = magnitude(rest).wrapping_mul(i256::from_i128(2));
        let negative = (dividend < i256::ZERO) != (divisor < i256::ZERO);
        let rounded = if twice < magnitude(divisor) {
            quotient
        } else if negative {
            quotient.wrapping_sub(i256::ONE)
        } else {
            quotient.wrapping_add(i256::ONE)
        };
        rounded
            .to_i128()
            .filter(|value| value.unsigned_abs() < DECIMAL_LIMIT)
    }
}

#[derive(Debug)]
pub(super) struct Average<N> {
    output: DataType,
    partial: DataType,
    scale_up: i32,
    sums: Vec<N>,
    counts: Vec<i64>,
}

impl<N: Divide> Average<N> {
    pub(super) fn new(input: &DataType, output: DataType) -> Self {
        let scale = |data_type: &DataType| match data_type {
            DataType::Decimal128(_, scale) => i32::from(*scale),
            _ => 0,
        };
        let partial = match input {
            DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            DataType::Float32 | DataType::Float64 => DataType::Float64,
            _ => DataType::Int64,
        };
        Average {
            scale_up: scale(&output) - scale(input),
            output,
            partial,
            sums: Vec::new(),
            counts: Vec::new(),
        }
    }
}

impl<N: Divide> Accumulator for Average<N> {
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
            N::array(&self.partial, sums, None),
            Arc::new(Int64Array::from_iter_values(counts)),
        ])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let averages: Vec<Option<N>> = groups
            .iter()
            .map(|group| {
                let group = *group as usize;
                match self.counts[group] {
                    0 => None,
                    count => self.sums[group].divide(count, self.scale_up),
                }
            })
            .collect();
        let nulls = nulls_where(averages.iter().map(Option::is_some));
        let values = averages
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        Ok(N::array(&self.output, values, nulls))
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        self.sums[group as usize].encode(out);
        codec::put_i64(out, self.counts[group as usize]);
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        self.sums[group as usize] = N::decode(&mut bytes).ok_or_else(|| damaged("AVG"))?;
        self.counts[group as usize] = codec::take_i64(&mut bytes).ok_or_else(|| damaged("AVG"))?;
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
