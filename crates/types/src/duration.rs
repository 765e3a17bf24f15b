//! Durations as people write them (`10 s`, `500ms`, `2 min`), held in whole milliseconds.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time in whole milliseconds. Reads a text with a unit (`ms`, `s`, `min`, `h`,
/// `d`), writes it with the largest unit that loses nothing. A number alone is refused, since
/// nobody can tell what its writer meant; only zero needs no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, utoipa::ToSchema)]
#[schema(value_type = String, examples("10 s", "500 ms"))]
pub struct Millis(pub u64);

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMillisError {
    #[error(
        "`{0}` is not a duration: write a whole number and a unit, such as `10 s`, `500 ms`, `2 min`, `1 h` or `1 d`"
    )]
    NotOne(String),
    #[error("`{0}` has no unit: write `{0}s` for seconds or `{0}ms` for milliseconds")]
    NoUnit(u64),
}

const UNITS: [(&str, u64); 17] = [
    ("milliseconds", 1),
    ("millisecond", 1),
    ("ms", 1),
    ("seconds", 1_000),
    ("second", 1_000),
    ("sec", 1_000),
    ("s", 1_000),
    ("minutes", 60_000),
    ("minute", 60_000),
    ("min", 60_000),
    ("m", 60_000),
    ("hours", 3_600_000),
    ("hour", 3_600_000),
    ("h", 3_600_000),
    ("days", 86_400_000),
    ("day", 86_400_000),
    ("d", 86_400_000),
];

impl Millis {
    pub const fn from_secs(secs: u64) -> Self {
        Millis(secs * 1_000)
    }

    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    fn without_unit(number: u64) -> Result<Self, ParseMillisError> {
        match number {
            0 => Ok(Millis(0)),
            number => Err(ParseMillisError::NoUnit(number)),
        }
    }
}

impl FromStr for Millis {
    type Err = ParseMillisError;

    fn from_str(text: &str) -> Result<Self, ParseMillisError> {
        let error = || ParseMillisError::NotOne(text.chars().take(80).collect());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = trimmed[..digits].parse().map_err(|_| error())?;
        let unit = trimmed[digits..].trim().to_ascii_lowercase();
        if unit.is_empty() {
            return Millis::without_unit(number);
        }
        let factor = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(error)?;
        number.checked_mul(factor).map(Millis).ok_or_else(error)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("min", 60_000),
            ("s", 1_000),
        ] {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{} {unit}", self.0 / factor);
            }
        }
        write!(f, "{} ms", self.0)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = Millis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration, which is a text such as \"10 s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Millis, E> {
        Millis::without_unit(number).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, ms) in [
            ("10 s", 10_000),
            ("500ms", 500),
            ("2 MIN", 120_000),
            ("0", 0),
            ("7 ms", 7),
            ("1 d", 86_400_000),
        ] {
            assert_eq!(text.parse(), Ok(Millis(ms)), "{text}");
        }
        for bad in [
            "",
            "s",
            "1 week",
            "-1 s",
            "1.5 s",
            "99999999999999999999 d",
            "18446744073709551615 d",
        ] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_alone_is_asked_for_its_unit() {
        let asked = "`5` has no unit: write `5s` for seconds or `5ms` for milliseconds";
        assert_eq!("5".parse::<Millis>().unwrap_err().to_string(), asked);
        for json in ["5", "\"5\""] {
            let error = serde_json::from_str::<Millis>(json).unwrap_err();
            assert!(error.to_string().starts_with(asked), "{error}");
        }
        for (json, expected) in [
            ("true", "a duration"),
            ("-5", "a duration"),
            ("1.5", "10 s"),
        ] {
            let error = serde_json::from_str::<Millis>(json).unwrap_err();
            assert!(error.to_string().contains(expected), "{json}: {error}");
        }
        assert_eq!(serde_json::from_str::<Millis>("0").unwrap(), Millis(0));
    }

    #[test]
    fn writes_the_largest_exact_unit() {
        for (ms, text) in [
            (0, "0 ms"),
            (1_500, "1500 ms"),
            (60_000, "1 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(Millis(ms).to_string(), text);
        }
    }
}
