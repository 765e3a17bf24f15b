//! The filesystem sink: stages rows in hidden part files, publishes them by renaming.
//!
//! File names: `part-{execution}-{writer}-{subtask}-{number}.{extension}`, staged as
//! `.{job}.{writer}.{that name}.staged` in the same directory, so that the rename is atomic and
//! a later execution of the same writer can tell what a dead one left.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use arrow::{
    array::{RecordBatch, UInt64Array},
    compute::take_record_batch,
    datatypes::{Schema, SchemaRef},
};
use millrace_dataflow::{RowKind, SinkNode, TableOptions};
use millrace_formats::FormatSpec;

use super::{
    durable::create_directories,
    leftovers,
    options::{SinkOptions, format},
    part_file::{self, PartFile},
    partition::Partitioning,
    staged::{Published, StagedFile, sync_directories},
};
use crate::{
    sink::{Committable, Sink, SinkWriter, WriterContext},
    source::ConnectorError,
};

/// Files that one writer has open at most: beyond it the oldest one is closed.
const MAX_OPEN_FILES: usize = 64;
/// Rows that the open files of one writer hold in memory at most (Parquet keeps a row group
/// until it is whole): beyond it the largest file is closed.
const MAX_BUFFERED_BYTES: usize = 96 << 20;

/// Writes a filesystem table.
pub struct FilesystemSink {
    table: String,
    options: SinkOptions,
    format: FormatSpec,
    /// Columns that are written into files: all but the partition columns.
    schema: SchemaRef,
    columns: Vec<usize>,
    partitioning: Partitioning,
    max_buffered_bytes: usize,
}

impl FilesystemSink {
    /// Checks the table's options.
    pub fn new(node: &SinkNode) -> Result<Self, ConnectorError> {
        Self::with(&node.table, &node.options, &node.schema, &node.partition_by)
    }

    /// For tables that are no node of the job, such as dead letters.
    pub fn with(
        table: &str,
        options: &TableOptions,
        full: &SchemaRef,
        partition_by: &[usize],
    ) -> Result<Self, ConnectorError> {
        let columns: Vec<usize> = (0..full.fields().len())
            .filter(|column| !partition_by.contains(column))
            .collect();
        if columns.is_empty() {
            return Err(ConnectorError(format!(
                "table `{table}`: PARTITIONED BY names every column, so nothing is left to write into the files"
            )));
        }
        let fields: Vec<_> = columns.iter().map(|c| full.field(*c).clone()).collect();
        let schema: SchemaRef = Schema::new(fields).into();
        let options_read = SinkOptions::new(table, options)?;
        Ok(FilesystemSink {
            table: table.to_owned(),
            format: format(table, options, &schema)?,
            schema,
            columns,
            partitioning: Partitioning::new(full, partition_by, &options_read.default_partition),
            options: options_read,
            max_buffered_bytes: MAX_BUFFERED_BYTES,
        })
    }
}

#[cfg(test)]
impl FilesystemSink {
    pub(super) fn limit_buffer(&mut self, bytes: usize) {
        self.max_buffered_bytes = bytes;
    }
}

impl Sink for FilesystemSink {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        let directory = &self.options.directory;
        create_directories(directory).map_err(|error| {
            ConnectorError(format!(
                "table `{}`: cannot create directory {}: {error}",
                self.table,
                directory.display()
            ))
        })?;
        Ok(Box::new(FilesystemWriter {
            table: self.table.clone(),
            options: self.options.clone(),
            format: self.format.clone(),
            schema: self.schema.clone(),
            columns: self.columns.clone(),
            partitioning: self.partitioning.clone(),
            max_buffered_bytes: self.max_buffered_bytes,
            context: context.clone(),
            next_file: 0,
            open: BTreeMap::new(),
            closed: Vec::new(),
        }))
    }

    fn discard_staged(&self, job: &str) -> Result<(), ConnectorError> {
        let directory = &self.options.directory;
        leftovers::remove(directory, &staged_prefix_of_job(job), None).map_err(|error| {
            ConnectorError(format!(
                "table `{}`: cannot remove staged files below {}: {error}",
                self.table,
                directory.display()
            ))
        })
    }
}

/// How the names of staged files of a job start.
fn staged_prefix_of_job(job: &str) -> String {
    format!(".{job}.")
}

struct FilesystemWriter {
    table: String,
    options: SinkOptions,
    format: FormatSpec,
    schema: SchemaRef,
    columns: Vec<usize>,
    partitioning: Partitioning,
    max_buffered_bytes: usize,
    context: WriterContext,
    next_file: u64,
    /// By partition directory, relative to the table's.
    open: BTreeMap<PathBuf, PartFile>,
    /// Complete since the last pre-commit.
    closed: Vec<StagedFile>,
}

impl FilesystemWriter {
    fn fault(&self, reason: &str) -> ConnectorError {
        ConnectorError(format!("table `{}`: {reason}", self.table))
    }

    /// How the names of this execution's files start.
    fn own_prefix(&self) -> String {
        format!("part-{}-{}-", self.context.execution, self.context.writer)
    }

    /// How the names of staged files of this writer start, in any execution.
    fn staged_prefix(&self) -> String {
        let job = staged_prefix_of_job(&self.context.job);
        format!("{job}{}.", self.context.writer)
    }

    fn rollover_ms(&self) -> i64 {
        i64::try_from(self.options.rollover_ms).unwrap_or(i64::MAX)
    }

    fn stage(
        &mut self,
        partition: PathBuf,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        if !self.open.contains_key(&partition) {
            self.make_room()?;
            let file = self.create(&partition)?;
            self.open.insert(partition.clone(), file);
        }
        let Some(file) = self.open.get_mut(&partition) else {
            return Err(self.fault("internal fault: a part file vanished; please report it"));
        };
        let written = file.write(rows, kinds);
        let full = file.bytes() >= self.options.file_bytes;
        written.map_err(|error| self.fault(&error))?;
        if full {
            self.close(&partition)?;
        }
        self.free_memory()
    }

    fn free_memory(&mut self) -> Result<(), ConnectorError> {
        loop {
            let buffered: usize = self.open.values().map(PartFile::buffered_bytes).sum();
            let largest = self
                .open
                .iter()
                .max_by_key(|(_, file)| file.buffered_bytes());
            match largest {
                Some((partition, _)) if buffered > self.max_buffered_bytes => {
                    let partition = partition.clone();
                    self.close(&partition)?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn create(&mut self, partition: &Path) -> Result<PartFile, ConnectorError> {
        let name = format!(
            "{}{}-{}.{}",
            self.own_prefix(),
            self.context.subtask,
            self.next_file,
            self.format.file_extension()
        );
        self.next_file += 1;
        let directory = self.options.directory.join(partition);
        let paths = StagedFile {
            staged: directory.join(format!("{}{name}.staged", self.staged_prefix())),
            final_path: directory.join(name),
        };
        PartFile::create(paths, &self.format, &self.schema, (self.context.now_ms)())
            .map_err(|error| self.fault(&error))
    }

    fn make_room(&mut self) -> Result<(), ConnectorError> {
        while self.open.len() >= MAX_OPEN_FILES {
            let oldest = self.open.iter().min_by_key(|(_, file)| file.opened_ms);
            let Some(partition) = oldest.map(|(partition, _)| partition.clone()) else {
                break;
            };
            self.close(&partition)?;
        }
        Ok(())
    }

    fn close(&mut self, partition: &Path) -> Result<(), ConnectorError> {
        if let Some(file) = self.open.remove(partition) {
            let staged = file.close().map_err(|error| self.fault(&error))?;
            self.closed.push(staged);
        }
        Ok(())
    }

    fn close_where(&mut self, which: impl Fn(&PartFile) -> bool) -> Result<(), ConnectorError> {
        let due: Vec<PathBuf> = self
            .open
            .iter()
            .filter(|(_, file)| which(file))
            .map(|(partition, _)| partition.clone())
            .collect();
        due.iter().try_for_each(|partition| self.close(partition))
    }

    /// Whether this execution staged the file.
    fn is_own(&self, staged: &StagedFile) -> bool {
        staged.final_path.file_name().is_some_and(|name| {
            name.to_string_lossy()
                .starts_with(self.own_prefix().as_str())
        })
    }

    fn sync(&self, names: &[&Path]) -> Result<(), ConnectorError> {
        sync_directories(names.iter().copied()).map_err(|(path, error)| {
            self.fault(&format!("cannot make {} durable: {error}", path.display()))
        })
    }
}

impl SinkWriter for FilesystemWriter {
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let data = rows
            .project(&self.columns)
            .map_err(|error| self.fault(&error.to_string()))?;
        if self.partitioning.is_empty() {
            return self.stage(PathBuf::new(), &data, kinds);
        }
        let directories = self
            .partitioning
            .directories(rows)
            .map_err(|error| self.fault(&error))?;
        let mut by_partition: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
        for (row, partition) in directories.into_iter().enumerate() {
            by_partition.entry(partition).or_default().push(row as u64);
        }
        for (partition, positions) in by_partition {
            let kinds: Option<Vec<RowKind>> =
                kinds.map(|kinds| positions.iter().map(|row| kinds[*row as usize]).collect());
            let part = take_record_batch(&data, &UInt64Array::from(positions))
                .map_err(|error| self.fault(&error.to_string()))?;
            self.stage(partition, &part, kinds.as_deref())?;
        }
        Ok(())
    }

    fn pre_commit(&mut self) -> Result<Vec<Committable>, ConnectorError> {
        self.close_where(|_| true)?;
        // A directory that was removed takes its files along though they could be written: found
        // now, the rows are read again; found at the commit, they would be lost.
        for file in &self.closed {
            if let Err(error) = file.staged.metadata() {
                return Err(self.fault(&format!(
                    "the staged file {} is gone ({error}): nobody else may change directory {} while the job runs",
                    file.staged.display(),
                    self.options.directory.display()
                )));
            }
        }
        let names: Vec<&Path> = self
            .closed
            .iter()
            .map(|file| file.staged.as_path())
            .collect();
        self.sync(&names)?;
        let mut committables = Vec::with_capacity(self.closed.len());
        for staged in &self.closed {
            let json =
                serde_json::to_value(staged).map_err(|error| self.fault(&error.to_string()))?;
            committables.push(Committable(json));
        }
        self.closed.clear();
        Ok(committables)
    }

    fn commit(&mut self, committables: &[Committable]) -> Result<(), ConnectorError> {
        let mut files = Vec::with_capacity(committables.len());
        for committable in committables {
            let staged: StagedFile =
                serde_json::from_value(committable.0.clone()).map_err(|error| {
                    self.fault(&format!("a staged file's record cannot be read: {error}"))
                })?;
            let fault = |reason: &str| {
                self.fault(&format!(
                    "cannot publish {} as {}: {reason}; its rows are part of a complete checkpoint, so the job cannot go on without it",
                    staged.staged.display(),
                    staged.final_path.display()
                ))
            };
            match staged
                .publish()
                .map_err(|error| fault(&error.to_string()))?
            {
                Published::Now | Published::Before => files.push(staged),
                Published::Gone if self.is_own(&staged) => {
                    return Err(fault("it is gone"));
                }
                // Most likely published by the earlier execution and then moved on.
                Published::Gone => tracing::warn!(
                    table = %self.table,
                    path = %staged.final_path.display(),
                    "a file of an earlier execution was taken away after it was published"
                ),
            }
        }
        let names: Vec<&Path> = files.iter().map(|file| file.final_path.as_path()).collect();
        self.sync(&names)
    }

    fn abort_leftovers(&mut self) -> Result<(), ConnectorError> {
        let prefix = self.staged_prefix();
        let own = format!("{prefix}{}", self.own_prefix());
        leftovers::remove(&self.options.directory, &prefix, Some(&own)).map_err(|error| {
            self.fault(&format!(
                "cannot remove staged files of an earlier execution: {error}"
            ))
        })
    }

    fn next_tick(&self) -> Option<i64> {
        self.open
            .values()
            .map(|file| file.opened_ms.saturating_add(self.rollover_ms()))
            .min()
    }

    fn tick(&mut self, now_ms: i64) -> Result<(), ConnectorError> {
        let rollover = self.rollover_ms();
        self.close_where(|file| file.opened_ms.saturating_add(rollover) <= now_ms)
    }
}

impl Drop for FilesystemWriter {
    /// What was not pre-committed is in no snapshot.
    fn drop(&mut self) {
        for file in &self.closed {
            part_file::remove(&file.staged);
        }
    }
}
