//! The filesystem source: one split per file.

use std::{fs, path::PathBuf, sync::Arc};

use arrow::datatypes::SchemaRef;
use millrace_dataflow::SourceNode;
use millrace_formats::FormatSpec;

use super::{
    listing,
    options::{SourceOptions, format},
    record_file::RecordFile,
    row_file::{ColumnarFile, FilePosition, Place, RowFile},
    shape::{self, Shape},
};
use crate::source::{
    BadRecord, ConnectorError, Polled, Source, SplitId, SplitReader, SplitState, Waker,
};

/// Reads a filesystem table.
pub struct FilesystemSource {
    node: Arc<SourceNode>,
    options: SourceOptions,
    format: FormatSpec,
    /// What the format decodes: the pruned columns where names tell them apart, else all.
    decoded: SchemaRef,
}

impl FilesystemSource {
    /// Checks the table's options.
    pub fn new(node: &SourceNode) -> Result<Self, ConnectorError> {
        let options = SourceOptions::new(&node.table, &node.options)?;
        let all = format(&node.table, &node.options, &node.declared)?;
        let by_name = match all.kind() {
            millrace_formats::FormatKind::Json | millrace_formats::FormatKind::Parquet => true,
            millrace_formats::FormatKind::Csv => all.has_header(),
            millrace_formats::FormatKind::Raw => false,
            millrace_formats::FormatKind::DebeziumJson => {
                return Err(ConnectorError(format!(
                    "table `{}`: format 'debezium-json' can only be written, not read",
                    node.table
                )));
            }
        };
        let (decoded, format) = if by_name {
            (
                node.physical.clone(),
                format(&node.table, &node.options, &node.physical)?,
            )
        } else {
            (node.declared.clone(), all)
        };
        shape::check_metadata(&node.metadata)
            .map_err(|reason| ConnectorError(format!("table `{}`: {reason}", node.table)))?;
        Ok(FilesystemSource {
            node: Arc::new(node.clone()),
            options,
            format,
            decoded,
        })
    }

    fn path_of(&self, split: &SplitState) -> PathBuf {
        PathBuf::from(&split.id.0)
    }
}

impl Source for FilesystemSource {
    fn splits(&self, _parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        let files = listing::files(&self.node.table, &self.options.path, self.options.max_files)?;
        files
            .into_iter()
            .map(|path| {
                let id = path.to_str().ok_or_else(|| {
                    ConnectorError(format!(
                        "table `{}`: the file name {path:?} is not UTF-8; rename it",
                        self.node.table
                    ))
                })?;
                Ok(SplitState {
                    id: SplitId(id.to_owned()),
                    position: serde_json::Value::Null,
                })
            })
            .collect()
    }

    fn discovery_interval_ms(&self) -> Option<u64> {
        self.options.monitor_interval_ms
    }

    fn listing(&self) -> String {
        self.options.path.clone()
    }

    fn open(
        &self,
        split: &SplitState,
        _waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let path = self.path_of(split);
        let place = |reason: String| {
            ConnectorError(format!(
                "table `{}`: {}: {reason}",
                self.node.table,
                path.display()
            ))
        };
        let position = FilePosition::decode(&split.position).map_err(|error| {
            place(format!(
                "its position in the snapshot cannot be read: {error}"
            ))
        })?;
        let metadata = fs::metadata(&path).map_err(|error| {
            place(format!(
                "{error}; files must stay until the job that reads them has ended"
            ))
        })?;
        let batch_rows = match self.options.rows_per_second {
            0 => millrace_formats::DEFAULT_MAX_ROWS,
            rate => (rate / 20).clamp(1, millrace_formats::DEFAULT_MAX_ROWS as u64) as usize,
        };
        let input = Input {
            path: path.clone(),
            format: self.format.clone(),
            decoded: self.decoded.clone(),
        };
        Ok(Box::new(FileReader {
            shape: Shape::new(&self.node, &path, &metadata),
            table: self.node.table.clone(),
            file: input.open(&position, batch_rows).map_err(place)?,
            path,
            input,
            before: position.clone(),
            position,
            rows_per_second: self.options.rows_per_second,
            pace: None,
            bad: 0,
            letters: Vec::new(),
        }))
    }
}

/// A file and how to read it.
struct Input {
    path: PathBuf,
    format: FormatSpec,
    decoded: SchemaRef,
}

impl Input {
    fn open(&self, from: &FilePosition, batch_rows: usize) -> Result<Box<dyn RowFile>, String> {
        Ok(if self.format.is_columnar_file() {
            let decoded = self.decoded.clone();
            Box::new(ColumnarFile::open(&self.path, decoded, from, batch_rows)?)
        } else {
            Box::new(RecordFile::open(
                &self.path,
                &self.format,
                from,
                batch_rows,
            )?)
        })
    }

    /// The place of a row, counted from 0, of those after a position. Lines are not kept for every
    /// row, since this is asked for when a job fails: the rows are read again, one by one.
    fn place_of(&self, from: &FilePosition, row: usize) -> Result<Option<Place>, String> {
        let mut file = self.open(from, 1)?;
        let mut passed = 0;
        loop {
            let read = file.next()?;
            match read.rows {
                Some(rows) if passed + rows.num_rows() > row => return Ok(Some(read.first)),
                Some(rows) => passed += rows.num_rows(),
                None if read.at_end => return Ok(None),
                None => {}
            }
        }
    }
}

/// Reads one file on the slot's thread: local files come from the page cache or a disk's
/// read-ahead, so a hand-over to another thread would cost more than it saves.
struct FileReader {
    shape: Shape,
    table: String,
    path: PathBuf,
    input: Input,
    file: Box<dyn RowFile>,
    position: FilePosition,
    /// The position before the last poll.
    before: FilePosition,
    rows_per_second: u64,
    /// Wall-clock time and rows at the first paced poll.
    pace: Option<(i64, u64)>,
    bad: u64,
    letters: Vec<BadRecord>,
}

impl FileReader {
    /// When the next batch is due, if that is not now.
    fn not_before(&mut self, now_ms: i64) -> Option<i64> {
        if self.rows_per_second == 0 {
            return None;
        }
        let (started, before) = *self.pace.get_or_insert((now_ms, self.position.rows));
        let out = self.position.rows - before;
        let due_at = started + (out.saturating_mul(1000) / self.rows_per_second) as i64;
        (now_ms < due_at).then_some(due_at)
    }
}

impl SplitReader for FileReader {
    fn poll(&mut self, _max_rows: usize, now_ms: i64) -> Result<Polled, ConnectorError> {
        if let Some(at) = self.not_before(now_ms) {
            return Ok(Polled::PendingUntil(at));
        }
        let fault = |reason: String| {
            ConnectorError(format!(
                "table `{}`: {}: {reason}",
                self.table,
                self.path.display()
            ))
        };
        let read = self.file.next().map_err(fault)?;
        self.bad += read.bad_records;
        let path = self.path.display();
        self.letters
            .extend(read.letters.into_iter().map(|letter| BadRecord {
                place: format!("{path} line {}", letter.line),
                reason: letter.reason,
                raw: letter.raw,
            }));
        let rows = read.rows.as_ref().map_or(0, |rows| rows.num_rows() as u64);
        self.before = self.position.clone();
        self.position = FilePosition {
            rows: self.position.rows + rows,
            ..read.position
        };
        match read.rows {
            Some(rows) => Ok(Polled::Rows(self.shape.apply(rows).map_err(fault)?)),
            None if read.at_end => Ok(Polled::Ended),
            None => Ok(Polled::Progress),
        }
    }

    fn position(&self) -> serde_json::Value {
        self.position.encode()
    }

    fn place_of(&self, row: usize) -> Option<String> {
        let path = self.path.display();
        match self.input.place_of(&self.before, row) {
            Ok(place) => place.map(|place| format!("{path} {place}")),
            // It cannot be read again: the file at least.
            Err(_) => Some(path.to_string()),
        }
    }

    fn take_bad_records(&mut self) -> (u64, Vec<BadRecord>) {
        (
            std::mem::take(&mut self.bad),
            std::mem::take(&mut self.letters),
        )
    }
}
