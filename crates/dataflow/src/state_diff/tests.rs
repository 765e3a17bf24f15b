//! Tables of two aggregations and what becomes of their state.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::*;
use crate::{AggregateKind, ChangelogMode, GroupAggregateNode, NodeId, SourceNode};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]))
}

fn node(id: u32, name: &str, kind: NodeKind) -> Node {
    Node {
        id: NodeId(id),
        name: name.into(),
        kind,
        inputs: Vec::new(),
        schema: schema(),
        mode: ChangelogMode::Append,
        time_column: None,
    }
}

/// A source of `table`, then an aggregation by `keys`.
fn dataflow(table: &str, keys: &str, calls: &[&str]) -> Dataflow {
    let source = SourceNode {
        table: table.into(),
        options: BTreeMap::new(),
        declared: schema(),
        physical: schema(),
        metadata: Vec::new(),
        output: Vec::new(),
        watermark: None,
        state_id: StateId(format!("source-{table}")),
    };
    let aggregates = calls.iter().map(|meaning| AggregateCall {
        kind: AggregateKind::CountStar,
        args: Vec::new(),
        distinct: false,
        filter: None,
        output: Field::new("c", DataType::Int64, true),
        meaning: (*meaning).into(),
    });
    let aggregate = Arc::new(GroupAggregateNode {
        keys: vec![0],
        aggregates: aggregates.collect(),
        raw_input: schema(),
        input_mode: ChangelogMode::Append,
        ttl_ms: 0,
        per_row: false,
        state_id: StateId(format!("group-aggregate-{keys}")),
    });
    Dataflow {
        nodes: vec![
            node(0, table, NodeKind::Source(Arc::new(source))),
            // Both halves of a pair share the id; only one counts.
            node(1, "LOCAL", NodeKind::LocalGroupAggregate(aggregate.clone())),
            node(2, "GROUP", NodeKind::GlobalGroupAggregate(aggregate)),
        ],
        parallelism: 1,
        max_parallelism: 128,
    }
}

#[test]
fn each_call_follows_its_meaning_and_each_node_its_id() {
    let old = dataflow("t", "k", &["COUNT(*)", "SUM(id)"]);
    for (new, expected) in [
        (
            dataflow("t", "k", &["SUM(id)", "COUNT(*)"]),
            "keeps all state",
        ),
        (
            dataflow("t", "k", &["COUNT(*)", "MIN(id)"]),
            "keeps the state of 1 of 2 aggregates: the position in table `t` kept; COUNT(*) kept; \
             MIN(id) starts empty and covers only rows from now on; SUM(id) dropped",
        ),
        // The same call twice has one state to take over.
        (
            dataflow("t", "k", &["SUM(id)", "SUM(id)"]),
            "keeps the state of 1 of 2 aggregates: the position in table `t` kept; SUM(id) kept; \
             SUM(id) starts empty and covers only rows from now on; COUNT(*) dropped",
        ),
        // Another key: nothing of the aggregation is kept.
        (
            dataflow("t", "j", &["COUNT(*)"]),
            "keeps the state of 0 of 1 aggregate: the position in table `t` kept; \
             COUNT(*) starts empty and covers only rows from now on; COUNT(*) dropped; SUM(id) dropped",
        ),
        // Another table; DISTINCT instead of calls, over the same keys.
        (
            dataflow("u", "k", &[]),
            "changes what state there is: the position in table `u` is new: it is read from its \
             start; GROUP kept; the position in table `t` dropped; COUNT(*) dropped; SUM(id) dropped",
        ),
    ] {
        let diff = state_diff(&old, &new);
        assert_eq!(diff.to_string(), expected);
        assert_eq!(diff.keeps_everything(), expected == "keeps all state");
    }
}

#[test]
fn pieces_are_told_with_their_node() {
    let old = dataflow("t", "k", &["SUM(id)"]);
    let new = dataflow("t", "k", &["MIN(id)"]);
    let told: Vec<(String, &str)> = state_diff(&old, &new)
        .changes
        .into_iter()
        .map(|change| (change.node, change.fate.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("t".to_owned(), "kept"),
            ("GROUP".to_owned(), "added"),
            ("GROUP".to_owned(), "dropped")
        ]
    );
}
