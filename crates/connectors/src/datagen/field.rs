//! One column: what its options ask for, checked against its type.

use arrow::datatypes::{DataType, Field as ArrowField};

use millrace_formats::sql_type_name;
use millrace_types::Millis;

use crate::generator_options::{OptionError, Options};

/// Every option of a column, for the check of names.
pub(crate) const FIELD_OPTIONS: [&str; 9] = [
    "kind",
    "min",
    "max",
    "length",
    "var-len",
    "max-past",
    "null-rate",
    "start",
    "end",
];
const DEFAULT_LENGTH: i64 = 100;
const MAX_LENGTH: i64 = 1_000_000;
/// Values that a counting column may have; more would take longer than anyone waits.
const MAX_COUNT: i128 = 1_000_000_000_000_000;
/// Furthest into the past that times are spread, ms: a century.
const MAX_PAST_MS: u64 = 100 * 366 * 86_400_000;

/// How the values of a column are made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Share of nulls, from 0 to 1.
    pub(crate) null_rate: f64,
    pub(crate) values: Values,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    Boolean,
    /// Integers and, unscaled, decimals: `min..=max`.
    Whole {
        min: i128,
        max: i128,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// Hexadecimal digits; with `vary`, 1 to `length` of them.
    Text {
        length: usize,
        vary: bool,
    },
    Bytes {
        length: usize,
        vary: bool,
    },
    /// Dates, times and timestamps: up to so much before the row's time.
    Past {
        max_ms: u64,
    },
    /// `start`, `start + 1`, … `end` over all splits.
    Count {
        start: i64,
        end: i64,
    },
}

impl Field {
    /// Values that a counting column has to give; `None` if it does not count.
    pub(crate) fn counted(&self) -> Option<u64> {
        match self.values {
            Values::Count { start, end } => Some((end - start) as u64 + 1),
            _ => None,
        }
    }

    /// Bytes of a value, roughly, for the size of batches.
    pub(crate) fn width(&self) -> usize {
        match self.values {
            Values::Text { length, .. } | Values::Bytes { length, .. } => length + 4,
            _ => 16,
        }
    }

    pub(crate) fn from_options(
        options: Options<'_>,
        field: &ArrowField,
    ) -> Result<Self, OptionError> {
        let column = Column { options, field };
        let kind = column.text("kind").unwrap_or("random");
        let (values, mut allowed) = match kind {
            "random" => column.random()?,
            "sequence" => (column.count()?, vec!["start", "end"]),
            _ => {
                let expected = "random or sequence";
                return Err(OptionError::value(&column.key("kind"), kind, expected));
            }
        };
        allowed.extend(["kind", "null-rate"]);
        if let Some(option) = FIELD_OPTIONS
            .into_iter()
            .find(|option| !allowed.contains(option) && column.text(option).is_some())
        {
            let problem = format!(
                "a {kind} column of type {} has no such option; it takes {}",
                column.type_name(),
                allowed.join(", ")
            );
            return Err(OptionError::conflict(&column.key(option), problem));
        }
        Ok(Self {
            null_rate: column.null_rate()?,
            values,
        })
    }
}

/// A column with the options of its table.
struct Column<'a> {
    options: Options<'a>,
    field: &'a ArrowField,
}

impl<'a> Column<'a> {
    fn key(&self, option: &str) -> String {
        format!("fields.{}.{option}", self.field.name())
    }

    fn text(&self, option: &str) -> Option<&'a str> {
        self.options.text(&self.key(option))
    }

    fn type_name(&self) -> String {
        sql_type_name(self.field.data_type())
    }

    fn null_rate(&self) -> Result<f64, OptionError> {
        let Some(text) = self.text("null-rate") else {
            return Ok(0.0);
        };
        let rate: Option<f64> = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
        let key = self.key("null-rate");
        match rate {
            Some(rate) if rate > 0.0 && !self.field.is_nullable() => {
                Err(OptionError::conflict(&key, "the column is NOT NULL"))
            }
            Some(rate) => Ok(rate),
            None => Err(OptionError::value(&key, text, "a share from 0 to 1")),
        }
    }

    /// Random values, and the options that they take.
    fn random(&self) -> Result<(Values, Vec<&'static str>), OptionError> {
        let values = match self.field.data_type() {
            DataType::Boolean => return Ok((Values::Boolean, vec![])),
            DataType::Utf8 => {
                let (length, vary) = self.length()?;
                return Ok((Values::Text { length, vary }, vec!["length", "var-len"]));
            }
            DataType::Binary => {
                let (length, vary) = self.length()?;
                return Ok((Values::Bytes { length, vary }, vec!["length", "var-len"]));
            }
            DataType::Date32
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..) => {
                let max_ms = self.max_past()?;
                return Ok((Values::Past { max_ms }, vec!["max-past"]));
            }
            DataType::Float32 => self.real(f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))?,
            DataType::Float64 => self.real(f64::MIN_POSITIVE, f64::MAX)?,
            data_type => {
                let (least, most, scale) = self.whole_range(data_type)?;
                // Decimals are positive unless asked otherwise, like the reals.
                let default_min = if matches!(data_type, DataType::Decimal128(..)) {
                    0
                } else {
                    least
                };
                let min = self
                    .whole("min", scale, least, most)?
                    .unwrap_or(default_min);
                let max = self.whole("max", scale, least, most)?.unwrap_or(most);
                if min > max {
                    return Err(OptionError::conflict(&self.key("min"), "min is above max"));
                }
                Values::Whole { min, max }
            }
        };
        Ok((values, vec!["min", "max"]))
    }

    fn length(&self) -> Result<(usize, bool), OptionError> {
        let length = self.options.integer(&self.key("length"), 1..=MAX_LENGTH)?;
        let vary = self.options.boolean(&self.key("var-len"))?.unwrap_or(false);
        Ok((length.unwrap_or(DEFAULT_LENGTH) as usize, vary))
    }

    fn max_past(&self) -> Result<u64, OptionError> {
        let Some(text) = self.text("max-past") else {
            return Ok(0);
        };
        text.parse::<Millis>()
            .ok()
            .map(|duration| duration.0)
            .filter(|ms| *ms <= MAX_PAST_MS)
            .ok_or_else(|| {
                let expected = "a duration such as '10 min' or '3 d', of at most a century";
                OptionError::value(&self.key("max-past"), text, expected)
            })
    }

    fn real(&self, default_min: f64, default_max: f64) -> Result<Values, OptionError> {
        let read = |option: &str, default: f64| match self.text(option) {
            None => Ok(default),
            Some(text) => text
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite() && number.abs() <= default_max)
                .ok_or_else(|| {
                    OptionError::value(
                        &self.key(option),
                        text,
                        "a finite number of the column's type",
                    )
                }),
        };
        let (min, max) = (read("min", default_min)?, read("max", default_max)?);
        if min > max {
            return Err(OptionError::conflict(&self.key("min"), "min is above max"));
        }
        Ok(Values::Real { min, max })
    }

    /// Least and greatest value of the type, unscaled, and its scale.
    fn whole_range(&self, data_type: &DataType) -> Result<(i128, i128, u32), OptionError> {
        let range = |least: i64, most: i64| (i128::from(least), i128::from(most), 0);
        match data_type {
            DataType::Int8 => Ok(range(i8::MIN.into(), i8::MAX.into())),
            DataType::Int16 => Ok(range(i16::MIN.into(), i16::MAX.into())),
            DataType::Int32 => Ok(range(i32::MIN.into(), i32::MAX.into())),
            DataType::Int64 => Ok(range(i64::MIN, i64::MAX)),
            DataType::Decimal128(precision @ 1..=38, scale @ 0..=38) => {
                let most = 10i128.pow(u32::from(*precision)) - 1;
                Ok((-most, most, scale.unsigned_abs().into()))
            }
            _ => {
                let problem = format!(
                    "datagen makes no values of type {}; leave the column out, or compute it \
                     from generated ones",
                    self.type_name()
                );
                Err(OptionError::conflict(&self.key("kind"), problem))
            }
        }
    }

    /// A bound of a whole or decimal type, unscaled.
    fn whole(
        &self,
        option: &str,
        scale: u32,
        least: i128,
        most: i128,
    ) -> Result<Option<i128>, OptionError> {
        let Some(text) = self.text(option) else {
            return Ok(None);
        };
        parse_decimal(text, scale)
            .filter(|number| (least..=most).contains(number))
            .map(Some)
            .ok_or_else(|| {
                let expected = format!("a value of type {}", self.type_name());
                OptionError::value(&self.key(option), text, expected)
            })
    }

    fn count(&self) -> Result<Values, OptionError> {
        let range = match self.field.data_type() {
            DataType::Utf8 => Some((i64::MIN.into(), i64::MAX.into())),
            // Whole numbers that the type holds exactly.
            DataType::Float32 => Some((-(1 << 24), 1 << 24)),
            DataType::Float64 => Some((-(1 << 53), 1 << 53)),
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Decimal128(..) => {
                let (least, most, scale) = self.whole_range(self.field.data_type())?;
                let unit = 10i128.pow(scale);
                Some((least / unit, most / unit))
            }
            _ => None,
        };
        let Some((least, most)) = range else {
            let problem = format!(
                "a column of type {} cannot count; use 'random'",
                self.type_name()
            );
            return Err(OptionError::conflict(&self.key("kind"), problem));
        };
        let read = |option: &str| match self.text(option) {
            None => Err(OptionError::conflict(
                &self.key(option),
                "a sequence needs a start and an end",
            )),
            Some(text) => text
                .parse::<i64>()
                .ok()
                .filter(|number| (least..=most).contains(&i128::from(*number)))
                .ok_or_else(|| {
                    let expected = format!("a whole number that {} can hold", self.type_name());
                    OptionError::value(&self.key(option), text, expected)
                }),
        };
        let (start, end) = (read("start")?, read("end")?);
        if start > end {
            return Err(OptionError::conflict(
                &self.key("start"),
                "start is above end",
            ));
        }
        if i128::from(end) - i128::from(start) >= MAX_COUNT {
            let problem = format!("a sequence has at most {MAX_COUNT} values");
            return Err(OptionError::conflict(&self.key("end"), problem));
        }
        Ok(Values::Count { start, end })
    }
}

/// `text` times 10^`scale`, if that is a whole number.
fn parse_decimal(text: &str, scale: u32) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let missing = scale.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    digits
        .parse::<i128>()
        .ok()?
        .checked_mul(10i128.checked_pow(missing)?)
}
