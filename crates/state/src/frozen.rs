//! What a barrier leaves to be done off the slot's thread: writing the frozen deltas and
//! cutting a local snapshot of hard links.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use millrace_types::CheckpointId;
use rocksdb::checkpoint::Checkpoint;

use crate::{
    error::{IoContext, Result, RocksContext, StateError},
    store::StoreInner,
};

/// The slot's state as of one barrier, not yet on disk. Dropping it gives the snapshot up; its
/// deltas stay readable and are written with the next one.
pub struct FrozenSnapshot {
    store: Arc<StoreInner>,
    sequence: u64,
    checkpoint: CheckpointId,
}

impl FrozenSnapshot {
    pub(crate) fn new(store: Arc<StoreInner>, sequence: u64, checkpoint: CheckpointId) -> Self {
        FrozenSnapshot {
            store,
            sequence,
            checkpoint,
        }
    }

    pub fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// Blocking. Writes this and all earlier deltas into RocksDB, releases them, and places a
    /// hard-linked copy of the files in `dir`, which is replaced if it exists and should be on
    /// the store's file system. Fails with [`StateError::Superseded`] when a later snapshot of
    /// the slot was persisted before.
    pub fn persist(self, dir: &Path) -> Result<LocalSnapshot> {
        let _writing = self.store.writing.lock();
        if !self.store.write_for_snapshot(self.sequence)? {
            return Err(StateError::Superseded {
                checkpoint: self.checkpoint,
            });
        }
        if dir.exists() {
            fs::remove_dir_all(dir).at("clear", dir)?;
        }
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        let cut = || format!("cut a snapshot into {}", dir.display());
        // The guard comes first so that a half-made directory goes when the cut fails.
        let mut snapshot = LocalSnapshot {
            dir: dir.to_path_buf(),
            checkpoint: self.checkpoint,
            sorted_files: Vec::new(),
            metadata: Vec::new(),
        };
        Checkpoint::new(&self.store.db)
            .doing(cut)?
            .create_checkpoint(dir)
            .doing(cut)?;
        snapshot.list()?;
        Ok(snapshot)
    }
}

impl Drop for FrozenSnapshot {
    fn drop(&mut self) {
        self.store.release(self.sequence);
    }
}

/// Frozen deltas that only have to leave memory.
pub struct Spill {
    store: Arc<StoreInner>,
    sequence: u64,
}

impl Spill {
    pub(crate) fn new(store: Arc<StoreInner>, sequence: u64) -> Self {
        Spill { store, sequence }
    }

    /// Blocking. Writes the deltas into RocksDB and releases them, except those that a snapshot
    /// still to be persisted must not contain: they go with that snapshot's successor.
    pub fn write(self) -> Result<()> {
        let _writing = self.store.writing.lock();
        self.store.write_for_spill(self.sequence)
    }
}

/// A file of a local snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A consistent copy of a slot's files, removed when dropped.
#[derive(Debug)]
pub struct LocalSnapshot {
    dir: PathBuf,
    checkpoint: CheckpointId,
    pub(crate) sorted_files: Vec<LocalFile>,
    pub(crate) metadata: Vec<LocalFile>,
}

impl LocalSnapshot {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let files = self.sorted_files.iter().chain(&self.metadata);
        files.map(|file| file.bytes).sum()
    }

    /// Whether the slot holds no state at all.
    pub fn is_empty(&self) -> bool {
        self.sorted_files.is_empty()
    }

    /// Keeps what a later open needs: sorted files, `CURRENT` and `MANIFEST-*`. Logs are empty
    /// (nothing is written through them) and options come from the code.
    fn list(&mut self) -> Result<()> {
        for entry in fs::read_dir(&self.dir).at("list", &self.dir)? {
            let entry = entry.at("list", &self.dir)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = entry.metadata().at("inspect", &entry.path())?.len();
            if name.ends_with(".sst") {
                self.sorted_files.push(LocalFile { name, bytes });
            } else if name == "CURRENT" || name.starts_with("MANIFEST-") {
                self.metadata.push(LocalFile { name, bytes });
            }
        }
        self.sorted_files.sort_by(|a, b| a.name.cmp(&b.name));
        self.metadata.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }
}

impl Drop for LocalSnapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(dir = %self.dir.display(), %error, "a local snapshot could not be removed");
        }
    }
}
