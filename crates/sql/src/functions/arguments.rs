//! Typed views of a call's arguments, constant or per row, and the loops over them.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, BooleanBuilder,
        PrimitiveArray, StringArray, StringBuilder,
    },
    datatypes::{
        DataType, Date32Type, Float64Type, Int64Type, Time32MillisecondType, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    },
};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::ColumnarValue;

use super::call::Call;

/// A STRING argument.
pub(super) enum Strings<'a> {
    Array(&'a StringArray),
    Constant(Option<&'a str>),
}

impl<'a> Strings<'a> {
    pub(super) fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Strings::Array(array) => (!array.is_null(row)).then(|| array.value(row)),
            Strings::Constant(value) => *value,
        }
    }
}

/// A BYTES argument.
pub(super) enum ByteStrings<'a> {
    Array(&'a BinaryArray),
    Text(Strings<'a>),
    Constant(Option<&'a [u8]>),
}

impl<'a> ByteStrings<'a> {
    pub(super) fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            ByteStrings::Array(array) => (!array.is_null(row)).then(|| array.value(row)),
            ByteStrings::Text(strings) => strings.get(row).map(str::as_bytes),
            ByteStrings::Constant(value) => *value,
        }
    }
}

/// An argument of a primitive type.
pub(super) enum Primitives<'a, T: ArrowPrimitiveType> {
    Array(&'a PrimitiveArray<T>),
    Owned(PrimitiveArray<T>),
    Constant(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Primitives<'_, T> {
    pub(super) fn get(&self, row: usize) -> Option<T::Native> {
        let array = match self {
            Primitives::Array(array) => array,
            Primitives::Owned(array) => array,
            Primitives::Constant(value) => return *value,
        };
        (!array.is_null(row)).then(|| array.value(row))
    }
}

/// A BOOLEAN argument.
pub(super) enum Booleans<'a> {
    Array(&'a BooleanArray),
    Constant(Option<bool>),
}

impl Booleans<'_> {
    pub(super) fn get(&self, row: usize) -> Option<bool> {
        match self {
            Booleans::Array(array) => (!array.is_null(row)).then(|| array.value(row)),
            Booleans::Constant(value) => *value,
        }
    }
}

impl<'a> Call<'a> {
    /// Whether every argument is a constant: then the result is one row.
    pub(super) fn is_constant(&self) -> bool {
        self.arguments
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)))
    }

    /// Rows to compute.
    pub(super) fn row_count(&self) -> usize {
        if self.is_constant() { 1 } else { self.rows }
    }

    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The computed rows as a value: constant if the arguments are.
    pub(super) fn finish(&self, array: ArrayRef) -> Result<ColumnarValue> {
        if self.is_constant() && !self.arguments.is_empty() {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &array, 0,
            )?));
        }
        Ok(ColumnarValue::Array(array))
    }

    /// The argument as an array of [`Call::row_count`] rows.
    pub(super) fn array(&self, i: usize) -> Result<ArrayRef> {
        self.arguments[i].to_array(self.row_count())
    }

    pub(super) fn data_type(&self, i: usize) -> DataType {
        self.arguments[i].data_type()
    }

    pub(super) fn strings(&self, i: usize) -> Result<Strings<'a>> {
        match &self.arguments[i] {
            ColumnarValue::Array(array) => match array.as_string_opt::<i32>() {
                Some(array) => Ok(Strings::Array(array)),
                None => internal_err!("expected STRING, got {}", array.data_type()),
            },
            ColumnarValue::Scalar(ScalarValue::Utf8(value)) => {
                Ok(Strings::Constant(value.as_deref()))
            }
            ColumnarValue::Scalar(ScalarValue::Null) => Ok(Strings::Constant(None)),
            ColumnarValue::Scalar(other) => {
                internal_err!("expected STRING, got {}", other.data_type())
            }
        }
    }

    /// The argument's bytes; a string's are its UTF-8.
    pub(super) fn byte_strings(&self, i: usize) -> Result<ByteStrings<'a>> {
        match &self.arguments[i] {
            ColumnarValue::Array(array) => match array.as_binary_opt::<i32>() {
                Some(array) => Ok(ByteStrings::Array(array)),
                None => Ok(ByteStrings::Text(self.strings(i)?)),
            },
            ColumnarValue::Scalar(ScalarValue::Binary(value)) => {
                Ok(ByteStrings::Constant(value.as_deref()))
            }
            ColumnarValue::Scalar(_) => Ok(ByteStrings::Text(self.strings(i)?)),
        }
    }

    pub(super) fn booleans(&self, i: usize) -> Result<Booleans<'a>> {
        match &self.arguments[i] {
            ColumnarValue::Array(array) => match array.as_boolean_opt() {
                Some(array) => Ok(Booleans::Array(array)),
                None => internal_err!("expected BOOLEAN, got {}", array.data_type()),
            },
            ColumnarValue::Scalar(ScalarValue::Boolean(value)) => Ok(Booleans::Constant(*value)),
            ColumnarValue::Scalar(ScalarValue::Null) => Ok(Booleans::Constant(None)),
            ColumnarValue::Scalar(other) => {
                internal_err!("expected BOOLEAN, got {}", other.data_type())
            }
        }
    }

    fn primitives<T: ArrowPrimitiveType>(&self, i: usize) -> Result<Primitives<'a, T>> {
        match &self.arguments[i] {
            ColumnarValue::Array(array) => match array.as_primitive_opt::<T>() {
                Some(array) => Ok(Primitives::Array(array)),
                None => internal_err!("expected {}, got {}", T::DATA_TYPE, array.data_type()),
            },
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                match array.as_primitive_opt::<T>() {
                    Some(array) => Ok(Primitives::Constant(
                        (!array.is_null(0)).then(|| array.value(0)),
                    )),
                    None if scalar.is_null() => Ok(Primitives::Constant(None)),
                    None => internal_err!("expected {}, got {}", T::DATA_TYPE, scalar.data_type()),
                }
            }
        }
    }

    /// A BIGINT argument.
    pub(super) fn longs(&self, i: usize) -> Result<Primitives<'a, Int64Type>> {
        self.primitives(i)
    }

    /// A DOUBLE argument.
    pub(super) fn doubles(&self, i: usize) -> Result<Primitives<'a, Float64Type>> {
        self.primitives(i)
    }

    /// The argument's instants (or local times) in milliseconds, rounded down: a DATE is its
    /// midnight, a TIME is since midnight.
    pub(super) fn millis(&self, i: usize) -> Result<Primitives<'a, Int64Type>> {
        let array = self.arguments[i].to_array(match &self.arguments[i] {
            ColumnarValue::Array(array) => array.len(),
            ColumnarValue::Scalar(_) => 1,
        })?;
        let millis: PrimitiveArray<Int64Type> = match array.data_type() {
            DataType::Date32 => array
                .as_primitive::<Date32Type>()
                .unary(|days| i64::from(days) * 86_400_000),
            DataType::Time32(_) => array
                .as_primitive::<Time32MillisecondType>()
                .unary(i64::from),
            DataType::Timestamp(TimeUnit::Millisecond, _) => array
                .as_primitive::<TimestampMillisecondType>()
                .reinterpret_cast(),
            DataType::Timestamp(TimeUnit::Microsecond, _) => array
                .as_primitive::<TimestampMicrosecondType>()
                .unary(|micros| micros.div_euclid(1_000)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => array
                .as_primitive::<TimestampNanosecondType>()
                .unary(|nanos| nanos.div_euclid(1_000_000)),
            DataType::Null => PrimitiveArray::new_null(array.len()),
            other => return internal_err!("expected a time, got {other}"),
        };
        Ok(match &self.arguments[i] {
            ColumnarValue::Array(_) => Primitives::Owned(millis),
            ColumnarValue::Scalar(_) => {
                Primitives::Constant((!millis.is_null(0)).then(|| millis.value(0)))
            }
        })
    }

    /// Builds a STRING result row by row.
    pub(super) fn make_strings(
        &self,
        mut row: impl FnMut(usize, &mut String) -> Result<Option<()>>,
    ) -> Result<ColumnarValue> {
        let rows = self.row_count();
        let mut builder = StringBuilder::with_capacity(rows, rows * 16);
        let mut buffer = String::new();
        for i in 0..rows {
            buffer.clear();
            match row(i, &mut buffer)? {
                Some(()) => builder.append_value(&buffer),
                None => builder.append_null(),
            }
        }
        self.finish(Arc::new(builder.finish()))
    }

    /// Builds a STRING result out of borrowed slices.
    pub(super) fn make_slices<'s>(
        &self,
        mut row: impl FnMut(usize) -> Result<Option<&'s str>>,
    ) -> Result<ColumnarValue> {
        let rows = self.row_count();
        let mut builder = StringBuilder::with_capacity(rows, rows * 16);
        for i in 0..rows {
            builder.append_option(row(i)?);
        }
        self.finish(Arc::new(builder.finish()))
    }

    /// Builds a BOOLEAN result row by row.
    pub(super) fn make_booleans(
        &self,
        mut row: impl FnMut(usize) -> Result<Option<bool>>,
    ) -> Result<ColumnarValue> {
        let rows = self.row_count();
        let mut builder = BooleanBuilder::with_capacity(rows);
        for i in 0..rows {
            builder.append_option(row(i)?);
        }
        self.finish(Arc::new(builder.finish()))
    }

    /// Builds a result of a primitive type row by row.
    pub(super) fn make<T: ArrowPrimitiveType>(
        &self,
        mut row: impl FnMut(usize) -> Result<Option<T::Native>>,
    ) -> Result<ColumnarValue> {
        let rows = self.row_count();
        let mut builder = arrow::array::PrimitiveBuilder::<T>::with_capacity(rows).with_data_type(
            match self.result {
                result if T::DATA_TYPE.equals_datatype(result) => result.clone(),
                DataType::Timestamp(_, _) | DataType::Decimal128(_, _)
                    if std::mem::discriminant(self.result)
                        == std::mem::discriminant(&T::DATA_TYPE) =>
                {
                    self.result.clone()
                }
                result => return internal_err!("{} is not {result}", T::DATA_TYPE),
            },
        );
        for i in 0..rows {
            builder.append_option(row(i)?);
        }
        self.finish(Arc::new(builder.finish()))
    }
}

/// An error of evaluation that names the offending value (shortened).
pub(super) fn bad_value<T>(what: &str, value: &str) -> Result<T> {
    exec_err!("{what}: {}", shortened(value))
}

/// Like [`bad_value`], and what to write instead.
pub(super) fn bad_value_or<T>(what: &str, value: &str, instead: &str) -> Result<T> {
    exec_err!("{what}: {}; {instead}", shortened(value))
}

fn shortened(value: &str) -> String {
    let short: String = value.chars().take(80).collect();
    let dots = if short.len() < value.len() { "…" } else { "" };
    format!("'{short}{dots}'")
}
