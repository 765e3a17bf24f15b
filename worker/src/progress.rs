//! How far an execution has come on this worker, told to the driver as it changes and kept for
//! drivers that attach later.
//!
//! The first failure counts: what fails because of it is noise.

use std::{collections::BTreeSet, fmt, sync::Arc};

use millrace_protocol::v1::{self, WorkerState, worker_event::Event};
use millrace_types::{CheckpointId, ExecutionId, VersionNumber};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::events::EventHub;

/// The observed state of one execution on this worker.
pub(crate) struct Progress {
    execution: ExecutionId,
    version: VersionNumber,
    /// Subtasks that run here.
    subtasks: BTreeSet<u32>,
    events: Arc<EventHub>,
    state: Mutex<State>,
    /// Fires with the first failure.
    failed: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    /// Being torn down: failures are consequences and not told.
    closing: bool,
    /// The final checkpoint is complete: peers may go away now.
    ending: bool,
    drained: BTreeSet<u32>,
    finished: BTreeSet<u32>,
    failure: Option<v1::ExecutionFailed>,
    last_notified: u64,
}

/// Why an execution fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Name of the operator and its subtask, when one failed.
    pub(crate) operator: Option<(String, u32)>,
    pub(crate) retryable: bool,
}

impl Failure {
    /// A failure of the surroundings, which another attempt may get past.
    pub(crate) fn retryable(reason: impl Into<String>) -> Self {
        Failure {
            reason: reason.into(),
            operator: None,
            retryable: true,
        }
    }
}

impl Progress {
    pub(crate) fn new(
        execution: ExecutionId,
        version: VersionNumber,
        subtasks: impl IntoIterator<Item = u32>,
        events: Arc<EventHub>,
    ) -> Arc<Self> {
        Arc::new(Progress {
            execution,
            version,
            subtasks: subtasks.into_iter().collect(),
            events,
            state: Mutex::default(),
            failed: CancellationToken::new(),
        })
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.execution
    }

    pub(crate) fn events(&self) -> &Arc<EventHub> {
        &self.events
    }

    /// Completes when the execution has failed.
    pub(crate) async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// The failure, if there is one.
    pub(crate) fn failure(&self) -> Option<v1::ExecutionFailed> {
        self.state.lock().failure.clone()
    }

    pub(crate) fn start(&self) {
        self.state.lock().started = true;
    }

    /// From now on failures are not told.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
    }

    /// The final checkpoint is complete.
    pub(crate) fn end(&self) {
        self.state.lock().ending = true;
    }

    /// A connection to a peer broke.
    pub(crate) fn lost_peer(&self, reason: String) {
        if !self.state.lock().ending {
            self.fail(Failure::retryable(reason));
        }
    }

    pub(crate) fn drained(&self, subtask: u32) {
        if self.state.lock().drained.insert(subtask) {
            self.events
                .publish(Event::SubtaskDrained(v1::SubtaskDrained {
                    execution_id: self.execution.to_string(),
                    subtask,
                }));
        }
    }

    pub(crate) fn finished(&self, subtask: u32) {
        if self.state.lock().finished.insert(subtask) {
            self.events
                .publish(Event::SubtaskFinished(v1::SubtaskFinished {
                    execution_id: self.execution.to_string(),
                    subtask,
                }));
        }
    }

    pub(crate) fn committed(&self, subtask: u32, checkpoint: CheckpointId) {
        self.events
            .publish(Event::CheckpointCommitted(v1::CheckpointCommitted {
                execution_id: self.execution.to_string(),
                checkpoint_id: checkpoint.0,
                subtask,
            }));
    }

    /// Whether every subtask has committed the final checkpoint.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.lock().finished == self.subtasks
    }

    /// The driver has decided a checkpoint.
    pub(crate) fn notified(&self, checkpoint: CheckpointId, completed: bool) {
        if completed {
            let mut state = self.state.lock();
            state.last_notified = state.last_notified.max(checkpoint.0);
        }
        self.events
            .decided(&self.execution.to_string(), checkpoint.0);
    }

    /// Records and tells a failure, unless one was told, all is finished, or it is a consequence
    /// of the end.
    pub(crate) fn fail(&self, failure: Failure) {
        let (operator, subtask) = failure.operator.unwrap_or_default();
        let failed = v1::ExecutionFailed {
            execution_id: self.execution.to_string(),
            reason: failure.reason,
            operator,
            subtask,
            retryable: failure.retryable,
        };
        {
            let mut state = self.state.lock();
            if state.closing || state.failure.is_some() || state.finished == self.subtasks {
                tracing::debug!(
                    reason = failed.reason,
                    "a failure that follows from another"
                );
                return;
            }
            state.failure = Some(failed.clone());
        }
        tracing::warn!(
            execution = %self.execution,
            operator = failed.operator,
            subtask = failed.subtask,
            reason = failed.reason,
            "the execution has failed"
        );
        self.events.publish(Event::ExecutionFailed(failed));
        self.failed.cancel();
    }

    /// What a driver that attaches now is told first.
    pub(crate) fn status(&self) -> v1::Status {
        let state = self.state.lock();
        // A finished subtask counts once what it put out before has been read.
        let finished: Vec<u32> = state
            .finished
            .iter()
            .copied()
            .filter(|subtask| !self.events.holds_finish_of(*subtask))
            .collect();
        let worker_state = if state.failure.is_some() {
            WorkerState::Failed
        } else if !state.started {
            WorkerState::Deployed
        } else if finished.len() == self.subtasks.len() {
            WorkerState::Finished
        } else {
            WorkerState::Running
        };
        v1::Status {
            state: worker_state.into(),
            execution_id: self.execution.to_string(),
            version: self.version.0,
            drained_subtasks: state.drained.iter().copied().collect(),
            finished_subtasks: finished,
            failure: state.failure.clone(),
            last_notified_checkpoint: state.last_notified,
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("execution", &self.execution)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
