//! From the store's records and the live measurements to what the API shows.

use crate::{
    api::view::{
        CheckpointView, EventView, ExecutionView, JobMetricsView, JobView, OutputRowView,
        SavepointView, VersionView, WorkerView,
    },
    live::{JobMetrics, LiveJobs, OutputRow},
    store::{
        CheckpointRecord, EventRecord, ExecutionRecord, JobRecord, SavepointRecord, VersionRecord,
        WorkerRecord,
    },
};

impl From<JobRecord> for JobView {
    fn from(job: JobRecord) -> Self {
        JobView {
            id: job.id,
            tenant: job.tenant,
            name: job.name,
            state: job.state,
            condition: job.condition,
            reason: job.reason,
            desired: job.desired,
            version: job.version,
            running_version: job.running_version,
            execution: job.execution,
            failures: job.failures,
            spec: job.spec,
            fingerprint: job.fingerprint,
            created_at: job.created_at,
            updated_at: job.updated_at,
            state_diff: Vec::new(),
        }
    }
}

impl From<VersionRecord> for VersionView {
    fn from(version: VersionRecord) -> Self {
        VersionView {
            number: version.number,
            spec: version.spec,
            fingerprint: version.fingerprint,
            created_at: version.created_at,
        }
    }
}

impl From<ExecutionRecord> for ExecutionView {
    fn from(execution: ExecutionRecord) -> Self {
        ExecutionView {
            id: execution.id,
            version: execution.version,
            parallelism: execution.parallelism,
            state: execution.state.as_str().to_owned(),
            started_at: execution.started_at,
            running_at: execution.running_at,
            ended_at: execution.ended_at,
            restored_from: execution.restored_from,
            failure: execution.failure,
        }
    }
}

impl From<CheckpointRecord> for CheckpointView {
    fn from(checkpoint: CheckpointRecord) -> Self {
        CheckpointView {
            id: checkpoint.id,
            status: checkpoint.status,
            savepoint: checkpoint.savepoint,
            execution: checkpoint.execution,
            version: checkpoint.version,
            started_at: checkpoint.started_at,
            completed_at: checkpoint.completed_at,
            full_bytes: checkpoint.full_bytes,
            uploaded_bytes: checkpoint.uploaded_bytes,
            alignment_ms: checkpoint.alignment_ms,
            pause_ms: checkpoint.pause_ms,
            async_ms: checkpoint.async_ms,
            manifest: checkpoint.manifest,
            failure: checkpoint.failure,
        }
    }
}

impl From<SavepointRecord> for SavepointView {
    fn from(savepoint: SavepointRecord) -> Self {
        SavepointView {
            id: savepoint.id,
            status: savepoint.status,
            origin: savepoint.origin.to_string(),
            version: savepoint.version,
            created_at: savepoint.created_at,
            completed_at: savepoint.completed_at,
            bytes: savepoint.full_bytes,
            manifest: savepoint.manifest,
            failure: savepoint.failure,
        }
    }
}

impl From<EventRecord> for EventView {
    fn from(event: EventRecord) -> Self {
        EventView {
            sequence: event.sequence,
            at: event.at,
            severity: event.severity,
            kind: event.kind,
            message: event.message,
        }
    }
}

impl From<JobMetrics> for JobMetricsView {
    fn from(metrics: JobMetrics) -> Self {
        JobMetricsView {
            execution: Some(metrics.execution),
            at: Some(metrics.at),
            operators: metrics.operators,
        }
    }
}

impl TryFrom<&OutputRow> for OutputRowView {
    type Error = serde_json::Error;

    fn try_from(row: &OutputRow) -> Result<Self, serde_json::Error> {
        Ok(OutputRowView {
            table: row.table.clone(),
            subtask: row.subtask,
            kind: row.kind.clone(),
            row: serde_json::value::RawValue::from_string(row.row.clone())?,
        })
    }
}

impl WorkerView {
    /// A worker with what it measured last.
    pub(crate) fn new(worker: WorkerRecord, live: &LiveJobs) -> Self {
        let metrics = live.metrics(worker.job).and_then(|job| {
            job.workers
                .into_iter()
                .find(|(id, _)| *id == worker.id)
                .map(|(_, metrics)| metrics)
        });
        WorkerView {
            id: worker.id,
            job: worker.job,
            tenant: worker.tenant,
            address: worker.address,
            pid: worker.pid,
            slots: worker.slots,
            memory_mib: worker.memory_mib,
            state: worker.state.as_str().to_owned(),
            gone_reason: worker.gone_reason,
            execution: worker.execution,
            started_at: worker.started_at,
            version: worker.version,
            last_seen: worker.last_seen,
            metrics,
        }
    }
}
