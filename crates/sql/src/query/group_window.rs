//! Group windows: `GROUP BY TUMBLE(ts, INTERVAL …)`, the older form of windowed grouping.

use datafusion_expr::sqlparser::{
    ast::{Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned},
    tokenizer::Span,
};
use millrace_dataflow::WindowKind;

use super::{
    Planner,
    table_function::{check_kind, interval_millis},
};
use crate::{
    bind::{Bound, Scope},
    diagnostic::{Outcome, fail, or_span},
    rel::Rel,
};

/// A window of GROUP BY.
pub(super) struct GroupWindow {
    pub(super) kind: WindowKind,
    pub(super) time: Bound,
    pub(super) span: Span,
}

impl Planner<'_> {
    /// The window that a GROUP BY expression is, if it is one.
    pub(super) fn group_window(
        &self,
        ast: &Ast,
        scope: &Scope,
        outer: Span,
    ) -> Outcome<Option<GroupWindow>> {
        let Ast::Function(function) = ast else {
            return Ok(None);
        };
        let name = function.name.to_string().to_ascii_uppercase();
        if !matches!(name.as_str(), "TUMBLE" | "HOP" | "SESSION") {
            return Ok(None);
        }
        let span = or_span(function.name.span(), outer);
        let arguments = positional(function);
        let (Some(time), Some(first)) = (arguments.first(), arguments.get(1)) else {
            return fail(
                "invalid-argument",
                span,
                format!("{name} takes a time column and INTERVALs"),
            );
        };
        let time = self.binder.bind(time, scope, span)?;
        let millis = |ast: &Ast| {
            let bound = self.binder.bind(ast, scope, span)?;
            interval_millis(&bound, &name)
        };
        let first = millis(first)?;
        let second = match arguments.get(2) {
            Some(second) => Some(millis(second)?),
            None => None,
        };
        let kind = match (name.as_str(), second, arguments.len()) {
            ("TUMBLE", offset, 2 | 3) => WindowKind::Tumble {
                size: first,
                offset: offset.unwrap_or(0),
            },
            ("HOP", Some(size), 3) => WindowKind::Hop {
                slide: first,
                size,
                offset: 0,
            },
            ("SESSION", None, 2) => WindowKind::Session { gap: first },
            _ => {
                let message = format!("{name} does not take {} arguments here", arguments.len());
                return fail("invalid-argument", span, message);
            }
        };
        check_kind(&kind, span)?;
        Ok(Some(GroupWindow { kind, time, span }))
    }

    /// Puts the window under the aggregate.
    pub(super) fn apply_group_window(
        &self,
        rel: Rel,
        window: &GroupWindow,
        time: usize,
        keys: Vec<usize>,
    ) -> Outcome<Rel> {
        let partition_by = match window.kind {
            WindowKind::Session { .. } => keys,
            _ => vec![],
        };
        self.window(rel, window.kind, time, partition_by, window.span)
    }
}

fn positional(function: &Function) -> Vec<&Ast> {
    match &function.args {
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
