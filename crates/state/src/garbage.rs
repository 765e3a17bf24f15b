//! Removes what no retained snapshot needs.
//!
//! Why a sweep cannot take a file from under a running job: a sorted file named after
//! checkpoint C existed in its slot's RocksDB by C. If it is still there at a later checkpoint
//! L that completed, L's manifest names it. So a file older than the newest completed
//! checkpoint that no retained manifest names has left its slot for good, or belongs to an
//! attempt that is over. The snapshot a running job was restored from must be among the
//! retained ones until its first own checkpoint completes.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use millrace_types::{CheckpointId, SavepointId};
use object_store::{ObjectStore, ObjectStoreExt, path::Path};

use crate::{
    error::{Result, StateError, StorageContext},
    layout::{CHECKPOINT_PREFIX, Layout, SharedFileId},
    manifest::{SnapshotKind, SnapshotManifest},
    transfer::CONCURRENCY,
};

/// Deletes a checkpoint that is no longer retained: its directory, and the shared files that
/// none of the `retained` ones needs. Can be repeated; the manifest goes first, so what is left
/// of it is never taken for a checkpoint. Returns the number of objects deleted.
pub async fn retire(
    store: &dyn ObjectStore,
    layout: &Layout,
    retired: &SnapshotManifest,
    retained: &[SnapshotManifest],
) -> Result<usize> {
    delete(store, &[retired.path(layout)]).await?;
    let needed = needed_files(retained);
    let unneeded: HashSet<Path> = retired
        .shared_files()
        .filter(|file| !needed.contains(&file.id))
        .map(|file| layout.shared_file(&file.id))
        .collect();
    let unneeded: Vec<Path> = unneeded.into_iter().collect();
    delete(store, &unneeded).await?;
    let rest = match retired.kind {
        SnapshotKind::Checkpoint => {
            delete_dir(store, &layout.checkpoint_dir(retired.checkpoint)).await?
        }
        SnapshotKind::Savepoint(savepoint) => {
            delete_dir(store, &layout.savepoint_dir(savepoint)).await?
        }
    };
    Ok(1 + unneeded.len() + rest)
}

/// Deletes a savepoint. Nothing else refers to its objects.
pub async fn delete_savepoint(
    store: &dyn ObjectStore,
    layout: &Layout,
    savepoint: SavepointId,
) -> Result<()> {
    delete(store, &[layout.savepoint_manifest(savepoint)]).await?;
    delete_dir(store, &layout.savepoint_dir(savepoint)).await?;
    Ok(())
}

/// Deletes everything the job has in object storage, savepoints included.
pub async fn delete_job(store: &dyn ObjectStore, layout: &Layout) -> Result<()> {
    delete_dir(store, &layout.job_dir()).await?;
    Ok(())
}

/// Deletes what failed attempts left behind: shared files that no `retained` manifest names, and
/// directories of checkpoints not among them, in both cases only of checkpoints before
/// `newest_completed` and before the newest retained checkpoint (a savepoint does not count: its
/// manifest names no shared files, so it says nothing about them). Savepoints are never touched.
/// Returns the number of objects deleted.
pub async fn sweep(
    store: &dyn ObjectStore,
    layout: &Layout,
    retained: &[SnapshotManifest],
    newest_completed: CheckpointId,
) -> Result<usize> {
    let kept: HashSet<CheckpointId> = retained
        .iter()
        .filter(|manifest| manifest.kind == SnapshotKind::Checkpoint)
        .map(|manifest| manifest.checkpoint)
        .collect();
    let Some(newest_kept) = kept.iter().max() else {
        return Ok(0);
    };
    let before = newest_completed.min(*newest_kept);
    let needed = needed_files(retained);
    let shared = layout.shared_dir();
    let listed = list(store, &shared).await?;
    let dead: Vec<Path> = listed
        .into_iter()
        .filter(|path| {
            // Names that are not ours are left alone.
            let id = path
                .filename()
                .and_then(|name| name.strip_suffix(".sst"))
                .and_then(|id| id.parse::<SharedFileId>().ok());
            id.is_some_and(|id| id.checkpoint < before && !needed.contains(&id))
        })
        .collect();
    delete(store, &dead).await?;
    let mut deleted = dead.len();

    let job = layout.job_dir();
    let dirs = store
        .list_with_delimiter(Some(&job))
        .await
        .on("list", &job)?
        .common_prefixes;
    for dir in dirs {
        let checkpoint = dir
            .filename()
            .and_then(|name| name.strip_prefix(CHECKPOINT_PREFIX))
            .and_then(|number| number.parse().ok())
            .map(CheckpointId);
        let Some(checkpoint) = checkpoint else {
            continue;
        };
        if checkpoint < before && !kept.contains(&checkpoint) {
            let manifest = layout.checkpoint_manifest(checkpoint);
            delete(store, &[manifest]).await?;
            deleted += delete_dir(store, &layout.checkpoint_dir(checkpoint)).await?;
        }
    }
    Ok(deleted)
}

fn needed_files(retained: &[SnapshotManifest]) -> HashSet<&SharedFileId> {
    retained
        .iter()
        .flat_map(SnapshotManifest::shared_files)
        .map(|file| &file.id)
        .collect()
}

async fn delete_dir(store: &dyn ObjectStore, dir: &Path) -> Result<usize> {
    let objects = list(store, dir).await?;
    delete(store, &objects).await?;
    Ok(objects.len())
}

async fn list(store: &dyn ObjectStore, dir: &Path) -> Result<Vec<Path>> {
    store
        .list(Some(dir))
        .map_ok(|object| object.location)
        .try_collect()
        .await
        .on("list", dir)
}

/// Objects that are gone already are fine.
async fn delete(store: &dyn ObjectStore, objects: &[Path]) -> Result<()> {
    // By value: borrowed items would make the future impossible to spawn.
    stream::iter(objects.iter().cloned().map(|object| async move {
        match store.delete(&object).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok::<_, StateError>(()),
            Err(error) => Err(error).on("delete", &object),
        }
    }))
    .buffer_unordered(2 * CONCURRENCY)
    .try_collect()
    .await
}
