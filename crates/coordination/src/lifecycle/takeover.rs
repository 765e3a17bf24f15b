//! How a driver goes on with a job that another one (or its own former life) has left.

use super::{
    Action, Cause, ExecutionEnd, Failure, FinalSnapshot, Found, Next, Phase, REPEAT_MS, SavePhase,
    StartAt, State, Write, turn::Turn,
};

impl Turn<'_> {
    pub(super) fn taken_over(&mut self, state: State, found: Found) -> State {
        let runs =
            |execution| matches!(found, Found::Running { execution: other } if other == execution);
        match state {
            State::Running { attempt, since_ms } => {
                let execution = attempt.execution;
                if runs(execution) {
                    self.info("taken-over", "another driver goes on with the running job");
                    self.act(Action::AdoptCheckpoints { execution });
                    State::Running { attempt, since_ms }
                } else {
                    self.fail(execution, Some(since_ms), lost())
                }
            }
            State::Starting {
                attempt,
                cause,
                phase,
                deadline_ms: _,
            } => {
                let execution = attempt.execution;
                match phase {
                    Phase::Launching if runs(execution) => {
                        self.write(Write::ExecutionRuns { execution });
                        self.info("running", format!("version {} is running", attempt.version));
                        self.act(Action::AdoptCheckpoints { execution });
                        State::Running {
                            attempt,
                            since_ms: self.ambient.now_ms,
                        }
                    }
                    // Which calls reached the workers is not known: begin again.
                    Phase::Provisioning | Phase::Deploying | Phase::Launching => self.tear_down(
                        execution,
                        ExecutionEnd::Replaced,
                        Next::Start {
                            cause,
                            from: StartAt::Latest,
                        },
                    ),
                }
            }
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next,
            } => {
                let execution = attempt.execution;
                if !runs(execution) {
                    let state = State::Saving {
                        attempt,
                        since_ms,
                        snapshot,
                        phase,
                        next,
                    };
                    return self.failed(state, execution, lost());
                }
                self.info(
                    "taken-over",
                    "another driver goes on with the stop of the job",
                );
                self.act(Action::AdoptCheckpoints { execution });
                match (phase, snapshot) {
                    (SavePhase::Snapshotting, FinalSnapshot::Savepoint { drain: true, .. }) => {
                        self.act(Action::Drain { execution });
                        self.act(Action::Snapshot {
                            execution,
                            snapshot,
                        });
                    }
                    (
                        SavePhase::Snapshotting,
                        FinalSnapshot::Savepoint { drain: false, .. } | FinalSnapshot::Checkpoint,
                    ) => self.act(Action::Snapshot {
                        execution,
                        snapshot,
                    }),
                    // The repeated notification of the final checkpoint ends the subtasks.
                    (SavePhase::Committing { .. }, _) => {}
                }
                State::Saving {
                    attempt,
                    since_ms,
                    snapshot,
                    phase,
                    next,
                }
            }
            State::TearingDown {
                execution, next, ..
            } => self.release(execution, next),
            State::Suspended => self.begin(Cause::Restart, StartAt::Latest),
            State::Deleting { .. } => {
                self.act(Action::Forget);
                State::Deleting {
                    repeat_ms: self.ambient.now_ms + REPEAT_MS,
                }
            }
            State::Resting(_) | State::Waiting { .. } | State::Deleted => state,
        }
    }
}

fn lost() -> Failure {
    Failure::retryable("its workers were gone when the control plane came back")
}
