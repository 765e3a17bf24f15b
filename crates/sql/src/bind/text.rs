//! The canonical text of expressions: what people read in plans and what fingerprints and
//! state ids are made from.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, expr::InList};

use crate::{
    flink_type::type_name,
    functions::{
        SELECT,
        cast::{double_text, float_text, format_date, format_time, format_timestamp_ms},
    },
};

/// The text of an expression, with columns named by `column`.
pub(crate) fn expr_text(expr: &Expr, column: &dyn Fn(&str) -> String) -> String {
    let text = |expr: &Expr| expr_text(expr, column);
    match expr {
        Expr::Alias(alias) => text(&alias.expr),
        Expr::Column(reference) => column(&reference.name),
        Expr::Literal(value, _) => literal_text(value),
        Expr::BinaryExpr(binary) => format!(
            "({} {} {})",
            text(&binary.left),
            binary.op,
            text(&binary.right)
        ),
        Expr::Not(inner) => format!("NOT {}", text(inner)),
        Expr::Negative(inner) => format!("(-{})", text(inner)),
        Expr::IsNull(inner) => format!("{} IS NULL", text(inner)),
        Expr::IsNotNull(inner) => format!("{} IS NOT NULL", text(inner)),
        Expr::IsTrue(inner) => format!("{} IS TRUE", text(inner)),
        Expr::IsFalse(inner) => format!("{} IS FALSE", text(inner)),
        Expr::IsUnknown(inner) => format!("{} IS UNKNOWN", text(inner)),
        Expr::IsNotTrue(inner) => format!("{} IS NOT TRUE", text(inner)),
        Expr::IsNotFalse(inner) => format!("{} IS NOT FALSE", text(inner)),
        Expr::IsNotUnknown(inner) => format!("{} IS NOT UNKNOWN", text(inner)),
        Expr::Between(between) => format!(
            "{} {}BETWEEN {} AND {}",
            text(&between.expr),
            if between.negated { "NOT " } else { "" },
            text(&between.low),
            text(&between.high)
        ),
        Expr::Like(like) | Expr::SimilarTo(like) => format!(
            "{} {}{} {}",
            text(&like.expr),
            if like.negated { "NOT " } else { "" },
            if matches!(expr, Expr::Like(_)) {
                "LIKE"
            } else {
                "SIMILAR TO"
            },
            text(&like.pattern)
        ),
        Expr::InList(InList {
            expr,
            list,
            negated,
        }) => {
            let list: Vec<String> = list.iter().map(text).collect();
            let not = if *negated { "NOT " } else { "" };
            format!("{} {not}IN ({})", text(expr), list.join(", "))
        }
        Expr::Case(case) => {
            let mut out = String::from("CASE");
            if let Some(operand) = &case.expr {
                out.push_str(&format!(" {}", text(operand)));
            }
            for (when, then) in &case.when_then_expr {
                out.push_str(&format!(" WHEN {} THEN {}", text(when), text(then)));
            }
            if let Some(otherwise) = &case.else_expr {
                out.push_str(&format!(" ELSE {}", text(otherwise)));
            }
            out.push_str(" END");
            out
        }
        Expr::Cast(cast) => format!(
            "CAST({} AS {})",
            text(&cast.expr),
            type_name(cast.field.data_type())
        ),
        Expr::TryCast(cast) => format!(
            "TRY_CAST({} AS {})",
            text(&cast.expr),
            type_name(cast.field.data_type())
        ),
        Expr::ScalarFunction(call) => {
            let arguments: Vec<String> = call.args.iter().map(text).collect();
            let name = call.name();
            match (name, arguments.as_slice()) {
                (SELECT, [branches @ .., otherwise]) => {
                    let branches: Vec<String> = branches
                        .chunks_exact(2)
                        .map(|pair| format!("WHEN {} THEN {}", pair[0], pair[1]))
                        .collect();
                    format!("CASE {} ELSE {otherwise} END", branches.join(" "))
                }
                (field, [row]) if field.starts_with('.') => format!("{row}{field}"),
                ("+" | "-" | "*" | "/" | "%", [left, right]) => format!("({left} {name} {right})"),
                _ => format!("{name}({})", arguments.join(", ")),
            }
        }
        other => other.to_string(),
    }
}

/// The text of a constant. Types that the text does not show are named.
pub(crate) fn literal_text(value: &ScalarValue) -> String {
    if value.is_null() {
        return match value.data_type() {
            DataType::Null => "NULL".into(),
            data_type => format!("CAST(NULL AS {})", type_name(&data_type)),
        };
    }
    let typed = |text: String| format!("CAST({text} AS {})", type_name(&value.data_type()));
    match value {
        ScalarValue::Boolean(Some(value)) => value.to_string().to_uppercase(),
        ScalarValue::Int32(Some(value)) => value.to_string(),
        ScalarValue::Int8(Some(value)) => typed(value.to_string()),
        ScalarValue::Int16(Some(value)) => typed(value.to_string()),
        ScalarValue::Int64(Some(value)) => typed(value.to_string()),
        ScalarValue::Float32(Some(value)) => typed(float_text(*value)),
        ScalarValue::Float64(Some(value)) => typed(double_text(*value)),
        ScalarValue::Utf8(Some(text)) => format!("'{}'", text.replace('\'', "''")),
        ScalarValue::Date32(Some(days)) => format!("DATE '{}'", format_date(*days)),
        ScalarValue::Time32Millisecond(Some(time)) => format!("TIME '{}'", format_time(*time)),
        ScalarValue::TimestampMillisecond(Some(millis), None) => {
            format!("TIMESTAMP '{}'", format_timestamp_ms(*millis))
        }
        ScalarValue::Binary(Some(bytes)) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("X'{digits}'")
        }
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            format!(
                "INTERVAL '{}' MILLISECOND",
                interval.nanoseconds / 1_000_000
            )
        }
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            format!("INTERVAL '{}' MONTH", interval.months)
        }
        other => typed(other.to_string()),
    }
}
