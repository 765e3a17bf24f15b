//! Writes a local snapshot as a canonical savepoint: every table in key order, in parts.

use std::path::Path as FilePath;

use millrace_types::{ExecutionId, SavepointId, SubtaskIndex};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use rocksdb::{DB, ReadOptions};
use tokio::sync::mpsc;

use crate::{
    budget::{StateBudget, TtlClock},
    canonical::{Part, PartWriter},
    error::{Result, RocksContext, StateError, StorageContext},
    frozen::LocalSnapshot,
    layout::Layout,
    snapshot::{CanonicalPart, CanonicalSnapshot, KeyedSnapshot},
    store::{DEFAULT_TABLE, family},
};

/// Memory for reading a snapshot's files.
const READ_BUDGET: usize = 8 << 20;

/// Writes everything in `local` under the savepoint's directory. Expired entries go along: the
/// job that starts from it may have another TTL.
pub async fn write_canonical(
    store: &dyn ObjectStore,
    layout: &Layout,
    local: LocalSnapshot,
    savepoint: SavepointId,
    execution: ExecutionId,
    subtask: SubtaskIndex,
) -> Result<KeyedSnapshot> {
    if local.is_empty() {
        return Ok(KeyedSnapshot::Empty);
    }
    let prefix = format!("{execution}-{}-{subtask}", local.checkpoint());
    // One part being written while the next is made.
    let (sender, mut parts) = mpsc::channel(1);
    let reader = tokio::task::spawn_blocking(move || read_tables(&local, &sender));
    let mut snapshot = CanonicalSnapshot {
        savepoint,
        parts: Vec::new(),
    };
    while let Some(part) = parts.recv().await {
        let part: Part = part;
        let described = CanonicalPart {
            file: format!("{prefix}-{:05}.state", snapshot.parts.len()),
            entries: part.entries,
            bytes: part.content.len() as u64,
            crc32: crc32fast::hash(&part.content),
        };
        let to = snapshot.part_path(layout, &described);
        store
            .put(&to, PutPayload::from(part.content))
            .await
            .on("write", &to)?;
        snapshot.parts.push(described);
    }
    reader.await.map_err(|source| StateError::Task {
        action: "read a local snapshot",
        source,
    })??;
    if snapshot.parts.is_empty() {
        return Ok(KeyedSnapshot::Empty);
    }
    Ok(KeyedSnapshot::Canonical(snapshot))
}

fn read_tables(local: &LocalSnapshot, parts: &mpsc::Sender<Part>) -> Result<()> {
    let mut writer = PartWriter::new();
    // The receiver goes only when its upload failed, and that error is the one to tell.
    let mut open = true;
    read_snapshot_files(local.dir(), None, &mut |table, key, value| {
        if let Some(part) = writer.push(table, key, value)? {
            open = open && parts.blocking_send(part).is_ok();
        }
        Ok(open)
    })?;
    if open && let Some(part) = writer.finish()? {
        // As above.
        let _ = parts.blocking_send(part);
    }
    Ok(())
}

/// Receives table, stored key and stored value; `false` stops the reading.
pub(crate) type StoredVisitor<'a> = dyn FnMut(&str, &[u8], &[u8]) -> Result<bool> + 'a;

/// Visits the entries of RocksDB files that no store has open, table by table in key order,
/// within `bounds` (start, exclusive end) of the stored keys.
pub(crate) fn read_snapshot_files(
    dir: &FilePath,
    bounds: Option<([u8; 2], [u8; 2])>,
    visit: &mut StoredVisitor<'_>,
) -> Result<()> {
    let budget = StateBudget::new(READ_BUDGET);
    let options = budget.db_options();
    let opening = || format!("open the snapshot in {}", dir.display());
    let mut names = DB::list_cf(&options, dir).doing(opening)?;
    names.sort();
    let clock = TtlClock::new(Default::default());
    let families = names
        .iter()
        .map(|name| (name, budget.table_options(&clock)));
    let db = DB::open_cf_with_opts_for_read_only(&options, dir, families, false).doing(opening)?;
    for name in names.iter().filter(|name| *name != DEFAULT_TABLE) {
        let family = family(&db, name)?;
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(1 << 20);
        if let Some((start, end)) = bounds {
            options.set_iterate_lower_bound(start);
            options.set_iterate_upper_bound(end);
        }
        let mut rows = db.raw_iterator_cf_opt(&family, options);
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            if !visit(name, key, value)? {
                return Ok(());
            }
            rows.next();
        }
        rows.status().doing(|| format!("read table `{name}`"))?;
    }
    Ok(())
}
