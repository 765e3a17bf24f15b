//! String functions: case, length, trimming, padding, cutting, joining.
//! Positions and lengths count characters, from 1, unless said otherwise.

use arrow::datatypes::Int32Type;
use datafusion_common::{Result, exec_err};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{
        Definition,
        Kind::{Integer, String as Str},
        Nulls, Returns,
    },
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("UPPER", &[Str], Returns::String, upper).aliases(&["UCASE"]),
    Definition::new("LOWER", &[Str], Returns::String, lower).aliases(&["LCASE"]),
    Definition::new("INITCAP", &[Str], Returns::String, initcap),
    Definition::new("CHAR_LENGTH", &[Str], Returns::Int, char_length)
        .aliases(&["CHARACTER_LENGTH", "LENGTH"]),
    Definition::new("||", &[Str, Str], Returns::String, concat),
    Definition::new("CONCAT", &[Str], Returns::String, concat).variadic(),
    Definition::new("CONCAT_WS", &[Str, Str], Returns::String, concat_ws)
        .optional(1)
        .variadic()
        .nulls(Nulls::Possible),
    Definition::new("$TRIM", &[Str, Str, Str], Returns::String, trim).optional(1),
    Definition::new("BTRIM", &[Str, Str], Returns::String, |call| {
        trim_by(call, 0, 1, true, true)
    })
    .optional(1),
    Definition::new("LTRIM", &[Str, Str], Returns::String, |call| {
        trim_by(call, 0, 1, true, false)
    })
    .optional(1),
    Definition::new("RTRIM", &[Str, Str], Returns::String, |call| {
        trim_by(call, 0, 1, false, true)
    })
    .optional(1),
    Definition::new("REPEAT", &[Str, Integer], Returns::String, repeat),
    Definition::new("REPLACE", &[Str, Str, Str], Returns::String, replace),
    Definition::new("REVERSE", &[Str], Returns::String, reverse),
    Definition::new("LEFT", &[Str, Integer], Returns::String, left),
    Definition::new("RIGHT", &[Str, Integer], Returns::String, right),
    Definition::new("LPAD", &[Str, Integer, Str], Returns::String, |call| {
        pad(call, true)
    })
    .nulls(Nulls::Possible),
    Definition::new("RPAD", &[Str, Integer, Str], Returns::String, |call| {
        pad(call, false)
    })
    .nulls(Nulls::Possible),
    Definition::new(
        "SUBSTRING",
        &[Str, Integer, Integer],
        Returns::String,
        substring,
    )
    .aliases(&["SUBSTR"])
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "OVERLAY",
        &[Str, Str, Integer, Integer],
        Returns::String,
        overlay,
    )
    .optional(1),
    Definition::new("TRANSLATE", &[Str, Str, Str], Returns::String, translate),
    Definition::new("$COUNT_CHAR", &[Str, Str], Returns::BigInt, count_char),
];

/// Longest string a function may make of a short one.
pub(super) const MAX_MADE_BYTES: usize = 16 << 20;

fn upper(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        if text.is_ascii() {
            out.push_str(text);
            out.make_ascii_uppercase();
        } else {
            out.push_str(&text.to_uppercase());
        }
        Ok(Some(()))
    })
}

fn lower(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        if text.is_ascii() {
            out.push_str(text);
            out.make_ascii_lowercase();
        } else {
            out.push_str(&text.to_lowercase());
        }
        Ok(Some(()))
    })
}

fn initcap(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        let mut inside = false;
        for c in text.chars() {
            if inside {
                out.extend(c.to_lowercase());
            } else {
                out.extend(c.to_uppercase());
            }
            inside = c.is_alphanumeric();
        }
        Ok(Some(()))
    })
}

fn char_length(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make::<Int32Type>(|row| Ok(text.get(row).map(|text| count(text) as i32)))
}

/// Characters of a string.
fn count(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// Byte position of the character with this number, from 0; the end if there are fewer.
fn byte_of(text: &str, character: usize) -> usize {
    if text.is_ascii() {
        return character.min(text.len());
    }
    text.char_indices()
        .nth(character)
        .map_or(text.len(), |(at, _)| at)
}

fn concat(call: &Call) -> Result<ColumnarValue> {
    let parts = (0..call.len())
        .map(|i| call.strings(i))
        .collect::<Result<Vec<_>>>()?;
    call.make_strings(|row, out| {
        for part in &parts {
            let Some(part) = part.get(row) else {
                return Ok(None);
            };
            out.push_str(part);
        }
        Ok(Some(()))
    })
}

/// Joins the non-null parts.
fn concat_ws(call: &Call) -> Result<ColumnarValue> {
    let parts = (0..call.len())
        .map(|i| call.strings(i))
        .collect::<Result<Vec<_>>>()?;
    call.make_strings(|row, out| {
        let Some(separator) = parts[0].get(row) else {
            return Ok(None);
        };
        let mut first = true;
        for part in parts[1..].iter().filter_map(|part| part.get(row)) {
            if !first {
                out.push_str(separator);
            }
            first = false;
            out.push_str(part);
        }
        Ok(Some(()))
    })
}

/// `TRIM(side, text, characters)`.
fn trim(call: &Call) -> Result<ColumnarValue> {
    let side = call.strings(0)?.get(0).unwrap_or("BOTH");
    trim_by(call, 1, 2, side != "TRAILING", side != "LEADING")
}

fn trim_by(
    call: &Call,
    text: usize,
    characters: usize,
    leading: bool,
    trailing: bool,
) -> Result<ColumnarValue> {
    let text = call.strings(text)?;
    let set = match characters < call.len() {
        true => Some(call.strings(characters)?),
        false => None,
    };
    call.make_slices(|row| {
        let set = match &set {
            Some(set) => set.get(row),
            None => Some(" "),
        };
        let (Some(mut text), Some(set)) = (text.get(row), set) else {
            return Ok(None);
        };
        let unwanted = |c: char| set.contains(c);
        if leading {
            text = text.trim_start_matches(unwanted);
        }
        if trailing {
            text = text.trim_end_matches(unwanted);
        }
        Ok(Some(text))
    })
}

fn repeat(call: &Call) -> Result<ColumnarValue> {
    let (text, times) = (call.strings(0)?, call.longs(1)?);
    call.make_strings(|row, out| {
        let (Some(text), Some(times)) = (text.get(row), times.get(row)) else {
            return Ok(None);
        };
        let times = usize::try_from(times).unwrap_or(0);
        if text.len().saturating_mul(times) > MAX_MADE_BYTES {
            return exec_err!("REPEAT makes more than {MAX_MADE_BYTES} bytes");
        }
        (0..times).for_each(|_| out.push_str(text));
        Ok(Some(()))
    })
}

fn replace(call: &Call) -> Result<ColumnarValue> {
    let (text, from, to) = (call.strings(0)?, call.strings(1)?, call.strings(2)?);
    call.make_strings(|row, out| {
        let (Some(text), Some(from), Some(to)) = (text.get(row), from.get(row), to.get(row)) else {
            return Ok(None);
        };
        if from.is_empty() {
            out.push_str(text);
            return Ok(Some(()));
        }
        let mut rest = text;
        while let Some(at) = rest.find(from) {
            out.push_str(&rest[..at]);
            out.push_str(to);
            rest = &rest[at + from.len()..];
        }
        out.push_str(rest);
        Ok(Some(()))
    })
}

fn reverse(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    call.make_strings(|row, out| {
        let Some(text) = text.get(row) else {
            return Ok(None);
        };
        out.extend(text.chars().rev());
        Ok(Some(()))
    })
}

fn left(call: &Call) -> Result<ColumnarValue> {
    let (text, length) = (call.strings(0)?, call.longs(1)?);
    call.make_slices(|row| {
        let (Some(text), Some(length)) = (text.get(row), length.get(row)) else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(0);
        Ok(Some(&text[..byte_of(text, length)]))
    })
}

fn right(call: &Call) -> Result<ColumnarValue> {
    let (text, length) = (call.strings(0)?, call.longs(1)?);
    call.make_slices(|row| {
        let (Some(text), Some(length)) = (text.get(row), length.get(row)) else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(0);
        let skipped = count(text).saturating_sub(length);
        Ok(Some(&text[byte_of(text, skipped)..]))
    })
}

/// Lengths count UTF-16 units, as in Flink: a character beyond the basic plane counts twice.
fn pad(call: &Call, on_left: bool) -> Result<ColumnarValue> {
    let (text, length, with) = (call.strings(0)?, call.longs(1)?, call.strings(2)?);
    call.make_strings(|row, out| {
        let (Some(text), Some(length), Some(with)) =
            (text.get(row), length.get(row), with.get(row))
        else {
            return Ok(None);
        };
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        if with.is_empty() {
            return Ok(None);
        }
        if length > MAX_MADE_BYTES / 4 {
            return exec_err!("padding to {length} characters makes too long a string");
        }
        let have = text.encode_utf16().count();
        if have >= length {
            let mut units = 0;
            out.extend(text.chars().take_while(|c| {
                units += c.len_utf16();
                units <= length
            }));
            return Ok(Some(()));
        }
        let mut missing = length - have;
        let padding = with.chars().cycle().take_while(|c| {
            let fits = c.len_utf16() <= missing;
            missing = missing.saturating_sub(c.len_utf16());
            fits
        });
        if on_left {
            out.extend(padding);
            out.push_str(text);
        } else {
            out.push_str(text);
            out.extend(padding);
        }
        Ok(Some(()))
    })
}

/// A negative start counts from the end; a negative length gives null.
fn substring(call: &Call) -> Result<ColumnarValue> {
    let (text, start) = (call.strings(0)?, call.longs(1)?);
    let length = match call.len() {
        3 => Some(call.longs(2)?),
        _ => None,
    };
    call.make_slices(|row| {
        let length = match &length {
            Some(length) => length.get(row),
            None => Some(i64::MAX),
        };
        let (Some(text), Some(start), Some(length)) = (text.get(row), start.get(row), length)
        else {
            return Ok(None);
        };
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let from = match start {
            0 => 0,
            1.. => usize::try_from(start - 1).unwrap_or(usize::MAX),
            _ => match count(text).checked_sub(start.unsigned_abs() as usize) {
                Some(from) => from,
                None => return Ok(Some("")),
            },
        };
        let rest = &text[byte_of(text, from)..];
        Ok(Some(&rest[..byte_of(rest, length)]))
    })
}

fn overlay(call: &Call) -> Result<ColumnarValue> {
    let (text, with, from) = (call.strings(0)?, call.strings(1)?, call.longs(2)?);
    let length = match call.len() {
        4 => Some(call.longs(3)?),
        _ => None,
    };
    call.make_strings(|row, out| {
        let (Some(text), Some(with), Some(from)) = (text.get(row), with.get(row), from.get(row))
        else {
            return Ok(None);
        };
        let length = match &length {
            Some(length) => length.get(row),
            None => Some(count(with) as i64),
        };
        let Some(length) = length else {
            return Ok(None);
        };
        // A place outside of the string replaces nothing.
        if from <= 0 || from > count(text) as i64 {
            out.push_str(text);
            return Ok(Some(()));
        }
        let start = byte_of(text, (from - 1) as usize);
        let skipped = usize::try_from(from - 1 + length.max(0)).unwrap_or(usize::MAX);
        out.push_str(&text[..start]);
        out.push_str(with);
        out.push_str(&text[byte_of(text, skipped).max(start)..]);
        Ok(Some(()))
    })
}

fn translate(call: &Call) -> Result<ColumnarValue> {
    let (text, from, to) = (call.strings(0)?, call.strings(1)?, call.strings(2)?);
    call.make_strings(|row, out| {
        let (Some(text), Some(from), Some(to)) = (text.get(row), from.get(row), to.get(row)) else {
            return Ok(None);
        };
        let to: Vec<char> = to.chars().collect();
        for c in text.chars() {
            match from.chars().position(|other| other == c) {
                Some(at) => out.extend(to.get(at)),
                None => out.push(c),
            }
        }
        Ok(Some(()))
    })
}

/// How often the first character of the second string is in the first.
fn count_char(call: &Call) -> Result<ColumnarValue> {
    let (text, wanted) = (call.strings(0)?, call.strings(1)?);
    call.make::<arrow::datatypes::Int64Type>(|row| {
        let (Some(text), Some(wanted)) = (text.get(row), wanted.get(row)) else {
            return Ok(None);
        };
        let Some(wanted) = wanted.chars().next() else {
            return Ok(Some(0));
        };
        Ok(Some(match u8::try_from(wanted) {
            Ok(byte) if byte.is_ascii() => {
                text.bytes().filter(|other| *other == byte).count() as i64
            }
            _ => text.chars().filter(|other| *other == wanted).count() as i64,
        }))
    })
}
