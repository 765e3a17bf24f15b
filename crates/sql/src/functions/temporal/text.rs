//! Times from and to text, and from numbers.

use std::sync::Arc;

use arrow::{
    array::StringBuilder,
    datatypes::{DataType, Date32Type, Int64Type, TimestampMillisecondType},
};
use chrono_tz::Tz;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use super::{DAY, Types, below_millis, local_millis};
use crate::{
    flink_type::timestamp_ms,
    functions::{
        arguments::Strings,
        call::Call,
        cast::{local_to_utc, parse_date, parse_timestamp_nanos, utc_to_local},
        format::Pattern,
        structure::epoch_days,
    },
    settings::parse_zone,
};

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";
/// Checks a constant pattern.
pub(super) fn pattern_types(
    types: &[DataType],
    literals: &[Option<ScalarValue>],
    at: usize,
    result: DataType,
) -> Types {
    if let Some(Some(ScalarValue::Utf8(Some(text)))) = literals.get(at) {
        Pattern::new(text)?;
    }
    Ok((types.to_vec(), result))
}

/// Compiled patterns of an argument, or the default pattern.
struct Patterns<'a> {
    texts: Option<Strings<'a>>,
    last: Option<(String, Option<Pattern>)>,
}

impl<'a> Patterns<'a> {
    fn of(call: &Call<'a>, i: usize) -> Result<Self> {
        let texts = if i < call.len() {
            Some(call.strings(i)?)
        } else {
            None
        };
        Ok(Patterns { texts, last: None })
    }

    fn is_constant(&self) -> bool {
        !matches!(self.texts, Some(Strings::Array(_)))
    }

    fn get(&mut self, row: usize) -> Option<&Pattern> {
        let text = match &self.texts {
            Some(texts) => texts.get(row)?,
            None => DEFAULT_PATTERN,
        };
        if self.last.as_ref().is_none_or(|(known, _)| known != text) {
            self.last = Some((text.to_string(), Pattern::new(text).ok()));
        }
        self.last.as_ref().and_then(|(_, pattern)| pattern.as_ref())
    }
}

pub(super) fn date_format_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    match &types[0] {
        DataType::Utf8 | DataType::Date32 | DataType::Timestamp(_, _) => {}
        DataType::Null => {
            return pattern_types(
                &[DataType::Utf8, DataType::Utf8],
                literals,
                1,
                DataType::Utf8,
            );
        }
        _ => return Err("the first argument must be a TIMESTAMP, DATE or STRING".into()),
    }
    pattern_types(types, literals, 1, DataType::Utf8)
}

pub(super) fn date_format(call: &Call) -> Result<ColumnarValue> {
    let mut patterns = Patterns::of(call, 1)?;
    if call.data_type(0) == DataType::Utf8 {
        let text = call.strings(0)?;
        return call.make_strings(|row, out| {
            let nanos = text.get(row).and_then(parse_timestamp_nanos);
            let (Some(nanos), Some(pattern)) = (nanos, patterns.get(row)) else {
                return Ok(None);
            };
            let millis = nanos.div_euclid(1_000_000) as i64;
            Ok(pattern
                .format(millis, nanos.rem_euclid(1_000_000) as u32, out)
                .then_some(()))
        });
    }
    let below = below_millis(call, 0)?;
    let local = local_millis(call, 0)?;
    let rows = call.row_count();
    let mut builder = StringBuilder::with_capacity(rows, rows * 12);
    // Times that follow each other are mostly written alike.
    let mut text = String::new();
    let mut written: Option<i64> = None;
    for row in 0..rows {
        let (Some(millis), Some(pattern)) = (local(row), patterns.get(row)) else {
            builder.append_null();
            continue;
        };
        let resolution = pattern.resolution_millis();
        let bucket = millis.div_euclid(resolution);
        if written != Some(bucket) || resolution == 1 || !patterns.is_constant() {
            text.clear();
            let Some(pattern) = patterns.get(row) else {
                builder.append_null();
                continue;
            };
            if !pattern.format(millis, below(row), &mut text) {
                written = None;
                builder.append_null();
                continue;
            }
            written = Some(bucket);
        }
        builder.append_value(&text);
    }
    call.finish(Arc::new(builder.finish()))
}

fn parse_with(pattern: Option<&Pattern>, is_default: bool, text: &str) -> Option<i64> {
    match pattern {
        // Without a pattern the spelling is as free as in CAST.
        _ if is_default => {
            parse_timestamp_nanos(text).map(|nanos| nanos.div_euclid(1_000_000) as i64)
        }
        Some(pattern) => pattern.parse(text),
        None => None,
    }
}

pub(super) fn to_timestamp(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let default = call.len() == 1;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<TimestampMillisecondType>(|row| {
        Ok(text
            .get(row)
            .and_then(|text| parse_with(patterns.get(row), default, text)))
    })
}

pub(super) fn to_timestamp_ltz_types(
    types: &[DataType],
    literals: &[Option<ScalarValue>],
) -> Types {
    let result = timestamp_ms(true);
    let first = &types[0];
    if first.is_numeric() {
        if types.len() > 2 {
            return Err("a number takes a precision only".into());
        }
        if let Some(precision) = types.get(1) {
            if !precision.is_signed_integer() {
                return Err("the precision of a number must be 0 or 3".into());
            }
            match &literals[1] {
                Some(ScalarValue::Int32(Some(0 | 3))) => {}
                _ => {
                    return Err(
                        "the precision must be the literal 0 (seconds) or 3 (milliseconds)".into(),
                    );
                }
            }
        }
        let number = if first.is_signed_integer() {
            DataType::Int64
        } else {
            DataType::Float64
        };
        let mut coerced = vec![number];
        coerced.extend(types.get(1).map(|_| DataType::Int64));
        return Ok((coerced, result));
    }
    if !matches!(first, DataType::Utf8 | DataType::Null) {
        return Err("the first argument must be a number or a STRING".into());
    }
    pattern_types(&vec![DataType::Utf8; types.len()], literals, 1, result)
}

pub(super) fn to_timestamp_ltz(call: &Call) -> Result<ColumnarValue> {
    match call.data_type(0) {
        DataType::Int64 => {
            let number = call.longs(0)?;
            let seconds = call.len() == 2 && call.longs(1)?.get(0) == Some(0);
            call.make::<TimestampMillisecondType>(|row| {
                Ok(number
                    .get(row)
                    .and_then(|number| number.checked_mul(if seconds { 1_000 } else { 1 })))
            })
        }
        DataType::Float64 => {
            let number = call.doubles(0)?;
            let seconds = call.len() == 2 && call.longs(1)?.get(0) == Some(0);
            call.make::<TimestampMillisecondType>(|row| {
                Ok(number
                    .get(row)
                    .map(|number| (number * if seconds { 1_000.0 } else { 1.0 }) as i64))
            })
        }
        _ => {
            let text = call.strings(0)?;
            let default = call.len() == 1;
            let mut patterns = Patterns::of(call, 1)?;
            let zone = if call.len() == 3 {
                Some(call.strings(2)?)
            } else {
                None
            };
            call.make::<TimestampMillisecondType>(|row| {
                let zone = match &zone {
                    None => Some(call.context.zone),
                    Some(zone) => match zone.get(row) {
                        Some(name) => Some(named_zone(name)?),
                        None => None,
                    },
                };
                let (Some(text), Some(zone)) = (text.get(row), zone) else {
                    return Ok(None);
                };
                let local = parse_with(patterns.get(row), default, text);
                Ok(local.map(|local| local_to_utc(local, zone)))
            })
        }
    }
}

fn named_zone(name: &str) -> Result<Tz> {
    match parse_zone(name) {
        Some(zone) => Ok(zone),
        None => exec_err!("unknown time zone '{name}'"),
    }
}

pub(super) fn to_date(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let default = call.len() == 1;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<Date32Type>(|row| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        if default {
            return Ok(parse_date(text).map(epoch_days));
        }
        let millis = patterns.get(row).and_then(|pattern| pattern.parse(text));
        Ok(millis.map(|millis| millis.div_euclid(DAY) as i32))
    })
}

pub(super) fn from_unixtime(call: &Call) -> Result<ColumnarValue> {
    let seconds = call.longs(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make_strings(|row, out| {
        let (Some(seconds), Some(pattern)) = (seconds.get(row), patterns.get(row)) else {
            return Ok(None);
        };
        let Some(millis) = seconds.checked_mul(1_000) else {
            return Ok(None);
        };
        let local = utc_to_local(millis, call.context.zone);
        Ok(pattern.format(local, 0, out).then_some(()))
    })
}

/// Seconds; text that is not a time gives the least BIGINT, as in Flink.
pub(super) fn unix_timestamp(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<Int64Type>(|row| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        let local = patterns.get(row).and_then(|pattern| pattern.parse(text));
        Ok(Some(match local {
            Some(local) => local_to_utc(local, call.context.zone).div_euclid(1_000),
            None => i64::MIN,
        }))
    })
}

pub(super) fn convert_tz(call: &Call) -> Result<ColumnarValue> {
    let (text, from, to) = (call.strings(0)?, call.strings(1)?, call.strings(2)?);
    let pattern = Pattern::new(DEFAULT_PATTERN);
    call.make_strings(|row, out| {
        let (Some(text), Some(from), Some(to), Ok(pattern)) =
            (text.get(row), from.get(row), to.get(row), &pattern)
        else {
            return Ok(None);
        };
        let Some(local) = parse_with(None, true, text) else {
            return Ok(None);
        };
        let instant = local_to_utc(local, named_zone(from)?);
        let local = utc_to_local(instant, named_zone(to)?);
        Ok(pattern.format(local, 0, out).then_some(()))
    })
}
