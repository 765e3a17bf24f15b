//! Aggregate calls: collected while the select list is bound, typed by Flink's rules.

use std::cell::RefCell;

use arrow::datatypes::{DataType, Field};
use datafusion_common::Column;
use datafusion_expr::Expr;
use datafusion_expr::sqlparser::{
    ast::{Expr as Ast, Function},
    tokenizer::Span,
};
use millrace_dataflow::AggregateKind;

use super::{Binder, Bound, Scope, call::Arguments, cast_implicitly, refuse};
use crate::{
    diagnostic::{Diagnostic, Outcome, fail},
    flink_type::type_name,
};

/// The aggregate functions.
pub(super) const NAMES: &[&str] = &[
    "ARRAY_AGG",
    "AVG",
    "COUNT",
    "FIRST_VALUE",
    "LAST_VALUE",
    "LISTAGG",
    "MAX",
    "MIN",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "SUM",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
];

/// Whether the (upper-case) name is an aggregate function's.
pub(super) fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

/// One aggregate call over the input relation.
#[derive(Debug, Clone)]
pub(crate) struct AggregateUse {
    pub(crate) kind: AggregateKind,
    pub(crate) argument: Option<Bound>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Bound>,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
}

/// The aggregate calls of one SELECT.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    pub(crate) uses: Vec<AggregateUse>,
    /// Arguments of GROUPING calls, each answered by a placeholder column.
    pub(crate) groupings: Vec<Vec<Bound>>,
    /// The place of the first call.
    pub(crate) first: Option<Span>,
    /// While an argument is bound.
    inside: bool,
}

/// Name of the column that stands for an aggregate call until the plan is built.
pub(crate) fn aggregate_placeholder(index: usize) -> String {
    format!("\u{0}aggregate {index}")
}

/// Name of the column that stands for a GROUPING call.
pub(crate) fn grouping_placeholder(index: usize) -> String {
    format!("\u{0}grouping {index}")
}

/// Name of the column that stands for a property of the group window: `START`, `END`, `TIME`.
pub(crate) fn window_placeholder(property: &str) -> String {
    format!("\u{0}window {property}")
}

impl Binder {
    pub(super) fn bind_aggregate(
        &self,
        name: &str,
        function: &Function,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let Some(aggregates) = scope.aggregates else {
            return fail(
                "misplaced-aggregate",
                span,
                format!("the aggregate {name} cannot be used in {}", scope.clause),
            );
        };
        if aggregates.borrow().inside {
            let message = format!("the aggregate {name} is inside another one");
            return fail("misplaced-aggregate", span, message);
        }
        if !function.within_group.is_empty() {
            return refuse(span, "WITHIN GROUP");
        }
        if function.null_treatment.is_some() {
            return refuse(span, "IGNORE NULLS and RESPECT NULLS");
        }
        aggregates.borrow_mut().inside = true;
        let bound = self.bind_parts(name, function, arguments, scope, span);
        aggregates.borrow_mut().inside = false;
        let call = bound?;
        Ok(register(aggregates, call, span))
    }

    fn bind_parts(
        &self,
        name: &str,
        function: &Function,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<AggregateUse> {
        let filter = match &function.filter {
            Some(filter) => Some(self.bind_boolean(filter, scope, span, "FILTER")?),
            None => None,
        };
        let bound = arguments
            .exprs
            .iter()
            .map(|argument| self.bind(argument, scope, span))
            .collect::<Outcome<Vec<_>>>()?;
        let mut call =
            self.resolve_aggregate(name, bound, arguments.wildcard, arguments.distinct, span)?;
        call.filter = filter;
        // DISTINCT changes nothing for extremes.
        call.distinct = arguments.distinct
            && !matches!(
                call.kind,
                AggregateKind::Min | AggregateKind::Max | AggregateKind::CountStar
            );
        Ok(call)
    }

    fn resolve_aggregate(
        &self,
        name: &str,
        mut arguments: Vec<Bound>,
        wildcard: bool,
        distinct: bool,
        span: Span,
    ) -> Outcome<AggregateUse> {
        let call = |kind, argument, data_type, nullable| AggregateUse {
            kind,
            argument,
            distinct: false,
            filter: None,
            data_type,
            nullable,
        };
        if wildcard {
            if name != "COUNT" || distinct {
                return fail("syntax", span, format!("{name} takes no *"));
            }
            return Ok(call(AggregateKind::CountStar, None, DataType::Int64, false));
        }
        let mut separator = ",".to_string();
        if name == "LISTAGG" && arguments.len() == 2 {
            match arguments.pop().as_ref().and_then(Bound::constant_string) {
                Some(text) => separator = text.to_string(),
                None => {
                    return fail(
                        "invalid-argument",
                        span,
                        "the separator of LISTAGG must be a string literal",
                    );
                }
            }
        }
        let count = arguments.len();
        let (Some(argument), 1) = (arguments.pop(), count) else {
            if name == "COUNT" && count > 1 {
                return refuse(span, "COUNT of several columns");
            }
            return fail(
                "invalid-argument",
                span,
                format!("{name} takes one argument, not {count}"),
            );
        };
        let argument = match argument.data_type {
            DataType::Null => cast_implicitly(self, argument, &DataType::Int32)?,
            _ => argument,
        };
        let input = argument.data_type.clone();
        let wrong = |expected: &str| {
            fail(
                "invalid-argument",
                argument.span,
                format!("{name} takes {expected}, not {}", type_name(&input)),
            )
        };
        let (kind, data_type) = match name {
            "COUNT" if !argument.nullable && !distinct => {
                return Ok(call(AggregateKind::CountStar, None, DataType::Int64, false));
            }
            "COUNT" => (AggregateKind::Count, DataType::Int64),
            "SUM" | "AVG" if !input.is_numeric() => return wrong("a number"),
            "SUM" => match input {
                DataType::Decimal128(_, scale) => {
                    (AggregateKind::Sum, DataType::Decimal128(38, scale))
                }
                ref other => (AggregateKind::Sum, other.clone()),
            },
            "AVG" => match input {
                DataType::Decimal128(_, scale) => {
                    (AggregateKind::Avg, DataType::Decimal128(38, scale.max(6)))
                }
                ref other => (AggregateKind::Avg, other.clone()),
            },
            "MIN" | "MAX" if input.is_nested() || input == DataType::Binary => {
                return wrong("values with an order");
            }
            "MIN" => (AggregateKind::Min, input.clone()),
            "MAX" => (AggregateKind::Max, input.clone()),
            "FIRST_VALUE" => (AggregateKind::FirstValue, input.clone()),
            "LAST_VALUE" => (AggregateKind::LastValue, input.clone()),
            "ARRAY_AGG" => {
                let item = Field::new("item", input.clone(), true);
                (AggregateKind::ArrayAgg, DataType::List(item.into()))
            }
            "LISTAGG" if input != DataType::Utf8 => return wrong("a STRING"),
            "LISTAGG" => (AggregateKind::Listagg { separator }, DataType::Utf8),
            _ if !input.is_numeric() => return wrong("a number"),
            "STDDEV_POP" => (AggregateKind::StddevPop, DataType::Float64),
            "STDDEV_SAMP" | "STDDEV" => (AggregateKind::StddevSamp, DataType::Float64),
            "VAR_POP" => (AggregateKind::VarPop, DataType::Float64),
            _ => (AggregateKind::VarSamp, DataType::Float64),
        };
        let nullable = kind != AggregateKind::Count;
        Ok(call(kind, Some(argument), data_type, nullable))
    }

    pub(super) fn bind_grouping(
        &self,
        name: &str,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let Some(aggregates) = scope.aggregates else {
            let message = format!("{name} cannot be used in {}", scope.clause);
            return fail("misplaced-aggregate", span, message);
        };
        let inside = std::mem::replace(&mut aggregates.borrow_mut().inside, true);
        let bound = arguments
            .exprs
            .iter()
            .map(|argument| self.bind(argument, scope, span))
            .collect::<Outcome<Vec<_>>>();
        aggregates.borrow_mut().inside = inside;
        let bound = bound?;
        if name == "GROUP_ID" || bound.is_empty() || bound.len() > 62 {
            return refuse(span, &format!("{name} of {} columns", bound.len()));
        }
        let mut aggregates = aggregates.borrow_mut();
        aggregates.groupings.push(bound);
        aggregates.first.get_or_insert(span);
        let index = aggregates.groupings.len() - 1;
        Ok(placeholder(
            grouping_placeholder(index),
            DataType::Int64,
            false,
            span,
        ))
    }

    /// `TUMBLE_START(…)` and the like: a property of the group window in GROUP BY.
    pub(super) fn bind_window_property(
        &self,
        name: &str,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        if scope.aggregates.is_none() {
            let message = format!("{name} cannot be used in {}", scope.clause);
            return fail("misplaced-aggregate", span, message);
        }
        let Some(time) = arguments.exprs.first() else {
            return fail(
                "invalid-argument",
                span,
                format!("{name} takes the arguments of the window"),
            );
        };
        let time = self.bind(time, scope, span)?;
        let (_, property) = name.split_once('_').unwrap_or((name, "START"));
        let (property, data_type) = match property {
            "START" | "END" => (property, crate::flink_type::timestamp_ms(false)),
            _ => ("TIME", time.data_type),
        };
        Ok(placeholder(
            window_placeholder(property),
            data_type,
            false,
            span,
        ))
    }
}

fn placeholder(name: String, data_type: DataType, nullable: bool, span: Span) -> Bound {
    let mut column = Column::new_unqualified(name);
    if let Some(span) = datafusion_common::Span::try_from_sqlparser_span(span) {
        column.spans.add_span(span);
    }
    Bound {
        expr: Expr::Column(column),
        data_type,
        nullable,
        span,
    }
}

/// Adds a call unless the same is there, and answers with its placeholder.
fn register(aggregates: &RefCell<Aggregates>, call: AggregateUse, span: Span) -> Bound {
    let mut aggregates = aggregates.borrow_mut();
    aggregates.first.get_or_insert(span);
    let same = |other: &AggregateUse| {
        let expr = |bound: &Option<Bound>| bound.as_ref().map(|bound| bound.expr.clone());
        other.kind == call.kind
            && other.distinct == call.distinct
            && expr(&other.argument) == expr(&call.argument)
            && expr(&other.filter) == expr(&call.filter)
    };
    let index = match aggregates.uses.iter().position(same) {
        Some(index) => index,
        None => {
            aggregates.uses.push(call.clone());
            aggregates.uses.len() - 1
        }
    };
    placeholder(
        aggregate_placeholder(index),
        call.data_type,
        call.nullable,
        span,
    )
}

/// Whether an expression of the parser contains an aggregate call or a group window property.
pub(crate) fn is_constant_group(ast: &Ast) -> bool {
    matches!(ast, Ast::Value(_))
}

/// The error of grouping by a constant.
pub(crate) fn constant_group(span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::unsupported(span, "GROUP BY a constant or position")
            .with_hint("write the expression itself"),
    )
}
