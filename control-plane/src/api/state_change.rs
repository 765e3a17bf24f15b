//! Tells what a new version of a job keeps of its state: in the answer and in the history.

use millrace_dataflow::{Dataflow, StateDiff, state_diff};
use millrace_types::{JobSpec, JobState, UpgradeMode, VersionNumber};

use super::view::StateChangeView;
use crate::{
    problem::Answer,
    sql::{CompileFailure, Compiler, broken},
    store::{JobRecord, NewEvent},
};

/// What becomes of a job's state.
pub(super) enum StateChanges {
    /// The job has never run: there is no state.
    Nothing,
    /// It was asked to start empty.
    Empty,
    /// The version before no longer compiles.
    Unknown {
        before: VersionNumber,
    },
    Told(StateDiff),
}

impl StateChanges {
    /// Compares the version that `job` is at with a new one, compiled to `new`.
    pub(super) async fn of(
        compiler: &Compiler,
        job: &JobRecord,
        spec: &JobSpec,
        new: &Dataflow,
    ) -> Answer<Self> {
        if job.state == JobState::Created {
            return Ok(StateChanges::Nothing);
        }
        // Of a job that is stopped, the next start says from what.
        if job.state.is_active() && spec.upgrade == UpgradeMode::Stateless {
            return Ok(StateChanges::Empty);
        }
        match compiler.compile(job.spec.clone()).await {
            Ok(old) => Ok(StateChanges::Told(state_diff(&old.dataflow, new))),
            Err(CompileFailure::Script(_)) => Ok(StateChanges::Unknown {
                before: job.version,
            }),
            Err(CompileFailure::Broken(error)) => Err(broken(&error)),
        }
    }

    /// What the history tells of it.
    pub(super) fn event(&self, version: VersionNumber) -> Option<NewEvent> {
        let (severity, message) = match self {
            StateChanges::Nothing => return None,
            StateChanges::Empty => (
                "info",
                format!("version {version} starts empty, as its upgrade mode `stateless` says"),
            ),
            StateChanges::Unknown { before } => (
                "warning",
                format!(
                    "what version {version} keeps of the state cannot be told: version {before} no longer compiles"
                ),
            ),
            StateChanges::Told(diff) if diff.keeps_everything() => {
                ("info", format!("version {version} {diff}"))
            }
            StateChanges::Told(diff) => ("warning", format!("version {version} {diff}")),
        };
        Some(NewEvent {
            severity,
            kind: "state-diff".to_owned(),
            message,
        })
    }

    pub(super) fn views(&self) -> Vec<StateChangeView> {
        let StateChanges::Told(diff) = self else {
            return Vec::new();
        };
        diff.changes
            .iter()
            .map(|change| StateChangeView {
                node: change.node.clone(),
                state: change.fate.to_string(),
                detail: change.detail.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_job_that_has_run_has_state_to_tell_of() {
        let empty = Dataflow {
            nodes: Vec::new(),
            parallelism: 1,
            max_parallelism: 1,
        };
        let version = VersionNumber(2);
        assert!(StateChanges::Nothing.event(version).is_none());
        for (change, severity, message) in [
            (
                StateChanges::Told(state_diff(&empty, &empty)),
                "info",
                "version 2 keeps all state",
            ),
            (
                StateChanges::Unknown {
                    before: VersionNumber(1),
                },
                "warning",
                "what version 2 keeps of the state cannot be told: version 1 no longer compiles",
            ),
        ] {
            let event = change.event(version).unwrap();
            assert_eq!(
                (event.severity, event.message.as_str()),
                (severity, message)
            );
        }
    }
}
