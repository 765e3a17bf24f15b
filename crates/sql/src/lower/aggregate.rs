//! Aggregates: windowed or not, in one phase or two.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millrace_dataflow::{
    AggregateCall, ChangelogMode, Exchange, GroupAggregateNode, Input, NodeId, NodeKind, StateId,
    TimeDomain, WindowAggregateNode, WindowKind, WindowSource, partial_fields,
};

use super::{
    Lowering, forward,
    graph::NodeSpec,
    mode_of,
    window::{Fused, fuse, window_source},
};
use crate::{
    diagnostic::{Diagnostic, Outcome},
    flink_type::type_name,
    query::call_meaning,
    rel::{Aggregate, Call, Rel, RelKind, window_text},
};

/// What a windowed aggregate needs to know.
struct Windowed<'r> {
    input: &'r Rel,
    keys: Vec<usize>,
    calls: Vec<Call>,
    window: WindowSource,
    meaning: String,
    title: String,
    two_phase: bool,
}

impl Lowering<'_> {
    pub(super) fn lower_aggregate(&mut self, rel: &Rel, aggregate: &Aggregate) -> Outcome<NodeId> {
        match aggregate.window {
            None => self.lower_group(rel, aggregate),
            Some((start, end)) => match fuse(aggregate) {
                Some(fused) => self.lower_fused(rel, fused),
                None => self.lower_attached(rel, aggregate, start, end),
            },
        }
    }

    fn lower_fused(&mut self, rel: &Rel, fused: Fused) -> Outcome<NodeId> {
        let Fused {
            input,
            keys,
            calls,
            window,
            time,
            meaning,
        } = fused;
        let input = super::super::optimize::optimize(input);
        let windowed = Windowed {
            input: &input,
            keys,
            calls,
            // In processing time a window may fire before the partials of another subtask come.
            two_phase: window.domain == TimeDomain::Event
                && !matches!(window.kind, WindowKind::Session { .. }),
            title: window_text(&window.kind),
            window: window_source(&window, time),
            meaning,
        };
        self.lower_windowed(rel, windowed)
    }

    /// An aggregate whose rows carry their window already.
    fn lower_attached(
        &mut self,
        rel: &Rel,
        aggregate: &Aggregate,
        start: usize,
        end: usize,
    ) -> Outcome<NodeId> {
        let on_clock = rel
            .columns
            .iter()
            .any(|column| column.time == Some(TimeDomain::Processing));
        if on_clock {
            return Err(Box::new(
                Diagnostic::error(
                    "unsupported",
                    aggregate.span,
                    "aggregating again, or reading window_start or window_end before the aggregate, in a processing-time window is not supported yet",
                )
                .with_hint("use event time, or aggregate the window once"),
            ));
        }
        let id = aggregate.input.columns[end].window.map(|window| window.id);
        let zone = id.and_then(|id| window_zone(&aggregate.input, id));
        let windowed = Windowed {
            input: &aggregate.input,
            keys: aggregate.keys.clone(),
            calls: aggregate.calls.clone(),
            window: WindowSource::Attached { start, end, zone },
            meaning: format!(
                "window {} of [{}]",
                aggregate.input.columns[end].lineage,
                aggregate.input.description_text()
            ),
            title: "same window".into(),
            // Start and end do not determine each other, so partials could not be told apart.
            two_phase: false,
        };
        self.lower_windowed(rel, windowed)
    }

    fn lower_windowed(&mut self, rel: &Rel, windowed: Windowed) -> Outcome<NodeId> {
        let Windowed {
            input,
            keys,
            calls,
            window,
            meaning,
            title,
            two_phase,
        } = windowed;
        let node = self.lower_rel(input)?;
        let raw_input = self.graph.schema(node);
        let width = keys.len();
        let aggregates = aggregate_calls(input, &calls, rel, width);
        let meaning = format!("by [{}] over {meaning}", keys_text(input, &keys));
        let title = title_of(&title, input, &keys, &aggregates);
        let schema = output_schema(rel, &keys, &raw_input);
        let key = format!("window-aggregate {window:?} {keys:?} {aggregates:?} {meaning}");
        let time_column = super::time_column(rel);
        let build = |state_id: StateId| {
            Arc::new(WindowAggregateNode {
                window: window.clone(),
                keys: keys.clone(),
                aggregates: aggregates.clone(),
                raw_input: Arc::clone(&raw_input),
                state_id,
            })
        };
        if !two_phase || !self.two_phases() {
            let spec = NodeSpec {
                key,
                name: title,
                inputs: vec![Input {
                    node,
                    exchange: Exchange::Hash(keys.clone()),
                }],
                schema,
                mode: ChangelogMode::Append,
                time_column,
            };
            return Ok(self
                .graph
                .add_stateful(spec, "window-aggregate", &meaning, |state_id| {
                    NodeKind::WindowAggregate(build(state_id))
                }));
        }
        let mut fields = key_fields(&keys, &raw_input);
        fields.push(Field::new("$slice_end", DataType::Int64, false));
        let local = NodeSpec {
            key: format!("local {key}"),
            name: format!("Local {title}"),
            inputs: vec![forward(node)],
            schema: partial_schema(fields, &aggregates, &raw_input),
            mode: ChangelogMode::Append,
            time_column: None,
        };
        let (local, shared) = match self.graph.find(&local) {
            Some(known) => (known, None),
            None => {
                let shared = build(self.graph.next_state("window-aggregate", &meaning));
                let kind = NodeKind::LocalWindowAggregate(Arc::clone(&shared));
                (self.graph.add(local, kind), Some(shared))
            }
        };
        let shared = match (shared, &self.graph.node(local).kind) {
            (Some(shared), _) => shared,
            (None, NodeKind::LocalWindowAggregate(known)) => Arc::clone(known),
            (None, _) => build(self.graph.next_state("window-aggregate", &meaning)),
        };
        let global = NodeSpec {
            key: format!("global {key}"),
            name: format!("Global {title}"),
            inputs: vec![Input {
                node: local,
                exchange: Exchange::Hash((0..width).collect()),
            }],
            schema,
            mode: ChangelogMode::Append,
            time_column,
        };
        let global = self
            .graph
            .add(global, NodeKind::GlobalWindowAggregate(shared));
        self.graph.set_meaning(global, &meaning);
        Ok(global)
    }

    fn lower_group(&mut self, rel: &Rel, aggregate: &Aggregate) -> Outcome<NodeId> {
        let Aggregate {
            input, keys, calls, ..
        } = aggregate;
        let node = self.lower_rel(input)?;
        let raw_input = self.graph.schema(node);
        let width = keys.len();
        let aggregates = aggregate_calls(input, calls, rel, width);
        let input_mode = mode_of(input);
        let per_row = self.settings.per_row;
        let ttl_ms = self.settings.state_ttl_ms;
        let meaning = format!(
            "by [{}] over [{}]",
            keys_text(input, keys),
            input.description_text()
        );
        let title = if aggregates.is_empty() {
            title_of("DISTINCT", input, keys, &aggregates)
        } else {
            title_of("GROUP", input, keys, &aggregates)
        };
        let schema = output_schema(rel, keys, &raw_input);
        let key = format!(
            "group-aggregate {keys:?} {aggregates:?} {input_mode:?} {ttl_ms} {per_row} {meaning}"
        );
        let build = |state_id: StateId| {
            Arc::new(GroupAggregateNode {
                keys: keys.clone(),
                aggregates: aggregates.clone(),
                raw_input: Arc::clone(&raw_input),
                input_mode,
                ttl_ms,
                per_row,
                state_id,
            })
        };
        let two_phase = self.two_phases() && input_mode == ChangelogMode::Append && !per_row;
        if !two_phase {
            let spec = NodeSpec {
                key,
                name: title,
                inputs: vec![Input {
                    node,
                    exchange: Exchange::Hash(keys.clone()),
                }],
                schema,
                mode: ChangelogMode::Retract,
                time_column: None,
            };
            return Ok(self
                .graph
                .add_stateful(spec, "group-aggregate", &meaning, |state_id| {
                    NodeKind::GroupAggregate(build(state_id))
                }));
        }
        let local = NodeSpec {
            key: format!("local {key}"),
            name: format!("Local {title}"),
            inputs: vec![forward(node)],
            schema: partial_schema(key_fields(keys, &raw_input), &aggregates, &raw_input),
            mode: ChangelogMode::Append,
            time_column: None,
        };
        let (local, shared) = match self.graph.find(&local) {
            Some(known) => match &self.graph.node(known).kind {
                NodeKind::LocalGroupAggregate(shared) => (known, Arc::clone(shared)),
                _ => (
                    known,
                    build(self.graph.next_state("group-aggregate", &meaning)),
                ),
            },
            None => {
                let shared = build(self.graph.next_state("group-aggregate", &meaning));
                let kind = NodeKind::LocalGroupAggregate(Arc::clone(&shared));
                (self.graph.add(local, kind), shared)
            }
        };
        let global = NodeSpec {
            key: format!("global {key}"),
            name: format!("Global {title}"),
            inputs: vec![Input {
                node: local,
                exchange: Exchange::Hash((0..width).collect()),
            }],
            schema,
            mode: ChangelogMode::Retract,
            time_column: None,
        };
        let global = self
            .graph
            .add(global, NodeKind::GlobalGroupAggregate(shared));
        self.graph.set_meaning(global, &meaning);
        Ok(global)
    }

    fn two_phases(&self) -> bool {
        self.options.parallelism > 1 && self.settings.two_phase
    }
}

/// The zone that a window of the script aligns to, if its time is local.
fn window_zone(rel: &Rel, id: u32) -> Option<String> {
    match &rel.kind {
        RelKind::Window { window, .. } if window.id == id => window.zone.clone(),
        _ => rel
            .inputs()
            .into_iter()
            .find_map(|input| window_zone(input, id)),
    }
}

fn aggregate_calls(input: &Rel, calls: &[Call], rel: &Rel, first: usize) -> Vec<AggregateCall> {
    calls
        .iter()
        .enumerate()
        .map(|(i, call)| AggregateCall {
            kind: call.kind.clone(),
            args: call.argument.into_iter().collect(),
            distinct: call.distinct,
            filter: call.filter,
            output: rel.columns[first + i].field(),
            meaning: call_meaning(input, call),
        })
        .collect()
}

fn keys_text(input: &Rel, keys: &[usize]) -> String {
    let keys: Vec<String> = keys
        .iter()
        .map(|key| {
            let column = &input.columns[*key];
            format!("{} {}", column.lineage, type_name(&column.data_type))
        })
        .collect();
    keys.join(", ")
}

/// `HOP 10 s every 2 s: COUNT(*) by auction`.
fn title_of(what: &str, input: &Rel, keys: &[usize], aggregates: &[AggregateCall]) -> String {
    let calls: Vec<&str> = aggregates
        .iter()
        .map(|call| call.meaning.as_str())
        .collect();
    let keys: Vec<&str> = keys
        .iter()
        .map(|key| input.columns[*key].name.as_str())
        .collect();
    let mut title = what.to_string();
    if !calls.is_empty() {
        let calls = calls.join(", ");
        let head: String = calls.chars().take(80).collect();
        let dots = if head.len() < calls.len() { "…" } else { "" };
        title.push_str(&format!(": {head}{dots}"));
    }
    if !keys.is_empty() {
        title.push_str(&format!(" by {}", keys.join(", ")));
    }
    title
}

fn key_fields(keys: &[usize], raw_input: &SchemaRef) -> Vec<Field> {
    let mut names = crate::rel::UniqueNames::default();
    keys.iter()
        .map(|key| {
            let field = raw_input.field(*key).clone();
            let name = names.unique(field.name());
            field.with_name(name)
        })
        .collect()
}

/// Keys (and slice) followed by the partial columns of each call, named by call.
fn partial_schema(
    mut fields: Vec<Field>,
    aggregates: &[AggregateCall],
    raw_input: &SchemaRef,
) -> SchemaRef {
    for (i, call) in aggregates.iter().enumerate() {
        for field in partial_fields(call, raw_input) {
            let name = format!("$partial{i}_{}", field.name());
            fields.push(field.with_name(name));
        }
    }
    Arc::new(Schema::new(fields))
}

/// The relation's columns, with keys as nullable as they are in the input.
fn output_schema(rel: &Rel, keys: &[usize], raw_input: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = rel
        .columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let field = column.field();
            match keys.get(i) {
                Some(key) if raw_input.field(*key).is_nullable() => field.with_nullable(true),
                _ => field,
            }
        })
        .collect();
    Arc::new(Schema::new(fields))
}
