//! Integers, floats and booleans from text.

use super::trim;

/// A whole number: digits with an optional sign; `None` for anything else and beyond i64.
pub(crate) fn parse_i64(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= 18 {
        // 18 digits cannot overflow, so the loop needs no checks.
        let mut value = 0i64;
        for &digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if negative { -value } else { value });
    }
    // The standard library takes one sign; two must not slip through.
    if !digits[0].is_ascii_digit() {
        return None;
    }
    text.parse().ok()
}

/// A whole number in any spelling a JSON number may have (`1.0`, `1e3`), exact; `None` when
/// there is a fraction or it is beyond i64.
pub(crate) fn parse_integral(text: &str) -> Option<i64> {
    if let Some(value) = parse_i64(text) {
        return Some(value);
    }
    super::decimal::parse_exact_integer(text).and_then(|value| i64::try_from(value).ok())
}

/// A float: decimal or scientific notation, `NaN`, `Infinity`, `-Infinity` (also `inf`, in any
/// case). `None` when malformed, or when finite digits are beyond the type's range.
pub(crate) fn parse_f64(text: &str) -> Option<f64> {
    let text = trim(text);
    let value: f64 = text.parse().ok()?;
    (value.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(value)
}

/// As [`parse_f64`], rounded once, directly to single precision.
pub(crate) fn parse_f32(text: &str) -> Option<f32> {
    let text = trim(text);
    let value: f32 = text.parse().ok()?;
    (value.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(value)
}

/// `true` or `false` in any case.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let text = trim(text);
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("+7", Some(7)),
            ("007", Some(7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("0000000000000000000000001", Some(1)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("+-1", None),
            ("--11111111111111111111", None),
            ("1.0", None),
            (" 1", None),
            ("１", None),
        ] {
            assert_eq!(parse_i64(text), value, "{text}");
        }
    }

    #[test]
    fn integral_spellings() {
        for (text, value) in [
            ("1.0", Some(1)),
            ("1e3", Some(1000)),
            ("12.50e1", Some(125)),
            ("12.55e1", None),
            ("1.5", None),
            ("100e-2", Some(1)),
            ("101e-2", None),
            ("9.223372036854775807e18", Some(i64::MAX)),
            ("9.223372036854775808e18", None),
            ("1e999999999999", None),
            ("0e999999999999", Some(0)),
            ("1e-999999999999", None),
        ] {
            assert_eq!(parse_integral(text), value, "{text}");
        }
    }

    #[test]
    fn floats() {
        assert_eq!(parse_f64("1e308"), Some(1e308));
        assert_eq!(parse_f64("1e309"), None);
        assert_eq!(parse_f64("5e-324"), Some(f64::from_bits(1)));
        assert_eq!(parse_f64("-Infinity"), Some(f64::NEG_INFINITY));
        assert!(parse_f64("NaN").is_some_and(f64::is_nan));
        assert_eq!(parse_f64("0x10"), None);
        assert_eq!(parse_f64(""), None);
        assert_eq!(parse_f32("3.5e38"), None);
        assert_eq!(parse_f32("16777217"), Some(16_777_216.0));
    }
}
