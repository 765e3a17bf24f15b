//! Function calls: by name, with types resolved and arguments coerced.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema},
    error::ArrowError,
};
use datafusion_common::{DFSchema, DataFusionError, ScalarValue};
use datafusion_expr::sqlparser::{
    ast::{
        BinaryOperator, DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
        FunctionArguments, Spanned,
    },
    tokenizer::Span,
};
use datafusion_expr::{
    ColumnarValue, execution_props::ExecutionProps,
    physical_planning_context::PhysicalPlanningContext,
};
use datafusion_physical_expr::create_physical_expr;

use super::{Binder, Bound, Scope, cast_implicitly, function_names, refuse};
use crate::{
    diagnostic::{Diagnostic, Outcome, did_you_mean, fail, or_span},
    functions::{self, DIVISION_BY_ZERO, FlinkFunction, Nulls},
    statement::type_syntax,
};

/// A call's arguments as written.
pub(super) struct Arguments<'a> {
    pub(super) exprs: Vec<&'a Ast>,
    /// `COUNT(*)`.
    pub(super) wildcard: bool,
    pub(super) distinct: bool,
}

impl Binder {
    pub(super) fn bind_function(
        &self,
        function: &Function,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let name_span = or_span(function.name.span(), span);
        let name = match function.name.0.as_slice() {
            [part] => match part.as_ident() {
                Some(ident) => ident.value.clone(),
                None => return refuse(name_span, "this function name"),
            },
            _ => return refuse(name_span, "a function name with a catalog or database"),
        };
        if function.over.is_some() {
            return refuse(name_span, "OVER");
        }
        let upper = name.to_ascii_uppercase();
        let upper = match self.user_functions.get(&upper) {
            Some(stands_for) => stands_for.to_string(),
            None => upper,
        };
        let arguments = self.arguments(function, name_span)?;
        if super::aggregate::is_aggregate(&upper) {
            return self.bind_aggregate(&upper, function, &arguments, scope, name_span);
        }
        if !function.within_group.is_empty() {
            return refuse(name_span, "WITHIN GROUP");
        }
        if arguments.distinct || function.filter.is_some() || arguments.wildcard {
            return fail(
                "syntax",
                name_span,
                format!("{name} is not an aggregate function: it takes no DISTINCT, FILTER or *"),
            );
        }
        match upper.as_str() {
            "$CAST" | "$TRY_CAST" => self.bind_cast(&upper, &arguments, scope, span),
            "IF" if arguments.exprs.len() == 3 => {
                let condition =
                    self.bind_boolean(arguments.exprs[0], scope, span, "the condition of IF")?;
                let then = self.bind(arguments.exprs[1], scope, span)?;
                let otherwise = self.bind(arguments.exprs[2], scope, span)?;
                let results =
                    self.unify_results(vec![then, otherwise], "the results of IF", span)?;
                self.build_case(None, vec![condition], results, span)
            }
            "TIMESTAMPADD" | "TIMESTAMPDIFF" if arguments.exprs.len() == 3 => {
                // The unit is a word, which the parser takes for a column.
                let unit = arguments.exprs[0].to_string().to_ascii_uppercase();
                let unit = unit.strip_prefix("SQL_TSI_").unwrap_or(&unit).to_string();
                let mut bound = vec![super::text_argument(&unit, span)];
                for argument in &arguments.exprs[1..] {
                    bound.push(self.bind(argument, scope, span)?);
                }
                self.call_by_name(&upper, bound, span)
            }
            "UNIX_TIMESTAMP" if arguments.exprs.is_empty() => {
                self.call_by_name("$UNIX_NOW", vec![], span)
            }
            "MOD" if arguments.exprs.len() == 2 => {
                let [dividend, divisor] = [arguments.exprs[0], arguments.exprs[1]];
                let modulo = BinaryOperator::Modulo;
                self.bind_binary(dividend, &modulo, divisor, scope, span)
            }
            "$JSON_OBJECT" | "$JSON_ARRAY" => self.bind_json_value(&upper, &arguments, scope, span),
            "ROW" | "$MAP" if arguments.exprs.is_empty() => refuse(span, "an empty ROW or MAP"),
            "GROUPING" | "GROUPING_ID" | "GROUP_ID" => {
                self.bind_grouping(&upper, &arguments, scope, name_span)
            }
            "TUMBLE_START" | "TUMBLE_END" | "TUMBLE_ROWTIME" | "TUMBLE_PROCTIME" | "HOP_START"
            | "HOP_END" | "HOP_ROWTIME" | "HOP_PROCTIME" | "SESSION_START" | "SESSION_END"
            | "SESSION_ROWTIME" | "SESSION_PROCTIME" => {
                self.bind_window_property(&upper, &arguments, scope, name_span)
            }
            "TUMBLE" | "HOP" | "SESSION" | "CUMULATE" => fail(
                "syntax",
                name_span,
                format!(
                    "{upper} is a window: it belongs in FROM (TABLE({upper}(TABLE t, …))) or GROUP BY"
                ),
            ),
            _ => {
                if functions::lookup(&upper).is_none() {
                    return Err(Box::new(unknown_function(&name, name_span)));
                }
                let bound = arguments
                    .exprs
                    .iter()
                    .map(|argument| self.bind(argument, scope, span))
                    .collect::<Outcome<Vec<_>>>()?;
                self.call_by_name(&upper, bound, or_span(span, name_span))
            }
        }
    }

    fn arguments<'a>(&self, function: &'a Function, span: Span) -> Outcome<Arguments<'a>> {
        let mut arguments = Arguments {
            exprs: vec![],
            wildcard: false,
            distinct: false,
        };
        let list = match &function.args {
            FunctionArguments::None => return Ok(arguments),
            FunctionArguments::Subquery(_) => return refuse(span, "a subquery as an argument"),
            FunctionArguments::List(list) => list,
        };
        arguments.distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if let Some(clause) = list.clauses.first() {
            let text = clause.to_string();
            let words: Vec<&str> = text.split(' ').take(2).collect();
            return refuse(span, &format!("{} in a call", words.join(" ")));
        }
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.exprs.push(expr),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => arguments.wildcard = true,
                _ => return refuse(span, "this kind of argument"),
            }
        }
        Ok(arguments)
    }

    fn bind_cast(
        &self,
        name: &str,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let [value, target] = arguments.exprs.as_slice() else {
            return refuse(span, "this CAST");
        };
        let value = self.bind(value, scope, span)?;
        let target = self.bind(target, scope, span)?;
        match target.constant_string().map(type_syntax::type_from_text) {
            Some(Ok(target)) => self.cast(value, &target, name == "$TRY_CAST", span),
            _ => refuse(span, "this CAST"),
        }
    }

    /// JSON_OBJECT and JSON_ARRAY: arguments that are JSON already are taken as they are.
    fn bind_json_value(
        &self,
        name: &str,
        arguments: &Arguments,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let mut bound = arguments
            .exprs
            .iter()
            .map(|argument| self.bind(argument, scope, span))
            .collect::<Outcome<Vec<_>>>()?;
        let raw: Vec<String> = bound
            .iter()
            .enumerate()
            .filter(|(_, argument)| {
                matches!(&argument.expr, datafusion_expr::Expr::ScalarFunction(call)
                    if matches!(call.name(), "$JSON_OBJECT" | "$JSON_ARRAY" | "$JSON_QUERY"))
            })
            .map(|(i, _)| i.to_string())
            .collect();
        let on_null = bound[0].constant_string().unwrap_or("NULL");
        bound[0] = super::text_argument(&format!("{on_null} {}", raw.join(" ")), span);
        self.call_by_name(name, bound, span)
    }

    /// A call of a function that exists, with its arguments bound.
    pub(super) fn call_by_name(
        &self,
        name: &str,
        arguments: Vec<Bound>,
        span: Span,
    ) -> Outcome<Bound> {
        let Some(definition) = functions::lookup(name) else {
            return Err(Box::new(unknown_function(name, span)));
        };
        let types: Vec<DataType> = arguments
            .iter()
            .map(|argument| argument.data_type.clone())
            .collect();
        let literals: Vec<Option<ScalarValue>> = arguments
            .iter()
            .map(|argument| argument.constant().cloned())
            .collect();
        let (coerced, result) = match definition.resolve(&types, &literals) {
            Ok(resolved) => resolved,
            Err(why) => return fail("invalid-argument", span, why),
        };
        let arguments = arguments
            .into_iter()
            .zip(&coerced)
            .map(|(argument, to)| cast_implicitly(self, argument, to))
            .collect::<Outcome<Vec<_>>>()?;
        let nullable = match definition.nulls {
            Nulls::Never => false,
            Nulls::Possible => true,
            Nulls::UnlessOne => arguments.iter().all(|argument| argument.nullable),
            Nulls::Propagate => arguments.iter().any(|argument| argument.nullable),
        };
        let function = FlinkFunction::new(
            definition,
            arguments.len(),
            result.clone(),
            nullable,
            self.context.clone(),
        );
        Ok(Bound::call_udf(
            function.into_udf(),
            arguments,
            result,
            nullable,
            span,
        ))
    }

    /// The value of a constant expression.
    pub(crate) fn fold(&self, bound: &Bound) -> Result<ScalarValue, String> {
        let schema = DFSchema::empty();
        let physical = create_physical_expr(
            &bound.expr,
            &schema,
            &ExecutionProps::new(),
            &PhysicalPlanningContext::default(),
        )
        .map_err(|error| error.strip_backtrace())?;
        let row = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            vec![],
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )
        .map_err(|error| error.to_string())?;
        match physical.evaluate(&row) {
            Ok(ColumnarValue::Scalar(value)) => Ok(value),
            Ok(ColumnarValue::Array(array)) => {
                ScalarValue::try_from_array(&array, 0).map_err(|error| error.strip_backtrace())
            }
            Err(error) => Err(clean(&error)),
        }
    }
}

/// The message without the layers' prefixes, and without their advice on whom to tell.
fn clean(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::DivideByZero => DIVISION_BY_ZERO.to_string(),
            ArrowError::ArithmeticOverflow(text) => format!("a number is out of range: {text}"),
            ArrowError::CastError(text)
            | ArrowError::ParseError(text)
            | ArrowError::ComputeError(text)
            | ArrowError::InvalidArgumentError(text) => text.clone(),
            other => other.to_string(),
        },
        DataFusionError::Execution(text) | DataFusionError::Internal(text) => text.clone(),
        other => other.strip_backtrace(),
    };
    match text.split_once(DataFusionError::BACK_TRACE_SEP) {
        Some((text, _)) => text.to_string(),
        None => text,
    }
}

fn unknown_function(name: &str, span: Span) -> Diagnostic {
    let planned: HashSet<&str> = functions::PLANNED.iter().copied().collect();
    let upper = name.to_ascii_uppercase();
    if planned.contains(upper.as_str()) {
        return Diagnostic::unsupported(span, &format!("the function {upper}"));
    }
    Diagnostic::error("unknown-function", span, format!("unknown function {name}"))
        .with_optional_hint(did_you_mean(&upper, function_names()))
}
