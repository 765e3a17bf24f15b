//! Window table functions: TUMBLE, HOP, CUMULATE, SESSION over a table.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion_expr::sqlparser::{
    ast::{
        Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Spanned,
    },
    tokenizer::Span,
};
use millrace_dataflow::WindowKind;

use super::{Ctes, Planner, refuse};
use crate::{
    bind::{Bound, ConstantInterval, Scope},
    diagnostic::{Diagnostic, Outcome, did_you_mean, fail, or_span},
    flink_type::{timestamp_ms, type_name},
    rel::{Column, Rel, RelKind, UniqueNames, Window, WindowColumn, WindowRole},
};

/// The longest list of windows a row may belong to.
const MAX_WINDOWS_PER_ROW: i64 = 10_000;

/// Names of a window function's arguments, in positional order.
fn parameters(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "TUMBLE" => &["DATA", "TIMECOL", "SIZE", "OFFSET"],
        "HOP" => &["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"],
        "CUMULATE" => &["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"],
        "SESSION" => &["DATA", "TIMECOL", "GAP"],
        _ => return None,
    })
}

impl Planner<'_> {
    /// `TABLE(…)`.
    pub(super) fn plan_table_expression(
        &self,
        expr: &Ast,
        ctes: &Ctes,
        span: Span,
    ) -> Outcome<Rel> {
        match expr {
            Ast::Function(function) => match &function.args {
                FunctionArguments::List(list) => {
                    let span = or_span(function.name.span(), span);
                    self.plan_table_function(&function.name, &list.args, ctes, span)
                }
                _ => refuse(span, "this table function"),
            },
            _ => refuse(span, "TABLE of something else than a table function"),
        }
    }

    /// `TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL …)`.
    pub(super) fn plan_table_function(
        &self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        ctes: &Ctes,
        outer: Span,
    ) -> Outcome<Rel> {
        let span = or_span(name.span(), outer);
        let name = name.to_string().to_ascii_uppercase();
        let Some(parameters) = parameters(&name) else {
            let known = ["TUMBLE", "HOP", "CUMULATE", "SESSION"];
            return Err(Box::new(
                Diagnostic::error(
                    "unknown-function",
                    span,
                    format!("unknown table function {name}"),
                )
                .with_optional_hint(did_you_mean(&name, known)),
            ));
        };
        let arguments = assign(&name, parameters, arguments, span)?;
        let required = |parameter: &str| match arguments.get(parameter) {
            Some(ast) => Ok(*ast),
            None => fail(
                "invalid-argument",
                span,
                format!("{name} needs {parameter}"),
            ),
        };
        let data = required("DATA")?;
        let (input, partition_by) = self.plan_data(data, ctes, &name, span)?;
        let column = self.descriptor(required("TIMECOL")?, &input, &name, span)?;
        let millis = |parameter: &str| {
            let ast = required(parameter)?;
            self.millis(ast, &name, span)
        };
        let offset = match arguments.get("OFFSET") {
            Some(ast) => self.millis(ast, &name, span)?,
            None => 0,
        };
        let kind = match name.as_str() {
            "TUMBLE" => WindowKind::Tumble {
                size: millis("SIZE")?,
                offset,
            },
            "HOP" => WindowKind::Hop {
                size: millis("SIZE")?,
                slide: millis("SLIDE")?,
                offset,
            },
            "CUMULATE" => WindowKind::Cumulate {
                size: millis("SIZE")?,
                step: millis("STEP")?,
                offset,
            },
            _ => WindowKind::Session {
                gap: millis("GAP")?,
            },
        };
        check_kind(&kind, span)?;
        if !partition_by.is_empty() && !matches!(kind, WindowKind::Session { .. }) {
            return refuse(span, &format!("PARTITION BY in {name}"));
        }
        self.window(input, kind, column, partition_by, span)
    }

    /// Adds a window over a time column of the relation.
    pub(super) fn window(
        &self,
        input: Rel,
        kind: WindowKind,
        column: usize,
        partition_by: Vec<usize>,
        span: Span,
    ) -> Outcome<Rel> {
        let time = &input.columns[column];
        let Some(domain) = time.time else {
            return Err(Box::new(
                Diagnostic::error(
                    "not-a-time-attribute",
                    span,
                    format!(
                        "a window needs a time attribute, but `{}` is a plain {}",
                        time.name,
                        type_name(&time.data_type)
                    ),
                )
                .with_hint(
                    "declare WATERMARK FOR it in CREATE TABLE, or use a column AS PROCTIME(); expressions over a time attribute are plain values",
                ),
            ));
        };
        if let Some(cause) = &input.updating {
            return Err(Box::new(
                Diagnostic::error(
                    "updating-input",
                    span,
                    format!(
                        "a window needs rows that never change, but its input has {} (line {})",
                        cause.clause, cause.span.start.line
                    ),
                )
                .with_hint("apply the window first and group inside it"),
            ));
        }
        let id = self.next_window.get();
        self.next_window.set(id + 1);
        let zoned = matches!(&time.data_type, DataType::Timestamp(_, Some(_)));
        let window = Window {
            id,
            kind,
            domain,
            column,
            zone: zoned.then(|| self.binder.zone().name().to_string()),
            partition_by,
            span,
        };
        let meaning = window.describe(&input);
        let mut names = UniqueNames::default();
        let mut columns: Vec<Column> = input
            .columns
            .iter()
            .map(|column| Column {
                name: names.unique(&column.name),
                ..column.clone()
            })
            .collect();
        for (role, name, data_type, attribute) in [
            (WindowRole::Start, "window_start", timestamp_ms(false), None),
            (WindowRole::End, "window_end", timestamp_ms(false), None),
            (
                WindowRole::Time,
                "window_time",
                time.data_type.clone(),
                Some(domain),
            ),
        ] {
            columns.push(Column {
                time: attribute,
                window: Some(WindowColumn { id, role }),
                ..Column::plain(
                    names.unique(name),
                    data_type,
                    false,
                    format!("{name} of {meaning}"),
                )
            });
        }
        Ok(Rel {
            kind: RelKind::Window {
                input: Box::new(input),
                window,
            },
            columns,
            updating: None,
        })
    }

    /// The table argument and the keys of its PARTITION BY.
    fn plan_data(
        &self,
        data: &Ast,
        ctes: &Ctes,
        function: &str,
        outer: Span,
    ) -> Outcome<(Rel, Vec<usize>)> {
        let span = or_span(data.span(), outer);
        match data {
            Ast::Subquery(query) => Ok((self.plan_query(query, ctes, span)?, vec![])),
            Ast::Nested(inner) => self.plan_data(inner, ctes, function, span),
            Ast::Function(call) if call.name.to_string() == "$table" => {
                let arguments = unnamed(call);
                let table = match arguments.first() {
                    Some(Ast::CompoundIdentifier(path)) => match path.as_slice() {
                        [name] => name.clone(),
                        _ => return refuse(span, "a table name with a catalog or database"),
                    },
                    _ => return refuse(span, "this table argument"),
                };
                let rel = self.plan_named(&table, ctes)?;
                let scope = Scope::qualified(&rel, Some(&table.value), "PARTITION BY");
                let mut keys = vec![];
                for key in &arguments[1..] {
                    let bound = self.binder.bind(key, &scope, span)?;
                    match rel
                        .plain_column(&bound.expr)
                        .and_then(|column| rel.position(&column.name))
                    {
                        Some(position) => keys.push(position),
                        None => return refuse(bound.span, "PARTITION BY an expression"),
                    }
                }
                Ok((rel, keys))
            }
            _ => Err(Box::new(
                Diagnostic::error(
                    "invalid-argument",
                    span,
                    format!("the first argument of {function} must be a table"),
                )
                .with_hint(format!("write {function}(TABLE name, DESCRIPTOR(time), …)")),
            )),
        }
    }

    /// `DESCRIPTOR(ts)`.
    fn descriptor(&self, ast: &Ast, input: &Rel, function: &str, outer: Span) -> Outcome<usize> {
        let span = or_span(ast.span(), outer);
        let column = match ast {
            Ast::Function(call) if call.name.to_string().eq_ignore_ascii_case("DESCRIPTOR") => {
                let arguments = unnamed(call);
                match arguments.as_slice() {
                    [Ast::Identifier(name)] => Some(name.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(name) = column else {
            return Err(Box::new(Diagnostic::error(
                "invalid-argument",
                span,
                format!("the time column of {function} must be given as DESCRIPTOR(column)"),
            )));
        };
        match input.position(&name.value) {
            Some(position) => Ok(position),
            None => Scope::of(input, "DESCRIPTOR").unknown(&name.value, name.span),
        }
    }

    fn millis(&self, ast: &Ast, function: &str, outer: Span) -> Outcome<i64> {
        let nothing = super::values::single_row();
        let scope = Scope {
            columns: vec![],
            ..Scope::of(&nothing, "a window function")
        };
        let bound = self.binder.bind(ast, &scope, outer)?;
        interval_millis(&bound, function)
    }
}

/// Milliseconds of a constant interval without months.
pub(super) fn interval_millis(bound: &Bound, function: &str) -> Outcome<i64> {
    match ConstantInterval::of(bound) {
        Some(ConstantInterval { months: 0, millis }) => Ok(millis),
        Some(_) => fail(
            "invalid-argument",
            bound.span,
            format!("{function} takes an interval of days or less: months differ in length"),
        ),
        None => fail(
            "invalid-argument",
            bound.span,
            format!(
                "{function} takes an INTERVAL such as INTERVAL '10' SECOND, not {}",
                type_name(&bound.data_type)
            ),
        ),
    }
}

/// Checks lengths against one another.
pub(super) fn check_kind(kind: &WindowKind, span: Span) -> Outcome<()> {
    let invalid = |message: String| fail("invalid-window", span, message);
    let (size, step, offset) = match kind {
        WindowKind::Tumble { size, offset } => (*size, *size, *offset),
        WindowKind::Hop {
            size,
            slide,
            offset,
        } => (*size, *slide, *offset),
        WindowKind::Cumulate { size, step, offset } => {
            if *step > 0 && size % step != 0 {
                return invalid(format!(
                    "the size of CUMULATE ({size} ms) must be a multiple of its step ({step} ms)"
                ));
            }
            (*size, *step, *offset)
        }
        WindowKind::Session { gap } => (*gap, *gap, 0),
    };
    if size <= 0 || step <= 0 {
        return invalid("lengths of windows must be positive".into());
    }
    if size / step > MAX_WINDOWS_PER_ROW {
        return invalid(format!(
            "a row would be in {} windows, more than {MAX_WINDOWS_PER_ROW}",
            size / step
        ));
    }
    if offset.abs() >= size.max(step) {
        return invalid("the offset must be shorter than the window".into());
    }
    Ok(())
}

fn unnamed(call: &Function) -> Vec<&Ast> {
    match &call.args {
        FunctionArguments::List(list) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect(),
        _ => vec![],
    }
}

/// Arguments by parameter name, given by position or by name.
fn assign<'a>(
    function: &str,
    parameters: &'static [&'static str],
    arguments: &'a [FunctionArg],
    span: Span,
) -> Outcome<BTreeMap<&'static str, &'a Ast>> {
    let mut assigned = BTreeMap::new();
    for (i, argument) in arguments.iter().enumerate() {
        let (parameter, ast) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => match parameters.get(i) {
                Some(parameter) => (*parameter, ast),
                None => {
                    let message =
                        format!("{function} takes at most {} arguments", parameters.len());
                    return fail("invalid-argument", or_span(ast.span(), span), message);
                }
            },
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(ast),
                ..
            } => {
                let wanted = name.value.to_ascii_uppercase();
                match parameters.iter().find(|parameter| **parameter == wanted) {
                    Some(parameter) => (*parameter, ast),
                    None => {
                        let message = format!("{function} has no argument {}", name.value);
                        return Err(Box::new(
                            Diagnostic::error("invalid-argument", name.span, message)
                                .with_hint(format!("it has {}", parameters.join(", "))),
                        ));
                    }
                }
            }
            _ => return refuse(span, "this kind of argument"),
        };
        if assigned.insert(parameter, ast).is_some() {
            let message = format!("{function} gets {parameter} twice");
            return fail("invalid-argument", or_span(ast.span(), span), message);
        }
    }
    Ok(assigned)
}
