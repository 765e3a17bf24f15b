//! Regular expressions, and SIMILAR TO.
//!
//! Patterns are those of the `regex` crate: linear time, without look-around and
//! back-references. Constant patterns are checked when the script is compiled; one that
//! comes from data and is not valid gives null.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ListBuilder, StringBuilder},
    datatypes::{DataType, Field, Int32Type},
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use regex::{Regex, RegexBuilder};

use super::{
    arguments::Strings,
    call::Call,
    registry::{
        Definition,
        Kind::{Integer, String as Str},
        Nulls, Returns,
    },
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("REGEXP", &[Str, Str], Returns::Computed(boolean), matches)
        .aliases(&["REGEXP_LIKE"])
        .nulls(Nulls::Possible),
    Definition::new(
        "REGEXP_EXTRACT",
        &[Str, Str, Integer],
        Returns::Computed(string),
        extract,
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "REGEXP_EXTRACT_ALL",
        &[Str, Str, Integer],
        Returns::Computed(strings),
        extract_all,
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "REGEXP_REPLACE",
        &[Str, Str, Str],
        Returns::Computed(string),
        replace,
    )
    .nulls(Nulls::Possible),
    Definition::new("REGEXP_COUNT", &[Str, Str], Returns::Computed(int), count)
        .nulls(Nulls::Possible),
    Definition::new("REGEXP_INSTR", &[Str, Str], Returns::Computed(int), instr)
        .nulls(Nulls::Possible),
    Definition::new(
        "REGEXP_SUBSTR",
        &[Str, Str],
        Returns::Computed(string),
        substr,
    )
    .nulls(Nulls::Possible),
    Definition::new(
        "$SIMILAR_TO",
        &[Str, Str, Str],
        Returns::Boolean,
        similar_to,
    )
    .nulls(Nulls::Possible),
];

/// Memory that one compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 4 << 20;
/// Patterns from data that are kept compiled during one evaluation.
const MAX_CACHED: usize = 256;

type Types = Result<(Vec<DataType>, DataType), String>;

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
}

fn checked(types: &[DataType], literals: &[Option<ScalarValue>], result: DataType) -> Types {
    if let Some(Some(ScalarValue::Utf8(Some(pattern)))) = literals.get(1)
        && let Err(error) = compile(pattern)
    {
        let text = error.to_string();
        let reason = text
            .lines()
            .last()
            .unwrap_or("not valid")
            .trim_start_matches("error: ");
        return Err(format!(
            "the regular expression '{pattern}' cannot be used: {reason}"
        ));
    }
    Ok((types.to_vec(), result))
}

fn boolean(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    checked(types, literals, DataType::Boolean)
}

fn string(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    checked(types, literals, DataType::Utf8)
}

fn strings(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    let item = Field::new("item", DataType::Utf8, true);
    checked(types, literals, DataType::List(Arc::new(item)))
}

fn int(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    checked(types, literals, DataType::Int32)
}

/// Compiled patterns of an argument.
struct Patterns<'a> {
    texts: Strings<'a>,
    constant: Option<Option<Regex>>,
    cache: HashMap<&'a str, Option<Regex>>,
}

impl<'a> Patterns<'a> {
    fn of(call: &Call<'a>, i: usize) -> Result<Self> {
        let texts = call.strings(i)?;
        let constant = match &texts {
            Strings::Constant(text) => Some(text.and_then(|text| compile(text).ok())),
            Strings::Array(_) => None,
        };
        Ok(Patterns {
            texts,
            constant,
            cache: HashMap::new(),
        })
    }

    fn constant(&self) -> Option<&Regex> {
        self.constant.as_ref().and_then(Option::as_ref)
    }

    fn get(&mut self, row: usize) -> Option<&Regex> {
        if let Some(constant) = &self.constant {
            return constant.as_ref();
        }
        let text = self.texts.get(row)?;
        if self.cache.len() >= MAX_CACHED {
            self.cache.clear();
        }
        self.cache
            .entry(text)
            .or_insert_with(|| compile(text).ok())
            .as_ref()
    }
}

fn matches(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make_booleans(|row| {
        let (Some(text), Some(pattern)) = (text.get(row), patterns.get(row)) else {
            return Ok(None);
        };
        Ok(Some(!pattern.as_str().is_empty() && pattern.is_match(text)))
    })
}

fn extract(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    let group = match call.len() {
        3 => Some(call.longs(2)?),
        _ => None,
    };
    // Places of groups, reused from row to row for a constant pattern.
    let mut places = patterns.constant().map(Regex::capture_locations);
    call.make_slices(|row| {
        let group = group.as_ref().map_or(Some(0), |group| group.get(row));
        let (Some(text), Some(pattern), Some(group)) = (text.get(row), patterns.get(row), group)
        else {
            return Ok(None);
        };
        let Ok(group) = usize::try_from(group) else {
            return Ok(None);
        };
        if group == 0 {
            return Ok(pattern.find(text).map(|found| found.as_str()));
        }
        if let Some(places) = &mut places {
            let found = pattern
                .captures_read(places, text)
                .and_then(|_| places.get(group));
            return Ok(found.map(|(start, end)| &text[start..end]));
        }
        Ok(pattern
            .captures(text)
            .and_then(|captures| captures.get(group))
            .map(|found| found.as_str()))
    })
}

fn extract_all(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    let group = match call.len() {
        3 => Some(call.longs(2)?),
        _ => None,
    };
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..call.row_count() {
        let group = group.as_ref().map_or(Some(1), |group| group.get(row));
        let group = group.and_then(|group| usize::try_from(group).ok());
        let (Some(text), Some(pattern), Some(group)) = (text.get(row), patterns.get(row), group)
        else {
            builder.append(false);
            continue;
        };
        if group >= pattern.captures_len() {
            builder.append(false);
            continue;
        }
        for captures in pattern.captures_iter(text) {
            let found = captures.get(group).map(|found| found.as_str());
            builder.values().append_option(found);
        }
        builder.append(true);
    }
    call.finish(Arc::new(builder.finish()))
}

fn replace(call: &Call) -> Result<ColumnarValue> {
    let (text, replacement) = (call.strings(0)?, call.strings(2)?);
    let mut patterns = Patterns::of(call, 1)?;
    call.make_strings(|row, out| {
        let (Some(text), Some(pattern), Some(replacement)) =
            (text.get(row), patterns.get(row), replacement.get(row))
        else {
            return Ok(None);
        };
        let mut end = 0;
        for captures in pattern.captures_iter(text) {
            let Some(whole) = captures.get(0) else {
                continue;
            };
            out.push_str(&text[end..whole.start()]);
            if !expand(replacement, &captures, out) {
                return Ok(None);
            }
            end = whole.end();
        }
        out.push_str(&text[end..]);
        Ok(Some(()))
    })
}

/// Writes a replacement in Java's notation: `$1`, `${name}`, `\$`. False if it is malformed.
fn expand(replacement: &str, captures: &regex::Captures, out: &mut String) -> bool {
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c) => out.push(c),
                None => return false,
            },
            '$' if chars.peek() == Some(&'{') => {
                chars.next();
                let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                if let Some(found) = captures.name(&name) {
                    out.push_str(found.as_str());
                }
            }
            '$' => {
                let Some(first) = chars.peek().and_then(|c| c.to_digit(10)) else {
                    return false;
                };
                chars.next();
                let mut group = first as usize;
                if group >= captures.len() {
                    return false;
                }
                // More digits belong to the number as long as such a group exists.
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer >= captures.len() {
                        break;
                    }
                    group = longer;
                    chars.next();
                }
                if let Some(found) = captures.get(group) {
                    out.push_str(found.as_str());
                }
            }
            c => out.push(c),
        }
    }
    true
}

fn count(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<Int32Type>(|row| {
        let (Some(text), Some(pattern)) = (text.get(row), patterns.get(row)) else {
            return Ok(None);
        };
        Ok(Some(pattern.find_iter(text).count() as i32))
    })
}

fn instr(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make::<Int32Type>(|row| {
        let (Some(text), Some(pattern)) = (text.get(row), patterns.get(row)) else {
            return Ok(None);
        };
        Ok(Some(match pattern.find(text) {
            Some(found) => 1 + text[..found.start()].chars().count() as i32,
            None => 0,
        }))
    })
}

fn substr(call: &Call) -> Result<ColumnarValue> {
    let text = call.strings(0)?;
    let mut patterns = Patterns::of(call, 1)?;
    call.make_slices(|row| {
        let (Some(text), Some(pattern)) = (text.get(row), patterns.get(row)) else {
            return Ok(None);
        };
        Ok(pattern.find(text).map(|found| found.as_str()))
    })
}

fn similar_to(call: &Call) -> Result<ColumnarValue> {
    let (text, pattern, escape) = (call.strings(0)?, call.strings(1)?, call.strings(2)?);
    let escape = escape.get(0).and_then(|escape| escape.chars().next());
    let mut last: Option<(&str, Option<Regex>)> = None;
    call.make_booleans(|row| {
        let (Some(text), Some(pattern)) = (text.get(row), pattern.get(row)) else {
            return Ok(None);
        };
        if last.as_ref().is_none_or(|(known, _)| *known != pattern) {
            last = Some((pattern, compile(&similar_pattern(pattern, escape)).ok()));
        }
        let compiled = last.as_ref().and_then(|(_, compiled)| compiled.as_ref());
        Ok(compiled.map(|compiled| compiled.is_match(text)))
    })
}

/// A SIMILAR TO pattern as a regular expression over the whole string.
fn similar_pattern(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(literal) = chars.next() {
                    out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                }
            }
            '[' => {
                in_class = true;
                out.push(c);
            }
            ']' => {
                in_class = false;
                out.push(c);
            }
            '%' if !in_class => out.push_str(".*"),
            '_' if !in_class => out.push('.'),
            '.' | '^' | '$' if !in_class => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push_str(")$");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_patterns() {
        for (pattern, text, expected) in [
            ("(a|b)%", "banana", true),
            ("a.c", "abc", false),
            ("a.c", "a.c", true),
            ("[a-c]_", "bx", true),
            ("100\\%", "100%", true),
            ("100\\%", "1000", false),
        ] {
            let regex = compile(&similar_pattern(pattern, Some('\\'))).unwrap();
            assert_eq!(regex.is_match(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn replacements_follow_java() {
        let regex = Regex::new("(b)(a)").unwrap();
        let captures = regex.captures("ba").unwrap();
        let mut out = String::new();
        assert!(expand("$2-$1-\\$1-$10", &captures, &mut out));
        assert_eq!(out, "a-b-$1-b0");
        assert!(!expand("$9", &captures, &mut String::new()));
    }
}
