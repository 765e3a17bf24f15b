//! A tiny evaluator of graphs of VALUES, Calc and UNION ALL, for tests of expressions.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::{concat_batches, filter_record_batch},
    datatypes::DataType,
};
use millrace_dataflow::{Dataflow, NodeId, NodeKind};

use crate::functions::cast::{Rules, cast_array};

/// Rows of the script's last sink, with values as CAST to STRING writes them.
pub(super) fn run(script: &str) -> Result<Vec<Vec<String>>, String> {
    let compiled = super::compiled(script);
    let sink = compiled.dataflow.nodes.last().expect("a sink");
    let batch = evaluate(&compiled.dataflow, sink.inputs[0].node)?;
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(|column| {
            let rules = Rules {
                zone: chrono_tz::Tz::UTC,
                lenient: true,
            };
            cast_array(column, &DataType::Utf8, &rules).expect("text")
        })
        .collect();
    Ok((0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| {
                    let column = column.as_string::<i32>();
                    if column.is_null(row) {
                        "NULL".to_string()
                    } else {
                        column.value(row).to_string()
                    }
                })
                .collect()
        })
        .collect())
}

fn evaluate(dataflow: &Dataflow, id: NodeId) -> Result<RecordBatch, String> {
    let node = dataflow.node(id);
    let inputs = node
        .inputs
        .iter()
        .map(|input| evaluate(dataflow, input.node))
        .collect::<Result<Vec<_>, _>>()?;
    let batch = match &node.kind {
        NodeKind::Values(values) => concat_batches(&node.schema, &values.rows).expect("values"),
        NodeKind::Union => concat_batches(&node.schema, &inputs).expect("union"),
        NodeKind::Calc(calc) => {
            let mut input = inputs[0].clone();
            if let Some(predicate) = &calc.predicate {
                let mask = predicate
                    .expr
                    .evaluate(&input)
                    .and_then(|value| value.into_array(input.num_rows()))
                    .map_err(|error| error.strip_backtrace())?;
                input = filter_record_batch(&input, mask.as_boolean()).expect("filter");
            }
            let columns = calc
                .projection
                .iter()
                .map(|scalar| {
                    let value = scalar
                        .expr
                        .evaluate(&input)
                        .and_then(|value| value.into_array(input.num_rows()))
                        .map_err(|error| error.strip_backtrace())?;
                    assert_eq!(
                        value.data_type(),
                        scalar.field.data_type(),
                        "{}",
                        scalar.text
                    );
                    Ok(value)
                })
                .collect::<Result<Vec<ArrayRef>, String>>()?;
            RecordBatch::try_new_with_options(
                Arc::clone(&node.schema),
                columns,
                &RecordBatchOptions::new().with_row_count(Some(input.num_rows())),
            )
            .map_err(|error| error.to_string())?
        }
        other => panic!("no evaluation of {other:?}"),
    };
    Ok(batch)
}

/// Checks an expression over `a`, `b`, `c`, …, which are columns of two equal rows, and the
/// same expression over constants.
pub(super) fn check(expression: &str, arguments: &str, expected: &str) {
    let names = ["a", "b", "c", "d", "e"];
    let count = split_arguments(arguments).len();
    let script = if count == 0 {
        format!("SELECT {expression}")
    } else {
        let names = names[..count].join(", ");
        format!("SELECT {expression} FROM (VALUES ({arguments}), ({arguments})) AS t ({names})")
    };
    let rows = run(&script).unwrap_or_else(|error| {
        format!("error: {error}")
            .lines()
            .map(|l| vec![l.to_string()])
            .collect()
    });
    for row in &rows {
        assert_eq!(row[0], expected, "{script}");
    }
    assert!(!rows.is_empty());
    if count > 0 {
        let mut constant = String::new();
        let mut inside_string = false;
        let arguments = split_arguments(arguments);
        let chars: Vec<char> = expression.chars().collect();
        for (i, c) in chars.iter().enumerate() {
            if *c == '\'' {
                inside_string = !inside_string;
            }
            let alone = |at: Option<&char>| {
                at.is_none_or(|c| !c.is_alphanumeric() && *c != '_' && *c != '.')
            };
            let place = names.iter().position(|name| name.starts_with(*c));
            let before = if i == 0 { None } else { chars.get(i - 1) };
            match place {
                Some(place)
                    if !inside_string
                        && place < arguments.len()
                        && alone(before)
                        && alone(chars.get(i + 1)) =>
                {
                    constant.push_str(&arguments[place]);
                }
                _ => constant.push(*c),
            }
        }
        let script = format!("SELECT {constant}");
        let rows = run(&script).unwrap_or_else(|error| vec![vec![format!("error: {error}")]]);
        assert_eq!(rows[0][0], expected, "{script}");
    }
}

/// Splits at commas outside of quotes, parentheses and brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let mut parts = vec![];
    let mut current = String::new();
    let (mut depth, mut quoted) = (0, false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(std::mem::take(&mut current).trim().to_string());
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    if !current.trim().is_empty() {
        parts.push(current.trim().to_string());
    }
    parts
}
