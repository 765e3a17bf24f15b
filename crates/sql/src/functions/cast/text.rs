//! Casts to STRING, and the texts of numbers and times.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, StringArray, StringBuilder},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType,
    },
};
use datafusion_common::{Result, exec_err, internal_err};

use super::{
    Rules,
    time::{format_date, format_time, write_timestamp},
};

/// Casts any array to STRING.
pub(super) fn to_text(array: &ArrayRef, rules: &Rules) -> Result<ArrayRef> {
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * 12);
    let mut buffer = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        buffer.clear();
        write_value(array, row, rules, &mut buffer)?;
        builder.append_value(&buffer);
    }
    Ok(Arc::new(builder.finish()))
}

/// Writes a value; `NULL` inside nested ones.
fn write_value(array: &ArrayRef, row: usize, rules: &Rules, out: &mut String) -> Result<()> {
    if array.is_null(row) {
        out.push_str("NULL");
        return Ok(());
    }
    macro_rules! value {
        ($type:ty) => {
            array.as_primitive::<$type>().value(row)
        };
    }
    macro_rules! plain {
        ($value:expr) => {
            write!(out, "{}", $value).map_err(|_| internal_error())?
        };
    }
    match array.data_type() {
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) {
            "TRUE"
        } else {
            "FALSE"
        }),
        DataType::Int8 => plain!(value!(Int8Type)),
        DataType::Int16 => plain!(value!(Int16Type)),
        DataType::Int32 => plain!(value!(Int32Type)),
        DataType::Int64 => plain!(value!(Int64Type)),
        DataType::Float32 => out.push_str(&float_text(value!(Float32Type))),
        DataType::Float64 => out.push_str(&double_text(value!(Float64Type))),
        DataType::Decimal128(_, scale) => write_decimal(value!(Decimal128Type), *scale, out),
        DataType::Date32 => out.push_str(&format_date(value!(Date32Type))),
        DataType::Time32(_) => out.push_str(&format_time(value!(Time32MillisecondType))),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_ref().map(|_| rules.zone);
            match unit {
                TimeUnit::Millisecond => {
                    write_timestamp(value!(TimestampMillisecondType), 1_000, zone, out)
                }
                TimeUnit::Microsecond => {
                    write_timestamp(value!(TimestampMicrosecondType), 1_000_000, zone, out)
                }
                TimeUnit::Nanosecond => {
                    write_timestamp(value!(TimestampNanosecondType), 1_000_000_000, zone, out)
                }
                TimeUnit::Second => return internal_err!("timestamps in seconds"),
            }
        }
        DataType::Binary => match std::str::from_utf8(array.as_binary::<i32>().value(row)) {
            Ok(text) => out.push_str(text),
            Err(_) if rules.lenient => out.push_str(&String::from_utf8_lossy(
                array.as_binary::<i32>().value(row),
            )),
            Err(_) => {
                return exec_err!(
                    "cannot cast BYTES to STRING: the bytes are not UTF-8; DECODE with another character set, or TRY_CAST"
                );
            }
        },
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            out.push('[');
            for i in 0..values.len() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_value(&values, i, rules, out)?;
            }
            out.push(']');
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            out.push('{');
            for i in 0..entries.len() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_value(entries.column(0), i, rules, out)?;
                out.push('=');
                write_value(entries.column(1), i, rules, out)?;
            }
            out.push('}');
        }
        DataType::Struct(_) => {
            out.push('(');
            for (i, column) in array.as_struct().columns().iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_value(column, row, rules, out)?;
            }
            out.push(')');
        }
        other => return internal_err!("no cast from {other} to STRING"),
    }
    Ok(())
}

fn internal_error() -> datafusion_common::DataFusionError {
    datafusion_common::DataFusionError::Internal("writing to a string failed".into())
}

fn write_decimal(value: i128, scale: i8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let digits = value.unsigned_abs().to_string();
    let scale = scale.max(0) as usize;
    if scale == 0 {
        out.push_str(&digits);
        return;
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (integer, fraction) = padded.split_at(padded.len() - scale);
    out.push_str(integer);
    out.push('.');
    out.push_str(fraction);
}

/// A DOUBLE as Java writes it: `1.0`, `1.0E10`, `1.0E-5`, `NaN`, `-Infinity`.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() || value.is_infinite() || value == 0.0 {
        return special_text(value);
    }
    java_text(&format!("{value:e}"), value.abs())
}

/// A FLOAT as Java writes it.
pub(crate) fn float_text(value: f32) -> String {
    if value.is_nan() || value.is_infinite() || value == 0.0 {
        return special_text(f64::from(value));
    }
    java_text(&format!("{value:e}"), f64::from(value.abs()))
}

fn special_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let text = if value.is_infinite() {
        "Infinity"
    } else {
        "0.0"
    };
    format!("{sign}{text}")
}

/// From Rust's shortest scientific text (`-1.25e-7`).
fn java_text(scientific: &str, magnitude: f64) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let sign = if negative { "-" } else { "" };
    if !(1e-3..1e7).contains(&magnitude) {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let point = exponent as usize + 1;
    if digits.len() <= point {
        let zeros = "0".repeat(point - digits.len());
        return format!("{sign}{digits}{zeros}.0");
    }
    let (integer, fraction) = digits.split_at(point);
    format!("{sign}{integer}.{fraction}")
}

/// Cuts strings to characters, or bytes, of a length, and pads them if asked to.
pub(super) fn limit(array: &ArrayRef, length: usize, pad: bool) -> ArrayRef {
    // Padding to an absurd length would fill the memory.
    let pad_to = if pad { length.min(65_536) } else { 0 };
    if let Some(strings) = array.as_string_opt::<i32>() {
        let cut: StringArray = strings
            .iter()
            .map(|value| {
                value.map(|value| {
                    let mut text: String = value.chars().take(length).collect();
                    let missing = pad_to.saturating_sub(text.chars().count());
                    text.extend(std::iter::repeat_n(' ', missing));
                    text
                })
            })
            .collect();
        return Arc::new(cut);
    }
    if let Some(bytes) = array.as_binary_opt::<i32>() {
        let cut: BinaryArray = bytes
            .iter()
            .map(|value| {
                value.map(|value| {
                    let mut bytes = value[..value.len().min(length)].to_vec();
                    if bytes.len() < pad_to {
                        bytes.resize(pad_to, 0);
                    }
                    bytes
                })
            })
            .collect();
        return Arc::new(cut);
    }
    Arc::clone(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_in_java() {
        for (value, expected) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (1234567.5, "1234567.5"),
            (1e7, "1.0E7"),
            (1.5e10, "1.5E10"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (-2.5, "-2.5"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(double_text(value), expected);
        }
        assert_eq!(float_text(0.1), "0.1");
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (value, scale, expected) in [
            (12345, 2, "123.45"),
            (-5, 2, "-0.05"),
            (7, 0, "7"),
            (0, 3, "0.000"),
        ] {
            let mut text = String::new();
            write_decimal(value, scale, &mut text);
            assert_eq!(text, expected);
        }
    }
}
