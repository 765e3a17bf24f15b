//! The three kinds of numbers that accumulators compute with: 64-bit integers (for everything
//! integer-like, times included), doubles, and 128-bit decimals.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array, Float32Array, Float64Array},
    buffer::NullBuffer,
    datatypes::{DataType, Decimal128Type, Float32Type, Float64Type},
};

use super::codec;
use crate::key_table::{int_array, int_values};

/// A number with the arithmetic of Flink's aggregates.
pub(super) trait Number: Copy + Default + PartialOrd + Send + 'static {
    /// The column's values; undefined where it is null.
    fn read(column: &dyn Array) -> Cow<'_, [Self]>;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// An array of `data_type`, which must be of this kind.
    fn array(data_type: &DataType, values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef;
    fn encode(self, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

impl Number for i64 {
    fn read(column: &dyn Array) -> Cow<'_, [Self]> {
        int_values(column)
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn array(data_type: &DataType, values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        int_array(data_type, values, nulls)
    }

    fn encode(self, out: &mut Vec<u8>) {
        codec::put_i64(out, self);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        codec::take_i64(bytes)
    }
}

impl Number for f64 {
    fn read(column: &dyn Array) -> Cow<'_, [Self]> {
        match column.data_type() {
            DataType::Float32 => column
                .as_primitive::<Float32Type>()
                .values()
                .iter()
                .map(|value| f64::from(*value))
                .collect(),
            _ => Cow::Borrowed(column.as_primitive::<Float64Type>().values()),
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }

    fn array(data_type: &DataType, values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        match data_type {
            DataType::Float32 => Arc::new(Float32Array::new(
                values.into_iter().map(|value| value as f32).collect(),
                nulls,
            )),
            _ => Arc::new(Float64Array::new(values.into(), nulls)),
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        codec::take_f64(bytes)
    }
}

impl Number for i128 {
    fn read(column: &dyn Array) -> Cow<'_, [Self]> {
        Cow::Borrowed(column.as_primitive::<Decimal128Type>().values())
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }

    fn array(data_type: &DataType, values: Vec<Self>, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(data_type.clone()))
    }

    fn encode(self, out: &mut Vec<u8>) {
        codec::put_i128(out, self);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        codec::take_i128(bytes)
    }
}

/// A null buffer from validity, `None` if all is valid.
pub(super) fn nulls_where(valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from_iter(valid)).filter(|nulls| nulls.null_count() > 0)
}
