//! Reads the options of one format out of a table's `WITH` options.

use std::collections::BTreeMap;

use crate::decode::OnError;
use crate::error::{FormatError, shorten};

use super::FormatKind;

const ON_ERROR: &str = "on-error";

/// The options of a format, without its prefix.
fn names(kind: FormatKind) -> &'static [&'static str] {
    match kind {
        FormatKind::Json => &[
            "fail-on-missing-field",
            "timestamp-format.standard",
            "encode.decimal-as-plain-number",
            "encode.ignore-null-fields",
            "ignore-parse-errors",
            "max-record-bytes",
        ],
        FormatKind::DebeziumJson => &[
            "timestamp-format.standard",
            "encode.decimal-as-plain-number",
            "encode.ignore-null-fields",
            "max-record-bytes",
        ],
        FormatKind::Csv => &[
            "header",
            "field-delimiter",
            "quote-character",
            "disable-quote-character",
            "escape-character",
            "null-literal",
            "allow-comments",
            "ignore-parse-errors",
            "max-record-bytes",
        ],
        FormatKind::Raw => &["max-record-bytes"],
        FormatKind::Parquet => &["compression"],
    }
}

/// Every option that a format reads, in full.
pub(super) fn all() -> Vec<String> {
    let prefixed = FormatKind::ALL.into_iter().flat_map(|kind| {
        let full = move |name: &&str| format!("{}.{name}", kind.name());
        names(kind).iter().map(full)
    });
    ["format", ON_ERROR]
        .map(str::to_owned)
        .into_iter()
        .chain(prefixed)
        .collect()
}

/// The format whose prefix `key` has, and the rest of the key.
fn split(key: &str) -> Option<(FormatKind, &str)> {
    FormatKind::ALL.into_iter().find_map(|kind| {
        let name = key.strip_prefix(kind.name())?.strip_prefix('.')?;
        Some((kind, name))
    })
}

/// Whether `key` is the format's rather than the connector's.
pub(super) fn owns(key: &str) -> bool {
    key == "format" || key == ON_ERROR || split(key).is_some()
}

/// The `WITH` options of a table, checked to hold no unknown option of a format.
pub(super) struct Options<'a> {
    pub(super) kind: FormatKind,
    all: &'a BTreeMap<String, String>,
}

impl<'a> Options<'a> {
    pub(super) fn new(all: &'a BTreeMap<String, String>) -> Result<Options<'a>, FormatError> {
        let valid = FormatKind::ALL.map(FormatKind::name);
        let Some(format) = all.get("format") else {
            return Err(FormatError::NoFormat {
                valid: quoted_list(&valid),
            });
        };
        let kind = FormatKind::ALL
            .into_iter()
            .find(|kind| kind.name() == format)
            .ok_or_else(|| FormatError::UnknownFormat {
                format: shorten(format),
                hint: hint(format, &valid),
            })?;
        for key in all.keys() {
            let Some((owner, name)) = split(key) else {
                continue;
            };
            if owner == kind && names(kind).contains(&name) {
                continue;
            }
            let hint = if owner == kind {
                let keys: Vec<String> = names(kind)
                    .iter()
                    .map(|name| format!("{}.{name}", kind.name()))
                    .collect();
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                hint(key, &keys)
            } else {
                format!(
                    "it belongs to format '{}'; leave it out or set 'format' to that",
                    owner.name()
                )
            };
            return Err(FormatError::UnknownOption {
                option: shorten(key),
                format: kind.name(),
                hint,
            });
        }
        Ok(Options { kind, all })
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.kind.name())
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.all.get(&self.key(name)).map(String::as_str)
    }

    /// The error for the value of option `name`.
    pub(super) fn bad_value(&self, name: &str, expected: impl Into<String>) -> FormatError {
        FormatError::BadOption {
            option: self.key(name),
            value: shorten(self.text(name).unwrap_or("")),
            expected: expected.into(),
        }
    }

    pub(super) fn boolean(&self, name: &str, default: bool) -> Result<bool, FormatError> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.bad_value(name, "'true' or 'false'")),
        }
    }

    pub(super) fn number(
        &self,
        name: &str,
        default: usize,
        min: usize,
        max: usize,
    ) -> Result<usize, FormatError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse()
            .ok()
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| self.bad_value(name, format!("a whole number from {min} to {max}")))
    }

    /// The value that goes with the text of the option (in any case); the first of `choices`
    /// when it is not given.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<T, FormatError> {
        let expected = || {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.bad_value(name, format!("one of {}", quoted_list(&names)))
        };
        let found = match self.text(name) {
            None => choices.first(),
            Some(text) => choices
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(text)),
        };
        found.map(|(_, value)| *value).ok_or_else(expected)
    }

    /// An option that is a single character; `\t` may be spelled with a backslash.
    pub(super) fn byte(&self, name: &str, default: Option<u8>) -> Result<Option<u8>, FormatError> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let text = if text == "\\t" { "\t" } else { text };
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(Some(*byte)),
            _ => Err(self.bad_value(name, "one ASCII character that is not a line end")),
        }
    }

    pub(super) fn on_error(&self) -> Result<OnError, FormatError> {
        match self.all.get(ON_ERROR).map(String::as_str) {
            None | Some("fail") => Ok(OnError::Fail),
            Some("skip") => Ok(OnError::Skip),
            Some("dead-letter") => Ok(OnError::DeadLetter),
            Some(other) => Err(FormatError::BadOption {
                option: ON_ERROR.to_owned(),
                value: shorten(other),
                expected: "one of 'fail', 'skip', 'dead-letter'".to_owned(),
            }),
        }
    }

    /// Flink's `ignore-parse-errors` would leave errors uncounted.
    pub(super) fn refuse_ignore_parse_errors(&self) -> Result<(), FormatError> {
        if self.boolean("ignore-parse-errors", false)? {
            return Err(self.bad_value(
                "ignore-parse-errors",
                "'on-error' = 'skip' or 'dead-letter' instead, which count what they leave out",
            ));
        }
        Ok(())
    }

    /// Decimals are always written as plain numbers.
    pub(super) fn require_plain_decimals(&self) -> Result<(), FormatError> {
        const NAME: &str = "encode.decimal-as-plain-number";
        if !self.boolean(NAME, true)? {
            return Err(self.bad_value(NAME, "'true': DECIMALs are always plain numbers"));
        }
        Ok(())
    }

    pub(super) fn refuse_beside(&self, name: &str, other: &str) -> Result<(), FormatError> {
        match self.text(name) {
            None => Ok(()),
            Some(_) => Err(self.bad_value(name, format!("no such option beside {other}"))),
        }
    }
}

fn quoted_list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    quoted.join(", ")
}

/// "did you mean", if a valid name is near, and all of them.
fn hint(given: &str, valid: &[&str]) -> String {
    // An option of hundreds of characters is near to nothing; comparing it would only cost.
    let near = valid
        .iter()
        .filter(|_| given.len() <= 100)
        .map(|name| (distance(given, name), *name))
        .min()
        .filter(|(distance, name)| *distance <= name.len() / 3);
    match near {
        Some((_, name)) => format!("did you mean '{name}'? Valid are {}", quoted_list(valid)),
        None => format!("valid are {}", quoted_list(valid)),
    }
}

/// Insertions, deletions and replacements of characters between two names.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, from) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, to) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
