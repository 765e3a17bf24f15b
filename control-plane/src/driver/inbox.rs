//! What a job's task is told by the tasks and connections around it.

use millrace_coordination::{
    checkpoint::{Barrier, Input},
    lifecycle::{Event, Failure},
};
use millrace_protocol::v1;
use millrace_state::SnapshotManifest;
use millrace_types::{ExecutionId, WorkerId};
use tokio::sync::mpsc;

use super::{crew::Member, plan::RunPlan};
use crate::provision::WorkerExit;

/// One message.
pub(super) enum Message {
    /// For the lifecycle.
    Event(Event),
    /// The execution failed, or something went wrong that may be the consequence of a worker's
    /// end: the news of that may be on its way.
    Suspect {
        execution: ExecutionId,
        failure: Failure,
    },
    /// For the coordinator.
    Input(Input),
    /// A subtask's part of a checkpoint.
    Part(Box<v1::CheckpointAck>),
    /// A worker's stream was opened (again).
    Attached {
        worker: WorkerId,
        status: Box<v1::Status>,
    },
    /// A worker says something for the job's history.
    Notice(v1::Notice),
    /// A worker cannot be reached any more.
    Lost { worker: WorkerId, reason: String },
    /// A worker process has ended.
    Exit(WorkerExit),
    /// All workers of an execution are there.
    CrewReady {
        execution: ExecutionId,
        plan: Box<RunPlan>,
        crew: Vec<Member>,
    },
    /// A teardown is done; these workers can be used again.
    TornDown {
        teardown: u64,
        execution: ExecutionId,
        survivors: Vec<WorkerId>,
    },
    /// A checkpoint's manifest and row are written.
    Persisted {
        execution: ExecutionId,
        barrier: Barrier,
        manifest: Box<SnapshotManifest>,
    },
    /// Another driver has the job.
    Fenced,
    /// The job's objects and rows are deleted.
    Forgotten,
}

pub(super) type Inbox = mpsc::UnboundedReceiver<Message>;

/// The other end. Sending to a task that has ended is fine: nobody waits for an answer.
#[derive(Clone)]
pub(super) struct Outbox(pub(super) mpsc::UnboundedSender<Message>);

impl Outbox {
    pub(super) fn send(&self, message: Message) {
        let _ = self.0.send(message);
    }
}
