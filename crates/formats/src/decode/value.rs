//! Scalar values from text into a column, and why a value does not fit one.

use arrow::datatypes::TimeUnit;

use crate::error::quote;
use crate::sql_type::sql_type_name;
use crate::text::decimal::{DecimalError, parse_decimal};
use crate::text::number::{parse_bool, parse_f32, parse_f64, parse_integral};
use crate::text::temporal::{parse_date, parse_time, parse_timestamp};
use crate::text::{base64, trim};

use super::column::{Column, Values};

/// Why a record, or a field of it, is not what the table wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueError {
    /// Names from the inside out; empty when the record as a whole is wrong.
    path: Vec<PathSegment>,
    /// Byte of the record, counted from 1.
    pub(crate) column: Option<u64>,
    pub(crate) found: String,
    pub(crate) expected: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Name(String),
    Index(usize),
}

/// Boxed: values are read in the hottest loop, where a large `Result` costs.
pub(crate) type ValueResult<T> = Result<T, Box<ValueError>>;

impl ValueError {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Box<ValueError> {
        Box::new(ValueError {
            path: Vec::new(),
            column: None,
            found: found.into(),
            expected: expected.into(),
        })
    }

    /// At byte index `index` of the record.
    pub(crate) fn at(mut self: Box<Self>, index: usize) -> Box<ValueError> {
        self.column.get_or_insert(index as u64 + 1);
        self
    }

    /// Inside the field `name`.
    pub(crate) fn in_field(mut self: Box<Self>, name: &str) -> Box<ValueError> {
        self.path.push(PathSegment::Name(name.to_owned()));
        self
    }

    /// Inside element `index` of an array.
    pub(crate) fn in_item(mut self: Box<Self>, index: usize) -> Box<ValueError> {
        self.path.push(PathSegment::Index(index));
        self
    }

    /// The dotted path, `a.b[3].c`.
    pub(crate) fn field(&self) -> Option<String> {
        let mut path = String::new();
        for segment in self.path.iter().rev() {
            match segment {
                PathSegment::Name(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&crate::error::shorten(name));
                }
                PathSegment::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        (!path.is_empty()).then_some(path)
    }
}

/// What a column takes, for messages.
pub(crate) fn expectation(column: &Column) -> String {
    let mut expected = sql_type_name(&column.data_type);
    let hint = match &column.values {
        Values::Date(_) => " like '2020-12-30'",
        Values::Time32 { .. } | Values::Time64 { .. } => " like '12:13:14'",
        Values::Timestamp { zone: None, .. } => " like '2020-12-30 12:13:14.123'",
        Values::Timestamp { zone: Some(_), .. } => " like '2020-12-30 12:13:14.123Z'",
        Values::Binary(_) => " in base64",
        _ => "",
    };
    expected.push_str(hint);
    if !column.nullable {
        expected.push_str(" NOT NULL");
    }
    expected
}

/// Appends a value that is spelled as text (a CSV field, a JSON string) to a scalar column.
pub(crate) fn append_text(column: &mut Column, text: &str) -> ValueResult<()> {
    let appended = match &mut column.values {
        Values::Utf8(values) => {
            values.bytes.extend_from_slice(text.as_bytes());
            values.end_value();
            Ok(())
        }
        Values::Binary(values) => match base64::decode(trim(text).as_bytes(), &mut values.bytes) {
            Some(()) => {
                values.end_value();
                Ok(())
            }
            None => Err(None),
        },
        Values::Boolean(values) => parse_bool(text)
            .map(|value| values.append(value))
            .ok_or(None),
        Values::Float32(values) => parse_f32(text).map(|value| values.push(value)).ok_or(None),
        Values::Float64(values) => parse_f64(text).map(|value| values.push(value)).ok_or(None),
        Values::Date(values) => parse_date(trim(text))
            .map(|value| values.push(value))
            .ok_or(None),
        Values::Time32 { values, unit } => parse_time(trim(text))
            .and_then(|nanos| i32::try_from(nanos / nanos_per(*unit)).ok())
            .map(|value| values.push(value))
            .ok_or(None),
        Values::Time64 { values, unit } => parse_time(trim(text))
            .map(|nanos| values.push(nanos / nanos_per(*unit)))
            .ok_or(None),
        Values::Timestamp { values, unit, zone } => {
            match parse_timestamp(trim(text)) {
                None => Err(None),
                // A wall clock time has no zone to be moved from. `Z` is harmless: the digits
                // are the wall clock of UTC.
                Some(time) if zone.is_none() && time.offset.is_some_and(|offset| offset != 0) => {
                    Err(Some(
                        "a zone offset; declare the column TIMESTAMP_LTZ to read it",
                    ))
                }
                Some(time) => match time.in_unit(*unit, true) {
                    Some(value) => {
                        values.push(value);
                        Ok(())
                    }
                    None => Err(Some("a time beyond the type's range")),
                },
            }
        }
        _ => {
            return append_number(column, trim(text)).map_err(|mut error| {
                error.found = quote(text);
                error
            });
        }
    };
    match appended {
        Ok(()) => {
            column.end_value();
            Ok(())
        }
        Err(why) => Err(mismatch(column, quote(text), why)),
    }
}

fn nanos_per(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Appends a number without quotes to a column of a numeric type, or as milliseconds since
/// 1970 to a timestamp. Any other type is an error.
pub(crate) fn append_number(column: &mut Column, text: &str) -> ValueResult<()> {
    const RANGE: Option<&str> = Some("a number beyond the type's range");
    /// Pushes what fits the column's integer type.
    macro_rules! integer {
        ($values:expr, $type:ty) => {
            match parse_integral(text) {
                None => Err(None),
                Some(value) => match <$type>::try_from(value) {
                    Ok(value) => {
                        $values.push(value);
                        Ok(())
                    }
                    Err(_) => Err(RANGE),
                },
            }
        };
    }
    let appended = match &mut column.values {
        Values::Int8(values) => integer!(values, i8),
        Values::Int16(values) => integer!(values, i16),
        Values::Int32(values) => integer!(values, i32),
        Values::Int64(values) => integer!(values, i64),
        Values::Float32(values) => parse_f32(text).map(|value| values.push(value)).ok_or(RANGE),
        Values::Float64(values) => parse_f64(text).map(|value| values.push(value)).ok_or(RANGE),
        Values::Decimal {
            values,
            precision,
            scale,
        } => match parse_decimal(text, *precision, *scale) {
            Ok(value) => {
                values.push(value);
                Ok(())
            }
            Err(DecimalError::Syntax) => Err(None),
            Err(DecimalError::Overflow) => Err(RANGE),
        },
        Values::Timestamp { values, unit, .. } => match parse_integral(text) {
            None => Err(None),
            Some(millis) => match millis_in_unit(millis, *unit) {
                Some(value) => {
                    values.push(value);
                    Ok(())
                }
                None => Err(Some("a time beyond the type's range")),
            },
        },
        _ => Err(None),
    };
    match appended {
        Ok(()) => {
            column.end_value();
            Ok(())
        }
        Err(why) => Err(mismatch(column, crate::error::shorten(text), why)),
    }
}

fn millis_in_unit(millis: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(millis.div_euclid(1_000)),
        TimeUnit::Millisecond => Some(millis),
        TimeUnit::Microsecond => millis.checked_mul(1_000),
        TimeUnit::Nanosecond => millis.checked_mul(1_000_000),
    }
}

/// A value that the column does not take; `why` when its type is not the whole reason.
#[cold]
fn mismatch(column: &Column, found: String, why: Option<&str>) -> Box<ValueError> {
    let found = match why {
        Some(why) => format!("{found}, {why}"),
        None => found,
    };
    ValueError::new(expectation(column), found)
}

/// Appends a null, or says that the column takes none.
pub(crate) fn append_checked_null(column: &mut Column, found: &str) -> ValueResult<()> {
    if !column.nullable {
        return Err(ValueError::new(expectation(column), found));
    }
    column.append_null();
    Ok(())
}
