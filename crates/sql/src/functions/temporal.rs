//! Dates and times: formatting, parsing, parts, rounding, distance, the clock.
//!
//! TIMESTAMP_LTZ values are taken as local times of the session's zone.

use arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit,
    TimestampMillisecondType,
};
use chrono::{DateTime, Datelike, Months, NaiveDateTime, Timelike, Utc};
use chrono_tz::Tz;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use super::{
    arguments::{Primitives, Strings},
    call::Call,
    cast::{local_to_utc, parse_date, parse_timestamp_nanos, utc_to_local},
    format::Pattern,
    registry::{
        Definition,
        Kind::{Any, Integer, String as Str, Temporal},
        Nulls, Returns,
    },
    structure::epoch_days,
};
use crate::{flink_type::timestamp_ms, settings::parse_zone};

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
    ),
    Definition::new("YEAR", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "YEAR")
    }),
    Definition::new("QUARTER", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "QUARTER")
    }),
    Definition::new("MONTH", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "MONTH")
    }),
    Definition::new("WEEK", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "WEEK")
    }),
    Definition::new("DAYOFYEAR", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DOY")
    }),
    Definition::new("DAYOFMONTH", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DAY")
    }),
    Definition::new("DAYOFWEEK", &[Temporal], Returns::BigInt, |call| {
        extract(call, 0, "DOW")
    }),
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
    ),
    Definition::new(
        "$CEIL_TO",
        &[Str, Temporal],
        Returns::Computed(round_types),
        |call| round(call, true),
    ),
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
    ),
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

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";
const DAY: i64 = 86_400_000;

type Types = Result<(Vec<DataType>, DataType), String>;

/// Checks a constant pattern.
fn pattern_types(
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

fn date_format_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
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

fn date_format(call: &Call) -> Result<ColumnarValue> {
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
    call.make_strings(|row, out| {
        let (Some(millis), Some(pattern)) = (local(row), patterns.get(row)) else {
            return Ok(None);
        };
        Ok(pattern.format(millis, below(row), out).then_some(()))
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

fn to_timestamp(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let default = call.len() == 1;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<TimestampMillisecondType>(|row| {
        Ok(text
            .get(row)
            .and_then(|text| parse_with(patterns.get(row), default, text)))
    })
}

fn to_timestamp_ltz_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
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

fn to_timestamp_ltz(call: &Call) -> Result<ColumnarValue> {
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

fn to_date(call: &Call) -> Result<ColumnarValue> {
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

fn from_unixtime(call: &Call) -> Result<ColumnarValue> {
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
fn unix_timestamp(call: &Call) -> Result<ColumnarValue> {
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

fn convert_tz(call: &Call) -> Result<ColumnarValue> {
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

fn extract_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, EXTRACT_UNITS)?;
    Ok((types.to_vec(), DataType::Int64))
}

fn calendar(millis: i64) -> Option<NaiveDateTime> {
    DateTime::<Utc>::from_timestamp_millis(millis).map(|time| time.naive_utc())
}

fn extract(call: &Call, argument: usize, unit: &str) -> Result<ColumnarValue> {
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

fn round_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
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

fn round(call: &Call, up: bool) -> Result<ColumnarValue> {
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

fn timestampadd_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
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

fn timestampadd(call: &Call) -> Result<ColumnarValue> {
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

fn timestampdiff_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    known_unit(literals, ADD_UNITS)?;
    if is_zoned(&types[1]) != is_zoned(&types[2]) {
        return Err("both times must be TIMESTAMP or both TIMESTAMP_LTZ; CAST one of them".into());
    }
    Ok((types.to_vec(), DataType::Int32))
}

/// Whole units from the first time to the second.
fn timestampdiff(call: &Call) -> Result<ColumnarValue> {
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

fn now_instant(call: &Call) -> Result<ColumnarValue> {
    let now = call.context.clock.now_ms();
    Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(
        Some(now),
        Some(crate::flink_type::utc()),
    )))
}

fn local_now(call: &Call) -> i64 {
    utc_to_local(call.context.clock.now_ms(), call.context.zone)
}

fn now_local(call: &Call) -> Result<ColumnarValue> {
    let now = local_now(call);
    Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(
        Some(now),
        None,
    )))
}

fn today(call: &Call) -> Result<ColumnarValue> {
    let days = local_now(call).div_euclid(DAY) as i32;
    Ok(ColumnarValue::Scalar(ScalarValue::Date32(Some(days))))
}

fn time_of_day(call: &Call) -> Result<ColumnarValue> {
    let millis = local_now(call).rem_euclid(DAY) as i32;
    Ok(ColumnarValue::Scalar(ScalarValue::Time32Millisecond(Some(
        millis,
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            floor_local(at("2020-05-20 10:11:12"), "QUARTER"),
            Some(at("2020-04-01"))
        );
        assert_eq!(
            next_local(at("2020-12-01"), "MONTH"),
            Some(at("2021-01-01"))
        );
    }
}
