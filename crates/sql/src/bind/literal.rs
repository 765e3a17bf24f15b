//! Literals: numbers, strings, bytes, dates and times, intervals.

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::{
    ast::{DataType as AstType, DateTimeField, Expr as Ast, Interval, TypedString, Value},
    tokenizer::Span,
};

use super::{Binder, Bound, refuse};
use crate::{
    diagnostic::{Outcome, fail},
    flink_type::FlinkType,
};

/// Binds a number, string, boolean, null or byte string.
pub(super) fn bind_value(value: &Value, span: Span) -> Outcome<Bound> {
    let scalar = match value {
        Value::Number(text, _) => number(text, false, span)?,
        Value::SingleQuotedString(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::UnicodeStringLiteral(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Value::Null => ScalarValue::Null,
        Value::HexStringLiteral(text) => match hex(text) {
            Some(bytes) => ScalarValue::Binary(Some(bytes)),
            None => {
                let message = format!("X'{text}' is not pairs of hexadecimal digits");
                return fail("invalid-literal", span, message);
            }
        },
        Value::DoubleQuotedString(text) => {
            return Err(Box::new(
                crate::diagnostic::Diagnostic::error(
                    "syntax",
                    span,
                    format!("\"{text}\" is not a string in this dialect"),
                )
                .with_hint("write strings in single quotes and names in backticks"),
            ));
        }
        other => return refuse(span, &format!("the literal {other}")),
    };
    Ok(Bound::literal(scalar, span))
}

/// The value of a numeric literal: INT, BIGINT, DECIMAL, or DOUBLE if it has an exponent.
pub(super) fn number(text: &str, negative: bool, span: Span) -> Outcome<ScalarValue> {
    let signed = if negative {
        format!("-{text}")
    } else {
        text.to_string()
    };
    let invalid = || fail("invalid-literal", span, format!("{signed} is not a number"));
    if text.contains(['e', 'E']) {
        return match signed.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(ScalarValue::Float64(Some(value))),
            _ => invalid(),
        };
    }
    if let Ok(value) = signed.parse::<i32>() {
        return Ok(ScalarValue::Int32(Some(value)));
    }
    if let Ok(value) = signed.parse::<i64>() {
        return Ok(ScalarValue::Int64(Some(value)));
    }
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let integer = integer.trim_start_matches('0');
    if integer.len() + fraction.len() > 38 {
        return fail(
            "invalid-literal",
            span,
            format!("{signed} has more than 38 digits"),
        );
    }
    // Leading zeros of the fraction count as digits only as far as the scale needs them.
    let digits = format!("{integer}{fraction}");
    let significant = digits.trim_start_matches('0').len().max(1);
    let precision = significant.max(fraction.len()) as u8;
    match format!("0{digits}").parse::<i128>() {
        Ok(value) => Ok(ScalarValue::Decimal128(
            Some(if negative { -value } else { value }),
            precision,
            fraction.len() as i8,
        )),
        Err(_) => invalid(),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes
        .chunks(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

impl Binder {
    /// `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`.
    pub(super) fn bind_typed_string(&self, typed: &TypedString, span: Span) -> Outcome<Bound> {
        let Value::SingleQuotedString(text) = &typed.value.value else {
            return refuse(span, "this literal");
        };
        let flink_type = match &typed.data_type {
            AstType::Date => FlinkType::Date,
            AstType::Time(_, _) => FlinkType::Time(0),
            AstType::Timestamp(_, _) => {
                // As precise as its digits, like in Flink; at least the event-time precision.
                let fraction = text
                    .split_once('.')
                    .map_or(0, |(_, fraction)| fraction.len());
                FlinkType::Timestamp(fraction.clamp(3, 9) as u8)
            }
            other => return refuse(span, &format!("a literal of type {other}")),
        };
        let literal = Bound::literal(ScalarValue::Utf8(Some(text.clone())), span);
        match self.cast(literal, &flink_type, false, span) {
            Ok(bound) => Ok(bound),
            Err(_) => {
                let form = match flink_type {
                    FlinkType::Date => "yyyy-MM-dd",
                    FlinkType::Time(_) => "HH:mm:ss",
                    _ => "yyyy-MM-dd HH:mm:ss[.fff]",
                };
                let message = format!("'{text}' is not a {} of the form {form}", typed.data_type);
                fail("invalid-literal", span, message)
            }
        }
    }
}

/// A constant interval, in months and milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConstantInterval {
    pub(crate) months: i32,
    pub(crate) millis: i64,
}

impl ConstantInterval {
    /// Reads a literal as the binder makes it.
    pub(crate) fn of(bound: &Bound) -> Option<Self> {
        match bound.constant()? {
            ScalarValue::IntervalMonthDayNano(Some(value)) => Some(ConstantInterval {
                months: value.months,
                millis: value.nanoseconds / 1_000_000,
            }),
            _ => None,
        }
    }

    pub(crate) fn bind(self, span: Span) -> Outcome<Bound> {
        let Some(nanoseconds) = self.millis.checked_mul(1_000_000) else {
            return fail("invalid-literal", span, "the interval is too long");
        };
        let value = IntervalMonthDayNano::new(self.months, 0, nanoseconds);
        Ok(Bound::literal(
            ScalarValue::IntervalMonthDayNano(Some(value)),
            span,
        ))
    }
}

/// Binds `INTERVAL '…' unit [TO unit]` to a literal of months or milliseconds.
pub(super) fn bind_interval(interval: &Interval, span: Span) -> Outcome<Bound> {
    let (text, sign) = match interval.value.as_ref() {
        Ast::Value(value) => (literal_text(&value.value), 1),
        Ast::UnaryOp {
            op: datafusion_expr::sqlparser::ast::UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Ast::Value(value) => (literal_text(&value.value), -1),
            _ => (None, 1),
        },
        _ => (None, 1),
    };
    let Some(text) = text else {
        return refuse(span, "INTERVAL of something else than a literal");
    };
    let Some(unit) = &interval.leading_field else {
        return fail(
            "syntax",
            span,
            "INTERVAL needs a unit: INTERVAL '10' SECOND",
        );
    };
    let last = interval.last_field.as_ref().unwrap_or(unit);
    let parsed = parse_interval(text.trim(), unit, last);
    match parsed {
        Some(mut value) => {
            value.months *= sign;
            value.millis *= i64::from(sign);
            value.bind(span)
        }
        None => {
            let units = if unit == last {
                unit.to_string()
            } else {
                format!("{unit} TO {last}")
            };
            fail(
                "invalid-literal",
                span,
                format!("'{text}' is not an interval of {units}"),
            )
        }
    }
}

fn literal_text(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        Value::Number(text, _) => Some(text.clone()),
        _ => None,
    }
}

/// Position of a unit from coarse to fine, and its length: months, or milliseconds.
fn unit_rank(unit: &DateTimeField) -> Option<(usize, i64, bool)> {
    Some(match unit {
        DateTimeField::Year | DateTimeField::Years => (0, 12, true),
        DateTimeField::Quarter => (0, 3, true),
        DateTimeField::Month | DateTimeField::Months => (1, 1, true),
        DateTimeField::Week(_) | DateTimeField::Weeks => (2, 604_800_000, false),
        DateTimeField::Day | DateTimeField::Days => (2, 86_400_000, false),
        DateTimeField::Hour | DateTimeField::Hours => (3, 3_600_000, false),
        DateTimeField::Minute | DateTimeField::Minutes => (4, 60_000, false),
        DateTimeField::Second | DateTimeField::Seconds => (5, 1_000, false),
        DateTimeField::Millisecond | DateTimeField::Milliseconds => (6, 1, false),
        _ => return None,
    })
}

fn parse_interval(
    text: &str,
    first: &DateTimeField,
    last: &DateTimeField,
) -> Option<ConstantInterval> {
    let (first_rank, first_length, months) = unit_rank(first)?;
    let (last_rank, _, last_months) = unit_rank(last)?;
    if last_rank < first_rank || months != last_months {
        return None;
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let parts: Vec<&str> = text.split([' ', ':', '-']).collect();
    let wanted = last_rank - first_rank + 1;
    if parts.len() != wanted {
        return None;
    }
    let lengths = if months {
        [12, 1, 0, 0, 0, 0, 0]
    } else {
        [0, 0, 86_400_000, 3_600_000, 60_000, 1_000, 1]
    };
    let mut total: i64 = 0;
    for (i, part) in parts.iter().enumerate() {
        let rank = first_rank + i;
        let length = if i == 0 { first_length } else { lengths[rank] };
        let (whole, fraction) = match part.split_once('.') {
            Some((whole, fraction)) if rank == 5 && i + 1 == wanted => (whole, fraction),
            Some(_) => return None,
            None => (*part, ""),
        };
        let whole: i64 = whole.parse::<u32>().ok()?.into();
        total = total.checked_add(whole.checked_mul(length)?)?;
        if !fraction.is_empty() {
            let millis = format!("{fraction:0<3}");
            total = total.checked_add(millis.get(..3)?.parse::<u16>().ok()?.into())?;
        }
    }
    let total = if negative { -total } else { total };
    Some(if months {
        ConstantInterval {
            months: i32::try_from(total).ok()?,
            millis: 0,
        }
    } else {
        ConstantInterval {
            months: 0,
            millis: total,
        }
    })
}

/// The type of interval literals.
pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_flinks_types() {
        for (text, expected) in [
            ("1", ScalarValue::Int32(Some(1))),
            ("2147483648", ScalarValue::Int64(Some(2_147_483_648))),
            ("0.908", ScalarValue::Decimal128(Some(908), 3, 3)),
            ("1.50", ScalarValue::Decimal128(Some(150), 3, 2)),
            (
                "9223372036854775808",
                ScalarValue::Decimal128(Some(9_223_372_036_854_775_808), 19, 0),
            ),
            ("1e3", ScalarValue::Float64(Some(1000.0))),
        ] {
            assert_eq!(
                number(text, false, Span::empty()).unwrap(),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            number("2147483648", true, Span::empty()).unwrap(),
            ScalarValue::Int32(Some(i32::MIN))
        );
        assert!(number(&"9".repeat(39), false, Span::empty()).is_err());
    }

    #[test]
    fn intervals_have_months_or_milliseconds() {
        use DateTimeField::*;
        let parse =
            |text, first, last| parse_interval(text, &first, &last).map(|i| (i.months, i.millis));
        assert_eq!(parse("10", Second, Second), Some((0, 10_000)));
        assert_eq!(parse("1.5", Second, Second), Some((0, 1_500)));
        assert_eq!(parse("-2", Minutes, Minutes), Some((0, -120_000)));
        assert_eq!(parse("1 02:03:04.005", Day, Second), Some((0, 93_784_005)));
        assert_eq!(parse("2-3", Year, Month), Some((27, 0)));
        assert_eq!(parse("1:30", Minute, Second), Some((0, 90_000)));
        assert_eq!(parse("1.5", Minute, Minute), None);
        assert_eq!(parse("x", Second, Second), None);
        assert_eq!(parse("1", Second, Minute), None);
    }
}
