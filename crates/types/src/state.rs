//! The states that jobs, checkpoints and savepoints go through, as they are stored and shown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SavepointId;

macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The stored and shown form.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

text_enum!(
    /// Where a job is in its life.
    JobState {
        /// Accepted, never started.
        Created = "created",
        /// Workers are being provisioned and the dataflow deployed.
        Starting = "starting",
        Running = "running",
        /// Failed and waiting for its backoff, or being deployed again.
        Restarting = "restarting",
        /// Moving to another parallelism.
        Rescaling = "rescaling",
        /// Moving to another version.
        Upgrading = "upgrading",
        /// Taking its last snapshot or tearing down.
        Stopping = "stopping",
        /// Stopped by request; can be started again.
        Stopped = "stopped",
        /// All bounded inputs ended and everything was committed.
        Finished = "finished",
        /// Will not run again by itself.
        Failed = "failed",
        Canceled = "canceled",
    }
);

impl JobState {
    /// Whether workers may exist for a job in this state.
    pub fn is_active(self) -> bool {
        match self {
            JobState::Starting
            | JobState::Running
            | JobState::Restarting
            | JobState::Rescaling
            | JobState::Upgrading
            | JobState::Stopping => true,
            JobState::Created
            | JobState::Stopped
            | JobState::Finished
            | JobState::Failed
            | JobState::Canceled => false,
        }
    }
}

text_enum!(
    /// Whether a job that should run does so well.
    Condition {
        Healthy = "healthy",
        /// It keeps failing, or cannot complete checkpoints; the reason stands beside it.
        Degraded = "degraded",
    }
);

text_enum!(
    /// What the owner wants of the job.
    DesiredState { Running = "running", Stopped = "stopped", Canceled = "canceled", Deleted = "deleted" }
);

text_enum!(CheckpointStatus { InProgress = "in-progress", Completed = "completed", Failed = "failed", Deleted = "deleted" });

text_enum!(SavepointStatus { InProgress = "in-progress", Completed = "completed", Failed = "failed", Deleted = "deleted" });

/// How a job is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopMode {
    /// Take a savepoint, commit sinks, then stop.
    #[default]
    Savepoint,
    /// Send the end of time through the job so that every window fires, take a savepoint, then stop.
    Drain,
    /// Stop at once; what was written since the last checkpoint is replayed at the next start.
    Now,
}

/// Where a job starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartFrom {
    /// The newest completed checkpoint or savepoint; empty when there is none.
    #[default]
    Latest,
    Savepoint(SavepointId),
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_as_it_is_written() {
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.as_str()), Some(*state));
            assert_eq!(
                serde_json::to_value(state).unwrap(),
                serde_json::json!(state.as_str())
            );
        }
        for status in CheckpointStatus::ALL {
            assert_eq!(
                serde_json::to_value(status).unwrap(),
                serde_json::json!(status.as_str())
            );
        }
    }
}
