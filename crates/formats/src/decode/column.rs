//! Columns under construction, which can be cut back.
//!
//! Arrow's own builders only grow. A record that turns out malformed in its last field has
//! already put values into the columns before, and a repeated JSON key replaces a value, so
//! every column here can be [truncated](Column::truncate) to a former length.
//!
//! Invariant: `nulls` counts every value of the column; it is the column's length.

use std::sync::Arc;

use arrow::array::NullBufferBuilder;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Decimal128Array, ListArray,
    MapArray, PrimitiveArray, StringArray, StructArray, Time32MillisecondArray, Time32SecondArray,
    Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit,
};
use arrow::error::ArrowError;

use crate::error::FormatError;

/// Rows to make room for at first; columns keep the capacity that they came to need.
const FIRST_CAPACITY: usize = 1024;

/// One column of the batch being built.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) nullable: bool,
    /// A JSON object must have a member for it, be it null.
    pub(crate) required: bool,
    pub(crate) data_type: DataType,
    pub(crate) values: Values,
    nulls: NullBufferBuilder,
}

/// The values of a column; a null has a zero or an empty value.
pub(crate) enum Values {
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Utf8(VarBytes),
    Binary(VarBytes),
    Date(Vec<i32>),
    Time32 {
        values: Vec<i32>,
        unit: TimeUnit,
    },
    Time64 {
        values: Vec<i64>,
        unit: TimeUnit,
    },
    Timestamp {
        values: Vec<i64>,
        unit: TimeUnit,
        /// The label of TIMESTAMP_LTZ.
        zone: Option<Arc<str>>,
    },
    List {
        offsets: Vec<i32>,
        field: FieldRef,
        items: Box<Column>,
    },
    Struct {
        fields: Fields,
        children: Vec<Column>,
    },
    Map {
        offsets: Vec<i32>,
        entries: FieldRef,
        fields: Fields,
        keys: Box<Column>,
        items: Box<Column>,
    },
}

/// Strings or byte strings, one after the other.
pub(crate) struct VarBytes {
    offsets: Vec<i32>,
    pub(crate) bytes: Vec<u8>,
}

impl VarBytes {
    fn new() -> VarBytes {
        VarBytes {
            offsets: first_offsets(),
            bytes: Vec::new(),
        }
    }

    /// Ends the value whose bytes were appended to `bytes` since the last value.
    pub(crate) fn end_value(&mut self) {
        self.offsets.push(offset(self.bytes.len()));
    }

    /// The value at `index`; empty if there is none.
    pub(crate) fn value(&self, index: usize) -> &[u8] {
        match self.offsets.get(index..index + 2) {
            Some([start, end]) => &self.bytes[*start as usize..*end as usize],
            _ => &[],
        }
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.bytes.truncate(last(&self.offsets));
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let capacity = self.bytes.len();
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(capacity));
        (take_offsets(&mut self.offsets), Buffer::from_vec(bytes))
    }
}

fn first_offsets() -> Vec<i32> {
    let mut offsets = Vec::with_capacity(FIRST_CAPACITY);
    offsets.push(0);
    offsets
}

/// A length as offset. A batch holds at most [`super::batch::MAX_BATCH_BYTES`] and one record
/// (at most [`super::MAX_RECORD_LIMIT`]) of text, far less than an i32 counts.
fn offset(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

const _: () =
    assert!(super::batch::MAX_BATCH_BYTES + super::MAX_RECORD_LIMIT as u64 + 1 < i32::MAX as u64);

fn last(offsets: &[i32]) -> usize {
    offsets.last().map_or(0, |offset| *offset as usize)
}

fn take_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let mut next = Vec::with_capacity(offsets.len());
    next.push(0);
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, next)))
}

fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next)
}

impl Column {
    /// An empty column for `field`; `None` for a type that [`check_text_type`] refuses.
    ///
    /// [`check_text_type`]: crate::sql_type::check_text_type
    pub(crate) fn new(field: &Field) -> Option<Column> {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(FIRST_CAPACITY)),
            DataType::Int8 => Values::Int8(Vec::new()),
            DataType::Int16 => Values::Int16(Vec::new()),
            DataType::Int32 => Values::Int32(Vec::new()),
            DataType::Int64 => Values::Int64(Vec::new()),
            DataType::Float32 => Values::Float32(Vec::new()),
            DataType::Float64 => Values::Float64(Vec::new()),
            DataType::Decimal128(precision, scale) => Values::Decimal {
                values: Vec::new(),
                precision: *precision,
                scale: *scale,
            },
            DataType::Utf8 => Values::Utf8(VarBytes::new()),
            DataType::Binary => Values::Binary(VarBytes::new()),
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Time32(unit) => Values::Time32 {
                values: Vec::new(),
                unit: *unit,
            },
            DataType::Time64(unit) => Values::Time64 {
                values: Vec::new(),
                unit: *unit,
            },
            DataType::Timestamp(unit, zone) => Values::Timestamp {
                values: Vec::new(),
                unit: *unit,
                zone: zone.clone(),
            },
            DataType::List(item) => Values::List {
                offsets: first_offsets(),
                field: Arc::clone(item),
                items: Box::new(Column::new(item)?),
            },
            DataType::Struct(fields) => Values::Struct {
                fields: fields.clone(),
                children: fields
                    .iter()
                    .map(|field| Column::new(field))
                    .collect::<Option<_>>()?,
            },
            DataType::Map(entries, _) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return None;
                };
                let [key, value] = fields.as_ref() else {
                    return None;
                };
                Values::Map {
                    offsets: first_offsets(),
                    entries: Arc::clone(entries),
                    fields: fields.clone(),
                    keys: Box::new(Column::new(key)?),
                    items: Box::new(Column::new(value)?),
                }
            }
            _ => return None,
        };
        Some(Column {
            name: field.name().clone(),
            nullable: field.is_nullable(),
            required: false,
            data_type: field.data_type().clone(),
            values,
            nulls: NullBufferBuilder::new(FIRST_CAPACITY),
        })
    }

    /// Sets [`required`](Self::required) here and in the fields of rows within.
    pub(crate) fn require(&mut self) {
        self.required = true;
        match &mut self.values {
            Values::Struct { children, .. } => children.iter_mut().for_each(Column::require),
            Values::List { items, .. } | Values::Map { items, .. } => items.require(),
            _ => {}
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Counts the value that was just pushed to `values`.
    pub(crate) fn end_value(&mut self) {
        self.nulls.append_non_null();
    }

    /// Appends a null, whether or not the column may hold one: checking is the caller's.
    pub(crate) fn append_null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Int8(values) => values.push(0),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) | Values::Time32 { values, .. } => {
                values.push(0);
            }
            Values::Int64(values)
            | Values::Time64 { values, .. }
            | Values::Timestamp { values, .. } => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Utf8(values) | Values::Binary(values) => values.end_value(),
            Values::List { offsets, items, .. } | Values::Map { offsets, items, .. } => {
                offsets.push(offset(items.len()));
            }
            Values::Struct { children, .. } => {
                children.iter_mut().for_each(Column::append_null);
            }
        }
        self.nulls.append_null();
    }

    /// Ends a list or map whose items were appended since the last one.
    pub(crate) fn end_items(&mut self) {
        if let Values::List { offsets, items, .. } | Values::Map { offsets, items, .. } =
            &mut self.values
        {
            offsets.push(offset(items.len()));
        }
        self.nulls.append_non_null();
    }

    /// Cuts the column back to `len` values, also when a nested value was left half done.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.values {
            Values::Boolean(values) => values.truncate(len),
            Values::Int8(values) => values.truncate(len),
            Values::Int16(values) => values.truncate(len),
            Values::Int32(values) | Values::Date(values) | Values::Time32 { values, .. } => {
                values.truncate(len);
            }
            Values::Int64(values)
            | Values::Time64 { values, .. }
            | Values::Timestamp { values, .. } => values.truncate(len),
            Values::Float32(values) => values.truncate(len),
            Values::Float64(values) => values.truncate(len),
            Values::Decimal { values, .. } => values.truncate(len),
            Values::Utf8(values) | Values::Binary(values) => values.truncate(len),
            Values::List { offsets, items, .. } => {
                offsets.truncate(len + 1);
                items.truncate(last(offsets));
            }
            Values::Map {
                offsets,
                keys,
                items,
                ..
            } => {
                offsets.truncate(len + 1);
                keys.truncate(last(offsets));
                items.truncate(last(offsets));
            }
            Values::Struct { children, .. } => {
                children.iter_mut().for_each(|child| child.truncate(len));
            }
        }
        self.nulls.truncate(len);
    }

    /// The values as array; the column is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, FormatError> {
        let nulls = self.nulls.finish().filter(|nulls| nulls.null_count() > 0);
        self.finish_values(nulls)
            .map_err(|source| FormatError::Arrow {
                context: "cannot build a column from decoded values",
                source,
            })
    }

    fn finish_values(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        /// `PrimitiveArray::try_new` over the taken vector.
        macro_rules! primitive {
            ($array:ty, $values:expr) => {
                Arc::new(<$array>::try_new(take($values).into(), nulls)?)
            };
        }
        Ok(match &mut self.values {
            Values::Boolean(values) => {
                Arc::new(BooleanArray::new(values.finish(), nulls)) as ArrayRef
            }
            Values::Int8(values) => primitive!(PrimitiveArray<Int8Type>, values),
            Values::Int16(values) => primitive!(PrimitiveArray<Int16Type>, values),
            Values::Int32(values) => primitive!(PrimitiveArray<Int32Type>, values),
            Values::Int64(values) => primitive!(PrimitiveArray<Int64Type>, values),
            Values::Float32(values) => primitive!(PrimitiveArray<Float32Type>, values),
            Values::Float64(values) => primitive!(PrimitiveArray<Float64Type>, values),
            Values::Date(values) => primitive!(PrimitiveArray<Date32Type>, values),
            Values::Decimal {
                values,
                precision,
                scale,
            } => Arc::new(
                Decimal128Array::try_new(take(values).into(), nulls)?
                    .with_precision_and_scale(*precision, *scale)?,
            ),
            Values::Utf8(values) => {
                let (offsets, bytes) = values.take();
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Binary(values) => {
                let (offsets, bytes) = values.take();
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Time32 { values, unit } => match unit {
                TimeUnit::Second => primitive!(Time32SecondArray, values),
                _ => primitive!(Time32MillisecondArray, values),
            },
            Values::Time64 { values, unit } => match unit {
                TimeUnit::Nanosecond => primitive!(Time64NanosecondArray, values),
                _ => primitive!(Time64MicrosecondArray, values),
            },
            Values::Timestamp { values, unit, zone } => {
                /// As `primitive!`, with the column's zone.
                macro_rules! timestamp {
                    ($array:ty) => {
                        Arc::new(
                            <$array>::try_new(take(values).into(), nulls)?
                                .with_timezone_opt(zone.clone()),
                        )
                    };
                }
                match unit {
                    TimeUnit::Second => timestamp!(TimestampSecondArray),
                    TimeUnit::Millisecond => timestamp!(TimestampMillisecondArray),
                    TimeUnit::Microsecond => timestamp!(TimestampMicrosecondArray),
                    TimeUnit::Nanosecond => timestamp!(TimestampNanosecondArray),
                }
            }
            Values::List {
                offsets,
                field,
                items,
            } => {
                let nulls_of_items = items.nulls.finish().filter(|n| n.null_count() > 0);
                let items = items.finish_values(nulls_of_items)?;
                Arc::new(ListArray::try_new(
                    Arc::clone(field),
                    take_offsets(offsets),
                    items,
                    nulls,
                )?)
            }
            Values::Struct { fields, children } => {
                let length = nulls.as_ref().map_or(0, NullBuffer::len);
                let arrays = finish_children(children.iter_mut())?;
                let length = arrays.first().map_or(length, |array| array.len());
                Arc::new(StructArray::try_new_with_length(
                    fields.clone(),
                    arrays,
                    nulls,
                    length,
                )?)
            }
            Values::Map {
                offsets,
                entries,
                fields,
                keys,
                items,
            } => {
                let arrays = finish_children([keys.as_mut(), items.as_mut()].into_iter())?;
                let pairs = StructArray::try_new(fields.clone(), arrays, None)?;
                Arc::new(MapArray::try_new(
                    Arc::clone(entries),
                    take_offsets(offsets),
                    pairs,
                    nulls,
                    false,
                )?)
            }
        })
    }
}

fn finish_children<'a>(
    children: impl Iterator<Item = &'a mut Column>,
) -> Result<Vec<ArrayRef>, ArrowError> {
    children
        .map(|child| {
            let nulls = child.nulls.finish().filter(|nulls| nulls.null_count() > 0);
            child.finish_values(nulls)
        })
        .collect()
}
