//! Filesystem tables on real files: every format read and written, resumed at every position,
//! damaged and taken away.

mod bad_records;
mod committing;
mod disk_faults;
mod input;
mod output;
mod reading;
mod resuming;
mod writing;

use std::{path::Path, sync::Arc};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    util::display::array_value_to_string,
};
use millrace_dataflow::TableOptions;

fn table_options(path: &Path, format: &str, more: &[(&str, &str)]) -> TableOptions {
    let mut options = TableOptions::from([
        ("connector".to_owned(), "filesystem".to_owned()),
        ("path".to_owned(), path.display().to_string()),
        ("format".to_owned(), format.to_owned()),
    ]);
    options.extend(
        more.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    options
}

/// `id BIGINT, name STRING, at TIMESTAMP(3)`.
fn schema() -> SchemaRef {
    let at = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("at", at, true),
    ]))
}

fn columns(names: &[&str]) -> SchemaRef {
    let all = schema();
    let fields: Vec<Field> = names
        .iter()
        .map(|name| all.field_with_name(name).unwrap().clone())
        .collect();
    Arc::new(Schema::new(fields))
}

/// Values separated by `|`, nulls as `∅`.
fn shown(rows: &RecordBatch) -> Vec<String> {
    (0..rows.num_rows())
        .map(|row| {
            let values: Vec<String> = rows
                .columns()
                .iter()
                .map(|column| {
                    if column.is_null(row) {
                        "∅".to_owned()
                    } else {
                        array_value_to_string(column, row).unwrap()
                    }
                })
                .collect();
            values.join("|")
        })
        .collect()
}
