//! What a manifest says about one slot's keyed state, and what a slot remembers about files it
//! need not upload again.

use std::collections::BTreeMap;

use millrace_types::{CheckpointId, SavepointId};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, SharedFileId};

/// One slot's keyed state in object storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum KeyedSnapshot {
    /// The slot held nothing.
    Empty,
    /// RocksDB files, shared with other checkpoints of the job.
    Incremental(IncrementalSnapshot),
    /// A complete copy in Millrace's own format.
    Canonical(CanonicalSnapshot),
}

/// See [`KeyedSnapshot::Incremental`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementalSnapshot {
    pub checkpoint: CheckpointId,
    /// The slot's directory under `chk-{checkpoint}/`, `{execution}-{subtask}`.
    pub directory: String,
    /// In `shared/`.
    pub files: Vec<SharedFile>,
    /// In the slot's directory.
    pub metadata: Vec<MetadataFile>,
}

/// A sorted file in `shared/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    pub id: SharedFileId,
    /// Its name in the RocksDB directory.
    pub name: String,
    pub bytes: u64,
    pub crc32: u32,
}

/// A small file that belongs to one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataFile {
    pub name: String,
    pub bytes: u64,
    pub crc32: u32,
}

/// See [`KeyedSnapshot::Canonical`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalSnapshot {
    pub savepoint: SavepointId,
    /// In key order within each table.
    pub parts: Vec<CanonicalPart>,
}

/// One object of a canonical snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalPart {
    /// Its name in the savepoint's directory.
    pub file: String,
    pub entries: u64,
    pub bytes: u64,
    pub crc32: u32,
}

impl KeyedSnapshot {
    /// Bytes in object storage, shared files included.
    pub fn bytes(&self) -> u64 {
        match self {
            KeyedSnapshot::Empty => 0,
            KeyedSnapshot::Incremental(snapshot) => {
                let files: u64 = snapshot.files.iter().map(|file| file.bytes).sum();
                let metadata: u64 = snapshot.metadata.iter().map(|file| file.bytes).sum();
                files + metadata
            }
            KeyedSnapshot::Canonical(snapshot) => {
                snapshot.parts.iter().map(|part| part.bytes).sum()
            }
        }
    }

    /// Bytes that this checkpoint was the first to upload.
    pub fn new_bytes(&self) -> u64 {
        match self {
            KeyedSnapshot::Empty | KeyedSnapshot::Canonical(_) => self.bytes(),
            KeyedSnapshot::Incremental(snapshot) => {
                let reused = snapshot
                    .files
                    .iter()
                    .filter(|file| file.id.checkpoint != snapshot.checkpoint);
                self.bytes() - reused.map(|file| file.bytes).sum::<u64>()
            }
        }
    }

    /// The files in `shared/` that it needs.
    pub fn shared_files(&self) -> &[SharedFile] {
        match self {
            KeyedSnapshot::Incremental(snapshot) => &snapshot.files,
            KeyedSnapshot::Empty | KeyedSnapshot::Canonical(_) => &[],
        }
    }
}

impl IncrementalSnapshot {
    pub(crate) fn metadata_path(&self, layout: &Layout, file: &MetadataFile) -> Path {
        layout
            .checkpoint_dir(self.checkpoint)
            .join(self.directory.as_str())
            .join(file.name.as_str())
    }
}

impl CanonicalSnapshot {
    pub(crate) fn part_path(&self, layout: &Layout, part: &CanonicalPart) -> Path {
        layout
            .savepoint_dir(self.savepoint)
            .join(part.file.as_str())
    }
}

/// The files of a slot's RocksDB that are in `shared/` already, by their local name. Belongs to
/// one store of one slot; a new store starts with what its restore returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadedFiles {
    /// The job whose `shared/` they lie in: another job must not refer to them.
    home: Option<Path>,
    files: BTreeMap<String, SharedFile>,
}

impl UploadedFiles {
    pub(crate) fn of(layout: &Layout, files: &[SharedFile]) -> Self {
        UploadedFiles {
            home: Some(layout.shared_dir()),
            files: files
                .iter()
                .map(|file| (file.name.clone(), file.clone()))
                .collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Forgets everything that does not lie in this job's `shared/`.
    pub(crate) fn settle(&mut self, layout: &Layout) {
        let home = layout.shared_dir();
        if self.home.as_ref() != Some(&home) {
            self.files.clear();
            self.home = Some(home);
        }
    }

    pub(crate) fn get(&self, name: &str, bytes: u64) -> Option<&SharedFile> {
        self.files.get(name).filter(|file| file.bytes == bytes)
    }

    pub(crate) fn insert(&mut self, file: SharedFile) {
        self.files.insert(file.name.clone(), file);
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.files.retain(|name, _| keep(name));
    }
}
