//! Expressions ready to evaluate: simplified, planned against the real input, cast back if
//! planning changed the type.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::sqlparser::tokenizer::Span;
use datafusion_expr::{
    Case, Expr, ExprSchemable, execution_props::ExecutionProps,
    physical_planning_context::PhysicalPlanningContext, simplify::SimplifyContext,
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_physical_expr::create_physical_expr;
use millrace_dataflow::ScalarExpr;

use crate::{
    bind::{can_fail, expr_text},
    diagnostic::{Outcome, fail},
    functions::Select,
    rel::Column,
};

static EXECUTION: LazyLock<ExecutionProps> = LazyLock::new(ExecutionProps::new);

/// Plans an expression over `input` that yields `column`.
pub(super) fn plan_scalar(expr: &Expr, column: &Column, input: &SchemaRef) -> Outcome<ScalarExpr> {
    match try_plan(expr, column, input) {
        Ok(scalar) => Ok(scalar),
        Err(error) => fail(
            "internal",
            Span::empty(),
            format!(
                "cannot plan {}: {}",
                expr_text(expr, &str::to_string),
                error.strip_backtrace()
            ),
        ),
    }
}

/// Whether an expression costs nothing to repeat.
pub(super) fn is_trivial(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(_, _) => true,
        // A field of a row is a pointer away.
        Expr::ScalarFunction(call) => {
            call.name().starts_with('.') && call.args.iter().all(is_trivial)
        }
        _ => false,
    }
}

/// Replaces every CASE without costly or fallible parts by a selection over whole columns.
fn select_cheap_branches(expr: Expr, schema: &DFSchema) -> Result<Expr, DataFusionError> {
    let replaced = expr.transform_up(|inner| {
        let Expr::Case(case) = inner else {
            return Ok(Transformed::no(inner));
        };
        let searched = as_searched(case);
        let inner = Expr::Case(searched.clone());
        let case = &searched;
        let cheap = case.expr.is_none()
            && !case.when_then_expr.is_empty()
            && case.else_expr.as_deref().is_none_or(is_trivial)
            && case
                .when_then_expr
                .iter()
                .all(|(when, then)| is_trivial(then) && !can_fail(when) && !when.is_volatile());
        if !cheap {
            return Ok(Transformed::no(inner));
        }
        let data_type = inner.get_type(schema)?;
        match inner {
            Expr::Case(case) => Ok(Transformed::yes(Select::of(case, data_type))),
            other => Ok(Transformed::no(other)),
        }
    })?;
    Ok(replaced.data)
}

/// `CASE x WHEN a THEN …` as `CASE WHEN x = a THEN …`, if `x` costs nothing to repeat.
fn as_searched(mut case: Case) -> Case {
    if let Some(subject) = case.expr.take_if(|subject| is_trivial(subject)) {
        for (when, _) in &mut case.when_then_expr {
            let value = std::mem::replace(when.as_mut(), Expr::Literal(ScalarValue::Null, None));
            **when = subject.as_ref().clone().eq(value);
        }
    }
    case
}

/// The type and nullability of an expression over `input`.
pub(super) fn expr_type(expr: &Expr, input: &SchemaRef) -> Outcome<(DataType, bool)> {
    let typed = DFSchema::try_from(input.as_ref().clone())
        .and_then(|schema| Ok((expr.get_type(&schema)?, expr.nullable(&schema)?)));
    match typed {
        Ok(typed) => Ok(typed),
        Err(error) => fail("internal", Span::empty(), error.strip_backtrace()),
    }
}

fn try_plan(
    expr: &Expr,
    column: &Column,
    input: &SchemaRef,
) -> Result<ScalarExpr, DataFusionError> {
    let schema = Arc::new(DFSchema::try_from(input.as_ref().clone())?);
    let mut simplified = expr.clone();
    // Simplification turns CASE into AND and OR, which evaluate both sides: it would undo
    // the guards of expressions that can fail.
    if !can_fail(expr) {
        let context = SimplifyContext::builder()
            .with_schema(Arc::clone(&schema))
            .build();
        let candidate = ExprSimplifier::new(context).simplify(expr.clone())?;
        if candidate.get_type(schema.as_ref())? == column.data_type {
            simplified = candidate;
        }
    }
    simplified = select_cheap_branches(simplified, &schema)?;
    let planned = simplified.get_type(schema.as_ref())?;
    if planned != column.data_type {
        simplified = Expr::Cast(datafusion_expr::Cast::new(
            Box::new(simplified),
            column.data_type.clone(),
        ));
    }
    let physical = create_physical_expr(
        &simplified,
        &schema,
        &EXECUTION,
        &PhysicalPlanningContext::default(),
    )?;
    let nullable = column.nullable || physical.nullable(input)?;
    Ok(ScalarExpr {
        field: Field::new(&column.name, column.data_type.clone(), nullable),
        text: expr_text(&simplified, &str::to_string),
        expr: physical,
    })
}
