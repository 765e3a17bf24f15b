//! What the API shows: one type per resource, apart from the store's records, so that the
//! database can change without the API. The command line reads the same types.

mod from_records;
mod graph;
mod job;
mod live;
mod snapshot;

pub use self::{
    graph::{ColumnView, ExchangeView, GraphView, InputView, NodeView},
    job::{ExecutionView, JobView, StateChangeView, VersionView},
    live::{
        EventView, JobMetricsView, OutputDropped, OutputEnd, OutputGap, OutputMoved, OutputRowView,
        WorkerView,
    },
    snapshot::{CheckpointView, SavepointView},
};
use millrace_types::{StartFrom, StopMode};
use serde::{Deserialize, Serialize};

use crate::problem::ProblemItem;

pub use super::page::Page;

/// How to start a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StartRequest {
    /// `"latest"` (the default), `"empty"`, or `{"savepoint": 3}`.
    pub from: StartFrom,
}

/// How to stop a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StopRequest {
    pub mode: StopMode,
}

/// A script to check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptRequest {
    /// The script: DDL, `SET` and `INSERT INTO` statements in Flink's dialect.
    pub sql: String,
    /// Subtasks of every operator; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
}

/// What is right and wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationView {
    /// Whether it compiles; warnings do not count.
    pub valid: bool,
    pub diagnostics: Vec<ProblemItem>,
}

/// How a script would run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainView {
    /// The plan, one operator per line, consumers above their inputs.
    pub plan: String,
    pub graph: GraphView,
    /// Digest of the compiled dataflow.
    pub fingerprint: String,
    pub warnings: Vec<ProblemItem>,
}

/// Which Millrace this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    pub version: String,
    /// The newest version of the API that is served.
    pub api: String,
}

/// Whether the service, or one part of it, works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthView {
    /// `ok`.
    pub status: String,
}
