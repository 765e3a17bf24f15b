//! What the REST API, the command line, the store and the workers all speak: ids, job
//! specs, states and durations. No behaviour beyond parsing, printing and validation lives
//! here, and nothing here does IO.

mod duration;
mod id;
mod job_spec;
mod metrics;
mod state;

pub use duration::{Millis, ParseMillisError};
pub use id::{
    CheckpointId, Epoch, ExecutionId, Fingerprint, IdError, JobId, JobName, SavepointId,
    SubtaskIndex, TenantName, VersionNumber, WorkerId,
};
pub use job_spec::{
    CheckpointMode, CheckpointSpec, DEFAULT_MAX_PARALLELISM, JobSpec, JobSpecError, ResourceSpec,
    RestartSpec, StateSpec, UpgradeMode,
};
pub use metrics::{OperatorMetrics, SubtaskMetrics, WorkerMetrics};
pub use state::{
    CheckpointStatus, Condition, DesiredState, JobState, SavepointStatus, StartFrom, StopMode,
};
