//! Calc, union, expand, window assignment: operators without state.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOp;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{BinaryExpr, col, lit},
};
use millrace_dataflow::{
    CalcNode, ChangelogMode, ExpandNode, Node, NodeId, NodeKind, ScalarExpr, TimeDomain,
    WindowAssignNode, WindowKind, WindowSource,
};

use super::text;
use crate::{Event, Output, operators::build};

fn run(kind: NodeKind, input: &SchemaRef, output: &SchemaRef, rows: &str) -> Vec<String> {
    let node = Node {
        id: NodeId(1),
        name: "test".into(),
        kind,
        inputs: Vec::new(),
        schema: Arc::clone(output),
        mode: ChangelogMode::Retract,
        time_column: None,
    };
    let mut operator = build(&node, std::slice::from_ref(input)).unwrap();
    let mut out = Output::default();
    operator
        .process(0, text::batch(input, rows), &mut out)
        .unwrap();
    out.take()
        .into_iter()
        .flat_map(|event| match event {
            Event::Batch(batch) => text::lines(&batch, true),
            _ => Vec::new(),
        })
        .collect()
}

fn scalar(expr: Arc<dyn PhysicalExpr>, name: &str, data_type: DataType) -> ScalarExpr {
    ScalarExpr {
        expr,
        field: Field::new(name, data_type, true),
        text: name.into(),
    }
}

fn greater(input: &Schema, column: &str, than: i64) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(
        col(column, input).unwrap(),
        BinaryOp::Gt,
        lit(ScalarValue::Int64(Some(than))),
    ))
}

#[test]
fn calc_filters_then_projects_and_keeps_kinds() {
    let input = text::schema("k:utf8 v:bigint");
    let output = text::schema("v:bigint big:bool k:utf8");
    let calc = |than: i64| {
        NodeKind::Calc(Arc::new(CalcNode {
            predicate: Some(scalar(greater(&input, "v", than), "p", DataType::Boolean)),
            projection: vec![
                scalar(col("v", &input).unwrap(), "v", DataType::Int64),
                scalar(greater(&input, "v", 5), "big", DataType::Boolean),
                scalar(col("k", &input).unwrap(), "k", DataType::Utf8),
            ],
        }))
    };
    let rows = "+I a, 1\n-U b, 7\n+U b, null\n-D null, 3";
    for (than, expected) in [
        (
            0,
            vec!["+I 1, false, a", "-U 7, true, b", "-D 3, false, null"],
        ),
        (3, vec!["-U 7, true, b"]),
        (7, vec![]),
    ] {
        assert_eq!(
            run(calc(than), &input, &output, rows),
            expected,
            "v > {than}"
        );
    }
    // All rows pass: nothing to copy.
    assert_eq!(run(calc(-9), &input, &output, "a, 1"), ["+I 1, false, a"]);
}

#[test]
fn expand_repeats_rows_per_grouping_set() {
    let input = text::schema("a:utf8 b:bigint");
    let output = text::schema("a:utf8 b:bigint $grouping_id:bigint");
    let expand = NodeKind::Expand(Arc::new(ExpandNode {
        sets: vec![(vec![], 0), (vec![1], 1), (vec![0, 1], 3)],
    }));
    assert_eq!(
        run(expand, &input, &output, "+I x, 1\n-D y, 2"),
        [
            "+I x, 1, 0",
            "-D y, 2, 0",
            "+I x, null, 1",
            "-D y, null, 1",
            "+I null, null, 3",
            "-D null, null, 3"
        ]
    );
}

#[test]
fn union_takes_the_names_of_its_output() {
    let output = text::schema("b:bigint");
    let rows = run(NodeKind::Union, &text::schema("a:bigint"), &output, "1\n2");
    assert_eq!(rows, ["+I 1", "+I 2"]);
}

#[test]
fn windows_are_appended_once_per_window() {
    let assign = |kind, zone: Option<&str>| {
        NodeKind::WindowAssign(Arc::new(WindowAssignNode {
            window: WindowSource::Time {
                column: 0,
                kind,
                domain: TimeDomain::Event,
                zone: zone.map(Into::into),
            },
        }))
    };
    let input = text::schema("t:ts");
    let output = text::schema("t:ts window_start:ts window_end:ts window_time:ts");
    let hop = WindowKind::Hop {
        size: 10,
        slide: 5,
        offset: 0,
    };
    assert_eq!(
        run(assign(hop, None), &input, &output, "12\n3"),
        [
            "+I 12, 5, 15, 14",
            "+I 12, 10, 20, 19",
            "+I 3, -5, 5, 4",
            "+I 3, 0, 10, 9"
        ]
    );
    let gaps = WindowKind::Hop {
        size: 2,
        slide: 5,
        offset: 0,
    };
    assert_eq!(
        run(assign(gaps, None), &input, &output, "1\n3"),
        ["+I 1, 0, 2, 1"]
    );
    // One hour east of UTC the day starts at 23:00; starts and ends are local, times are not.
    let input = text::schema("t:ltz");
    let output = text::schema("t:ltz window_start:ts window_end:ts window_time:ltz");
    const DAY: i64 = 86_400_000;
    let day = WindowKind::Tumble {
        size: DAY,
        offset: 0,
    };
    let hour = 3_600_000;
    assert_eq!(
        run(
            assign(day, Some("Europe/Berlin")),
            &input,
            &output,
            "82800000\n82799999"
        ),
        [
            format!(
                "+I {}, {DAY}, {}, {}",
                23 * hour,
                2 * DAY,
                2 * DAY - hour - 1
            ),
            format!("+I {}, 0, {DAY}, {}", 23 * hour - 1, DAY - hour - 1),
        ]
    );
}
