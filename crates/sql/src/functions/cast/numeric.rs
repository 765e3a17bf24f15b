//! Casts among numbers and BOOLEAN.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray},
    datatypes::{
        DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type,
    },
};
use datafusion_common::{Result, internal_err};

use crate::functions::arithmetic::{fits, rescale};

/// A number on its way from one type to another.
#[derive(Clone, Copy)]
enum Number {
    Integer(i64),
    Float(f64),
    /// Unscaled value and scale.
    Decimal(i128, i8),
}

impl Number {
    fn to_i64(self) -> i64 {
        match self {
            Number::Integer(value) => value,
            // Saturates, and NaN is 0, as in Java.
            Number::Float(value) => value as i64,
            Number::Decimal(value, scale) => (value / 10i128.pow(scale.max(0) as u32)) as i64,
        }
    }

    fn to_i32(self) -> i32 {
        match self {
            Number::Float(value) => value as i32,
            other => other.to_i64() as i32,
        }
    }

    fn to_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
            Number::Decimal(value, 0) => value as f64,
            // Through text, since a division would round twice.
            Number::Decimal(value, scale) => {
                format!("{value}e-{scale}").parse().unwrap_or(f64::NAN)
            }
        }
    }

    fn to_decimal(self, precision: u8, scale: i8) -> Option<i128> {
        match self {
            Number::Integer(value) => rescale(i128::from(value), 0, scale, precision),
            Number::Decimal(value, from) => rescale(value, from, scale, precision),
            Number::Float(value) => float_to_decimal(value, precision, scale),
        }
    }
}

/// The nearest DECIMAL to the shortest text of the number.
pub(super) fn float_to_decimal(value: f64, precision: u8, scale: i8) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    super::parse::parse_decimal(&format!("{value:e}"), precision, scale)
}

/// Casts among TINYINT … BIGINT, FLOAT, DOUBLE, DECIMAL and BOOLEAN.
pub(super) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let numbers = numbers(array)?;
    macro_rules! collect {
        ($type:ty, $convert:expr) => {
            Arc::new(
                numbers
                    .iter()
                    .map(|number| number.map($convert))
                    .collect::<PrimitiveArray<$type>>(),
            )
        };
    }
    Ok(match to {
        DataType::Int8 => collect!(Int8Type, |n| n.to_i32() as i8),
        DataType::Int16 => collect!(Int16Type, |n| n.to_i32() as i16),
        DataType::Int32 => collect!(Int32Type, Number::to_i32),
        DataType::Int64 => collect!(Int64Type, Number::to_i64),
        DataType::Float32 => collect!(Float32Type, |n| n.to_f64() as f32),
        DataType::Float64 => collect!(Float64Type, Number::to_f64),
        DataType::Boolean => Arc::new(
            numbers
                .iter()
                .map(|number| number.map(|number| number.to_f64() != 0.0))
                .collect::<BooleanArray>(),
        ),
        DataType::Decimal128(precision, scale) => {
            let values: PrimitiveArray<Decimal128Type> = numbers
                .iter()
                .map(|number| {
                    number
                        .and_then(|number| number.to_decimal(*precision, *scale))
                        .filter(|value| fits(*value, *precision))
                })
                .collect();
            Arc::new(values.with_data_type(to.clone()))
        }
        other => return internal_err!("{other} is not a number"),
    })
}

fn numbers(array: &ArrayRef) -> Result<Vec<Option<Number>>> {
    macro_rules! integers {
        ($type:ty) => {
            array
                .as_primitive::<$type>()
                .iter()
                .map(|value| value.map(|value| Number::Integer(i64::from(value))))
                .collect()
        };
    }
    Ok(match array.data_type() {
        DataType::Boolean => array
            .as_boolean()
            .iter()
            .map(|value| value.map(|value| Number::Integer(i64::from(value))))
            .collect(),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::Float32 => array
            .as_primitive::<Float32Type>()
            .iter()
            .map(|value| value.map(|value| Number::Float(f64::from(value))))
            .collect(),
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| value.map(Number::Float))
            .collect(),
        DataType::Decimal128(_, scale) => array
            .as_primitive::<Decimal128Type>()
            .iter()
            .map(|value| value.map(|value| Number::Decimal(value, *scale)))
            .collect(),
        other => return internal_err!("{other} is not a number"),
    })
}
