//! The `WITH` options of the built-in generators (`nexmark` and `datagen`): reading typed
//! values, and errors that name the option, the value and what would have been right.
//!
//! Invariant: every option of the table is either read or refused; none is ignored, save
//! those that belong to every source ([`belongs_to_every_source`]).

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveDateTime};

use crate::nearest::closest;

/// An option of a generator's table that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no option of this name.
    #[error("connector '{connector}' has no option '{key}'; did you mean '{nearest}'?")]
    Unknown {
        connector: &'static str,
        key: String,
        nearest: String,
    },
    /// The value cannot be read, or lies outside what is allowed.
    #[error("option '{key}' = '{value}': expected {expected}")]
    Value {
        key: String,
        value: String,
        expected: String,
    },
    /// Two options, or an option and a column, do not go together.
    #[error("option '{key}': {problem}")]
    Conflict { key: String, problem: String },
}

impl OptionError {
    pub(crate) fn value(key: &str, value: &str, expected: impl Into<String>) -> Self {
        Self::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            expected: expected.into(),
        }
    }

    pub(crate) fn conflict(key: &str, problem: impl Into<String>) -> Self {
        Self::Conflict {
            key: key.to_owned(),
            problem: problem.into(),
        }
    }

    pub(crate) fn unknown<'a>(
        connector: &'static str,
        key: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::Unknown {
            connector,
            key: key.to_owned(),
            nearest: closest(key, known)
                .map(|(_, name)| name.to_owned())
                .unwrap_or_default(),
        }
    }
}

/// Options that the source's runtime reads, whatever the connector.
pub(crate) fn belongs_to_every_source(key: &str) -> bool {
    matches!(key, "connector" | "scan.watermark.idle-timeout")
}

/// Typed access to the options of one table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a>(pub(crate) &'a BTreeMap<String, String>);

impl<'a> Options<'a> {
    pub(crate) fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.trim())
    }

    /// A whole number within `range`.
    pub(crate) fn integer(
        self,
        key: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, OptionError> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        match text.parse::<i64>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(OptionError::value(
                key,
                text,
                match (*range.start(), *range.end()) {
                    (start, i64::MAX) => format!("a whole number of at least {start}"),
                    (start, end) => format!("a whole number from {start} to {end}"),
                },
            )),
        }
    }

    pub(crate) fn boolean(self, key: &str) -> Result<Option<bool>, OptionError> {
        self.text(key)
            .map(|text| match text.to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(OptionError::value(key, text, "true or false")),
            })
            .transpose()
    }

    /// A size in bytes, at most `max`: a number with an optional unit (`200`, `200b`, `1 kb`).
    pub(crate) fn byte_size(self, key: &str, max: u32) -> Result<Option<u32>, OptionError> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" | "bytes" => Some(1),
            "k" | "kb" | "kibibytes" => Some(1024),
            "m" | "mb" | "mebibytes" => Some(1024 * 1024),
            _ => None,
        };
        factor
            .zip(number.parse::<u64>().ok())
            .and_then(|(factor, number)| number.checked_mul(factor))
            .and_then(|bytes| u32::try_from(bytes).ok())
            .filter(|bytes| *bytes <= max)
            .map(Some)
            .ok_or_else(|| {
                let expected = format!("a size such as 200b or 1kb, of at most {max} bytes");
                OptionError::value(key, text, expected)
            })
    }
}

/// A point in time as milliseconds since the epoch: digits, a date, or a timestamp with or
/// without an offset (without one it is UTC).
pub(crate) fn parse_time_ms(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp_millis());
    }
    for format in ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, format) {
            return Some(time.and_utc().timestamp_millis());
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_usual_form() {
        for (text, ms) in [
            ("1700000000000", Some(1_700_000_000_000)),
            ("2023-11-14 22:13:20", Some(1_700_000_000_000)),
            ("2023-11-14T22:13:20.250", Some(1_700_000_000_250)),
            ("2023-11-14T23:13:20+01:00", Some(1_700_000_000_000)),
            ("1970-01-02", Some(86_400_000)),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse_time_ms(text), ms, "{text}");
        }
    }

    #[test]
    fn sizes_need_a_known_unit_and_a_bound() {
        for (text, bytes) in [
            ("200b", Some(200)),
            ("200", Some(200)),
            ("1 kb", Some(1024)),
            ("65kb", None),
            ("-1", None),
            ("1 parsec", None),
            ("99999999999999999999b", None),
        ] {
            let options = BTreeMap::from([("size".to_owned(), text.to_owned())]);
            let read = Options(&options).byte_size("size", 65_536);
            assert_eq!(read.ok().flatten(), bytes, "{text}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        let known = ["events.num", "first-event.rate", "nexmark.seed"];
        for (key, offered) in [("event.num", "events.num"), ("seed", "nexmark.seed")] {
            let error = OptionError::unknown("nexmark", key, known);
            assert_eq!(
                error.to_string(),
                format!("connector 'nexmark' has no option '{key}'; did you mean '{offered}'?")
            );
        }
    }
}
