//! Explains a dataflow: a text plan for people and a JSON graph for the UI.

use arrow::datatypes::Schema;
use millrace_dataflow::{
    ChangelogMode, Dataflow, Exchange, Node, NodeKind, StateId, TimeDomain, WindowSource,
};
use serde_json::{Value, json};

use crate::{
    compile::{CompileOptions, compile},
    diagnostic::Diagnostic,
    flink_type::type_name,
    lower::Meanings,
    rel::window_text,
};

/// A plan, twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// One tree per sink; a node that several read is written once and referred to.
    pub text: String,
    /// `{"parallelism", "max_parallelism", "nodes": [{"id", "name", "kind", "inputs": [{"node",
    /// "exchange", "keys"}], "schema": [{"name", "type", "nullable"}], "mode", "time_column",
    /// "details": […], "state": {"id", "meaning"} | null}]}`.
    pub graph: Value,
}

/// Compiles a script and explains its dataflow.
pub fn explain(script: &str, options: &CompileOptions) -> Result<Explanation, Vec<Diagnostic>> {
    let compiled = compile(script, options)?;
    if compiled.dataflow.nodes.is_empty() && !compiled.explains.is_empty() {
        let text: Vec<&str> = compiled
            .explains
            .iter()
            .map(|plan| plan.text.as_str())
            .collect();
        let graph = compiled.explains[0].graph.clone();
        return Ok(Explanation {
            text: text.join("\n"),
            graph,
        });
    }
    Ok(Explanation::new(&compiled.dataflow, &compiled.meanings))
}

impl Explanation {
    pub(crate) fn new(dataflow: &Dataflow, meanings: &Meanings) -> Self {
        let nodes: Vec<Value> = dataflow
            .nodes
            .iter()
            .map(|node| node_json(node, meanings))
            .collect();
        let mut text = String::new();
        let mut written = vec![false; dataflow.nodes.len()];
        for node in &dataflow.nodes {
            if matches!(node.kind, NodeKind::Sink(_)) {
                write_tree(dataflow, node, 0, None, &mut written, &mut text);
            }
        }
        Explanation {
            text,
            graph: json!({
                "parallelism": dataflow.parallelism,
                "max_parallelism": dataflow.max_parallelism,
                "nodes": nodes,
            }),
        }
    }
}

fn write_tree(
    dataflow: &Dataflow,
    node: &Node,
    depth: usize,
    exchange: Option<String>,
    written: &mut [bool],
    out: &mut String,
) {
    let indent = "  ".repeat(depth);
    let exchange = exchange
        .map(|text| format!("{text} ← "))
        .unwrap_or_default();
    let id = node.id;
    if written[id.0 as usize] {
        out.push_str(&format!("{indent}{exchange}[{id}] as above\n"));
        return;
    }
    written[id.0 as usize] = true;
    let mode = match node.mode {
        ChangelogMode::Append => "",
        ChangelogMode::Retract => " {+I -U +U -D}",
    };
    out.push_str(&format!("{indent}{exchange}[{id}] {}{mode}\n", node.name));
    for line in details(node) {
        out.push_str(&format!("{indent}    {line}\n"));
    }
    for input in &node.inputs {
        let producer = dataflow.node(input.node);
        let exchange = match &input.exchange {
            Exchange::Forward => None,
            Exchange::Hash(keys) => Some(exchange_text(keys, producer)),
        };
        write_tree(dataflow, producer, depth + 1, exchange, written, out);
    }
}

fn exchange_text(keys: &[usize], producer: &Node) -> String {
    let keys: Vec<&str> = keys
        .iter()
        .map(|key| producer.schema.field(*key).name().as_str())
        .collect();
    format!("hash({})", keys.join(", "))
}

/// The stable kind of a node, for machines.
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

fn state_id(kind: &NodeKind) -> Option<&StateId> {
    match kind {
        NodeKind::Source(node) => Some(&node.state_id),
        NodeKind::Values(node) => Some(&node.state_id),
        NodeKind::GlobalWindowAggregate(node) | NodeKind::WindowAggregate(node) => {
            Some(&node.state_id)
        }
        NodeKind::GlobalGroupAggregate(node) | NodeKind::GroupAggregate(node) => {
            Some(&node.state_id)
        }
        NodeKind::Sink(node) => Some(&node.state_id),
        NodeKind::Calc(_)
        | NodeKind::Union
        | NodeKind::Expand(_)
        | NodeKind::WindowAssign(_)
        | NodeKind::LocalWindowAggregate(_)
        | NodeKind::LocalGroupAggregate(_) => None,
    }
}

fn window_source_text(window: &WindowSource, schema: &Schema) -> String {
    match window {
        WindowSource::Time {
            column,
            kind,
            domain,
            zone,
        } => {
            let time = match domain {
                TimeDomain::Event => schema.field(*column).name().as_str(),
                TimeDomain::Processing => "processing time",
            };
            let zone = zone
                .as_ref()
                .map(|zone| format!(" in {zone}"))
                .unwrap_or_default();
            format!("{} over {time}{zone}", window_text(kind))
        }
        WindowSource::Attached { start, end, .. } => format!(
            "the window of {}, {}",
            schema.field(*start).name(),
            schema.field(*end).name()
        ),
    }
}

/// What a node does, line by line.
fn details(node: &Node) -> Vec<String> {
    match &node.kind {
        NodeKind::Source(source) => {
            let mut lines = vec![format!("reads {}", columns_text(&source.physical))];
            if !source.metadata.is_empty() {
                let keys: Vec<String> = source
                    .metadata
                    .iter()
                    .map(|(key, field)| format!("{} from '{key}'", field.name()))
                    .collect();
                lines.push(format!("metadata {}", keys.join(", ")));
            }
            for scalar in &source.output {
                if &scalar.text != scalar.field.name() {
                    lines.push(format!("{} = {}", scalar.field.name(), scalar.text));
                }
            }
            if let Some(watermark) = &source.watermark {
                let idle = match watermark.idle_timeout_ms {
                    0 => "never idle".to_string(),
                    millis => format!("idle after {millis} ms"),
                };
                lines.push(format!(
                    "watermark for {}: {}, {idle}",
                    node.schema.field(watermark.column).name(),
                    watermark.expr.text
                ));
            }
            lines
        }
        NodeKind::Values(values) => {
            let rows: usize = values.rows.iter().map(|rows| rows.num_rows()).sum();
            vec![format!("{rows} rows of {}", columns_text(&node.schema))]
        }
        NodeKind::Calc(calc) => {
            let mut lines = vec![];
            if let Some(predicate) = &calc.predicate {
                lines.push(format!("where {}", predicate.text));
            }
            for scalar in &calc.projection {
                if &scalar.text == scalar.field.name() {
                    lines.push(scalar.text.clone());
                } else {
                    lines.push(format!("{} = {}", scalar.field.name(), scalar.text));
                }
            }
            lines
        }
        NodeKind::Union => vec![],
        NodeKind::Expand(expand) => expand
            .sets
            .iter()
            .map(|(nulled, id)| {
                let nulled: Vec<&str> = nulled
                    .iter()
                    .map(|column| node.schema.field(*column).name().as_str())
                    .collect();
                format!("set {id}: null for {}", nulled.join(", "))
            })
            .collect(),
        NodeKind::WindowAssign(assign) => vec![window_source_text(&assign.window, &node.schema)],
        NodeKind::LocalWindowAggregate(aggregate)
        | NodeKind::GlobalWindowAggregate(aggregate)
        | NodeKind::WindowAggregate(aggregate) => {
            let mut lines = vec![window_source_text(&aggregate.window, &aggregate.raw_input)];
            lines.extend(
                aggregate
                    .aggregates
                    .iter()
                    .map(|call| format!("{} = {}", call.output.name(), call.meaning)),
            );
            lines
        }
        NodeKind::LocalGroupAggregate(aggregate)
        | NodeKind::GlobalGroupAggregate(aggregate)
        | NodeKind::GroupAggregate(aggregate) => {
            let mut lines: Vec<String> = aggregate
                .aggregates
                .iter()
                .map(|call| format!("{} = {}", call.output.name(), call.meaning))
                .collect();
            if aggregate.ttl_ms > 0 {
                lines.push(format!("state kept {} ms", aggregate.ttl_ms));
            }
            lines
        }
        NodeKind::Sink(sink) => {
            let mut lines = vec![format!("writes {}", columns_text(&sink.schema))];
            if !sink.primary_key.is_empty() {
                let keys: Vec<&str> = sink
                    .primary_key
                    .iter()
                    .map(|key| sink.schema.field(*key).name().as_str())
                    .collect();
                lines.push(format!("primary key {}", keys.join(", ")));
            }
            lines
        }
    }
}

fn columns_text(schema: &Schema) -> String {
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| {
            let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
            format!(
                "{} {}{not_null}",
                field.name(),
                type_name(field.data_type())
            )
        })
        .collect();
    columns.join(", ")
}

fn node_json(node: &Node, meanings: &Meanings) -> Value {
    let inputs: Vec<Value> = node
        .inputs
        .iter()
        .map(|input| match &input.exchange {
            Exchange::Forward => json!({"node": input.node.0, "exchange": "forward", "keys": []}),
            Exchange::Hash(keys) => {
                json!({"node": input.node.0, "exchange": "hash", "keys": keys})
            }
        })
        .collect();
    let schema: Vec<Value> = node
        .schema
        .fields()
        .iter()
        .map(|field| {
            json!({
                "name": field.name(),
                "type": type_name(field.data_type()),
                "nullable": field.is_nullable(),
            })
        })
        .collect();
    let state =
        state_id(&node.kind).map(|id| json!({"id": id.0, "meaning": meanings.get(&node.id)}));
    json!({
        "id": node.id.0,
        "name": node.name,
        "kind": kind_name(&node.kind),
        "inputs": inputs,
        "schema": schema,
        "mode": match node.mode {
            ChangelogMode::Append => "append",
            ChangelogMode::Retract => "retract",
        },
        "time_column": node.time_column.map(|column| node.schema.field(column).name()),
        "details": details(node),
        "state": state,
    })
}
