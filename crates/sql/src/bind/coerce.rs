//! Implicit casts: common types, assignment to sinks, and the nodes that perform them.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::tokenizer::Span;
use datafusion_expr::{Cast, Expr};

use super::{Binder, Bound};
use crate::{
    diagnostic::{Diagnostic, Outcome},
    flink_type::{FlinkType, same_type, type_name},
    functions::cast::{self, CastFunction},
};

/// Why two values need one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// Branches of CASE and the like, rows of VALUES and UNION.
    Combine,
    /// Operands of a comparison: text is read as the other type.
    Compare,
}

/// The type that values of both types are turned into, if there is one.
pub(crate) fn common_type(a: &DataType, b: &DataType, why: Assignment) -> Option<DataType> {
    use DataType::*;
    Some(match (a, b) {
        (a, b) if same_type(a, b) => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if a.is_numeric() && b.is_numeric() => return common_number(a, b),
        (Timestamp(x, zone), Timestamp(y, other)) if zone == other => {
            Timestamp(finer(x, y), zone.clone())
        }
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(x, _), Timestamp(y, _)) => Timestamp(finer(x, y), Some("UTC".into())),
        (Utf8, other) | (other, Utf8) if why == Assignment::Compare => {
            let readable = other.is_numeric()
                || matches!(other, Boolean | Date32 | Time32(_) | Timestamp(_, _));
            return readable.then(|| other.clone());
        }
        (List(a), List(b)) => {
            let element = common_type(a.data_type(), b.data_type(), why)?;
            List(std::sync::Arc::new(arrow::datatypes::Field::new(
                "item", element, true,
            )))
        }
        (Struct(x), Struct(y)) if x.len() == y.len() => {
            let fields = x
                .iter()
                .zip(y)
                .map(|(x, y)| {
                    let data_type = common_type(x.data_type(), y.data_type(), why)?;
                    let nullable = x.is_nullable() || y.is_nullable();
                    Some(arrow::datatypes::Field::new(x.name(), data_type, nullable))
                })
                .collect::<Option<Vec<_>>>()?;
            Struct(fields.into())
        }
        _ => return None,
    })
}

fn finer(a: &TimeUnit, b: &TimeUnit) -> TimeUnit {
    let rank = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { *a } else { *b }
}

/// Precision and scale of an exact number; integers are DECIMALs of their digits.
pub(super) fn decimal_shape(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

fn common_number(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    let integer_rank = |t: &DataType| match t {
        Int8 => Some(1),
        Int16 => Some(2),
        Int32 => Some(3),
        Int64 => Some(4),
        _ => None,
    };
    Some(match (a, b) {
        (Float64, _) | (_, Float64) => Float64,
        (Float32, Float32) => Float32,
        (Float32, Decimal128(_, _)) | (Decimal128(_, _), Float32) => Float64,
        (Float32, _) | (_, Float32) => Float32,
        (a, b) => match (integer_rank(a), integer_rank(b)) {
            (Some(x), Some(y)) => {
                if x >= y {
                    a.clone()
                } else {
                    b.clone()
                }
            }
            _ => {
                let ((p1, s1), (p2, s2)) = (decimal_shape(a)?, decimal_shape(b)?);
                let scale = s1.max(s2);
                let integral = (p1 as i8 - s1).max(p2 as i8 - s2);
                let precision = (integral + scale).clamp(1, 38);
                // Without room for both, digits of the scale go.
                let scale = scale.min(38 - integral.min(38));
                Decimal128(precision as u8, scale)
            }
        },
    })
}

/// Whether a cast of numbers keeps every value, so that DataFusion's own cast will do.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    matches!(
        (from, to),
        (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
            | (Int16, Int32 | Int64 | Float32 | Float64)
            | (Int32, Int64 | Float32 | Float64)
            | (Int64, Float32 | Float64)
            | (Float32, Float64)
    ) || match (decimal_shape(from), to) {
        (Some((p, s)), Decimal128(tp, ts)) => *ts >= s && (*tp as i8 - *ts) >= (p as i8 - s),
        _ => false,
    }
}

/// The Flink type that an Arrow type stands for.
fn flink_type_of(data_type: &DataType) -> Option<FlinkType> {
    crate::statement::type_syntax::type_from_text(&type_name(data_type)).ok()
}

/// Casts a value to a type that [`common_type`] chose or an argument needs.
pub(crate) fn cast_implicitly(binder: &Binder, bound: Bound, to: &DataType) -> Outcome<Bound> {
    if &bound.data_type == to {
        return Ok(bound);
    }
    let span = bound.span;
    if bound.data_type == DataType::Null {
        return match ScalarValue::try_from(to) {
            Ok(null) => Ok(Bound::literal(null, span)),
            Err(error) => Err(internal(span, &error.to_string())),
        };
    }
    if widens(&bound.data_type, to) {
        let nullable = bound.nullable;
        let cast = Bound {
            expr: Expr::Cast(Cast::new(Box::new(bound.expr.clone()), to.clone())),
            data_type: to.clone(),
            nullable,
            span,
        };
        if bound.constant().is_some()
            && let Ok(value) = binder.fold(&cast)
        {
            return Ok(Bound::literal(value, span));
        }
        return Ok(cast);
    }
    match flink_type_of(to) {
        Some(flink_type) => binder.cast(bound, &flink_type, false, span),
        None => Err(mismatch(&bound.data_type, to, span, None)),
    }
}

fn mismatch(from: &DataType, to: &DataType, span: Span, hint: Option<&str>) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(
            "type-mismatch",
            span,
            format!("cannot cast {} to {}", type_name(from), type_name(to)),
        )
        .with_optional_hint(hint.map(str::to_string)),
    )
}

pub(super) fn internal(span: Span, error: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("internal", span, error))
}

impl Binder {
    /// `CAST` or, if `lenient`, `TRY_CAST`.
    pub(super) fn cast(
        &self,
        bound: Bound,
        to: &FlinkType,
        lenient: bool,
        span: Span,
    ) -> Outcome<Bound> {
        let target = to.arrow();
        if bound.data_type == DataType::Null {
            return cast_implicitly(self, bound, &target);
        }
        if let Err(hint) = cast::check(&bound.data_type, &target) {
            return Err(mismatch(&bound.data_type, &target, span, hint));
        }
        let limited = matches!(
            to,
            FlinkType::Char(_)
                | FlinkType::VarChar(Some(_))
                | FlinkType::Binary(_)
                | FlinkType::VarBinary(Some(_))
        );
        if bound.data_type == target && !limited {
            return Ok(Bound { span, ..bound });
        }
        if widens(&bound.data_type, &target) {
            return cast_implicitly(self, bound, &target);
        }
        let nullable = lenient
            || bound.nullable
            || matches!(target, DataType::Decimal128(_, _))
            || bound.data_type.is_nested();
        let constant = bound.constant().is_some();
        let function = CastFunction::new(&bound.data_type, to, lenient, self.zone());
        let cast = Bound::call(function, vec![bound], target, nullable, span);
        if !constant {
            return Ok(cast);
        }
        // A constant that cannot be cast is an error now rather than at run time.
        match self.fold(&cast) {
            Ok(value) => Ok(Bound::literal(value, span)),
            Err(error) => Err(Box::new(Diagnostic::error("invalid-literal", span, error))),
        }
    }
}
