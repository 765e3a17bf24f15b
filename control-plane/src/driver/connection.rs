//! The connection to one worker: attaches under the lease's epoch and turns the worker's events
//! into messages, across reconnects, until the worker is lost.

use std::{str::FromStr, sync::Arc, time::Duration};

use millrace_coordination::{
    checkpoint::Input,
    lifecycle::{Event, Failure, Place},
};
use millrace_protocol::{
    MAX_MESSAGE_BYTES,
    v1::{self, worker_client::WorkerClient, worker_event},
};
use millrace_types::{
    CheckpointId, ExecutionId, SubtaskIndex, SubtaskMetrics, WorkerId, WorkerMetrics,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::{Shared, ambient, inbox::Message, inbox::Outbox};
use crate::{live::LiveJob, store::Lease};

/// Between two attempts to reach a worker.
const RETRY: Duration = Duration::from_millis(200);

pub(super) type Client = WorkerClient<Channel>;

/// A client that connects when it is used, and again whenever the connection breaks.
pub(super) fn client(address: &str, silence: Duration) -> Result<Client, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        // A worker that hangs without closing its connection is noticed within the silence.
        .http2_keep_alive_interval(silence / 3)
        .keep_alive_timeout(silence / 3)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    Ok(WorkerClient::new(endpoint.connect_lazy()).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// What a status says, in words.
pub(super) fn words(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}

/// One worker's events on their way to the job's task.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Lease,
    pub(super) worker: WorkerId,
    pub(super) address: String,
    pub(super) client: Client,
    pub(super) live: Arc<LiveJob>,
    pub(super) outbox: Outbox,
    /// Canceled when the worker is lost.
    pub(super) gone: CancellationToken,
}

impl Connection {
    /// Runs until the worker is lost, or nobody is interested any more (the task is dropped).
    pub(super) async fn run(mut self) {
        let silence = self.shared.config.worker_silence;
        let mut heard = Instant::now();
        loop {
            // However often it is tried, it is not tried for longer than the silence.
            let patience = silence.saturating_sub(heard.elapsed()).max(RETRY);
            let problem = match self.attach(patience).await {
                Ok(mut events) => {
                    let problem = loop {
                        match events.message().await {
                            Ok(Some(event)) => {
                                self.take(event).await;
                                heard = Instant::now();
                            }
                            Ok(None) => break "it closed the connection".to_owned(),
                            Err(status) => break words(&status),
                        }
                    };
                    // An idle worker says nothing, but its connection has just been alive.
                    if let Some(alive) = Instant::now().checked_sub(silence * 2 / 3) {
                        heard = heard.max(alive);
                    }
                    problem
                }
                Err(status) if status.code() == Code::PermissionDenied => {
                    self.outbox.send(Message::Fenced);
                    return;
                }
                Err(status) => words(&status),
            };
            if heard.elapsed() >= silence {
                self.gone.cancel();
                self.outbox.send(Message::Lost {
                    worker: self.worker,
                    reason: format!(
                        "a worker at {} has not been heard of for {} s: {problem}",
                        self.address,
                        silence.as_secs_f64()
                    ),
                });
                return;
            }
            tracing::debug!(worker = %self.worker, problem, "connecting to a worker again");
            sleep(RETRY).await;
        }
    }

    async fn attach(
        &mut self,
        patience: Duration,
    ) -> Result<tonic::Streaming<v1::WorkerEvent>, Status> {
        let request = v1::AttachRequest {
            epoch: self.lease.epoch.0,
            job_id: self.lease.job.to_string(),
        };
        match timeout(patience, self.client.attach(request)).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        }
    }

    async fn take(&self, event: v1::WorkerEvent) {
        let Some(event) = event.event else {
            return;
        };
        if let Err(reason) = self.translate(event).await {
            // A worker of another version: what it means cannot be guessed.
            tracing::error!(worker = %self.worker, reason, "a worker sent an event that cannot be read");
        }
    }

    async fn translate(&self, event: worker_event::Event) -> Result<(), String> {
        use worker_event::Event as From;
        match event {
            From::Status(status) => self.outbox.send(Message::Attached {
                worker: self.worker,
                status: Box::new(status),
            }),
            From::CheckpointAck(part) => self.outbox.send(Message::Part(Box::new(part))),
            From::CheckpointFailed(failed) => self.outbox.send(Message::Input(Input::Declined {
                execution: id(&failed.execution_id)?,
                checkpoint: CheckpointId(failed.checkpoint_id),
                reason: format!("subtask {}: {}", failed.subtask, failed.reason),
            })),
            From::SubtaskDrained(drained) => self.outbox.send(Message::Input(Input::Drained {
                execution: id(&drained.execution_id)?,
                subtask: SubtaskIndex(drained.subtask),
            })),
            From::SubtaskFinished(finished) => self.outbox.send(Message::Input(Input::Finished {
                execution: id(&finished.execution_id)?,
                subtask: SubtaskIndex(finished.subtask),
            })),
            From::ExecutionFailed(failed) => self.outbox.send(Message::Suspect {
                execution: id(&failed.execution_id)?,
                failure: failure(failed),
            }),
            From::Metrics(metrics) => {
                let execution = id(&metrics.execution_id)?;
                let unreadable = |error: serde_json::Error| format!("metrics: {error}");
                let subtasks: Vec<SubtaskMetrics> =
                    serde_json::from_str(&metrics.subtasks_json).map_err(unreadable)?;
                let usage: WorkerMetrics =
                    serde_json::from_str(&metrics.worker_json).map_err(unreadable)?;
                self.live
                    .report(execution, self.worker, ambient::now(), subtasks, usage);
            }
            From::Output(output) => {
                let lossless = self.shared.config.lossless_output;
                self.live
                    .push_rows(&output.table, output.subtask, output.rows, lossless)
                    .await;
            }
            From::Notice(notice) => self.outbox.send(Message::Notice(notice)),
            // Of interest to nobody but tests of workers.
            From::CheckpointCommitted(_) => {}
        }
        Ok(())
    }
}

fn id(text: &str) -> Result<ExecutionId, String> {
    ExecutionId::from_str(text).map_err(|error| error.to_string())
}

/// A worker's words for a failure.
pub(super) fn failure(failed: v1::ExecutionFailed) -> Failure {
    let place = (!failed.operator.is_empty()).then_some(Place {
        operator: failed.operator,
        subtask: SubtaskIndex(failed.subtask),
    });
    Failure {
        reason: if failed.reason.is_empty() {
            "a worker reported a failure without a reason".into()
        } else {
            failed.reason
        },
        place,
        retryable: failed.retryable,
    }
}

/// Whether a refused call tells that another driver has the job.
pub(super) fn is_fenced(status: &Status) -> bool {
    status.code() == Code::PermissionDenied
}

/// The lifecycle's event for a refused step of a start.
pub(super) fn refused(execution: ExecutionId, status: &Status) -> Event {
    let retryable = !matches!(
        status.code(),
        Code::FailedPrecondition | Code::InvalidArgument | Code::Unimplemented
    );
    Event::Failed {
        execution,
        failure: Failure {
            reason: words(status),
            place: None,
            retryable,
        },
    }
}
