//! Common subexpressions of a filter and projection: computed once, in a node of their own.
//!
//! An expression that can fail is only taken out of places where it is evaluated for every
//! row anyway. One that cannot may be computed for rows that would not have needed it.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, Operator};

use super::scalar::is_trivial;
use crate::{
    bind::{can_fail, expr_text},
    rel::column_ref,
};

/// Expressions larger than this in total are left as they are.
const MAX_NODES: usize = 2_000;
/// Most expressions taken out of one projection.
const MAX_SHARED: usize = 16;

/// An expression to compute once.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) expr: Expr,
    /// Whether the filter needs it, so that it is computed before.
    pub(super) before_filter: bool,
}

#[derive(Default)]
struct Uses {
    count: usize,
    size: usize,
    /// Evaluated for every row by the filter, or by the projection.
    by_filter: bool,
    by_projection: bool,
    expr: Option<Expr>,
}

/// Takes common expressions out; what is left refers to them by name.
pub(super) fn share(predicates: &mut [Expr], projection: &mut [Expr]) -> Vec<Shared> {
    let mut shared: Vec<Shared> = vec![];
    let nodes: usize = predicates.iter().chain(projection.iter()).map(size).sum();
    if nodes > MAX_NODES {
        return shared;
    }
    while shared.len() < MAX_SHARED {
        let mut uses: BTreeMap<String, Uses> = BTreeMap::new();
        for predicate in predicates.iter() {
            collect(predicate, true, true, &mut uses);
        }
        for expr in projection.iter() {
            collect(expr, false, true, &mut uses);
        }
        let best = uses
            .into_iter()
            .filter(|(_, uses)| uses.count > 1 && (uses.by_filter || uses.by_projection))
            .max_by(|(a_text, a), (b_text, b)| {
                a.size.cmp(&b.size).then_with(|| b_text.cmp(a_text))
            });
        let Some((_, uses)) = best else { break };
        let Some(expr) = uses.expr else { break };
        let name = format!("$shared{}", shared.len());
        for place in predicates.iter_mut().chain(projection.iter_mut()) {
            *place = replace(place, &expr, &name);
        }
        shared.push(Shared {
            name,
            expr,
            before_filter: uses.by_filter,
        });
    }
    shared
}

/// Takes the fields of rows out that a filter would otherwise copy whole.
pub(super) fn take_fields(predicates: &mut [Expr], projection: &mut [Expr]) -> Vec<Shared> {
    let mut fields: BTreeMap<String, Expr> = BTreeMap::new();
    let mut whole: BTreeSet<String> = BTreeSet::new();
    for expr in predicates.iter().chain(projection.iter()) {
        find_fields(expr, &mut fields, &mut whole);
    }
    // A row that is needed as a whole is copied anyway.
    fields.retain(|_, field| {
        let roots = field.column_refs();
        roots.iter().all(|root| !whole.contains(&root.name))
    });
    let mut taken = vec![];
    for (text, expr) in fields {
        // No column has a dot in its name unless a script asks for it; then it stays.
        if whole.contains(&text) {
            continue;
        }
        for place in predicates.iter_mut().chain(projection.iter_mut()) {
            *place = replace(place, &expr, &text);
        }
        taken.push(Shared {
            name: text,
            expr,
            before_filter: true,
        });
    }
    taken
}

/// Collects outermost field accesses, and the columns that are used otherwise.
fn find_fields(expr: &Expr, fields: &mut BTreeMap<String, Expr>, whole: &mut BTreeSet<String>) {
    match expr {
        Expr::Column(column) => {
            whole.insert(column.name.clone());
        }
        Expr::ScalarFunction(call) if call.name().starts_with('.') && is_trivial(expr) => {
            fields.insert(expr_text(expr, &str::to_string), expr.clone());
        }
        _ => {
            let visited = expr.apply_children(|child| {
                find_fields(child, fields, whole);
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(visited.is_ok());
        }
    }
}

fn size(expr: &Expr) -> usize {
    let mut nodes = 0;
    let counted = expr.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(counted.is_ok());
    nodes
}

/// Whether computing the expression once is worth a column.
fn is_worth_sharing(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            !call.name().starts_with('.') && !call.args.is_empty() && !expr.is_volatile()
        }
        Expr::Like(_) | Expr::SimilarTo(_) | Expr::Case(_) => !expr.is_volatile(),
        _ => false,
    }
}

fn collect(expr: &Expr, in_filter: bool, always: bool, uses: &mut BTreeMap<String, Uses>) {
    if is_worth_sharing(expr) {
        let entry = uses
            .entry(expr_text(expr, &str::to_string))
            .or_insert_with(|| Uses {
                size: size(expr),
                expr: Some(expr.clone()),
                ..Uses::default()
            });
        entry.count += 1;
        let evaluated = always || !can_fail(expr);
        entry.by_filter |= in_filter && evaluated;
        entry.by_projection |= !in_filter && always;
    }
    match expr {
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            collect(&binary.left, in_filter, always, uses);
            collect(&binary.right, in_filter, false, uses);
        }
        Expr::Case(case) => {
            if let Some(operand) = &case.expr {
                collect(operand, in_filter, always, uses);
            }
            for (i, (when, then)) in case.when_then_expr.iter().enumerate() {
                collect(when, in_filter, always && i == 0, uses);
                collect(then, in_filter, false, uses);
            }
            if let Some(otherwise) = &case.else_expr {
                collect(otherwise, in_filter, false, uses);
            }
        }
        _ => {
            let visited = expr.apply_children(|child| {
                collect(child, in_filter, always, uses);
                Ok(TreeNodeRecursion::Continue)
            });
            debug_assert!(visited.is_ok());
        }
    }
}

fn replace(place: &Expr, from: &Expr, name: &str) -> Expr {
    let replaced = place.clone().transform_down(|expr| {
        Ok(if &expr == from {
            Transformed::new(column_ref(name), true, TreeNodeRecursion::Jump)
        } else {
            Transformed::no(expr)
        })
    });
    match replaced {
        Ok(replaced) => replaced.data,
        Err(_) => place.clone(),
    }
}
