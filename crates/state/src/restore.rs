//! Rebuilds a slot's store from snapshots, at the same or another key-group range.
//!
//! - One incremental snapshot of exactly this range: its files as they are.
//! - One incremental snapshot of a larger range: its files, then the foreign groups are deleted.
//! - Anything else: the entries of this range out of all overlapping snapshots, written anew.
//!
//! The directory is emptied first and marked complete last, so what a dead attempt left is
//! never taken for restored state.

use std::{
    fs,
    path::{Path as FilePath, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use millrace_dataflow::KeyGroupRange;
use object_store::ObjectStore;
use rocksdb::WriteOptions;
use tokio::sync::mpsc;

use crate::{
    budget::{SST_BYTES, StateBudget},
    canonical,
    delta::Columns,
    error::{IoContext, Result, RocksContext, StateError},
    layout::Layout,
    savepoint::read_snapshot_files,
    snapshot::{IncrementalSnapshot, KeyedSnapshot, UploadedFiles},
    sorted_run,
    store::{SlotStore, clear_dir, db_dir, family, mark_restored},
    transfer::{CONCURRENCY, Digest, Expected, get_bytes, get_file},
    value,
};

/// Memory for RocksDB while a restore rebuilds its files.
const RESTORE_BUDGET: usize = 16 << 20;

/// What a restore did.
#[derive(Debug)]
pub struct RestoredInfo {
    /// Files that the first checkpoint need not upload again; hand it to
    /// [`upload_incremental`](crate::upload_incremental).
    pub uploads: UploadedFiles,
    /// Bytes read from object storage.
    pub bytes: u64,
    /// Whether files were used as they are, rather than rebuilt entry by entry.
    pub reused_files: bool,
}

/// Places what the snapshots hold of `range` in `dir`, for [`SlotStore::create`] to open.
/// `layout` is that of the job that made the snapshots; they must have disjoint ranges and
/// cover `range` (name empty ones too). Whatever is in `dir` is removed. After a failure `dir` can
/// be used again; after the future was dropped half-way it cannot.
pub async fn restore(
    store: &dyn ObjectStore,
    layout: &Layout,
    snapshots: &[(KeyGroupRange, KeyedSnapshot)],
    range: KeyGroupRange,
    dir: &FilePath,
) -> Result<RestoredInfo> {
    let mut sources: Vec<&(KeyGroupRange, KeyedSnapshot)> = snapshots
        .iter()
        .filter(|(held, _)| held.overlaps(range))
        .collect();
    sources.sort_by_key(|(held, _)| held.start);
    check_cover(&sources, range)?;
    sources.retain(|(_, snapshot)| *snapshot != KeyedSnapshot::Empty);
    clear_dir(dir)?;

    let bytes = sources.iter().map(|(_, snapshot)| snapshot.bytes()).sum();
    let mut info = RestoredInfo {
        uploads: UploadedFiles::default(),
        bytes,
        reused_files: false,
    };
    match sources.as_slice() {
        [] => return Ok(info),
        [(held, KeyedSnapshot::Incremental(snapshot))] if covers(*held, range) => {
            download(store, layout, snapshot, &db_dir(dir)).await?;
            if *held != range {
                let dir = dir.to_path_buf();
                blocking("cut a snapshot to its range", move || clip(&dir, range)).await?;
            }
            info.uploads = UploadedFiles::of(layout, &snapshot.files);
            info.reused_files = true;
        }
        _ => rebuild(store, layout, &sources, range, dir).await?,
    }
    mark_restored(dir)?;
    Ok(info)
}

fn covers(outer: KeyGroupRange, inner: KeyGroupRange) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// `sources` overlap `range` and are sorted by their start.
fn check_cover(sources: &[&(KeyGroupRange, KeyedSnapshot)], range: KeyGroupRange) -> Result<()> {
    let mut next = range.start;
    for (held, _) in sources {
        if held.start > next {
            break;
        }
        next = next.max(held.end);
    }
    if next < range.end {
        return Err(StateError::Uncovered {
            missing: next,
            range,
        });
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    action: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|source| StateError::Task { action, source })?
}

/// Fetches all files of a snapshot into a new directory.
async fn download(
    store: &dyn ObjectStore,
    layout: &Layout,
    snapshot: &IncrementalSnapshot,
    dir: &FilePath,
) -> Result<()> {
    fs::create_dir_all(dir).at("create", dir)?;
    let needed_by = format!(
        "checkpoint {} (slot {})",
        snapshot.checkpoint, snapshot.directory
    );
    let mut files = Vec::new();
    for file in &snapshot.files {
        let digest = Digest {
            bytes: file.bytes,
            crc32: file.crc32,
        };
        let from = layout.shared_file(&file.id);
        files.push((from, local_path(dir, &file.name, &needed_by)?, digest));
    }
    for file in &snapshot.metadata {
        let digest = Digest {
            bytes: file.bytes,
            crc32: file.crc32,
        };
        let from = snapshot.metadata_path(layout, file);
        files.push((from, local_path(dir, &file.name, &needed_by)?, digest));
    }
    let needed_by = needed_by.as_str();
    let failed = AtomicBool::new(false);
    let failed = &failed;
    let mut fetched = stream::iter(files.into_iter().map(|(from, to, digest)| async move {
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        get_file(store, &from, &to, Expected { digest, needed_by }).await
    }))
    .buffer_unordered(CONCURRENCY);
    // After a failure those under way are waited for: dropped, they would still create files in
    // a directory that the caller may be clearing for the next attempt.
    let mut outcome = Ok(());
    while let Some(file) = fetched.next().await {
        if file.is_err() && outcome.is_ok() {
            failed.store(true, Ordering::Relaxed);
            outcome = file;
        }
    }
    outcome
}

/// Names come from a manifest: only those that RocksDB makes are followed.
fn local_path(dir: &FilePath, name: &str, manifest: &str) -> Result<PathBuf> {
    let digits = name
        .strip_suffix(".sst")
        .or_else(|| name.strip_prefix("MANIFEST-"));
    let known = name == "CURRENT"
        || digits.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
    if !known {
        return Err(StateError::Corrupt {
            object: format!("manifest of {manifest}"),
            reason: format!("`{name}` is not the name of a RocksDB file"),
        });
    }
    Ok(dir.join(name))
}

/// Deletes the groups outside of `range`: whole files where possible, then what is left by
/// range tombstones, which reach the disk here since there is no log.
fn clip(dir: &FilePath, range: KeyGroupRange) -> Result<()> {
    let store = SlotStore::open(dir, &StateBudget::new(RESTORE_BUDGET))?;
    let db = &store.inner().db;
    // Groups stay below 2^15, so no key starts with 0xFFFF.
    let before = ([0, 0], range.start.to_be_bytes());
    let after = (range.end.to_be_bytes(), [0xFF, 0xFF]);
    let mut no_log = WriteOptions::default();
    no_log.disable_wal(true);
    for name in store.tables() {
        let family = family(db, &name)?;
        let action = || format!("cut table `{name}` to its key groups");
        for (from, to) in [before, after] {
            if from < to {
                db.delete_file_in_range_cf(&family, from, to)
                    .doing(action)?;
                db.delete_range_cf_opt(&family, from, to, &no_log)
                    .doing(action)?;
            }
        }
        db.flush_cf(&family).doing(action)?;
    }
    Ok(())
}

/// Something to take entries from, with the groups to take.
enum Source {
    Files(PathBuf, KeyGroupRange),
    Part(String, Bytes, KeyGroupRange),
}

async fn rebuild(
    store: &dyn ObjectStore,
    layout: &Layout,
    sources: &[&(KeyGroupRange, KeyedSnapshot)],
    range: KeyGroupRange,
    dir: &FilePath,
) -> Result<()> {
    // One source is fetched while the one before is written.
    let (sender, receiver) = mpsc::channel(1);
    let target = dir.to_path_buf();
    let writer = tokio::task::spawn_blocking(move || write_sources(&target, receiver));
    let mut fetched = Ok(());
    for (position, (held, snapshot)) in sources.iter().enumerate() {
        let wanted = KeyGroupRange {
            start: held.start.max(range.start),
            end: held.end.min(range.end),
        };
        let files = dir.join(format!("source-{position}"));
        fetched = fetch(store, layout, snapshot, wanted, files, &sender).await;
        if fetched.is_err() {
            break;
        }
    }
    drop(sender);
    let written = writer.await.map_err(|source| StateError::Task {
        action: "rebuild state",
        source,
    })?;
    fetched.and(written)
}

async fn fetch(
    store: &dyn ObjectStore,
    layout: &Layout,
    snapshot: &KeyedSnapshot,
    wanted: KeyGroupRange,
    files: PathBuf,
    sender: &mpsc::Sender<Source>,
) -> Result<()> {
    match snapshot {
        KeyedSnapshot::Empty => {}
        KeyedSnapshot::Incremental(snapshot) => {
            download(store, layout, snapshot, &files).await?;
            // A receiver that is gone has failed and tells so itself.
            let _ = sender.send(Source::Files(files, wanted)).await;
        }
        KeyedSnapshot::Canonical(snapshot) => {
            let needed_by = format!("savepoint {}", snapshot.savepoint);
            let needed_by = needed_by.as_str();
            for part in &snapshot.parts {
                let from = snapshot.part_path(layout, part);
                let digest = Digest {
                    bytes: part.bytes,
                    crc32: part.crc32,
                };
                let content = get_bytes(store, &from, Expected { digest, needed_by }).await?;
                let part = Source::Part(from.to_string(), content, wanted);
                let _ = sender.send(part).await;
            }
        }
    }
    Ok(())
}

fn write_sources(dir: &FilePath, mut sources: mpsc::Receiver<Source>) -> Result<()> {
    let budget = StateBudget::new(RESTORE_BUDGET);
    let mut builder = Builder {
        store: SlotStore::open(dir, &budget)?,
        options: budget.db_options(),
        scratch: dir.join("rebuild"),
        table: String::new(),
        columns: Columns::default(),
    };
    while let Some(source) = sources.blocking_recv() {
        match source {
            Source::Files(files, wanted) => {
                let bounds = (wanted.start.to_be_bytes(), wanted.end.to_be_bytes());
                read_snapshot_files(&files, Some(bounds), &mut |table, key, stored| {
                    builder.push(table, key, stored)?;
                    Ok(true)
                })?;
                fs::remove_dir_all(&files).at("remove", &files)?;
            }
            Source::Part(object, content, wanted) => {
                canonical::read_part(&object, &content, &mut |table, key, stored| {
                    match value::split_key(key) {
                        Some((group, _)) if wanted.contains(group) => {
                            builder.push(table, key, stored)
                        }
                        Some(_) => Ok(()),
                        None => Err(StateError::Corrupt {
                            object: object.clone(),
                            reason: "it holds a key without a key group".into(),
                        }),
                    }
                })?;
            }
        }
        // Sources overlap in tables, not in keys.
        builder.flush()?;
    }
    Ok(())
}

/// Collects entries that come table by table and writes them as sorted files.
struct Builder {
    store: SlotStore,
    options: rocksdb::Options,
    scratch: PathBuf,
    table: String,
    columns: Columns,
}

impl Builder {
    fn push(&mut self, table: &str, key: &[u8], stored: &[u8]) -> Result<()> {
        if self.table != table || self.columns.bytes() as u64 >= SST_BYTES {
            self.flush()?;
            table.clone_into(&mut self.table);
        }
        self.columns.push_stored(key, stored);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        self.store.open_table(&self.table, 0)?;
        let db = &self.store.inner().db;
        sorted_run::ingest(
            db,
            &family(db, &self.table)?,
            &self.options,
            &self.scratch,
            &self.columns,
            &self.columns.sorted(),
        )?;
        self.columns.clear();
        Ok(())
    }
}
