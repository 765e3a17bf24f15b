//! Rows to messages: every row is one message.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::decode::Endianness;
use crate::error::FormatError;
use crate::sql_type::sql_type_name;

use super::{Encoder, Typed, Values, check_insertions, check_schema};

/// The messages of a batch, one after the other.
#[derive(Debug, Default)]
pub struct EncodedMessages {
    bytes: Vec<u8>,
    /// Where each ends, and whether it has content at all.
    ends: Vec<(usize, bool)>,
}

impl EncodedMessages {
    /// The message of a row of the batch; `None` for one without content.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let (end, has_content) = *self.ends.get(row)?;
        let start = match row {
            0 => 0,
            _ => self.ends.get(row - 1)?.0,
        };
        has_content.then(|| &self.bytes[start..end])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end_message(&mut self, has_content: bool) {
        self.ends.push((self.bytes.len(), has_content));
    }
}

/// Turns rows into messages.
pub struct MessageEncoder {
    kind: Kind,
    line: Vec<u8>,
}

enum Kind {
    /// Writes no line end but the one after each row.
    Lines(Box<dyn Encoder>),
    /// Writes a line end after each row, and perhaps some within.
    Rows(Box<dyn Encoder>),
    Raw(SchemaRef, Endianness),
}

impl MessageEncoder {
    pub(crate) fn lines(encoder: Box<dyn Encoder>) -> MessageEncoder {
        Self::new(Kind::Lines(encoder))
    }

    pub(crate) fn rows(encoder: Box<dyn Encoder>) -> MessageEncoder {
        Self::new(Kind::Rows(encoder))
    }

    pub(crate) fn raw(schema: SchemaRef, endianness: Endianness) -> MessageEncoder {
        Self::new(Kind::Raw(schema, endianness))
    }

    fn new(kind: Kind) -> MessageEncoder {
        MessageEncoder {
            kind,
            line: Vec::new(),
        }
    }

    /// Replaces what is in `out` by the messages of `batch`.
    ///
    /// # Errors
    /// As those of [`Encoder::encode`].
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut EncodedMessages,
    ) -> Result<(), FormatError> {
        out.clear();
        match &mut self.kind {
            Kind::Lines(encoder) => {
                self.line.clear();
                encoder.encode(batch, kinds, &mut self.line)?;
                for line in self.line.split_inclusive(|byte| *byte == b'\n') {
                    out.bytes
                        .extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                    out.end_message(true);
                }
            }
            Kind::Rows(encoder) => {
                for row in 0..batch.num_rows() {
                    self.line.clear();
                    let kind = kinds.map(|kinds| &kinds[row..=row]);
                    encoder.encode(&batch.slice(row, 1), kind, &mut self.line)?;
                    let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                    out.bytes.extend_from_slice(line);
                    out.end_message(true);
                }
            }
            Kind::Raw(schema, endianness) => {
                check_schema(schema, batch)?;
                check_insertions("raw", batch, kinds)?;
                for (array, field) in batch.columns().iter().zip(schema.fields()) {
                    let column =
                        Typed::new(array).map_err(|data_type| FormatError::UnsupportedColumn {
                            format: "raw",
                            column: field.name().clone(),
                            sql_type: sql_type_name(&data_type),
                            hint: "CAST it to STRING",
                        })?;
                    for row in 0..array.len() {
                        let has_content = !column.is_null(row);
                        if has_content {
                            write_raw(&column, row, *endianness, &mut out.bytes);
                        }
                        out.end_message(has_content);
                    }
                }
            }
        }
        Ok(())
    }
}

fn write_raw(column: &Typed<'_>, row: usize, endianness: Endianness, out: &mut Vec<u8>) {
    let big = endianness == Endianness::Big;
    macro_rules! number {
        ($values:expr) => {{
            let value = $values[row];
            if big {
                out.extend_from_slice(&value.to_be_bytes());
            } else {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }};
    }
    match &column.values {
        Values::Boolean(values) => out.push(u8::from(values.value(row))),
        Values::Int8(values) => number!(values),
        Values::Int16(values) => number!(values),
        Values::Int32(values) => number!(values),
        Values::Int64(values) => number!(values),
        Values::Float32(values) => number!(values),
        Values::Float64(values) => number!(values),
        _ => {
            if let Some(text) = column.string(row) {
                out.extend_from_slice(text.as_bytes());
            } else {
                out.extend_from_slice(column.binary(row).unwrap_or(&[]));
            }
        }
    }
}
