//! Queries: from the parser's tree to relations.

mod from;
mod group_by;
mod group_window;
mod grouping_sets;
mod select;
mod set_operation;
mod table_function;
mod values;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use datafusion_expr::Expr;
use datafusion_expr::sqlparser::{
    ast::{LimitClause, Query, SetExpr, Spanned},
    tokenizer::{Location, Span},
};

pub(crate) use from::stored_rel;
pub(crate) use group_by::call_meaning;

use crate::{
    bind::{Binder, Bound},
    catalog::Catalog,
    diagnostic::{Diagnostic, Outcome, fail, or_span},
    rel::{Rel, check_size, column_ref},
};

/// Relations by the names of `WITH`.
pub(crate) type Ctes = BTreeMap<String, Rc<Rel>>;

/// Deepest chain of views over views.
const MAX_VIEW_DEPTH: usize = 32;

/// Plans the queries of a script.
pub(crate) struct Planner<'a> {
    pub(crate) binder: &'a Binder,
    pub(crate) catalog: &'a Catalog,
    pub(crate) next_window: &'a Cell<u32>,
    pub(crate) warnings: &'a RefCell<Vec<Diagnostic>>,
    /// Where each GROUP BY of the script starts, in order.
    group_by: &'a [Location],
    relations: Cell<usize>,
    view_depth: Cell<usize>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        binder: &'a Binder,
        catalog: &'a Catalog,
        next_window: &'a Cell<u32>,
        warnings: &'a RefCell<Vec<Diagnostic>>,
        group_by: &'a [Location],
    ) -> Self {
        Planner {
            binder,
            catalog,
            next_window,
            warnings,
            group_by,
            relations: Cell::new(0),
            view_depth: Cell::new(0),
        }
    }

    /// Plans a query; `ctes` are those of the queries around it.
    pub(crate) fn plan_query(&self, query: &Query, ctes: &Ctes, outer: Span) -> Outcome<Rel> {
        let span = or_span(query.span(), outer);
        let mut ctes = ctes.clone();
        if let Some(with) = &query.with {
            if with.recursive {
                return refuse(with.with_token.0.span, "WITH RECURSIVE");
            }
            for cte in &with.cte_tables {
                let rel = self.plan_query(&cte.query, &ctes, cte.alias.name.span)?;
                let names: Vec<_> = cte
                    .alias
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .collect();
                let rel = rename(rel, &names, cte.alias.name.span)?;
                ctes.insert(cte.alias.name.value.clone(), Rc::new(rel));
            }
        }
        if let Some(order_by) = &query.order_by {
            return Err(Box::new(
                Diagnostic::unsupported(or_span(order_by.span(), span), "ORDER BY")
                    .with_hint("a stream has no end to sort up to; sort where the result is read"),
            ));
        }
        if let Some(limit) = &query.limit_clause {
            let what = match limit {
                LimitClause::LimitOffset { limit: None, .. } => "OFFSET",
                _ => "LIMIT",
            };
            return refuse(or_span(limit.span(), span), what);
        }
        if let Some(fetch) = &query.fetch {
            let count = fetch.quantity.as_ref().map(Spanned::span);
            let end = Span::new(span.end, span.end);
            return refuse(or_span(count.unwrap_or(end), span), "FETCH");
        }
        if !query.locks.is_empty()
            || query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return refuse(span, "a clause after the query");
        }
        self.plan_set_expr(&query.body, &ctes, span)
    }

    fn plan_set_expr(&self, body: &SetExpr, ctes: &Ctes, outer: Span) -> Outcome<Rel> {
        let rel = match body {
            SetExpr::Select(select) => self.plan_select(select, ctes, outer)?,
            SetExpr::Query(query) => self.plan_query(query, ctes, outer)?,
            SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => self.plan_set_operation(*op, *set_quantifier, left, right, ctes, outer)?,
            SetExpr::Values(values) => self.plan_values(values, outer)?,
            SetExpr::Table(_) => return refuse(outer, "the query TABLE t"),
            _ => return refuse(outer, "a change statement as a query"),
        };
        self.count(&rel, outer)?;
        Ok(rel)
    }

    /// The place of a GROUP BY, from the keyword on, given that of its expressions.
    fn group_by_span(&self, exprs: Span) -> Span {
        let start = self
            .group_by
            .iter()
            .rev()
            .find(|start| **start <= exprs.start);
        match start {
            Some(start) if exprs.start.line > 0 => Span::new(*start, exprs.end),
            _ => exprs,
        }
    }

    /// Accounts for a relation that enters the tree.
    fn count(&self, rel: &Rel, span: Span) -> Outcome<()> {
        self.relations.set(self.relations.get().max(rel.size()));
        check_size(self.relations.get(), span)
    }

    /// The relation of a view, planned anew where it is used.
    fn plan_view(&self, view: &crate::statement::CreateView, span: Span) -> Outcome<Rel> {
        let depth = self.view_depth.get();
        if depth >= MAX_VIEW_DEPTH {
            let message = format!("views are nested more than {MAX_VIEW_DEPTH} deep");
            return fail("too-complex", span, message);
        }
        self.view_depth.set(depth + 1);
        let planned = self.plan_query(&view.query, &Ctes::new(), view.name.span);
        self.view_depth.set(depth);
        rename(planned?, &view.columns, view.name.span)
    }
}

/// Gives the columns other names, if there are any.
pub(crate) fn rename(
    rel: Rel,
    names: &[datafusion_expr::sqlparser::ast::Ident],
    span: Span,
) -> Outcome<Rel> {
    if names.is_empty() {
        return Ok(rel);
    }
    if names.len() != rel.columns.len() {
        return fail(
            "column-count",
            span,
            format!("{} names for {} columns", names.len(), rel.columns.len()),
        );
    }
    let exprs = rel
        .columns
        .iter()
        .zip(names)
        .map(|(column, name)| {
            (
                column_ref(&column.name),
                name.value.clone(),
                column.data_type.clone(),
                column.nullable,
            )
        })
        .collect();
    Ok(rel.project(exprs))
}

/// What a projection needs of a bound expression.
pub(crate) fn named(
    bound: Bound,
    name: impl Into<String>,
) -> (Expr, String, arrow::datatypes::DataType, bool) {
    (bound.expr, name.into(), bound.data_type, bound.nullable)
}

fn refuse<T>(span: Span, clause: &str) -> Outcome<T> {
    Err(Box::new(Diagnostic::unsupported(span, clause)))
}
