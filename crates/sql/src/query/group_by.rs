//! `GROUP BY`, grouping sets, HAVING: from bound select items to an aggregate relation.
//!
//! The input is first projected to the keys and the arguments of the calls; expressions of
//! the select list are then rewritten over the aggregate's output.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use datafusion_expr::sqlparser::{ast::Expr as Ast, tokenizer::Span};
use millrace_dataflow::KeyEncoder;

use super::{
    Planner,
    grouping_sets::{Groups, grouping_bits},
    select::{Item, window_of},
};
use crate::{
    bind::{
        AggregateUse, Aggregates, Bound, aggregate_placeholder, expr_text, grouping_placeholder,
        window_placeholder,
    },
    diagnostic::{Diagnostic, Outcome, fail},
    flink_type::type_name,
    rel::{Call, Column, Rel, WindowRole, column_ref},
};

/// Columns of the projection below the aggregate.
#[derive(Default)]
struct Inputs {
    exprs: Vec<(Expr, String, DataType, bool)>,
}

impl Inputs {
    /// Position of the expression, which is added if it is not there.
    fn position(&mut self, bound: &Bound, name: &str, from: usize) -> usize {
        let same = self.exprs[from.min(self.exprs.len())..]
            .iter()
            .position(|(expr, ..)| expr == &bound.expr);
        match same {
            Some(position) => from + position,
            None => {
                self.exprs.push((
                    bound.expr.clone(),
                    name.to_string(),
                    bound.data_type.clone(),
                    bound.nullable,
                ));
                self.exprs.len() - 1
            }
        }
    }
}

impl Planner<'_> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn plan_group_by(
        &self,
        input: Rel,
        alias: Option<&str>,
        groups: &[Ast],
        aggregates: Aggregates,
        items: Vec<Item>,
        having: Option<Bound>,
        span: Span,
    ) -> Outcome<Rel> {
        let groups = self.bind_groups(&input, alias, groups, span)?;
        let expands = groups.sets.len() > 1
            || groups
                .sets
                .first()
                .is_some_and(|set| set.len() != groups.keys.len());

        // Keys first; arguments share their columns unless grouping sets null them.
        let mut inputs = Inputs::default();
        for (i, key) in groups.keys.iter().enumerate() {
            let name = match input.plain_column(&key.expr) {
                Some(column) => column.name.clone(),
                None => format!("key{i}"),
            };
            inputs
                .exprs
                .push((key.expr.clone(), name, key.data_type.clone(), key.nullable));
        }
        let share_from = if expands { groups.keys.len() } else { 0 };
        let mut calls = vec![];
        for (i, call) in aggregates.uses.iter().enumerate() {
            calls.push(self.call_over(&input, call, i, &mut inputs, share_from));
        }
        let time = groups.window.as_ref().map(|window| {
            let name = match input.plain_column(&window.time.expr) {
                Some(column) => column.name.clone(),
                None => "time".to_string(),
            };
            inputs.position(&window.time, &name, share_from)
        });
        if inputs.exprs.is_empty() {
            // COUNT(*) alone needs rows, not columns.
            let event_time = input.columns.iter().find(|column| column.time.is_some());
            let plain = input
                .columns
                .iter()
                .find(|column| column.data_type.is_primitive());
            match event_time.or(plain).or(input.columns.first()) {
                Some(column) => inputs.exprs.push((
                    column_ref(&column.name),
                    column.name.clone(),
                    column.data_type.clone(),
                    column.nullable,
                )),
                None => return fail("internal", span, "a relation without columns"),
            }
        }
        let meaning_source = input;
        let mut rel = meaning_source.project(inputs.exprs);
        let mut keys: Vec<usize> = (0..groups.keys.len()).collect();
        let mut grouping_id = None;
        if expands {
            let (expanded, position) = self.expand(rel, &groups);
            rel = expanded;
            grouping_id = Some(position);
            keys.push(position);
        }
        if let (Some(window), Some(time)) = (&groups.window, time) {
            let session_keys = keys.clone();
            rel = self.apply_group_window(rel, window, time, session_keys)?;
        }
        let window = match &groups.window {
            Some(_) => {
                let width = rel.columns.len();
                Some((width - 3, width - 2))
            }
            None => {
                let key_columns: Vec<Column> =
                    keys.iter().map(|key| rel.columns[*key].clone()).collect();
                window_of(&key_columns).map(|(start, end)| (keys[start], keys[end]))
            }
        };
        // A window's own columns are not keys beside it.
        let plain_keys: Vec<usize> = match window {
            Some((start, _)) => {
                let id = rel.columns[start].window.map(|window| window.id);
                keys.iter()
                    .copied()
                    .filter(|key| rel.columns[*key].window.map(|window| window.id) != id)
                    .collect()
            }
            None => keys.clone(),
        };
        self.warn_about_half_windows(&rel, &keys, window.is_some(), span);
        let clause = if groups.keys.is_empty() {
            "an aggregate without a window"
        } else {
            "GROUP BY without a window"
        };
        let roles: Vec<_> = keys.iter().map(|key| rel.columns[*key].window).collect();
        let calls = calls
            .into_iter()
            .zip(&aggregates.uses)
            .enumerate()
            .map(|(i, (call, used))| {
                let lineage = call_meaning(&rel, &call);
                let column = Column::plain(
                    format!("agg{i}"),
                    used.data_type.clone(),
                    used.nullable,
                    lineage,
                );
                (call, column)
            })
            .collect();
        let aggregated = self.aggregate(rel, plain_keys.clone(), calls, window, span, clause)?;

        // What the select list may refer to, and how the aggregate's output answers it.
        let output = |position: usize| column_ref(&aggregated.columns[position].name);
        let width = aggregated.columns.len();
        let mut answers: Vec<(Expr, Expr)> = vec![];
        for (i, key) in groups.keys.iter().enumerate() {
            let position = plain_keys.iter().position(|plain| *plain == keys[i]);
            let position = match (position, roles[i]) {
                (Some(position), _) => position,
                (None, Some(window)) => match window.role {
                    WindowRole::Start => width - 3,
                    WindowRole::End => width - 2,
                    WindowRole::Time => width - 1,
                },
                (None, None) => continue,
            };
            answers.push((key.expr.clone(), output(position)));
        }
        for i in 0..aggregates.uses.len() {
            answers.push((
                column_ref(&aggregate_placeholder(i)),
                output(plain_keys.len() + i),
            ));
        }
        if groups.window.is_some() {
            for (property, position) in [
                ("START", width - 3),
                ("END", width - 2),
                ("TIME", width - 1),
            ] {
                answers.push((column_ref(&window_placeholder(property)), output(position)));
            }
        }
        for (i, arguments) in aggregates.groupings.iter().enumerate() {
            let id = grouping_id
                .and_then(|id| plain_keys.iter().position(|key| *key == id))
                .map(output);
            let bits = grouping_bits(arguments, &groups, id, span)?;
            answers.push((column_ref(&grouping_placeholder(i)), bits));
        }
        let mut rel = aggregated.clone();
        if let Some(having) = having {
            let predicate = rewrite(&having, &answers, &groups, having.span)?;
            rel = rel.filter(predicate);
        }
        let exprs = items
            .into_iter()
            .map(|item| {
                let expr = rewrite(&item.bound, &answers, &groups, item.bound.span)?;
                let nullable = match rel.plain_column(&expr) {
                    Some(column) => column.nullable,
                    None => item.bound.nullable || expands,
                };
                Ok((expr, item.name, item.bound.data_type, nullable))
            })
            .collect::<Outcome<Vec<_>>>()?;
        Ok(rel.project(exprs))
    }

    fn call_over(
        &self,
        input: &Rel,
        call: &AggregateUse,
        index: usize,
        inputs: &mut Inputs,
        share_from: usize,
    ) -> Call {
        let argument = call.argument.as_ref().map(|argument| {
            let name = match input.plain_column(&argument.expr) {
                Some(column) => column.name.clone(),
                None => format!("arg{index}"),
            };
            inputs.position(argument, &name, share_from)
        });
        let filter = call
            .filter
            .as_ref()
            .map(|filter| inputs.position(filter, &format!("filter{index}"), share_from));
        Call {
            kind: call.kind.clone(),
            argument,
            distinct: call.distinct,
            filter,
        }
    }

    fn warn_about_half_windows(&self, rel: &Rel, keys: &[usize], windowed: bool, span: Span) {
        let role = keys
            .iter()
            .filter_map(|key| rel.columns[*key].window)
            .next();
        if windowed || role.is_none() {
            return;
        }
        self.warnings.borrow_mut().push(
            Diagnostic::warning(
                "unwindowed-group",
                span,
                "grouping by only some of the window's columns keeps state for ever and emits updates",
            )
            .with_hint("group by both window_start and window_end"),
        );
    }
}

/// Checks that values of the column can be keys.
pub(super) fn check_key_type(column: &Column, span: Span) -> Outcome<()> {
    match KeyEncoder::new(vec![column.data_type.clone()]) {
        Ok(_) => Ok(()),
        Err(_) => Err(Box::new(
            Diagnostic::error(
                "invalid-key",
                span,
                format!(
                    "cannot group by `{}` of type {}",
                    column.name,
                    type_name(&column.data_type)
                ),
            )
            .with_hint("group by its fields, or CAST it to STRING"),
        )),
    }
}

/// The meaning of a call: `SUM(bids.price) FILTER (WHERE bids.price > 100)`.
pub(crate) fn call_meaning(input: &Rel, call: &Call) -> String {
    use millrace_dataflow::AggregateKind::*;
    let name = match &call.kind {
        CountStar | Count => "COUNT",
        Sum => "SUM",
        Avg => "AVG",
        Min => "MIN",
        Max => "MAX",
        FirstValue => "FIRST_VALUE",
        LastValue => "LAST_VALUE",
        StddevPop => "STDDEV_POP",
        StddevSamp => "STDDEV_SAMP",
        VarPop => "VAR_POP",
        VarSamp => "VAR_SAMP",
        ArrayAgg => "ARRAY_AGG",
        Listagg { .. } => "LISTAGG",
    };
    let argument = match call.argument {
        Some(argument) => {
            let column = &input.columns[argument];
            format!("{} {}", column.lineage, type_name(&column.data_type))
        }
        None => "*".to_string(),
    };
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let mut meaning = format!("{name}({distinct}{argument})");
    if let Listagg { separator } = &call.kind {
        meaning.push_str(&format!(" SEPARATOR '{separator}'"));
    }
    if let Some(filter) = call.filter {
        meaning.push_str(&format!(
            " FILTER (WHERE {})",
            input.columns[filter].lineage
        ));
    }
    meaning
}

/// Rewrites an expression over the input to one over the aggregate's output.
fn rewrite(bound: &Bound, answers: &[(Expr, Expr)], groups: &Groups, span: Span) -> Outcome<Expr> {
    let rewritten = bound.expr.clone().transform_down(|expr| {
        match answers.iter().find(|(from, _)| from == &expr) {
            // What an answer consists of is not looked at again.
            Some((_, to)) => Ok(Transformed::new(to.clone(), true, TreeNodeRecursion::Jump)),
            None => match &expr {
                Expr::Column(column) => Err(datafusion_common::DataFusionError::Plan(ungrouped(
                    column, groups,
                ))),
                _ => Ok(Transformed::no(expr)),
            },
        }
    });
    match rewritten {
        Ok(rewritten) => Ok(rewritten.data),
        Err(error) => {
            let mut blamed = span;
            let _ = bound.expr.apply(|expr| {
                if let Expr::Column(column) = expr
                    && answers.iter().all(|(from, _)| from != expr)
                    && let Some(place) = column.spans.first()
                {
                    use datafusion_expr::sqlparser::tokenizer::Location;
                    blamed = Span::new(
                        Location::new(place.start.line, place.start.column),
                        Location::new(place.end.line, place.end.column),
                    );
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            });
            let text = error.strip_backtrace();
            let message = text
                .strip_prefix("Error during planning: ")
                .unwrap_or(&text);
            Err(Box::new(
                Diagnostic::error("not-grouped", blamed, message)
                    .with_hint("add it to GROUP BY, or aggregate it, as in FIRST_VALUE(…)"),
            ))
        }
    }
}

fn ungrouped(column: &datafusion_common::Column, groups: &Groups) -> String {
    if column.name.starts_with('\u{0}') {
        return "the window function of this call is not in GROUP BY".to_string();
    }
    let keys: Vec<String> = groups
        .keys
        .iter()
        .map(|key| expr_text(&key.expr, &str::to_string))
        .collect();
    if keys.is_empty() {
        return format!("`{}` is neither aggregated nor grouped", column.name);
    }
    format!(
        "`{}` is neither aggregated nor grouped (GROUP BY has {})",
        column.name,
        keys.join(", ")
    )
}
