//! What an execution reports when things go well, and timers.

use millrace_types::{CheckpointId, ExecutionId, SavepointId};

use super::{
    Action, COMMIT_LIMIT_MS, Cause, DEPLOY_LIMIT_MS, ExecutionEnd, Failure, Next, Phase, REPEAT_MS,
    Rest, Restore, SavePhase, StartAt, State, Write, turn::Turn,
};

impl Turn<'_> {
    pub(super) fn workers_ready(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::Starting {
                attempt,
                cause,
                phase: Phase::Provisioning,
                ..
            } if attempt.execution == execution => {
                let restore = self.context.restore;
                self.act(Action::Deploy { attempt, restore });
                State::Starting {
                    attempt,
                    cause,
                    phase: Phase::Deploying,
                    deadline_ms: self.ambient.now_ms + DEPLOY_LIMIT_MS,
                }
            }
            other => other,
        }
    }

    pub(super) fn deployed(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::Starting {
                attempt,
                cause,
                phase: Phase::Deploying,
                ..
            } if attempt.execution == execution => {
                self.act(Action::Launch { execution });
                State::Starting {
                    attempt,
                    cause,
                    phase: Phase::Launching,
                    deadline_ms: self.ambient.now_ms + DEPLOY_LIMIT_MS,
                }
            }
            other => other,
        }
    }

    pub(super) fn launched(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::Starting {
                attempt,
                phase: Phase::Launching,
                ..
            } if attempt.execution == execution => {
                self.write(Write::ExecutionRuns { execution });
                self.info("running", format!("version {} is running", attempt.version));
                self.act(Action::Checkpoint { execution });
                State::Running {
                    attempt,
                    since_ms: self.ambient.now_ms,
                }
            }
            other => other,
        }
    }

    pub(super) fn checkpoint_completed(
        &mut self,
        state: State,
        execution: ExecutionId,
        checkpoint: CheckpointId,
        savepoint: Option<SavepointId>,
    ) -> State {
        let current = match &state {
            State::Running { attempt, .. } | State::Saving { attempt, .. } => {
                attempt.execution == execution
            }
            // It was durable before the execution was closed.
            State::TearingDown { execution: old, .. } => *old == execution,
            State::Resting(_)
            | State::Starting { .. }
            | State::Waiting { .. }
            | State::Suspended
            | State::Deleting { .. }
            | State::Deleted => false,
        };
        let newer = self
            .context
            .restore
            .checkpoint()
            .is_none_or(|former| former < checkpoint);
        if current && newer {
            self.context.restore = match savepoint {
                None => Restore::Checkpoint(checkpoint),
                Some(savepoint) => Restore::Savepoint {
                    savepoint,
                    checkpoint,
                },
            };
            self.prove();
        }
        state
    }

    /// The version works: it has completed a checkpoint, or ended well.
    pub(super) fn prove(&mut self) {
        self.context.proven = true;
        if self.context.trial.take().is_some() {
            self.info(
                "version-healthy",
                format!("version {} is healthy", self.context.version),
            );
        }
        self.context.troubles.same_cause = 0;
        if self.context.troubles.degraded.take().is_some() {
            self.info("recovered", "no longer degraded: a checkpoint completed");
        }
    }

    pub(super) fn final_completed(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase: SavePhase::Snapshotting,
                next,
            } if attempt.execution == execution => State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase: SavePhase::Committing {
                    deadline_ms: self.ambient.now_ms + COMMIT_LIMIT_MS,
                },
                next,
            },
            other => other,
        }
    }

    pub(super) fn finished(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::Running { attempt, .. } if attempt.execution == execution => {
                self.finish(execution)
            }
            State::Saving {
                attempt,
                snapshot,
                phase: SavePhase::Snapshotting,
                ..
            } if attempt.execution == execution => {
                self.give_up_savepoint(snapshot, "the job finished first");
                self.finish(execution)
            }
            State::Saving {
                attempt,
                phase: SavePhase::Committing { .. },
                next,
                ..
            } if attempt.execution == execution => {
                let end = end_of(&next);
                self.tear_down(execution, end, next)
            }
            other => other,
        }
    }

    fn finish(&mut self, execution: ExecutionId) -> State {
        self.prove();
        self.info(
            "finished",
            "all inputs have ended and all results are committed",
        );
        self.tear_down(
            execution,
            ExecutionEnd::Finished,
            Next::Rest(Rest::Finished),
        )
    }

    pub(super) fn torn_down(&mut self, state: State, execution: ExecutionId) -> State {
        match state {
            State::TearingDown {
                execution: old,
                next,
                ..
            } if old == execution => match next {
                Next::Rest(rest) => self.rest(rest),
                Next::Retry { until_ms } => State::Waiting {
                    after: execution,
                    until_ms,
                },
                Next::Start { cause, from } => self.begin(cause, from),
                Next::Suspend => {
                    self.info(
                        "suspended",
                        "the service shuts down; its next start resumes the job",
                    );
                    State::Suspended
                }
                Next::Delete => {
                    self.act(Action::Forget);
                    State::Deleting {
                        repeat_ms: self.ambient.now_ms + REPEAT_MS,
                    }
                }
            },
            other => other,
        }
    }

    fn rest(&mut self, rest: Rest) -> State {
        // Nothing to roll back to: the next start is the owner's decision.
        self.context.trial = None;
        if let Some(target) = self.context.target.take() {
            self.context.version = target.version;
            self.context.policy = target.policy;
            self.context.proven = false;
        }
        match &rest {
            Rest::Stopped => self.info(
                "stopped",
                format!("stopped; the next start uses {}", self.context.restore),
            ),
            Rest::Canceled => self.info("canceled", "canceled"),
            // Said when it happened.
            Rest::Created | Rest::Finished | Rest::Failed(_) => {}
        }
        State::Resting(rest)
    }

    pub(super) fn forgotten(&mut self, state: State) -> State {
        match state {
            State::Deleting { .. } => State::Deleted,
            other => other,
        }
    }

    pub(super) fn wake(&mut self, state: State) -> State {
        let now_ms = self.ambient.now_ms;
        match state {
            State::Starting {
                attempt,
                phase,
                deadline_ms,
                ..
            } if deadline_ms <= now_ms => {
                let what = match phase {
                    Phase::Provisioning => "its workers did not register in time",
                    Phase::Deploying => "its workers did not deploy in time",
                    Phase::Launching => "its workers did not start in time",
                };
                self.fail(attempt.execution, None, Failure::retryable(what))
            }
            State::Running { attempt, since_ms } => match &self.context.trial {
                Some(trial) if trial.deadline_ms <= now_ms => {
                    if self.context.policy.checkpoint_interval_ms == 0 {
                        // Without checkpoints, to have run for the whole window must do.
                        self.prove();
                        State::Running { attempt, since_ms }
                    } else {
                        self.roll_back(
                            attempt.execution,
                            ExecutionEnd::Replaced,
                            "no checkpoint completed in time",
                        )
                    }
                }
                Some(_) | None => State::Running { attempt, since_ms },
            },
            State::Saving {
                attempt,
                phase: SavePhase::Committing { deadline_ms },
                next,
                ..
            } if deadline_ms <= now_ms => {
                self.warning(
                    "commit-slow",
                    "not every sink has committed the final snapshot in time: the next start from it commits the rest",
                );
                let end = end_of(&next);
                self.tear_down(attempt.execution, end, next)
            }
            State::TearingDown {
                execution,
                next,
                repeat_ms,
            } if repeat_ms <= now_ms => self.release(execution, next),
            State::Waiting { until_ms, .. } if until_ms <= now_ms => {
                self.begin(Cause::Restart, StartAt::Latest)
            }
            State::Deleting { repeat_ms } if repeat_ms <= now_ms => {
                self.act(Action::Forget);
                State::Deleting {
                    repeat_ms: now_ms + REPEAT_MS,
                }
            }
            State::Resting(_)
            | State::Starting { .. }
            | State::Saving { .. }
            | State::TearingDown { .. }
            | State::Waiting { .. }
            | State::Suspended
            | State::Deleting { .. }
            | State::Deleted => state,
        }
    }
}

/// How an execution ended that ended as planned.
pub(super) fn end_of(next: &Next) -> ExecutionEnd {
    match next {
        Next::Rest(Rest::Finished) => ExecutionEnd::Finished,
        Next::Rest(Rest::Canceled) | Next::Delete => ExecutionEnd::Canceled,
        Next::Rest(Rest::Failed(failure)) => ExecutionEnd::Failed(failure.clone()),
        Next::Rest(Rest::Created | Rest::Stopped) => ExecutionEnd::Stopped,
        Next::Retry { .. } | Next::Start { .. } => ExecutionEnd::Replaced,
        Next::Suspend => ExecutionEnd::Suspended,
    }
}
