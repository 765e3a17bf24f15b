//! The rows of one file, whatever its format, with positions to resume from.

use std::{fmt, fs::File, path::Path};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millrace_formats::ParquetReader;
use serde::{Deserialize, Serialize};

use crate::source::with_causes;

/// Where reading goes on; what a snapshot keeps of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct FilePosition {
    /// Bytes of the decompressed file that are done (record formats).
    pub(super) offset: u64,
    /// Lines that are done (record formats).
    pub(super) line: u64,
    /// Rows of the file that are done (columnar formats).
    pub(super) file_row: u64,
    /// Rows emitted.
    pub(super) rows: u64,
    /// The CSV header record, once read.
    pub(super) header: Option<String>,
}

impl FilePosition {
    /// `null` is the beginning.
    pub(super) fn decode(json: &serde_json::Value) -> Result<Self, serde_json::Error> {
        if json.is_null() {
            Ok(FilePosition::default())
        } else {
            FilePosition::deserialize(json)
        }
    }

    pub(super) fn encode(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }
}

/// A malformed record of a file.
pub(super) struct Letter {
    /// Counted from 1.
    pub(super) line: u64,
    pub(super) reason: String,
    pub(super) raw: Vec<u8>,
}

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Line(u64),
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// What one read of a file yields.
pub(super) struct FileRead {
    /// At least one row; `None` at the end, and when only malformed records were read.
    pub(super) rows: Option<RecordBatch>,
    /// Where the first of them is in the file.
    pub(super) first: Place,
    /// After these rows and letters (its `rows` is not set).
    pub(super) position: FilePosition,
    pub(super) at_end: bool,
    pub(super) bad_records: u64,
    pub(super) letters: Vec<Letter>,
}

/// Reads a file batch by batch. Errors say what is wrong within the file.
pub(super) trait RowFile: Send {
    fn next(&mut self) -> Result<FileRead, String>;
}

/// A Parquet file.
pub(super) struct ColumnarFile {
    reader: ParquetReader,
    row: u64,
}

impl ColumnarFile {
    pub(super) fn open(
        path: &Path,
        schema: SchemaRef,
        from: &FilePosition,
        max_rows: usize,
    ) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let reader = ParquetReader::open(file, schema, from.file_row, max_rows)
            .map_err(|error| with_causes(&error))?;
        Ok(ColumnarFile {
            reader,
            row: from.file_row,
        })
    }
}

impl RowFile for ColumnarFile {
    fn next(&mut self) -> Result<FileRead, String> {
        let batch = match self.reader.next() {
            None => None,
            Some(Ok(batch)) => Some(batch),
            Some(Err(error)) => {
                return Err(format!("after row {}: {}", self.row, with_causes(&error)));
            }
        };
        let first = Place::Row(self.row + 1);
        if let Some(batch) = &batch {
            self.row = batch.end_row;
        }
        Ok(FileRead {
            at_end: batch.is_none(),
            first,
            rows: batch.map(|batch| batch.batch),
            position: FilePosition {
                file_row: self.row,
                ..FilePosition::default()
            },
            bad_records: 0,
            letters: Vec::new(),
        })
    }
}
