//! Chains of filters and projections as few Calc nodes as possible.
//!
//! A projection is folded into the one above it unless that would compute an expression
//! twice; so a view's expensive column is computed once however often it is used.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{Expr, utils::conjunction};
use datafusion_sql::sqlparser::tokenizer::Span;
use millrace_dataflow::{CalcNode, NodeId, NodeKind};

use super::{Lowering, forward, graph::NodeSpec, scalar::plan_scalar};
use crate::{
    diagnostic::{Outcome, fail},
    rel::{Column, Rel, RelKind, column_ref},
};

/// A projection and filter over a node, not yet a node itself.
struct Chain {
    base: NodeId,
    predicates: Vec<Expr>,
    /// Expressions over the base, with the columns they yield.
    projection: Vec<(Expr, Column)>,
}

impl Lowering<'_> {
    pub(super) fn lower_calc(&mut self, rel: &Rel) -> Outcome<NodeId> {
        let chain = self.chain(rel)?;
        self.close(chain, rel)
    }

    fn chain(&mut self, rel: &Rel) -> Outcome<Chain> {
        match &rel.kind {
            RelKind::Scan(table) => {
                let base = self.lower_source(table)?;
                self.identity(base, rel)
            }
            RelKind::Project { input, exprs } => {
                let mut chain = self.chain(input)?;
                if !folds(&chain, exprs) {
                    let base = self.close(chain, input)?;
                    chain = self.identity(base, input)?;
                }
                let projection = exprs
                    .iter()
                    .zip(&rel.columns)
                    .map(|(expr, column)| {
                        Ok((substitute(expr, &chain.projection)?, column.clone()))
                    })
                    .collect::<Outcome<Vec<_>>>()?;
                Ok(Chain {
                    projection,
                    ..chain
                })
            }
            RelKind::Filter { input, predicate } => {
                let mut chain = self.chain(input)?;
                let trivial = predicate.column_refs().iter().all(|column| {
                    chain
                        .projection
                        .iter()
                        .find(|(_, known)| known.name == column.name)
                        .is_some_and(|(expr, _)| is_trivial(expr))
                });
                if !trivial {
                    let base = self.close(chain, input)?;
                    chain = self.identity(base, input)?;
                }
                let predicate = substitute(predicate, &chain.projection)?;
                chain.predicates.push(predicate);
                Ok(chain)
            }
            _ => {
                let base = self.lower_rel(rel)?;
                self.identity(base, rel)
            }
        }
    }

    /// The columns of a relation as its node has them.
    fn identity(&self, base: NodeId, rel: &Rel) -> Outcome<Chain> {
        let projection = rel
            .columns
            .iter()
            .map(|column| (column_ref(&column.name), column.clone()))
            .collect();
        Ok(Chain {
            base,
            predicates: vec![],
            projection,
        })
    }

    /// Makes a node of the chain, unless it changes nothing.
    fn close(&mut self, chain: Chain, rel: &Rel) -> Outcome<NodeId> {
        let input = self.graph.schema(chain.base);
        let unchanged = chain.predicates.is_empty()
            && chain.projection.len() == input.fields().len()
            && chain
                .projection
                .iter()
                .zip(input.fields())
                .all(|((expr, column), field)| {
                    matches!(expr, Expr::Column(reference) if &reference.name == field.name())
                        && &column.name == field.name()
                });
        if unchanged {
            return Ok(chain.base);
        }
        let predicate = match conjunction(guarded(chain.predicates)) {
            Some(predicate) => {
                let column = Column::plain("predicate", DataType::Boolean, true, "");
                Some(plan_scalar(&predicate, &column, &input)?)
            }
            None => None,
        };
        let projection = chain
            .projection
            .iter()
            .map(|(expr, column)| plan_scalar(expr, column, &input))
            .collect::<Outcome<Vec<_>>>()?;
        let schema = Schema::new(
            projection
                .iter()
                .map(|scalar| scalar.field.clone())
                .collect::<Vec<_>>(),
        );
        let calc = CalcNode {
            predicate,
            projection,
        };
        let name = calc_name(&calc);
        let spec = NodeSpec {
            key: format!("{calc:?}"),
            name,
            inputs: vec![forward(chain.base)],
            schema: Arc::new(schema),
            mode: self.graph.node(chain.base).mode,
            time_column: super::time_column(rel),
        };
        Ok(self.graph.add(spec, NodeKind::Calc(Arc::new(calc))))
    }
}

fn calc_name(calc: &CalcNode) -> String {
    let short = |text: &str, length: usize| {
        let head: String = text.chars().take(length).collect();
        if head.len() < text.len() {
            format!("{head}…")
        } else {
            head
        }
    };
    let columns: Vec<&str> = calc
        .projection
        .iter()
        .map(|scalar| scalar.field.name().as_str())
        .collect();
    let columns = short(&columns.join(", "), 60);
    match &calc.predicate {
        Some(predicate) => format!("Calc: {columns} where {}", short(&predicate.text, 60)),
        None => format!("Calc: {columns}"),
    }
}

/// Whether an expression costs nothing to repeat.
fn is_trivial(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(_, _) => true,
        // A field of a row is a pointer away.
        Expr::ScalarFunction(call) => {
            call.name().starts_with('.') && call.args.iter().all(is_trivial)
        }
        _ => false,
    }
}

/// Whether expressions over the chain's columns compute nothing twice when folded into it.
fn folds(chain: &Chain, exprs: &[Expr]) -> bool {
    chain
        .projection
        .iter()
        .filter(|(expr, _)| !is_trivial(expr))
        .all(|(_, column)| {
            let uses: usize = exprs
                .iter()
                .map(|expr| count_uses(expr, &column.name))
                .sum();
            uses <= 1
        })
}

fn count_uses(expr: &Expr, name: &str) -> usize {
    let mut uses = 0;
    let counted = expr.apply(|inner| {
        if matches!(inner, Expr::Column(column) if column.name == name) {
            uses += 1;
        }
        Ok(datafusion_common::tree_node::TreeNodeRecursion::Continue)
    });
    debug_assert!(counted.is_ok());
    uses
}

/// The expression over what the columns stand for.
fn substitute(expr: &Expr, projection: &[(Expr, Column)]) -> Outcome<Expr> {
    let substituted = expr.clone().transform_down(|inner| {
        Ok(match &inner {
            Expr::Column(column) => {
                match projection
                    .iter()
                    .find(|(_, known)| known.name == column.name)
                {
                    Some((expr, _)) => Transformed::new(
                        expr.clone(),
                        true,
                        datafusion_common::tree_node::TreeNodeRecursion::Jump,
                    ),
                    None => Transformed::no(inner),
                }
            }
            _ => Transformed::no(inner),
        })
    });
    match substituted {
        Ok(substituted) => Ok(substituted.data),
        Err(error) => fail("internal", Span::empty(), error.strip_backtrace()),
    }
}

/// Conjuncts in evaluation order: those that can fail come last and are evaluated only for
/// rows that pass the others, as in `b <> 0 AND a / b > 1`.
fn guarded(predicates: Vec<Expr>) -> Vec<Expr> {
    let parts: Vec<Expr> = predicates
        .into_iter()
        .flat_map(datafusion_expr::utils::split_conjunction_owned)
        .collect();
    let (fallible, safe): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(can_fail);
    match (conjunction(safe), conjunction(fallible)) {
        (Some(safe), Some(fallible)) => {
            let case = datafusion_expr::expr::Case::new(
                None,
                vec![(Box::new(safe), Box::new(fallible))],
                Some(Box::new(Expr::Literal(
                    datafusion_common::ScalarValue::Boolean(Some(false)),
                    None,
                ))),
            );
            vec![Expr::Case(case)]
        }
        (safe, fallible) => safe.into_iter().chain(fallible).collect(),
    }
}

/// Whether evaluation can fail for some values.
fn can_fail(expr: &Expr) -> bool {
    expr.exists(|inner| {
        Ok(match inner {
            Expr::BinaryExpr(binary) => {
                matches!(
                    binary.op,
                    datafusion_expr::Operator::Divide | datafusion_expr::Operator::Modulo
                ) && !matches!(*binary.right, Expr::Literal(_, _))
            }
            Expr::ScalarFunction(call) => {
                call.name().starts_with("CAST[")
                    || (matches!(call.name(), "/" | "%")
                        && !matches!(call.args.get(1), Some(Expr::Literal(_, _))))
            }
            _ => false,
        })
    })
    .unwrap_or(true)
}
