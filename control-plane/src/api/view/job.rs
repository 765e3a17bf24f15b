//! Jobs, their versions and their executions.

use chrono::{DateTime, Utc};
use millrace_types::{
    Condition, DesiredState, ExecutionId, Fingerprint, JobId, JobName, JobSpec, JobState,
    TenantName, VersionNumber,
};
use serde::{Deserialize, Serialize};

/// A job as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    pub id: JobId,
    pub tenant: TenantName,
    pub name: JobName,
    pub state: JobState,
    pub condition: Condition,
    /// Why the job is degraded, restarting or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What its owner asked for last.
    pub desired: DesiredState,
    /// The newest version; also the `ETag`.
    pub version: VersionNumber,
    /// The version that runs, while one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_version: Option<VersionNumber>,
    /// The current attempt, while one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Failures since the job was last healthy for a while.
    pub failures: u32,
    pub spec: JobSpec,
    pub fingerprint: Fingerprint,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// Only in the answer to an update of a job that has run: what becomes of its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_diff: Vec<StateChangeView>,
}

/// What becomes of one piece of a job's state when it moves to a new version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateChangeView {
    /// Name of the operator that has it.
    pub node: String,
    /// `kept`, `added` (it starts empty) or `dropped`.
    pub state: String,
    /// In words, such as `MIN(id) starts empty and covers only rows from now on`.
    pub detail: String,
}

/// One version of a job's spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionView {
    pub number: VersionNumber,
    pub spec: JobSpec,
    pub fingerprint: Fingerprint,
    pub created_at: DateTime<Utc>,
}

/// One attempt to run a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    pub id: ExecutionId,
    pub version: VersionNumber,
    pub parallelism: u32,
    /// Such as `running`, `failed` or `replaced`.
    pub state: String,
    pub started_at: DateTime<Utc>,
    /// When all its workers had been deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_at: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
    /// Path of the snapshot it was restored from; absent for an empty start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
    /// Why it ended, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
