//! `UNION ALL` and `UNION`.

use datafusion_expr::sqlparser::{
    ast::{SetExpr, SetOperator, SetQuantifier, Spanned},
    tokenizer::Span,
};

use super::{Ctes, Planner, named, refuse};
use crate::{
    bind::{Assignment, Bound, cast_implicitly, common_type},
    diagnostic::{Outcome, fail, or_span},
    flink_type::type_name,
    rel::{Column, Rel, RelKind, column_ref},
};

impl Planner<'_> {
    pub(super) fn plan_set_operation(
        &self,
        op: SetOperator,
        quantifier: SetQuantifier,
        left: &SetExpr,
        right: &SetExpr,
        ctes: &Ctes,
        outer: Span,
    ) -> Outcome<Rel> {
        let right_span = or_span(right.span(), outer);
        let distinct = match (op, quantifier) {
            (SetOperator::Union, SetQuantifier::All) => false,
            (SetOperator::Union, SetQuantifier::None | SetQuantifier::Distinct) => true,
            (op, _) => return refuse(right_span, &op.to_string()),
        };
        let left = self.plan_set_expr(left, ctes, outer)?;
        let right = self.plan_set_expr(right, ctes, outer)?;
        let union = self.union(left, right, right_span)?;
        if distinct {
            return self.distinct(union, right_span, "UNION without ALL");
        }
        Ok(union)
    }

    fn union(&self, left: Rel, right: Rel, span: Span) -> Outcome<Rel> {
        if left.columns.len() != right.columns.len() {
            return fail(
                "column-count",
                span,
                format!(
                    "the sides of UNION have {} and {} columns",
                    left.columns.len(),
                    right.columns.len()
                ),
            );
        }
        let mut columns = vec![];
        for (i, (a, b)) in left.columns.iter().zip(&right.columns).enumerate() {
            let Some(data_type) = common_type(&a.data_type, &b.data_type, Assignment::Combine)
            else {
                return fail(
                    "type-mismatch",
                    span,
                    format!(
                        "column {} (`{}`) of UNION is {} on one side and {} on the other",
                        i + 1,
                        a.name,
                        type_name(&a.data_type),
                        type_name(&b.data_type)
                    ),
                );
            };
            let lineage = if a.lineage == b.lineage {
                a.lineage.to_string()
            } else {
                format!("{} | {}", a.lineage, b.lineage)
            };
            columns.push(Column {
                time: if a.time == b.time { a.time } else { None },
                window: if a.window == b.window { a.window } else { None },
                ..Column::plain(a.name.clone(), data_type, a.nullable || b.nullable, lineage)
            });
        }
        let updating = left.updating.clone().or_else(|| right.updating.clone());
        let mut inputs = vec![];
        for side in [left, right] {
            let side = self.align(side, &columns, span)?;
            match side.kind {
                RelKind::Union(more) => inputs.extend(more),
                _ => inputs.push(side),
            }
        }
        Ok(Rel {
            kind: RelKind::Union(inputs),
            columns,
            updating,
        })
    }

    /// Casts and renames columns to those of the union.
    fn align(&self, rel: Rel, columns: &[Column], span: Span) -> Outcome<Rel> {
        let same = rel.columns.iter().zip(columns).all(|(mine, wanted)| {
            mine.name == wanted.name
                && mine.data_type == wanted.data_type
                && mine.nullable == wanted.nullable
        });
        if same {
            return Ok(rel);
        }
        let exprs = rel
            .columns
            .iter()
            .zip(columns)
            .map(|(mine, wanted)| {
                let bound = Bound {
                    expr: column_ref(&mine.name),
                    data_type: mine.data_type.clone(),
                    nullable: mine.nullable,
                    span,
                };
                let mut bound = cast_implicitly(self.binder, bound, &wanted.data_type)?;
                bound.nullable = wanted.nullable;
                Ok(named(bound, &wanted.name))
            })
            .collect::<Outcome<Vec<_>>>()?;
        Ok(rel.project(exprs))
    }
}
