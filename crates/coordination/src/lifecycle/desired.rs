//! What the owner asks for: start, stop, cancel, delete, another version; and the shutdown of
//! the service itself.

use millrace_types::{SavepointId, StopMode, UpgradeMode};

use super::{
    Action, Attempt, Cause, Change, ExecutionEnd, FinalSnapshot, Next, REPEAT_MS, Rest, SavePhase,
    SavepointOrigin, StartAt, State, Target, Write, turn::Turn,
};

impl Turn<'_> {
    pub(super) fn start(&mut self, state: State, from: StartAt) -> State {
        match state {
            State::Resting(_) | State::Waiting { .. } | State::Suspended => {
                self.context.troubles = Default::default();
                self.begin(Cause::Start, from)
            }
            // It runs, or will; what it started from stands.
            State::Starting { .. } | State::Running { .. } => state,
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next,
            } => {
                let next = self.start_instead(next, from);
                State::Saving {
                    attempt,
                    since_ms,
                    snapshot,
                    phase,
                    next,
                }
            }
            State::TearingDown {
                execution,
                next,
                repeat_ms,
            } => {
                let next = self.start_instead(next, from);
                State::TearingDown {
                    execution,
                    next,
                    repeat_ms,
                }
            }
            State::Deleting { .. } | State::Deleted => state,
        }
    }

    /// A start asked for while an execution comes to its end.
    fn start_instead(&mut self, next: Next, from: StartAt) -> Next {
        match next {
            Next::Rest(_) | Next::Retry { .. } | Next::Suspend => {
                self.context.troubles = Default::default();
                Next::Start {
                    cause: Cause::Start,
                    from,
                }
            }
            Next::Start { .. } | Next::Delete => next,
        }
    }

    pub(super) fn stop(&mut self, state: State, mode: StopMode, savepoint: SavepointId) -> State {
        match state {
            State::Resting(rest) => State::Resting(match rest {
                Rest::Created => Rest::Stopped,
                Rest::Stopped | Rest::Finished | Rest::Failed(_) | Rest::Canceled => rest,
            }),
            State::Suspended => State::Resting(Rest::Stopped),
            State::Starting { attempt, .. } => {
                self.info(
                    "stop-without-savepoint",
                    format!(
                        "stopped before it was running: the next start uses {}",
                        self.context.restore
                    ),
                );
                self.tear_down(
                    attempt.execution,
                    ExecutionEnd::Stopped,
                    Next::Rest(Rest::Stopped),
                )
            }
            State::Running { attempt, since_ms } => match mode {
                StopMode::Now => self.tear_down(
                    attempt.execution,
                    ExecutionEnd::Stopped,
                    Next::Rest(Rest::Stopped),
                ),
                StopMode::Savepoint | StopMode::Drain => self.save(
                    attempt,
                    since_ms,
                    FinalSnapshot::Savepoint {
                        savepoint,
                        drain: mode == StopMode::Drain,
                    },
                    SavepointOrigin::Stop,
                    Next::Rest(Rest::Stopped),
                ),
            },
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next: _,
            } => match (mode, phase) {
                (StopMode::Now, SavePhase::Snapshotting) => {
                    self.give_up_savepoint(snapshot, "the job was told to stop now");
                    self.tear_down(
                        attempt.execution,
                        ExecutionEnd::Stopped,
                        Next::Rest(Rest::Stopped),
                    )
                }
                (StopMode::Now, SavePhase::Committing { .. })
                | (StopMode::Savepoint | StopMode::Drain, _) => State::Saving {
                    attempt,
                    since_ms,
                    snapshot,
                    phase,
                    next: Next::Rest(Rest::Stopped),
                },
            },
            State::TearingDown {
                execution, next, ..
            } => match next {
                // Asked for again, so that the workers that were to be kept go too.
                Next::Retry { .. } | Next::Start { .. } | Next::Suspend => {
                    self.release(execution, Next::Rest(Rest::Stopped))
                }
                Next::Rest(_) | Next::Delete => State::TearingDown {
                    execution,
                    next,
                    repeat_ms: self.ambient.now_ms + REPEAT_MS,
                },
            },
            State::Waiting { after, .. } => self.release(after, Next::Rest(Rest::Stopped)),
            State::Deleting { .. } | State::Deleted => state,
        }
    }

    pub(super) fn cancel(&mut self, state: State) -> State {
        match state {
            State::Resting(rest) => State::Resting(match rest {
                Rest::Created | Rest::Stopped => Rest::Canceled,
                Rest::Finished | Rest::Failed(_) | Rest::Canceled => rest,
            }),
            State::Suspended => State::Resting(Rest::Canceled),
            State::Deleting { .. } | State::Deleted => state,
            State::TearingDown {
                execution,
                next: Next::Delete,
                repeat_ms,
            } => State::TearingDown {
                execution,
                next: Next::Delete,
                repeat_ms,
            },
            State::Starting { .. }
            | State::Running { .. }
            | State::Saving { .. }
            | State::TearingDown { .. }
            | State::Waiting { .. } => self.end_now(state, Next::Rest(Rest::Canceled)),
        }
    }

    pub(super) fn delete(&mut self, state: State) -> State {
        match state {
            State::Resting(_) | State::Suspended => {
                self.act(Action::Forget);
                State::Deleting {
                    repeat_ms: self.ambient.now_ms + REPEAT_MS,
                }
            }
            State::Deleting { .. } | State::Deleted => state,
            State::Starting { .. }
            | State::Running { .. }
            | State::Saving { .. }
            | State::TearingDown { .. }
            | State::Waiting { .. } => self.end_now(state, Next::Delete),
        }
    }

    /// Ends whatever execution there is, without a snapshot.
    fn end_now(&mut self, state: State, next: Next) -> State {
        match state {
            State::Starting { attempt, .. } | State::Running { attempt, .. } => {
                self.tear_down(attempt.execution, ExecutionEnd::Canceled, next)
            }
            State::Saving {
                attempt,
                snapshot,
                phase,
                ..
            } => {
                if phase == SavePhase::Snapshotting {
                    self.give_up_savepoint(snapshot, "the job was canceled");
                }
                self.tear_down(attempt.execution, ExecutionEnd::Canceled, next)
            }
            State::TearingDown {
                execution,
                next: former,
                ..
            } => {
                // What has ended by itself has not been canceled.
                let ended = matches!(former, Next::Rest(Rest::Finished | Rest::Failed(_)));
                let next = if ended && next != Next::Delete {
                    former
                } else {
                    next
                };
                self.release(execution, next)
            }
            State::Waiting { after, .. } => self.release(after, next),
            State::Resting(_) | State::Suspended | State::Deleting { .. } | State::Deleted => state,
        }
    }

    pub(super) fn new_version(
        &mut self,
        state: State,
        target: Target,
        savepoint: SavepointId,
    ) -> State {
        let change = target.change;
        let mode = target.policy.upgrade;
        let resting = matches!(
            &state,
            State::Resting(_) | State::Deleting { .. } | State::Deleted
        );
        if resting {
            self.context.version = target.version;
            self.context.policy = target.policy;
            self.context.proven = false;
            self.context.trial = None;
            return state;
        }
        self.info(
            "version-accepted",
            format!("moving to version {}", target.version),
        );
        self.context.target = Some(target);
        let next = Next::Start {
            cause: change.into(),
            from: StartAt::Latest,
        };
        match state {
            State::Running { attempt, since_ms } => match mode {
                UpgradeMode::Savepoint => self.save(
                    attempt,
                    since_ms,
                    FinalSnapshot::Savepoint {
                        savepoint,
                        drain: false,
                    },
                    SavepointOrigin::Upgrade,
                    next,
                ),
                UpgradeMode::LastState | UpgradeMode::Stateless => {
                    self.tear_down(attempt.execution, ExecutionEnd::Replaced, next)
                }
            },
            State::Starting { attempt, .. } => {
                self.tear_down(attempt.execution, ExecutionEnd::Replaced, next)
            }
            State::Waiting { after, .. } => self.release(after, next),
            State::TearingDown {
                execution,
                next: former,
                repeat_ms,
            } => State::TearingDown {
                execution,
                next: match former {
                    Next::Retry { .. } | Next::Start { .. } => next,
                    Next::Rest(_) | Next::Suspend | Next::Delete => former,
                },
                repeat_ms,
            },
            // The snapshot under way serves; what follows it does not change, except which
            // version a start runs.
            State::Saving { .. } | State::Suspended => state,
            State::Resting(_) | State::Deleting { .. } | State::Deleted => state,
        }
    }

    /// The whole service is going down: leave a fresh checkpoint behind, if there is time.
    pub(super) fn suspend(&mut self, state: State) -> State {
        match state {
            State::Starting { attempt, .. } => {
                self.tear_down(attempt.execution, ExecutionEnd::Suspended, Next::Suspend)
            }
            State::Running { attempt, since_ms } => {
                self.act(Action::Snapshot {
                    execution: attempt.execution,
                    snapshot: FinalSnapshot::Checkpoint,
                });
                State::Saving {
                    attempt,
                    since_ms,
                    snapshot: FinalSnapshot::Checkpoint,
                    phase: SavePhase::Snapshotting,
                    next: Next::Suspend,
                }
            }
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next,
            } => State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next: match next {
                    Next::Start { .. } | Next::Retry { .. } => Next::Suspend,
                    Next::Rest(_) | Next::Suspend | Next::Delete => next,
                },
            },
            State::TearingDown {
                execution, next, ..
            } => match next {
                Next::Retry { .. } | Next::Start { .. } => self.release(execution, Next::Suspend),
                Next::Rest(_) | Next::Suspend | Next::Delete => self.release(execution, next),
            },
            State::Waiting { after, .. } => self.release(after, Next::Suspend),
            State::Resting(_) | State::Suspended | State::Deleting { .. } | State::Deleted => state,
        }
    }

    fn save(
        &mut self,
        attempt: Attempt,
        since_ms: i64,
        snapshot: FinalSnapshot,
        origin: SavepointOrigin,
        next: Next,
    ) -> State {
        match snapshot {
            FinalSnapshot::Savepoint { savepoint, drain } => {
                self.write(Write::OpenSavepoint { savepoint, origin });
                let purpose = match origin {
                    SavepointOrigin::Stop if drain => "stopping after the inputs are drained, with",
                    SavepointOrigin::Stop => "stopping with",
                    SavepointOrigin::Upgrade => "stopping for the new version with",
                };
                self.info("stop-started", format!("{purpose} savepoint {savepoint}"));
                if drain {
                    self.act(Action::Drain {
                        execution: attempt.execution,
                    });
                }
            }
            FinalSnapshot::Checkpoint => {}
        }
        self.act(Action::Snapshot {
            execution: attempt.execution,
            snapshot,
        });
        State::Saving {
            attempt,
            since_ms,
            snapshot,
            phase: SavePhase::Snapshotting,
            next,
        }
    }

    pub(super) fn give_up_savepoint(&mut self, snapshot: FinalSnapshot, reason: &str) {
        match snapshot {
            FinalSnapshot::Savepoint { savepoint, .. } => self.write(Write::FailSavepoint {
                savepoint,
                reason: reason.into(),
            }),
            FinalSnapshot::Checkpoint => {}
        }
    }

    /// The stop or upgrade for which a final snapshot was taken does not happen.
    pub(super) fn abandon_stop(&mut self, next: &Next, reason: &str) {
        match next {
            Next::Rest(_) => {
                self.write(Write::DesireRunning);
                self.warning(
                    "stop-failed",
                    format!(
                        "not stopped, the job goes on: {reason}. Repeat the stop, or stop with mode `now`"
                    ),
                );
            }
            Next::Start { .. } | Next::Retry { .. } | Next::Suspend | Next::Delete => {}
        }
        if let Some(target) = self.context.target.take() {
            let verb = match target.change {
                Change::Upgrade => "upgraded",
                Change::Rescale => "rescaled",
            };
            self.write(Write::AbandonVersion {
                version: target.version,
                back_to: self.context.version,
                reason: reason.into(),
            });
            self.warning(
                "upgrade-failed",
                format!(
                    "not {verb} to version {}, version {} goes on: {reason}",
                    target.version, self.context.version
                ),
            );
        }
    }
}
