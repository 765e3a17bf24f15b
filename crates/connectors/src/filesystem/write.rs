//! The filesystem sink: stages rows in hidden part files, publishes them by renaming.
//!
//! File names: `part-{execution}-{subtask}-{number}.{extension}`, staged as
//! `.{job}.{that name}.staged` in the same directory, so that the rename is atomic and a later
//! execution can tell what a dead one left.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use arrow::{
    array::{Array, RecordBatch, UInt64Array},
    compute::take_record_batch,
    datatypes::{Schema, SchemaRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use millrace_dataflow::{RowKind, SinkNode};
use millrace_formats::FormatSpec;

use super::{
    options::{SinkOptions, format},
    part_file::{PartFile, StagedFile},
};
use crate::{
    sink::{Committable, Sink, SinkWriter, WriterContext},
    source::ConnectorError,
};

/// Writes a filesystem table.
pub struct FilesystemSink {
    table: String,
    options: SinkOptions,
    format: FormatSpec,
    /// Columns that are written into files: all but the partition columns.
    schema: SchemaRef,
    columns: Vec<usize>,
    partition_by: Vec<usize>,
    full: SchemaRef,
}

impl FilesystemSink {
    /// Checks the table's options.
    pub fn new(node: &SinkNode) -> Result<Self, ConnectorError> {
        Self::with(&node.table, &node.options, &node.schema, &node.partition_by)
    }

    /// For tables that are no node of the job, such as dead letters.
    pub fn with(
        table: &str,
        options: &millrace_dataflow::TableOptions,
        full: &SchemaRef,
        partition_by: &[usize],
    ) -> Result<Self, ConnectorError> {
        let columns: Vec<usize> = (0..full.fields().len())
            .filter(|c| !partition_by.contains(c))
            .collect();
        if columns.is_empty() {
            return Err(ConnectorError(format!(
                "table `{table}`: PARTITIONED BY names every column, so nothing is left to write into the files"
            )));
        }
        let schema: SchemaRef = Schema::new(
            columns
                .iter()
                .map(|c| full.field(*c).clone())
                .collect::<Vec<_>>(),
        )
        .into();
        Ok(FilesystemSink {
            table: table.to_owned(),
            options: SinkOptions::new(table, options)?,
            format: format(table, options, &schema)?,
            schema,
            columns,
            partition_by: partition_by.to_vec(),
            full: full.clone(),
        })
    }
}

impl Sink for FilesystemSink {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        let directory = &self.options.directory;
        fs::create_dir_all(directory).map_err(|error| {
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
            partition_by: self
                .partition_by
                .iter()
                .map(|c| (*c, self.full.field(*c).name().clone()))
                .collect(),
            context: context.clone(),
            now_ms: context.now_ms,
            next_file: 0,
            open: BTreeMap::new(),
            closed: Vec::new(),
        }))
    }
}

struct FilesystemWriter {
    table: String,
    options: SinkOptions,
    format: FormatSpec,
    schema: SchemaRef,
    columns: Vec<usize>,
    partition_by: Vec<(usize, String)>,
    context: WriterContext,
    now_ms: i64,
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

    fn stage(
        &mut self,
        partition: PathBuf,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        if !self.open.contains_key(&partition) {
            let name = format!(
                "part-{}-{}-{}.{}",
                self.context.execution,
                self.context.subtask,
                self.next_file,
                self.format.file_extension()
            );
            self.next_file += 1;
            let directory = self.options.directory.join(&partition);
            let paths = StagedFile {
                staged: directory.join(format!(".{}.{name}.staged", self.context.job)),
                final_path: directory.join(name),
            };
            let file = PartFile::create(paths, &self.format, &self.schema, self.now_ms)
                .map_err(|error| self.fault(&error))?;
            self.open.insert(partition.clone(), file);
        }
        let Some(file) = self.open.get_mut(&partition) else {
            return Err(self.fault("internal fault: a part file vanished; please report it"));
        };
        let written = file.write(rows, kinds);
        let full = file.bytes() >= self.options.file_bytes;
        written.map_err(|error| self.fault(&error))?;
        if full {
            self.roll(|_| true, Some(&partition))?;
        }
        Ok(())
    }

    /// Closes the open files that `which` picks.
    fn roll(
        &mut self,
        which: impl Fn(&PartFile) -> bool,
        only: Option<&Path>,
    ) -> Result<(), ConnectorError> {
        let due: Vec<PathBuf> = self
            .open
            .iter()
            .filter(|(partition, file)| {
                only.is_none_or(|only| only == partition.as_path()) && which(file)
            })
            .map(|(partition, _)| partition.clone())
            .collect();
        for partition in due {
            if let Some(file) = self.open.remove(&partition) {
                let staged = file.close().map_err(|error| self.fault(&error))?;
                self.closed.push(staged);
            }
        }
        Ok(())
    }

    /// The partition directory of every row.
    fn partitions(&self, rows: &RecordBatch) -> Result<Vec<PathBuf>, ConnectorError> {
        let options = FormatOptions::default();
        let mut paths = vec![PathBuf::new(); rows.num_rows()];
        for (column, name) in &self.partition_by {
            let values = rows.column(*column);
            let formatter = ArrayFormatter::try_new(values.as_ref(), &options)
                .map_err(|error| self.fault(&error.to_string()))?;
            for (row, path) in paths.iter_mut().enumerate() {
                let value = if values.is_null(row) {
                    self.options.default_partition.clone()
                } else {
                    escape(&formatter.value(row).to_string())
                };
                path.push(format!("{name}={value}"));
            }
        }
        Ok(paths)
    }
}

/// Keeps a value within one path component, as Hive-style readers expect it.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '\'' | '%' | '=' | '#' | '[' | ']' | '{' | '}'
            | '^' => {
                escaped.push_str(&format!("%{:02X}", c as u32));
            }
            c if c.is_control() => escaped.push_str(&format!("%{:02X}", c as u32)),
            c => escaped.push(c),
        }
    }
    if escaped.is_empty() {
        "%00".to_owned()
    } else {
        escaped
    }
}

impl SinkWriter for FilesystemWriter {
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        let project = |rows: &RecordBatch| {
            rows.project(&self.columns)
                .map_err(|error| self.fault(&error.to_string()))
        };
        if self.partition_by.is_empty() {
            let rows = project(rows)?;
            return self.stage(PathBuf::new(), &rows, kinds);
        }
        let mut by_partition: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
        for (row, partition) in self.partitions(rows)?.into_iter().enumerate() {
            by_partition.entry(partition).or_default().push(row as u64);
        }
        let data = project(rows)?;
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
        self.roll(|_| true, None)?;
        let mut committables = Vec::with_capacity(self.closed.len());
        for staged in std::mem::take(&mut self.closed) {
            let json =
                serde_json::to_value(&staged).map_err(|error| self.fault(&error.to_string()))?;
            committables.push(Committable(json));
        }
        Ok(committables)
    }

    fn commit(&mut self, committables: &[Committable]) -> Result<(), ConnectorError> {
        for committable in committables {
            let staged: StagedFile =
                serde_json::from_value(committable.0.clone()).map_err(|error| {
                    self.fault(&format!("a staged file's record cannot be read: {error}"))
                })?;
            staged.publish().map_err(|error| {
                self.fault(&format!(
                    "cannot publish {} as {}: {error}; its rows are part of a complete checkpoint, so the job cannot go on without it",
                    staged.staged.display(),
                    staged.final_path.display()
                ))
            })?;
        }
        Ok(())
    }

    fn abort_leftovers(&mut self) -> Result<(), ConnectorError> {
        let prefix = format!(".{}.part-", self.context.job);
        let own = format!(".{}.part-{}-", self.context.job, self.context.execution);
        remove_staged(&self.options.directory, &prefix, &own).map_err(|error| {
            self.fault(&format!(
                "cannot remove staged files of an earlier execution: {error}"
            ))
        })
    }

    fn next_tick(&self) -> Option<i64> {
        self.open
            .values()
            .map(|file| {
                file.opened_ms
                    .saturating_add(self.options.rollover_ms as i64)
            })
            .min()
    }

    fn tick(&mut self, now_ms: i64) -> Result<(), ConnectorError> {
        self.now_ms = now_ms;
        let rollover = self.options.rollover_ms as i64;
        self.roll(
            |file| file.opened_ms.saturating_add(rollover) <= now_ms,
            None,
        )
    }
}

fn remove_staged(directory: &Path, prefix: &str, own: &str) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            remove_staged(&entry.path(), prefix, own)?;
        } else if name.starts_with(prefix) && name.ends_with(".staged") && !name.starts_with(own) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
