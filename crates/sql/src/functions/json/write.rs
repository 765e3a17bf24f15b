//! JSON_STRING, JSON_OBJECT, JSON_ARRAY: SQL values as JSON.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray},
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

use super::scan::quote;
use crate::functions::{
    call::Call,
    cast::{Rules, cast_array},
};

pub(super) fn json_string(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    call.make_strings(|row, out| {
        if array.is_null(row) {
            return Ok(None);
        }
        write_json(&array, row, call, out)?;
        Ok(Some(()))
    })
}

/// The first argument is `NULL` or `ABSENT`, then the numbers of arguments that are JSON.
fn mode(call: &Call) -> Result<(bool, Vec<usize>)> {
    let text = call.strings(0)?.get(0).unwrap_or("NULL");
    let mut words = text.split(' ');
    let keeps_nulls = words.next() == Some("NULL");
    Ok((
        keeps_nulls,
        words.filter_map(|word| word.parse().ok()).collect(),
    ))
}

fn arrays(call: &Call) -> Result<Vec<ArrayRef>> {
    (0..call.len()).map(|i| call.array(i)).collect()
}

pub(super) fn json_object(call: &Call) -> Result<ColumnarValue> {
    let (keeps_nulls, raw) = mode(call)?;
    let arrays = arrays(call)?;
    call.make_strings(|row, out| {
        out.push('{');
        let mut first = true;
        for i in (1..arrays.len()).step_by(2) {
            let (key, value) = (&arrays[i], &arrays[i + 1]);
            if key.is_null(row) || (value.is_null(row) && !keeps_nulls) {
                continue;
            }
            if !first {
                out.push(',');
            }
            first = false;
            write_json(key, row, call, out)?;
            out.push(':');
            write_member(value, row, raw.contains(&(i + 1)), call, out)?;
        }
        out.push('}');
        Ok(Some(()))
    })
}

pub(super) fn json_array(call: &Call) -> Result<ColumnarValue> {
    let (keeps_nulls, raw) = mode(call)?;
    let arrays = arrays(call)?;
    call.make_strings(|row, out| {
        out.push('[');
        let mut first = true;
        for (i, value) in arrays.iter().enumerate().skip(1) {
            if value.is_null(row) && !keeps_nulls {
                continue;
            }
            if !first {
                out.push(',');
            }
            first = false;
            write_member(value, row, raw.contains(&i), call, out)?;
        }
        out.push(']');
        Ok(Some(()))
    })
}

fn write_member(
    array: &ArrayRef,
    row: usize,
    raw: bool,
    call: &Call,
    out: &mut String,
) -> Result<()> {
    match array.as_string_opt::<i32>() {
        Some(json) if raw && !json.is_null(row) => {
            out.push_str(json.value(row));
            Ok(())
        }
        _ => write_json(array, row, call, out),
    }
}

fn write_json(array: &ArrayRef, row: usize, call: &Call, out: &mut String) -> Result<()> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Utf8 => quote(array.as_string::<i32>().value(row), out),
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) {
            "true"
        } else {
            "false"
        }),
        DataType::Float32 => {
            write_float(
                f64::from(array.as_primitive::<Float32Type>().value(row)),
                out,
            );
        }
        DataType::Float64 => write_float(array.as_primitive::<Float64Type>().value(row), out),
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            out.push('[');
            for i in 0..values.len() {
                if i > 0 {
                    out.push(',');
                }
                write_json(&values, i, call, out)?;
            }
            out.push(']');
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let keys = text_of(entries.column(0), call)?;
            out.push('{');
            for i in 0..entries.len() {
                if i > 0 {
                    out.push(',');
                }
                quote(keys.value(i), out);
                out.push(':');
                write_json(entries.column(1), i, call, out)?;
            }
            out.push('}');
        }
        DataType::Struct(fields) => {
            out.push('{');
            for (i, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                if i > 0 {
                    out.push(',');
                }
                quote(field.name(), out);
                out.push(':');
                write_json(column, row, call, out)?;
            }
            out.push('}');
        }
        other => {
            let value = array.slice(row, 1);
            let text = text_of(&value, call)?;
            if other.is_numeric() {
                out.push_str(text.value(0));
            } else {
                quote(text.value(0), out);
            }
        }
    }
    Ok(())
}

fn write_float(value: f64, out: &mut String) {
    // JSON has no infinities.
    if value.is_finite() {
        let written = write!(out, "{value:?}");
        debug_assert!(written.is_ok());
    } else {
        out.push_str("null");
    }
}

fn text_of(array: &ArrayRef, call: &Call) -> Result<StringArray> {
    let rules = Rules {
        zone: call.context.zone,
        lenient: true,
    };
    let text: ArrayRef = cast_array(&Arc::clone(array), &DataType::Utf8, &rules)?;
    Ok(text.as_string::<i32>().clone())
}
