//! Rows to records: the bytes of key and value, and what is to become of each kind of change.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, TimeUnit, TimestampMillisecondType},
};
use millrace_dataflow::{RowKind, SinkNode};
use millrace_formats::{EncodedMessages, MessageEncoder};
use millrace_sql::METADATA_KEY;

use super::{
    epoch::Record,
    formats::{KeyColumns, RecordFormats, Side},
    metadata::is_headers,
};
use crate::source::{ConnectorError, with_causes};

/// Metadata that a table's rows can bring along.
pub(crate) const WRITABLE_METADATA: [&str; 2] = ["timestamp", "headers"];

/// What changes become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changes {
    /// Every row is a record; the format says what kinds it can express.
    Appended,
    /// A record is the newest value of its key, or a tombstone.
    Upserted,
}

/// How rows of a table become records.
#[derive(Debug, Clone)]
pub(super) struct WriteLayout {
    formats: RecordFormats,
    /// Columns of the table that are no part of key or value.
    timestamp: Option<usize>,
    headers: Option<usize>,
    /// Columns that are.
    stored: Vec<usize>,
    changes: Changes,
}

impl WriteLayout {
    pub(super) fn append(node: &SinkNode) -> Result<Self, ConnectorError> {
        Self::new(node, KeyColumns::Option, Changes::Appended)
    }

    pub(super) fn upsert(node: &SinkNode) -> Result<Self, ConnectorError> {
        let fault = |text: &str| ConnectorError(format!("table `{}`: {text}", node.table));
        if node.primary_key.is_empty() {
            return Err(fault(
                "connector 'upsert-kafka' needs a primary key, which becomes the key of the records: declare PRIMARY KEY (…) NOT ENFORCED",
            ));
        }
        if node.options.contains_key("key.fields") {
            return Err(fault(
                "'key.fields' is not for 'upsert-kafka': its key is the primary key",
            ));
        }
        let layout = Self::new(
            node,
            KeyColumns::Primary(&node.primary_key),
            Changes::Upserted,
        )?;
        if layout.formats.value.spec.accepts_changelog() {
            return Err(fault(
                "format 'debezium-json' says itself what changes, which 'upsert-kafka' does by key: use 'json', or connector 'kafka'",
            ));
        }
        Ok(layout)
    }

    fn new(node: &SinkNode, key: KeyColumns<'_>, changes: Changes) -> Result<Self, ConnectorError> {
        let fault = |text: String| ConnectorError(format!("table `{}`: {text}", node.table));
        let (mut timestamp, mut headers, mut stored) = (None, None, Vec::new());
        for (index, field) in node.schema.fields().iter().enumerate() {
            match field.metadata().get(METADATA_KEY).map(String::as_str) {
                None => stored.push(index),
                Some("timestamp") if matches!(field.data_type(), DataType::Timestamp(..)) => {
                    timestamp = Some(index);
                }
                Some("headers") if is_headers(field.data_type()) => headers = Some(index),
                Some(other) => {
                    return Err(fault(format!(
                        "metadata column `{}` ('{other}') cannot be written as this type: 'timestamp' is TIMESTAMP_LTZ(3), 'headers' is MAP<STRING, BYTES>, and the rest is VIRTUAL",
                        field.name()
                    )));
                }
            }
        }
        let schema = node
            .schema
            .project(&stored)
            .map_err(|error| fault(error.to_string()))?;
        let place = |column: &usize| stored.iter().position(|at| at == column);
        let primary: Vec<usize>;
        let key = match key {
            KeyColumns::Option => KeyColumns::Option,
            KeyColumns::Primary(columns) => {
                primary = columns.iter().filter_map(place).collect();
                if primary.len() < columns.len() {
                    return Err(fault("the primary key names a metadata column".to_owned()));
                }
                KeyColumns::Primary(&primary)
            }
        };
        let formats = RecordFormats::new(&node.table, &node.options, &schema.into(), key)?;
        let layout = WriteLayout {
            formats,
            timestamp,
            headers,
            stored,
            changes,
        };
        layout.encoders().map_err(fault)?;
        Ok(layout)
    }

    /// Whether rows other than insertions can be written.
    pub(super) fn takes_updates(&self) -> bool {
        self.changes == Changes::Upserted || self.formats.value.spec.accepts_changelog()
    }

    pub(super) fn encoders(&self) -> Result<RecordEncoder, String> {
        let encoder = |side: &Side| side.spec.encoder().map_err(|error| with_causes(&error));
        Ok(RecordEncoder {
            key: self.formats.key.as_ref().map(encoder).transpose()?,
            value: encoder(&self.formats.value)?,
            keys: EncodedMessages::default(),
            values: EncodedMessages::default(),
            layout: self.clone(),
        })
    }
}

/// Turns batches into records.
pub(super) struct RecordEncoder {
    layout: WriteLayout,
    key: Option<MessageEncoder>,
    value: MessageEncoder,
    keys: EncodedMessages,
    values: EncodedMessages,
}

impl RecordEncoder {
    /// Hands over the record of every row that has one, in order.
    pub(super) fn for_each(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
        mut each: impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let text = |error: arrow::error::ArrowError| error.to_string();
        let stored = rows.project(&self.layout.stored).map_err(text)?;
        let formats = &self.layout.formats;
        if let (Some(encoder), Some(side)) = (&mut self.key, &formats.key) {
            let columns = stored.project(&side.columns).map_err(text)?;
            encoder
                .encode(&columns, None, &mut self.keys)
                .map_err(|error| format!("key: {}", with_causes(&error)))?;
        }
        let upsert = self.layout.changes == Changes::Upserted;
        let columns = stored.project(&formats.value.columns).map_err(text)?;
        self.value
            .encode(&columns, kinds.filter(|_| !upsert), &mut self.values)
            .map_err(|error| with_causes(&error))?;
        if self.values.len() != rows.num_rows() {
            return Err(format!(
                "internal fault: {} rows became {} records: please report it",
                rows.num_rows(),
                self.values.len()
            ));
        }
        let timestamps = match self.layout.timestamp {
            Some(column) => Some(millis(rows, column).map_err(text)?),
            None => None,
        };
        for row in 0..rows.num_rows() {
            let value = match kinds.map(|kinds| kinds[row]) {
                // The new value of the key follows, or has gone before.
                Some(RowKind::UpdateBefore) if upsert => continue,
                Some(RowKind::Delete) if upsert => None,
                _ => self.values.get(row),
            };
            let headers = self.layout.headers.map(|column| headers(rows, column, row));
            let timestamp = timestamps.as_ref().and_then(|array| {
                let times = array.as_primitive::<TimestampMillisecondType>();
                times.is_valid(row).then(|| times.value(row))
            });
            each(Record {
                key: self.key.as_ref().and_then(|_| self.keys.get(row)),
                value,
                timestamp,
                headers: headers.as_deref().unwrap_or_default(),
            })?;
        }
        Ok(())
    }
}

fn millis(
    rows: &RecordBatch,
    column: usize,
) -> Result<arrow::array::ArrayRef, arrow::error::ArrowError> {
    let array = rows.column(column);
    let zone = match array.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    cast(array, &DataType::Timestamp(TimeUnit::Millisecond, zone))
}

fn headers(rows: &RecordBatch, column: usize, row: usize) -> Vec<(String, Option<Vec<u8>>)> {
    let maps = rows.column(column).as_map();
    if maps.is_null(row) {
        return Vec::new();
    }
    let entries = maps.value(row);
    let keys = entries.column(0).as_string::<i32>();
    let values = entries.column(1).as_binary::<i32>();
    (0..entries.len())
        .map(|at| {
            let value = values.is_valid(at).then(|| values.value(at).to_vec());
            (keys.value(at).to_owned(), value)
        })
        .collect()
}
