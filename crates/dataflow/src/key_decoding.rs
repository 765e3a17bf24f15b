//! Reads the canonical key encoding (see `key_encoding`) back into columns.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryBuilder, BooleanArray, NullArray, PrimitiveArray, StringBuilder},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};

/// Bytes that are not an encoding of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("encoded key of type {data_type} is damaged: {reason}")]
pub struct KeyDecodingError {
    pub data_type: DataType,
    pub reason: &'static str,
}

/// Decodes one value of `data_type` from the front of every cursor and moves the cursors past
/// it. A composite key is decoded by one call per column.
pub fn decode_key_column(
    data_type: &DataType,
    cursors: &mut [&[u8]],
) -> Result<ArrayRef, KeyDecodingError> {
    macro_rules! int {
        ($type:ty, $unsigned:ty) => {
            fixed::<$type, { size_of::<$unsigned>() }>(data_type, cursors, |bytes| {
                (<$unsigned>::from_be_bytes(bytes) ^ (1 << (<$unsigned>::BITS - 1))) as _
            })
        };
    }
    match data_type {
        DataType::Null => {
            for cursor in &mut *cursors {
                if present(data_type, cursor)? {
                    return Err(damaged(data_type, "a value where only null can be"));
                }
            }
            Ok(Arc::new(NullArray::new(cursors.len())))
        }
        DataType::Boolean => {
            let mut values = Vec::with_capacity(cursors.len());
            for cursor in cursors {
                values.push(if present(data_type, cursor)? {
                    Some(take::<1>(data_type, cursor)? == [1])
                } else {
                    None
                });
            }
            Ok(Arc::new(BooleanArray::from(values)))
        }
        DataType::Int8 => int!(Int8Type, u8),
        DataType::Int16 => int!(Int16Type, u16),
        DataType::Int32 => int!(Int32Type, u32),
        DataType::Int64 => int!(Int64Type, u64),
        DataType::Date32 => int!(Date32Type, u32),
        DataType::Time32(TimeUnit::Millisecond) => int!(Time32MillisecondType, u32),
        DataType::Timestamp(TimeUnit::Second, _) => int!(TimestampSecondType, u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => int!(TimestampMillisecondType, u64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => int!(TimestampMicrosecondType, u64),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => int!(TimestampNanosecondType, u64),
        DataType::Decimal128(_, _) => int!(Decimal128Type, u128),
        // Single precision is encoded as double precision, which is exact.
        DataType::Float32 => fixed::<Float32Type, 8>(data_type, cursors, |bytes| {
            unordered_f64(u64::from_be_bytes(bytes)) as f32
        }),
        DataType::Float64 => fixed::<Float64Type, 8>(data_type, cursors, |bytes| {
            unordered_f64(u64::from_be_bytes(bytes))
        }),
        DataType::Utf8 => {
            let bytes = cursors.iter().map(|cursor| cursor.len()).sum();
            let mut values = StringBuilder::with_capacity(cursors.len(), bytes);
            for cursor in cursors {
                match take_bytes(data_type, cursor)? {
                    Some(bytes) => values.append_value(
                        str::from_utf8(&bytes).map_err(|_| damaged(data_type, "not UTF-8"))?,
                    ),
                    None => values.append_null(),
                }
            }
            Ok(Arc::new(values.finish()))
        }
        DataType::Binary => {
            let mut values = BinaryBuilder::new();
            for cursor in cursors {
                values.append_option(take_bytes(data_type, cursor)?);
            }
            Ok(Arc::new(values.finish()))
        }
        _ => Err(damaged(data_type, "no key has this type")),
    }
}

fn damaged(data_type: &DataType, reason: &'static str) -> KeyDecodingError {
    KeyDecodingError {
        data_type: data_type.clone(),
        reason,
    }
}

fn take<const N: usize>(
    data_type: &DataType,
    cursor: &mut &[u8],
) -> Result<[u8; N], KeyDecodingError> {
    let (head, rest) = cursor
        .split_first_chunk::<N>()
        .ok_or_else(|| damaged(data_type, "it ends too early"))?;
    *cursor = rest;
    Ok(*head)
}

fn present(data_type: &DataType, cursor: &mut &[u8]) -> Result<bool, KeyDecodingError> {
    match take::<1>(data_type, cursor)? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(damaged(data_type, "its null mark is neither 0 nor 1")),
    }
}

fn take_bytes<'a>(
    data_type: &DataType,
    cursor: &mut &'a [u8],
) -> Result<Option<Cow<'a, [u8]>>, KeyDecodingError> {
    if !present(data_type, cursor)? {
        return Ok(None);
    }
    let mut bytes = Cow::Borrowed(&[][..]);
    loop {
        let zero = cursor
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| damaged(data_type, "it ends too early"))?;
        let piece = &cursor[..zero];
        *cursor = &cursor[zero + 1..];
        // Nearly every value is one piece, which needs no copy.
        if bytes.is_empty() {
            bytes = Cow::Borrowed(piece);
        } else {
            bytes.to_mut().extend_from_slice(piece);
        }
        match take::<1>(data_type, cursor)? {
            [0] => return Ok(Some(bytes)),
            [0xFF] => bytes.to_mut().push(0),
            _ => {
                return Err(damaged(
                    data_type,
                    "a zero byte is neither escaped nor an end",
                ));
            }
        }
    }
}

fn fixed<T: ArrowPrimitiveType, const N: usize>(
    data_type: &DataType,
    cursors: &mut [&[u8]],
    decode: impl Fn([u8; N]) -> T::Native,
) -> Result<ArrayRef, KeyDecodingError> {
    let mut values = Vec::with_capacity(cursors.len());
    for cursor in cursors {
        values.push(if present(data_type, cursor)? {
            Some(decode(take::<N>(data_type, cursor)?))
        } else {
            None
        });
    }
    let array: PrimitiveArray<T> = values.into_iter().collect();
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn unordered_f64(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 {
        bits & !(1 << 63)
    } else {
        !bits
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, BinaryArray, Decimal128Array, Float64Array, StringArray, TimestampMillisecondArray,
    };

    use super::*;
    use crate::{KeyEncoder, KeyRows};

    #[test]
    fn decodes_what_was_encoded() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![
                Some("a\0b"),
                None,
                Some(""),
                Some("ü"),
            ])),
            Arc::new(PrimitiveArray::<Int64Type>::from(vec![
                Some(i64::MIN),
                Some(-1),
                None,
                Some(i64::MAX),
            ])),
            Arc::new(Float64Array::from(vec![
                Some(-1.5),
                Some(f64::INFINITY),
                Some(0.0),
                None,
            ])),
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                None,
            ])),
            Arc::new(
                TimestampMillisecondArray::from(vec![Some(-5), None, Some(0), Some(7)])
                    .with_timezone("UTC"),
            ),
            Arc::new(
                Decimal128Array::from(vec![Some(-12345), Some(0), None, Some(1)])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
            Arc::new(NullArray::new(4)),
            Arc::new(BinaryArray::from(vec![
                Some(&[0u8, 0xFF][..]),
                None,
                Some(&[]),
                None,
            ])),
            Arc::new(PrimitiveArray::<Float32Type>::from(vec![
                0.1f32, -2.5, 3.0, 1e30,
            ])),
            Arc::new(PrimitiveArray::<Int8Type>::from(vec![-128, 127, 0, 1])),
        ];
        let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
        let mut keys = KeyRows::default();
        KeyEncoder::new(types.clone())
            .unwrap()
            .encode(&columns, 4, &mut keys);
        let mut cursors: Vec<&[u8]> = (0..4).map(|row| keys.row(row)).collect();
        for (data_type, column) in types.iter().zip(&columns) {
            let decoded = decode_key_column(data_type, &mut cursors).unwrap();
            assert_eq!(&decoded, column, "{data_type}");
        }
        assert!(cursors.iter().all(|rest| rest.is_empty()));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for (data_type, bytes) in [
            (DataType::Int64, &[1, 0][..]),
            (DataType::Int64, &[2][..]),
            (DataType::Utf8, &[1, b'a'][..]),
            (DataType::Utf8, &[1, 0, 7][..]),
            (DataType::Utf8, &[1, 0xC3, 0, 0][..]),
            (DataType::Null, &[1][..]),
            (DataType::Boolean, &[][..]),
        ] {
            assert!(
                decode_key_column(&data_type, &mut [bytes]).is_err(),
                "{data_type}"
            );
        }
    }
}
