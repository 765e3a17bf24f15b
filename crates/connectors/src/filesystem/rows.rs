//! The rows of one file, whatever its format, with positions to resume from.

use std::{
    collections::VecDeque,
    fs::{File, Metadata},
    io::{self, BufReader, Read},
    path::Path,
    sync::Arc,
    time::UNIX_EPOCH,
};

use arrow::{
    array::{
        ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
        TimestampMillisecondArray,
    },
    compute::cast,
    datatypes::{DataType, Schema, SchemaRef},
};
use millrace_dataflow::SourceNode;
use millrace_formats::{
    Compression, DecodedBatch, DecodedRows, Decoder, FormatSpec, ParquetReader, Position,
};
use serde::{Deserialize, Serialize};

/// Metadata columns that a file's rows can have, under Flink's names.
pub(super) const METADATA: [&str; 4] = [
    "file.path",
    "file.name",
    "file.size",
    "file.modification-time",
];

const CHUNK_BYTES: usize = 256 << 10;

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

/// What one read of a file yields.
#[derive(Default)]
pub(super) struct FileRead {
    /// Rows and the position after them (its `rows` is not set); `None` at the end.
    pub(super) rows: Option<(RecordBatch, FilePosition)>,
    pub(super) bad_records: u64,
    /// Place within the file, reason, record.
    pub(super) letters: Vec<(String, String, Vec<u8>)>,
}

/// Reads a file batch by batch. Errors say what is wrong within the file.
pub(super) trait RowFile: Send {
    fn next(&mut self) -> Result<FileRead, String>;
}

/// A file of records: NDJSON, CSV, lines.
pub(super) struct RecordFile {
    reader: Box<dyn Read + Send>,
    decoder: Box<dyn Decoder>,
    decoded: DecodedRows,
    ready: VecDeque<DecodedBatch>,
    chunk: Vec<u8>,
    at_end: bool,
    counted_bad: u64,
}

impl RecordFile {
    pub(super) fn open(
        path: &Path,
        format: &FormatSpec,
        from: &FilePosition,
        max_rows: usize,
    ) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let compression = Compression::of_path(&path.to_string_lossy());
        let mut reader = compression.reader(BufReader::with_capacity(CHUNK_BYTES, file));
        // A compressed stream can only be read from its beginning.
        let skipped = io::copy(&mut reader.by_ref().take(from.offset), &mut io::sink())
            .map_err(|error| error.to_string())?;
        if skipped < from.offset {
            return Err(format!(
                "it has only {skipped} bytes, but {} were already read before the restart; files must not change once they are listed",
                from.offset
            ));
        }
        let mut config = format.decoder_config();
        config.start = Position {
            offset: from.offset,
            line: from.line,
        };
        config.header = from
            .header
            .as_ref()
            .map(|header| header.clone().into_bytes());
        config.max_rows = max_rows;
        let decoder = format.decoder(&config).map_err(|error| error.to_string())?;
        Ok(RecordFile {
            reader,
            decoder,
            decoded: DecodedRows::default(),
            ready: VecDeque::new(),
            chunk: vec![0; CHUNK_BYTES],
            at_end: false,
            counted_bad: 0,
        })
    }

    fn fill(&mut self) -> Result<(), String> {
        while self.ready.is_empty() && !self.at_end {
            let read = self
                .reader
                .read(&mut self.chunk)
                .map_err(|error| error.to_string())?;
            self.at_end = read == 0;
            self.decoder
                .decode(&self.chunk[..read], self.at_end, &mut self.decoded)
                .map_err(|error| error.to_string())?;
            self.ready.extend(self.decoded.batches.drain(..));
        }
        Ok(())
    }
}

impl RowFile for RecordFile {
    fn next(&mut self) -> Result<FileRead, String> {
        self.fill()?;
        let mut read = FileRead::default();
        let batch = self.ready.pop_front();
        // Letters behind this batch are read again by whoever resumes after it.
        let limit = batch.as_ref().map_or(u64::MAX, |batch| batch.end.offset);
        let letters = std::mem::take(&mut self.decoded.dead_letters);
        for letter in letters {
            if letter.start.offset < limit {
                read.letters.push((
                    format!("line {}", letter.error.line),
                    letter.error.to_string(),
                    letter.record,
                ));
            } else {
                self.decoded.dead_letters.push(letter);
            }
        }
        read.bad_records = self.decoded.counters.bad_records - self.counted_bad;
        self.counted_bad = self.decoded.counters.bad_records;
        read.rows = batch.map(|batch| {
            let position = FilePosition {
                offset: batch.end.offset,
                line: batch.end.line,
                header: self
                    .decoder
                    .header()
                    .map(|header| String::from_utf8_lossy(header).into_owned()),
                ..FilePosition::default()
            };
            (batch.batch, position)
        });
        Ok(read)
    }
}

/// A Parquet file.
pub(super) struct ColumnarFile {
    reader: ParquetReader,
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
            .map_err(|error| error.to_string())?;
        Ok(ColumnarFile { reader })
    }
}

impl RowFile for ColumnarFile {
    fn next(&mut self) -> Result<FileRead, String> {
        let rows = match self.reader.next() {
            None => None,
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(batch)) => Some((
                batch.batch,
                FilePosition {
                    file_row: batch.end_row,
                    ..FilePosition::default()
                },
            )),
        };
        Ok(FileRead {
            rows,
            ..FileRead::default()
        })
    }
}

/// Brings decoded rows into the shape the source promises: pruned columns, then metadata.
pub(super) struct Shape {
    schema: SchemaRef,
    physical: SchemaRef,
    metadata: Vec<(MetadataValue, DataType)>,
}

enum MetadataValue {
    Text(String),
    Number(i64),
    Time(i64),
}

impl Shape {
    pub(super) fn new(node: &SourceNode, path: &Path, file: &Metadata) -> Self {
        let mut fields: Vec<_> = node.physical.fields().iter().cloned().collect();
        let mut metadata = Vec::new();
        for (key, field) in &node.metadata {
            let value = match key.as_str() {
                "file.path" => MetadataValue::Text(path.display().to_string()),
                "file.name" => MetadataValue::Text(
                    path.file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                ),
                "file.size" => MetadataValue::Number(file.len() as i64),
                _ => MetadataValue::Time(
                    file.modified()
                        .ok()
                        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                        .map_or(0, |at| at.as_millis() as i64),
                ),
            };
            metadata.push((value, field.data_type().clone()));
            fields.push(Arc::new(field.clone()));
        }
        Shape {
            schema: Arc::new(Schema::new(fields)),
            physical: node.physical.clone(),
            metadata,
        }
    }

    pub(super) fn apply(&self, rows: RecordBatch) -> Result<RecordBatch, String> {
        let count = rows.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for field in self.physical.fields() {
            let column = rows
                .column_by_name(field.name())
                .ok_or_else(|| format!("column `{}` was not decoded", field.name()))?;
            columns.push(column.clone());
        }
        for (value, data_type) in &self.metadata {
            let array: ArrayRef = match value {
                MetadataValue::Text(text) => Arc::new(StringArray::from_iter_values(
                    std::iter::repeat_n(text, count),
                )),
                MetadataValue::Number(number) => Arc::new(Int64Array::from_value(*number, count)),
                MetadataValue::Time(ms) => {
                    Arc::new(TimestampMillisecondArray::from_value(*ms, count).with_timezone("UTC"))
                }
            };
            columns.push(cast(&array, data_type).map_err(|error| error.to_string())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| error.to_string())
    }
}
