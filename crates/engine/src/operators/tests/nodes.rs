//! Short forms of dataflow nodes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millrace_dataflow::{
    AggregateCall, AggregateKind, ChangelogMode, Exchange, GroupAggregateNode, Input, Node, NodeId,
    NodeKind, StateId, TimeDomain, WindowAggregateNode, WindowKind, WindowSource, partial_fields,
};

use super::{
    harness::Case,
    text::{schema, type_of},
};

/// `COUNT(*)`, `SUM(1) bigint`, `DISTINCT COUNT(2)`, `MAX(1) int IF 3`: arguments and filters are
/// column numbers; a type is needed where it is not BIGINT.
pub(crate) fn call(text: &str) -> AggregateCall {
    let (rest, filter) = match text.split_once(" IF ") {
        Some((rest, filter)) => (rest, Some(filter.parse().unwrap())),
        None => (text, None),
    };
    let (distinct, rest) = match rest.strip_prefix("DISTINCT ") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (function, output) = rest.split_once(')').unwrap();
    let (name, argument) = function.split_once('(').unwrap();
    let kind = match name {
        "COUNT" if argument == "*" => AggregateKind::CountStar,
        "COUNT" => AggregateKind::Count,
        "SUM" => AggregateKind::Sum,
        "AVG" => AggregateKind::Avg,
        "MIN" => AggregateKind::Min,
        "MAX" => AggregateKind::Max,
        "FIRST" => AggregateKind::FirstValue,
        "LAST" => AggregateKind::LastValue,
        "STDDEV_POP" => AggregateKind::StddevPop,
        "STDDEV_SAMP" => AggregateKind::StddevSamp,
        "VAR_POP" => AggregateKind::VarPop,
        "VAR_SAMP" => AggregateKind::VarSamp,
        "ARRAY_AGG" => AggregateKind::ArrayAgg,
        "LISTAGG" => AggregateKind::Listagg {
            separator: "|".into(),
        },
        other => panic!("no function {other}"),
    };
    let output = match output.trim() {
        "" => DataType::Int64,
        name => type_of(name),
    };
    AggregateCall {
        kind,
        args: argument.parse().into_iter().collect(),
        distinct,
        filter,
        output: Field::new(text, output, true),
        // As the compiler writes it: calls share distinct values up to their filter.
        meaning: text.replace(" IF ", " FILTER (WHERE "),
    }
}

fn calls(text: &[&str]) -> Vec<AggregateCall> {
    text.iter().map(|text| call(text)).collect()
}

fn node(name: &str, kind: NodeKind, schema: SchemaRef, mode: ChangelogMode) -> Node {
    Node {
        id: NodeId(1),
        name: name.into(),
        kind,
        inputs: vec![Input {
            node: NodeId(0),
            exchange: Exchange::Forward,
        }],
        schema,
        mode,
        time_column: None,
    }
}

fn key_fields(input: &Schema, keys: &[usize]) -> Vec<Field> {
    keys.iter()
        .map(|key| input.field(*key).clone().with_nullable(true))
        .collect()
}

fn partials(input: &Schema, calls: &[AggregateCall]) -> Vec<Field> {
    calls
        .iter()
        .flat_map(|call| partial_fields(call, input))
        .collect()
}

/// Where a window aggregate runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phases {
    One,
    Two,
}

/// A window aggregate over `input`, whose last column is the time.
pub(super) fn window_case(
    input: &str,
    keys: &[usize],
    aggregates: &[&str],
    window: WindowSource,
    phases: Phases,
) -> Case {
    let input = schema(input);
    let aggregates = calls(aggregates);
    let time_type = match &window {
        WindowSource::Time {
            column,
            domain: TimeDomain::Event,
            ..
        } => input.field(*column).data_type().clone(),
        _ => type_of("ts"),
    };
    let aggregate = Arc::new(WindowAggregateNode {
        window,
        keys: keys.to_vec(),
        aggregates: aggregates.clone(),
        raw_input: Arc::clone(&input),
        state_id: StateId("window-aggregate-1".into()),
    });
    let mut fields = key_fields(&input, keys);
    fields.extend(aggregates.iter().map(|call| call.output.clone()));
    for (name, data_type) in [
        ("window_start", type_of("ts")),
        ("window_end", type_of("ts")),
        ("window_time", time_type),
    ] {
        fields.push(Field::new(name, data_type, false));
    }
    let output: SchemaRef = Arc::new(Schema::new(fields));
    let append = ChangelogMode::Append;
    match phases {
        Phases::One => Case {
            node: node(
                "window",
                NodeKind::WindowAggregate(aggregate),
                output,
                append,
            ),
            local: None,
            keys: keys.to_vec(),
            input,
        },
        Phases::Two => {
            let mut fields = key_fields(&input, keys);
            fields.push(Field::new("$slice_end", DataType::Int64, false));
            fields.extend(partials(&input, &aggregates));
            let between: SchemaRef = Arc::new(Schema::new(fields));
            let local = NodeKind::LocalWindowAggregate(Arc::clone(&aggregate));
            Case {
                local: Some(node("local", local, between, append)),
                node: node(
                    "global",
                    NodeKind::GlobalWindowAggregate(aggregate),
                    output,
                    append,
                ),
                keys: (0..keys.len()).collect(),
                input,
            }
        }
    }
}

pub(crate) fn event_time(column: usize, kind: WindowKind) -> WindowSource {
    WindowSource::Time {
        column,
        kind,
        domain: TimeDomain::Event,
        zone: None,
    }
}

/// An updating aggregate, in one phase or two.
pub(super) fn group_case(
    input: &str,
    keys: &[usize],
    aggregates: &[&str],
    phases: Phases,
    change: impl FnOnce(&mut GroupAggregateNode),
) -> Case {
    let input = schema(input);
    let aggregates = calls(aggregates);
    let mut aggregate = GroupAggregateNode {
        keys: keys.to_vec(),
        aggregates: aggregates.clone(),
        raw_input: Arc::clone(&input),
        input_mode: ChangelogMode::Append,
        ttl_ms: 0,
        per_row: false,
        state_id: StateId("group-aggregate-1".into()),
    };
    change(&mut aggregate);
    let aggregate = Arc::new(aggregate);
    let mut fields = key_fields(&input, keys);
    fields.extend(aggregates.iter().map(|call| call.output.clone()));
    let output: SchemaRef = Arc::new(Schema::new(fields));
    let retract = ChangelogMode::Retract;
    match phases {
        Phases::One => Case {
            node: node(
                "group",
                NodeKind::GroupAggregate(aggregate),
                output,
                retract,
            ),
            local: None,
            keys: keys.to_vec(),
            input,
        },
        Phases::Two => {
            let mut fields = key_fields(&input, keys);
            fields.extend(partials(&input, &aggregates));
            let between: SchemaRef = Arc::new(Schema::new(fields));
            let local = NodeKind::LocalGroupAggregate(Arc::clone(&aggregate));
            Case {
                local: Some(node("local", local, between, ChangelogMode::Append)),
                node: node(
                    "global",
                    NodeKind::GlobalGroupAggregate(aggregate),
                    output,
                    retract,
                ),
                keys: (0..keys.len()).collect(),
                input,
            }
        }
    }
}
