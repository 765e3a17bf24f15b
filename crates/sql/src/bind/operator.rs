//! Operators: logic, comparison, arithmetic, concatenation, LIKE, CASE.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::{
    ast::{BinaryOperator, CaseWhen, Expr as Ast, UnaryOperator, Value},
    tokenizer::Span,
};
use datafusion_expr::{BinaryExpr, Case, Expr, Like, Operator, expr::InList};

use super::{
    Assignment, Binder, Bound, Scope, boolean, cast_implicitly,
    coerce::{common_type, decimal_shape},
    guard::guarded,
    literal::{self, ConstantInterval, is_interval},
    refuse,
};
use crate::{
    diagnostic::{Diagnostic, Outcome, fail},
    flink_type::type_name,
    functions::{AddInterval, Arithmetic, DecimalArithmetic, decimal_result},
};

impl Binder {
    pub(super) fn bind_binary(
        &self,
        left: &Ast,
        op: &BinaryOperator,
        right: &Ast,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let comparison = match op {
            BinaryOperator::And => return self.bind_logic(left, Operator::And, right, scope, span),
            BinaryOperator::Or => return self.bind_logic(left, Operator::Or, right, scope, span),
            BinaryOperator::Eq => Some(Operator::Eq),
            BinaryOperator::NotEq => Some(Operator::NotEq),
            BinaryOperator::Lt => Some(Operator::Lt),
            BinaryOperator::LtEq => Some(Operator::LtEq),
            BinaryOperator::Gt => Some(Operator::Gt),
            BinaryOperator::GtEq => Some(Operator::GtEq),
            _ => None,
        };
        if let Some(operator) = comparison {
            return self.bind_comparison(left, operator, right, scope, span);
        }
        let arithmetic = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Modulo,
            BinaryOperator::StringConcat => {
                let left = self.bind(left, scope, span)?;
                let right = self.bind(right, scope, span)?;
                return self.call_by_name("||", vec![left, right], span);
            }
            other => return refuse(span, &format!("the operator {other}")),
        };
        let left = self.bind(left, scope, span)?;
        let right = self.bind(right, scope, span)?;
        self.arithmetic(left, arithmetic, right, span)
    }

    fn bind_logic(
        &self,
        left: &Ast,
        op: Operator,
        right: &Ast,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let clause = format!("the operand of {op}");
        let left = self.bind_boolean(left, scope, span, &clause)?;
        let right = self.bind_boolean(right, scope, span, &clause)?;
        let nullable = left.nullable || right.nullable;
        Ok(boolean(binary(left.expr, op, right.expr), nullable, span))
    }

    pub(super) fn bind_comparison(
        &self,
        left: &Ast,
        op: Operator,
        right: &Ast,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let left = self.bind(left, scope, span)?;
        let right = self.bind(right, scope, span)?;
        self.comparison(left, op, right, span)
    }

    fn comparison(&self, left: Bound, op: Operator, right: Bound, span: Span) -> Outcome<Bound> {
        let mut operands = self.unify(vec![left, right], Assignment::Compare, span, || {
            format!("the operands of {op}")
        })?;
        let never_null = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
            return refuse(span, "this comparison");
        };
        if left.data_type.is_nested() {
            return refuse(span, &format!("comparing {}", type_name(&left.data_type)));
        }
        let nullable = !never_null && (left.nullable || right.nullable);
        Ok(boolean(binary(left.expr, op, right.expr), nullable, span))
    }

    /// Casts values to their common type.
    pub(super) fn unify(
        &self,
        values: Vec<Bound>,
        why: Assignment,
        span: Span,
        what: impl Fn() -> String,
    ) -> Outcome<Vec<Bound>> {
        let mut common = DataType::Null;
        for value in &values {
            match common_type(&common, &value.data_type, why) {
                Some(wider) => common = wider,
                None => {
                    return fail(
                        "type-mismatch",
                        span,
                        format!(
                            "{} have no common type: {} and {}",
                            what(),
                            type_name(&common),
                            type_name(&value.data_type)
                        ),
                    );
                }
            }
        }
        values
            .into_iter()
            .map(|value| cast_implicitly(self, value, &common))
            .collect()
    }

    fn arithmetic(&self, left: Bound, op: Arithmetic, right: Bound, span: Span) -> Outcome<Bound> {
        if is_interval(&left.data_type) || is_interval(&right.data_type) {
            return self.interval_arithmetic(left, op, right, span);
        }
        let nullable = left.nullable || right.nullable;
        let mismatch = |left: &Bound, right: &Bound| {
            let times = |t: &DataType| t.is_temporal();
            let hint = (times(&left.data_type) && times(&right.data_type))
                .then(|| "the distance of two times is TIMESTAMPDIFF(SECOND, a, b)".to_string());
            let diagnostic = Diagnostic::error(
                "type-mismatch",
                span,
                format!(
                    "{} takes numbers, not {} and {}",
                    op.symbol(),
                    type_name(&left.data_type),
                    type_name(&right.data_type)
                ),
            );
            Err(Box::new(diagnostic.with_optional_hint(hint)))
        };
        let number = |t: &DataType| t.is_numeric() || t == &DataType::Null;
        if !number(&left.data_type) || !number(&right.data_type) {
            return mismatch(&left, &right);
        }
        let Some(common) = common_type(&left.data_type, &right.data_type, Assignment::Combine)
        else {
            return mismatch(&left, &right);
        };
        let decimal = |bound: &Bound| matches!(bound.data_type, DataType::Decimal128(_, _));
        if (decimal(&left) || decimal(&right))
            && let (Some(l), Some(r)) = (
                decimal_shape(&left.data_type),
                decimal_shape(&right.data_type),
            )
        {
            let left = cast_implicitly(self, left, &DataType::Decimal128(l.0, l.1))?;
            let right = cast_implicitly(self, right, &DataType::Decimal128(r.0, r.1))?;
            let result = decimal_result(op, l, r);
            let function = DecimalArithmetic::new(op, l, r);
            let data_type = DataType::Decimal128(result.0, result.1);
            return Ok(Bound::call(
                function,
                vec![left, right],
                data_type,
                true,
                span,
            ));
        }
        // The type of % is that of the divisor, in which every remainder fits.
        let modulo = (op == Arithmetic::Modulo && right.data_type.is_integer())
            .then(|| right.data_type.clone());
        let common = if common == DataType::Null {
            DataType::Int32
        } else {
            common
        };
        let left = cast_implicitly(self, left, &common)?;
        let right = cast_implicitly(self, right, &common)?;
        let operator = match op {
            Arithmetic::Add => Operator::Plus,
            Arithmetic::Subtract => Operator::Minus,
            Arithmetic::Multiply => Operator::Multiply,
            Arithmetic::Divide => Operator::Divide,
            Arithmetic::Modulo => Operator::Modulo,
        };
        let result = Bound {
            expr: binary(left.expr, operator, right.expr),
            data_type: common.clone(),
            nullable,
            span,
        };
        match modulo {
            Some(narrow) if narrow != common => Ok(Bound {
                expr: Expr::Cast(datafusion_expr::Cast::new(
                    Box::new(result.expr),
                    narrow.clone(),
                )),
                data_type: narrow,
                ..result
            }),
            _ => Ok(result),
        }
    }

    fn interval_arithmetic(
        &self,
        left: Bound,
        op: Arithmetic,
        right: Bound,
        span: Span,
    ) -> Outcome<Bound> {
        let (l, r) = (ConstantInterval::of(&left), ConstantInterval::of(&right));
        let combined = match (l, op, r) {
            (Some(l), Arithmetic::Add, Some(r)) => Some((l, r, 1)),
            (Some(l), Arithmetic::Subtract, Some(r)) => Some((l, r, -1)),
            _ => None,
        };
        if let Some((l, r, sign)) = combined {
            let interval = ConstantInterval {
                months: l.months.saturating_add(sign * r.months),
                millis: l.millis.saturating_add(i64::from(sign) * r.millis),
            };
            return interval.bind(span);
        }
        let factor = |bound: &Bound| match bound.constant()? {
            ScalarValue::Int32(Some(value)) => Some(*value),
            _ => None,
        };
        let scaled = match (l, op, r) {
            (Some(l), Arithmetic::Multiply, None) => factor(&right).map(|n| (l, n)),
            (None, Arithmetic::Multiply, Some(r)) => factor(&left).map(|n| (r, n)),
            _ => None,
        };
        if let Some((interval, n)) = scaled {
            let interval = ConstantInterval {
                months: interval.months.saturating_mul(n),
                millis: interval.millis.saturating_mul(i64::from(n)),
            };
            return interval.bind(span);
        }
        let (time, interval, sign) = match (l, op, r) {
            (None, Arithmetic::Add, Some(r)) => (left, r, 1),
            (None, Arithmetic::Subtract, Some(r)) => (left, r, -1),
            (Some(l), Arithmetic::Add, None) => (right, l, 1),
            _ => return refuse(span, &format!("{} of these intervals", op.symbol())),
        };
        self.add_interval(
            time,
            interval.months.saturating_mul(sign),
            interval.millis.saturating_mul(i64::from(sign)),
            span,
        )
    }

    fn add_interval(&self, time: Bound, months: i32, millis: i64, span: Span) -> Outcome<Bound> {
        let data_type = match &time.data_type {
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Time32(_) => {
                time.data_type.clone()
            }
            DataType::Null => DataType::Timestamp(TimeUnit::Millisecond, None),
            other => {
                return fail(
                    "type-mismatch",
                    span,
                    format!(
                        "an INTERVAL can be added to a DATE, TIME or TIMESTAMP, not to {}",
                        type_name(other)
                    ),
                );
            }
        };
        let time = cast_implicitly(self, time, &data_type)?;
        let nullable = time.nullable;
        let function = AddInterval::new(months, millis, data_type.clone());
        Ok(Bound::call(function, vec![time], data_type, nullable, span))
    }

    pub(super) fn bind_unary(
        &self,
        op: &UnaryOperator,
        operand: &Ast,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        match op {
            UnaryOperator::Not => {
                let operand = self.bind_boolean(operand, scope, span, "the operand of NOT")?;
                let nullable = operand.nullable;
                Ok(boolean(Expr::Not(Box::new(operand.expr)), nullable, span))
            }
            UnaryOperator::Minus => {
                if let Ast::Value(value) = operand
                    && let Value::Number(text, _) = &value.value
                {
                    return Ok(Bound::literal(literal::number(text, true, span)?, span));
                }
                let operand = self.bind(operand, scope, span)?;
                if let Some(interval) = ConstantInterval::of(&operand) {
                    let negated = ConstantInterval {
                        months: interval.months.saturating_neg(),
                        millis: interval.millis.saturating_neg(),
                    };
                    return negated.bind(span);
                }
                if !operand.data_type.is_numeric() {
                    let message =
                        format!("- takes a number, not {}", type_name(&operand.data_type));
                    return fail("type-mismatch", span, message);
                }
                Ok(Bound {
                    expr: Expr::Negative(Box::new(operand.expr)),
                    ..operand
                })
            }
            UnaryOperator::Plus => {
                let operand = self.bind(operand, scope, span)?;
                if operand.data_type.is_numeric() || operand.data_type == DataType::Null {
                    return Ok(operand);
                }
                let message = format!("+ takes a number, not {}", type_name(&operand.data_type));
                fail("type-mismatch", span, message)
            }
            other => refuse(span, &format!("the operator {other}")),
        }
    }

    pub(super) fn bind_between(
        &self,
        expr: &Ast,
        negated: bool,
        low: &Ast,
        high: &Ast,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let operands = vec![
            self.bind(expr, scope, span)?,
            self.bind(low, scope, span)?,
            self.bind(high, scope, span)?,
        ];
        let between = self.call_by_name("$BETWEEN", operands, span)?;
        Ok(if negated {
            let nullable = between.nullable;
            boolean(Expr::Not(Box::new(between.expr)), nullable, span)
        } else {
            between
        })
    }

    pub(super) fn bind_in_list(
        &self,
        expr: &Ast,
        list: &[Ast],
        negated: bool,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let mut values = vec![self.bind(expr, scope, span)?];
        for value in list {
            values.push(self.bind(value, scope, span)?);
        }
        let mut values = self.unify(values, Assignment::Compare, span, || {
            "the values of IN".into()
        })?;
        let nullable = values.iter().any(|value| value.nullable);
        let operand = values.remove(0);
        if operand.data_type.is_nested() {
            return refuse(span, &format!("IN over {}", type_name(&operand.data_type)));
        }
        let list = InList {
            expr: Box::new(operand.expr),
            list: values.into_iter().map(|value| value.expr).collect(),
            negated,
        };
        Ok(boolean(Expr::InList(list), nullable, span))
    }

    pub(super) fn bind_like(
        &self,
        negated: bool,
        expr: &Ast,
        pattern: &Ast,
        escape: Option<&Value>,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let operands = vec![
            self.bind(expr, scope, span)?,
            self.bind(pattern, scope, span)?,
        ];
        let [operand, mut pattern] = self.strings(operands, "LIKE", span)?;
        if let Some(escape) = escape_character(escape, span)?
            && escape != '\\'
        {
            // The kernel's escape character is the backslash.
            let Some(text) = pattern.constant_string() else {
                return refuse(span, "ESCAPE with a pattern that is not a literal");
            };
            let mut rewritten = String::new();
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                match c {
                    c if c == escape => {
                        rewritten.push('\\');
                        rewritten.extend(chars.next());
                    }
                    '\\' => rewritten.push_str("\\\\"),
                    c => rewritten.push(c),
                }
            }
            pattern = Bound::literal(ScalarValue::Utf8(Some(rewritten)), span);
        }
        let nullable = operand.nullable || pattern.nullable;
        let like = Like::new(
            negated,
            Box::new(operand.expr),
            Box::new(pattern.expr),
            None,
            false,
        );
        Ok(boolean(Expr::Like(like), nullable, span))
    }

    pub(super) fn bind_similar(
        &self,
        negated: bool,
        expr: &Ast,
        pattern: &Ast,
        escape: Option<&Value>,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let operands = vec![
            self.bind(expr, scope, span)?,
            self.bind(pattern, scope, span)?,
        ];
        let [operand, pattern] = self.strings(operands, "SIMILAR TO", span)?;
        let escape = escape_character(escape, span)?.map(String::from);
        let escape = Bound::literal(ScalarValue::Utf8(escape.or(Some("\\".into()))), span);
        let similar = self.call_by_name("$SIMILAR_TO", vec![operand, pattern, escape], span)?;
        Ok(if negated {
            let nullable = similar.nullable;
            boolean(Expr::Not(Box::new(similar.expr)), nullable, span)
        } else {
            similar
        })
    }

    fn strings<const N: usize>(
        &self,
        operands: Vec<Bound>,
        what: &str,
        span: Span,
    ) -> Outcome<[Bound; N]> {
        let mut strings = vec![];
        for operand in operands {
            if !matches!(operand.data_type, DataType::Utf8 | DataType::Null) {
                let message = format!(
                    "{what} takes STRINGs, not {}",
                    type_name(&operand.data_type)
                );
                return fail("type-mismatch", operand.span, message);
            }
            strings.push(cast_implicitly(self, operand, &DataType::Utf8)?);
        }
        strings.try_into().or_else(|_| refuse(span, what))
    }

    pub(super) fn bind_case(
        &self,
        operand: Option<&Ast>,
        conditions: &[CaseWhen],
        otherwise: Option<&Ast>,
        scope: &Scope,
        span: Span,
    ) -> Outcome<Bound> {
        let mut whens = vec![];
        let mut thens = vec![];
        if let Some(operand) = operand {
            whens.push(self.bind(operand, scope, span)?);
        }
        for CaseWhen { condition, result } in conditions {
            whens.push(match operand {
                Some(_) => self.bind(condition, scope, span)?,
                None => self.bind_boolean(condition, scope, span, "a condition of CASE")?,
            });
            thens.push(self.bind(result, scope, span)?);
        }
        thens.push(match otherwise {
            Some(otherwise) => self.bind(otherwise, scope, span)?,
            None => Bound::literal(ScalarValue::Null, span),
        });
        let mut whens = if operand.is_some() {
            self.unify(whens, Assignment::Compare, span, || {
                "the values of CASE".into()
            })?
        } else {
            whens
        };
        let thens = self.unify_results(thens, "the results of CASE", span)?;
        self.build_case(operand.map(|_| whens.remove(0)), whens, thens, span)
    }

    /// Casts the results of branches to one type; text wins over other scalars.
    pub(super) fn unify_results(
        &self,
        results: Vec<Bound>,
        what: &str,
        span: Span,
    ) -> Outcome<Vec<Bound>> {
        let has_text = results
            .iter()
            .any(|bound| bound.data_type == DataType::Utf8);
        let has_nested = results.iter().any(|bound| bound.data_type.is_nested());
        if has_text && !has_nested {
            return results
                .into_iter()
                .map(|bound| cast_implicitly(self, bound, &DataType::Utf8))
                .collect();
        }
        self.unify(results, Assignment::Combine, span, || what.to_string())
    }

    /// A CASE whose last result is that of ELSE.
    pub(super) fn build_case(
        &self,
        operand: Option<Bound>,
        whens: Vec<Bound>,
        mut thens: Vec<Bound>,
        span: Span,
    ) -> Outcome<Bound> {
        let nullable = thens.iter().any(|bound| bound.nullable);
        let Some(otherwise) = thens.pop() else {
            return refuse(span, "an empty CASE");
        };
        let data_type = otherwise.data_type.clone();
        let branches = whens
            .into_iter()
            .zip(thens)
            .map(|(when, then)| {
                let condition = match operand {
                    Some(_) => when.expr,
                    None => guarded(when.expr),
                };
                (Box::new(condition), Box::new(then.expr))
            })
            .collect();
        let case = Case::new(
            operand.map(|bound| Box::new(bound.expr)),
            branches,
            Some(Box::new(otherwise.expr)),
        );
        Ok(Bound {
            expr: Expr::Case(case),
            data_type,
            nullable,
            span,
        })
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn escape_character(escape: Option<&Value>, span: Span) -> Outcome<Option<char>> {
    match escape {
        None => Ok(None),
        Some(Value::SingleQuotedString(text)) if text.chars().count() == 1 => {
            Ok(text.chars().next())
        }
        Some(_) => fail("invalid-literal", span, "ESCAPE takes one character"),
    }
}
