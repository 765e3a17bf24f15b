//! Writes tables as a sink operator would.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millrace_dataflow::{RowKind, TableOptions};

use crate::{
    filesystem::FilesystemSink,
    sink::{Committable, RowTap, Sink, SinkWriter, WriterContext},
};

struct NoTap;

impl RowTap for NoTap {
    fn rows(&self, _: &str, _: u32, _: &RecordBatch, _: Option<&[RowKind]>) {}
}

/// A clock that stands until it is set.
#[derive(Clone, Default)]
pub(super) struct Hand(Arc<AtomicI64>);

impl Hand {
    pub(super) fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

pub(super) fn context(execution: &str, clock: &Hand) -> WriterContext {
    let clock = clock.0.clone();
    WriterContext {
        table: "t".into(),
        tap: Arc::new(NoTap),
        job: "job".into(),
        execution: execution.into(),
        writer: "sink-1".into(),
        subtask: 0,
        parallelism: 1,
        now_ms: Arc::new(move || clock.load(Ordering::Relaxed)),
    }
}

pub(super) fn sink(
    options: &TableOptions,
    schema: &SchemaRef,
    partition_by: &[usize],
) -> FilesystemSink {
    FilesystemSink::with("t", options, schema, partition_by).unwrap()
}

/// A writer of execution `one`.
pub(super) fn writer(sink: &FilesystemSink) -> Box<dyn SinkWriter> {
    sink.open(&context("one", &Hand::default())).unwrap()
}

/// Pre-commits and commits; the committables.
pub(super) fn checkpoint(writer: &mut dyn SinkWriter) -> Vec<Committable> {
    let staged = writer.pre_commit().unwrap();
    writer.commit(&staged).unwrap();
    staged
}

/// All files below, by path; hidden ones with their content too.
pub(super) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    collect(dir, dir, &mut found);
    found
}

fn collect(root: &Path, dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
}

pub(super) fn is_staged(name: &str) -> bool {
    name.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('.'))
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().collect()
}

/// The published files' text, in the order of their names.
pub(super) fn published(dir: &Path) -> Vec<String> {
    files(dir)
        .into_iter()
        .filter(|(name, _)| !is_staged(name))
        .map(|(_, content)| String::from_utf8(content).unwrap())
        .collect()
}
