//! Moves filters below projections that merely rename, unions, and windows whose columns
//! they do not read.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{
    Expr,
    utils::{conjunction, split_conjunction_owned},
};
use millrace_dataflow::WindowKind;

use crate::rel::{Rel, RelKind};

/// Moves every filter as far down as it goes.
pub(super) fn push_filters(rel: Rel) -> Rel {
    let Rel {
        kind,
        columns,
        updating,
    } = rel;
    let kind = match kind {
        RelKind::Filter { input, predicate } => {
            return push(push_filters(*input), split_conjunction_owned(predicate));
        }
        RelKind::Project { input, exprs } => RelKind::Project {
            input: Box::new(push_filters(*input)),
            exprs,
        },
        RelKind::Union(inputs) => RelKind::Union(inputs.into_iter().map(push_filters).collect()),
        RelKind::Window { input, window } => RelKind::Window {
            input: Box::new(push_filters(*input)),
            window,
        },
        RelKind::Expand { input, sets } => RelKind::Expand {
            input: Box::new(push_filters(*input)),
            sets,
        },
        RelKind::Aggregate(mut aggregate) => {
            aggregate.input = push_filters(aggregate.input);
            RelKind::Aggregate(aggregate)
        }
        leaf @ (RelKind::Scan(_) | RelKind::Values(_)) => leaf,
    };
    Rel {
        kind,
        columns,
        updating,
    }
}

/// Filters a relation by all predicates, each as low as it goes.
fn push(rel: Rel, predicates: Vec<Expr>) -> Rel {
    if predicates.is_empty() {
        return rel;
    }
    let Rel {
        kind,
        columns,
        updating,
    } = rel;
    match kind {
        RelKind::Filter { input, predicate } => {
            let mut all = split_conjunction_owned(predicate);
            all.extend(predicates);
            push(*input, all)
        }
        RelKind::Project { input, exprs } => {
            let (mut below, mut above) = (vec![], vec![]);
            for predicate in predicates {
                match through_projection(&predicate, &columns, &exprs) {
                    Some(rewritten) => below.push(rewritten),
                    None => above.push(predicate),
                }
            }
            let project = Rel {
                kind: RelKind::Project {
                    input: Box::new(push(*input, below)),
                    exprs,
                },
                columns,
                updating,
            };
            keep(project, above)
        }
        RelKind::Union(inputs) => {
            let inputs = inputs
                .into_iter()
                .map(|input| {
                    let renamed = predicates
                        .iter()
                        .map(|predicate| rename(predicate, &columns, &input))
                        .collect();
                    push(input, renamed)
                })
                .collect();
            Rel {
                kind: RelKind::Union(inputs),
                columns,
                updating,
            }
        }
        RelKind::Window { input, window } => {
            let width = input.columns.len();
            let (mut below, mut above) = (vec![], vec![]);
            for predicate in predicates {
                let reads: Vec<usize> = (0..columns.len())
                    .filter(|i| reads(&predicate, &columns[*i].name))
                    .collect();
                // A session depends on all rows of its key.
                let keys_only = !matches!(window.kind, WindowKind::Session { .. })
                    || reads.iter().all(|i| window.partition_by.contains(i));
                if keys_only && reads.iter().all(|i| *i < width) && !predicate.is_volatile() {
                    let renamed = predicate.clone().transform(|expr| {
                        Ok(match &expr {
                            Expr::Column(column) => {
                                match columns.iter().position(|c| c.name == column.name) {
                                    Some(i) => Transformed::yes(crate::rel::column_ref(
                                        &input.columns[i].name,
                                    )),
                                    None => Transformed::no(expr),
                                }
                            }
                            _ => Transformed::no(expr),
                        })
                    });
                    match renamed {
                        Ok(renamed) => below.push(renamed.data),
                        Err(_) => above.push(predicate),
                    }
                } else {
                    above.push(predicate);
                }
            }
            let window = Rel {
                kind: RelKind::Window {
                    input: Box::new(push(*input, below)),
                    window,
                },
                columns,
                updating,
            };
            keep(window, above)
        }
        kind => keep(
            Rel {
                kind,
                columns,
                updating,
            },
            predicates,
        ),
    }
}

fn keep(rel: Rel, predicates: Vec<Expr>) -> Rel {
    match conjunction(predicates) {
        Some(predicate) => rel.filter(predicate),
        None => rel,
    }
}

fn reads(expr: &Expr, name: &str) -> bool {
    expr.column_refs().iter().any(|column| column.name == name)
}

/// The predicate over the projection's input, if it only reads columns that the projection
/// passes on.
fn through_projection(
    predicate: &Expr,
    columns: &[crate::rel::Column],
    exprs: &[Expr],
) -> Option<Expr> {
    if predicate.is_volatile() {
        return None;
    }
    for column in predicate.column_refs() {
        let position = columns.iter().position(|c| c.name == column.name)?;
        if !matches!(exprs[position], Expr::Column(_) | Expr::Literal(_, _)) {
            return None;
        }
    }
    predicate
        .clone()
        .transform(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match columns.iter().position(|c| c.name == column.name) {
                    Some(position) => Transformed::yes(exprs[position].clone()),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        })
        .ok()
        .map(|transformed| transformed.data)
}

fn rename(predicate: &Expr, from: &[crate::rel::Column], to: &Rel) -> Expr {
    predicate
        .clone()
        .transform(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match from.iter().position(|c| c.name == column.name) {
                    Some(position) => {
                        Transformed::yes(crate::rel::column_ref(&to.columns[position].name))
                    }
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        })
        .map(|transformed| transformed.data)
        .unwrap_or_else(|_| predicate.clone())
}
