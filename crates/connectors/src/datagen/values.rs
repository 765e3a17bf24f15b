//! Columns of values, from row numbers.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanArray, PrimitiveArray, StringBuilder,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::error::ArrowError;

use super::field::{Field, Values};
use crate::nexmark::random::SplittableRandom;

const DAY_MS: i64 = 86_400_000;

/// Odd, so that different rows of a column start from different states.
const ROW_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// The rows to make: numbers within the split, and where they lie in the whole table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) first: u64,
    pub(crate) count: usize,
    pub(crate) split: u64,
    pub(crate) splits: u64,
    pub(crate) base_time_ms: i64,
    pub(crate) per_second: u64,
}

impl Rows {
    fn numbers(self) -> impl Iterator<Item = u64> {
        self.first..self.first + self.count as u64
    }

    /// The number of a row among those of all splits, taken in turn.
    fn overall(self, number: u64) -> u64 {
        number * self.splits + self.split
    }

    /// The time at which a row is due.
    fn time_ms(self, number: u64) -> i64 {
        let elapsed = u128::from(self.overall(number)) * 1000 / u128::from(self.per_second);
        self.base_time_ms
            .saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }
}

/// Where the random values of a column of a split come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnKey(u64);

impl ColumnKey {
    pub(crate) fn new(seed: u64, split: u32, column: usize) -> Self {
        let mut key = SplittableRandom::new(seed).next_u64();
        for part in [u64::from(split), column as u64] {
            key = SplittableRandom::new(key ^ part).next_u64();
        }
        Self(key)
    }

    /// The source of one row's draws. Its first draw is mixed before it becomes the state,
    /// lest a row's second draw be the next row's first.
    fn row(self, number: u64) -> SplittableRandom {
        let state = self.0.wrapping_add(number.wrapping_mul(ROW_STEP));
        SplittableRandom::new(SplittableRandom::new(state).next_u64())
    }

    /// Nulls are drawn apart, so that asking for some leaves the other values alone.
    fn nulls(self) -> Self {
        Self(!self.0)
    }
}

/// A column of `rows`.
pub(crate) fn make_column(
    field: &Field,
    data_type: &DataType,
    key: ColumnKey,
    rows: Rows,
) -> Result<ArrayRef, ArrowError> {
    let nulls = (field.null_rate > 0.0).then(|| {
        let present = rows
            .numbers()
            .map(|number| unit(&mut key.nulls().row(number)) >= field.null_rate);
        NullBuffer::new(present.collect::<BooleanBuffer>())
    });
    let column = Draws { key, rows, nulls };
    match field.values {
        Values::Boolean => {
            let values: BooleanBuffer = column
                .sources()
                .map(|mut draws| draws.next_u64() >> 63 == 1)
                .collect();
            Ok(Arc::new(BooleanArray::new(values, column.nulls)))
        }
        Values::Whole { min, max } => {
            let values = column
                .sources()
                .map(|mut draws| between(&mut draws, min, max));
            column.whole(data_type, values)
        }
        Values::Real { min, max } => {
            // Halves first: the difference of the extremes is more than a double holds.
            let values = column.sources().map(|mut draws| {
                let at = unit(&mut draws);
                (min * (1.0 - at) + max * at).clamp(min, max)
            });
            column.real(data_type, values)
        }
        Values::Text { length, vary } => {
            let mut texts = StringBuilder::with_capacity(rows.count, rows.count * length);
            let mut text = String::with_capacity(length);
            column.fill(&mut texts, StringBuilder::append_null, |texts, draws| {
                push_hex(draws, vary, length, &mut text);
                texts.append_value(&text);
            });
            Ok(Arc::new(texts.finish()))
        }
        Values::Bytes { length, vary } => {
            let mut values = BinaryBuilder::with_capacity(rows.count, rows.count * length);
            let mut bytes = Vec::with_capacity(length);
            column.fill(&mut values, BinaryBuilder::append_null, |values, draws| {
                push_bytes(draws, vary, length, &mut bytes);
                values.append_value(&bytes);
            });
            Ok(Arc::new(values.finish()))
        }
        Values::Past { max_ms } => {
            let times = rows.numbers().map(|number| {
                let past = between(&mut key.row(number), 0, max_ms.into());
                rows.time_ms(number).saturating_sub(past as i64)
            });
            column.time(data_type, times)
        }
        Values::Count { start, .. } => {
            let values = rows
                .numbers()
                .map(|number| i128::from(start) + i128::from(rows.overall(number)));
            match data_type {
                DataType::Utf8 => {
                    let mut texts = StringBuilder::new();
                    for (at, value) in values.enumerate() {
                        texts.append_option(column.is_present(at).then(|| value.to_string()));
                    }
                    Ok(Arc::new(texts.finish()))
                }
                DataType::Float32 | DataType::Float64 => {
                    column.real(data_type, values.map(|value| value as f64))
                }
                DataType::Decimal128(_, scale) => {
                    let one = 10i128.pow(scale.unsigned_abs().into());
                    column.whole(data_type, values.map(|value| value * one))
                }
                _ => column.whole(data_type, values),
            }
        }
    }
}

/// A column in the making.
struct Draws {
    key: ColumnKey,
    rows: Rows,
    nulls: Option<NullBuffer>,
}

impl Draws {
    fn sources(&self) -> impl Iterator<Item = SplittableRandom> + use<> {
        let key = self.key;
        self.rows.numbers().map(move |number| key.row(number))
    }

    fn is_present(&self, at: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at))
    }

    fn fill<B>(
        &self,
        builder: &mut B,
        append_null: impl Fn(&mut B),
        mut append: impl FnMut(&mut B, &mut SplittableRandom),
    ) {
        for (at, mut draws) in self.sources().enumerate() {
            if self.is_present(at) {
                append(builder, &mut draws);
            } else {
                append_null(builder);
            }
        }
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        data_type: &DataType,
        values: impl Iterator<Item = T::Native>,
    ) -> Result<ArrayRef, ArrowError> {
        let values: Vec<T::Native> = values.collect();
        let array = PrimitiveArray::<T>::try_new(values.into(), self.nulls.clone())?;
        Ok(Arc::new(array.with_data_type(data_type.clone())))
    }

    /// The values lie within what the type holds; this was checked with the options.
    fn whole(
        &self,
        data_type: &DataType,
        values: impl Iterator<Item = i128>,
    ) -> Result<ArrayRef, ArrowError> {
        match data_type {
            DataType::Int8 => {
                self.primitive::<Int8Type>(data_type, values.map(|value| value as i8))
            }
            DataType::Int16 => {
                self.primitive::<Int16Type>(data_type, values.map(|value| value as i16))
            }
            DataType::Int32 => {
                self.primitive::<Int32Type>(data_type, values.map(|value| value as i32))
            }
            DataType::Int64 => {
                self.primitive::<Int64Type>(data_type, values.map(|value| value as i64))
            }
            DataType::Decimal128(..) => self.primitive::<Decimal128Type>(data_type, values),
            other => Err(unexpected(other)),
        }
    }

    fn real(
        &self,
        data_type: &DataType,
        values: impl Iterator<Item = f64>,
    ) -> Result<ArrayRef, ArrowError> {
        match data_type {
            DataType::Float32 => {
                self.primitive::<Float32Type>(data_type, values.map(|value| value as f32))
            }
            DataType::Float64 => self.primitive::<Float64Type>(data_type, values),
            other => Err(unexpected(other)),
        }
    }

    /// From milliseconds since the epoch. Times beyond what nanoseconds hold (years 1677 to
    /// 2262) stop at the edge.
    fn time(
        &self,
        data_type: &DataType,
        ms: impl Iterator<Item = i64>,
    ) -> Result<ArrayRef, ArrowError> {
        let of_day = |ms: i64| ms.rem_euclid(DAY_MS);
        match data_type {
            DataType::Date32 => {
                self.primitive::<Date32Type>(data_type, ms.map(|ms| ms.div_euclid(DAY_MS) as i32))
            }
            DataType::Time32(TimeUnit::Second) => self
                .primitive::<Time32SecondType>(data_type, ms.map(|ms| (of_day(ms) / 1000) as i32)),
            DataType::Time32(_) => {
                self.primitive::<Time32MillisecondType>(data_type, ms.map(|ms| of_day(ms) as i32))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                self.primitive::<Time64MicrosecondType>(data_type, ms.map(|ms| of_day(ms) * 1000))
            }
            DataType::Time64(_) => self
                .primitive::<Time64NanosecondType>(data_type, ms.map(|ms| of_day(ms) * 1_000_000)),
            DataType::Timestamp(TimeUnit::Second, _) => {
                self.primitive::<TimestampSecondType>(data_type, ms.map(|ms| ms.div_euclid(1000)))
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.primitive::<TimestampMillisecondType>(data_type, ms)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => self
                .primitive::<TimestampMicrosecondType>(
                    data_type,
                    ms.map(|ms| ms.saturating_mul(1000)),
                ),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => self
                .primitive::<TimestampNanosecondType>(
                    data_type,
                    ms.map(|ms| ms.saturating_mul(1_000_000)),
                ),
            other => Err(unexpected(other)),
        }
    }
}

fn unexpected(data_type: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("datagen makes no values of type {data_type}"))
}

/// A double in `[0, 1)`.
fn unit(draws: &mut SplittableRandom) -> f64 {
    draws.next_53_bits() as f64 / (1u64 << 53) as f64
}

/// A number in `min..=max`.
fn between(draws: &mut SplittableRandom, min: i128, max: i128) -> i128 {
    let span = max.wrapping_sub(min) as u128;
    let offset = match u64::try_from(span) {
        // The product's upper half: a multiplication where a remainder would be a division.
        Ok(u64::MAX) => draws.next_u64().into(),
        Ok(span) => (u128::from(draws.next_u64()) * (u128::from(span) + 1)) >> 64,
        Err(_) => {
            let drawn = u128::from(draws.next_u64()) << 64 | u128::from(draws.next_u64());
            drawn % span.saturating_add(1)
        }
    };
    min.wrapping_add(offset as i128)
}

fn drawn_length(draws: &mut SplittableRandom, vary: bool, length: usize) -> usize {
    if vary {
        between(draws, 1, length as i128) as usize
    } else {
        length
    }
}

fn push_hex(draws: &mut SplittableRandom, vary: bool, length: usize, to: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let length = drawn_length(draws, vary, length);
    to.clear();
    while to.len() < length {
        let mut bits = draws.next_u64();
        for _ in 0..(length - to.len()).min(16) {
            to.push(char::from(DIGITS[(bits & 15) as usize]));
            bits >>= 4;
        }
    }
}

fn push_bytes(draws: &mut SplittableRandom, vary: bool, length: usize, to: &mut Vec<u8>) {
    let length = drawn_length(draws, vary, length);
    to.clear();
    while to.len() < length {
        let bytes = draws.next_u64().to_le_bytes();
        to.extend_from_slice(&bytes[..(length - to.len()).min(8)]);
    }
}
