//! Arrays seen as values by row, resolved once per batch so that the loop over rows does no
//! downcasts.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::text::{base64, write};

/// One column of a batch.
pub(crate) struct Typed<'a> {
    pub(crate) values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

/// The values of a column.
pub(crate) enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128], i8),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Date(&'a [i32]),
    Time32(&'a [i32], TimeUnit),
    Time64(&'a [i64], TimeUnit),
    Timestamp {
        values: &'a [i64],
        unit: TimeUnit,
        zoned: bool,
    },
    List {
        offsets: &'a [i32],
        items: Box<Typed<'a>>,
    },
    Struct(Vec<(&'a str, Typed<'a>)>),
    Map {
        offsets: &'a [i32],
        keys: Box<Typed<'a>>,
        items: Box<Typed<'a>>,
    },
}

impl<'a> Typed<'a> {
    /// A view of `array`, or the type that is in the way.
    pub(crate) fn new(array: &'a ArrayRef) -> Result<Typed<'a>, DataType> {
        let unsupported = || array.data_type().clone();
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Values::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Values::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Values::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(_, scale) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            DataType::Utf8 => Values::Utf8(array.as_string()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view()),
            DataType::Binary => Values::Binary(array.as_binary()),
            DataType::LargeBinary => Values::LargeBinary(array.as_binary()),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view()),
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values()),
            DataType::Time32(unit) => {
                let values: &[i32] = match unit {
                    TimeUnit::Second => array.as_primitive::<Time32SecondType>().values(),
                    TimeUnit::Millisecond => array.as_primitive::<Time32MillisecondType>().values(),
                    _ => return Err(unsupported()),
                };
                Values::Time32(values, *unit)
            }
            DataType::Time64(unit) => {
                let values: &[i64] = match unit {
                    TimeUnit::Microsecond => array.as_primitive::<Time64MicrosecondType>().values(),
                    TimeUnit::Nanosecond => array.as_primitive::<Time64NanosecondType>().values(),
                    _ => return Err(unsupported()),
                };
                Values::Time64(values, *unit)
            }
            DataType::Timestamp(unit, zone) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => {
                        array.as_primitive::<TimestampMillisecondType>().values()
                    }
                    TimeUnit::Microsecond => {
                        array.as_primitive::<TimestampMicrosecondType>().values()
                    }
                    TimeUnit::Nanosecond => {
                        array.as_primitive::<TimestampNanosecondType>().values()
                    }
                };
                Values::Timestamp {
                    values,
                    unit: *unit,
                    zoned: zone.is_some(),
                }
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Values::List {
                    offsets: list.offsets(),
                    items: Box::new(Typed::new(list.values())?),
                }
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let fields = fields.iter().zip(columns);
                Values::Struct(
                    fields
                        .map(|(field, column)| Ok((field.name().as_str(), Typed::new(column)?)))
                        .collect::<Result<_, DataType>>()?,
                )
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                Values::Map {
                    offsets: map.offsets(),
                    keys: Box::new(Typed::new(map.keys())?),
                    items: Box::new(Typed::new(map.values())?),
                }
            }
            _ => return Err(unsupported()),
        };
        Ok(Typed {
            values,
            nulls: array.nulls(),
        })
    }

    /// Whether `row` is null.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self.nulls {
            Some(nulls) => nulls.is_null(row),
            None => matches!(self.values, Values::Null),
        }
    }

    /// The string at `row` if the column is of strings.
    #[inline]
    pub(crate) fn string(&self, row: usize) -> Option<&'a str> {
        match self.values {
            Values::Utf8(values) => Some(values.value(row)),
            Values::LargeUtf8(values) => Some(values.value(row)),
            Values::Utf8View(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// The byte string at `row` if the column is of byte strings.
    #[inline]
    pub(crate) fn binary(&self, row: usize) -> Option<&'a [u8]> {
        match self.values {
            Values::Binary(values) => Some(values.value(row)),
            Values::LargeBinary(values) => Some(values.value(row)),
            Values::BinaryView(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// Appends the scalar at `row`, which is not null, as text without quotes; byte strings
    /// in base64, `separator` between the date and the time of timestamps. Nested values
    /// append nothing.
    #[inline]
    pub(crate) fn write_text(&self, row: usize, separator: u8, out: &mut Vec<u8>) {
        match &self.values {
            Values::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            Values::Int8(values) => write::integer(i64::from(values[row]), out),
            Values::Int16(values) => write::integer(i64::from(values[row]), out),
            Values::Int32(values) => write::integer(i64::from(values[row]), out),
            Values::Int64(values) => write::integer(values[row], out),
            Values::UInt8(values) => write::unsigned(u64::from(values[row]), out),
            Values::UInt16(values) => write::unsigned(u64::from(values[row]), out),
            Values::UInt32(values) => write::unsigned(u64::from(values[row]), out),
            Values::UInt64(values) => write::unsigned(values[row], out),
            Values::Float32(values) => write::float32(values[row], out),
            Values::Float64(values) => write::float64(values[row], out),
            Values::Decimal(values, scale) => write::decimal(values[row], *scale, out),
            Values::Date(values) => write::date(i64::from(values[row]), out),
            Values::Time32(values, unit) => write::time(i64::from(values[row]), *unit, out),
            Values::Time64(values, unit) => write::time(values[row], *unit, out),
            Values::Timestamp {
                values,
                unit,
                zoned,
            } => {
                write::timestamp(values[row], *unit, separator, out);
                if *zoned {
                    out.push(b'Z');
                }
            }
            Values::Utf8(_) | Values::LargeUtf8(_) | Values::Utf8View(_) => {
                out.extend_from_slice(self.string(row).unwrap_or("").as_bytes());
            }
            Values::Binary(_) | Values::LargeBinary(_) | Values::BinaryView(_) => {
                base64::encode(self.binary(row).unwrap_or(&[]), out);
            }
            Values::Null | Values::List { .. } | Values::Struct(_) | Values::Map { .. } => {}
        }
    }
}
