//! A compiled job as nodes and edges, for drawing.

use millrace_dataflow::{ChangelogMode, Dataflow, Exchange, Node, NodeKind};
use serde::{Deserialize, Serialize};

/// A compiled job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphView {
    pub parallelism: u32,
    pub max_parallelism: u32,
    /// Inputs before consumers.
    pub nodes: Vec<NodeView>,
}

/// One operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    pub id: u32,
    pub name: String,
    /// Such as `source` or `global-window-aggregate`.
    pub kind: String,
    /// The table that a source reads or a sink writes, and its connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    pub inputs: Vec<InputView>,
    pub columns: Vec<ColumnView>,
    /// `append` or `retract`: whether rows are ever taken back.
    pub changelog: String,
}

/// An edge, seen from its consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputView {
    pub node: u32,
    pub exchange: ExchangeView,
}

/// How rows travel along an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeView {
    /// Subtask i to subtask i.
    Forward,
    /// To the subtask that owns the key of these columns.
    Hash(Vec<String>),
}

/// A column of an operator's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ColumnView {
    pub name: String,
    /// The type of the values in memory.
    pub data_type: String,
    pub nullable: bool,
    /// Whether it carries the event time.
    pub event_time: bool,
}

impl From<&Dataflow> for GraphView {
    fn from(dataflow: &Dataflow) -> Self {
        GraphView {
            parallelism: dataflow.parallelism,
            max_parallelism: dataflow.max_parallelism,
            nodes: dataflow
                .nodes
                .iter()
                .map(|node| node_view(dataflow, node))
                .collect(),
        }
    }
}

fn node_view(dataflow: &Dataflow, node: &Node) -> NodeView {
    let inputs = node
        .inputs
        .iter()
        .map(|input| {
            let fields = dataflow.node(input.node).schema.fields();
            let exchange = match &input.exchange {
                Exchange::Forward => ExchangeView::Forward,
                Exchange::Hash(columns) => ExchangeView::Hash(
                    columns
                        .iter()
                        .map(|column| {
                            fields
                                .get(*column)
                                .map_or_else(|| format!("#{column}"), |field| field.name().clone())
                        })
                        .collect(),
                ),
            };
            InputView {
                node: input.node.0,
                exchange,
            }
        })
        .collect();
    let columns = node
        .schema
        .fields()
        .iter()
        .enumerate()
        .map(|(position, field)| ColumnView {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
            event_time: node.time_column == Some(position),
        })
        .collect();
    // What a sink takes in is what it writes.
    let changelog = match &node.kind {
        NodeKind::Sink(sink) => sink.input_mode,
        _ => node.mode,
    };
    let table = match &node.kind {
        NodeKind::Source(source) => Some((&source.table, &source.options)),
        NodeKind::Sink(sink) => Some((&sink.table, &sink.options)),
        _ => None,
    };
    NodeView {
        id: node.id.0,
        name: node.name.clone(),
        kind: kind_name(&node.kind).to_owned(),
        table: table.map(|(name, _)| name.clone()),
        connector: table.and_then(|(_, options)| options.get("connector").cloned()),
        inputs,
        columns,
        changelog: match changelog {
            ChangelogMode::Append => "append",
            ChangelogMode::Retract => "retract",
        }
        .to_owned(),
    }
}

fn kind_name(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Source(_) => "source",
        NodeKind::Values(_) => "values",
        NodeKind::Calc(_) => "calc",
        NodeKind::Union => "union",
        NodeKind::Expand(_) => "expand",
        NodeKind::WindowAssign(_) => "window-assign",
        NodeKind::LocalWindowAggregate(_) => "local-window-aggregate",
        NodeKind::GlobalWindowAggregate(_) => "global-window-aggregate",
        NodeKind::WindowAggregate(_) => "window-aggregate",
        NodeKind::LocalGroupAggregate(_) => "local-group-aggregate",
        NodeKind::GlobalGroupAggregate(_) => "global-group-aggregate",
        NodeKind::GroupAggregate(_) => "group-aggregate",
        NodeKind::Sink(_) => "sink",
    }
}
