//! Sinks: the end of every query.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_expr::sqlparser::tokenizer::Span;
use millrace_dataflow::{ChangelogMode, Exchange, Input, NodeKind, SinkNode, TableOptions};

use super::{Lowering, graph::NodeSpec, mode_of};
use crate::{
    bind::Binder,
    catalog::{SinkRefusal, Table},
    diagnostic::{Diagnostic, Outcome, fail},
    rel::Rel,
    settings::Settings,
};

/// The name of the sink of a query without INSERT.
const RESULT: &str = "$result";

/// A query and where its rows go.
pub(crate) struct SinkPlan {
    pub(crate) rel: Rel,
    /// Nothing for a query without INSERT.
    pub(crate) table: Option<Arc<Table>>,
    pub(crate) span: Span,
    pub(crate) settings: Settings,
    pub(crate) binder: Binder,
}

/// A sink table as the graph needs it.
struct Target {
    name: String,
    options: TableOptions,
    schema: SchemaRef,
    primary_key: Vec<usize>,
    partition_by: Vec<usize>,
    connector: String,
}

impl Lowering<'_> {
    pub(super) fn lower_sink(&mut self, plan: SinkPlan) -> Outcome<()> {
        let input_mode = mode_of(&plan.rel);
        let target = match &plan.table {
            Some(table) => Target::of(table),
            None => Target {
                name: RESULT.into(),
                options: TableOptions::from([("connector".into(), "collect".into())]),
                schema: plan.rel.schema(),
                primary_key: vec![],
                partition_by: vec![],
                connector: "(connector 'collect')".into(),
            },
        };
        self.check_sink(&target, &plan, input_mode)?;
        let node = self.lower_rel(&plan.rel)?;
        let schema = match &plan.table {
            Some(_) => Arc::clone(&target.schema),
            None => self.graph.schema(node),
        };
        let spec = NodeSpec {
            key: String::new(),
            name: format!("Sink: {}", target.name),
            inputs: vec![Input {
                node,
                exchange: self.exchange(&target, &plan.rel, input_mode),
            }],
            schema: Arc::new(Schema::new(schema.fields().clone())),
            mode: input_mode,
            time_column: super::time_column(&plan.rel),
        };
        let meaning = format!("table {}", target.name);
        self.graph.add_sink(spec, &meaning, |state_id| {
            NodeKind::Sink(Arc::new(SinkNode {
                table: target.name,
                options: target.options,
                schema,
                primary_key: target.primary_key,
                partition_by: target.partition_by,
                input_mode,
                state_id,
            }))
        });
        Ok(())
    }

    /// Changes of one primary key must reach the same subtask in order. They do if the rows
    /// are already spread by exactly its columns.
    fn exchange(&self, target: &Target, rel: &Rel, mode: ChangelogMode) -> Exchange {
        if mode == ChangelogMode::Append || target.primary_key.is_empty() {
            return Exchange::Forward;
        }
        let mut wanted: Vec<&str> = target
            .primary_key
            .iter()
            .map(|key| rel.columns[*key].lineage.as_ref())
            .collect();
        let mut spread = match spread_by(rel) {
            Some(spread) => spread,
            None => return Exchange::Hash(target.primary_key.clone()),
        };
        wanted.sort_unstable();
        spread.sort_unstable();
        if wanted == spread {
            Exchange::Forward
        } else {
            Exchange::Hash(target.primary_key.clone())
        }
    }

    fn check_sink(&self, target: &Target, plan: &SinkPlan, mode: ChangelogMode) -> Outcome<()> {
        let refusal = match self.connectors.check_sink(
            &target.name,
            &target.options,
            &target.schema,
            &target.primary_key,
            mode,
        ) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        match (refusal, &plan.rel.updating) {
            (SinkRefusal::NoUpdates(instead), Some(cause)) => {
                let fix = if cause.clause.starts_with("GROUP BY")
                    || cause.clause.starts_with("an aggregate")
                {
                    "group by a window (window_start, window_end)"
                } else {
                    "remove it"
                };
                let hint = match instead {
                    Some(instead) => format!("{fix}, or {instead}"),
                    None => fix.to_string(),
                };
                Err(Box::new(
                    Diagnostic::error(
                        "updates-refused",
                        cause.span,
                        format!(
                            "{} produces updates, which table `{}` {} cannot take",
                            cause.clause, target.name, target.connector
                        ),
                    )
                    .with_hint(hint),
                ))
            }
            (SinkRefusal::NoUpdates(instead), None) => Err(Box::new(
                Diagnostic::error(
                    "invalid-sink",
                    plan.span,
                    format!(
                        "table `{}` {} cannot be written",
                        target.name, target.connector
                    ),
                )
                .with_optional_hint(instead),
            )),
            (SinkRefusal::Other(why), _) => fail(
                "invalid-sink",
                plan.span,
                super::source::named_once(&target.name, "cannot be written", why),
            ),
        }
    }
}

/// Lineages of the keys by which the nearest aggregate below spread the rows.
fn spread_by(rel: &Rel) -> Option<Vec<&str>> {
    use crate::rel::RelKind;
    match &rel.kind {
        RelKind::Aggregate(aggregate) => Some(
            aggregate
                .keys
                .iter()
                .map(|key| aggregate.input.columns[*key].lineage.as_ref())
                .collect(),
        ),
        RelKind::Filter { input, .. } | RelKind::Project { input, .. } => spread_by(input),
        _ => None,
    }
}

impl Target {
    fn of(table: &Table) -> Self {
        let schema = table.sink_schema();
        let positions = |names: &[String]| {
            names
                .iter()
                .filter_map(|name| schema.index_of(name).ok())
                .collect::<Vec<_>>()
        };
        Target {
            name: table.name.clone(),
            options: table.options.clone(),
            primary_key: positions(&table.primary_key),
            partition_by: positions(&table.partition_by),
            connector: table.connector_text(),
            schema,
        }
    }
}
