//! Reads tables as a source task would.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{Field, SchemaRef},
};
use flate2::write::GzEncoder;
use millrace_dataflow::{SourceNode, StateId, TableOptions};
use millrace_formats::{ParquetCompression, ParquetFileWriter};

use super::{schema, shown};
use crate::{
    filesystem::FilesystemSource,
    source::{BadRecord, Polled, Source, SplitReader, SplitState},
};

/// A table over `physical` columns.
pub(super) fn node(options: TableOptions, physical: SchemaRef) -> SourceNode {
    SourceNode {
        table: "t".into(),
        options,
        declared: schema(),
        physical,
        metadata: Vec::new(),
        output: Vec::new(),
        watermark: None,
        state_id: StateId("s".into()),
    }
}

pub(super) fn source(node: &SourceNode) -> Result<FilesystemSource, String> {
    FilesystemSource::new(node).map_err(|error| error.0)
}

pub(super) fn open(
    source: &FilesystemSource,
    split: &SplitState,
) -> Result<Box<dyn SplitReader>, String> {
    source.open(split, Arc::new(|| ())).map_err(|error| error.0)
}

/// One step of reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) rows: Vec<String>,
    pub(super) letters: Vec<BadRecord>,
    pub(super) bad: u64,
    pub(super) position: serde_json::Value,
}

/// Reads a split to its end or an error, with time passing fast enough for any pace.
pub(super) fn steps(source: &FilesystemSource, split: &SplitState) -> (Vec<Step>, Option<String>) {
    let mut reader = match open(source, split) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut steps = Vec::new();
    for poll in 0.. {
        let polled = reader.poll(8192, poll * 3_600_000);
        let (bad, letters) = reader.take_bad_records();
        let rows = match &polled {
            Ok(Polled::Rows(rows)) => {
                assert!(rows.num_rows() > 0);
                shown(rows)
            }
            Ok(Polled::Progress | Polled::Ended) => Vec::new(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return (steps, Some(error.0.clone())),
        };
        steps.push(Step {
            rows,
            letters,
            bad,
            position: reader.position(),
        });
        if matches!(polled, Ok(Polled::Ended)) {
            break;
        }
    }
    (steps, None)
}

/// All rows of all files, or the first error.
pub(super) fn read_all(node: &SourceNode) -> Result<Vec<String>, String> {
    let source = source(node)?;
    let mut rows = Vec::new();
    for split in source.splits(1).map_err(|error| error.0)? {
        let (steps, error) = steps(&source, &split);
        if let Some(error) = error {
            return Err(error);
        }
        rows.extend(steps.into_iter().flat_map(|step| step.rows));
    }
    Ok(rows)
}

/// The first split.
pub(super) fn first(source: &FilesystemSource) -> SplitState {
    source.splits(1).unwrap().remove(0)
}

pub(super) fn write(dir: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn rows(values: &[(Option<i64>, Option<&str>, Option<i64>)]) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(values.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(values.iter().map(|row| row.1).collect::<StringArray>()),
            Arc::new(
                values
                    .iter()
                    .map(|row| row.2)
                    .collect::<TimestampMillisecondArray>(),
            ),
        ],
    )
    .unwrap()
}

pub(super) fn parquet(rows: &RecordBatch) -> Vec<u8> {
    let mut writer =
        ParquetFileWriter::new(Vec::new(), rows.schema(), ParquetCompression::Snappy).unwrap();
    writer.write(rows).unwrap();
    writer.finish().unwrap()
}

pub(super) fn with_metadata(mut node: SourceNode, metadata: Vec<(&str, Field)>) -> SourceNode {
    node.metadata = metadata
        .into_iter()
        .map(|(key, field)| (key.to_owned(), field))
        .collect();
    node
}
