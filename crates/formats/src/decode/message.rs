//! Messages to rows: every message is one record, whatever bytes it holds.

use std::fmt;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};

use crate::error::{FormatError, quote_bytes};

use super::column::{Column, Values};
use super::value::{ValueError, ValueResult, append_checked_null};
use super::{Layout, Members};

/// Why a message is not a row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage {
    /// Dotted path of the field; `None` when the message as a whole is wrong.
    pub field: Option<String>,
    /// Byte within the message, counted from 1, where reading stopped; `None` when unknown.
    pub column: Option<u64>,
    /// What the message holds, shortened.
    pub found: String,
    /// What the table's schema or the format's grammar asks for.
    pub expected: String,
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(column) = self.column {
            write!(f, "byte {column}, ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "field `{field}`: ")?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

/// Order of the bytes of numbers in format `raw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endianness {
    Big,
    Little,
}

/// How the bytes of a message are read.
pub(crate) enum MessageParser {
    Json(Members),
    Csv(Layout),
    Raw(Endianness),
}

/// Collects messages into batches of one schema.
pub struct MessageDecoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    parser: MessageParser,
    max_bytes: usize,
}

impl MessageDecoder {
    pub(crate) fn new(
        schema: SchemaRef,
        columns: Vec<Column>,
        parser: MessageParser,
        max_bytes: usize,
    ) -> MessageDecoder {
        MessageDecoder {
            schema,
            columns,
            rows: 0,
            parser,
            max_bytes,
        }
    }

    /// Rows since the last [`finish`](Self::finish).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends the message as a row, or leaves everything as it was and says what is wrong with it.
    /// `None` is a message without content, which only `raw` takes: as NULL.
    ///
    /// # Errors
    /// When the message is not a row of the table.
    pub fn decode(&mut self, message: Option<&[u8]>) -> Result<(), BadMessage> {
        match self.append(message) {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(error) => {
                self.take_back();
                Err(BadMessage {
                    field: error.field(),
                    column: error.column,
                    found: error.found,
                    expected: error.expected,
                })
            }
        }
    }

    /// Takes the last row back: another part of the same message was malformed.
    pub fn undo(&mut self) {
        self.rows = self.rows.saturating_sub(1);
        self.take_back();
    }

    fn take_back(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
    }

    fn append(&mut self, message: Option<&[u8]>) -> ValueResult<()> {
        let Some(message) = message else {
            return match (&self.parser, self.columns.as_mut_slice()) {
                (MessageParser::Raw(_), [column]) => append_checked_null(column, "no content"),
                _ => Err(ValueError::new("content", "a message without any")),
            };
        };
        if message.len() > self.max_bytes {
            let head = quote_bytes(message);
            return Err(ValueError::new(
                format!(
                    "a message of at most {} bytes ('max-record-bytes' of the format)",
                    self.max_bytes
                ),
                format!("one of {} that starts with {head}", message.len()),
            ));
        }
        match &mut self.parser {
            MessageParser::Json(members) => {
                members.read(utf8(message)?, &mut self.columns, self.rows)
            }
            MessageParser::Csv(layout) => {
                let record = message.strip_suffix(b"\n").unwrap_or(message);
                let record = record.strip_suffix(b"\r").unwrap_or(record);
                layout.read(record, &mut self.columns)
            }
            MessageParser::Raw(endianness) => {
                for column in &mut self.columns {
                    append_raw(column, message, *endianness)?;
                }
                Ok(())
            }
        }
    }

    /// The rows since the last call as a batch, maybe an empty one.
    ///
    /// # Errors
    /// When Arrow refuses the columns.
    pub fn finish(&mut self) -> Result<RecordBatch, FormatError> {
        let rows = std::mem::take(&mut self.rows);
        let arrays = self
            .columns
            .iter_mut()
            .map(Column::finish)
            .collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(|source| {
            FormatError::Arrow {
                context: "cannot build a batch from decoded columns",
                source,
            }
        })
    }
}

fn utf8(message: &[u8]) -> ValueResult<&str> {
    std::str::from_utf8(message).map_err(|error| {
        let index = error.valid_up_to();
        ValueError::new("UTF-8", quote_bytes(&message[index..])).at(index)
    })
}

/// Whether a value of this type can be the whole of a message.
pub(crate) fn is_raw_type(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::Binary
            | DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
    )
}

macro_rules! number {
    ($values:expr, $type:ty, $message:expr, $endianness:expr) => {{
        const WIDTH: usize = size_of::<$type>();
        let Ok(bytes) = <[u8; WIDTH]>::try_from($message) else {
            return Err(ValueError::new(
                format!("{WIDTH} bytes"),
                format!("{} in {}", $message.len(), quote_bytes($message)),
            ));
        };
        $values.push(match $endianness {
            Endianness::Big => <$type>::from_be_bytes(bytes),
            Endianness::Little => <$type>::from_le_bytes(bytes),
        });
    }};
}

fn append_raw(column: &mut Column, message: &[u8], endianness: Endianness) -> ValueResult<()> {
    match &mut column.values {
        Values::Utf8(values) => {
            values.bytes.extend_from_slice(utf8(message)?.as_bytes());
            values.end_value();
        }
        Values::Binary(values) => {
            values.bytes.extend_from_slice(message);
            values.end_value();
        }
        Values::Boolean(values) => match message {
            [byte] => values.append(*byte != 0),
            _ => return Err(ValueError::new("1 byte", quote_bytes(message))),
        },
        Values::Int8(values) => number!(values, i8, message, endianness),
        Values::Int16(values) => number!(values, i16, message, endianness),
        Values::Int32(values) => number!(values, i32, message, endianness),
        Values::Int64(values) => number!(values, i64, message, endianness),
        Values::Float32(values) => number!(values, f32, message, endianness),
        Values::Float64(values) => number!(values, f64, message, endianness),
        // The format's specification admits no other type.
        _ => {
            column.append_null();
            return Ok(());
        }
    }
    column.end_value();
    Ok(())
}
