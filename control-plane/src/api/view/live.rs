//! What a job does right now: events, metrics, output rows and workers.

use chrono::{DateTime, Utc};
use millrace_types::{
    ExecutionId, JobId, JobState, OperatorMetrics, TenantName, WorkerId, WorkerMetrics,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// Grows with time; the id of the server-sent event.
    pub sequence: u64,
    pub at: DateTime<Utc>,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// Stable, such as `execution-failed`.
    pub kind: String,
    pub message: String,
}

/// The latest measurements of a job's operators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobMetricsView {
    /// The execution that was measured; absent when none reported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<DateTime<Utc>>,
    /// In the order of the graph's nodes.
    pub operators: Vec<OperatorMetrics>,
}

/// One row that the job wrote to a print or collect sink; data of the server-sent event `row`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRowView {
    /// The sink's table.
    pub table: String,
    pub subtask: u32,
    /// `+I`, `-U`, `+U` or `-D`.
    pub kind: String,
    /// The row's columns by name.
    #[schema(value_type = Object)]
    pub row: Box<RawValue>,
}

/// Data of the server-sent event `dropped`: the reader was too slow for this many rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputDropped {
    pub dropped: u64,
}

/// Data of the server-sent event `gap`: rows before this are not known here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputGap {
    pub reason: String,
}

/// Data of the last server-sent event `moved`: another replica of the service drives the job and
/// has its rows from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputMoved {
    /// The name of that replica: its machine and data directory.
    pub replica: String,
}

/// Data of the last server-sent event `end`: the job will write no more rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputEnd {
    pub state: JobState,
}

/// A worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    pub id: WorkerId,
    pub job: JobId,
    pub tenant: TenantName,
    /// `host:port` of its gRPC server, once it has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub slots: u32,
    pub memory_mib: u32,
    /// `starting`, `registered` or `gone`.
    pub state: String,
    /// Why it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_reason: Option<String>,
    /// What it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    pub started_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<WorkerMetrics>,
}
