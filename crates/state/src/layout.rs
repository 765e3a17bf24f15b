//! Where things lie in object storage. Documented for people in `docs/object-layout.md`.
//!
//! ```text
//! {root}/{tenant}/{job}/shared/{execution}-{subtask}-{checkpoint}-{number}.sst
//! {root}/{tenant}/{job}/chk-{checkpoint}/manifest.json
//! {root}/{tenant}/{job}/chk-{checkpoint}/{execution}-{subtask}/{CURRENT,MANIFEST-*}
//! {root}/{tenant}/{job}/savepoint-{savepoint}/manifest.json
//! {root}/{tenant}/{job}/savepoint-{savepoint}/{execution}-{checkpoint}-{subtask}-{part}.state
//! ```
//!
//! Invariant: whatever an execution writes besides the manifest carries its id, so two attempts
//! never write the same object.

use std::{fmt, str::FromStr};

use millrace_types::{CheckpointId, ExecutionId, JobId, SavepointId, SubtaskIndex, TenantName};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

/// The place of one job's snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Prefix in the store, as [`storage::open`](crate::storage::open) gives it.
    pub root: Path,
    pub tenant: TenantName,
    pub job: JobId,
}

pub(crate) const CHECKPOINT_PREFIX: &str = "chk-";
const MANIFEST: &str = "manifest.json";

impl Layout {
    pub fn new(root: Path, tenant: TenantName, job: JobId) -> Self {
        Layout { root, tenant, job }
    }

    /// The prefix of everything the job owns.
    pub fn job_dir(&self) -> Path {
        self.root
            .clone()
            .join(self.tenant.as_str())
            .join(self.job.to_string())
    }

    pub fn shared_dir(&self) -> Path {
        self.job_dir().join("shared")
    }

    pub fn shared_file(&self, id: &SharedFileId) -> Path {
        self.shared_dir().join(format!("{id}.sst"))
    }

    pub fn checkpoint_dir(&self, checkpoint: CheckpointId) -> Path {
        self.job_dir()
            .join(format!("{CHECKPOINT_PREFIX}{checkpoint}"))
    }

    pub fn savepoint_dir(&self, savepoint: SavepointId) -> Path {
        self.job_dir().join(format!("savepoint-{savepoint}"))
    }

    pub fn checkpoint_manifest(&self, checkpoint: CheckpointId) -> Path {
        self.checkpoint_dir(checkpoint).join(MANIFEST)
    }

    pub fn savepoint_manifest(&self, savepoint: SavepointId) -> Path {
        self.savepoint_dir(savepoint).join(MANIFEST)
    }
}

/// The name of a sorted file in `shared/`: who made it, for which checkpoint, and RocksDB's
/// number for it. Unique over all attempts of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SharedFileId {
    pub execution: ExecutionId,
    pub subtask: SubtaskIndex,
    /// The checkpoint that uploaded it first.
    pub checkpoint: CheckpointId,
    pub number: u64,
}

/// A text that is not a file id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a file id: expected execution-subtask-checkpoint-number")]
pub struct SharedFileIdError(String);

impl fmt::Display for SharedFileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}-{}-{}-{:06}",
            self.execution, self.subtask, self.checkpoint, self.number
        )
    }
}

impl FromStr for SharedFileId {
    type Err = SharedFileIdError;

    fn from_str(text: &str) -> Result<Self, SharedFileIdError> {
        let error = || SharedFileIdError(text.chars().take(120).collect());
        // From the right, since the execution id has dashes of its own.
        let mut parts = text.rsplitn(4, '-');
        let mut part = || parts.next().ok_or_else(error);
        let number = part()?.parse().map_err(|_| error())?;
        let checkpoint = CheckpointId(part()?.parse().map_err(|_| error())?);
        let subtask = SubtaskIndex(part()?.parse().map_err(|_| error())?);
        let execution = part()?.parse().map_err(|_| error())?;
        Ok(SharedFileId {
            execution,
            subtask,
            checkpoint,
            number,
        })
    }
}

impl TryFrom<String> for SharedFileId {
    type Error = SharedFileIdError;
    fn try_from(text: String) -> Result<Self, SharedFileIdError> {
        text.parse()
    }
}

impl From<SharedFileId> for String {
    fn from(id: SharedFileId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTION: &str = "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11";

    #[test]
    fn file_ids_read_back() {
        let text = format!("{EXECUTION}-3-17-000042");
        let id: SharedFileId = text.parse().unwrap();
        assert_eq!(id.execution.to_string(), EXECUTION);
        assert_eq!(
            (id.subtask, id.checkpoint, id.number),
            (SubtaskIndex(3), CheckpointId(17), 42)
        );
        assert_eq!(id.to_string(), text);
        for bad in [
            "",
            "1-2-3",
            "x-1-2-3",
            &format!("{EXECUTION}-1-2-x"),
            EXECUTION,
        ] {
            assert!(bad.parse::<SharedFileId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn objects_lie_where_the_documentation_says() {
        let layout = Layout::new(
            Path::from("a/b"),
            TenantName::new("default").unwrap(),
            EXECUTION.parse().unwrap(),
        );
        let id: SharedFileId = format!("{EXECUTION}-3-17-000042").parse().unwrap();
        let job = format!("a/b/default/{EXECUTION}");
        assert_eq!(
            layout.shared_file(&id).to_string(),
            format!("{job}/shared/{EXECUTION}-3-17-000042.sst")
        );
        assert_eq!(
            layout.checkpoint_manifest(CheckpointId(7)).to_string(),
            format!("{job}/chk-7/manifest.json")
        );
        assert_eq!(
            layout.savepoint_manifest(SavepointId(2)).to_string(),
            format!("{job}/savepoint-2/manifest.json")
        );
    }
}
