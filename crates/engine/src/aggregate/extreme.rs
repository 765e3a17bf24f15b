//! `MIN`, `MAX`, `FIRST_VALUE` and `LAST_VALUE` of numbers over append-only input: one kept
//! value per group that a newer one replaces or not.

use std::{any::Any, marker::PhantomData};

use arrow::{array::ArrayRef, datatypes::DataType};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    codec,
    number::{Number, nulls_where},
    sum::argument,
};
use crate::OperatorError;

/// Which of two values stays.
pub(super) trait Pick: Send + 'static {
    /// Whether a later value replaces the kept one.
    fn replaces<T: PartialOrd + ?Sized>(kept: &T, later: &T) -> bool;
}

pub(super) struct Min;
pub(super) struct Max;
pub(super) struct First;
pub(super) struct Last;

impl Pick for Min {
    #[inline(always)]
    fn replaces<T: PartialOrd + ?Sized>(kept: &T, later: &T) -> bool {
        later < kept
    }
}

impl Pick for Max {
    #[inline(always)]
    fn replaces<T: PartialOrd + ?Sized>(kept: &T, later: &T) -> bool {
        later > kept
    }
}

impl Pick for First {
    #[inline(always)]
    fn replaces<T: PartialOrd + ?Sized>(_: &T, _: &T) -> bool {
        false
    }
}

impl Pick for Last {
    #[inline(always)]
    fn replaces<T: PartialOrd + ?Sized>(_: &T, _: &T) -> bool {
        true
    }
}

pub(super) struct Extreme<N, P> {
    output: DataType,
    values: Vec<N>,
    set: Vec<bool>,
    pick: PhantomData<P>,
}

impl<N: Number, P: Pick> Extreme<N, P> {
    pub(super) fn new(output: DataType) -> Self {
        Extreme {
            output,
            values: Vec::new(),
            set: Vec::new(),
            pick: PhantomData,
        }
    }
}

impl<N: Number, P: Pick> Accumulator for Extreme<N, P> {
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, N::default());
        self.set.resize(groups, false);
    }

    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError> {
        let column = argument(values)?;
        let values = N::read(column.as_ref());
        let (values, kept, set) = (&*values, &mut self.values[..], &mut self.set[..]);
        rows.each_valid(column.as_ref(), |group, position, _| {
            let value = values[position];
            if !set[group] || P::replaces(&kept[group], &value) {
                kept[group] = value;
                set[group] = true;
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
        let values = groups.iter().map(|g| self.values[*g as usize]).collect();
        let nulls = nulls_where(groups.iter().map(|g| self.set[*g as usize]));
        Ok(N::array(&self.output, values, nulls))
    }

    fn encode(&self, group: u32, out: &mut Vec<u8>) {
        if self.set[group as usize] {
            out.push(1);
            self.values[group as usize].encode(out);
        } else {
            out.push(0);
        }
    }

    fn decode(&mut self, group: u32, mut bytes: &[u8]) -> Result<(), OperatorError> {
        let what = || damaged("MIN, MAX, FIRST_VALUE or LAST_VALUE");
        let group = group as usize;
        match codec::take_u8(&mut bytes) {
            Some(0) => self.set[group] = false,
            Some(1) => {
                self.values[group] = N::decode(&mut bytes).ok_or_else(what)?;
                self.set[group] = true;
            }
            _ => return Err(what()),
        }
        Ok(())
    }

    fn clear(&mut self, group: u32) {
        self.set[group as usize] = false;
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<N>() + self.set.capacity()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
