//! Scalar values as text, appended to a byte buffer.

use arrow::datatypes::TimeUnit;

use super::temporal::civil_from_days;

/// The numbers 00 to 99, two bytes each: halves the divisions of [`integer`].
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut value = 0;
    while value < 100 {
        pairs[2 * value] = b'0' + (value / 10) as u8;
        pairs[2 * value + 1] = b'0' + (value % 10) as u8;
        value += 1;
    }
    pairs
};

fn pair(value: u32) -> [u8; 2] {
    let index = 2 * (value % 100) as usize;
    [PAIRS[index], PAIRS[index + 1]]
}

/// A whole number in decimal.
pub(crate) fn integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(value.unsigned_abs(), out);
}

/// A whole number without sign in decimal.
pub(crate) fn unsigned(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    while value >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&pair((value % 100) as u32));
        value /= 100;
    }
    // After an even number of digits nothing is left, except for the number zero.
    if value > 0 || start == digits.len() {
        start -= 1;
        digits[start] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[start..]);
}

/// `value` in exactly `width` digits, zeros first.
fn padded(value: u32, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 10];
    let mut rest = value;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[digits.len() - width..]);
}

/// A DECIMAL with all digits of its scale: 1230 at scale 2 is `12.30`.
pub(crate) fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    let digits = magnitude.to_string();
    if scale <= 0 {
        out.extend_from_slice(digits.as_bytes());
        if magnitude != 0 {
            out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    let whole = digits.len().saturating_sub(scale);
    if whole == 0 {
        out.push(b'0');
    } else {
        out.extend_from_slice(&digits.as_bytes()[..whole]);
    }
    out.push(b'.');
    out.extend(std::iter::repeat_n(
        b'0',
        scale.saturating_sub(digits.len()),
    ));
    out.extend_from_slice(&digits.as_bytes()[whole..]);
}

/// The shortest decimal that reads back as the same double; `NaN`, `Infinity`, `-Infinity`.
/// Whole numbers keep a point or an exponent (`1.0`).
pub(crate) fn float64(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        // Writing a number into memory has no way to fail.
        let _ = serde_json::to_writer(out, &value);
    } else {
        out.extend_from_slice(not_finite(value));
    }
}

/// As [`float64`], shortest for single precision.
pub(crate) fn float32(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        let _ = serde_json::to_writer(out, &value);
    } else {
        out.extend_from_slice(not_finite(f64::from(value)));
    }
}

fn not_finite(value: f64) -> &'static [u8] {
    if value.is_nan() {
        b"NaN"
    } else if value > 0.0 {
        b"Infinity"
    } else {
        b"-Infinity"
    }
}

/// `2020-12-30`, from days since 1970-01-01. Years beyond four digits carry a sign.
pub(crate) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    match u32::try_from(year) {
        Ok(year) if year <= 9_999 => {
            out.extend_from_slice(&pair(year / 100));
            out.extend_from_slice(&pair(year));
        }
        _ => {
            out.push(if year < 0 { b'-' } else { b'+' });
            let magnitude = year.unsigned_abs();
            if magnitude < 1_000 {
                padded(magnitude as u32, 4, out);
            } else {
                unsigned(magnitude, out);
            }
        }
    }
    out.push(b'-');
    out.extend_from_slice(&pair(month));
    out.push(b'-');
    out.extend_from_slice(&pair(day));
}

fn time_of_day(seconds: u32, out: &mut Vec<u8>) {
    let [h1, h2] = pair(seconds / 3_600);
    let [m1, m2] = pair(seconds / 60 % 60);
    let [s1, s2] = pair(seconds % 60);
    out.extend_from_slice(&[h1, h2, b':', m1, m2, b':', s1, s2]);
}

fn per_second(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1_000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

/// `12:13:14`, and the unit's fraction digits when they are not all zero. Values beyond a day
/// wrap around, as a clock does.
pub(crate) fn time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let (per_second, digits) = per_second(unit);
    time_of_day(value.div_euclid(per_second).rem_euclid(86_400) as u32, out);
    let fraction = value.rem_euclid(per_second) as u32;
    if fraction != 0 {
        out.push(b'.');
        padded(fraction, digits, out);
    }
}

/// `2020-12-30 12:13:14.123` with `separator` between date and time, and always the unit's
/// fraction digits (none for seconds).
pub(crate) fn timestamp(value: i64, unit: TimeUnit, separator: u8, out: &mut Vec<u8>) {
    let (per_second, digits) = per_second(unit);
    let seconds = value.div_euclid(per_second);
    date(seconds.div_euclid(86_400), out);
    out.push(separator);
    time_of_day(seconds.rem_euclid(86_400) as u32, out);
    if digits > 0 {
        out.push(b'.');
        padded(value.rem_euclid(per_second) as u32, digits, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers() {
        for value in [
            0,
            1,
            9,
            10,
            99,
            100,
            101,
            1_000,
            65_535,
            1_234_567,
            i64::MAX,
            i64::MIN,
            -1,
            -10,
        ] {
            assert_eq!(text(|out| integer(value, out)), format!("{value}"));
        }
        assert_eq!(text(|out| unsigned(u64::MAX, out)), "18446744073709551615");
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (value, scale, expected) in [
            (1_230, 2, "12.30"),
            (-5, 2, "-0.05"),
            (0, 2, "0.00"),
            (100, 0, "100"),
            (12, -2, "1200"),
            (0, -2, "0"),
            (
                -(10i128.pow(38) - 1),
                38,
                "-0.99999999999999999999999999999999999999",
            ),
        ] {
            assert_eq!(text(|out| decimal(value, scale, out)), expected);
        }
    }

    #[test]
    fn floats_are_shortest() {
        for (value, expected) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| float64(value, out)), expected);
        }
        assert_eq!(text(|out| float32(0.1, out)), "0.1");
    }

    #[test]
    fn temporals() {
        use TimeUnit::*;
        for (value, unit, expected) in [
            (1_609_330_394_123, Millisecond, "2020-12-30 12:13:14.123"),
            (1_609_330_394_000, Millisecond, "2020-12-30 12:13:14.000"),
            (
                1_609_330_394_000_001,
                Microsecond,
                "2020-12-30 12:13:14.000001",
            ),
            (-1, Nanosecond, "1969-12-31 23:59:59.999999999"),
            (i64::MIN, Nanosecond, "1677-09-21 00:12:43.145224192"),
            (0, Second, "1970-01-01 00:00:00"),
            (253_402_300_800, Second, "+10000-01-01 00:00:00"),
            (-62_198_755_200, Second, "-0001-01-01 00:00:00"),
        ] {
            assert_eq!(text(|out| timestamp(value, unit, b' ', out)), expected);
        }
        // The extremes of the type must not overflow on the way.
        text(|out| timestamp(i64::MAX, Second, b' ', out));
        text(|out| timestamp(i64::MIN, Second, b' ', out));
        assert_eq!(
            text(|out| time(43_994_120, Millisecond, out)),
            "12:13:14.120"
        );
        assert_eq!(text(|out| time(43_994, Second, out)), "12:13:14");
        assert_eq!(text(|out| time(0, Nanosecond, out)), "00:00:00");
    }
}
