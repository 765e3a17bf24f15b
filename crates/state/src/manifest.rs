//! The manifest: the one object that makes a snapshot exist. Written once, never changed.

use std::collections::HashSet;

use millrace_dataflow::{ENCODING_VERSION, KeyGroupRange, StateId};
use millrace_types::{
    CheckpointId, ExecutionId, Fingerprint, JobId, SavepointId, SubtaskIndex, TenantName,
};
use object_store::{
    Error as StorageError, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path,
};
use serde::{Deserialize, Serialize};

use crate::{
    base64_bytes,
    error::{Result, StateError, StorageContext},
    layout::Layout,
    snapshot::{KeyedSnapshot, SharedFile},
};

/// The format this version writes and reads.
pub const MANIFEST_FORMAT: u32 = 1;
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// Everything a job needs to start from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotManifest {
    /// [`MANIFEST_FORMAT`].
    pub format: u32,
    pub tenant: TenantName,
    pub job: JobId,
    /// The barrier, also for a savepoint.
    pub checkpoint: CheckpointId,
    pub kind: SnapshotKind,
    /// Epoch milliseconds.
    pub created_at_ms: i64,
    /// The attempt that took it.
    pub execution: ExecutionId,
    /// Of the dataflow that ran.
    pub fingerprint: Fingerprint,
    pub parallelism: u32,
    pub max_parallelism: u32,
    /// [`ENCODING_VERSION`].
    pub key_encoding: u8,
    /// One per subtask, in their order.
    pub slots: Vec<SlotSnapshot>,
}

/// What kind of snapshot it is, hence where its manifest lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotKind {
    Checkpoint,
    Savepoint(SavepointId),
}

/// One slot's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSnapshot {
    pub subtask: SubtaskIndex,
    pub key_groups: KeyGroupRange,
    pub keyed: KeyedSnapshot,
    pub operator_state: Vec<OperatorStateItem>,
}

/// State of an operator that is not keyed, such as the positions of a source's splits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorStateItem {
    pub state_id: StateId,
    /// Which of the operator's states.
    pub name: String,
    /// Base64 in JSON.
    #[serde(with = "base64_bytes")]
    pub items: Vec<Vec<u8>>,
}

impl SnapshotManifest {
    /// Where it lies.
    pub fn path(&self, layout: &Layout) -> Path {
        match self.kind {
            SnapshotKind::Checkpoint => layout.checkpoint_manifest(self.checkpoint),
            SnapshotKind::Savepoint(savepoint) => layout.savepoint_manifest(savepoint),
        }
    }

    /// The keyed part, as [`restore`](crate::restore) takes it.
    pub fn keyed(&self) -> Vec<(KeyGroupRange, KeyedSnapshot)> {
        self.slots
            .iter()
            .map(|slot| (slot.key_groups, slot.keyed.clone()))
            .collect()
    }

    /// Bytes of keyed state, shared files included.
    pub fn state_bytes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.keyed.bytes()).sum()
    }

    /// Every file in `shared/` that it needs.
    pub fn shared_files(&self) -> impl Iterator<Item = &SharedFile> {
        self.slots.iter().flat_map(|slot| slot.keyed.shared_files())
    }

    /// Checks what a restore relies on.
    fn check(&self, object: &Path) -> Result<()> {
        let unsupported = |what, found: String, expected: String| {
            Err(StateError::UnsupportedFormat {
                object: object.to_string(),
                what,
                found,
                expected,
            })
        };
        if self.key_encoding != ENCODING_VERSION {
            return unsupported(
                "key encoding",
                self.key_encoding.to_string(),
                ENCODING_VERSION.to_string(),
            );
        }
        let mut next = 0;
        for slot in &self.slots {
            if u32::from(slot.key_groups.start) != next
                || slot.key_groups.end < slot.key_groups.start
            {
                break;
            }
            next = u32::from(slot.key_groups.end);
        }
        if next != self.max_parallelism {
            return Err(StateError::Corrupt {
                object: object.to_string(),
                reason: format!(
                    "its slots hold the key groups up to {next}, not {} in order",
                    self.max_parallelism
                ),
            });
        }
        if self.slots.len() as u64 != u64::from(self.parallelism) {
            return Err(StateError::Corrupt {
                object: object.to_string(),
                reason: format!(
                    "it holds {} slots, its parallelism is {}",
                    self.slots.len(),
                    self.parallelism
                ),
            });
        }
        let mut subtasks = HashSet::new();
        if let Some(twice) = self
            .slots
            .iter()
            .find(|slot| !subtasks.insert(slot.subtask))
        {
            return Err(StateError::Corrupt {
                object: object.to_string(),
                reason: format!("it names subtask {} twice", twice.subtask),
            });
        }
        Ok(())
    }
}

/// Writes the manifest unless it exists. That it exists with the same content is fine (a
/// repeated attempt); any other content means that somebody else completed the snapshot:
/// [`StateError::Fenced`].
pub async fn write(
    store: &dyn ObjectStore,
    layout: &Layout,
    manifest: &SnapshotManifest,
) -> Result<()> {
    let path = manifest.path(layout);
    manifest.check(&path)?;
    let content = serde_json::to_vec_pretty(manifest).map_err(|error| StateError::Corrupt {
        object: path.to_string(),
        reason: format!("it cannot be written as JSON: {error}"),
    })?;
    if content.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(StateError::Corrupt {
            object: path.to_string(),
            reason: format!(
                "it would be {} bytes, and at most {MAX_MANIFEST_BYTES} can be read back: operators \
                 keep too much outside of their tables",
                content.len()
            ),
        });
    }
    let put = store
        .put_opts(
            &path,
            PutPayload::from(content.clone()),
            PutOptions::from(PutMode::Create),
        )
        .await;
    match put {
        Ok(_) => Ok(()),
        Err(StorageError::AlreadyExists { .. } | StorageError::Precondition { .. }) => {
            let existing = read_object(store, &path).await?;
            if existing == content {
                Ok(())
            } else {
                Err(StateError::Fenced {
                    object: path.to_string(),
                })
            }
        }
        Err(error) => Err(error).on("write", &path),
    }
}

/// Reads and checks the manifest at [`Layout::checkpoint_manifest`] or
/// [`Layout::savepoint_manifest`].
pub async fn read(store: &dyn ObjectStore, path: &Path) -> Result<SnapshotManifest> {
    let content = read_object(store, path).await?;
    parse(path, &content)
}

async fn read_object(store: &dyn ObjectStore, path: &Path) -> Result<bytes::Bytes> {
    let object = match store.get(path).await {
        Err(StorageError::NotFound { .. }) => {
            return Err(StateError::MissingObject {
                object: path.to_string(),
                needed_by: "the snapshot it describes".into(),
            });
        }
        other => other.on("read", path)?,
    };
    if object.meta.size > MAX_MANIFEST_BYTES {
        return Err(StateError::Corrupt {
            object: path.to_string(),
            reason: format!("a manifest of {} bytes cannot be", object.meta.size),
        });
    }
    object.bytes().await.on("read", path)
}

pub(crate) fn parse(path: &Path, content: &[u8]) -> Result<SnapshotManifest> {
    // The format first, so that a manifest of another one is called that, not damaged.
    #[derive(Deserialize)]
    struct Tagged {
        format: u32,
    }
    let damaged = |error: serde_json::Error| StateError::Corrupt {
        object: path.to_string(),
        reason: format!("it is not a manifest: {error}"),
    };
    let tagged: Tagged = serde_json::from_slice(content).map_err(damaged)?;
    if tagged.format != MANIFEST_FORMAT {
        return Err(StateError::UnsupportedFormat {
            object: path.to_string(),
            what: "manifest format",
            found: tagged.format.to_string(),
            expected: MANIFEST_FORMAT.to_string(),
        });
    }
    let manifest: SnapshotManifest = serde_json::from_slice(content).map_err(damaged)?;
    manifest.check(path)?;
    Ok(manifest)
}
