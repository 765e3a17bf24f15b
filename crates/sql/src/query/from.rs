//! `FROM`: tables, views, CTEs, subqueries and window table functions.

use std::sync::Arc;

use datafusion_expr::sqlparser::{
    ast::{Ident, JoinOperator, ObjectName, Spanned, TableAlias, TableFactor, TableWithJoins},
    tokenizer::Span,
};

use super::{Ctes, Planner, refuse, rename};
use crate::{
    catalog::{Entry, Table, TableColumnKind},
    diagnostic::{Diagnostic, Outcome, or_span},
    rel::{Column, Rel, RelKind},
};

const TEMPORAL_JOIN: &str = "a temporal join (FOR SYSTEM_TIME AS OF)";

/// A relation and the name that qualifies its columns.
pub(super) struct Source {
    pub(super) rel: Rel,
    pub(super) alias: Option<String>,
}

impl Planner<'_> {
    pub(super) fn plan_from(
        &self,
        from: &[TableWithJoins],
        ctes: &Ctes,
        outer: Span,
    ) -> Outcome<Source> {
        if let Some(second) = from.get(1) {
            return refuse(or_span(second.span(), outer), "a join by comma in FROM");
        }
        let TableWithJoins { relation, joins } = &from[0];
        if let Some(join) = joins.first() {
            let span = or_span(join.relation.span(), outer);
            if let TableFactor::Table {
                version: Some(_), ..
            } = &join.relation
            {
                return refuse(span, TEMPORAL_JOIN);
            }
            return refuse(span, join_name(&join.join_operator));
        }
        self.plan_factor(relation, ctes, outer)
    }

    fn plan_factor(&self, factor: &TableFactor, ctes: &Ctes, outer: Span) -> Outcome<Source> {
        let span = or_span(factor.span(), outer);
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if version.is_some() {
                    return refuse(span, TEMPORAL_JOIN);
                }
                if sample.is_some() {
                    return refuse(span, "TABLESAMPLE");
                }
                if !with_hints.is_empty()
                    || *with_ordinality
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || !index_hints.is_empty()
                {
                    return refuse(span, "a hint on a table");
                }
                if let Some(args) = args {
                    let rel = self.plan_table_function(name, &args.args, ctes, span)?;
                    return aliased(rel, alias.as_ref(), None);
                }
                let name = table_name(name, span)?;
                let rel = self.plan_named(&name, ctes)?;
                aliased(rel, alias.as_ref(), Some(&name.value))
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                if *lateral {
                    return refuse(span, "LATERAL");
                }
                if sample.is_some() {
                    return refuse(span, "TABLESAMPLE");
                }
                let rel = self.plan_query(subquery, ctes, span)?;
                aliased(rel, alias.as_ref(), None)
            }
            TableFactor::TableFunction { expr, alias } => {
                let rel = self.plan_table_expression(expr, ctes, span)?;
                aliased(rel, alias.as_ref(), None)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let source = self.plan_from(std::slice::from_ref(table_with_joins), ctes, span)?;
                let name = source.alias;
                aliased(source.rel, alias.as_ref(), name.as_deref())
            }
            TableFactor::UNNEST { .. } => refuse(span, "UNNEST"),
            TableFactor::MatchRecognize { .. } => refuse(span, "MATCH_RECOGNIZE"),
            TableFactor::Pivot { .. } => refuse(span, "PIVOT"),
            TableFactor::Unpivot { .. } => refuse(span, "UNPIVOT"),
            TableFactor::Function { .. } => refuse(span, "LATERAL TABLE"),
            _ => refuse(span, "this kind of table"),
        }
    }

    /// A CTE, table or view by name.
    pub(super) fn plan_named(&self, name: &Ident, ctes: &Ctes) -> Outcome<Rel> {
        if let Some(rel) = ctes.get(&name.value) {
            return Ok(rel.as_ref().clone());
        }
        match self.catalog.resolve(name)?.clone() {
            Entry::Table(table) => {
                refuse_partitioned(&table, name.span)?;
                self.scan(&table)
            }
            Entry::View(view) => self.plan_view(&view, name.span),
        }
    }

    /// All columns of a table.
    pub(crate) fn scan(&self, table: &Arc<Table>) -> Outcome<Rel> {
        crate::source::scan(self.binder, table)
    }
}

/// The values of partition columns are in the names of directories, which sources do not read.
fn refuse_partitioned(table: &Table, span: Span) -> Outcome<()> {
    let Some(first) = table.partition_by.first() else {
        return Ok(());
    };
    Err(Box::new(
        Diagnostic::error(
            "partitioned-source",
            span,
            format!(
                "`{}` is PARTITIONED BY ({}): the values of `{first}` are in the names of directories, which are not read yet",
                table.name,
                table.partition_by.join(", ")
            ),
        )
        .with_hint(
            "to read the other columns, declare the table again without its partition columns and without PARTITIONED BY",
        ),
    ))
}

/// Applies an alias with its column names; without one the table's own name qualifies.
fn aliased(rel: Rel, alias: Option<&TableAlias>, name: Option<&str>) -> Outcome<Source> {
    match alias {
        None => Ok(Source {
            rel,
            alias: name.map(str::to_string),
        }),
        Some(alias) => {
            let names: Vec<Ident> = alias
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect();
            Ok(Source {
                rel: rename(rel, &names, alias.name.span)?,
                alias: Some(alias.name.value.clone()),
            })
        }
    }
}

/// The last part of a name, which must be the only one.
pub(super) fn table_name(name: &ObjectName, span: Span) -> Outcome<Ident> {
    match name.0.as_slice() {
        [part] => match part.as_ident() {
            Some(ident) => Ok(ident.clone()),
            None => refuse(span, "this table name"),
        },
        _ => refuse(span, "a table name with a catalog or database"),
    }
}

fn join_name(operator: &JoinOperator) -> &'static str {
    match operator {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => "LEFT JOIN",
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => "RIGHT JOIN",
        JoinOperator::FullOuter(_) => "FULL OUTER JOIN",
        JoinOperator::CrossJoin(_) => "CROSS JOIN",
        _ => "JOIN",
    }
}

/// The columns of a table's scan without those computed from others.
pub(crate) fn stored_columns(table: &Table) -> Vec<Column> {
    table
        .columns
        .iter()
        .filter_map(|column| match &column.kind {
            TableColumnKind::Physical(field) | TableColumnKind::Metadata { field, .. } => {
                Some(Column::plain(
                    column.name.clone(),
                    field.data_type().clone(),
                    field.is_nullable(),
                    format!("{}.{}", table.name, column.name),
                ))
            }
            TableColumnKind::Computed(_) => None,
        })
        .collect()
}

/// A scan of the stored columns.
pub(crate) fn stored_rel(table: &Arc<Table>) -> Rel {
    Rel {
        kind: RelKind::Scan(Arc::clone(table)),
        columns: stored_columns(table),
        updating: None,
    }
}
