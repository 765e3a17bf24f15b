//! What is wrong with a script, where, and what to do about it.
//!
//! Every message stands on its own without the position; positions count from 1 and refer
//! to the script as given.

use std::fmt;

use datafusion_expr::sqlparser::tokenizer::{Location, Span};
use serde::{Deserialize, Serialize};

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The script compiles; something is probably not as meant.
    Warning,
    /// The script does not compile.
    Error,
}

/// One finding about a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// First line, from 1.
    pub line: u64,
    /// First column, in characters, from 1.
    pub column: u64,
    pub end_line: u64,
    /// One past the last column.
    pub end_column: u64,
    /// Stable and kebab-case, such as `unknown-column`.
    pub code: &'static str,
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub(crate) fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        let (start, end) = if span.start.line == 0 {
            (Location::new(1, 1), Location::new(1, 1))
        } else {
            (span.start, span.end)
        };
        Diagnostic {
            severity: Severity::Error,
            line: start.line,
            column: start.column,
            end_line: end.line.max(start.line),
            end_column: end.column,
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// A warning at `span`.
    pub(crate) fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, span, message)
        }
    }

    /// A clause that Millrace knows but does not run yet.
    pub(crate) fn unsupported(span: Span, clause: &str) -> Self {
        Diagnostic::error(
            "unsupported",
            span,
            format!("{clause} is not supported yet"),
        )
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_optional_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Result of compiling one construct.
pub(crate) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// Shorthand for the error arm of an [`Outcome`].
pub(crate) fn fail<T>(code: &'static str, span: Span, message: impl Into<String>) -> Outcome<T> {
    Err(Box::new(Diagnostic::error(code, span, message)))
}

/// Up to three of `candidates` that are spelled like `name`, nearest first.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let distance = edit_distance(&wanted, &lower);
            let limit = wanted.chars().count().max(lower.chars().count()) / 3;
            let related = distance <= limit
                || (wanted.len().min(lower.len()) >= 4
                    && (lower.contains(&wanted) || wanted.contains(&lower)));
            related.then_some((distance, candidate))
        })
        .collect();
    scored.sort();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// `did you mean a, b or c?`, if anything is near.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let near = nearest(name, candidates);
    let (last, rest) = near.split_last()?;
    Some(if rest.is_empty() {
        format!("did you mean `{last}`?")
    } else {
        format!("did you mean `{}` or `{last}`?", rest.join("`, `"))
    })
}

/// Levenshtein distance over characters, of the first 64 of each.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replace = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The smallest span that covers both; an empty span covers nothing.
pub(crate) fn cover(a: Span, b: Span) -> Span {
    if a.start.line == 0 {
        return b;
    }
    if b.start.line == 0 {
        return a;
    }
    Span::new(a.start.min(b.start), a.end.max(b.end))
}

/// `inner` unless it says nothing, else `outer`.
pub(crate) fn or_span(inner: Span, outer: Span) -> Span {
    if inner.start.line == 0 { outer } else { inner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_suggested() {
        let names = ["SUBSTRING", "SUBSTR", "SPLIT_INDEX", "UPPER"];
        assert_eq!(nearest("substrng", names), ["SUBSTRING", "SUBSTR"]);
        assert_eq!(
            did_you_mean("uper", names).unwrap(),
            "did you mean `UPPER`?"
        );
        assert_eq!(did_you_mean("quantile", names), None);
    }

    #[test]
    fn display_has_position_message_and_hint() {
        let span = Span::new(Location::new(3, 5), Location::new(3, 9));
        let diagnostic = Diagnostic::unsupported(span, "JOIN").with_hint("use a window");
        assert_eq!(
            diagnostic.to_string(),
            "3:5: JOIN is not supported yet; use a window"
        );
    }
}
