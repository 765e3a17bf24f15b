//! The expressions of GROUP BY: keys, grouping sets over them, and GROUPING.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::sqlparser::{
    ast::{Expr as Ast, Spanned},
    tokenizer::Span,
};
use datafusion_expr::{BinaryExpr, Expr, Operator};

use super::{Planner, group_window::GroupWindow};
use crate::{
    bind::{Bound, Scope, constant_group, is_constant_group},
    diagnostic::{Outcome, fail, or_span},
    rel::{Column, Rel},
};

/// Most grouping sets of one query.
const MAX_GROUPING_SETS: usize = 64;

/// The keys of GROUP BY, and the grouping sets over them.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) keys: Vec<Bound>,
    pub(super) sets: Vec<Vec<usize>>,
    pub(super) window: Option<GroupWindow>,
}

impl Planner<'_> {
    pub(super) fn expand(&self, rel: Rel, groups: &Groups) -> (Rel, usize) {
        let sets = groups
            .sets
            .iter()
            .map(|set| {
                let nulled: Vec<usize> = (0..groups.keys.len())
                    .filter(|key| !set.contains(key))
                    .collect();
                let id = nulled
                    .iter()
                    .map(|key| 1i64 << (groups.keys.len() - 1 - key))
                    .sum();
                (nulled, id)
            })
            .collect::<Vec<(Vec<usize>, i64)>>();
        let mut columns = rel.columns.clone();
        for (key, column) in columns.iter_mut().take(groups.keys.len()).enumerate() {
            if sets.iter().any(|(nulled, _)| nulled.contains(&key)) {
                column.nullable = true;
                column.time = None;
            }
        }
        let texts: Vec<String> = sets.iter().map(|(_, id)| id.to_string()).collect();
        let lineage = format!("grouping sets {}", texts.join(", "));
        columns.push(Column::plain(
            "$grouping_id",
            DataType::Int64,
            false,
            lineage,
        ));
        let position = columns.len() - 1;
        let updating = rel.updating.clone();
        let expanded = Rel {
            kind: crate::rel::RelKind::Expand {
                input: Box::new(rel),
                sets,
            },
            columns,
            updating,
        };
        (expanded, position)
    }

    pub(super) fn bind_groups(
        &self,
        input: &Rel,
        alias: Option<&str>,
        asts: &[Ast],
        span: Span,
    ) -> Outcome<Groups> {
        let scope = Scope::qualified(input, alias, "GROUP BY");
        let mut groups = Groups {
            sets: vec![vec![]],
            ..Groups::default()
        };
        for ast in asts {
            if let Some(window) = self.group_window(ast, &scope, span)? {
                if groups.window.replace(window).is_some() {
                    return fail(
                        "syntax",
                        or_span(ast.span(), span),
                        "GROUP BY has two windows",
                    );
                }
                continue;
            }
            let alternatives = match ast {
                Ast::GroupingSets(sets) => sets
                    .iter()
                    .map(|set| self.keys_of(set, &scope, &mut groups, span))
                    .collect::<Outcome<Vec<_>>>()?,
                Ast::Rollup(elements) => {
                    let elements = self.elements_of(elements, &scope, &mut groups, span)?;
                    (0..=elements.len())
                        .rev()
                        .map(|length| elements[..length].concat())
                        .collect()
                }
                Ast::Cube(elements) if elements.len() > 6 => {
                    return fail("too-complex", span, "CUBE of more than 6 elements");
                }
                Ast::Cube(elements) => {
                    let elements = self.elements_of(elements, &scope, &mut groups, span)?;
                    (0..1usize << elements.len())
                        .rev()
                        .map(|mask| {
                            elements
                                .iter()
                                .enumerate()
                                .filter(|(i, _)| mask >> (elements.len() - 1 - i) & 1 == 1)
                                .flat_map(|(_, element)| element.iter().copied())
                                .collect()
                        })
                        .collect()
                }
                Ast::Tuple(members) => vec![self.keys_of(members, &scope, &mut groups, span)?],
                Ast::Nested(inner) => {
                    vec![self.keys_of(
                        std::slice::from_ref(inner.as_ref()),
                        &scope,
                        &mut groups,
                        span,
                    )?]
                }
                ast => vec![self.keys_of(std::slice::from_ref(ast), &scope, &mut groups, span)?],
            };
            groups.sets = groups
                .sets
                .iter()
                .flat_map(|set| {
                    alternatives.iter().map(move |more: &Vec<usize>| {
                        let mut union = set.clone();
                        union.extend(more.iter().filter(|key| !set.contains(key)));
                        union.sort_unstable();
                        union.dedup();
                        union
                    })
                })
                .collect();
            if groups.sets.len() > MAX_GROUPING_SETS {
                let message = format!("more than {MAX_GROUPING_SETS} grouping sets");
                return fail("too-complex", span, message);
            }
        }
        let mut distinct: Vec<Vec<usize>> = vec![];
        for set in groups.sets.drain(..) {
            if !distinct.contains(&set) {
                distinct.push(set);
            }
        }
        groups.sets = distinct;
        if groups.keys.len() > 62 && groups.sets.len() > 1 {
            return fail("too-complex", span, "grouping sets over more than 62 keys");
        }
        Ok(groups)
    }

    fn elements_of(
        &self,
        elements: &[Vec<Ast>],
        scope: &Scope,
        groups: &mut Groups,
        span: Span,
    ) -> Outcome<Vec<Vec<usize>>> {
        elements
            .iter()
            .map(|element| self.keys_of(element, scope, groups, span))
            .collect()
    }

    /// Key numbers of expressions, which become keys if they are not yet.
    fn keys_of(
        &self,
        members: &[Ast],
        scope: &Scope,
        groups: &mut Groups,
        span: Span,
    ) -> Outcome<Vec<usize>> {
        let mut keys = vec![];
        for ast in members {
            if is_constant_group(ast) {
                return Err(constant_group(or_span(ast.span(), span)));
            }
            let bound = self.binder.bind(ast, scope, span).map_err(|diagnostic| {
                if diagnostic.code == "unknown-column" && diagnostic.hint.is_none() {
                    Box::new(
                        diagnostic
                            .with_hint("aliases of the SELECT list are not known in GROUP BY"),
                    )
                } else {
                    diagnostic
                }
            })?;
            if bound.data_type == DataType::Null {
                return Err(constant_group(bound.span));
            }
            let known = groups.keys.iter().position(|key| key.expr == bound.expr);
            keys.push(match known {
                Some(key) => key,
                None => {
                    groups.keys.push(bound);
                    groups.keys.len() - 1
                }
            });
        }
        Ok(keys)
    }
}

/// GROUPING of some keys: one bit per argument, the first the highest.
pub(super) fn grouping_bits(
    arguments: &[Bound],
    groups: &Groups,
    id: Option<Expr>,
    span: Span,
) -> Outcome<Expr> {
    let number = |value: i64| Expr::Literal(ScalarValue::Int64(Some(value)), None);
    let apply = |left: Expr, op: Operator, right: Expr| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
    };
    let mut bits: Option<Expr> = None;
    for (i, argument) in arguments.iter().enumerate() {
        let Some(key) = groups.keys.iter().position(|key| key.expr == argument.expr) else {
            return fail(
                "invalid-argument",
                or_span(argument.span, span),
                "the argument of GROUPING must be in GROUP BY",
            );
        };
        let Some(id) = &id else { continue };
        let shift = 1i64 << (groups.keys.len() - 1 - key);
        let weight = 1i64 << (arguments.len() - 1 - i);
        let bit = apply(
            apply(id.clone(), Operator::Divide, number(shift)),
            Operator::Modulo,
            number(2),
        );
        let weighted = apply(bit, Operator::Multiply, number(weight));
        bits = Some(match bits {
            Some(bits) => apply(bits, Operator::Plus, weighted),
            None => weighted,
        });
    }
    Ok(bits.unwrap_or_else(|| number(0)))
}
