//! JSON functions over STRINGs.

mod path;
mod scan;
mod write;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder},
    datatypes::{DataType, Field},
};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;

use super::{
    arguments::bad_value,
    call::Call,
    cast::{Rules, cast_array},
    registry::{
        Definition,
        Kind::{Any, String as Str},
        Nulls, Returns,
    },
};
use crate::{flink_type::type_name, statement::type_syntax::type_from_text};
use path::Path;
use scan::{Shape, Slice, compact, document, quote, unescape};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("$IS_JSON", &[Str, Str], Returns::Boolean, is_json).nulls(Nulls::Never),
    Definition::new(
        "$JSON_EXISTS",
        &[Str, Str, Str],
        Returns::Computed(exists_types),
        json_exists,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "$JSON_VALUE",
        &[Str, Str, Str, Str, Any, Str, Any],
        Returns::Computed(value_types),
        json_value,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "$JSON_QUERY",
        &[Str, Str, Str, Str, Str, Str],
        Returns::Computed(query_types),
        json_query,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "JSON_STRING",
        &[Any],
        Returns::Computed(written_types),
        write::json_string,
    ),
    Definition::new(
        "$JSON_OBJECT",
        &[Str, Any],
        Returns::Computed(object_types),
        write::json_object,
    )
    .optional(1)
    .variadic()
    .nulls(Nulls::Never),
    Definition::new(
        "$JSON_ARRAY",
        &[Str, Any],
        Returns::Computed(written_types),
        write::json_array,
    )
    .optional(1)
    .variadic()
    .nulls(Nulls::Never),
    Definition::new("JSON_QUOTE", &[Str], Returns::String, json_quote),
    Definition::new("JSON_UNQUOTE", &[Str], Returns::String, json_unquote),
];

type Types = Result<(Vec<DataType>, DataType), String>;

fn literal(literals: &[Option<ScalarValue>], at: usize) -> Option<&str> {
    match literals.get(at) {
        Some(Some(ScalarValue::Utf8(Some(text)))) => Some(text),
        _ => None,
    }
}

fn constant_path(literals: &[Option<ScalarValue>]) -> Result<Path, String> {
    match literal(literals, 1) {
        Some(text) => Path::new(text),
        None => Err("the path must be a string literal".into()),
    }
}

fn exists_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    constant_path(literals)?;
    Ok((types.to_vec(), DataType::Boolean))
}

/// The type named by RETURNING; defaults are cast to it.
fn value_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    constant_path(literals)?;
    let returning = literal(literals, 2)
        .and_then(|text| type_from_text(text).ok())
        .map(|returning| returning.arrow());
    let result = match returning {
        Some(DataType::Utf8) => DataType::Utf8,
        Some(
            result @ (DataType::Boolean | DataType::Int32 | DataType::Int64 | DataType::Float64),
        ) => result,
        _ => return Err("RETURNING takes STRING, BOOLEAN, INTEGER, BIGINT or DOUBLE".into()),
    };
    let mut coerced = types.to_vec();
    for at in [4, 6] {
        coerced[at] = result.clone();
    }
    Ok((coerced, result))
}

fn query_types(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    constant_path(literals)?;
    let result = match literal(literals, 2) {
        Some("STRING") => DataType::Utf8,
        Some("ARRAY<STRING>") => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        _ => return Err("RETURNING takes STRING or ARRAY<STRING>".into()),
    };
    Ok((types.to_vec(), result))
}

fn object_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    if types.len().is_multiple_of(2) {
        return Err("every key needs a value".into());
    }
    let keys_are_strings = types[1..]
        .iter()
        .step_by(2)
        .all(|key| key == &DataType::Utf8);
    if !keys_are_strings {
        return Err("keys must be STRINGs".into());
    }
    written_types(types, &[])
}

/// Any values that have a form in JSON.
fn written_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let formless = |data_type: &&DataType| matches!(data_type, DataType::Interval(_));
    if let Some(formless) = types.iter().find(formless) {
        return Err(format!("{} has no form in JSON", type_name(formless)));
    }
    Ok((types.to_vec(), DataType::Utf8))
}

/// False for null.
fn is_json(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let kind = call.strings(1)?.get(0).unwrap_or("VALUE");
    call.make_booleans(|row| {
        let shape = text.get(row).and_then(document).map(|value| value.shape);
        Ok(Some(match shape {
            None => false,
            Some(Shape::Object) => matches!(kind, "VALUE" | "OBJECT"),
            Some(Shape::Array) => matches!(kind, "VALUE" | "ARRAY"),
            Some(_) => matches!(kind, "VALUE" | "SCALAR"),
        }))
    })
}

/// The call's constant path, which the binder has checked.
fn path_of(call: &Call) -> Result<Path> {
    let text = call.strings(1)?.get(0).unwrap_or("");
    Path::new(text).or_else(|why| exec_err!("{why}"))
}

fn json_exists(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let path = path_of(call)?;
    let on_error = call.strings(2)?.get(0).unwrap_or("FALSE");
    call.make_booleans(|row| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        let found = document(text).map(|document| path.find(document));
        Ok(match found {
            Some(Some(found)) => Some(!found.is_empty()),
            Some(None) if path.lax => Some(false),
            _ => match on_error {
                "TRUE" => Some(true),
                "FALSE" => Some(false),
                "UNKNOWN" => None,
                _ => return bad_value("JSON_EXISTS fails on", text),
            },
        })
    })
}

/// What a path leads to in a document.
enum Found<'a> {
    Values(Vec<Slice<'a>>),
    Empty,
    Error,
}

fn find<'a>(path: &Path, text: &'a str) -> Found<'a> {
    let Some(document) = document(text) else {
        return Found::Error;
    };
    match path.find(document) {
        Some(values) if values.is_empty() => Found::Empty,
        Some(values) => Found::Values(values),
        None if path.lax => Found::Empty,
        None => Found::Error,
    }
}

fn json_value(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let path = path_of(call)?;
    let on_empty = call.strings(3)?.get(0).unwrap_or("NULL");
    let on_error = call.strings(5)?.get(0).unwrap_or("NULL");
    let rows = call.row_count();
    let mut values: Vec<Option<String>> = Vec::with_capacity(rows);
    // Where the defaults stand in: 1 on empty, 2 on error.
    let mut defaults: Vec<u8> = vec![0; rows];
    for (row, marker) in defaults.iter_mut().enumerate() {
        let Some(text) = text.get(row) else {
            values.push(None);
            continue;
        };
        let (behaviour, default) = match find(&path, text) {
            Found::Values(found) => match found.as_slice() {
                [value] if value.shape == Shape::Null => {
                    values.push(None);
                    continue;
                }
                [value] if !matches!(value.shape, Shape::Object | Shape::Array) => {
                    let mut scalar = String::new();
                    if value.shape == Shape::Text {
                        unescape(&value.text[1..value.text.len() - 1], &mut scalar);
                    } else {
                        scalar.push_str(value.text);
                    }
                    if readable(&scalar, call.result)? {
                        values.push(Some(scalar));
                        continue;
                    }
                    (on_error, 2)
                }
                _ => (on_error, 2),
            },
            Found::Empty => (on_empty, 1),
            Found::Error => (on_error, 2),
        };
        match behaviour {
            "ERROR" => return bad_value("JSON_VALUE finds no scalar in", text),
            "DEFAULT" => *marker = default,
            _ => {}
        }
        values.push(None);
    }
    let strings: ArrayRef = Arc::new(StringArray::from(values));
    let rules = Rules {
        zone: call.context.zone,
        lenient: true,
    };
    let mut result = cast_array(&strings, call.result, &rules)?;
    for (marker, argument) in [(1, 4), (2, 6)] {
        if defaults.contains(&marker) {
            let mask: arrow::array::BooleanArray = defaults
                .iter()
                .map(|default| Some(*default == marker))
                .collect();
            result = arrow::compute::kernels::zip::zip(&mask, &call.array(argument)?, &result)?;
        }
    }
    call.finish(result)
}

/// Whether the text can be read as the type.
fn readable(text: &str, to: &DataType) -> Result<bool> {
    if to == &DataType::Utf8 {
        return Ok(true);
    }
    let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let rules = Rules {
        zone: chrono_tz::Tz::UTC,
        lenient: true,
    };
    Ok(!cast_array(&array, to, &rules)?.is_null(0))
}

fn json_query(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let path = path_of(call)?;
    let wrapper = call.strings(3)?.get(0).unwrap_or("WITHOUT");
    let on_empty = call.strings(4)?.get(0).unwrap_or("NULL");
    let on_error = call.strings(5)?.get(0).unwrap_or("NULL");
    let mut builder = StringBuilder::new();
    let mut buffer = String::new();
    for row in 0..call.row_count() {
        let Some(text) = text.get(row) else {
            builder.append_null();
            continue;
        };
        buffer.clear();
        let behaviour = match find(&path, text) {
            Found::Values(values) => {
                let single = values.len() == 1 && !path.is_many();
                let container = matches!(values[0].shape, Shape::Object | Shape::Array);
                let wrap = match wrapper {
                    "UNCONDITIONAL" => true,
                    "CONDITIONAL" => !(single && container),
                    _ => false,
                };
                if wrap || !single {
                    if !wrap && wrapper == "WITHOUT" && !path.is_many() {
                        Some(on_error)
                    } else {
                        write_array(&values, &mut buffer);
                        None
                    }
                } else if container {
                    compact(values[0], &mut buffer);
                    None
                } else {
                    Some(on_error)
                }
            }
            Found::Empty => Some(on_empty),
            Found::Error => Some(on_error),
        };
        match behaviour {
            None => builder.append_value(&buffer),
            Some("EMPTY ARRAY") => builder.append_value("[]"),
            Some("EMPTY OBJECT") => builder.append_value("{}"),
            Some("ERROR") => return bad_value("JSON_QUERY finds no value in", text),
            Some(_) => builder.append_null(),
        }
    }
    let strings: ArrayRef = Arc::new(builder.finish());
    match call.result {
        DataType::Utf8 => call.finish(strings),
        _ => call.finish(as_string_list(&strings)),
    }
}

fn write_array(values: &[Slice], out: &mut String) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        compact(*value, out);
    }
    out.push(']');
}

/// JSON arrays as ARRAY<STRING>; anything else is null.
fn as_string_list(strings: &ArrayRef) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for text in strings.as_string::<i32>() {
        match text.and_then(document) {
            Some(array) if array.shape == Shape::Array => {
                for element in scan::elements(array) {
                    let mut text = String::new();
                    match element.shape {
                        Shape::Null => {
                            builder.values().append_null();
                            continue;
                        }
                        Shape::Text => {
                            unescape(&element.text[1..element.text.len() - 1], &mut text);
                        }
                        _ => compact(element, &mut text),
                    }
                    builder.values().append_value(&text);
                }
                builder.append(true);
            }
            _ => builder.append(false),
        }
    }
    Arc::new(builder.finish())
}

fn json_quote(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        quote(text, out);
        Ok(Some(()))
    })
}

/// What is not a JSON string stays as it is.
fn json_unquote(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        match document(text) {
            Some(value) if value.shape == Shape::Text => {
                unescape(&value.text[1..value.text.len() - 1], out);
            }
            _ => out.push_str(text),
        }
        Ok(Some(()))
    })
}
