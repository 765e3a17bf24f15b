//! Bytes to rows: the [`Decoder`] trait and what its implementations share.
//!
//! A decoder is given the stream from some [`Position`] on, in chunks of any size, and yields
//! batches. Every batch says where it ends; a new decoder started there yields exactly the
//! rows that follow, in the same batches (unless [`Decoder::flush`] cut one short). Sources
//! persist that position in their checkpoints.

mod batch;
mod column;
mod csv;
mod json;
mod lines;
mod message;
mod raw;
mod value;

#[cfg(test)]
mod tests;

use arrow::array::RecordBatch;

use crate::error::{BadRecord, FormatError};

pub(crate) use column::Column;
pub(crate) use csv::{CsvDecoder, CsvDialect, Layout};
pub(crate) use json::scan::plain_until;
pub(crate) use json::{JsonDecoder, Members};
pub use message::{BadMessage, MessageDecoder};
pub(crate) use message::{Endianness, MessageParser, is_raw_type};
pub(crate) use raw::RawDecoder;

/// Rows of a batch unless the caller says otherwise.
pub const DEFAULT_MAX_ROWS: usize = 8192;

/// Bytes of a record unless the table says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 16 << 20;

/// Highest limit for the bytes of a record.
pub const MAX_RECORD_LIMIT: usize = 1 << 30;

/// A place between two records of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// Bytes before it, after decompression.
    pub offset: u64,
    /// Lines that end before it; the record that starts here is on line `line + 1`.
    pub line: u64,
}

impl Position {
    pub(crate) fn after(self, bytes: u64, lines: u64) -> Position {
        Position {
            offset: self.offset + bytes,
            line: self.line + lines,
        }
    }
}

/// What to do with a record that is not a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Decoding ends with [`FormatError::BadRecord`].
    #[default]
    Fail,
    /// The record is counted and left out.
    Skip,
    /// The record is counted, left out, and handed to the caller as [`DeadLetter`].
    DeadLetter,
}

/// Where and how a decoder starts.
#[derive(Debug, Clone)]
pub struct DecoderConfig {
    /// Position of the first byte that will be given to the decoder.
    pub start: Position,
    /// For CSV with a header, when `start` is not the beginning: the file's first record, as
    /// [`Decoder::header`] gave it (or as read from the file).
    pub header: Option<Vec<u8>>,
    /// Most rows of a batch; at least 1.
    pub max_rows: usize,
    /// What becomes of malformed records.
    pub on_error: OnError,
    /// Longest record that is read; longer ones count as malformed.
    pub max_record_bytes: usize,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        DecoderConfig {
            start: Position::default(),
            header: None,
            max_rows: DEFAULT_MAX_ROWS,
            on_error: OnError::default(),
            max_record_bytes: DEFAULT_MAX_RECORD_BYTES,
        }
    }
}

/// Rows that follow each other in the stream.
#[derive(Debug, Clone)]
pub struct DecodedBatch {
    /// At least one row, in the table's schema.
    pub batch: RecordBatch,
    /// Where the former batch ended; malformed records may lie between here and the rows.
    pub start: Position,
    /// Line of the first row, counted from 1.
    pub first_line: u64,
    /// Just after the last row: where to resume once these rows are processed.
    pub end: Position,
}

/// A malformed record under [`OnError::DeadLetter`].
///
/// Resuming from a batch's end yields every dead letter that starts at or after it again, so
/// a caller that wants each once sends those before `end` on together with the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where the record starts.
    pub start: Position,
    /// The record without its line end; cut at the limit if it was too long.
    pub record: Vec<u8>,
    /// What is wrong with it.
    pub error: BadRecord,
}

/// What a decoder has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeCounters {
    /// Records that became rows.
    pub rows: u64,
    /// Records that did not, whatever was done with them.
    pub bad_records: u64,
}

/// Where a decoder puts what it reads. The caller takes batches and dead letters out between
/// calls; the counters add up.
#[derive(Debug, Default)]
pub struct DecodedRows {
    /// Batches in stream order.
    pub batches: Vec<DecodedBatch>,
    /// Malformed records in stream order, under [`OnError::DeadLetter`].
    pub dead_letters: Vec<DeadLetter>,
    /// Sums over all calls.
    pub counters: DecodeCounters,
    /// The last record left out under [`OnError::Skip`], as a sample for logs.
    pub last_skipped: Option<BadRecord>,
}

/// Turns a stream of bytes into batches of one schema.
pub trait Decoder: Send {
    /// Reads `chunk`, which follows what was given before; `at_end` says that nothing
    /// follows it. Full batches go to `out`; with `at_end` also the last one.
    ///
    /// # Errors
    /// [`FormatError::BadRecord`] under [`OnError::Fail`], [`FormatError::Header`] for a CSV
    /// header that does not fit. The decoder cannot be used afterwards; batches already in
    /// `out` are good.
    fn decode(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError>;

    /// Puts the rows read so far into a batch though it is not full, as a source does
    /// before a checkpoint or when no more input is at hand.
    ///
    /// # Errors
    /// [`FormatError::Stopped`] after an earlier error.
    fn flush(&mut self, out: &mut DecodedRows) -> Result<(), FormatError>;

    /// Rows read that are in no batch yet.
    fn pending_rows(&self) -> usize;

    /// After the last record that became a row or was malformed: where to resume once all
    /// batches and dead letters are processed. Rows that are in no batch yet lie before it, so
    /// [`Decoder::flush`] first.
    fn consumed(&self) -> Position;

    /// The header record of a CSV file once it has been read, to be kept with the position
    /// and given to [`DecoderConfig::header`]. `None` for formats without.
    fn header(&self) -> Option<&[u8]> {
        None
    }
}

/// The error for a record beyond the limit, of which `record` holds the head.
fn too_long(record: batch::Record<'_>) -> value::ValueError {
    let limit = record.bytes.len();
    let head = crate::error::quote_bytes(record.bytes);
    *value::ValueError::new(
        format!("a record of at most {limit} bytes ('max-record-bytes' of the format)"),
        format!("a longer one that starts with {head}"),
    )
}
