//! What jobs measure and print right now, kept in memory for the API: drivers write it, requests
//! read it. Nothing here is the truth, and nothing of it survives the process.

mod metrics;
mod output;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use millrace_types::{
    ExecutionId, JobId, OperatorMetrics, SubtaskMetrics, WorkerId, WorkerMetrics,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

pub use output::OutputRow;
pub(crate) use output::Preview;

use metrics::MetricsBoard;
use output::OutputTap;

/// The latest measurements of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobMetrics {
    pub execution: ExecutionId,
    pub at: DateTime<Utc>,
    /// In the order of the graph's nodes.
    pub operators: Vec<OperatorMetrics>,
    pub workers: Vec<(WorkerId, WorkerMetrics)>,
}

/// The live views of all jobs that this replica drives. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct LiveJobs {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<HashMap<JobId, Arc<LiveJob>>>,
    woken: Mutex<HashSet<JobId>>,
    wake: Notify,
}

/// One job's live view.
#[derive(Default)]
pub(crate) struct LiveJob {
    metrics: Mutex<MetricsBoard>,
    output: OutputTap,
}

impl LiveJobs {
    /// Tells the driver that something about the job has changed.
    pub(crate) fn wake(&self, job: JobId) {
        self.shared.woken.lock().insert(job);
        self.shared.wake.notify_one();
    }

    /// The jobs woken since the last call; waits for one.
    pub(crate) async fn woken(&self) -> HashSet<JobId> {
        loop {
            let woken = std::mem::take(&mut *self.shared.woken.lock());
            if !woken.is_empty() {
                return woken;
            }
            self.shared.wake.notified().await;
        }
    }

    /// Absent until the job's workers have measured something.
    pub(crate) fn metrics(&self, job: JobId) -> Option<JobMetrics> {
        self.find(job)?.metrics.lock().latest()
    }

    /// The last rows that the job has printed, and the ones to come. A reader that is too slow
    /// misses some, as the receiver tells.
    pub(crate) fn output(&self, job: JobId) -> Preview {
        self.open(job).output.subscribe()
    }

    /// Every row of the job, for one reader: the job waits for it. Ends after the job has, when
    /// all rows were handed over. Only useful where `lossless_output` is on.
    pub(crate) fn lossless_output(&self, job: JobId) -> mpsc::Receiver<OutputRow> {
        self.open(job).output.take_lossless()
    }

    /// The view of a job, made if it is not there.
    pub(crate) fn open(&self, job: JobId) -> Arc<LiveJob> {
        self.shared.jobs.lock().entry(job).or_default().clone()
    }

    /// The job is deleted.
    pub(crate) fn remove(&self, job: JobId) {
        if let Some(live) = self.shared.jobs.lock().remove(&job) {
            live.output.end();
        }
    }

    fn find(&self, job: JobId) -> Option<Arc<LiveJob>> {
        self.shared.jobs.lock().get(&job).cloned()
    }
}

impl LiveJob {
    /// A new execution begins: what is measured from now on is its.
    pub(crate) fn begin(&self, execution: ExecutionId, operators: Vec<(u32, String)>) {
        self.metrics.lock().begin(execution, operators);
        self.output.begin();
    }

    /// A worker's report.
    pub(crate) fn report(
        &self,
        execution: ExecutionId,
        worker: WorkerId,
        at: DateTime<Utc>,
        subtasks: Vec<SubtaskMetrics>,
        usage: WorkerMetrics,
    ) {
        self.metrics
            .lock()
            .report(execution, worker, at, subtasks, usage);
    }

    /// Rows from a worker, in their order. In lossless mode this waits until the reader has room
    /// for them.
    pub(crate) async fn push_rows(
        &self,
        table: &str,
        subtask: u32,
        rows: Vec<String>,
        lossless: bool,
    ) {
        self.output.push(table, subtask, rows, lossless).await;
    }

    /// Another driver had the job, or a former life of this replica: what was printed then is not
    /// known here.
    pub(crate) fn taken_over(&self) {
        self.output.taken_over();
    }

    /// The job has ended; readers that must see every row learn that there are no more.
    pub(crate) fn end_output(&self) {
        self.output.end();
    }
}
