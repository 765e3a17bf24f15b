//! From relations to the dataflow graph.
//!
//! Equal parts of several queries become one node. A node's schema has the columns of its
//! relation in the same order; expressions are planned against the schema that the input
//! node really has.

mod aggregate;
mod calc;
mod common;
mod graph;
mod scalar;
mod sink;
mod source;
mod window;

use std::{collections::BTreeMap, sync::Arc};

use millrace_dataflow::{
    ChangelogMode, Dataflow, Exchange, ExpandNode, Input, NodeId, NodeKind, ValuesNode,
};

use crate::{
    bind::Binder,
    catalog::ConnectorCatalog,
    compile::CompileOptions,
    diagnostic::{Diagnostic, Outcome},
    rel::{Rel, RelKind},
    settings::Settings,
};

pub(crate) use graph::Meanings;
pub(crate) use sink::SinkPlan;

use graph::{GraphBuilder, NodeSpec};
use source::Needs;

/// Lowers the sinks of one script.
pub(crate) struct Lowering<'a> {
    options: &'a CompileOptions,
    connectors: &'a dyn ConnectorCatalog,
    graph: GraphBuilder,
    needs: BTreeMap<u32, Needs>,
    /// Settings and binder of the statement being lowered.
    settings: Settings,
    binder: Binder,
}

/// Lowers all sinks to one graph.
pub(crate) fn lower(
    sinks: Vec<SinkPlan>,
    options: &CompileOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<(Dataflow, Meanings)> {
    let mut needs = BTreeMap::new();
    for sink in &sinks {
        source::collect_needs(&sink.rel, &mut needs);
    }
    let first = sinks.first()?;
    let mut lowering = Lowering {
        options,
        connectors: options.catalog.as_ref(),
        graph: GraphBuilder::default(),
        needs,
        settings: first.settings.clone(),
        binder: first.binder.clone(),
    };
    let mut failed = false;
    for sink in sinks {
        lowering.settings = sink.settings.clone();
        lowering.binder = sink.binder.clone();
        if let Err(diagnostic) = lowering.lower_sink(sink) {
            failed = true;
            diagnostics.push(*diagnostic);
        }
    }
    if failed {
        return None;
    }
    let (nodes, meanings) = lowering.graph.finish();
    let dataflow = Dataflow {
        nodes,
        parallelism: options.parallelism,
        max_parallelism: options.max_parallelism,
    };
    if let Err(error) = dataflow.check() {
        diagnostics.push(Diagnostic::error(
            "internal",
            datafusion_expr::sqlparser::tokenizer::Span::empty(),
            error.to_string(),
        ));
        return None;
    }
    Some((dataflow, meanings))
}

impl Lowering<'_> {
    /// The node that yields the relation's rows.
    fn lower_rel(&mut self, rel: &Rel) -> Outcome<NodeId> {
        match &rel.kind {
            RelKind::Scan(_) | RelKind::Filter { .. } | RelKind::Project { .. } => {
                self.lower_calc(rel)
            }
            RelKind::Values(rows) => {
                let meaning = rel.description_text();
                let rows = vec![rows.clone()];
                let spec = NodeSpec {
                    key: format!("values {rows:?}"),
                    name: format!("VALUES: {} rows", rows[0].num_rows()),
                    inputs: vec![],
                    schema: rel.schema(),
                    mode: ChangelogMode::Append,
                    time_column: None,
                };
                Ok(self
                    .graph
                    .add_stateful(spec, "values", &meaning, |state_id| {
                        NodeKind::Values(Arc::new(ValuesNode { rows, state_id }))
                    }))
            }
            RelKind::Union(inputs) => {
                let mut nodes = vec![];
                for input in inputs {
                    nodes.push(self.lower_rel(input)?);
                }
                let schema = self.graph.union_schema(rel, &nodes);
                let spec = NodeSpec {
                    key: "union".into(),
                    name: format!("UNION ALL of {}", nodes.len()),
                    inputs: nodes.into_iter().map(forward).collect(),
                    schema,
                    mode: mode_of(rel),
                    time_column: time_column(rel),
                };
                Ok(self.graph.add(spec, NodeKind::Union))
            }
            RelKind::Expand { input, sets } => {
                let node = self.lower_rel(input)?;
                let schema = self.graph.extended_schema(node, rel);
                let expand = ExpandNode { sets: sets.clone() };
                let spec = NodeSpec {
                    key: format!("{expand:?}"),
                    name: format!("GROUPING SETS: {}", sets.len()),
                    inputs: vec![forward(node)],
                    schema,
                    mode: mode_of(rel),
                    time_column: time_column(rel),
                };
                Ok(self.graph.add(spec, NodeKind::Expand(Arc::new(expand))))
            }
            RelKind::Window { input, window } => self.lower_window(rel, input, window),
            RelKind::Aggregate(aggregate) => self.lower_aggregate(rel, aggregate),
        }
    }
}

fn forward(node: NodeId) -> Input {
    Input {
        node,
        exchange: Exchange::Forward,
    }
}

/// Which changes a relation's rows undergo.
fn mode_of(rel: &Rel) -> ChangelogMode {
    match rel.updating {
        Some(_) => ChangelogMode::Retract,
        None => ChangelogMode::Append,
    }
}

/// The event-time column: that of the window, if there is one, else the first.
fn time_column(rel: &Rel) -> Option<usize> {
    let event = |(_, column): &(usize, &crate::rel::Column)| {
        column.time == Some(millrace_dataflow::TimeDomain::Event)
    };
    let of_window = rel
        .columns
        .iter()
        .enumerate()
        .filter(event)
        .find(|(_, column)| column.window.is_some());
    of_window
        .or_else(|| rel.columns.iter().enumerate().find(|found| event(found)))
        .map(|(position, _)| position)
}
