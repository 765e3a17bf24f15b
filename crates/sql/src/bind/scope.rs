//! What names mean while an expression is bound.

use std::cell::RefCell;

use datafusion_expr::sqlparser::tokenizer::Span;

use super::aggregate::Aggregates;
use crate::{
    diagnostic::{Diagnostic, Outcome, did_you_mean},
    rel::Rel,
};

/// A column that an expression may name.
#[derive(Debug, Clone)]
pub(crate) struct ScopeColumn {
    /// The table's alias.
    pub(crate) qualifier: Option<String>,
    pub(crate) name: String,
    /// Position in the input relation.
    pub(crate) index: usize,
}

/// The columns in reach, and whether aggregate calls are allowed.
pub(crate) struct Scope<'a> {
    pub(crate) input: &'a Rel,
    pub(crate) columns: Vec<ScopeColumn>,
    /// Collects aggregate calls where they are allowed.
    pub(crate) aggregates: Option<&'a RefCell<Aggregates>>,
    /// Why they are not, where they are not: `WHERE`, `GROUP BY`.
    pub(crate) clause: &'static str,
}

impl<'a> Scope<'a> {
    /// All columns of a relation under their own names.
    pub(crate) fn of(input: &'a Rel, clause: &'static str) -> Self {
        Scope {
            input,
            columns: input
                .columns
                .iter()
                .enumerate()
                .map(|(index, column)| ScopeColumn {
                    qualifier: None,
                    name: column.name.clone(),
                    index,
                })
                .collect(),
            aggregates: None,
            clause,
        }
    }

    /// All columns of a relation under an alias.
    pub(crate) fn qualified(input: &'a Rel, alias: Option<&str>, clause: &'static str) -> Self {
        let mut scope = Scope::of(input, clause);
        for column in &mut scope.columns {
            column.qualifier = alias.map(str::to_string);
        }
        scope
    }

    /// Position of the column of this name, if there is exactly one.
    pub(crate) fn find(&self, qualifier: Option<&str>, name: &str) -> Option<usize> {
        let mut found = self.columns.iter().filter(|column| {
            column.name == name && qualifier.is_none_or(|q| column.qualifier.as_deref() == Some(q))
        });
        let first = found.next()?;
        found.next().is_none().then_some(first.index)
    }

    /// Whether a table has this alias.
    pub(crate) fn has_qualifier(&self, name: &str) -> bool {
        self.columns
            .iter()
            .any(|column| column.qualifier.as_deref() == Some(name))
    }

    /// The error for a name that nothing has.
    pub(crate) fn unknown<T>(&self, name: &str, span: Span) -> Outcome<T> {
        let same_but_case = self
            .columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name));
        let hint = match same_but_case {
            Some(column) => Some(format!(
                "names are case-sensitive: did you mean `{}`?",
                column.name
            )),
            None => did_you_mean(name, self.columns.iter().map(|column| column.name.as_str())),
        };
        let hint = hint.or_else(|| {
            let names: Vec<&str> = self
                .columns
                .iter()
                .take(20)
                .map(|column| column.name.as_str())
                .collect();
            (!names.is_empty()).then(|| format!("there are {}", names.join(", ")))
        });
        Err(Box::new(
            Diagnostic::error("unknown-column", span, format!("unknown column `{name}`"))
                .with_optional_hint(hint),
        ))
    }
}
