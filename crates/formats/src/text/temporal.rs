//! DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ from text.
//!
//! Reading takes the SQL spelling (`2020-12-30 12:13:14.123`) and the ISO one
//! (`2020-12-30T12:13:14.123Z`) alike, a date alone (midnight), and a time without seconds.
//! Calendar: proleptic Gregorian, like Flink's and Arrow's.

use arrow::datatypes::TimeUnit;

const SECONDS_PER_DAY: i64 = 86_400;

/// A point on the calendar, before it is put into a column's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CivilTime {
    /// Seconds since 1970-01-01 00:00:00 on the wall clock that was written.
    pub(crate) seconds: i64,
    /// 0 to 999 999 999.
    pub(crate) nanos: u32,
    /// Offset from UTC in seconds when the text says one; `Z` is 0.
    pub(crate) offset: Option<i32>,
}

impl CivilTime {
    /// The value in `unit`, finer digits cut off; `None` beyond i64. `to_utc` takes the
    /// written offset away, so that the value is an instant.
    pub(crate) fn in_unit(self, unit: TimeUnit, to_utc: bool) -> Option<i64> {
        let offset = if to_utc { self.offset.unwrap_or(0) } else { 0 };
        let seconds = self.seconds - i64::from(offset);
        let nanos = i64::from(self.nanos);
        let (per_second, part) = match unit {
            TimeUnit::Second => return Some(seconds),
            TimeUnit::Millisecond => (1_000, nanos / 1_000_000),
            TimeUnit::Microsecond => (1_000_000, nanos / 1_000),
            TimeUnit::Nanosecond => (1_000_000_000, nanos),
        };
        // The earliest nanosecond timestamps overflow in the product though not in the sum.
        i64::try_from(i128::from(seconds) * per_second + i128::from(part)).ok()
    }
}

/// Days from 1970-01-01 to a calendar day. Years count from 1 BC = 0.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    // Years start in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The calendar day (year, month, day) `days` after 1970-01-01.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `2020-12-30` as days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let (days, rest) = date(text.as_bytes())?;
    if !rest.is_empty() {
        return None;
    }
    i32::try_from(days).ok()
}

/// `12:13`, `12:13:14` or `12:13:14.123` as nanoseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (seconds, nanos, rest) = time(text.as_bytes())?;
    rest.is_empty()
        .then_some(i64::from(seconds) * 1_000_000_000 + i64::from(nanos))
}

/// A timestamp in SQL or ISO spelling, with or without offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<CivilTime> {
    let (days, rest) = date(text.as_bytes())?;
    let (seconds, nanos, rest) = match rest {
        [] => (0, 0, rest),
        [b' ' | b'T' | b't', rest @ ..] => time(rest)?,
        _ => return None,
    };
    let offset = match rest {
        [] => None,
        [b'Z' | b'z'] => Some(0),
        [b' ', b'U', b'T', b'C'] => Some(0),
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let seconds = match *rest {
                [h1, h2] => two_digits(h1, h2)? * 3_600,
                [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => {
                    let minutes = two_digits(m1, m2).filter(|minutes| *minutes < 60)?;
                    two_digits(h1, h2)? * 3_600 + minutes * 60
                }
                _ => return None,
            };
            // Java's limit, and wide of every zone there is.
            let seconds = i32::try_from(seconds).ok().filter(|s| *s <= 18 * 3_600)?;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => return None,
    };
    Some(CivilTime {
        seconds: days * SECONDS_PER_DAY + i64::from(seconds),
        nanos,
        offset,
    })
}

fn digit(byte: u8) -> Option<u32> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(u32::from(digit))
}

fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Days and what follows the date. Years have four digits, or a sign and four to seven.
fn date(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (year, rest) = match bytes {
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(4..=7).contains(&length) {
                return None;
            }
            let mut year = 0i64;
            for byte in &rest[..length] {
                year = year * 10 + i64::from(byte - b'0');
            }
            (if *sign == b'-' { -year } else { year }, &rest[length..])
        }
        [a, b, c, d, rest @ ..] => (
            i64::from(two_digits(*a, *b)? * 100 + two_digits(*c, *d)?),
            rest,
        ),
        _ => return None,
    };
    let [b'-', m1, m2, b'-', d1, d2, rest @ ..] = rest else {
        return None;
    };
    let month = two_digits(*m1, *m2)?;
    let day = two_digits(*d1, *d2)?;
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    Some((days_from_civil(year, month, day), rest))
}

/// Seconds of the day, nanoseconds of the second, and what follows the time.
fn time(bytes: &[u8]) -> Option<(u32, u32, &[u8])> {
    let [h1, h2, b':', m1, m2, rest @ ..] = bytes else {
        return None;
    };
    let hours = two_digits(*h1, *h2).filter(|hours| *hours < 24)?;
    let minutes = two_digits(*m1, *m2).filter(|minutes| *minutes < 60)?;
    let seconds_of_day = hours * 3_600 + minutes * 60;
    let [b':', s1, s2, rest @ ..] = rest else {
        return Some((seconds_of_day, 0, rest));
    };
    let seconds = two_digits(*s1, *s2).filter(|seconds| *seconds < 60)?;
    let (nanos, rest) = match rest {
        [b'.', rest @ ..] => {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if length == 0 || length > 9 {
                return None;
            }
            let mut nanos = 0;
            for byte in &rest[..length] {
                nanos = nanos * 10 + u32::from(byte - b'0');
            }
            (nanos * 10u32.pow(9 - length as u32), &rest[length..])
        }
        rest => (0, rest),
    };
    Some((seconds_of_day + seconds, nanos, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_days() {
        // From `date -u -d DAY +%s`, divided by 86400.
        for (text, days) in [
            ("1970-01-01", 0),
            ("2020-12-30", 18_626),
            ("2000-02-29", 11_016),
            ("1900-03-01", -25_508),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
            ("1969-12-31", -1),
        ] {
            assert_eq!(parse_date(text), Some(days), "{text}");
        }
        for text in [
            "2021-02-29",
            "1900-02-29",
            "2020-13-01",
            "2020-00-01",
            "2020-01-00",
            "2020-04-31",
            "2020-1-1",
            "20200101",
            "",
            "2020-12-30 ",
            "2020-12-3x",
            "-20-01-01",
            "+12345678-01-01",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_goes_there_and_back() {
        let mut previous = civil_from_days(-200_000);
        for days in -199_999..200_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!((year, month, day) > previous);
            previous = (year, month, day);
        }
    }

    #[test]
    fn times() {
        let second = 1_000_000_000;
        for (text, nanos) in [
            ("00:00", Some(0)),
            ("12:13:14", Some(43_994 * second)),
            ("23:59:59.999999999", Some(86_400 * second - 1)),
            ("00:00:00.5", Some(second / 2)),
            ("24:00:00", None),
            ("12:60:00", None),
            ("12:13:60", None),
            ("12:13:14.", None),
            ("12:13:14.1234567890", None),
            ("1:02:03", None),
            ("12:13:14Z", None),
        ] {
            assert_eq!(parse_time(text), nanos, "{text}");
        }
    }

    #[test]
    fn timestamps_in_every_spelling() {
        let at = |seconds, nanos, offset| {
            Some(CivilTime {
                seconds,
                nanos,
                offset,
            })
        };
        for (text, expected) in [
            (
                "2020-12-30 12:13:14.123",
                at(1_609_330_394, 123_000_000, None),
            ),
            (
                "2020-12-30T12:13:14.123",
                at(1_609_330_394, 123_000_000, None),
            ),
            (
                "2020-12-30T12:13:14.123Z",
                at(1_609_330_394, 123_000_000, Some(0)),
            ),
            ("2020-12-30 12:13:14Z", at(1_609_330_394, 0, Some(0))),
            (
                "2020-12-30T12:13:14+01:30",
                at(1_609_330_394, 0, Some(5_400)),
            ),
            (
                "2020-12-30T12:13:14-0800",
                at(1_609_330_394, 0, Some(-28_800)),
            ),
            ("2020-12-30T12:13:14+05", at(1_609_330_394, 0, Some(18_000))),
            ("2020-12-30", at(1_609_286_400, 0, None)),
            ("2020-12-30 12:13", at(1_609_330_380, 0, None)),
            ("1969-12-31 23:59:59.999999999", at(-1, 999_999_999, None)),
            ("2020-12-30  12:13:14", None),
            ("2020-12-30T", None),
            ("2020-12-30T12", None),
            ("2020-12-30T12:13:14+19:00", None),
            ("2020-12-30T12:13:14+1", None),
            ("2020-12-30T12:13:14ZZ", None),
            ("1609330394", None),
            ("", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
    }

    #[test]
    fn units_cut_finer_digits_and_refuse_overflow() {
        let time = parse_timestamp("1969-12-31 23:59:59.999999999").unwrap();
        assert_eq!(time.in_unit(TimeUnit::Millisecond, true), Some(-1));
        assert_eq!(time.in_unit(TimeUnit::Nanosecond, true), Some(-1));
        let early = parse_timestamp("1677-09-21 00:12:43.145224192").unwrap();
        assert_eq!(early.in_unit(TimeUnit::Nanosecond, true), Some(i64::MIN));
        let late = parse_timestamp("2262-04-11 23:47:16.854775808").unwrap();
        assert_eq!(late.in_unit(TimeUnit::Nanosecond, true), None);
        assert_eq!(
            late.in_unit(TimeUnit::Microsecond, true),
            Some(9_223_372_036_854_775)
        );
    }
}
