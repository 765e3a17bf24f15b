//! Expressions: from the parser's tree to typed DataFusion expressions with Flink's meaning.
//!
//! Every node is typed as it is built and all implicit casts are explicit in the result, so
//! nothing downstream coerces. Columns are named by their unique name in the input relation.

mod access;
mod aggregate;
mod call;
mod coerce;
mod guard;
mod literal;
mod operator;
mod scope;
mod text;

use std::sync::Arc;

use arrow::datatypes::DataType;
use chrono_tz::Tz;
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::{
    ast::{self, Expr as Ast, Spanned},
    tokenizer::Span,
};
use datafusion_expr::{Expr, ScalarUDF, ScalarUDFImpl, expr::ScalarFunction};

use crate::{
    diagnostic::{Diagnostic, Outcome, fail, or_span},
    flink_type::type_name,
    functions::{self, Context},
};

pub(crate) use aggregate::{
    AggregateUse, Aggregates, aggregate_placeholder, constant_group, grouping_placeholder,
    is_constant_group, window_placeholder,
};
pub(crate) use coerce::{Assignment, cast_implicitly, common_type};
pub(crate) use guard::{can_fail, guarded};
pub(crate) use literal::ConstantInterval;
pub(crate) use scope::Scope;
pub(crate) use text::{expr_text, literal_text};

/// A typed expression.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) expr: Expr,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    pub(crate) span: Span,
}

impl Bound {
    pub(crate) fn literal(value: ScalarValue, span: Span) -> Self {
        Bound {
            data_type: value.data_type(),
            nullable: value.is_null(),
            expr: Expr::Literal(value, None),
            span,
        }
    }

    pub(crate) fn constant(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// The text of a string literal.
    pub(crate) fn constant_string(&self) -> Option<&str> {
        match self.constant()? {
            ScalarValue::Utf8(Some(text)) => Some(text),
            _ => None,
        }
    }

    /// A call of a function whose arguments have the types it takes.
    pub(crate) fn call(
        function: impl ScalarUDFImpl + 'static,
        arguments: Vec<Bound>,
        data_type: DataType,
        nullable: bool,
        span: Span,
    ) -> Self {
        Bound::call_udf(
            Arc::new(ScalarUDF::new_from_impl(function)),
            arguments,
            data_type,
            nullable,
            span,
        )
    }

    pub(crate) fn call_udf(
        function: Arc<ScalarUDF>,
        arguments: Vec<Bound>,
        data_type: DataType,
        nullable: bool,
        span: Span,
    ) -> Self {
        let arguments = arguments.into_iter().map(|bound| bound.expr).collect();
        Bound {
            expr: Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments)),
            data_type,
            nullable,
            span,
        }
    }
}

/// Binds expressions.
#[derive(Debug, Clone)]
pub(crate) struct Binder {
    pub(crate) context: Context,
    /// Names of functions made with CREATE FUNCTION, upper case, and what they stand for.
    pub(crate) user_functions: std::collections::BTreeMap<String, &'static str>,
}

impl Binder {
    pub(crate) fn zone(&self) -> Tz {
        self.context.zone
    }

    /// Binds an expression; `outer` is the place to blame where the tree has none.
    pub(crate) fn bind(&self, ast: &Ast, scope: &Scope, outer: Span) -> Outcome<Bound> {
        let span = or_span(ast.span(), outer);
        let mut bound = self.bind_node(ast, scope, span)?;
        bound.span = span;
        Ok(bound)
    }

    /// Binds a condition.
    pub(crate) fn bind_boolean(
        &self,
        ast: &Ast,
        scope: &Scope,
        outer: Span,
        clause: &str,
    ) -> Outcome<Bound> {
        let bound = self.bind(ast, scope, outer)?;
        match bound.data_type {
            DataType::Boolean => Ok(bound),
            DataType::Null => Ok(Bound::literal(ScalarValue::Boolean(None), bound.span)),
            ref other => fail(
                "type-mismatch",
                bound.span,
                format!("{clause} must be BOOLEAN, not {}", type_name(other)),
            ),
        }
    }

    fn bind_node(&self, ast: &Ast, scope: &Scope, span: Span) -> Outcome<Bound> {
        match ast {
            Ast::Identifier(_) | Ast::CompoundIdentifier(_) | Ast::CompoundFieldAccess { .. } => {
                self.bind_access(ast, scope, span)
            }
            Ast::Value(value) => literal::bind_value(&value.value, span),
            Ast::Nested(inner) => self.bind(inner, scope, span),
            Ast::Interval(interval) => literal::bind_interval(interval, span),
            Ast::TypedString(typed) => self.bind_typed_string(typed, span),
            Ast::BinaryOp { left, op, right } => self.bind_binary(left, op, right, scope, span),
            Ast::UnaryOp { op, expr } => self.bind_unary(op, expr, scope, span),
            Ast::IsNull(expr) => {
                let expr = self.bind(expr, scope, span)?.expr;
                Ok(boolean(Expr::IsNull(Box::new(expr)), false, span))
            }
            Ast::IsNotNull(expr) => {
                let expr = self.bind(expr, scope, span)?.expr;
                Ok(boolean(Expr::IsNotNull(Box::new(expr)), false, span))
            }
            Ast::IsTrue(expr) => self.bind_truth(expr, Expr::IsTrue, "IS TRUE", scope, span),
            Ast::IsNotTrue(expr) => {
                self.bind_truth(expr, Expr::IsNotTrue, "IS NOT TRUE", scope, span)
            }
            Ast::IsFalse(expr) => self.bind_truth(expr, Expr::IsFalse, "IS FALSE", scope, span),
            Ast::IsNotFalse(expr) => {
                self.bind_truth(expr, Expr::IsNotFalse, "IS NOT FALSE", scope, span)
            }
            Ast::IsUnknown(expr) => {
                self.bind_truth(expr, Expr::IsUnknown, "IS UNKNOWN", scope, span)
            }
            Ast::IsNotUnknown(expr) => {
                self.bind_truth(expr, Expr::IsNotUnknown, "IS NOT UNKNOWN", scope, span)
            }
            Ast::IsDistinctFrom(left, right) => self.bind_comparison(
                left,
                datafusion_expr::Operator::IsDistinctFrom,
                right,
                scope,
                span,
            ),
            Ast::IsNotDistinctFrom(left, right) => self.bind_comparison(
                left,
                datafusion_expr::Operator::IsNotDistinctFrom,
                right,
                scope,
                span,
            ),
            Ast::Between {
                expr,
                negated,
                low,
                high,
            } => self.bind_between(expr, *negated, low, high, scope, span),
            Ast::InList {
                expr,
                list,
                negated,
            } => self.bind_in_list(expr, list, *negated, scope, span),
            Ast::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.bind_like(
                *negated,
                expr,
                pattern,
                escape_char.as_ref().map(|escape| &escape.value),
                scope,
                span,
            ),
            Ast::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.bind_similar(
                *negated,
                expr,
                pattern,
                escape_char.as_ref().map(|escape| &escape.value),
                scope,
                span,
            ),
            Ast::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.bind_case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                scope,
                span,
            ),
            Ast::Function(function) => self.bind_function(function, scope, span),
            Ast::Extract { field, expr, .. } => {
                let unit = field.to_string();
                self.bind_special(
                    "EXTRACT",
                    vec![text_argument(&unit, span)],
                    &[expr],
                    scope,
                    span,
                )
            }
            Ast::Ceil { expr, field } => self.bind_rounding("CEIL", expr, field, scope, span),
            Ast::Floor { expr, field } => self.bind_rounding("FLOOR", expr, field, scope, span),
            Ast::Position { expr, r#in } => {
                self.bind_special("LOCATE", vec![], &[expr, r#in], scope, span)
            }
            Ast::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let mut arguments: Vec<&Ast> = vec![expr];
                arguments.extend(substring_from.as_deref());
                arguments.extend(substring_for.as_deref());
                self.bind_special("SUBSTRING", vec![], &arguments, scope, span)
            }
            Ast::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters: None,
            } => {
                let side = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "LEADING",
                    Some(ast::TrimWhereField::Trailing) => "TRAILING",
                    Some(ast::TrimWhereField::Both) | None => "BOTH",
                };
                let mut arguments: Vec<&Ast> = vec![expr];
                arguments.extend(trim_what.as_deref());
                self.bind_special(
                    "$TRIM",
                    vec![text_argument(side, span)],
                    &arguments,
                    scope,
                    span,
                )
            }
            Ast::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let mut arguments: Vec<&Ast> = vec![expr, overlay_what, overlay_from];
                arguments.extend(overlay_for.as_deref());
                self.bind_special("OVERLAY", vec![], &arguments, scope, span)
            }
            Ast::Array(array) => {
                let elements: Vec<&Ast> = array.elem.iter().collect();
                self.bind_special("$ARRAY", vec![], &elements, scope, span)
            }
            Ast::Tuple(values) => {
                let values: Vec<&Ast> = values.iter().collect();
                self.bind_special("ROW", vec![], &values, scope, span)
            }
            Ast::Subquery(_) => refuse(span, "a scalar subquery"),
            Ast::Exists { .. } => refuse(span, "EXISTS"),
            Ast::InSubquery { .. } => refuse(span, "IN with a subquery"),
            Ast::AtTimeZone { .. } => Err(Box::new(
                Diagnostic::unsupported(span, "AT TIME ZONE").with_hint("use CONVERT_TZ"),
            )),
            Ast::Cast { .. } => Err(Box::new(
                Diagnostic::unsupported(span, "the cast operator ::")
                    .with_hint("write CAST(value AS type)"),
            )),
            Ast::ILike { .. } => Err(Box::new(
                Diagnostic::unsupported(span, "ILIKE").with_hint("compare LOWER(…) with LIKE"),
            )),
            Ast::Wildcard(_) | Ast::QualifiedWildcard(_, _) => fail(
                "syntax",
                span,
                "* stands for columns only in the SELECT list and in COUNT(*)",
            ),
            Ast::GroupingSets(_) | Ast::Cube(_) | Ast::Rollup(_) => {
                fail("syntax", span, "grouping sets belong in GROUP BY")
            }
            other => {
                let text: String = other.to_string().chars().take(40).collect();
                refuse(span, &format!("the expression {text}"))
            }
        }
    }

    /// A call of a function in special syntax: constants first, then expressions.
    fn bind_special(
        &self,
        name: &str,
        mut constants: Vec<Bound>,
        arguments: &[&Ast],
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        for argument in arguments {
            constants.push(self.bind(argument, scope, span)?);
        }
        self.call_by_name(name, constants, span)
    }

    fn bind_rounding(
        &self,
        name: &str,
        expr: &Ast,
        field: &ast::CeilFloorKind,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        match field {
            ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) => {
                self.bind_special(name, vec![], &[expr], scope, span)
            }
            ast::CeilFloorKind::DateTimeField(unit) => {
                let unit = text_argument(&unit.to_string(), span);
                self.bind_special(&format!("${name}_TO"), vec![unit], &[expr], scope, span)
            }
            ast::CeilFloorKind::Scale(_) => refuse(span, &format!("{name} with a scale")),
        }
    }

    fn bind_truth(
        &self,
        expr: &Ast,
        test: fn(Box<Expr>) -> Expr,
        clause: &str,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let operand = self.bind_boolean(expr, scope, span, &format!("the operand of {clause}"))?;
        Ok(boolean(test(Box::new(operand.expr)), false, span))
    }
}

/// The functions that scripts may call, for suggestions.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    functions::names().chain(aggregate::NAMES.iter().copied())
}

fn boolean(expr: Expr, nullable: bool, span: Span) -> Bound {
    Bound {
        expr,
        data_type: DataType::Boolean,
        nullable,
        span,
    }
}

fn text_argument(text: &str, span: Span) -> Bound {
    Bound::literal(ScalarValue::Utf8(Some(text.to_string())), span)
}

fn refuse<T>(span: Span, clause: &str) -> Outcome<T> {
    Err(Box::new(Diagnostic::unsupported(span, clause)))
}
