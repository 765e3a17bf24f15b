//! Rows as text: `+I a, 1, null` per line.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
        StringArray, TimestampMillisecondArray,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    util::display::{ArrayFormatter, FormatOptions},
};
use millrace_dataflow::RowKind;

use crate::Batch;

/// `k:utf8 v:int t:ts` as a schema of nullable columns.
pub(crate) fn schema(spec: &str) -> SchemaRef {
    let fields: Vec<Field> = spec
        .split_whitespace()
        .map(|column| {
            let (name, data_type) = column.split_once(':').unwrap();
            Field::new(name, type_of(data_type), true)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

pub(crate) fn type_of(name: &str) -> DataType {
    match name {
        "utf8" => DataType::Utf8,
        "int" => DataType::Int32,
        "bigint" => DataType::Int64,
        "double" => DataType::Float64,
        "bool" => DataType::Boolean,
        "dec" => DataType::Decimal128(10, 2),
        "dec38" => DataType::Decimal128(38, 2),
        "dec38.6" => DataType::Decimal128(38, 6),
        "ts" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "ltz" => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        "list" => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        other => panic!("no type {other}"),
    }
}

/// Rows of a schema; a leading row kind makes the batch a changelog.
pub(crate) fn batch(schema: &SchemaRef, text: &str) -> Batch {
    let mut kinds = Vec::new();
    let mut rows: Vec<Vec<Option<&str>>> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let kind = [
            ("+I ", RowKind::Insert),
            ("-U ", RowKind::UpdateBefore),
            ("+U ", RowKind::UpdateAfter),
            ("-D ", RowKind::Delete),
        ]
        .into_iter()
        .find_map(|(prefix, kind)| Some((line.strip_prefix(prefix)?, kind)));
        let line = match kind {
            Some((rest, kind)) => {
                kinds.push(kind);
                rest
            }
            None => line,
        };
        let cells = line.split(',').map(str::trim);
        rows.push(cells.map(|cell| (cell != "null").then_some(cell)).collect());
    }
    let columns = (schema.fields().iter().enumerate())
        .map(|(i, field)| column(field.data_type(), rows.iter().map(|row| row[i]).collect()))
        .collect();
    let rows = RecordBatch::try_new(Arc::clone(schema), columns).unwrap();
    if kinds.is_empty() {
        Batch::inserts(rows)
    } else {
        Batch::changes(rows, kinds)
    }
}

fn column(data_type: &DataType, cells: Vec<Option<&str>>) -> ArrayRef {
    let ints = || {
        cells
            .iter()
            .map(|cell| cell.map(|cell| cell.parse::<i64>().unwrap()))
    };
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from(cells)),
        DataType::Int32 => Arc::new(ints().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(ints().collect::<Int64Array>()),
        DataType::Float64 => Arc::new(
            (cells.iter())
                .map(|cell| cell.map(|cell| cell.parse::<f64>().unwrap()))
                .collect::<Float64Array>(),
        ),
        DataType::Boolean => Arc::new(
            (cells.iter())
                .map(|cell| cell.map(|cell| cell == "true"))
                .collect::<BooleanArray>(),
        ),
        DataType::Decimal128(_, _) => Arc::new(
            (cells.iter())
                .map(|cell| cell.map(|cell| cell.replace('.', "").parse::<i128>().unwrap()))
                .collect::<Decimal128Array>()
                .with_data_type(data_type.clone()),
        ),
        DataType::Timestamp(_, _) => Arc::new(
            ints()
                .collect::<TimestampMillisecondArray>()
                .with_data_type(data_type.clone()),
        ),
        other => panic!("no column of {other}"),
    }
}

/// The rows as `batch` reads them; timestamps as numbers; kinds if `with_kinds`.
pub(crate) fn lines(batch: &Batch, with_kinds: bool) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<ArrayRef> = batch
        .rows
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Timestamp(_, _) => arrow::compute::cast(column, &DataType::Int64).unwrap(),
            _ => Arc::clone(column),
        })
        .collect();
    (0..batch.len())
        .map(|row| {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| {
                    let formatter = ArrayFormatter::try_new(column.as_ref(), &options).unwrap();
                    formatter.value(row).to_string()
                })
                .collect();
            let kind = match &batch.kinds {
                Some(kinds) => kinds[row],
                None => RowKind::Insert,
            };
            if with_kinds {
                format!("{} {}", kind.short_name(), cells.join(", "))
            } else {
                cells.join(", ")
            }
        })
        .collect()
}
