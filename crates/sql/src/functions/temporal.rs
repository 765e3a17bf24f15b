//! Dates and times: formatting, parsing, parts, rounding, distance, the clock.
//!
//! TIMESTAMP_LTZ values are taken as local times of the session's zone.

mod clock;
mod distance;
mod parts;
mod text;

use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{DateTime, NaiveDateTime, Utc};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    cast::utc_to_local,
    registry::{
        Definition,
        Kind::{Any, Integer, String as Str, Temporal},
        Nulls, Returns,
    },
};
use crate::flink_type::timestamp_ms;
use clock::{now_instant, now_local, time_of_day, today};
use distance::{timestampadd, timestampadd_types, timestampdiff, timestampdiff_types};
use parts::{extract, extract_types, round, round_types};
use text::{
    convert_tz, date_format, date_format_types, from_unixtime, pattern_types, to_date,
    to_timestamp, to_timestamp_ltz, to_timestamp_ltz_types, unix_timestamp,
};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "DATE_FORMAT",
        &[Any, Str],
        Returns::Computed(date_format_types),
        date_format,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "TO_TIMESTAMP",
        &[Str, Str],
        Returns::Computed(|types, literals| pattern_types(types, literals, 1, timestamp_ms(false))),
        to_timestamp,
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "TO_TIMESTAMP_LTZ",
        &[Any, Any, Str],
        Returns::Computed(to_timestamp_ltz_types),
        to_timestamp_ltz,
    )
    .optional(2)
    .nulls(Nulls::Possible),
    Definition::new(
        "TO_DATE",
        &[Str, Str],
        Returns::Computed(|types, literals| pattern_types(types, literals, 1, DataType::Date32)),
        to_date,
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "FROM_UNIXTIME",
        &[Integer, Str],
        Returns::Computed(|types, literals| pattern_types(types, literals, 1, DataType::Utf8)),
        from_unixtime,
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "UNIX_TIMESTAMP",
        &[Str, Str],
        Returns::Computed(|types, literals| pattern_types(types, literals, 1, DataType::Int64)),
        unix_timestamp,
    )
    .optional(1),
    Definition::new("$UNIX_NOW", &[], Returns::BigInt, |call| {
        let seconds = call.context.clock.now_ms().div_euclid(1_000);
        Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(seconds))))
    })
    .volatile(),
    Definition::new("CONVERT_TZ", &[Str, Str, Str], Returns::String, convert_tz)
        .nulls(Nulls::Possible),
    Definition::new(
        "EXTRACT",
        &[Str, Temporal],
        Returns::Computed(extract_types),
        |call| {
            let unit = call.strings(0)?.get(0).unwrap_or("").to_string();
            extract(call, 1, &unit)
        },
    )
    .nulls(Nulls::Possible),
    Definition::new("YEAR", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "YEAR")
    })
    .nulls(Nulls::Possible),
    Definition::new("QUARTER", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "QUARTER")
    })
    .nulls(Nulls::Possible),
    Definition::new("MONTH", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "MONTH")
    })
    .nulls(Nulls::Possible),
    Definition::new("WEEK", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "WEEK")
    })
    .nulls(Nulls::Possible),
    Definition::new("DAYOFYEAR", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DOY")
    })
    .nulls(Nulls::Possible),
    Definition::new("DAYOFMONTH", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DAY")
    })
    .nulls(Nulls::Possible),
    Definition::new("DAYOFWEEK", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DOW")
    })
    .nulls(Nulls::Possible),
    Definition::new("HOUR", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "HOUR")
    }),
    Definition::new("MINUTE", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "MINUTE")
    }),
    Definition::new("SECOND", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "SECOND")
    }),
    Definition::new(
        "$FLOOR_TO",
        &[Str, Temporal],
        Returns::Computed(round_types),
        |call| round(call, false),
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "$CEIL_TO",
        &[Str, Temporal],
        Returns::Computed(round_types),
        |call| round(call, true),
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "TIMESTAMPADD",
        &[Str, Integer, Any],
        Returns::Computed(timestampadd_types),
        timestampadd,
    ),
    Definition::new(
        "TIMESTAMPDIFF",
        &[Str, Temporal, Temporal],
        Returns::Computed(timestampdiff_types),
        timestampdiff,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "CURRENT_TIMESTAMP",
        &[],
        Returns::TimestampLtz3,
        now_instant,
    )
    .aliases(&["NOW", "CURRENT_ROW_TIMESTAMP"])
    .volatile(),
    Definition::new("PROCTIME", &[], Returns::TimestampLtz3, now_instant).volatile(),
    Definition::new("LOCALTIMESTAMP", &[], Returns::Timestamp3, now_local).volatile(),
    Definition::new("CURRENT_DATE", &[], Returns::Date, today).volatile(),
    Definition::new(
        "LOCALTIME",
        &[],
        Returns::Computed(|types, _| Ok((types.to_vec(), DataType::Time32(TimeUnit::Millisecond)))),
        time_of_day,
    )
    .aliases(&["CURRENT_TIME"])
    .volatile(),
];

type Types = Result<(Vec<DataType>, DataType), String>;

fn is_zoned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// The argument's local times in milliseconds.
fn local_millis<'a>(call: &Call<'a>, i: usize) -> Result<impl Fn(usize) -> Option<i64> + use<'a>> {
    let millis = call.millis(i)?;
    let zone = is_zoned(&call.data_type(i)).then_some(call.context.zone);
    Ok(move |row: usize| {
        millis.get(row).map(|millis| match zone {
            Some(zone) => utc_to_local(millis, zone),
            None => millis,
        })
    })
}

/// Nanoseconds below the millisecond.
fn below_millis(call: &Call, i: usize) -> Result<impl Fn(usize) -> u32 + use<>> {
    let (per_milli, scale) = match call.data_type(i) {
        DataType::Timestamp(TimeUnit::Microsecond, _) => (1_000i64, 1_000u32),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => (1_000_000, 1),
        _ => (0, 0),
    };
    let values = match per_milli {
        0 => None,
        _ => Some(arrow::compute::cast(&call.array(i)?, &DataType::Int64)?),
    };
    Ok(move |row: usize| match &values {
        None => 0,
        Some(values) => {
            let values = arrow::array::AsArray::as_primitive::<Int64Type>(values);
            let row = row.min(values.len().saturating_sub(1));
            values.value(row).rem_euclid(per_milli) as u32 * scale
        }
    })
}

fn known_unit(literals: &[Option<ScalarValue>], units: &[&str]) -> Result<(), String> {
    match literals.first() {
        Some(Some(ScalarValue::Utf8(Some(unit)))) if units.contains(&singular(unit)) => Ok(()),
        Some(Some(ScalarValue::Utf8(Some(unit)))) => Err(format!(
            "{unit} is not a unit here; there are {}",
            units.join(", ")
        )),
        _ => Err("the unit must be a word such as SECOND".into()),
    }
}

/// `DAYS` is `DAY`.
fn singular(unit: &str) -> &str {
    match unit.strip_suffix('S') {
        Some(rest) if rest.len() > 2 => rest,
        _ => unit,
    }
}

fn calendar(millis: i64) -> Option<NaiveDateTime> {
    DateTime::<Utc>::from_timestamp_millis(millis).map(|time| time.naive_utc())
}
