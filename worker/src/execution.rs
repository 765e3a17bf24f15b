//! A deployed execution on this worker: its slots, their snapshot pipelines, and the links to
//! the other workers.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use millrace_engine::{
    channel::{BarrierInfo, SlotWaker},
    slot::{Slot, SlotHandle},
    slot_event::{SlotCommand, SlotEvents, SlotFailure, SnapshotTimings},
};
use millrace_protocol::v1::{self, worker_event::Event};
use millrace_state::{FrozenSnapshot, OperatorStateItem, Spill};
use millrace_types::{CheckpointId, ExecutionId, SubtaskMetrics};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    checkpoint::{SnapshotPipeline, TakenSnapshot},
    exchange::OutboundLink,
    output::OutputTap,
    process,
    progress::{Failure, Progress},
    transport::describe,
};

/// A slot looks for commands after every step; one that does not for so long hangs.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);

/// What the slots of an execution report to.
pub(crate) struct SlotReports {
    pub(crate) progress: Arc<Progress>,
    pub(crate) tap: OutputTap,
    /// Where state that has to leave memory is written: slots have threads of their own.
    pub(crate) runtime: tokio::runtime::Handle,
    /// By subtask. Weak, since a slot that is still ending must not keep its store from being
    /// removed.
    pub(crate) pipelines: BTreeMap<u32, Weak<SnapshotPipeline>>,
}

impl SlotEvents for SlotReports {
    fn snapshot_taken(
        &self,
        subtask: u32,
        barrier: BarrierInfo,
        keyed: FrozenSnapshot,
        operator_state: Vec<OperatorStateItem>,
        timings: SnapshotTimings,
    ) {
        if let Some(pipeline) = self.pipelines.get(&subtask).and_then(Weak::upgrade) {
            pipeline.submit(TakenSnapshot {
                barrier,
                keyed,
                operator_state,
                timings,
            });
        }
    }

    fn spilled(&self, subtask: u32, spill: Spill, waker: SlotWaker) {
        let progress = Arc::clone(&self.progress);
        self.runtime.spawn_blocking(move || {
            if let Err(error) = spill.write() {
                progress.fail(Failure {
                    reason: format!(
                        "state that no longer fits into memory cannot be written: {}",
                        describe(&error)
                    ),
                    operator: Some((String::new(), subtask)),
                    retryable: true,
                });
            }
            waker.wake();
        });
    }

    fn committed(&self, subtask: u32, checkpoint: CheckpointId) {
        self.progress.committed(subtask, checkpoint);
    }

    fn drained(&self, subtask: u32) {
        self.progress.drained(subtask);
    }

    fn finished(&self, subtask: u32) {
        self.progress.finished(subtask);
    }

    fn failed(&self, failure: SlotFailure) {
        self.progress.fail(failure.into());
    }

    fn notice(&self, severity: &str, message: &str) {
        self.progress.events().publish(Event::Notice(v1::Notice {
            severity: severity.to_owned(),
            message: message.to_owned(),
        }));
    }

    fn output_rows(
        &self,
        table: &str,
        subtask: u32,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) {
        if let Err(error) = self.tap.rows(table, subtask, rows, kinds) {
            self.progress.fail(Failure {
                reason: format!("rows of table `{table}` cannot be shown: {error}"),
                operator: Some((table.to_owned(), subtask)),
                retryable: true,
            });
        }
    }
}

impl From<SlotFailure> for Failure {
    fn from(failure: SlotFailure) -> Failure {
        Failure {
            reason: failure.reason,
            operator: Some((failure.operator, failure.subtask)),
            retryable: failure.retryable,
        }
    }
}

/// The parts that a deployment made.
pub(crate) struct Parts {
    pub(crate) progress: Arc<Progress>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) pipelines: BTreeMap<u32, Arc<SnapshotPipeline>>,
    pub(crate) links: Vec<OutboundLink>,
    /// Everything local of this execution lies in it.
    pub(crate) dir: PathBuf,
}

/// See the module.
pub(crate) struct Execution {
    progress: Arc<Progress>,
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    /// Stops the slots when one has failed.
    _watch: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct State {
    /// Deployed, not started.
    waiting: Vec<Slot>,
    running: Vec<SlotHandle>,
    pipelines: BTreeMap<u32, Arc<SnapshotPipeline>>,
    links: Vec<OutboundLink>,
}

impl Execution {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let state = Arc::new(Mutex::new(State {
            waiting: parts.slots,
            running: Vec::new(),
            pipelines: parts.pipelines,
            links: parts.links,
        }));
        let (progress, watched) = (Arc::clone(&parts.progress), Arc::clone(&state));
        let watch = tokio::spawn(async move {
            progress.failed().await;
            // Links stay open: closing them would make the peers fail too, with a reason that
            // hides this one.
            let state = watched.lock();
            for link in &state.links {
                link.give_up();
            }
            for slot in &state.running {
                slot.command(SlotCommand::Cancel);
            }
        });
        Arc::new(Execution {
            progress: parts.progress,
            dir: parts.dir,
            state,
            _watch: AbortOnDropHandle::new(watch),
        })
    }

    pub(crate) fn id(&self) -> ExecutionId {
        self.progress.execution()
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Whether slots are (or will be) at work.
    pub(crate) fn is_active(&self) -> bool {
        self.progress.failure().is_none() && !self.progress.is_finished()
    }

    /// Starts the slots; once they run, does nothing.
    pub(crate) fn start(&self) {
        let mut state = self.state.lock();
        self.progress.start();
        if !state.waiting.is_empty() {
            for link in &state.links {
                link.connect();
            }
        }
        for slot in std::mem::take(&mut state.waiting) {
            match slot.start() {
                Ok(handle) => state.running.push(handle),
                Err(error) => {
                    self.progress.fail(Failure::retryable(format!(
                        "a thread for a slot could not be started: {error}"
                    )));
                }
            }
        }
        // A failure from before has found no running slots to stop.
        if self.progress.failure().is_some() {
            for slot in &state.running {
                slot.command(SlotCommand::Cancel);
            }
        }
    }

    pub(crate) fn trigger(&self, barrier: BarrierInfo) {
        self.command(SlotCommand::TriggerCheckpoint(barrier));
    }

    pub(crate) fn completed(&self, checkpoint: CheckpointId, is_final: bool) {
        if is_final {
            // The slots have nothing left to count: the last word on late rows and bad records of
            // an execution that may have been shorter than the time between two reports.
            self.publish_metrics();
            self.progress.end();
        }
        self.progress.notified(checkpoint, true);
        self.command(SlotCommand::CheckpointCompleted {
            checkpoint,
            is_final,
        });
    }

    pub(crate) fn aborted(&self, checkpoint: CheckpointId) {
        self.progress.notified(checkpoint, false);
        for pipeline in self.state.lock().pipelines.values() {
            pipeline.abort(checkpoint);
        }
        self.command(SlotCommand::CheckpointAborted { checkpoint });
    }

    pub(crate) fn drain(&self) {
        self.command(SlotCommand::Drain);
    }

    fn command(&self, command: SlotCommand) {
        for slot in &self.state.lock().running {
            slot.command(command);
        }
    }

    /// Tells the metrics of the slots and of the process.
    pub(crate) fn publish_metrics(&self) {
        let subtasks: Vec<SubtaskMetrics> = self
            .state
            .lock()
            .running
            .iter()
            .flat_map(SlotHandle::metrics)
            .collect();
        let (Ok(subtasks_json), Ok(worker_json)) = (
            serde_json::to_string(&subtasks),
            serde_json::to_string(&process::usage()),
        ) else {
            tracing::error!("metrics cannot be written as JSON");
            return;
        };
        self.progress.events().publish(Event::Metrics(v1::Metrics {
            execution_id: self.id().to_string(),
            subtasks_json,
            worker_json,
        }));
    }

    /// Ends the slots, waits for their threads, and removes everything local. False: a thread did
    /// not end, it hangs in a connector.
    pub(crate) async fn tear_down(&self) -> bool {
        self.progress.close();
        self.progress.events().close_output();
        let state = std::mem::take(&mut *self.state.lock());
        let State {
            waiting,
            running,
            pipelines,
            links,
        } = state;
        for link in &links {
            link.give_up();
        }
        for slot in &running {
            slot.command(SlotCommand::Cancel);
        }
        // Before the slots, so that no snapshot keeps a store open.
        drop(pipelines);
        let dir = self.dir.clone();
        let ended = tokio::task::spawn_blocking(move || {
            for slot in &running {
                slot.join();
            }
            drop(waiting);
            if let Err(error) = std::fs::remove_dir_all(&dir)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(dir = %dir.display(), %error, "local state could not be removed");
            }
        });
        let ended = tokio::time::timeout(JOIN_PATIENCE, ended).await;
        if let Ok(Err(error)) = &ended {
            tracing::error!(%error, "slots could not be ended in order");
        }
        drop(links);
        ended.is_ok()
    }
}
