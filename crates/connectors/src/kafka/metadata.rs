//! What a record has beside key and value, as columns.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryBuilder, Int32Array, Int64Array, MapArray, StringArray, StringBuilder,
        StructArray, TimestampMillisecondArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::cast,
    datatypes::{DataType, Field},
};
use millrace_formats::sql_type_name;
use rdkafka::{
    Message, Timestamp,
    message::{BorrowedMessage, Headers},
};

/// Metadata that records have, under Flink's names, with their types.
pub(super) const METADATA: [(&str, &str); 6] = [
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
    ("timestamp", "TIMESTAMP_LTZ(3)"),
    ("timestamp-type", "STRING"),
    ("headers", "MAP<STRING, BYTES>"),
];

/// Refuses metadata that records do not have, and types that would change their values.
pub(super) fn check(connector: &str, metadata: &[(String, Field)]) -> Result<(), String> {
    for (key, field) in metadata {
        let Some((_, sql_type)) = METADATA.iter().find(|(name, _)| name == key) else {
            let all = METADATA.map(|(name, _)| format!("'{name}'")).join(", ");
            return Err(format!(
                "connector '{connector}' has no metadata '{key}'; it has {all}"
            ));
        };
        let fits = match key.as_str() {
            "partition" => matches!(field.data_type(), DataType::Int32 | DataType::Int64),
            "offset" => matches!(field.data_type(), DataType::Int64),
            "timestamp" => matches!(field.data_type(), DataType::Timestamp(..)),
            "headers" => is_headers(field.data_type()),
            _ => matches!(field.data_type(), DataType::Utf8),
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

/// Whether this is `MAP<STRING, BYTES>`.
pub(super) fn is_headers(data_type: &DataType) -> bool {
    let DataType::Map(entries, _) = data_type else {
        return false;
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return false;
    };
    let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
    types == [&DataType::Utf8, &DataType::Binary]
}

/// Collects one metadata column.
pub(super) struct MetadataColumn {
    data_type: DataType,
    values: Values,
}

enum Values {
    Topic(Vec<Arc<str>>),
    Partition(Vec<i32>),
    Offset(Vec<i64>),
    Timestamp(Vec<Option<i64>>),
    TimestampType(Vec<&'static str>),
    Headers(Box<HeaderColumn>),
}

#[derive(Default)]
struct HeaderColumn {
    /// Headers of each record, and whether it has any.
    lengths: Vec<usize>,
    present: Vec<bool>,
    keys: StringBuilder,
    values: BinaryBuilder,
}

impl MetadataColumn {
    /// `key` has been checked.
    pub(super) fn new(key: &str, field: &Field) -> Self {
        let values = match key {
            "topic" => Values::Topic(Vec::new()),
            "partition" => Values::Partition(Vec::new()),
            "offset" => Values::Offset(Vec::new()),
            "timestamp" => Values::Timestamp(Vec::new()),
            "timestamp-type" => Values::TimestampType(Vec::new()),
            _ => Values::Headers(Box::default()),
        };
        MetadataColumn {
            data_type: field.data_type().clone(),
            values,
        }
    }

    pub(super) fn push(&mut self, topic: &Arc<str>, message: &BorrowedMessage<'_>) {
        match &mut self.values {
            Values::Topic(values) => values.push(topic.clone()),
            Values::Partition(values) => values.push(message.partition()),
            Values::Offset(values) => values.push(message.offset()),
            Values::Timestamp(values) => values.push(message.timestamp().to_millis()),
            Values::TimestampType(values) => values.push(match message.timestamp() {
                Timestamp::NotAvailable => "NoTimestampType",
                Timestamp::CreateTime(_) => "CreateTime",
                Timestamp::LogAppendTime(_) => "LogAppendTime",
            }),
            Values::Headers(column) => {
                let headers = message.headers();
                column.present.push(headers.is_some());
                column.lengths.push(headers.map_or(0, Headers::count));
                for header in headers.into_iter().flat_map(Headers::iter) {
                    column.keys.append_value(header.key);
                    column.values.append_option(header.value);
                }
            }
        }
    }

    /// What was pushed since the last call.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, String> {
        let array: ArrayRef = match &mut self.values {
            Values::Topic(values) => {
                let array = StringArray::from_iter_values(values.iter());
                values.clear();
                Arc::new(array)
            }
            Values::Partition(values) => Arc::new(Int32Array::from(std::mem::take(values))),
            Values::Offset(values) => Arc::new(Int64Array::from(std::mem::take(values))),
            Values::Timestamp(values) => {
                let array = TimestampMillisecondArray::from(std::mem::take(values));
                // In UTC with or without a zone: times without one are taken to be so everywhere.
                match &self.data_type {
                    DataType::Timestamp(_, Some(_)) => Arc::new(array.with_timezone("UTC")),
                    _ => Arc::new(array),
                }
            }
            Values::TimestampType(values) => {
                let array = StringArray::from_iter_values(values.iter());
                values.clear();
                Arc::new(array)
            }
            Values::Headers(column) => return column.finish(&self.data_type),
        };
        if *array.data_type() == self.data_type {
            return Ok(array);
        }
        cast(&array, &self.data_type).map_err(|error| error.to_string())
    }
}

impl HeaderColumn {
    fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef, String> {
        let column = std::mem::take(self);
        let HeaderColumn {
            lengths,
            present,
            mut keys,
            mut values,
        } = column;
        let (DataType::Map(entries, _), offsets) = (data_type, OffsetBuffer::from_lengths(lengths))
        else {
            return Err("headers are not MAP<STRING, BYTES>".to_owned());
        };
        let DataType::Struct(fields) = entries.data_type() else {
            return Err("headers are not MAP<STRING, BYTES>".to_owned());
        };
        let pairs = StructArray::try_new(
            fields.clone(),
            vec![Arc::new(keys.finish()), Arc::new(values.finish())],
            None,
        )
        .map_err(|error| error.to_string())?;
        let nulls = NullBuffer::from(present);
        MapArray::try_new(entries.clone(), offsets, pairs, Some(nulls), false)
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|error| error.to_string())
    }
}
