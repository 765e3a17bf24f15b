//! The `raw` format: every line is the value of the table's only column.
//!
//! An empty line is an empty string. A STRING column needs UTF-8; BYTES take any line.

use arrow::datatypes::SchemaRef;

use crate::error::{FormatError, quote_bytes};

use super::batch::BatchBuilder;
use super::column::{Column, Values};
use super::lines::{Line, Lines};
use super::value::ValueError;
use super::{DecodedRows, Decoder, DecoderConfig, Position};

/// Reads lines into a table of one STRING or BYTES column.
pub(crate) struct RawDecoder {
    lines: Lines,
    batch: BatchBuilder,
}

impl RawDecoder {
    /// `column` is the only one of `schema`.
    pub(crate) fn new(schema: SchemaRef, column: Column, config: &DecoderConfig) -> RawDecoder {
        RawDecoder {
            lines: Lines::new(config.start, config.max_record_bytes),
            batch: BatchBuilder::new(schema, vec![column], config),
        }
    }
}

impl Decoder for RawDecoder {
    fn decode(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError> {
        self.batch.check_usable()?;
        let RawDecoder { lines, batch } = self;
        lines.feed(chunk, at_end, |line| {
            let record = match line {
                Line::Whole(record) => record,
                Line::TooLong(record) => {
                    return batch.reject(record, super::too_long(record), out);
                }
            };
            for column in &mut batch.columns {
                match &mut column.values {
                    Values::Utf8(values) => {
                        if let Err(error) = std::str::from_utf8(record.bytes) {
                            let index = error.valid_up_to();
                            let found = quote_bytes(&record.bytes[index..]);
                            let error = ValueError::new("UTF-8", found)
                                .at(index)
                                .in_field(&column.name);
                            return batch.reject(record, *error, out);
                        }
                        values.bytes.extend_from_slice(record.bytes);
                        values.end_value();
                        column.end_value();
                    }
                    Values::Binary(values) => {
                        values.bytes.extend_from_slice(record.bytes);
                        values.end_value();
                        column.end_value();
                    }
                    // The format's specification admits no other type.
                    _ => column.append_null(),
                }
            }
            batch.accept(record, out)
        })?;
        if at_end {
            self.batch.emit(out)?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut DecodedRows) -> Result<(), FormatError> {
        self.batch.check_usable()?;
        self.batch.emit(out)
    }

    fn pending_rows(&self) -> usize {
        self.batch.rows()
    }

    fn consumed(&self) -> Position {
        self.batch.consumed()
    }
}
