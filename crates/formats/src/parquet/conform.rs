//! Converts columns as a file holds them to the types a table wants, if no value changes.
//!
//! Some conversions never change a value (INT to BIGINT), some only for values that do not
//! fit (BIGINT to INT, microseconds to milliseconds): those are checked value by value. What
//! changes meaning (numbers to strings, doubles to floats) is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;

use crate::error::FormatError;
use crate::sql_type::{is_utc, sql_type_name};

/// `array`, column `path` of a file from row `first_row` on, as `field` wants it.
pub(super) fn conform(
    path: &str,
    array: &ArrayRef,
    field: &Field,
    first_row: u64,
) -> Result<ArrayRef, FormatError> {
    let wanted = field.data_type();
    let refuse = |problem: String| FormatError::ParquetColumn {
        column: path.to_owned(),
        file_type: sql_type_name(array.data_type()),
        wanted: format!(
            "{}{}",
            sql_type_name(wanted),
            if field.is_nullable() { "" } else { " NOT NULL" }
        ),
        problem,
    };
    if !field.is_nullable()
        && let Some(nulls) = array.nulls()
        && let Some(row) = (0..array.len()).find(|row| nulls.is_null(*row))
    {
        let row = first_row.saturating_add(row as u64);
        return Err(refuse(format!("row {row} (counted from 0) is null")));
    }
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), wanted) {
        (DataType::Struct(_), DataType::Struct(wanted_fields)) => {
            let rows = array.as_struct();
            let children = wanted_fields
                .iter()
                .map(|child| {
                    let path = format!("{path}.{}", child.name());
                    match rows.column_by_name(child.name()) {
                        Some(column) => conform_child(&path, column, child, rows, first_row),
                        None if child.is_nullable() => {
                            Ok(new_null_array(child.data_type(), rows.len()))
                        }
                        None => Err(refuse(format!("the file has no field `{path}`"))),
                    }
                })
                .collect::<Result<Vec<_>, _>>()?;
            let built = StructArray::try_new_with_length(
                wanted_fields.clone(),
                children,
                rows.nulls().cloned(),
                rows.len(),
            );
            Ok(Arc::new(built.map_err(built_wrongly)?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            // Rows cannot be named within a list: its items are numbered on their own.
            let items = conform(&format!("{path}[]"), list.values(), item, 0)?;
            let built = ListArray::try_new(
                Arc::clone(item),
                list.offsets().clone(),
                items,
                list.nulls().cloned(),
            );
            Ok(Arc::new(built.map_err(built_wrongly)?))
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(refuse("the table's MAP has no entries".to_owned()));
            };
            let [key, value] = fields.as_ref() else {
                return Err(refuse("the table's MAP has no key and value".to_owned()));
            };
            let map = array.as_map();
            let columns = vec![
                conform(&format!("{path}{{key}}"), map.keys(), key, 0)?,
                conform(&format!("{path}{{value}}"), map.values(), value, 0)?,
            ];
            let pairs =
                StructArray::try_new(fields.clone(), columns, None).map_err(built_wrongly)?;
            let built = MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                pairs,
                map.nulls().cloned(),
                *sorted,
            );
            Ok(Arc::new(built.map_err(built_wrongly)?))
        }
        (DataType::Timestamp(from, from_zone), DataType::Timestamp(to, to_zone)) => {
            // Instants under any zone label are the same numbers; a wall clock time has
            // those of UTC.
            if to_zone.is_none() && from_zone.as_deref().is_some_and(|zone| !is_utc(zone)) {
                return Err(refuse("declare the column TIMESTAMP_LTZ".to_owned()));
            }
            let values = rescale(array, *from, *to).map_err(|row| {
                refuse(format!(
                    "the value of row {} (counted from 0) needs another precision",
                    first_row.saturating_add(row as u64)
                ))
            })?;
            with_zone(values, *to, to_zone.clone()).map_err(built_wrongly)
        }
        (from, to) if is_lossless(from, to) => {
            // `safe: false` makes a value that does not fit an error instead of null.
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(array, to, &options).map_err(|error| refuse(error.to_string()))
        }
        _ => Err(refuse(
            "this conversion could change values; declare the column as the file has it and \
             CAST it in the query"
                .to_owned(),
        )),
    }
}

/// A field of a ROW: its nulls under a null row do not count.
fn conform_child(
    path: &str,
    column: &ArrayRef,
    child: &Field,
    parent: &StructArray,
    first_row: u64,
) -> Result<ArrayRef, FormatError> {
    if parent.null_count() > 0 && !child.is_nullable() {
        // Arrow checks the field against the row's own nulls when the ROW is built.
        let nullable = child.clone().with_nullable(true);
        return conform(path, column, &nullable, first_row);
    }
    conform(path, column, child, first_row)
}

fn built_wrongly(source: ArrowError) -> FormatError {
    FormatError::Arrow {
        context: "cannot convert a column of a Parquet file",
        source,
    }
}

/// Whether no value that the cast accepts changes by it.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        // Checked: a value that does not fit is refused.
        (
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64,
            Int8 | Int16 | Int32 | Int64,
        ) => true,
        (Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32, Decimal128(_, scale)) => {
            *scale >= 0
        }
        // Every value has an exact double or float.
        (Int8 | Int16 | UInt8 | UInt16, Float32 | Float64) => true,
        (Int32 | UInt32 | Float16 | Float32, Float64) => true,
        (Float16, Float32) => true,
        // More digits after the point, and a checked number before it.
        (
            Decimal32(_, from) | Decimal64(_, from) | Decimal128(_, from) | Decimal256(_, from),
            Decimal128(_, to),
        ) => from <= to,
        (Utf8 | LargeUtf8 | Utf8View, Utf8) => true,
        (Utf8 | LargeUtf8 | Utf8View | LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => {
            true
        }
        // Arrow checks that it is UTF-8; old writers leave strings unmarked.
        (Binary | LargeBinary | BinaryView, Utf8) => true,
        (Dictionary(_, values), to) => **values == *to || is_lossless(values, to),
        (Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)) => true,
        (Time32(_), Time64(_)) => true,
        (Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)) => true,
        _ => false,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The numbers of a timestamp column in another unit; the row of the first value that has
/// none there.
fn rescale(array: &ArrayRef, from: TimeUnit, to: TimeUnit) -> Result<ArrayRef, usize> {
    let numbers = array
        .to_data()
        .into_builder()
        .data_type(DataType::Int64)
        .build()
        .map_err(|_| 0usize)?;
    let numbers = arrow::array::Int64Array::from(numbers);
    let (from, to) = (per_second(from), per_second(to));
    let mut failed = None;
    let mut index = 0;
    let scaled: arrow::array::Int64Array = numbers
        .iter()
        .map(|value| {
            let row = index;
            index += 1;
            let value = value?;
            let scaled = if to >= from {
                value.checked_mul(to / from)
            } else {
                let divisor = from / to;
                (value % divisor == 0).then_some(value / divisor)
            };
            if scaled.is_none() {
                failed.get_or_insert(row);
            }
            scaled
        })
        .collect();
    match failed {
        Some(row) => Err(row),
        None => Ok(Arc::new(scaled)),
    }
}

/// An array of numbers as timestamps of `unit`.
fn with_zone(
    numbers: ArrayRef,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
) -> Result<ArrayRef, ArrowError> {
    fn relabel<T>(numbers: &ArrayRef, zone: Option<Arc<str>>) -> ArrayRef
    where
        T: ArrowPrimitiveType<Native = i64> + arrow::datatypes::ArrowTimestampType,
    {
        let values = numbers
            .as_primitive::<Int64Type>()
            .reinterpret_cast::<T>()
            .with_timezone_opt(zone);
        Arc::new(values)
    }
    Ok(match unit {
        TimeUnit::Second => relabel::<TimestampSecondType>(&numbers, zone),
        TimeUnit::Millisecond => relabel::<TimestampMillisecondType>(&numbers, zone),
        TimeUnit::Microsecond => relabel::<TimestampMicrosecondType>(&numbers, zone),
        TimeUnit::Nanosecond => relabel::<TimestampNanosecondType>(&numbers, zone),
    })
}
