//! Casts among DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ, their texts, and local time.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, Time32MillisecondArray},
    datatypes::{DataType, Date32Type, Int64Type, TimeUnit},
};
use chrono::{DateTime, Datelike, MappedLocalTime, NaiveDateTime, Offset, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use datafusion_common::{Result, internal_err};

const DAY_MILLIS: i64 = 86_400_000;

/// The local time in a zone of an instant, both in milliseconds.
pub(crate) fn utc_to_local(instant: i64, zone: Tz) -> i64 {
    if zone == Tz::UTC {
        return instant;
    }
    match DateTime::<Utc>::from_timestamp_millis(instant) {
        Some(time) => {
            let offset = zone.offset_from_utc_datetime(&time.naive_utc()).fix();
            instant + i64::from(offset.local_minus_utc()) * 1_000
        }
        // Beyond the calendar every zone is UTC.
        None => instant,
    }
}

/// The instant of a local time in a zone. A time that a clock change skips is read with the
/// offset before the change; of a time that occurs twice the first is meant.
pub(crate) fn local_to_utc(local: i64, zone: Tz) -> i64 {
    if zone == Tz::UTC {
        return local;
    }
    let Some(naive) = DateTime::<Utc>::from_timestamp_millis(local).map(|time| time.naive_utc())
    else {
        return local;
    };
    let offset = match zone.offset_from_local_datetime(&naive) {
        MappedLocalTime::Single(offset) => offset.fix(),
        MappedLocalTime::Ambiguous(first, _) => first.fix(),
        MappedLocalTime::None => {
            let before = naive - chrono::TimeDelta::hours(3);
            match zone.offset_from_local_datetime(&before) {
                MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
                    offset.fix()
                }
                MappedLocalTime::None => return local,
            }
        }
    };
    local - i64::from(offset.local_minus_utc()) * 1_000
}

fn units_per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Casts among the time types. A pair the binder allows always succeeds.
pub(super) fn convert(array: &ArrayRef, to: &DataType, zone: Tz) -> Result<ArrayRef> {
    // Through local time in the finest unit that either side has.
    let (from_zoned, from_per_second) = match array.data_type() {
        DataType::Timestamp(unit, zone) => (zone.is_some(), units_per_second(unit)),
        _ => (false, 1_000),
    };
    let values: Int64Array = match array.data_type() {
        DataType::Date32 => array
            .as_primitive::<Date32Type>()
            .unary(|days| i64::from(days) * DAY_MILLIS),
        DataType::Timestamp(_, _) => arrow::compute::cast(array, &DataType::Int64)?
            .as_primitive::<Int64Type>()
            .clone(),
        other => return internal_err!("no cast from {other} to {to}"),
    };
    let shift = |value: i64, per_second: i64, convert: fn(i64, Tz) -> i64| {
        if zone == Tz::UTC {
            return value;
        }
        let per_milli = per_second / 1_000;
        convert(value.div_euclid(per_milli), zone)
            .saturating_mul(per_milli)
            .saturating_add(value.rem_euclid(per_milli))
    };
    let local = |value: i64| {
        if from_zoned {
            shift(value, from_per_second, utc_to_local)
        } else {
            value
        }
    };
    Ok(match to {
        DataType::Date32 => {
            let per_day = from_per_second * 86_400;
            let dates: Date32Array = values.unary(|value| local(value).div_euclid(per_day) as i32);
            Arc::new(dates)
        }
        DataType::Time32(_) => {
            let per_day = from_per_second * 86_400;
            let per_milli = from_per_second / 1_000;
            let times: Time32MillisecondArray =
                values.unary(|value| (local(value).rem_euclid(per_day) / per_milli) as i32);
            Arc::new(times)
        }
        DataType::Timestamp(unit, to_zone) => {
            let to_per_second = units_per_second(unit);
            let rescale = |value: i64| {
                if to_per_second >= from_per_second {
                    value.saturating_mul(to_per_second / from_per_second)
                } else {
                    value.div_euclid(from_per_second / to_per_second)
                }
            };
            let converted: Int64Array =
                values.unary(|value| match (from_zoned, to_zone.is_some()) {
                    (true, false) => rescale(local(value)),
                    (false, true) => rescale(shift(value, from_per_second, local_to_utc)),
                    _ => rescale(value),
                });
            arrow::compute::cast(&converted, to)?
        }
        other => return internal_err!("no cast from {} to {other}", array.data_type()),
    })
}

/// `yyyy-MM-dd`.
pub(crate) fn format_date(days: i32) -> String {
    match DateTime::<Utc>::from_timestamp(i64::from(days) * 86_400, 0) {
        Some(time) => date_text(time.naive_utc()),
        None => format!("{days} days since 1970-01-01"),
    }
}

fn date_text(time: NaiveDateTime) -> String {
    format!("{:04}-{:02}-{:02}", time.year(), time.month(), time.day())
}

/// `HH:mm:ss[.fff]`, without trailing zeros.
pub(crate) fn format_time(millis: i32) -> String {
    let seconds = millis / 1_000;
    let mut text = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    let rest = millis % 1_000;
    if rest != 0 {
        let fraction = format!("{rest:03}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    text
}

/// Writes `yyyy-MM-dd HH:mm:ss.fff` with as many digits as the unit has.
pub(super) fn write_timestamp(value: i64, per_second: i64, zone: Option<Tz>, out: &mut String) {
    let seconds = value.div_euclid(per_second);
    let local = match zone {
        Some(zone) => utc_to_local(seconds.saturating_mul(1_000), zone) / 1_000,
        None => seconds,
    };
    let written = match DateTime::<Utc>::from_timestamp(local, 0) {
        Some(time) => {
            let time = time.naive_utc();
            write!(
                out,
                "{} {:02}:{:02}:{:02}.{:0width$}",
                date_text(time),
                time.hour(),
                time.minute(),
                time.second(),
                value.rem_euclid(per_second),
                width = per_second.ilog10() as usize
            )
        }
        None => write!(out, "{seconds} seconds since 1970-01-01"),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// `yyyy-MM-dd HH:mm:ss.SSS` of a local time in milliseconds.
pub(crate) fn format_timestamp_ms(millis: i64) -> String {
    let mut text = String::new();
    write_timestamp(millis, 1_000, None, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_and_back() {
        let zone: Tz = "Europe/Berlin".parse().unwrap();
        // 2024-03-31 00:59:59 UTC is the last second of winter time: 01:59:59 local.
        let before = 1_711_846_799_000;
        assert_eq!(utc_to_local(before, zone), before + 3_600_000);
        assert_eq!(
            utc_to_local(before + 1_000, zone),
            before + 1_000 + 7_200_000
        );
        assert_eq!(local_to_utc(before + 3_600_000, zone), before);
        // 02:30 does not exist that day; read with winter's offset it is 01:30 UTC.
        let skipped = before + 1_000 + 3_600_000 + 1_800_000;
        assert_eq!(local_to_utc(skipped, zone), before + 1_000 + 1_800_000);
    }

    #[test]
    fn texts_of_times() {
        assert_eq!(format_timestamp_ms(-1), "1969-12-31 23:59:59.999");
        assert_eq!(format_date(18_321), "2020-02-29");
        assert_eq!(format_time(3_723_500), "01:02:03.5");
        assert_eq!(format_time(0), "00:00:00");
    }
}
