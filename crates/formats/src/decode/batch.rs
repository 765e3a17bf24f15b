//! Collects rows into batches and decides what becomes of records that are not rows.
//!
//! Where a batch ends depends only on the records since the former batch's end: a batch is
//! full at `max_rows` rows or when its records span [`MAX_BATCH_BYTES`]. So a decoder resumed
//! at the end of a batch cuts the rest of the stream the same way, whatever the chunks.

use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::SchemaRef;

use crate::error::{BadRecord, FormatError};

use super::column::Column;
use super::value::ValueError;
use super::{DeadLetter, DecodedBatch, DecodedRows, DecoderConfig, OnError, Position};

/// Bytes of input after which a batch ends though it has fewer than `max_rows` rows. Bounds
/// the memory of a batch, and keeps its strings within Arrow's 32-bit offsets.
pub(crate) const MAX_BATCH_BYTES: u64 = 64 << 20;

/// The batch being built.
pub(crate) struct BatchBuilder {
    schema: SchemaRef,
    pub(crate) columns: Vec<Column>,
    rows: usize,
    max_rows: usize,
    on_error: OnError,
    /// Where the former batch ended.
    batch_start: Position,
    /// Just after the last accepted row.
    end: Position,
    /// Just after the last record, row or not.
    consumed: Position,
    /// Line of the first row of the batch being built.
    first_line: u64,
    failed: bool,
}

/// A record as it lies in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Without its line end.
    pub(crate) bytes: &'a [u8],
    /// Of its first byte.
    pub(crate) start: Position,
    /// Of the byte after its line end.
    pub(crate) end: Position,
}

impl BatchBuilder {
    pub(crate) fn new(
        schema: SchemaRef,
        columns: Vec<Column>,
        config: &DecoderConfig,
    ) -> BatchBuilder {
        BatchBuilder {
            schema,
            columns,
            rows: 0,
            max_rows: config.max_rows.max(1),
            on_error: config.on_error,
            batch_start: config.start,
            end: config.start,
            consumed: config.start,
            first_line: 0,
            failed: false,
        }
    }

    /// Rows in the batch being built.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Just after the last record that was accepted or rejected.
    pub(crate) fn consumed(&self) -> Position {
        self.consumed
    }

    /// Refuses use after an error.
    pub(crate) fn check_usable(&self) -> Result<(), FormatError> {
        if self.failed {
            return Err(FormatError::Stopped);
        }
        Ok(())
    }

    /// Takes note that the decoder cannot go on.
    pub(crate) fn fail(&mut self, error: FormatError) -> FormatError {
        self.failed = true;
        error
    }

    /// Every column has got its value of this record: it is a row.
    pub(crate) fn accept(
        &mut self,
        record: Record<'_>,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError> {
        if self.rows == 0 {
            self.first_line = record.start.line + 1;
        }
        self.rows += 1;
        self.end = record.end;
        self.consumed = record.end;
        out.counters.rows += 1;
        if self.rows >= self.max_rows
            || self.end.offset.saturating_sub(self.batch_start.offset) >= MAX_BATCH_BYTES
        {
            self.emit(out)?;
        }
        Ok(())
    }

    /// The record is not a row: takes back what it put into the columns, and fails, skips or
    /// hands it out.
    pub(crate) fn reject(
        &mut self,
        record: Record<'_>,
        error: ValueError,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError> {
        self.consumed = record.end;
        let rows = self.rows;
        for column in &mut self.columns {
            column.truncate(rows);
        }
        let bad = BadRecord {
            line: record.start.line + 1,
            offset: record.start.offset,
            field: error.field(),
            column: error.column,
            found: error.found,
            expected: error.expected,
        };
        out.counters.bad_records += 1;
        match self.on_error {
            OnError::Fail => Err(self.fail(FormatError::BadRecord(Box::new(bad)))),
            OnError::Skip => {
                out.last_skipped = Some(bad);
                Ok(())
            }
            OnError::DeadLetter => {
                out.dead_letters.push(DeadLetter {
                    start: record.start,
                    record: record.bytes.to_vec(),
                    error: bad,
                });
                Ok(())
            }
        }
    }

    /// Hands the rows so far out as a batch, if there are any.
    pub(crate) fn emit(&mut self, out: &mut DecodedRows) -> Result<(), FormatError> {
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self
            .columns
            .iter_mut()
            .map(Column::finish)
            .collect::<Result<Vec<_>, _>>();
        let batch = arrays.and_then(|arrays| {
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
            RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options).map_err(
                |source| FormatError::Arrow {
                    context: "cannot build a batch from decoded columns",
                    source,
                },
            )
        });
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return Err(self.fail(error)),
        };
        out.batches.push(DecodedBatch {
            batch,
            start: self.batch_start,
            first_line: self.first_line,
            end: self.end,
        });
        self.rows = 0;
        self.batch_start = self.end;
        Ok(())
    }
}
