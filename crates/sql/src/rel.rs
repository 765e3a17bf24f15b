//! Relations: a query as a tree of streaming operations, before it becomes a dataflow.
//!
//! Column names are unique within a relation; expressions refer to the columns of a
//! relation's input by those names. Each column knows its lineage: what it means in terms
//! of tables and expressions, free of positions and aliases.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion_expr::Expr;
use datafusion_expr::sqlparser::tokenizer::Span;
use digest::digest_text;
use millrace_dataflow::{AggregateKind, TimeDomain, WindowKind};

use crate::{
    bind::expr_text,
    catalog::Table,
    diagnostic::{Outcome, fail},
};

mod digest;

/// A relation.
#[derive(Debug, Clone)]
pub(crate) struct Rel {
    pub(crate) kind: RelKind,
    pub(crate) columns: Vec<Column>,
    /// Why rows of it change after they were emitted, if they do.
    pub(crate) updating: Option<UpdateCause>,
}

/// The clause that makes a query's result change.
#[derive(Debug, Clone)]
pub(crate) struct UpdateCause {
    /// Such as `GROUP BY without a window`.
    pub(crate) clause: &'static str,
    pub(crate) span: Span,
}

/// A column of a relation.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    /// Which clock the column follows, if it is a time attribute.
    pub(crate) time: Option<TimeDomain>,
    pub(crate) window: Option<WindowColumn>,
    /// What the column means: `bids.price`, `UPPER(users.name)`.
    pub(crate) lineage: Arc<str>,
}

/// A column that a window function added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowColumn {
    /// Which window function of the script.
    pub(crate) id: u32,
    pub(crate) role: WindowRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowRole {
    Start,
    End,
    Time,
}

/// What a relation does.
#[derive(Debug, Clone)]
pub(crate) enum RelKind {
    /// All columns of a table.
    Scan(Arc<Table>),
    Values(RecordBatch),
    Filter {
        input: Box<Rel>,
        predicate: Expr,
    },
    Project {
        input: Box<Rel>,
        exprs: Vec<Expr>,
    },
    Union(Vec<Rel>),
    /// Appends `window_start`, `window_end`, `window_time`.
    Window {
        input: Box<Rel>,
        window: Window,
    },
    Expand {
        input: Box<Rel>,
        /// Per grouping set: the columns to null, and its id.
        sets: Vec<(Vec<usize>, i64)>,
    },
    Aggregate(Box<Aggregate>),
}

/// A window function over a relation.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) id: u32,
    pub(crate) kind: WindowKind,
    pub(crate) domain: TimeDomain,
    /// The time column of the input.
    pub(crate) column: usize,
    pub(crate) zone: Option<String>,
    /// Keys of a session window.
    pub(crate) partition_by: Vec<usize>,
    pub(crate) span: Span,
}

/// A grouping of a relation. Output: keys, then calls, then for windowed aggregates
/// `window_start`, `window_end`, `window_time`.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub(crate) input: Rel,
    pub(crate) keys: Vec<usize>,
    pub(crate) calls: Vec<Call>,
    /// Columns of the input that hold the window's start and end, if it is grouped by both.
    pub(crate) window: Option<(usize, usize)>,
    /// Place of GROUP BY, DISTINCT, or the first call.
    pub(crate) span: Span,
}

/// An aggregate call over columns of the aggregate's input.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) kind: AggregateKind,
    pub(crate) argument: Option<usize>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<usize>,
}

impl Column {
    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.nullable)
    }

    /// A column without a special role.
    pub(crate) fn plain(
        name: impl Into<String>,
        data_type: DataType,
        nullable: bool,
        lineage: impl AsRef<str>,
    ) -> Self {
        Column {
            name: name.into(),
            data_type,
            nullable,
            time: None,
            window: None,
            lineage: shorten(lineage.as_ref()),
        }
    }
}

/// Long lineages are replaced by their digest, so that they stay bounded.
fn shorten(lineage: &str) -> Arc<str> {
    if lineage.len() <= 400 {
        return Arc::from(lineage);
    }
    let head: String = lineage.chars().take(80).collect();
    Arc::from(format!("{head}…#{}", digest_text(lineage)))
}

impl Rel {
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(
            self.columns.iter().map(Column::field).collect::<Vec<_>>(),
        ))
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The meaning of an expression over this relation.
    pub(crate) fn lineage_of(&self, expr: &Expr) -> Arc<str> {
        shorten(&expr_text(expr, &|name| match self.position(name) {
            Some(index) => self.columns[index].lineage.to_string(),
            None => name.to_string(),
        }))
    }

    /// How many relations the tree has.
    pub(crate) fn size(&self) -> usize {
        1 + self
            .inputs()
            .iter()
            .map(|input| input.size())
            .sum::<usize>()
    }

    pub(crate) fn inputs(&self) -> Vec<&Rel> {
        match &self.kind {
            RelKind::Scan(_) | RelKind::Values(_) => vec![],
            RelKind::Filter { input, .. }
            | RelKind::Project { input, .. }
            | RelKind::Window { input, .. }
            | RelKind::Expand { input, .. } => vec![input],
            RelKind::Union(inputs) => inputs.iter().collect(),
            RelKind::Aggregate(aggregate) => vec![&aggregate.input],
        }
    }

    /// Keeps the rows for which the predicate holds.
    pub(crate) fn filter(self, predicate: Expr) -> Rel {
        Rel {
            columns: self.columns.clone(),
            updating: self.updating.clone(),
            kind: RelKind::Filter {
                input: Box::new(self),
                predicate,
            },
        }
    }

    /// Computes expressions; names are made unique. Plain columns keep their roles.
    pub(crate) fn project(self, exprs: Vec<(Expr, String, DataType, bool)>) -> Rel {
        let mut names = UniqueNames::default();
        let columns = exprs
            .iter()
            .map(|(expr, name, data_type, nullable)| {
                let name = names.unique(name);
                match self.plain_column(expr) {
                    Some(column) => Column {
                        name,
                        nullable: *nullable,
                        ..column.clone()
                    },
                    None => Column {
                        time: is_proctime(expr).then_some(TimeDomain::Processing),
                        ..Column::plain(name, data_type.clone(), *nullable, self.lineage_of(expr))
                    },
                }
            })
            .collect();
        Rel {
            columns,
            updating: self.updating.clone(),
            kind: RelKind::Project {
                input: Box::new(self),
                exprs: exprs.into_iter().map(|(expr, ..)| expr).collect(),
            },
        }
    }

    /// The column that an expression merely names.
    pub(crate) fn plain_column(&self, expr: &Expr) -> Option<&Column> {
        match expr {
            Expr::Column(column) => self.position(&column.name).map(|i| &self.columns[i]),
            _ => None,
        }
    }

    /// A projection onto some columns, under their names.
    pub(crate) fn select(self, positions: &[usize]) -> Rel {
        let exprs = positions
            .iter()
            .map(|position| {
                let column = &self.columns[*position];
                (
                    column_ref(&column.name),
                    column.name.clone(),
                    column.data_type.clone(),
                    column.nullable,
                )
            })
            .collect();
        self.project(exprs)
    }

    /// What the rows are, free of names and positions: tables, filters, groupings.
    pub(crate) fn description(&self) -> BTreeSet<String> {
        match &self.kind {
            RelKind::Scan(table) => BTreeSet::from([format!("table {}", table.name)]),
            RelKind::Values(rows) => {
                BTreeSet::from([format!("values {}", digest_text(&format!("{rows:?}")))])
            }
            RelKind::Filter { input, predicate } => {
                let mut description = input.description();
                for part in datafusion_expr::utils::split_conjunction(predicate) {
                    description.insert(format!("where {}", input.lineage_of(part)));
                }
                description
            }
            RelKind::Project { input, .. } => input.description(),
            RelKind::Union(inputs) => {
                let mut parts: Vec<String> = inputs.iter().map(Rel::description_text).collect();
                parts.sort();
                BTreeSet::from([shorten(&format!("union [{}]", parts.join(" | "))).to_string()])
            }
            RelKind::Window { input, window } => {
                let mut description = input.description();
                description.insert(window.describe(input));
                description
            }
            RelKind::Expand { input, sets } => {
                let mut description = input.description();
                description.insert(format!("{} grouping sets", sets.len()));
                description
            }
            RelKind::Aggregate(aggregate) => {
                let input = &aggregate.input;
                let keys: Vec<&str> = aggregate
                    .keys
                    .iter()
                    .map(|key| input.columns[*key].lineage.as_ref())
                    .collect();
                BTreeSet::from([shorten(&format!(
                    "grouped by [{}] of [{}]",
                    keys.join(", "),
                    input.description_text()
                ))
                .to_string()])
            }
        }
    }

    pub(crate) fn description_text(&self) -> String {
        self.description()
            .into_iter()
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Window {
    /// `TUMBLE(bids.ts, 10 s)`.
    pub(crate) fn describe(&self, input: &Rel) -> String {
        let time = match self.domain {
            TimeDomain::Event => input.columns[self.column].lineage.to_string(),
            TimeDomain::Processing => "PROCTIME()".to_string(),
        };
        let zone = match &self.zone {
            Some(zone) => format!(" in {zone}"),
            None => String::new(),
        };
        let keys: Vec<&str> = self
            .partition_by
            .iter()
            .map(|key| input.columns[*key].lineage.as_ref())
            .collect();
        let keys = if keys.is_empty() {
            String::new()
        } else {
            format!(" by {}", keys.join(", "))
        };
        format!("{}{zone} of {time}{keys}", window_text(&self.kind))
    }
}

/// `HOP 10 s every 2 s`.
pub(crate) fn window_text(kind: &WindowKind) -> String {
    let with_offset = |text: String, offset: i64| {
        if offset == 0 {
            text
        } else {
            format!("{text} offset {}", duration_text(offset))
        }
    };
    match kind {
        WindowKind::Tumble { size, offset } => {
            with_offset(format!("TUMBLE {}", duration_text(*size)), *offset)
        }
        WindowKind::Hop {
            size,
            slide,
            offset,
        } => with_offset(
            format!(
                "HOP {} every {}",
                duration_text(*size),
                duration_text(*slide)
            ),
            *offset,
        ),
        WindowKind::Cumulate { size, step, offset } => with_offset(
            format!(
                "CUMULATE {} up to {}",
                duration_text(*step),
                duration_text(*size)
            ),
            *offset,
        ),
        WindowKind::Session { gap } => format!("SESSION {}", duration_text(*gap)),
    }
}

fn duration_text(millis: i64) -> String {
    for (length, unit) in [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ] {
        if millis != 0 && millis % length == 0 {
            return format!("{} {unit}", millis / length);
        }
    }
    format!("{millis} ms")
}

/// A reference to a column by its unique name.
pub(crate) fn column_ref(name: &str) -> Expr {
    Expr::Column(datafusion_common::Column::new_unqualified(name))
}

/// Whether the expression is `PROCTIME()`.
pub(crate) fn is_proctime(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == "PROCTIME")
}

/// Makes names unique by appending numbers, as in `price`, `price0`.
#[derive(Debug, Default)]
pub(crate) struct UniqueNames {
    seen: BTreeSet<String>,
}

impl UniqueNames {
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut candidate = name.to_string();
        let mut number = 0;
        while !self.seen.insert(candidate.clone()) {
            candidate = format!("{name}{number}");
            number += 1;
        }
        candidate
    }
}

/// Largest tree of one query. Views and CTEs are expanded where they are used.
const MAX_RELATIONS: usize = 2_000;

/// Refuses trees that would take too long to compile.
pub(crate) fn check_size(relations: usize, span: Span) -> Outcome<()> {
    if relations > MAX_RELATIONS {
        return fail(
            "too-complex",
            span,
            format!("the query expands to more than {MAX_RELATIONS} relations"),
        );
    }
    Ok(())
}
