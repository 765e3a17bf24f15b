//! Conditions whose parts can fail: evaluated in order, each only for rows that pass the
//! parts before it, as in `b <> 0 AND a / b > 1`.

use datafusion_common::{ScalarValue, tree_node::TreeNode};
use datafusion_expr::{
    Expr, Operator,
    expr::Case,
    utils::{conjunction, split_conjunction_owned},
};

/// A condition under which null is as good as false, with its fallible parts guarded.
pub(crate) fn guarded(condition: Expr) -> Expr {
    if !can_fail(&condition) {
        return condition;
    }
    let (fallible, safe): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(condition)
        .into_iter()
        .partition(can_fail);
    let mut parts: Vec<Expr> = conjunction(safe).into_iter().collect();
    parts.extend(fallible);
    let mut guarded: Option<Expr> = None;
    for part in parts.into_iter().rev() {
        guarded = Some(match guarded {
            None => part,
            Some(rest) => Expr::Case(Case::new(
                None,
                vec![(Box::new(part), Box::new(rest))],
                Some(Box::new(Expr::Literal(
                    ScalarValue::Boolean(Some(false)),
                    None,
                ))),
            )),
        });
    }
    guarded.unwrap_or_else(|| Expr::Literal(ScalarValue::Boolean(Some(true)), None))
}

/// Whether evaluation can fail for some values.
pub(crate) fn can_fail(expr: &Expr) -> bool {
    let constant = |expr: &Expr| matches!(expr, Expr::Literal(_, _));
    expr.exists(|inner| {
        Ok(match inner {
            Expr::BinaryExpr(binary) => {
                matches!(binary.op, Operator::Divide | Operator::Modulo) && !constant(&binary.right)
            }
            Expr::ScalarFunction(call) => match call.name() {
                "/" | "%" => !call.args.get(1).is_some_and(constant),
                "ELEMENT" | "$ELEMENT_AT" | "CONVERT_TZ" | "ENCODE" | "DECODE" | "SHA2"
                | "MAP_FROM_ARRAYS" | "$MAP" | "TIMESTAMPADD" => true,
                name => name.starts_with("CAST["),
            },
            _ => false,
        })
    })
    .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit};

    use super::*;

    #[test]
    fn fallible_parts_come_after_their_guards() {
        let quotient = (col("a") / col("b")).gt(lit(1));
        let guard = col("b").not_eq(lit(0));
        let condition = quotient.clone().and(guard.clone());
        let text = guarded(condition).to_string();
        assert_eq!(
            text,
            "CASE WHEN b != Int32(0) THEN a / b > Int32(1) ELSE Boolean(false) END"
        );
        assert_eq!(guarded(guard.clone()), guard);
        assert!(!can_fail(&(col("a") / lit(2))));
    }
}
