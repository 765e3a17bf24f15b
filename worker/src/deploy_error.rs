//! Why a deployment is refused, and what that means for the next attempt.

use std::fmt;

use millrace_engine::slot_event::SlotFailure;
use millrace_state::StateError;
use tonic::{Code, Status};

use crate::transport::describe;

/// A deployment that did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeployError {
    #[error("{field}: {reason}")]
    Request { field: &'static str, reason: String },
    #[error("the job does not compile on this worker: {0}")]
    Compile(String),
    #[error(
        "the control plane (Millrace {control_plane}) and this worker (Millrace {}) compile the job \
         to different dataflows, {theirs} and {ours}: run the same version everywhere",
        env!("CARGO_PKG_VERSION")
    )]
    Fingerprint {
        control_plane: String,
        theirs: String,
        ours: String,
    },
    #[error(
        "the snapshot has a max-parallelism of {snapshot}, the job of {job}: it is fixed when a job \
         is created, set it to {snapshot} or start empty"
    )]
    MaxParallelism { snapshot: u32, job: u32 },
    #[error("state: {0}")]
    State(#[from] StateError),
    #[error("{}", slot_failure(.0))]
    Slot(SlotFailure),
    #[error("the deployment was replaced by another")]
    Replaced,
    #[error("internal fault: {0}: please report it")]
    Internal(String),
}

impl DeployError {
    pub(crate) fn request(field: &'static str, reason: impl fmt::Display) -> Self {
        DeployError::Request {
            field,
            reason: reason.to_string(),
        }
    }

    /// What the driver goes by: `InvalidArgument` and `FailedPrecondition` do not pass by
    /// themselves, everything else may at another attempt.
    fn code(&self) -> Code {
        match self {
            DeployError::Request { .. } => Code::InvalidArgument,
            DeployError::Compile(_)
            | DeployError::Fingerprint { .. }
            | DeployError::MaxParallelism { .. } => Code::FailedPrecondition,
            DeployError::State(error) => match error {
                StateError::MissingObject { .. }
                | StateError::Corrupt { .. }
                | StateError::UnsupportedFormat { .. }
                | StateError::Uncovered { .. }
                | StateError::Url { .. } => Code::FailedPrecondition,
                _ => Code::Unavailable,
            },
            DeployError::Slot(failure) if failure.retryable => Code::Aborted,
            DeployError::Slot(_) => Code::FailedPrecondition,
            DeployError::Replaced => Code::Cancelled,
            DeployError::Internal(_) => Code::Internal,
        }
    }
}

impl From<SlotFailure> for DeployError {
    fn from(failure: SlotFailure) -> Self {
        DeployError::Slot(failure)
    }
}

impl From<DeployError> for Status {
    fn from(error: DeployError) -> Status {
        Status::new(error.code(), describe(&error))
    }
}

fn slot_failure(failure: &SlotFailure) -> String {
    match failure.operator.as_str() {
        "" => format!("subtask {}: {}", failure.subtask, failure.reason),
        operator => format!(
            "{operator}, subtask {}: {}",
            failure.subtask, failure.reason
        ),
    }
}
