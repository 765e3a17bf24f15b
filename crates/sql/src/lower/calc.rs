//! Chains of filters and projections as few Calc nodes as possible.
//!
//! A projection is folded into the one above it unless that would compute an expression
//! twice; so a view's expensive column is computed once however often it is used.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::sqlparser::tokenizer::Span;
use datafusion_expr::{Expr, utils::conjunction};
use millrace_dataflow::{CalcNode, ChangelogMode, NodeId, NodeKind};

use super::{
    Lowering,
    common::{Shared, share, take_fields},
    forward,
    graph::NodeSpec,
    scalar::{expr_type, is_trivial, plan_scalar},
};
use crate::{
    bind::guarded,
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
        let Chain {
            base,
            mut predicates,
            projection,
        } = chain;
        let (mut exprs, columns): (Vec<Expr>, Vec<Column>) = projection.into_iter().unzip();
        let mode = self.graph.node(base).mode;
        let mut base = base;
        if !predicates.is_empty() {
            let fields = take_fields(&mut predicates, &mut exprs);
            if !fields.is_empty() {
                let rest: Vec<&Expr> = predicates.iter().chain(&exprs).collect();
                let (carried, carried_columns) = self.carry(base, &rest, fields)?;
                base = self.calc(base, vec![], carried, carried_columns, mode, None)?;
            }
        }
        let shared = share(&mut predicates, &mut exprs);
        let time_column = super::time_column(rel);
        let (before, after): (Vec<Shared>, Vec<Shared>) =
            shared.into_iter().partition(|shared| shared.before_filter);
        if !before.is_empty() {
            let rest: Vec<&Expr> = predicates
                .iter()
                .chain(&exprs)
                .chain(after.iter().map(|shared| &shared.expr))
                .collect();
            let (carried, carried_columns) = self.carry(base, &rest, before)?;
            base = self.calc(base, vec![], carried, carried_columns, mode, None)?;
        }
        if !after.is_empty() {
            let rest: Vec<&Expr> = exprs.iter().collect();
            let (carried, carried_columns) = self.carry(base, &rest, after)?;
            let predicates = std::mem::take(&mut predicates);
            base = self.calc(base, predicates, carried, carried_columns, mode, None)?;
        }
        self.calc(base, predicates, exprs, columns, mode, time_column)
    }

    /// Shared expressions, and the columns of the base that the rest still reads.
    fn carry(
        &self,
        base: NodeId,
        rest: &[&Expr],
        shared: Vec<Shared>,
    ) -> Outcome<(Vec<Expr>, Vec<Column>)> {
        let input = self.graph.schema(base);
        let (mut exprs, mut columns) = (vec![], vec![]);
        for field in input.fields() {
            let read = rest.iter().any(|expr| {
                expr.column_refs()
                    .iter()
                    .any(|column| &column.name == field.name())
            });
            if read {
                exprs.push(column_ref(field.name()));
                columns.push(Column::plain(
                    field.name(),
                    field.data_type().clone(),
                    field.is_nullable(),
                    field.name(),
                ));
            }
        }
        for Shared { name, expr, .. } in shared {
            let (data_type, nullable) = expr_type(&expr, &input)?;
            columns.push(Column::plain(name, data_type, nullable, ""));
            exprs.push(expr);
        }
        Ok((exprs, columns))
    }

    fn calc(
        &mut self,
        base: NodeId,
        predicates: Vec<Expr>,
        exprs: Vec<Expr>,
        columns: Vec<Column>,
        mode: ChangelogMode,
        time_column: Option<usize>,
    ) -> Outcome<NodeId> {
        let input = self.graph.schema(base);
        let predicate = match conjunction(predicates).map(guarded) {
            Some(predicate) => {
                let column = Column::plain("predicate", DataType::Boolean, true, "");
                Some(plan_scalar(&predicate, &column, &input)?)
            }
            None => None,
        };
        let projection = exprs
            .iter()
            .zip(&columns)
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
        let spec = NodeSpec {
            key: format!("{calc:?}"),
            name: calc_name(&calc),
            inputs: vec![forward(base)],
            schema: Arc::new(schema),
            mode,
            time_column,
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
