//! `VAR_POP`, `VAR_SAMP`, `STDDEV_POP`, `STDDEV_SAMP`: count, mean and sum of squared
//! deviations per group, updated by Welford's method and merged by Chan's.

use std::{any::Any, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array},
    compute::cast,
    datatypes::DataType,
};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    codec,
    number::{Number, nulls_where},
    sum::argument,
};
use crate::OperatorError;

#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: i64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    fn take_back(&mut self, value: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = Moments::default();
            return;
        }
        let delta = value - self.mean;
        self.mean -= delta / self.count as f64;
        self.squares -= delta * (value - self.mean);
    }

    fn merge(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        self.squares +=
            other.squares + delta * delta * (self.count as f64 * other.count as f64 / count as f64);
        self.mean += delta * other.count as f64 / count as f64;
        self.count = count;
    }
}

#[derive(Debug)]
pub(super) struct Variance {
    output: DataType,
    sample: bool,
    root: bool,
    moments: Vec<Moments>,
}

impl Variance {
    /// `sample`: divide by n − 1 rather than n. `root`: the standard deviation.
    pub(super) fn new(output: DataType, sample: bool, root: bool) -> Self {
        Variance {
            output,
            sample,
            root,
            moments: Vec::new(),
        }
    }
}

impl Accumulator for Variance {
    fn resize(&mut self, groups: usize) {
        self.moments.resize(groups, Moments::default());
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = cast(argument(values)?, &DataType::Float64)?;
        let values = f64::read(column.as_ref());
        rows.each_valid(column.as_ref(), |group, position, retract| {
            let moments = &mut self.moments[group];
            if retract {
                moments.take_back(values[position]);
            } else {
                moments.add(values[position]);
            }
        });
        Ok(())
    }

    fn partial_width(&self) -> usize {
        3
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let counts = i64::read(partials[0].as_ref());
        let means = f64::read(partials[1].as_ref());
        let squares = f64::read(partials[2].as_ref());
        for (row, group) in groups.iter().enumerate() {
            self.moments[*group as usize].merge(Moments {
                count: counts[row],
                mean: means[row],
                squares: squares[row],
            });
        }
        Ok(())
    }

    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let moments = || groups.iter().map(|g| self.moments[*g as usize]);
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(moments().map(|m| m.count))),
            Arc::new(Float64Array::from_iter_values(moments().map(|m| m.mean))),
            Arc::new(Float64Array::from_iter_values(moments().map(|m| m.squares))),
        ])
    }

    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let least = if self.sample { 2 } else { 1 };
        let moments = || groups.iter().map(|g| self.moments[*g as usize]);
        let values = moments()
            .map(|m| {
                let divisor = if self.sample { m.count - 1 } else { m.count };
                // Rounding after retractions can leave a tiny negative.
                let variance = m.squares.max(0.0) / divisor.max(1) as f64;
                if self.root { variance.sqrt() } else { variance }
            })
            .collect();
        let nulls = nulls_where(moments().map(|m| m.count >= least));
        let result = f64::array(&DataType::Float64, values, nulls);
        Ok(cast(&result, &self.output)?)
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        let moments = self.moments[group as usize];
        codec::put_i64(out, moments.count);
        moments.mean.encode(out);
        moments.squares.encode(out);
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        let mut read = || {
            Some(Moments {
                count: codec::take_i64(&mut bytes)?,
                mean: f64::decode(&mut bytes)?,
                squares: f64::decode(&mut bytes)?,
            })
        };
        self.moments[group as usize] = read().ok_or_else(|| damaged("VARIANCE or STDDEV"))?;
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        self.moments[group as usize] = Moments::default();
    }

    fn bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moments>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
