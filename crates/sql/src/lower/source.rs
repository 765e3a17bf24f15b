//! One source node per table: the columns that any query of the script needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_expr::Expr;
use millrace_dataflow::{ChangelogMode, NodeId, NodeKind, SourceNode, WatermarkSpec};

use super::{Lowering, graph::NodeSpec, scalar::plan_scalar};
use crate::{
    catalog::Table,
    diagnostic::{Outcome, fail},
    rel::{Column, Rel, RelKind},
    settings::parse_duration,
    source::{scan, scan_columns, watermark},
};

/// Names of the columns of a table that the script's queries need.
pub(super) type Needs = BTreeSet<String>;

/// Adds what a query needs of each table.
pub(super) fn collect_needs(rel: &Rel, needs: &mut BTreeMap<u32, Needs>) {
    if let RelKind::Scan(table) = &rel.kind {
        let needed = needs.entry(table.id).or_default();
        needed.extend(rel.columns.iter().map(|column| column.name.clone()));
    }
    for input in rel.inputs() {
        collect_needs(input, needs);
    }
}

impl Lowering<'_> {
    /// The table's source node.
    pub(super) fn lower_source(&mut self, table: &Arc<Table>) -> Outcome<NodeId> {
        let declared = Arc::new(Schema::new(table.physical()));
        if let Err(why) =
            self.connectors
                .check_source(&table.name, &table.options, &declared, &table.metadata())
        {
            let message = named_once(&table.name, "cannot be read", why);
            return fail("invalid-source", table.span, message);
        }
        let whole = scan(&self.binder, table)?;
        let bound = watermark(&self.binder, &whole, table)?;
        let mut needed = self.needs.get(&table.id).cloned().unwrap_or_default();
        if let (Some(definition), Some(bound)) = (&table.watermark, &bound) {
            needed.insert(definition.column.value.clone());
            needed.extend(
                bound
                    .expr
                    .column_refs()
                    .iter()
                    .map(|column| column.name.clone()),
            );
        }
        let columns: Vec<_> = scan_columns(&self.binder, table)?
            .into_iter()
            .filter(|column| needed.contains(&column.column.name))
            .collect();
        let mut stored: BTreeSet<String> = BTreeSet::new();
        for column in &columns {
            stored.extend(
                column
                    .expr
                    .column_refs()
                    .iter()
                    .map(|column| column.name.clone()),
            );
        }
        let (physical, metadata) = read_columns(table, &stored);
        let row = row_schema(&physical, &metadata);
        let output = columns
            .iter()
            .map(|column| plan_scalar(&column.expr, &column.column, &row))
            .collect::<Outcome<Vec<_>>>()?;
        let schema = Arc::new(Schema::new(
            output
                .iter()
                .map(|scalar| scalar.field.clone())
                .collect::<Vec<_>>(),
        ));
        let described: Vec<Column> = columns.into_iter().map(|column| column.column).collect();
        let rel = Rel {
            kind: RelKind::Scan(Arc::clone(table)),
            columns: described,
            updating: None,
        };
        let watermark = match (&table.watermark, bound) {
            (Some(definition), Some(bound)) => self.watermark_spec(
                table,
                &definition.column.value,
                &bound.expr,
                bound.data_type,
                &schema,
            )?,
            _ => None,
        };
        let connector = table.options.get("connector").map_or("", String::as_str);
        let spec = NodeSpec {
            key: format!(
                "source {} {:?} {watermark:?} {output:?}",
                table.id, table.options
            ),
            name: format!("Source: {}", table.name),
            inputs: vec![],
            schema,
            mode: ChangelogMode::Append,
            time_column: super::time_column(&rel),
        };
        let meaning = format!("table {} connector {connector}", table.name);
        Ok(self
            .graph
            .add_stateful(spec, "source", &meaning, |state_id| {
                NodeKind::Source(Arc::new(SourceNode {
                    table: table.name.clone(),
                    options: table.options.clone(),
                    declared,
                    physical,
                    metadata,
                    output,
                    watermark,
                    state_id,
                }))
            }))
    }

    fn watermark_spec(
        &self,
        table: &Table,
        column: &str,
        expr: &Expr,
        data_type: arrow::datatypes::DataType,
        schema: &SchemaRef,
    ) -> Outcome<Option<WatermarkSpec>> {
        let idle_timeout_ms = match table.options.get("scan.watermark.idle-timeout") {
            None => self.settings.idle_timeout_ms,
            Some(text) => match parse_duration(text) {
                Some(millis) => millis.unsigned_abs(),
                None => {
                    let message = format!(
                        "'scan.watermark.idle-timeout' takes a duration with its unit, such as '30 s', not '{text}'"
                    );
                    return fail("invalid-option", table.span, message);
                }
            },
        };
        let Some(position) = schema
            .fields()
            .iter()
            .position(|field| field.name() == column)
        else {
            return Ok(None);
        };
        let result = Column::plain("watermark", data_type, true, "");
        Ok(Some(WatermarkSpec {
            column: position,
            expr: plan_scalar(expr, &result, schema)?,
            idle_timeout_ms,
        }))
    }
}

/// What a connector says about a table, with the table's name unless it begins with it.
pub(super) fn named_once(table: &str, fault: &str, why: String) -> String {
    if why.starts_with(&format!("table `{table}`")) {
        why
    } else {
        format!("table `{table}` {fault}: {why}")
    }
}

/// The physical and metadata columns of these names. A source reads at least one physical
/// column, since rows are counted by columns.
fn read_columns(table: &Table, stored: &BTreeSet<String>) -> (SchemaRef, Vec<(String, Field)>) {
    let all = table.physical();
    let mut physical: Vec<Field> = all
        .iter()
        .filter(|field| stored.contains(field.name()))
        .cloned()
        .collect();
    if physical.is_empty() {
        let cheap = all.iter().find(|field| field.data_type().is_primitive());
        physical.extend(cheap.or(all.first()).cloned());
    }
    let metadata = table
        .metadata()
        .into_iter()
        .filter(|(_, field)| stored.contains(field.name()))
        .collect();
    (Arc::new(Schema::new(physical)), metadata)
}

/// What a source's output expressions are evaluated over.
fn row_schema(physical: &SchemaRef, metadata: &[(String, Field)]) -> SchemaRef {
    let fields = physical
        .fields()
        .iter()
        .map(|field| field.as_ref().clone())
        .chain(metadata.iter().map(|(_, field)| field.clone()))
        .collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}
