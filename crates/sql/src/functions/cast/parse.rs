//! Casts from STRING.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, PrimitiveArray, StringArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    },
};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use datafusion_common::{Result, internal_err};

use super::{Rules, time::local_to_utc};
use crate::{
    flink_type::type_name,
    functions::{arguments::bad_value_or, arithmetic::fits, structure::epoch_days},
};

/// Casts a STRING array.
pub(super) fn from_text(array: &ArrayRef, to: &DataType, rules: &Rules) -> Result<ArrayRef> {
    let text = array.as_string::<i32>();
    Ok(match to {
        DataType::Boolean => {
            let values = parse_all(text, to, rules, |s| parse_boolean(s.trim()))?;
            Arc::new(values.into_iter().collect::<BooleanArray>())
        }
        DataType::Int8 => primitive::<Int8Type>(text, to, rules, |s| {
            parse_integer(s).and_then(|v| v.try_into().ok())
        })?,
        DataType::Int16 => primitive::<Int16Type>(text, to, rules, |s| {
            parse_integer(s).and_then(|v| v.try_into().ok())
        })?,
        DataType::Int32 => primitive::<Int32Type>(text, to, rules, |s| {
            parse_integer(s).and_then(|v| v.try_into().ok())
        })?,
        DataType::Int64 => primitive::<Int64Type>(text, to, rules, parse_integer)?,
        DataType::Float32 => {
            primitive::<Float32Type>(text, to, rules, |s| parse_float(s).map(|v| v as f32))?
        }
        DataType::Float64 => primitive::<Float64Type>(text, to, rules, parse_float)?,
        DataType::Decimal128(precision, scale) => {
            primitive::<Decimal128Type>(text, to, rules, |s| parse_decimal(s, *precision, *scale))?
        }
        DataType::Date32 => {
            primitive::<Date32Type>(text, to, rules, |s| parse_date(s).map(epoch_days))?
        }
        DataType::Time32(_) => {
            primitive::<Time32MillisecondType>(text, to, rules, parse_time_millis)?
        }
        DataType::Timestamp(unit, zone) => {
            let parse = |s: &str| {
                let nanos = parse_timestamp_nanos(s)?;
                if zone.is_none() {
                    return Some(nanos);
                }
                let millis = nanos.div_euclid(1_000_000);
                let instant = local_to_utc(i64::try_from(millis).ok()?, rules.zone);
                Some(i128::from(instant) * 1_000_000 + nanos.rem_euclid(1_000_000))
            };
            let scaled =
                |s: &str, per: i128| parse(s).and_then(|n| i64::try_from(n.div_euclid(per)).ok());
            match unit {
                TimeUnit::Millisecond => {
                    primitive::<TimestampMillisecondType>(text, to, rules, |s| {
                        scaled(s, 1_000_000)
                    })?
                }
                TimeUnit::Microsecond => {
                    primitive::<TimestampMicrosecondType>(text, to, rules, |s| scaled(s, 1_000))?
                }
                TimeUnit::Nanosecond => {
                    primitive::<TimestampNanosecondType>(text, to, rules, |s| scaled(s, 1))?
                }
                TimeUnit::Second => return internal_err!("timestamps in seconds"),
            }
        }
        DataType::Binary => Arc::new(
            text.iter()
                .map(|value| value.map(str::as_bytes))
                .collect::<BinaryArray>(),
        ),
        other => return internal_err!("no cast from STRING to {other}"),
    })
}

fn primitive<T: ArrowPrimitiveType>(
    text: &StringArray,
    to: &DataType,
    rules: &Rules,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let values = parse_all(text, to, rules, parse)?;
    let array: PrimitiveArray<T> = values.into_iter().collect();
    Ok(Arc::new(array.with_data_type(to.clone())))
}

fn parse_all<V>(
    text: &StringArray,
    to: &DataType,
    rules: &Rules,
    parse: impl Fn(&str) -> Option<V>,
) -> Result<Vec<Option<V>>> {
    let mut values = Vec::with_capacity(text.len());
    for value in text {
        values.push(match value {
            None => None,
            Some(value) => match parse(value) {
                None if !rules.lenient => {
                    return bad_value_or(
                        &format!("cannot cast to {}", type_name(to)),
                        value,
                        "TRY_CAST gives NULL for such values",
                    );
                }
                parsed => parsed,
            },
        });
    }
    Ok(values)
}

fn parse_boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// An integer; a fraction of digits after it is cut off.
fn parse_integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (integer, fraction) = match text.split_once('.') {
        Some((integer, fraction)) => (integer, fraction),
        None => (text, ""),
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match integer {
        "" | "-" | "+" if !fraction.is_empty() => Some(0),
        integer => integer.parse().ok(),
    }
}

fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let text = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    // Rust reads more spellings of infinity than Java does.
    match text.trim_start_matches(['+', '-']) {
        "Infinity" | "NaN" => {}
        digits if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {}
        _ => return None,
    }
    text.parse().ok()
}

/// The unscaled value of a decimal number, rounded half up; nothing if it is none or has no room.
pub(super) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (integer.is_empty() && fraction.is_empty()) || !all_digits(integer) || !all_digits(fraction)
    {
        return None;
    }
    // The digits before the decimal point once the exponent is applied, then those of the scale.
    let point = (integer.len() as i32).checked_add(exponent)?;
    let keep = point.checked_add(i32::from(scale))?;
    let all = integer.bytes().chain(fraction.bytes());
    let total = (integer.len() + fraction.len()) as i32;
    let mut value: i128 = 0;
    let mut round_up = false;
    for (i, digit) in all.enumerate() {
        let digit = i128::from(digit - b'0');
        match (i as i32).cmp(&keep) {
            std::cmp::Ordering::Less => {
                value = value.checked_mul(10)?.checked_add(digit)?;
            }
            std::cmp::Ordering::Equal => round_up = digit >= 5,
            std::cmp::Ordering::Greater => break,
        }
    }
    if value != 0 {
        for _ in 0..(keep - total).max(0) {
            value = value.checked_mul(10)?;
        }
    }
    value += i128::from(round_up);
    fits(value, precision).then_some(if negative { -value } else { value })
}

/// `yyyy-MM-dd`; months and days may have one digit; a time after it is ignored.
pub(in crate::functions) fn parse_date(text: &str) -> Option<NaiveDate> {
    let text = text.trim();
    let date = text.split([' ', 'T']).next()?;
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 1, 4)? as i32;
    let month = match parts.next() {
        Some(month) => digits(month, 1, 2)?,
        None => 1,
    };
    let day = match parts.next() {
        Some(day) => digits(day, 1, 2)?,
        None => 1,
    };
    if parts.next().is_some() {
        return None;
    }
    NaiveDate::from_ymd_opt(year, month, day)
}

fn digits(text: &str, least: usize, most: usize) -> Option<u32> {
    if !(least..=most).contains(&text.len()) || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `HH:mm[:ss[.fffffffff]]` as time and nanoseconds.
fn parse_time(text: &str) -> Option<NaiveTime> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 1, 2)?;
    let minute = match parts.next() {
        Some(minute) => digits(minute, 1, 2)?,
        None => 0,
    };
    let second = match parts.next() {
        Some(second) => digits(second, 1, 2)?,
        None => 0,
    };
    if parts.next().is_some() || fraction.len() > 9 {
        return None;
    }
    let nanos = if fraction.is_empty() {
        0
    } else {
        digits(fraction, 1, 9)? * 10u32.pow(9 - fraction.len() as u32)
    };
    NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)
}

fn parse_time_millis(text: &str) -> Option<i32> {
    let time = parse_time(text.trim())?;
    let since = time.signed_duration_since(NaiveTime::MIN);
    i32::try_from(since.num_milliseconds()).ok()
}

/// `yyyy-MM-dd[ HH:mm[:ss[.fffffffff]]]`, with a `T` allowed, as nanoseconds of local time.
pub(in crate::functions) fn parse_timestamp_nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, _) = text.split_once([' ', 'T']).unwrap_or((text, ""));
    if day.matches('-').count() != 2 {
        return None;
    }
    let date = parse_date(day)?;
    let time = match text.find([' ', 'T']) {
        Some(at) => parse_time(text[at + 1..].trim())?,
        None => NaiveTime::MIN,
    };
    let local = NaiveDateTime::new(date, time).and_utc();
    Some(i128::from(local.timestamp()) * 1_000_000_000 + i128::from(local.timestamp_subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_rounded() {
        for (text, precision, scale, expected) in [
            ("1.005", 5, 2, Some(101)),
            ("-1.005", 5, 2, Some(-101)),
            ("1e3", 10, 2, Some(100_000)),
            ("12.3456e-2", 10, 4, Some(1_235)),
            ("999.99", 5, 2, Some(99_999)),
            ("999.995", 5, 2, None),
            ("0.4", 3, 0, Some(0)),
            ("0.5", 3, 0, Some(1)),
            (".5", 3, 1, Some(5)),
            ("1e-40", 38, 10, Some(0)),
            ("0e999999", 5, 0, Some(0)),
            ("1e999999", 5, 0, None),
            ("", 5, 0, None),
            ("-", 5, 0, None),
            ("1.2.3", 5, 0, None),
        ] {
            assert_eq!(parse_decimal(text, precision, scale), expected, "{text}");
        }
    }

    #[test]
    fn integers_drop_fractions() {
        for (text, expected) in [
            (" 12 ", Some(12)),
            ("12.9", Some(12)),
            ("-0.9", Some(0)),
            (".5", Some(0)),
            ("-12.9", Some(-12)),
            ("1e3", None),
            ("", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
        ] {
            assert_eq!(parse_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn timestamps_in_their_spellings() {
        let nanos = |text| parse_timestamp_nanos(text);
        // 2020-02-29 is day 18321 of the epoch.
        let day = 18_321i128 * 86_400_000_000_000;
        assert_eq!(nanos("2020-02-29"), Some(day));
        assert_eq!(nanos("2020-2-29 01:02:03"), Some(day + 3_723_000_000_000));
        assert_eq!(
            nanos("2020-02-29T01:02:03.5Z"),
            Some(day + 3_723_500_000_000)
        );
        assert_eq!(nanos("2021-02-29"), None);
        assert_eq!(nanos("2020-02-29 25:00:00"), None);
        assert_eq!(nanos("yesterday"), None);
        // A year alone is a date, but no timestamp.
        assert_eq!(nanos("2020"), None);
        assert!(parse_date("2020").is_some());
    }
}
