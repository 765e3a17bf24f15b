//! Searching and splitting strings, and tests of what they consist of.

use std::sync::Arc;

use arrow::{
    array::{ListBuilder, MapBuilder, StringBuilder},
    datatypes::{DataType, Field, Int32Type},
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{
        Definition,
        Kind::{Any, Integer, String as Str},
        Nulls, Returns,
    },
};
use crate::flink_type::map_type;

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("LOCATE", &[Str, Str, Integer], Returns::Int, locate).optional(1),
    Definition::new("INSTR", &[Str, Str], Returns::Int, instr),
    Definition::new("STARTSWITH", &[Str, Str], Returns::Boolean, |call| {
        test(call, |text, part| text.starts_with(part))
    }),
    Definition::new("ENDSWITH", &[Str, Str], Returns::Boolean, |call| {
        test(call, |text, part| text.ends_with(part))
    }),
    Definition::new(
        "SPLIT_INDEX",
        &[Str, Any, Integer],
        Returns::Computed(split_index_types),
        split_index,
    )
    .nulls(Nulls::Possible),
    Definition::new("SPLIT", &[Str, Str], Returns::Computed(split_types), split),
    Definition::new(
        "STR_TO_MAP",
        &[Str, Str, Str],
        Returns::Computed(str_to_map_types),
        str_to_map,
    )
    .optional(2),
    Definition::new("ELT", &[Integer, Str], Returns::String, elt)
        .variadic()
        .nulls(Nulls::Possible),
    Definition::new("ASCII", &[Str], Returns::Int, ascii),
    Definition::new("CHR", &[Integer], Returns::String, chr),
    Definition::new("IS_ALPHA", &[Str], Returns::Boolean, |call| {
        classify(call, |text| {
            !text.is_empty() && text.chars().all(char::is_alphabetic)
        })
    })
    .nulls(Nulls::Never),
    Definition::new("IS_DIGIT", &[Str], Returns::Boolean, |call| {
        classify(call, |text| {
            !text.is_empty() && text.chars().all(char::is_numeric)
        })
    })
    .nulls(Nulls::Never),
    Definition::new("IS_DECIMAL", &[Str], Returns::Boolean, |call| {
        classify(call, is_decimal)
    })
    .nulls(Nulls::Never),
];

/// 1-based position of `part` at or after character `from`, or 0.
fn position(text: &str, part: &str, from: i64) -> i32 {
    let skipped = usize::try_from(from - 1).unwrap_or(0);
    let start = match text.char_indices().nth(skipped) {
        Some((start, _)) => start,
        None if skipped == text.chars().count() => text.len(),
        None => return 0,
    };
    match text[start..].find(part) {
        Some(at) => 1 + text[..start + at].chars().count() as i32,
        None => 0,
    }
}

fn locate(call: &Call) -> Result<ColumnarValue> {
    let (part, text) = (call.strings(0)?, call.strings(1)?);
    let from = match call.len() {
        3 => Some(call.longs(2)?),
        _ => None,
    };
    call.make::<Int32Type>(|row| {
        let from = match &from {
            Some(from) => from.get(row),
            None => Some(1),
        };
        let (Some(part), Some(text), Some(from)) = (part.get(row), text.get(row), from) else {
            return Ok(None);
        };
        Ok(Some(if from <= 0 {
            0
        } else {
            position(text, part, from)
        }))
    })
}

fn instr(call: &Call) -> Result<ColumnarValue> {
    let (text, part) = (call.strings(0)?, call.strings(1)?);
    call.make::<Int32Type>(|row| {
        let (Some(text), Some(part)) = (text.get(row), part.get(row)) else {
            return Ok(None);
        };
        Ok(Some(position(text, part, 1)))
    })
}

fn test(call: &Call, holds: fn(&str, &str) -> bool) -> Result<ColumnarValue> {
    let (text, part) = (call.strings(0)?, call.strings(1)?);
    call.make_booleans(|row| {
        let (Some(text), Some(part)) = (text.get(row), part.get(row)) else {
            return Ok(None);
        };
        Ok(Some(holds(text, part)))
    })
}

/// False for null.
fn classify(call: &Call, holds: fn(&str) -> bool) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_booleans(|row| Ok(Some(text.get(row).is_some_and(holds))))
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut seen = false;
    let mut point = false;
    for c in digits.chars() {
        match c {
            '0'..='9' => seen = true,
            '.' if !point => point = true,
            _ => return false,
        }
    }
    seen
}

type Types = Result<(Vec<DataType>, DataType), String>;

/// The separator may be a string or the code of a character.
fn split_index_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    match &types[1] {
        DataType::Utf8 | DataType::Null => Ok((
            vec![DataType::Utf8, DataType::Utf8, DataType::Int64],
            DataType::Utf8,
        )),
        code if code.is_signed_integer() => Ok((
            vec![DataType::Utf8, DataType::Int64, DataType::Int64],
            DataType::Utf8,
        )),
        _ => Err("the separator must be a STRING or the code of a character".into()),
    }
}

fn split_index(call: &Call) -> Result<ColumnarValue> {
    let (text, index) = (call.strings(0)?, call.longs(2)?);
    if call.data_type(1) == DataType::Utf8 {
        let separator = call.strings(1)?;
        return call.make_slices(|row| {
            let (Some(text), Some(separator), Some(index)) =
                (text.get(row), separator.get(row), index.get(row))
            else {
                return Ok(None);
            };
            Ok(part(text, separator, index))
        });
    }
    let code = call.longs(1)?;
    call.make_slices(|row| {
        let (Some(text), Some(code), Some(index)) = (text.get(row), code.get(row), index.get(row))
        else {
            return Ok(None);
        };
        let separator = u32::try_from(code).ok().and_then(char::from_u32);
        Ok(separator.and_then(|separator| part(text, separator.encode_utf8(&mut [0; 4]), index)))
    })
}

/// The part with this number, from 0. An empty separator stands for white space.
fn part<'a>(text: &'a str, separator: &str, index: i64) -> Option<&'a str> {
    let index = usize::try_from(index).ok()?;
    if text.is_empty() {
        return None;
    }
    if separator.is_empty() {
        return text.split(char::is_whitespace).nth(index);
    }
    match separator.as_bytes() {
        // Searching a byte is much faster than searching a string.
        [byte] => text.split(char::from(*byte)).nth(index),
        _ => text.split(separator).nth(index),
    }
}

fn strings_list() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
}

fn split_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    Ok((types.to_vec(), strings_list()))
}

/// All parts; an empty separator splits into characters.
fn split(call: &Call) -> Result<ColumnarValue> {
    let (text, separator) = (call.strings(0)?, call.strings(1)?);
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..call.row_count() {
        match (text.get(row), separator.get(row)) {
            (Some(text), Some("")) => {
                for c in text.chars() {
                    builder.values().append_value(c.encode_utf8(&mut [0; 4]));
                }
                builder.append(true);
            }
            (Some(text), Some(separator)) => {
                for part in text.split(separator) {
                    builder.values().append_value(part);
                }
                builder.append(true);
            }
            _ => builder.append(false),
        }
    }
    call.finish(Arc::new(builder.finish()))
}

fn str_to_map_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    Ok((types.to_vec(), map_type(DataType::Utf8, DataType::Utf8)))
}

/// `a=1,b=2`; of entries with the same key the last counts; one without separator has a null value.
fn str_to_map(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let entry = if call.len() > 1 {
        Some(call.strings(1)?)
    } else {
        None
    };
    let pair = if call.len() > 2 {
        Some(call.strings(2)?)
    } else {
        None
    };
    let mut builder = MapBuilder::new(
        Some(super::map::field_names()),
        StringBuilder::new(),
        StringBuilder::new(),
    )
    .with_keys_field(Field::new("key", DataType::Utf8, false));
    for row in 0..call.row_count() {
        let entry = entry.as_ref().map_or(Some(","), |entry| entry.get(row));
        let pair = pair.as_ref().map_or(Some("="), |pair| pair.get(row));
        let (Some(text), Some(entry), Some(pair)) = (text.get(row), entry, pair) else {
            builder.append(false)?;
            continue;
        };
        let mut entries: Vec<(&str, Option<&str>)> = vec![];
        let parts: Box<dyn Iterator<Item = &str>> = match (text, entry) {
            ("", _) => Box::new(std::iter::empty()),
            (text, "") => Box::new(std::iter::once(text)),
            (text, entry) => Box::new(text.split(entry)),
        };
        for part in parts {
            let (key, value) = match part.split_once(pair).filter(|_| !pair.is_empty()) {
                Some((key, value)) => (key, Some(value)),
                None => (part, None),
            };
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = value,
                None => entries.push((key, value)),
            }
        }
        for (key, value) in entries {
            builder.keys().append_value(key);
            builder.values().append_option(value);
        }
        builder.append(true)?;
    }
    call.finish(Arc::new(builder.finish()))
}

fn elt(call: &Call) -> Result<ColumnarValue> {
    let index = call.longs(0)?;
    let choices = (1..call.len())
        .map(|i| call.strings(i))
        .collect::<Result<Vec<_>>>()?;
    call.make_slices(|row| {
        let chosen = index
            .get(row)
            .and_then(|index| usize::try_from(index - 1).ok())
            .and_then(|index| choices.get(index));
        Ok(chosen.and_then(|chosen| chosen.get(row)))
    })
}

fn ascii(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make::<Int32Type>(|row| {
        Ok(text
            .get(row)
            .map(|text| text.bytes().next().map_or(0, i32::from)))
    })
}

/// Codes from 256 on wrap; negative ones give the empty string.
fn chr(call: &Call) -> Result<ColumnarValue> {
    let code = call.longs(0)?;
    call.make_strings(|row, out| {
        let Some(code) = code.get(row) else {
            return Ok(None);
        };
        if code >= 0 {
            out.push(char::from((code & 0xFF) as u8));
        }
        Ok(Some(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        assert_eq!(position("äbcb", "b", 1), 2);
        assert_eq!(position("äbcb", "b", 3), 4);
        assert_eq!(position("abc", "", 4), 4);
        assert_eq!(position("abc", "x", 1), 0);
        assert_eq!(position("abc", "a", 9), 0);
    }

    #[test]
    fn parts_of_a_url() {
        let url = "https://www.nexmark.com/a/b/c/item.htm";
        assert_eq!(part(url, "/", 3), Some("a"));
        assert_eq!(part(url, "/", 99), None);
        assert_eq!(part(url, "/", -1), None);
        assert_eq!(part("", "/", 0), None);
        assert_eq!(part("a//b", "/", 1), Some(""));
    }
}
