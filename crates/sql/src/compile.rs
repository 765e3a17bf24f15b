//! Runs through a script's statements: declarations into the catalog, queries into plans,
//! plans into one dataflow. Errors of all statements are collected.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use datafusion_expr::sqlparser::{
    ast::{Ident, Query, SelectItem, SetExpr, Spanned},
    tokenizer::Span,
};
use millrace_dataflow::Dataflow;

use crate::{
    bind::{Binder, Bound, cast_implicitly},
    catalog::{Catalog, ConnectorCatalog, Entry, Table, TableColumnKind},
    diagnostic::{Diagnostic, Outcome, Severity, did_you_mean, fail},
    explain::Explanation,
    flink_type::type_name,
    functions::{Clock, Context},
    lower::{SinkPlan, lower},
    optimize::optimize,
    query::{Ctes, Planner, named},
    rel::{Rel, column_ref},
    settings::Settings,
    sink_cast::assignable,
    source,
    statement::{BYTE_ORDER_MARK, CreateTable, Insert, Statement, StatementKind, parse_script},
};

/// What a compilation depends on besides the script.
#[derive(Clone)]
pub struct CompileOptions {
    /// Subtasks per node; above 1, aggregates get a local phase.
    pub parallelism: u32,
    pub max_parallelism: u32,
    /// State time-to-live where the script does not set one; 0 keeps state for ever.
    pub state_ttl_ms: u64,
    pub catalog: Arc<dyn ConnectorCatalog>,
    /// What `CURRENT_TIMESTAMP` and the like read when the job runs. No part of the result
    /// of a compilation depends on it.
    pub clock: Clock,
}

impl CompileOptions {
    /// Options with the machine's clock, parallelism 1, 720 key groups and no TTL.
    pub fn new(catalog: Arc<dyn ConnectorCatalog>) -> Self {
        CompileOptions {
            parallelism: 1,
            max_parallelism: 720,
            state_ttl_ms: 0,
            catalog,
            clock: Clock::system(),
        }
    }
}

/// A statement of the script, for display.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StatementInfo {
    /// `CREATE TABLE bids`, `INSERT INTO results`, …
    pub description: String,
    pub line: u64,
    pub column: u64,
}

/// A compiled script.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Without nodes if the script only explains.
    pub dataflow: Dataflow,
    /// What `SET` left set.
    pub settings: BTreeMap<String, String>,
    /// One per `EXPLAIN` statement.
    pub explains: Vec<Explanation>,
    pub statements: Vec<StatementInfo>,
    pub warnings: Vec<Diagnostic>,
    pub(crate) meanings: crate::lower::Meanings,
}

impl Compiled {
    /// The plan of the whole script, as text and as a graph.
    pub fn explanation(&self) -> Explanation {
        Explanation::new(&self.dataflow, &self.meanings)
    }
}

/// Stack for compiling: expressions nest as deep as the bounds of the script allow.
const STACK_BYTES: usize = 256 << 20;

/// Compiles a script. The result depends on the arguments and the version of Millrace alone.
pub fn compile(script: &str, options: &CompileOptions) -> Result<Compiled, Vec<Diagnostic>> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("compile".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || compile_here(script, options));
        let compiled = match worker {
            Ok(worker) => worker.join(),
            Err(error) => return Err(vec![internal(format!("cannot start compiling: {error}"))]),
        };
        compiled.unwrap_or_else(|_| {
            Err(vec![internal(
                "the compiler failed; please report the script".into(),
            )])
        })
    })
}

fn internal(message: String) -> Diagnostic {
    Diagnostic::error("internal", Span::empty(), message)
}

fn compile_here(script: &str, options: &CompileOptions) -> Result<Compiled, Vec<Diagnostic>> {
    // Some editors put a byte-order mark before the text.
    let script = parse_script(script.strip_prefix(BYTE_ORDER_MARK).unwrap_or(script));
    let mut session = Session {
        options,
        catalog: Catalog::default(),
        settings: Settings::new(options.state_ttl_ms),
        functions: BTreeMap::new(),
        next_window: Cell::new(0),
        next_table: 0,
        warnings: RefCell::new(vec![]),
        diagnostics: script.diagnostics,
        group_by: script.group_by,
        sinks: vec![],
        explains: vec![],
        failed_queries: 0,
    };
    let statements = script
        .statements
        .iter()
        .map(|statement| StatementInfo {
            description: statement.kind.describe(),
            line: statement.span.start.line,
            column: statement.span.start.column,
        })
        .collect();
    for statement in &script.statements {
        session.run(statement);
    }
    session.finish(statements)
}

struct Session<'a> {
    options: &'a CompileOptions,
    catalog: Catalog,
    settings: Settings,
    functions: BTreeMap<String, &'static str>,
    next_window: Cell<u32>,
    next_table: u32,
    warnings: RefCell<Vec<Diagnostic>>,
    diagnostics: Vec<Diagnostic>,
    group_by: Vec<datafusion_expr::sqlparser::tokenizer::Location>,
    sinks: Vec<SinkPlan>,
    explains: Vec<Explanation>,
    failed_queries: usize,
}

impl Session<'_> {
    fn binder(&self) -> Binder {
        Binder {
            context: Context {
                zone: self.settings.zone,
                clock: self.options.clock.clone(),
            },
            user_functions: self.functions.clone(),
        }
    }

    fn run(&mut self, statement: &Statement) {
        let span = statement.span;
        let outcome = match &statement.kind {
            StatementKind::CreateTable(definition) => self.create_table(definition),
            StatementKind::CreateView(view) => {
                let name = &view.name;
                match self.check_new(name, view.if_not_exists) {
                    Ok(true) => {
                        let binder = self.binder();
                        let planned = self
                            .plan(&binder, &view.query, span)
                            .and_then(|rel| crate::query::rename(rel, &view.columns, name.span));
                        match planned {
                            Ok(_) => {
                                let view = Arc::new(view.as_ref().clone());
                                self.catalog.insert(&name.value, Entry::View(view));
                                Ok(())
                            }
                            Err(diagnostic) => {
                                self.catalog.insert_broken(&name.value);
                                Err(diagnostic)
                            }
                        }
                    }
                    Ok(false) => Ok(()),
                    Err(diagnostic) => Err(diagnostic),
                }
            }
            StatementKind::CreateFunction(function) => {
                match crate::functions::stand_in(&function.class) {
                    Some(stands_for) => {
                        let name = function.name.value.to_ascii_uppercase();
                        self.functions.insert(name, stands_for);
                        Ok(())
                    }
                    None => Err(Box::new(Diagnostic::unsupported(
                        function.name.span,
                        "CREATE FUNCTION",
                    ))),
                }
            }
            StatementKind::Drop(drop) => {
                let removed = match drop.what {
                    "FUNCTION" => {
                        let name = drop.name.value.to_ascii_uppercase();
                        self.functions.remove(&name).is_some()
                    }
                    _ => self.catalog.remove(&drop.name.value).is_some(),
                };
                if removed || drop.if_exists {
                    Ok(())
                } else {
                    fail(
                        "unknown-table",
                        drop.name.span,
                        format!("there is no {} `{}` to drop", drop.what, drop.name.value),
                    )
                }
            }
            StatementKind::Set { key, value } => {
                self.settings.set(key, value, span).map(|warning| {
                    self.warnings.borrow_mut().extend(warning);
                })
            }
            StatementKind::Reset { key } => {
                self.settings.reset(key.as_deref());
                Ok(())
            }
            StatementKind::Explain(inner) => self.explain(inner, span),
            kind => self.sink(kind, span).map(|sink| self.sinks.push(sink)),
        };
        if let Err(diagnostic) = outcome {
            self.failed_queries += 1;
            self.diagnostics.push(*diagnostic);
        }
    }

    fn explain(&mut self, inner: &StatementKind, span: Span) -> Outcome<()> {
        let sink = self.sink(inner, span)?;
        let mut diagnostics = vec![];
        match lower(vec![sink], self.options, &mut diagnostics) {
            Some((dataflow, meanings)) => {
                self.explains.push(Explanation::new(&dataflow, &meanings));
                Ok(())
            }
            None => match diagnostics.pop() {
                Some(diagnostic) => Err(Box::new(diagnostic)),
                None => fail("internal", span, "there is nothing to explain"),
            },
        }
    }

    fn check_new(&self, name: &Ident, if_not_exists: bool) -> Outcome<bool> {
        if !self.catalog.is_declared(&name.value) {
            return Ok(true);
        }
        if if_not_exists {
            return Ok(false);
        }
        fail(
            "duplicate-table",
            name.span,
            format!("`{}` is already declared", name.value),
        )
    }

    fn create_table(&mut self, definition: &CreateTable) -> Outcome<()> {
        let name = &definition.name;
        if !self.check_new(name, definition.if_not_exists)? {
            return Ok(());
        }
        let id = self.next_table;
        self.next_table += 1;
        let checked = Table::new(definition, id, self.options.catalog.as_ref()).and_then(|table| {
            let table = Arc::new(table);
            let binder = self.binder();
            let scan = source::scan(&binder, &table)?;
            source::watermark(&binder, &scan, &table)?;
            Ok(table)
        });
        match checked {
            Ok(table) => {
                self.catalog.insert(&name.value, Entry::Table(table));
                Ok(())
            }
            Err(diagnostic) => {
                self.catalog.insert_broken(&name.value);
                Err(diagnostic)
            }
        }
    }

    fn plan(&self, binder: &Binder, query: &Query, span: Span) -> Outcome<Rel> {
        Planner::new(
            binder,
            &self.catalog,
            &self.next_window,
            &self.warnings,
            &self.group_by,
        )
        .plan_query(query, &Ctes::new(), span)
    }

    /// The plan of a query or INSERT.
    fn sink(&self, kind: &StatementKind, span: Span) -> Outcome<SinkPlan> {
        let binder = self.binder();
        let (rel, table) = match kind {
            StatementKind::Query(query) => (self.plan(&binder, query, span)?, None),
            StatementKind::Insert(insert) => {
                let (rel, table) = self.insert(&binder, insert, span)?;
                (rel, Some(table))
            }
            _ => return fail("internal", span, "not a query"),
        };
        Ok(SinkPlan {
            rel: optimize(rel),
            table,
            span,
            settings: self.settings.clone(),
            binder,
        })
    }

    fn insert(&self, binder: &Binder, insert: &Insert, span: Span) -> Outcome<(Rel, Arc<Table>)> {
        let table = match self.catalog.resolve(&insert.table)? {
            Entry::Table(table) => Arc::clone(table),
            Entry::View(_) => {
                let message = format!("`{}` is a view; INSERT needs a table", insert.table.value);
                return fail("not-a-table", insert.table.span, message);
            }
        };
        for column in &table.columns {
            if let TableColumnKind::Metadata {
                is_virtual: false,
                key,
                ..
            } = &column.kind
                && !table.can_write(key)
            {
                return Err(Box::new(
                    Diagnostic::unsupported(column.span, "writing a METADATA column")
                        .with_hint("mark the column VIRTUAL if it is only read"),
                ));
            }
        }
        let rel = self.plan(binder, &insert.query, span)?;
        let schema = table.sink_schema();
        let targets = target_columns(insert, &table)?;
        if rel.columns.len() != targets.len() {
            let query: Vec<&str> = rel
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return fail(
                "column-count",
                insert.table.span,
                format!(
                    "the query has {} columns ({}), but {} of `{}` are to be written ({})",
                    query.len(),
                    query.join(", "),
                    targets.len(),
                    table.name,
                    targets
                        .iter()
                        .map(|target| schema.field(*target).name().as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            );
        }
        let mut exprs = vec![];
        for (position, field) in schema.fields().iter().enumerate() {
            let source = targets.iter().position(|target| *target == position);
            let bound = match source {
                Some(source) => {
                    let column = &rel.columns[source];
                    if !assignable(&column.data_type, field.data_type()) {
                        return Err(Box::new(
                            Diagnostic::error(
                                "type-mismatch",
                                item_span(&insert.query, source).unwrap_or(insert.table.span),
                                format!(
                                    "column `{}` of `{}` is {}, but the query's column `{}` is {}",
                                    field.name(),
                                    table.name,
                                    type_name(field.data_type()),
                                    column.name,
                                    type_name(&column.data_type)
                                ),
                            )
                            .with_hint(format!("CAST it to {}", type_name(field.data_type()))),
                        ));
                    }
                    let bound = Bound {
                        expr: column_ref(&column.name),
                        data_type: column.data_type.clone(),
                        nullable: column.nullable,
                        span,
                    };
                    cast_implicitly(binder, bound, field.data_type())?
                }
                None if field.is_nullable() => {
                    let null = Bound::literal(datafusion_common::ScalarValue::Null, span);
                    cast_implicitly(binder, null, field.data_type())?
                }
                None => {
                    let message = format!("`{}` is NOT NULL and must be written", field.name());
                    return fail("missing-column", insert.table.span, message);
                }
            };
            exprs.push(named(bound, field.name()));
        }
        Ok((rel.project(exprs), table))
    }

    fn finish(mut self, statements: Vec<StatementInfo>) -> Result<Compiled, Vec<Diagnostic>> {
        let mut lowered = None;
        if !self.sinks.is_empty() {
            let sinks = std::mem::take(&mut self.sinks);
            lowered = lower(sinks, self.options, &mut self.diagnostics);
        } else if self.explains.is_empty() && self.diagnostics.is_empty() {
            self.diagnostics.push(
                Diagnostic::error(
                    "nothing-to-run",
                    Span::empty(),
                    "the script has no query to run",
                )
                .with_hint("add INSERT INTO … SELECT …, or a SELECT to see its rows"),
            );
        }
        if !self.diagnostics.is_empty() {
            let mut diagnostics = self.diagnostics;
            // What follows from another error is no help.
            if diagnostics.iter().any(|d| d.code != "broken-reference") {
                diagnostics.retain(|d| d.code != "broken-reference");
            }
            diagnostics.sort_by_key(|d| (d.line, d.column));
            diagnostics.dedup();
            debug_assert!(diagnostics.iter().all(|d| d.severity == Severity::Error));
            return Err(diagnostics);
        }
        let (dataflow, meanings) = lowered.unwrap_or_else(|| {
            let dataflow = Dataflow {
                nodes: vec![],
                parallelism: self.options.parallelism,
                max_parallelism: self.options.max_parallelism,
            };
            (dataflow, BTreeMap::new())
        });
        let mut warnings = self.warnings.into_inner();
        warnings.sort_by_key(|warning| (warning.line, warning.column));
        warnings.dedup();
        Ok(Compiled {
            dataflow,
            settings: self.settings.values,
            explains: self.explains,
            statements,
            warnings,
            meanings,
        })
    }
}

/// Where the query computes the column, if it says so itself.
fn item_span(query: &Query, column: usize) -> Option<Span> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let items = &select.projection;
    let plain = items.iter().all(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    });
    let span = items.get(column).filter(|_| plain)?.span();
    (span.start.line > 0).then_some(span)
}

/// Positions in the sink's schema that an INSERT writes, in the order of the query's columns.
fn target_columns(insert: &Insert, table: &Table) -> Outcome<Vec<usize>> {
    let schema = table.sink_schema();
    if insert.columns.is_empty() {
        return Ok((0..schema.fields().len()).collect());
    }
    let mut targets = vec![];
    for name in &insert.columns {
        let Ok(position) = schema.index_of(&name.value) else {
            let computed = table.columns.iter().any(|column| column.name == name.value);
            let message = if computed {
                format!(
                    "`{}` is not a physical column and cannot be written",
                    name.value
                )
            } else {
                format!("table `{}` has no column `{}`", table.name, name.value)
            };
            let names = schema.fields().iter().map(|field| field.name().as_str());
            return Err(Box::new(
                Diagnostic::error("unknown-column", name.span, message)
                    .with_optional_hint(did_you_mean(&name.value, names)),
            ));
        };
        if targets.contains(&position) {
            let message = format!("`{}` is written twice", name.value);
            return fail("duplicate-column", name.span, message);
        }
        targets.push(position);
    }
    Ok(targets)
}
