//! Adding units to times, and counting units between times.

use arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, TimeUnit, TimestampMillisecondType,
};
use chrono::{Datelike, Months, Timelike};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use super::{DAY, Types, calendar, is_zoned, known_unit, singular};
use crate::{
    flink_type::timestamp_ms,
    functions::{
        arguments::Primitives,
        call::Call,
        cast::{local_to_utc, utc_to_local},
    },
};

const ADD_UNITS: &[&str] = &[
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

pub(super) fn timestampadd_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, ADD_UNITS)?;
    let unit = match &literals[0] {
        Some(ScalarValue::Utf8(Some(unit))) => singular(unit).to_string(),
        _ => String::new(),
    };
    let result = match &types[2] {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        DataType::Date32
            if matches!(unit.as_str(), "HOUR" | "MINUTE" | "SECOND" | "MILLISECOND") =>
        {
            timestamp_ms(false)
        }
        DataType::Date32 => DataType::Date32,
        DataType::Utf8 | DataType::Null => timestamp_ms(false),
        _ => return Err("the third argument must be a TIMESTAMP or DATE".into()),
    };
    Ok((
        vec![DataType::Utf8, DataType::Int64, result.clone()],
        result,
    ))
}

/// Months or milliseconds per unit.
fn unit_length(unit: &str) -> (i64, i64) {
    match unit {
        "YEAR" => (12, 0),
        "QUARTER" => (3, 0),
        "MONTH" => (1, 0),
        "WEEK" => (0, 7 * DAY),
        "DAY" => (0, DAY),
        "HOUR" => (0, 3_600_000),
        "MINUTE" => (0, 60_000),
        "SECOND" => (0, 1_000),
        _ => (0, 1),
    }
}

pub(super) fn timestampadd(call: &Call) -> Result<ColumnarValue> {
    let unit = call.strings(0)?.get(0).unwrap_or("").to_string();
    let (months, length) = unit_length(singular(&unit));
    let (count, millis) = (call.longs(1)?, call.millis(2)?);
    let zone = is_zoned(&call.data_type(2)).then_some(call.context.zone);
    let added = |row: usize| -> Result<Option<i64>> {
        let (Some(count), Some(millis)) = (count.get(row), millis.get(row)) else {
            return Ok(None);
        };
        let sum = if months == 0 {
            count
                .checked_mul(length)
                .and_then(|delta| millis.checked_add(delta))
        } else {
            let local = zone.map_or(millis, |zone| utc_to_local(millis, zone));
            count
                .checked_mul(months)
                .and_then(|months| add_months(local, months))
                .map(|local| zone.map_or(local, |zone| local_to_utc(local, zone)))
        };
        match sum {
            Some(sum) => Ok(Some(sum)),
            None => exec_err!("TIMESTAMPADD of {count} {unit} is beyond the calendar"),
        }
    };
    if call.result == &DataType::Date32 {
        return call
            .make::<Date32Type>(|row| Ok(added(row)?.map(|millis| millis.div_euclid(DAY) as i32)));
    }
    call.make::<TimestampMillisecondType>(added)
}

fn add_months(millis: i64, months: i64) -> Option<i64> {
    let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    let time = calendar(millis)?;
    let moved = if months >= 0 {
        time.checked_add_months(count)
    } else {
        time.checked_sub_months(count)
    };
    moved.map(|time| time.and_utc().timestamp_millis())
}

pub(super) fn timestampdiff_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, ADD_UNITS)?;
    if is_zoned(&types[1]) != is_zoned(&types[2]) {
        return Err("both times must be TIMESTAMP or both TIMESTAMP_LTZ; CAST one of them".into());
    }
    Ok((types.to_vec(), DataType::Int32))
}

/// Whole units from the first time to the second.
pub(super) fn timestampdiff(call: &Call) -> Result<ColumnarValue> {
    let unit = call.strings(0)?.get(0).unwrap_or("").to_string();
    let (months, length) = unit_length(singular(&unit));
    let (from, to): (Primitives<Int64Type>, Primitives<Int64Type>) =
        (call.millis(1)?, call.millis(2)?);
    call.make::<Int32Type>(|row| {
        let (Some(from), Some(to)) = (from.get(row), to.get(row)) else {
            return Ok(None);
        };
        if months == 0 {
            // Wraps like the 32-bit number it is in Flink.
            return Ok(Some((to.wrapping_sub(from) / length) as i32));
        }
        Ok(months_between(from, to).map(|between| (between / months) as i32))
    })
}

/// Whole months from one time to another, toward zero.
fn months_between(from: i64, to: i64) -> Option<i64> {
    if to < from {
        return months_between(to, from).map(|months| -months);
    }
    let (a, b) = (calendar(from)?, calendar(to)?);
    let months = i64::from(b.year() - a.year()) * 12 + i64::from(b.month()) - i64::from(a.month());
    let incomplete = (b.day(), b.num_seconds_from_midnight(), b.nanosecond())
        < (a.day(), a.num_seconds_from_midnight(), a.nanosecond());
    Some(months - i64::from(incomplete))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::cast::parse_timestamp_nanos;

    #[test]
    fn months_count_whole_ones() {
        let at = |text: &str| (parse_timestamp_nanos(text).unwrap() / 1_000_000) as i64;
        for (from, to, expected) in [
            ("2020-01-31", "2020-02-29", 0),
            ("2020-01-29", "2020-02-29", 1),
            ("2020-01-15 12:00:00", "2020-03-15 11:59:59", 1),
            ("2021-01-01", "2020-01-01", -12),
        ] {
            assert_eq!(
                months_between(at(from), at(to)),
                Some(expected),
                "{from} {to}"
            );
        }
        assert_eq!(add_months(at("2020-01-31"), 1), Some(at("2020-02-29")));
    }
}
