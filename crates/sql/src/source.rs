//! Scans of tables: computed columns, the watermark, and time attributes.
//!
//! A scan relation has all columns of its table in the declared order. What a dataflow's
//! source node really reads is decided when the relation is lowered.

use std::sync::Arc;

use datafusion_expr::Expr;
use millrace_dataflow::TimeDomain;

use crate::{
    bind::{Binder, Bound, Scope, cast_implicitly},
    catalog::{Table, TableColumnKind, check_event_time},
    diagnostic::{Diagnostic, Outcome, fail, or_span},
    flink_type::{timestamp_ms, type_name},
    query::stored_rel,
    rel::{Column, Rel, RelKind, column_ref, is_proctime},
};

/// One column of a scan, over the stored columns of the table.
#[derive(Debug, Clone)]
pub(crate) struct ScanColumn {
    pub(crate) expr: Expr,
    pub(crate) column: Column,
}

/// The columns of a scan.
pub(crate) fn scan_columns(binder: &Binder, table: &Arc<Table>) -> Outcome<Vec<ScanColumn>> {
    let stored = stored_rel(table);
    let scope = Scope::qualified(&stored, Some(&table.name), "a computed column");
    let mut columns = vec![];
    for column in &table.columns {
        let scan_column = match &column.kind {
            TableColumnKind::Physical(_) | TableColumnKind::Metadata { .. } => {
                let Some(position) = stored.position(&column.name) else {
                    return fail("internal", column.span, "a stored column is missing");
                };
                ScanColumn {
                    expr: column_ref(&column.name),
                    column: stored.columns[position].clone(),
                }
            }
            TableColumnKind::Computed(ast) => {
                let bound = match binder.bind(ast, &scope, column.span) {
                    Ok(bound) => bound,
                    Err(diagnostic) => return Err(explain_computed(table, ast, diagnostic)),
                };
                if bound.data_type == arrow::datatypes::DataType::Null {
                    let message =
                        format!("the column `{}` has no type; CAST the NULL", column.name);
                    return fail("type-mismatch", bound.span, message);
                }
                ScanColumn {
                    column: Column {
                        time: is_proctime(&bound.expr).then_some(TimeDomain::Processing),
                        ..Column::plain(
                            column.name.clone(),
                            bound.data_type,
                            bound.nullable,
                            // What it is computed from, so that a renamed column means the same.
                            stored.lineage_of(&bound.expr),
                        )
                    },
                    expr: bound.expr,
                }
            }
        };
        columns.push(scan_column);
    }
    if let Some(watermark) = &table.watermark {
        let name = &watermark.column.value;
        let Some(position) = table.columns.iter().position(|column| &column.name == name) else {
            return fail(
                "unknown-column",
                watermark.column.span,
                "unknown event-time column",
            );
        };
        let column = &mut columns[position].column;
        check_event_time(&column.data_type, watermark.column.span)?;
        if column.time.is_some() {
            let message = "a processing-time column needs no watermark";
            return fail("invalid-watermark", watermark.column.span, message);
        }
        column.time = Some(TimeDomain::Event);
    }
    Ok(columns)
}

/// A computed column cannot use another one; say so instead of calling it unknown.
fn explain_computed(
    table: &Table,
    ast: &datafusion_expr::sqlparser::ast::Expr,
    diagnostic: Box<Diagnostic>,
) -> Box<Diagnostic> {
    let text = ast.to_string();
    let other = table.columns.iter().find(|column| {
        matches!(column.kind, TableColumnKind::Computed(_))
            && diagnostic.message == format!("unknown column `{}`", column.name)
    });
    match other {
        Some(other) => Box::new(diagnostic.with_hint(format!(
            "`{}` is itself computed; repeat its expression in {text}, or use a view",
            other.name
        ))),
        None => diagnostic,
    }
}

/// The scan of a table.
pub(crate) fn scan(binder: &Binder, table: &Arc<Table>) -> Outcome<Rel> {
    Ok(Rel {
        columns: scan_columns(binder, table)?
            .into_iter()
            .map(|column| column.column)
            .collect(),
        kind: RelKind::Scan(Arc::clone(table)),
        updating: None,
    })
}

/// The watermark of a table's rows, over the columns of its scan.
pub(crate) fn watermark(binder: &Binder, scan: &Rel, table: &Table) -> Outcome<Option<Bound>> {
    let Some(watermark) = &table.watermark else {
        return Ok(None);
    };
    let scope = Scope::qualified(scan, Some(&table.name), "WATERMARK");
    let span = or_span(watermark.span, table.span);
    let bound = binder.bind(&watermark.expr, &scope, span)?;
    let zoned = scan
        .position(&watermark.column.value)
        .map(|position| scan.columns[position].data_type == timestamp_ms(true))
        .unwrap_or(false);
    if bound.data_type != timestamp_ms(zoned) {
        let time = matches!(bound.data_type, arrow::datatypes::DataType::Timestamp(_, _));
        if !time {
            let message = format!(
                "the watermark must be {}, not {}",
                type_name(&timestamp_ms(zoned)),
                type_name(&bound.data_type)
            );
            return fail("invalid-watermark", bound.span, message);
        }
        return cast_implicitly(binder, bound, &timestamp_ms(zoned)).map(Some);
    }
    Ok(Some(bound))
}
