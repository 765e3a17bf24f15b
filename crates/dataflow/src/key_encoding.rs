//! The canonical encoding of keys and their stable hash.
//!
//! Encoded keys are persisted (state tables are keyed by them) and decide key groups, so the
//! encoding never changes without a new [`ENCODING_VERSION`]. Per column: one byte 0 for null
//! or 1, then the value, order-preserving: integers big-endian with the sign bit flipped;
//! floats with −0 as 0 and one NaN, in total order; strings and bytes with 0x00 written as
//! 0x00 0xFF and ended by 0x00 0x00.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    },
};
use xxhash_rust::xxh3::xxh3_64;

/// Named in snapshot manifests.
pub const ENCODING_VERSION: u8 = 1;

/// A type that cannot be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "column {column} of type {data_type} cannot be a key: cast it to a scalar type such as STRING or BIGINT"
)]
pub struct KeyEncodingError {
    pub column: usize,
    pub data_type: DataType,
}

/// The stable hash of an encoded key.
pub fn key_hash(encoded: &[u8]) -> u64 {
    xxh3_64(encoded)
}

/// Encoded keys of a batch of rows, one after the other in one buffer.
#[derive(Debug, Default, Clone)]
pub struct KeyRows {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyRows {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The encoded key of a row.
    pub fn row(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.data[start..self.ends[row]]
    }
}

/// Encodes key columns of fixed types.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    types: Vec<DataType>,
}

impl KeyEncoder {
    /// An encoder for columns of these types, or the first type that cannot be a key.
    pub fn new(types: Vec<DataType>) -> Result<Self, KeyEncodingError> {
        for (column, data_type) in types.iter().enumerate() {
            if !is_key_type(data_type) {
                return Err(KeyEncodingError {
                    column,
                    data_type: data_type.clone(),
                });
            }
        }
        Ok(KeyEncoder { types })
    }

    /// Encodes `rows` rows of the columns, which must have the encoder's types, into `keys`
    /// (cleared first; its memory is reused).
    pub fn encode(&self, columns: &[ArrayRef], rows: usize, keys: &mut KeyRows) {
        debug_assert_eq!(columns.len(), self.types.len());
        keys.data.clear();
        keys.ends.clear();
        keys.ends.reserve(rows);
        for row in 0..rows {
            for column in columns {
                encode_value(column.as_ref(), row, &mut keys.data);
            }
            keys.ends.push(keys.data.len());
        }
    }
}

fn is_key_type(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null
            | DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(_, _)
            | DataType::Date32
            | DataType::Time32(TimeUnit::Millisecond)
            | DataType::Timestamp(_, _)
            | DataType::Utf8
            | DataType::Binary
    )
}

fn encode_value(column: &dyn Array, row: usize, out: &mut Vec<u8>) {
    if column.is_null(row) || column.data_type() == &DataType::Null {
        out.push(0);
        return;
    }
    out.push(1);
    macro_rules! int {
        ($type:ty, $unsigned:ty) => {{
            let value = column.as_primitive::<$type>().value(row) as $unsigned;
            out.extend_from_slice(&(value ^ (1 << (<$unsigned>::BITS - 1))).to_be_bytes())
        }};
    }
    match column.data_type() {
        DataType::Boolean => out.push(u8::from(column.as_boolean().value(row))),
        DataType::Int8 => int!(Int8Type, u8),
        DataType::Int16 => int!(Int16Type, u16),
        DataType::Int32 => int!(Int32Type, u32),
        DataType::Int64 => int!(Int64Type, u64),
        DataType::Date32 => int!(Date32Type, u32),
        DataType::Time32(_) => int!(Time32MillisecondType, u32),
        DataType::Timestamp(TimeUnit::Second, _) => int!(TimestampSecondType, u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => int!(TimestampMillisecondType, u64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => int!(TimestampMicrosecondType, u64),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => int!(TimestampNanosecondType, u64),
        DataType::Decimal128(_, _) => int!(Decimal128Type, u128),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            out.extend_from_slice(&ordered_f64(f64::from(value)).to_be_bytes());
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            out.extend_from_slice(&ordered_f64(value).to_be_bytes());
        }
        DataType::Utf8 => encode_bytes(column.as_string::<i32>().value(row).as_bytes(), out),
        DataType::Binary => encode_bytes(column.as_binary::<i32>().value(row), out),
        other => unreachable!("KeyEncoder::new refuses {other}"),
    }
}

/// Bits that order as the numbers do, with −0 equal to 0 and all NaNs equal and last.
fn ordered_f64(value: f64) -> u64 {
    let value = if value == 0.0 {
        0.0
    } else if value.is_nan() {
        f64::NAN
    } else {
        value
    };
    let bits = value.to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(piece);
        if piece.ends_with(&[0]) {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}
