//! `SELECT`: filter, projection, DISTINCT; grouping is in `group_by`.

use std::cell::RefCell;

use datafusion_expr::sqlparser::{
    ast::{
        Distinct, Expr as Ast, GroupByExpr, Select, SelectItem, SelectItemQualifiedWildcardKind,
        Spanned, WildcardAdditionalOptions,
    },
    tokenizer::Span,
};

use super::{Ctes, Planner, from::Source, named, refuse, values::single_row};
use crate::{
    bind::{Aggregates, Bound, Scope},
    diagnostic::{Diagnostic, Outcome, did_you_mean, fail, or_span},
    rel::{Aggregate, Column, Rel, RelKind, UpdateCause, WindowRole},
};

/// An item of the select list, bound.
pub(super) struct Item {
    pub(super) bound: Bound,
    pub(super) name: String,
}

impl Planner<'_> {
    pub(super) fn plan_select(&self, select: &Select, ctes: &Ctes, outer: Span) -> Outcome<Rel> {
        let span = or_span(select.select_token.0.span, outer);
        refuse_clauses(select, span)?;
        let source = if select.from.is_empty() {
            Source {
                rel: single_row(),
                alias: None,
            }
        } else {
            self.plan_from(&select.from, ctes, span)?
        };
        let has_from = !select.from.is_empty();
        let mut input = source.rel;
        let alias = source.alias;
        if let Some(selection) = &select.selection {
            let scope = Scope::qualified(&input, alias.as_deref(), "WHERE");
            let predicate = self.binder.bind_boolean(selection, &scope, span, "WHERE")?;
            input = input.filter(predicate.expr);
        }
        let aggregates = RefCell::new(Aggregates::default());
        let (items, having) = {
            let mut scope = Scope::qualified(&input, alias.as_deref(), "SELECT");
            if !has_from {
                scope.columns.clear();
            }
            scope.aggregates = Some(&aggregates);
            let items = self.bind_items(&select.projection, &scope, span)?;
            let having = match &select.having {
                Some(having) => Some(self.binder.bind_boolean(having, &scope, span, "HAVING")?),
                None => None,
            };
            (items, having)
        };
        let groups = group_expressions(&select.group_by, span)?;
        let grouped = !groups.is_empty()
            || !aggregates.borrow().uses.is_empty()
            || !aggregates.borrow().groupings.is_empty()
            || having.is_some();
        let rel = if grouped {
            let group_span = match &select.group_by {
                GroupByExpr::Expressions(exprs, _) if !exprs.is_empty() => {
                    self.group_by_span(or_span(select.group_by.span(), span))
                }
                _ => aggregates.borrow().first.unwrap_or(span),
            };
            self.plan_group_by(
                input,
                alias.as_deref(),
                groups,
                aggregates.into_inner(),
                items,
                having,
                group_span,
            )?
        } else {
            input.project(
                items
                    .into_iter()
                    .map(|item| named(item.bound, item.name))
                    .collect(),
            )
        };
        match &select.distinct {
            None | Some(Distinct::All) => Ok(rel),
            Some(Distinct::Distinct) => self.distinct(rel, span, "SELECT DISTINCT"),
            Some(Distinct::On(_)) => refuse(span, "DISTINCT ON"),
        }
    }

    /// Each row once.
    pub(super) fn distinct(&self, rel: Rel, span: Span, clause: &'static str) -> Outcome<Rel> {
        let window = window_of(&rel.columns);
        let (start, end) = match window {
            Some((start, end)) => (Some(start), Some(end)),
            None => (None, None),
        };
        let keys: Vec<usize> = (0..rel.columns.len())
            .filter(|i| Some(*i) != start && Some(*i) != end)
            .filter(|i| window.is_none() || !is_time_of_window(&rel.columns, *i, start))
            .collect();
        let names: Vec<String> = rel
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect();
        let original: Vec<Option<(u32, WindowRole)>> = rel
            .columns
            .iter()
            .map(|column| column.window.map(|window| (window.id, window.role)))
            .collect();
        let aggregated = self.aggregate(rel, keys.clone(), vec![], window, span, clause)?;
        if window.is_none() {
            return Ok(aggregated);
        }
        // Back to the order of the select list.
        let width = aggregated.columns.len();
        let exprs = names
            .into_iter()
            .enumerate()
            .map(|(i, name)| {
                let position = match (keys.iter().position(|key| *key == i), original[i]) {
                    (Some(position), _) => position,
                    (None, Some((_, WindowRole::Start))) => width - 3,
                    (None, Some((_, WindowRole::End))) => width - 2,
                    (None, _) => width - 1,
                };
                let column = &aggregated.columns[position];
                (
                    crate::rel::column_ref(&column.name),
                    name,
                    column.data_type.clone(),
                    column.nullable,
                )
            })
            .collect();
        Ok(aggregated.project(exprs))
    }

    /// An aggregate relation with its columns and update cause.
    pub(super) fn aggregate(
        &self,
        input: Rel,
        keys: Vec<usize>,
        calls: Vec<(crate::rel::Call, Column)>,
        window: Option<(usize, usize)>,
        span: Span,
        clause: &'static str,
    ) -> Outcome<Rel> {
        let mut columns: Vec<Column> = keys
            .iter()
            .map(|key| {
                let column = input.columns[*key].clone();
                Column {
                    time: None,
                    window: None,
                    ..column
                }
            })
            .collect();
        for key in &keys {
            super::group_by::check_key_type(&input.columns[*key], span)?;
        }
        columns.extend(calls.iter().map(|(_, column)| column.clone()));
        if let Some((start, end)) = window {
            if let Some(cause) = &input.updating {
                return Err(Box::new(
                    Diagnostic::error(
                        "updating-input",
                        span,
                        format!(
                            "a windowed aggregate needs rows that never change, but its input has {} (line {})",
                            cause.clause, cause.span.start.line
                        ),
                    )
                    .with_hint("aggregate inside the window only, or group without the window"),
                ));
            }
            let id = input.columns[start].window.map_or(0, |window| window.id);
            let time = window_time_column(&input, id);
            for (role, name, template) in [
                (WindowRole::Start, "window_start", &input.columns[start]),
                (WindowRole::End, "window_end", &input.columns[end]),
                (WindowRole::Time, "window_time", &time),
            ] {
                columns.push(Column {
                    name: name.to_string(),
                    nullable: false,
                    window: Some(crate::rel::WindowColumn { id, role }),
                    ..template.clone()
                });
            }
        }
        let mut unique = crate::rel::UniqueNames::default();
        for column in &mut columns {
            column.name = unique.unique(&column.name);
        }
        let updating = match window {
            Some(_) => None,
            None => Some(
                input
                    .updating
                    .clone()
                    .unwrap_or(UpdateCause { clause, span }),
            ),
        };
        Ok(Rel {
            kind: RelKind::Aggregate(Box::new(Aggregate {
                input,
                keys,
                calls: calls.into_iter().map(|(call, _)| call).collect(),
                window,
                span,
            })),
            columns,
            updating,
        })
    }

    fn bind_items(&self, items: &[SelectItem], scope: &Scope, span: Span) -> Outcome<Vec<Item>> {
        let mut bound = vec![];
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = match expr {
                        Ast::Identifier(name) => name.value.clone(),
                        Ast::CompoundIdentifier(path) => match path.last() {
                            Some(name) => name.value.clone(),
                            None => format!("EXPR${}", bound.len()),
                        },
                        _ => format!("EXPR${}", bound.len()),
                    };
                    let value = self.binder.bind(expr, scope, span)?;
                    bound.push(Item { bound: value, name });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let value = self.binder.bind(expr, scope, span)?;
                    bound.push(Item {
                        bound: value,
                        name: alias.value.clone(),
                    });
                }
                SelectItem::Wildcard(options) => {
                    refuse_wildcard_options(options, span)?;
                    if scope.columns.is_empty() {
                        return fail("syntax", span, "* needs a FROM");
                    }
                    bound.extend(expand(
                        scope,
                        None,
                        or_span(options.wildcard_token.0.span, span),
                    ));
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    refuse_wildcard_options(options, span)?;
                    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return refuse(span, "* of an expression");
                    };
                    let name = super::from::table_name(name, span)?;
                    if !scope.has_qualifier(&name.value) {
                        let tables = scope
                            .columns
                            .iter()
                            .filter_map(|column| column.qualifier.as_deref());
                        return Err(Box::new(
                            Diagnostic::error(
                                "unknown-table",
                                name.span,
                                format!("no table in FROM is called `{}`", name.value),
                            )
                            .with_optional_hint(did_you_mean(&name.value, tables)),
                        ));
                    }
                    bound.extend(expand(scope, Some(&name.value), name.span));
                }
                SelectItem::ExprWithAliases { .. } => {
                    return refuse(span, "several aliases of one expression");
                }
            }
        }
        if bound.is_empty() {
            return fail("syntax", span, "the SELECT list is empty");
        }
        Ok(bound)
    }
}

fn expand(scope: &Scope, qualifier: Option<&str>, span: Span) -> Vec<Item> {
    scope
        .columns
        .iter()
        .filter(|column| qualifier.is_none() || column.qualifier.as_deref() == qualifier)
        .map(|column| {
            let input = &scope.input.columns[column.index];
            Item {
                name: column.name.clone(),
                bound: Bound {
                    expr: crate::rel::column_ref(&input.name),
                    data_type: input.data_type.clone(),
                    nullable: input.nullable,
                    span,
                },
            }
        })
        .collect()
}

/// Positions of a window's start and end, if both are among the columns.
pub(super) fn window_of(columns: &[Column]) -> Option<(usize, usize)> {
    let position = |id: u32, role: WindowRole| {
        columns.iter().position(|column| {
            column
                .window
                .is_some_and(|window| window.id == id && window.role == role)
        })
    };
    columns
        .iter()
        .filter_map(|column| column.window)
        .find_map(|window| {
            Some((
                position(window.id, WindowRole::Start)?,
                position(window.id, WindowRole::End)?,
            ))
        })
}

fn is_time_of_window(columns: &[Column], i: usize, start: Option<usize>) -> bool {
    let id = start
        .and_then(|start| columns[start].window)
        .map(|window| window.id);
    columns[i]
        .window
        .is_some_and(|window| Some(window.id) == id && window.role == WindowRole::Time)
}

/// What the `window_time` of this window is like.
pub(super) fn window_time_column(input: &Rel, id: u32) -> Column {
    let found = input.columns.iter().find(|column| {
        column
            .window
            .is_some_and(|window| window.id == id && window.role == WindowRole::Time)
    });
    if let Some(column) = found {
        return column.clone();
    }
    // The column was projected away: it is where the window is.
    for inner in input.inputs() {
        if let RelKind::Window { window, .. } = &input.kind
            && window.id == id
        {
            break;
        }
        let column = window_time_column(inner, id);
        if column.time.is_some() {
            return column;
        }
    }
    Column {
        name: "window_time".into(),
        time: None,
        ..Column::plain(
            "window_time",
            crate::flink_type::timestamp_ms(false),
            false,
            "window_time",
        )
    }
}

/// The expressions of GROUP BY.
fn group_expressions(group_by: &GroupByExpr, span: Span) -> Outcome<&[Ast]> {
    match group_by {
        GroupByExpr::All(_) => refuse(span, "GROUP BY ALL"),
        GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => Ok(exprs),
        GroupByExpr::Expressions(_, _) => refuse(span, "WITH ROLLUP and WITH CUBE"),
    }
}

fn refuse_wildcard_options(options: &WildcardAdditionalOptions, span: Span) -> Outcome<()> {
    if options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
        || options.opt_ilike.is_some()
    {
        return refuse(span, "an option of *");
    }
    Ok(())
}

fn refuse_clauses(select: &Select, span: Span) -> Outcome<()> {
    let refused = [
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (select.select_modifiers.is_some(), "this modifier of SELECT"),
    ];
    match refused.iter().find(|(found, _)| *found) {
        Some((_, clause)) => refuse(span, clause),
        None => Ok(()),
    }
}
