//! Integer-like columns as plain 64-bit integers, and back.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::{
        DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
        TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};

/// Whether values of this type are kept as 64-bit integers.
pub(crate) fn is_int_like(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Time32(TimeUnit::Millisecond)
            | DataType::Timestamp(_, _)
    )
}

/// The values of an integer-like column; undefined where it is null. Without copying where
/// the type is 64 bits wide.
pub(crate) fn int_values(column: &dyn Array) -> Cow<'_, [i64]> {
    macro_rules! wide {
        ($type:ty) => {
            Cow::Borrowed(column.as_primitive::<$type>().values())
        };
    }
    macro_rules! narrow {
        ($type:ty) => {
            column
                .as_primitive::<$type>()
                .values()
                .iter()
                .map(|value| i64::from(*value))
                .collect()
        };
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().values().iter().map(i64::from).collect(),
        DataType::Int8 => narrow!(Int8Type),
        DataType::Int16 => narrow!(Int16Type),
        DataType::Int32 => narrow!(Int32Type),
        DataType::Int64 => wide!(Int64Type),
        DataType::Date32 => narrow!(Date32Type),
        DataType::Time32(TimeUnit::Millisecond) => narrow!(Time32MillisecondType),
        DataType::Timestamp(TimeUnit::Second, _) => wide!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => wide!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => wide!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => wide!(TimestampNanosecondType),
        other => unreachable!("{other} is not integer-like"),
    }
}

/// An array of an integer-like type; values too wide for it wrap, as Flink's integers do.
pub(crate) fn int_array(
    data_type: &DataType,
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    macro_rules! wide {
        ($type:ty) => {
            Arc::new(
                PrimitiveArray::<$type>::new(values.into(), nulls)
                    .with_data_type(data_type.clone()),
            )
        };
    }
    macro_rules! narrow {
        ($type:ty, $native:ty) => {
            Arc::new(PrimitiveArray::<$type>::new(
                values.into_iter().map(|value| value as $native).collect(),
                nulls,
            ))
        };
    }
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(values.len(), |i| values[i] != 0),
            nulls,
        )),
        DataType::Int8 => narrow!(Int8Type, i8),
        DataType::Int16 => narrow!(Int16Type, i16),
        DataType::Int32 => narrow!(Int32Type, i32),
        DataType::Int64 => wide!(Int64Type),
        DataType::Date32 => narrow!(Date32Type, i32),
        DataType::Time32(TimeUnit::Millisecond) => narrow!(Time32MillisecondType, i32),
        DataType::Timestamp(TimeUnit::Second, _) => wide!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => wide!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => wide!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => wide!(TimestampNanosecondType),
        other => unreachable!("{other} is not integer-like"),
    }
}
