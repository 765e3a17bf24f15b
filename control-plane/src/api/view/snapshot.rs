//! Checkpoints and savepoints.

use chrono::{DateTime, Utc};
use millrace_types::{
    CheckpointId, CheckpointStatus, ExecutionId, SavepointId, SavepointStatus, VersionNumber,
};
use serde::{Deserialize, Serialize};

/// One checkpoint of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointView {
    pub id: CheckpointId,
    pub status: CheckpointStatus,
    /// The savepoint that it wrote, if it was taken for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<SavepointId>,
    pub execution: ExecutionId,
    pub version: VersionNumber,
    pub started_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Bytes of the whole state.
    pub full_bytes: u64,
    /// Bytes that had not been stored before.
    pub uploaded_bytes: u64,
    /// Milliseconds, each the longest of any slot: until the barrier had come through, for which
    /// the slot stood still, and for writing and uploading.
    pub alignment_ms: u64,
    pub pause_ms: u64,
    pub async_ms: u64,
    /// Object path of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// One savepoint of a job: complete, relocatable and never collected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavepointView {
    pub id: SavepointId,
    pub status: SavepointStatus,
    /// Who asked for it: `request`, `stop` or `upgrade`.
    pub origin: String,
    /// The version whose state it holds.
    pub version: VersionNumber,
    pub created_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
    pub bytes: u64,
    /// Object path of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
