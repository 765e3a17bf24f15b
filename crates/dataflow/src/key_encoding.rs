//! The canonical encoding of keys and their stable hash.
//!
//! Encoded keys are persisted (state tables are keyed by them) and decide key groups, so the
//! encoding never changes without a new [`ENCODING_VERSION`]. Per column: one byte 0 for null
//! or 1, then the value, order-preserving: integers big-endian with the sign bit flipped;
//! floats with −0 as 0 and one NaN, in total order; strings and bytes with 0x00 written as
//! 0x00 0xFF and ended by 0x00 0x00.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
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

    /// The encoded keys in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |end| &self.data[std::mem::replace(&mut start, *end)..*end])
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
        if let [column] = columns {
            visit(column.as_ref(), &mut Append { rows, keys });
            return;
        }
        // Column by column: first the length of every row, from these where each row starts,
        // then the bytes. `ends` is in turn length, position of the next byte, and end.
        keys.ends.resize(rows, 0);
        for column in columns {
            visit(column.as_ref(), &mut Measure(&mut keys.ends));
        }
        let mut total = 0;
        for end in &mut keys.ends {
            total += std::mem::replace(end, total);
        }
        keys.data.resize(total, 0);
        for column in columns {
            visit(
                column.as_ref(),
                &mut Fill {
                    data: &mut keys.data,
                    next: &mut keys.ends,
                },
            );
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

/// What is done with a column. Values come without the leading null byte.
trait Visit {
    fn nulls(&mut self);
    /// Values that are all of one width.
    fn fixed<const WIDTH: usize>(
        &mut self,
        nulls: Option<&NullBuffer>,
        value: impl Fn(usize) -> [u8; WIDTH],
    );
    /// Values that are escaped; `plain` if none of them holds a zero byte.
    fn escaped<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        plain: bool,
        value: impl Fn(usize) -> &'a [u8],
    );
}

/// Dispatches on the type once per column.
fn visit(column: &dyn Array, visitor: &mut impl Visit) {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    macro_rules! int {
        ($type:ty, $unsigned:ty) => {{
            let values = column.as_primitive::<$type>().values();
            visitor.fixed(nulls, |row| {
                (values[row] as $unsigned ^ (1 << (<$unsigned>::BITS - 1))).to_be_bytes()
            })
        }};
    }
    match column.data_type() {
        DataType::Null => visitor.nulls(),
        DataType::Boolean => {
            let values = column.as_boolean().values();
            visitor.fixed(nulls, |row| [u8::from(values.value(row))]);
        }
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
            let values = column.as_primitive::<Float32Type>().values();
            visitor.fixed(nulls, |row| {
                ordered_f64(f64::from(values[row])).to_be_bytes()
            });
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            visitor.fixed(nulls, |row| ordered_f64(values[row]).to_be_bytes());
        }
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            let plain = is_plain(array.value_offsets(), array.value_data());
            visitor.escaped(nulls, plain, |row| array.value(row).as_bytes());
        }
        DataType::Binary => {
            let array = column.as_binary::<i32>();
            let plain = is_plain(array.value_offsets(), array.value_data());
            visitor.escaped(nulls, plain, |row| array.value(row));
        }
        other => unreachable!("KeyEncoder::new refuses {other}"),
    }
}

/// Whether no value holds a zero byte: one search over all of them is cheaper than one each.
fn is_plain(offsets: &[i32], data: &[u8]) -> bool {
    match (offsets.first(), offsets.last()) {
        (Some(start), Some(end)) => !data[*start as usize..*end as usize].contains(&0),
        _ => true,
    }
}

/// Adds each row's length.
struct Measure<'a>(&'a mut [usize]);

impl Visit for Measure<'_> {
    fn nulls(&mut self) {
        self.0.iter_mut().for_each(|length| *length += 1);
    }

    fn fixed<const WIDTH: usize>(
        &mut self,
        nulls: Option<&NullBuffer>,
        _value: impl Fn(usize) -> [u8; WIDTH],
    ) {
        match nulls {
            None => self.0.iter_mut().for_each(|length| *length += 1 + WIDTH),
            Some(nulls) => {
                for (length, valid) in self.0.iter_mut().zip(nulls) {
                    *length += if valid { 1 + WIDTH } else { 1 };
                }
            }
        }
    }

    fn escaped<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        plain: bool,
        value: impl Fn(usize) -> &'a [u8],
    ) {
        for (row, length) in self.0.iter_mut().enumerate() {
            *length += 1;
            if is_valid(nulls, row) {
                let bytes = value(row);
                let zeros = if plain { 0 } else { count_zeros(bytes) };
                *length += bytes.len() + zeros + TERMINATOR.len();
            }
        }
    }
}

/// Writes each row's bytes at its position, which moves on.
struct Fill<'a> {
    data: &'a mut [u8],
    next: &'a mut [usize],
}

impl Visit for Fill<'_> {
    fn nulls(&mut self) {
        // The byte is zero already.
        self.next.iter_mut().for_each(|next| *next += 1);
    }

    fn fixed<const WIDTH: usize>(
        &mut self,
        nulls: Option<&NullBuffer>,
        value: impl Fn(usize) -> [u8; WIDTH],
    ) {
        for (row, next) in self.next.iter_mut().enumerate() {
            if is_valid(nulls, row) {
                let target = &mut self.data[*next..*next + 1 + WIDTH];
                target[0] = 1;
                target[1..].copy_from_slice(&value(row));
                *next += WIDTH;
            }
            *next += 1;
        }
    }

    fn escaped<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        plain: bool,
        value: impl Fn(usize) -> &'a [u8],
    ) {
        for (row, next) in self.next.iter_mut().enumerate() {
            if is_valid(nulls, row) {
                self.data[*next] = 1;
                *next += 1;
                for piece in pieces(value(row), plain) {
                    self.data[*next..*next + piece.len()].copy_from_slice(piece);
                    *next += piece.len();
                    if !plain && piece.ends_with(&[0]) {
                        self.data[*next] = ESCAPE;
                        *next += 1;
                    }
                }
                // The terminator is zero already.
                *next += TERMINATOR.len();
            } else {
                *next += 1;
            }
        }
    }
}

/// Makes whole keys out of the only column.
struct Append<'a> {
    rows: usize,
    keys: &'a mut KeyRows,
}

impl Visit for Append<'_> {
    fn nulls(&mut self) {
        self.keys.data.resize(self.rows, 0);
        self.keys.ends.extend(1..=self.rows);
    }

    fn fixed<const WIDTH: usize>(
        &mut self,
        nulls: Option<&NullBuffer>,
        value: impl Fn(usize) -> [u8; WIDTH],
    ) {
        let KeyRows { data, ends } = &mut *self.keys;
        let stride = 1 + WIDTH;
        match nulls {
            None => {
                data.resize(self.rows * stride, 1);
                for (row, key) in data.chunks_exact_mut(stride).enumerate() {
                    key[1..].copy_from_slice(&value(row));
                }
                ends.extend((1..=self.rows).map(|row| row * stride));
            }
            Some(nulls) => {
                data.reserve(self.rows * stride);
                ends.reserve(self.rows);
                for (row, valid) in nulls.iter().enumerate().take(self.rows) {
                    data.push(u8::from(valid));
                    if valid {
                        data.extend_from_slice(&value(row));
                    }
                    ends.push(data.len());
                }
            }
        }
    }

    fn escaped<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        plain: bool,
        value: impl Fn(usize) -> &'a [u8],
    ) {
        let KeyRows { data, ends } = &mut *self.keys;
        ends.reserve(self.rows);
        for row in 0..self.rows {
            let valid = is_valid(nulls, row);
            data.push(u8::from(valid));
            if valid {
                for piece in pieces(value(row), plain) {
                    data.extend_from_slice(piece);
                    if !plain && piece.ends_with(&[0]) {
                        data.push(ESCAPE);
                    }
                }
                data.extend_from_slice(&TERMINATOR);
            }
            ends.push(data.len());
        }
    }
}

const ESCAPE: u8 = 0xFF;
const TERMINATOR: [u8; 2] = [0, 0];

fn is_valid(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_none_or(|nulls| nulls.is_valid(row))
}

fn count_zeros(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == 0).count()
}

/// Stretches that end at a zero byte, or the whole if it is known to hold none.
fn pieces(bytes: &[u8], plain: bool) -> impl Iterator<Item = &[u8]> {
    let (whole, parts) = if plain {
        (Some(bytes), &[][..])
    } else {
        (None, bytes)
    };
    whole
        .into_iter()
        .chain(parts.split_inclusive(|byte| *byte == 0))
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

#[cfg(test)]
mod tests;
