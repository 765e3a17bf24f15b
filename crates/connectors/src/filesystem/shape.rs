//! Brings decoded rows into the shape the source promises: pruned columns, then metadata.

use std::{fs::Metadata, path::Path, sync::Arc, time::UNIX_EPOCH};

use arrow::{
    array::{
        ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
        TimestampMillisecondArray,
    },
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use millrace_dataflow::SourceNode;
use millrace_formats::sql_type_name;

/// Metadata columns that a file's rows can have, under Flink's names, with their types.
const METADATA: [(&str, &str); 4] = [
    ("file.path", "STRING"),
    ("file.name", "STRING"),
    ("file.size", "BIGINT"),
    ("file.modification-time", "TIMESTAMP_LTZ(3)"),
];

enum MetadataValue {
    Text(String),
    Number(i64),
    Time(i64),
}

/// The shape of one file's rows.
pub(super) struct Shape {
    schema: SchemaRef,
    physical: SchemaRef,
    metadata: Vec<(MetadataValue, DataType)>,
}

/// Refuses metadata columns that files do not have, and types that would change their values.
pub(super) fn check_metadata(metadata: &[(String, Field)]) -> Result<(), String> {
    for (key, field) in metadata {
        let Some((_, sql_type)) = METADATA.iter().find(|(name, _)| name == key) else {
            let all = METADATA.map(|(name, _)| format!("'{name}'")).join(", ");
            return Err(format!(
                "connector 'filesystem' has no metadata '{key}'; it has {all}"
            ));
        };
        let fits = match *sql_type {
            "STRING" => matches!(field.data_type(), DataType::Utf8),
            "BIGINT" => matches!(field.data_type(), DataType::Int64),
            _ => matches!(field.data_type(), DataType::Timestamp(_, Some(_))),
        };
        if !fits {
            return Err(format!(
                "metadata column `{}` is {}, but '{key}' is {sql_type}: declare it so",
                field.name(),
                sql_type_name(field.data_type())
            ));
        }
    }
    Ok(())
}

impl Shape {
    pub(super) fn new(node: &SourceNode, path: &Path, file: &Metadata) -> Self {
        let mut fields: Vec<_> = node.physical.fields().iter().cloned().collect();
        let mut metadata = Vec::new();
        for (key, field) in &node.metadata {
            let value = match key.as_str() {
                "file.path" => MetadataValue::Text(path.display().to_string()),
                "file.name" => MetadataValue::Text(
                    path.file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                ),
                "file.size" => MetadataValue::Number(file.len() as i64),
                _ => MetadataValue::Time(
                    file.modified()
                        .ok()
                        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                        .map_or(0, |at| at.as_millis() as i64),
                ),
            };
            metadata.push((value, field.data_type().clone()));
            fields.push(Arc::new(field.clone()));
        }
        Shape {
            schema: Arc::new(Schema::new(fields)),
            physical: node.physical.clone(),
            metadata,
        }
    }

    pub(super) fn apply(&self, rows: RecordBatch) -> Result<RecordBatch, String> {
        let count = rows.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for field in self.physical.fields() {
            let column = rows
                .column_by_name(field.name())
                .ok_or_else(|| format!("column `{}` was not decoded", field.name()))?;
            columns.push(column.clone());
        }
        for (value, data_type) in &self.metadata {
            let array: ArrayRef = match value {
                MetadataValue::Text(text) => Arc::new(StringArray::from_iter_values(
                    std::iter::repeat_n(text, count),
                )),
                MetadataValue::Number(number) => Arc::new(Int64Array::from_value(*number, count)),
                MetadataValue::Time(ms) => {
                    Arc::new(TimestampMillisecondArray::from_value(*ms, count).with_timezone("UTC"))
                }
            };
            columns.push(cast(&array, data_type).map_err(|error| error.to_string())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| error.to_string())
    }
}
