//! One JSON value into a column.

use std::collections::HashSet;

use crate::error::quote;

use super::super::column::{Column, Values};
use super::super::value::{
    ValueError, ValueResult, append_checked_null, append_number, append_text, expectation,
};
use super::scan::Scanner;

/// Appends the next value to `column`. After an error the column may hold a part of it and
/// must be truncated.
///
/// Recursion goes as deep as the column's type, which the table's author wrote, never as
/// deep as the input.
pub(crate) fn append(column: &mut Column, scanner: &mut Scanner<'_>) -> ValueResult<()> {
    let Some(first) = scanner.peek() else {
        return Err(scanner.unexpected("a JSON value"));
    };
    let start = scanner.position();
    match first {
        b'"' => append_string(column, scanner).map_err(|error| error.at(start)),
        b'-' | b'0'..=b'9' => {
            let number = scanner.number()?;
            match &mut column.values {
                Values::Utf8(values) => {
                    values.bytes.extend_from_slice(number.as_bytes());
                    values.end_value();
                    column.end_value();
                    Ok(())
                }
                _ => append_number(column, number).map_err(|error| error.at(start)),
            }
        }
        b'n' => {
            scanner.literal("null")?;
            append_checked_null(column, "null").map_err(|error| error.at(start))
        }
        b't' | b'f' => {
            let value = first == b't';
            scanner.literal(if value { "true" } else { "false" })?;
            match &mut column.values {
                Values::Boolean(values) => values.append(value),
                Values::Utf8(values) => {
                    values
                        .bytes
                        .extend_from_slice(scanner.since(start).as_bytes());
                    values.end_value();
                }
                _ => return Err(mismatch(column, scanner.since(start)).at(start)),
            }
            column.end_value();
            Ok(())
        }
        b'[' | b'{' => append_container(column, scanner, start, first),
        _ => Err(scanner.unexpected("a JSON value")),
    }
}

#[cold]
fn mismatch(column: &Column, found: &str) -> Box<ValueError> {
    ValueError::new(expectation(column), crate::error::shorten(found))
}

fn append_string(column: &mut Column, scanner: &mut Scanner<'_>) -> ValueResult<()> {
    let token = scanner.string()?;
    if let Values::Utf8(values) = &mut column.values {
        token.append_to(&mut values.bytes)?;
        values.end_value();
        column.end_value();
        return Ok(());
    }
    if matches!(
        column.values,
        Values::List { .. } | Values::Struct { .. } | Values::Map { .. }
    ) {
        return Err(ValueError::new(expectation(column), quote(token.raw)));
    }
    if !token.escaped {
        return append_text(column, token.raw);
    }
    let mut text = Vec::new();
    token.append_to(&mut text)?;
    append_text(column, &String::from_utf8_lossy(&text))
}

fn append_container(
    column: &mut Column,
    scanner: &mut Scanner<'_>,
    start: usize,
    first: u8,
) -> ValueResult<()> {
    match (&mut column.values, first) {
        (Values::Utf8(values), _) => {
            // A STRING column takes any value, as the text that it is.
            scanner.skip()?;
            values
                .bytes
                .extend_from_slice(scanner.since(start).as_bytes());
            values.end_value();
            column.end_value();
            Ok(())
        }
        (Values::List { items, .. }, b'[') => {
            scanner.expect(b'[', "a JSON array")?;
            if !scanner.eat(b']') {
                for index in 0.. {
                    append(items, scanner).map_err(|error| error.in_item(index))?;
                    if !scanner.another(b']')? {
                        break;
                    }
                }
            }
            column.end_items();
            Ok(())
        }
        (Values::Struct { children, .. }, b'{') => {
            append_members(children, scanner)?;
            column.end_value();
            Ok(())
        }
        (Values::Map { keys, items, .. }, b'{') => {
            append_entries(keys, items, scanner)?;
            column.end_items();
            Ok(())
        }
        _ => {
            // The whole value tells more than its first bracket; if it is malformed, that
            // is the error.
            scanner.skip()?;
            Err(mismatch(column, scanner.since(start)).at(start))
        }
    }
}

/// Appends what a member that is not there stands for.
pub(super) fn append_missing(column: &mut Column) -> ValueResult<()> {
    const MISSING: &str = "no such member";
    let appended = if column.required {
        Err(ValueError::new(expectation(column), MISSING))
    } else {
        append_checked_null(column, MISSING)
    };
    appended.map_err(|error| error.in_field(&column.name))
}

/// The members of an object into the columns of a ROW.
fn append_members(children: &mut [Column], scanner: &mut Scanner<'_>) -> ValueResult<()> {
    // The fields of a ROW grow together.
    let length = children.first().map_or(0, Column::len);
    scanner.expect(b'{', "a JSON object")?;
    if !scanner.eat(b'}') {
        let mut unescaped = Vec::new();
        loop {
            let name = scanner.member_name()?;
            let position = if name.escaped {
                unescaped.clear();
                name.append_to(&mut unescaped)?;
                children
                    .iter()
                    .position(|child| child.name.as_bytes() == unescaped)
            } else {
                children.iter().position(|child| child.name == name.raw)
            };
            match position {
                None => scanner.skip()?,
                Some(index) => {
                    let child = &mut children[index];
                    // Does nothing unless the member is repeated; the last one counts.
                    child.truncate(length);
                    append(child, scanner).map_err(|error| error.in_field(&child.name))?;
                }
            }
            if !scanner.another(b'}')? {
                break;
            }
        }
    }
    for child in children {
        if child.len() == length {
            append_missing(child)?;
        }
    }
    Ok(())
}

/// The members of an object as the entries of a MAP.
fn append_entries(
    keys: &mut Column,
    items: &mut Column,
    scanner: &mut Scanner<'_>,
) -> ValueResult<()> {
    let first = keys.len();
    let start = scanner.position();
    scanner.expect(b'{', "a JSON object")?;
    if scanner.eat(b'}') {
        return Ok(());
    }
    loop {
        let name = scanner.member_name()?;
        if let Values::Utf8(values) = &mut keys.values {
            name.append_to(&mut values.bytes)?;
            values.end_value();
            keys.end_value();
        }
        append(items, scanner).map_err(|error| error.in_field(name.raw))?;
        if !scanner.another(b'}')? {
            break;
        }
    }
    match repeated_key(keys, first) {
        None => Ok(()),
        Some(key) => Err(ValueError::new(
            "every key of a MAP once",
            format!("{} again", quote(&String::from_utf8_lossy(key))),
        )
        .at(start)),
    }
}

/// A key that is there twice among those from `first` on.
fn repeated_key(keys: &Column, first: usize) -> Option<&[u8]> {
    /// Up to here comparing each with each is faster than hashing.
    const FEW: usize = 12;
    let Values::Utf8(values) = &keys.values else {
        return None;
    };
    let all = first..keys.len();
    if all.len() <= FEW {
        return all
            .clone()
            .map(|index| values.value(index))
            .enumerate()
            .find(|(place, key)| (first..first + place).any(|other| values.value(other) == *key))
            .map(|(_, key)| key);
    }
    let mut seen = HashSet::with_capacity(all.len());
    all.map(|index| values.value(index))
        .find(|key| !seen.insert(*key))
}
