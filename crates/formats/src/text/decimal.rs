//! DECIMAL(p, s) from text, exactly.

/// Why text is not a decimal of the wanted precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecimalError {
    /// Not a number.
    Syntax,
    /// More digits before the point than the precision leaves room for.
    Overflow,
}

/// Exponents beyond this are as good as infinite: no i128 has that many digits.
const MAX_EXPONENT: i64 = 1_000_000_000;

/// Most digits an i128 holds whatever they are, and DECIMAL's highest precision.
const MAX_DIGITS: i64 = 38;

/// The unscaled value of `text` as DECIMAL(`precision`, `scale`). Digits beyond the scale are
/// rounded half up (away from zero), as Flink does. Accepts scientific notation.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<i128, DecimalError> {
    let number = Number::split(text).ok_or(DecimalError::Syntax)?;
    let value = number
        .scaled(i64::from(scale), Rounding::HalfUp)
        .ok_or(DecimalError::Overflow)?;
    let limit = 10i128.pow(u32::from(precision).min(MAX_DIGITS as u32));
    if value.abs() >= limit {
        return Err(DecimalError::Overflow);
    }
    Ok(value)
}

/// The whole number that `text` spells, `None` if it has a fraction or is too large.
pub(crate) fn parse_exact_integer(text: &str) -> Option<i128> {
    Number::split(text)?.scaled(0, Rounding::Refuse)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    HalfUp,
    Refuse,
}

/// A number in text, taken apart: `digits` may hold one point.
struct Number<'a> {
    negative: bool,
    digits: &'a [u8],
    /// Digits in `digits` after the point.
    fraction: i64,
    exponent: i64,
}

impl<'a> Number<'a> {
    fn split(text: &'a str) -> Option<Number<'a>> {
        let bytes = text.as_bytes();
        let (negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let mut point = None;
        let mut count = 0;
        let mut end = bytes.len();
        for (index, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => count += 1,
                b'.' if point.is_none() => point = Some(index),
                b'e' | b'E' => {
                    end = index;
                    break;
                }
                _ => return None,
            }
        }
        if count == 0 {
            return None;
        }
        let exponent = match bytes.get(end + 1..) {
            None => 0,
            Some(exponent) => parse_exponent(exponent)?,
        };
        Some(Number {
            negative,
            digits: &bytes[..end],
            fraction: point.map_or(0, |point| (end - point - 1) as i64),
            exponent,
        })
    }

    /// The number times ten to the `scale` as a whole number; `None` when it has more than
    /// [`MAX_DIGITS`] digits, or when digits would be lost and rounding refuses.
    fn scaled(&self, scale: i64, rounding: Rounding) -> Option<i128> {
        let significant = || {
            self.digits
                .iter()
                .filter(|byte| **byte != b'.')
                .map(|byte| byte - b'0')
                .skip_while(|digit| *digit == 0)
        };
        let count = significant().count() as i64;
        if count == 0 {
            return Some(0);
        }
        let shift = self.exponent - self.fraction + scale;
        let kept = count + shift;
        if kept > MAX_DIGITS {
            return None;
        }
        let mut value = 0i128;
        let mut digits = significant();
        for _ in 0..count.min(kept.max(0)) {
            value = value * 10 + i128::from(digits.next().unwrap_or(0));
        }
        for _ in 0..shift.max(0) {
            value *= 10;
        }
        if shift < 0 {
            // When even the first digit is below the last kept place, zeros come first.
            let next = if kept < 0 {
                0
            } else {
                digits.next().unwrap_or(0)
            };
            match rounding {
                Rounding::HalfUp => value += i128::from(next >= 5),
                Rounding::Refuse => {
                    if kept < 0 || next != 0 || digits.any(|digit| digit != 0) {
                        return None;
                    }
                }
            }
        }
        Some(if self.negative { -value } else { value })
    }
}

fn parse_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = (value * 10 + i64::from(digit - b'0')).min(MAX_EXPONENT);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let max38 = "99999999999999999999999999999999999999";
        for (text, precision, scale, expected) in [
            ("1", 10, 2, Ok(100)),
            ("-1.5", 10, 2, Ok(-150)),
            ("+.5", 10, 2, Ok(50)),
            ("5.", 10, 2, Ok(500)),
            ("1.005", 10, 2, Ok(101)),
            ("1.0049999", 10, 2, Ok(100)),
            ("-1.005", 10, 2, Ok(-101)),
            ("0.004", 10, 2, Ok(0)),
            ("0.005", 10, 2, Ok(1)),
            ("0.0005", 10, 2, Ok(0)),
            ("1.23e2", 10, 2, Ok(12300)),
            ("12345e-5", 10, 2, Ok(12)),
            ("99.99", 4, 2, Ok(9999)),
            ("99.995", 4, 2, Err(DecimalError::Overflow)),
            ("100", 4, 2, Err(DecimalError::Overflow)),
            (
                "0000000000000000000000000000000000000000000001",
                1,
                0,
                Ok(1),
            ),
            ("1e40", 38, 0, Err(DecimalError::Overflow)),
            ("1e99999999999999999999", 38, 0, Err(DecimalError::Overflow)),
            ("0e99999999999999999999", 38, 0, Ok(0)),
            ("1e-99999999999999999999", 38, 0, Ok(0)),
            (max38, 38, 0, Ok(10i128.pow(38) - 1)),
            ("", 10, 2, Err(DecimalError::Syntax)),
            (".", 10, 2, Err(DecimalError::Syntax)),
            ("-", 10, 2, Err(DecimalError::Syntax)),
            ("1.2.3", 10, 2, Err(DecimalError::Syntax)),
            ("1e", 10, 2, Err(DecimalError::Syntax)),
            ("1e+", 10, 2, Err(DecimalError::Syntax)),
            ("e5", 10, 2, Err(DecimalError::Syntax)),
            ("NaN", 10, 2, Err(DecimalError::Syntax)),
            ("1 ", 10, 2, Err(DecimalError::Syntax)),
        ] {
            assert_eq!(parse_decimal(text, precision, scale), expected, "{text}");
        }
    }
}
