//! Parts of times, and times cut to a unit.

use arrow::datatypes::{
    DataType, Date32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMillisecondType,
};
use chrono::{Datelike, Months, NaiveDateTime};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use super::{DAY, Types, below_millis, calendar, is_zoned, known_unit, local_millis, singular};
use crate::functions::{call::Call, cast::local_to_utc};

/// Units of EXTRACT, FLOOR, CEIL, TIMESTAMPADD and TIMESTAMPDIFF.
const EXTRACT_UNITS: &[&str] = &[
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DOY",
    "DOW",
    "ISODOW",
    "ISOYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "EPOCH",
];

pub(super) fn extract_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, EXTRACT_UNITS)?;
    Ok((types.to_vec(), DataType::Int64))
}

pub(super) fn extract(call: &Call, argument: usize, unit: &str) -> Result<ColumnarValue> {
    // Sub-day parts need no calendar.
    let within_day: Option<(i64, i64)> = match singular(unit) {
        "HOUR" => Some((3_600_000, 24)),
        "MINUTE" => Some((60_000, 60)),
        "SECOND" => Some((1_000, 60)),
        "MILLISECOND" => Some((1, 60_000)),
        _ => None,
    };
    if singular(unit) == "EPOCH" {
        let millis = call.millis(argument)?;
        return call.make::<Int64Type>(|row| Ok(millis.get(row).map(|ms| ms.div_euclid(1_000))));
    }
    let local = local_millis(call, argument)?;
    if let Some((length, count)) = within_day {
        return call.make::<Int64Type>(|row| {
            Ok(local(row).map(|ms| ms.div_euclid(length).rem_euclid(count)))
        });
    }
    if singular(unit) == "MICROSECOND" {
        let below = below_millis(call, argument)?;
        return call.make::<Int64Type>(|row| {
            Ok(local(row).map(|ms| ms.rem_euclid(60_000) * 1_000 + i64::from(below(row) / 1_000)))
        });
    }
    let part: fn(NaiveDateTime) -> i64 = match singular(unit) {
        "MILLENNIUM" => |t| i64::from((t.year() + 999).div_euclid(1_000)),
        "CENTURY" => |t| i64::from((t.year() + 99).div_euclid(100)),
        "DECADE" => |t| i64::from(t.year().div_euclid(10)),
        "YEAR" => |t| i64::from(t.year()),
        "ISOYEAR" => |t| i64::from(t.iso_week().year()),
        "QUARTER" => |t| i64::from(t.month0() / 3 + 1),
        "MONTH" => |t| i64::from(t.month()),
        "WEEK" => |t| i64::from(t.iso_week().week()),
        "DOY" => |t| i64::from(t.ordinal()),
        // Sunday is 1.
        "DOW" => |t| i64::from(t.weekday().num_days_from_sunday() + 1),
        "ISODOW" => |t| i64::from(t.weekday().num_days_from_monday() + 1),
        _ => |t| i64::from(t.day()),
    };
    call.make::<Int64Type>(|row| Ok(local(row).and_then(calendar).map(part)))
}

const ROUND_UNITS: &[&str] = &[
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
];

pub(super) fn round_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, ROUND_UNITS)?;
    // Rounded times have no digits below the millisecond.
    let result = match &types[1] {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        other => other.clone(),
    };
    Ok((types.to_vec(), result))
}

/// The start of the unit that a local time is in.
fn floor_local(millis: i64, unit: &str) -> Option<i64> {
    let length = match unit {
        "MILLISECOND" => 1,
        "SECOND" => 1_000,
        "MINUTE" => 60_000,
        "HOUR" => 3_600_000,
        "DAY" => DAY,
        _ => 0,
    };
    if length > 0 {
        return Some(millis.div_euclid(length) * length);
    }
    let time = calendar(millis)?;
    let date = match unit {
        // Weeks start on Sunday.
        "WEEK" => {
            let back = chrono::Days::new(u64::from(time.weekday().num_days_from_sunday()));
            time.date().checked_sub_days(back)?
        }
        "MONTH" => time.date().with_day(1)?,
        "QUARTER" => time
            .date()
            .with_day(1)?
            .with_month0(time.month0() / 3 * 3)?,
        _ => time.date().with_ordinal(1)?,
    };
    Some(
        date.and_time(chrono::NaiveTime::MIN)
            .and_utc()
            .timestamp_millis(),
    )
}

/// The start of the next unit.
fn next_local(floor: i64, unit: &str) -> Option<i64> {
    let months = match unit {
        "MONTH" => 1,
        "QUARTER" => 3,
        "YEAR" => 12,
        _ => {
            let length = match unit {
                "MILLISECOND" => 1,
                "SECOND" => 1_000,
                "MINUTE" => 60_000,
                "HOUR" => 3_600_000,
                "DAY" => DAY,
                _ => 7 * DAY,
            };
            return floor.checked_add(length);
        }
    };
    let next = calendar(floor)?.checked_add_months(Months::new(months))?;
    Some(next.and_utc().timestamp_millis())
}

pub(super) fn round(call: &Call, up: bool) -> Result<ColumnarValue> {
    let unit = call.strings(0)?.get(0).unwrap_or("DAY").to_string();
    let unit = singular(&unit);
    let local = local_millis(call, 1)?;
    let below = below_millis(call, 1)?;
    let zone = is_zoned(&call.data_type(1)).then_some(call.context.zone);
    let rounded = |row: usize| {
        let millis = local(row)?;
        let floor = floor_local(millis, unit)?;
        let exact = floor == millis && below(row) == 0;
        let rounded = if up && !exact {
            next_local(floor, unit)?
        } else {
            floor
        };
        Some(match zone {
            Some(zone) => local_to_utc(rounded, zone),
            None => rounded,
        })
    };
    match call.result {
        DataType::Date32 => call
            .make::<Date32Type>(|row| Ok(rounded(row).map(|millis| millis.div_euclid(DAY) as i32))),
        DataType::Time32(_) => call.make::<Time32MillisecondType>(|row| {
            Ok(rounded(row).map(|millis| millis.rem_euclid(DAY) as i32))
        }),
        _ => call.make::<TimestampMillisecondType>(|row| Ok(rounded(row))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::cast::parse_timestamp_nanos;

    #[test]
    fn times_are_cut_to_units() {
        let at = |text: &str| (parse_timestamp_nanos(text).unwrap() / 1_000_000) as i64;
        let floor = |text, unit| floor_local(at(text), unit);
        assert_eq!(
            floor("2020-05-20 10:11:12", "QUARTER"),
            Some(at("2020-04-01"))
        );
        // 2020-05-20 is a Wednesday; weeks start on Sunday.
        assert_eq!(floor("2020-05-20 10:11:12", "WEEK"), Some(at("2020-05-17")));
        assert_eq!(
            next_local(at("2020-12-01"), "MONTH"),
            Some(at("2021-01-01"))
        );
    }
}
