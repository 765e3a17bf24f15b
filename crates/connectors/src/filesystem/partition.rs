//! The directory of a row in a partitioned table: `column=value/column=value`, as Hive lays them
//! out. Every value, however odd, stays within one path component.

use std::path::PathBuf;

use arrow::{
    array::{Array, RecordBatch},
    datatypes::Schema,
    util::display::{ArrayFormatter, FormatOptions},
};

const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";

/// The partition columns of a table.
#[derive(Debug, Clone)]
pub(super) struct Partitioning {
    /// Position and escaped name.
    columns: Vec<(usize, String)>,
    /// For values that are null or empty, as in Flink.
    default: String,
}

impl Partitioning {
    pub(super) fn new(schema: &Schema, columns: &[usize], default: &str) -> Self {
        let named = |column: &usize| (*column, escape(schema.field(*column).name()));
        Partitioning {
            columns: columns.iter().map(named).collect(),
            default: escape(default),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The directory of every row.
    pub(super) fn directories(&self, rows: &RecordBatch) -> Result<Vec<PathBuf>, String> {
        let options = FormatOptions::new()
            .with_timestamp_format(Some(TIMESTAMP))
            .with_timestamp_tz_format(Some(TIMESTAMP));
        let mut paths = vec![PathBuf::new(); rows.num_rows()];
        for (column, name) in &self.columns {
            let values = rows.column(*column);
            let fault = |error: arrow::error::ArrowError| {
                let column = rows.schema().field(*column).name().clone();
                format!("a value of partition column `{column}` has no text: {error}")
            };
            let formatter = ArrayFormatter::try_new(values.as_ref(), &options).map_err(fault)?;
            for (row, path) in paths.iter_mut().enumerate() {
                let mut value = String::new();
                if !values.is_null(row) {
                    value = escape(&formatter.value(row).try_to_string().map_err(fault)?);
                }
                if value.is_empty() {
                    value.clone_from(&self.default);
                }
                path.push(format!("{name}={value}"));
            }
        }
        Ok(paths)
    }
}

/// Percent-encodes what file systems, or readers of such directories, take for something else.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        let special = matches!(
            c,
            '/' | '\\'
                | ':'
                | '*'
                | '?'
                | '"'
                | '\''
                | '%'
                | '='
                | '#'
                | '['
                | ']'
                | '{'
                | '}'
                | '^'
        );
        if special || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            ArrayRef, BooleanArray, Date32Array, Int64Array, StringArray, TimestampMillisecondArray,
        },
        datatypes::Field,
    };

    use super::*;

    fn directories(names: &[&str], columns: Vec<ArrayRef>) -> Vec<String> {
        let fields: Vec<Field> = names
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let all: Vec<usize> = (0..columns.len()).collect();
        let rows = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let partitioning = Partitioning::new(&schema, &all, "../none");
        let found = partitioning.directories(&rows).unwrap();
        found
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn every_value_is_one_component() {
        let values = StringArray::from(vec![
            Some("plain"),
            None,
            Some(""),
            Some(".."),
            Some("a/b"),
            Some("/abs"),
            Some("a=b%c"),
            Some("nul\0\u{85}"),
            Some("Zoë 東"),
        ]);
        assert_eq!(
            directories(&["k"], vec![Arc::new(values)]),
            [
                "k=plain",
                "k=..%2Fnone",
                "k=..%2Fnone",
                "k=..",
                "k=a%2Fb",
                "k=%2Fabs",
                "k=a%3Db%25c",
                "k=nul%00%C2%85",
                "k=Zoë 東",
            ]
        );
    }

    #[test]
    fn types_and_names() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Date32Array::from(vec![19_723])),
            Arc::new(TimestampMillisecondArray::from(vec![1_704_067_200_250])),
            Arc::new(Int64Array::from(vec![-5])),
            Arc::new(BooleanArray::from(vec![true])),
        ];
        assert_eq!(
            directories(&["d", "t", "/n", "b"], columns),
            ["d=2024-01-01/t=2024-01-01 00%3A00%3A00.250/%2Fn=-5/b=true"]
        );
        // Beyond the years that have a text.
        let schema = Schema::new(vec![Field::new(
            "t",
            arrow::datatypes::DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None),
            true,
        )]);
        let rows = RecordBatch::try_new(
            Arc::new(schema.clone()),
            vec![Arc::new(TimestampMillisecondArray::from(vec![i64::MAX]))],
        )
        .unwrap();
        let error = Partitioning::new(&schema, &[0], "x")
            .directories(&rows)
            .unwrap_err();
        assert!(error.contains("partition column `t`"), "{error}");
    }
}
