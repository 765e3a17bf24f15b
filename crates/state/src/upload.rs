//! Uploads a local snapshot: only the sorted files that object storage does not have yet, and
//! RocksDB's small metadata.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use millrace_types::{CheckpointId, ExecutionId, SubtaskIndex};
use object_store::ObjectStore;

use crate::{
    error::{Result, StateError},
    frozen::LocalSnapshot,
    layout::{Layout, SharedFileId},
    snapshot::{IncrementalSnapshot, KeyedSnapshot, MetadataFile, SharedFile, UploadedFiles},
    transfer::{CONCURRENCY, put_file},
};

/// Uploads what is new in `local` and says what the snapshot consists of. Can be repeated after
/// a failure with the same or a later snapshot: `uploads` gains a file only once it is whole in
/// the store.
pub async fn upload_incremental(
    store: &dyn ObjectStore,
    layout: &Layout,
    local: LocalSnapshot,
    uploads: &mut UploadedFiles,
    checkpoint: CheckpointId,
    execution: ExecutionId,
    subtask: SubtaskIndex,
) -> Result<KeyedSnapshot> {
    uploads.settle(layout);
    if local.is_empty() {
        uploads.retain(|_| false);
        return Ok(KeyedSnapshot::Empty);
    }
    let local = &local;
    let mut new_files = Vec::new();
    for file in &local.sorted_files {
        if uploads.get(&file.name, file.bytes).is_none() {
            let id = SharedFileId {
                execution,
                subtask,
                checkpoint,
                number: file_number(&file.name)?,
            };
            new_files.push((file.name.clone(), id));
        }
    }
    let mut sent = stream::iter(new_files.into_iter().map(|(name, id)| async move {
        let digest = put_file(store, &local.dir().join(&name), &layout.shared_file(&id)).await?;
        Ok::<_, StateError>(SharedFile {
            id,
            name,
            bytes: digest.bytes,
            crc32: digest.crc32,
        })
    }))
    .buffer_unordered(CONCURRENCY);
    while let Some(file) = sent.try_next().await? {
        uploads.insert(file);
    }
    drop(sent);

    let directory = format!("{execution}-{subtask}");
    let target = layout.checkpoint_dir(checkpoint).join(directory.as_str());
    let target = &target;
    // By value: borrowed items would make the future impossible to spawn.
    let metadata = stream::iter(local.metadata.clone().into_iter().map(|file| async move {
        let to = target.clone().join(file.name.as_str());
        let digest = put_file(store, &local.dir().join(&file.name), &to).await?;
        Ok::<_, StateError>(MetadataFile {
            name: file.name,
            bytes: digest.bytes,
            crc32: digest.crc32,
        })
    }))
    .buffered(CONCURRENCY)
    .try_collect()
    .await?;

    // A file that RocksDB has dropped never comes back.
    let live: BTreeSet<&str> = local
        .sorted_files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    uploads.retain(|name| live.contains(name));
    let files = local
        .sorted_files
        .iter()
        .filter_map(|file| uploads.get(&file.name, file.bytes).cloned())
        .collect();
    Ok(KeyedSnapshot::Incremental(IncrementalSnapshot {
        checkpoint,
        directory,
        files,
        metadata,
    }))
}

fn file_number(name: &str) -> Result<u64> {
    name.strip_suffix(".sst")
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| StateError::Corrupt {
            object: name.to_owned(),
            reason: "it is not a numbered sorted file".into(),
        })
}
