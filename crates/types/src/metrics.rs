//! What operators measure of themselves, as workers report it and the API shows it.
//! Counters count from the start of the execution.

use serde::{Deserialize, Serialize};

/// One operator on one subtask.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubtaskMetrics {
    /// The node of the dataflow.
    pub node: u32,
    pub subtask: u32,
    pub rows_in: u64,
    pub rows_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Nanoseconds spent working on this operator.
    pub busy_nanos: u64,
    /// Nanoseconds in which input was there but an output had no room.
    pub backpressured_nanos: u64,
    /// Nanoseconds without input.
    pub idle_nanos: u64,
    /// Current output watermark in epoch milliseconds; absent before the first.
    pub watermark: Option<i64>,
    /// Rows dropped because their window had closed.
    pub late_rows: u64,
    /// Up to a few late rows, as JSON objects.
    pub late_samples: Vec<String>,
    /// Malformed records met (skipped or sent to dead letters).
    pub bad_records: u64,
    /// Keyed state entries in memory, and their approximate bytes.
    pub state_entries: u64,
    pub state_bytes: u64,
}

/// One operator over all its subtasks, with rates over the last reporting interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorMetrics {
    pub node: u32,
    pub name: String,
    pub rows_in: u64,
    pub rows_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub rows_in_per_second: f64,
    pub rows_out_per_second: f64,
    /// Shares of the busiest subtask's time, each 0 to 1.
    pub busy: f64,
    pub backpressured: f64,
    pub idle: f64,
    /// Least watermark over the subtasks.
    pub watermark: Option<i64>,
    pub late_rows: u64,
    pub late_samples: Vec<String>,
    pub bad_records: u64,
    pub state_entries: u64,
    pub state_bytes: u64,
    pub subtasks: Vec<SubtaskMetrics>,
}

/// What one worker process uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerMetrics {
    pub resident_bytes: u64,
    pub cpu_millis: u64,
}
