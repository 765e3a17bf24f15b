//! Records of a topic to rows: physical columns out of key and value, then metadata columns.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{Field, Schema, SchemaRef},
};
use millrace_dataflow::SourceNode;
use millrace_formats::{MessageDecoder, MessageSpec};
use rdkafka::{Message, message::BorrowedMessage};

use super::{
    formats::{KeyColumns, RecordFormats},
    metadata::{self, MetadataColumn},
};
use crate::source::{ConnectorError, with_causes};

/// How the rows that a source promises come out of records.
#[derive(Debug, Clone)]
pub(super) struct ReadLayout {
    /// `None` where no column needs that side.
    key: Option<MessageSpec>,
    value: Option<MessageSpec>,
    /// Where each physical column is.
    origins: Vec<Origin>,
    metadata: Vec<(String, Field)>,
    schema: SchemaRef,
}

#[derive(Debug, Clone, Copy)]
enum Origin {
    Key(usize),
    Value(usize),
}

impl ReadLayout {
    /// Checks formats and metadata of a table.
    pub(super) fn new(node: &SourceNode) -> Result<Self, ConnectorError> {
        let (table, options) = (&node.table, &node.options);
        let all = RecordFormats::new(table, options, &node.declared, KeyColumns::Option)?;
        metadata::check("kafka", &node.metadata)
            .map_err(|reason| ConnectorError(format!("table `{table}`: {reason}")))?;
        let names = node.physical.fields().iter();
        let wanted: Vec<usize> = names
            .filter_map(|field| node.declared.index_of(field.name()).ok())
            .collect();
        // A column of both sides is taken from the value, as in Flink.
        let in_value = |column: usize| all.value.columns.contains(&column);
        let value = all
            .value
            .pruned(table, options, "value.", |column| wanted.contains(&column))?;
        let key = match &all.key {
            Some(key) => Some(key.pruned(table, options, "key.", |column| {
                wanted.contains(&column) && !in_value(column)
            })?),
            None => None,
        };
        let place = |columns: &[usize], column: usize| columns.iter().position(|at| *at == column);
        let mut origins = Vec::with_capacity(wanted.len());
        for column in &wanted {
            let origin = match (place(&value.columns, *column), &key) {
                (Some(at), _) => Some(Origin::Value(at)),
                (None, Some(key)) => place(&key.columns, *column).map(Origin::Key),
                (None, None) => None,
            };
            origins.push(origin.ok_or_else(|| {
                ConnectorError(format!(
                    "table `{table}`: column `{}` is in neither key nor value",
                    node.declared.field(*column).name()
                ))
            })?);
        }
        let of_key = origins
            .iter()
            .any(|origin| matches!(origin, Origin::Key(_)));
        let of_value = origins
            .iter()
            .any(|origin| matches!(origin, Origin::Value(_)));
        let mut fields: Vec<_> = node.physical.fields().iter().cloned().collect();
        fields.extend(
            node.metadata
                .iter()
                .map(|(_, field)| Arc::new(field.clone())),
        );
        let layout = ReadLayout {
            key: key.map(|side| side.spec).filter(|_| of_key),
            value: Some(value.spec).filter(|_| of_value),
            origins,
            metadata: node.metadata.clone(),
            schema: Arc::new(Schema::new(fields)),
        };
        // Formats that can only be written are refused here.
        layout
            .reader()
            .map_err(|reason| ConnectorError(format!("table `{table}`: {reason}")))?;
        Ok(layout)
    }

    pub(super) fn reader(&self) -> Result<RecordReader, String> {
        let decoder = |spec: &Option<MessageSpec>| {
            let made = spec.as_ref().map(MessageSpec::decoder).transpose();
            made.map_err(|error| with_causes(&error))
        };
        let metadata = self.metadata.iter();
        Ok(RecordReader {
            key: decoder(&self.key)?,
            value: decoder(&self.value)?,
            origins: self.origins.clone(),
            metadata: metadata
                .map(|(key, field)| MetadataColumn::new(key, field))
                .collect(),
            schema: self.schema.clone(),
            rows: 0,
        })
    }
}

/// Collects records into batches.
pub(super) struct RecordReader {
    key: Option<MessageDecoder>,
    value: Option<MessageDecoder>,
    origins: Vec<Origin>,
    metadata: Vec<MetadataColumn>,
    schema: SchemaRef,
    rows: usize,
}

impl RecordReader {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends the record as a row, or says why it is none.
    pub(super) fn push(
        &mut self,
        topic: &Arc<str>,
        record: &BorrowedMessage<'_>,
    ) -> Result<(), String> {
        self.decode(record.key(), record.payload())?;
        for column in &mut self.metadata {
            column.push(topic, record);
        }
        self.rows += 1;
        Ok(())
    }

    fn decode(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<(), String> {
        if let Some(decoder) = &mut self.key {
            decoder
                .decode(key)
                .map_err(|error| format!("key: {error}"))?;
        }
        if let Some(decoder) = &mut self.value
            && let Err(error) = decoder.decode(value)
        {
            if let Some(decoder) = &mut self.key {
                decoder.undo();
            }
            return Err(match value {
                Some(_) => error.to_string(),
                None => {
                    "it has no value (a tombstone), which deletes nothing from an append-only table"
                        .to_owned()
                }
            });
        }
        Ok(())
    }

    /// The rows since the last call.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, String> {
        let rows = std::mem::take(&mut self.rows);
        let batch = |decoder: &mut Option<MessageDecoder>| {
            let batch = decoder.as_mut().map(MessageDecoder::finish).transpose();
            batch.map_err(|error| with_causes(&error))
        };
        let (key, value) = (batch(&mut self.key)?, batch(&mut self.value)?);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for origin in &self.origins {
            let column = match (origin, &key, &value) {
                (Origin::Key(at), Some(batch), _) | (Origin::Value(at), _, Some(batch)) => {
                    batch.columns().get(*at).cloned()
                }
                _ => None,
            };
            columns.push(column.ok_or("a column was not decoded")?);
        }
        for column in &mut self.metadata {
            columns.push(column.finish()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use millrace_dataflow::{StateId, TableOptions};

    use super::*;

    fn reader(options: &[(&str, &str)], wanted: &[&str]) -> RecordReader {
        let fields = [
            ("id", DataType::Int64),
            ("name", DataType::Utf8),
            ("n", DataType::Int64),
        ]
        .map(|(name, data_type)| Field::new(name, data_type, true));
        let declared = Arc::new(Schema::new(fields.to_vec()));
        let picked = wanted
            .iter()
            .map(|name| declared.field_with_name(name).unwrap().clone());
        let options: TableOptions = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let node = SourceNode {
            table: "t".to_owned(),
            options,
            physical: Arc::new(Schema::new(picked.collect::<Vec<_>>())),
            declared,
            metadata: vec![],
            output: vec![],
            watermark: None,
            state_id: StateId(String::new()),
        };
        ReadLayout::new(&node).unwrap().reader().unwrap()
    }

    fn rows(reader: &mut RecordReader, records: &[(Option<&str>, Option<&str>)]) -> String {
        let mut errors = Vec::new();
        for (key, value) in records {
            match reader.decode(key.map(str::as_bytes), value.map(str::as_bytes)) {
                Ok(()) => reader.rows += 1,
                Err(error) => errors.push(error),
            }
        }
        let batch = reader.finish().unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap();
        format!("{text}\n{}", errors.join("\n"))
    }

    const KEYED: [(&str, &str); 4] = [
        ("format", "json"),
        ("key.format", "csv"),
        ("key.fields", "id"),
        ("value.fields-include", "EXCEPT_KEY"),
    ];

    #[test]
    fn columns_come_from_key_and_value() {
        let mut both = reader(&KEYED, &["id", "n"]);
        let text = rows(
            &mut both,
            &[
                (Some("1"), Some(r#"{"name":"a","n":10}"#)),
                (Some("x"), Some(r#"{"n":11}"#)),
                (Some("2"), Some(r#"{"n":"y"}"#)),
                (Some("3"), None),
                (None, Some(r#"{"n":12}"#)),
                (Some("4"), Some(r#"{"id":9,"n":13}"#)),
            ],
        );
        assert!(text.contains("| 1  | 10 |\n| 4  | 13 |\n+"), "{text}");
        assert!(text.contains("key: byte 1, field `id`"), "{text}");
        assert!(text.contains("tombstone"), "{text}");
        assert_eq!(text.matches("expected").count(), 3, "{text}");

        // The value is not looked at when no column is in it.
        let mut key_only = reader(&KEYED, &["id"]);
        let text = rows(
            &mut key_only,
            &[(Some("1"), Some("no JSON")), (Some("2"), None)],
        );
        assert!(text.contains("| 1  |\n| 2  |"), "{text}");
    }

    #[test]
    fn a_column_of_both_sides_is_taken_from_the_value() {
        let options = [
            ("format", "json"),
            ("key.format", "csv"),
            ("key.fields", "id"),
        ];
        let text = rows(
            &mut reader(&options, &["id"]),
            &[(Some("x"), Some(r#"{"id":7}"#))],
        );
        assert!(text.contains("| 7  |"), "{text}");
    }

    #[test]
    fn columns_by_position_are_all_decoded() {
        let text = rows(
            &mut reader(&[("format", "csv")], &["n"]),
            &[(None, Some("1,a,5"))],
        );
        assert!(text.contains("| 5 |"), "{text}");
    }
}
