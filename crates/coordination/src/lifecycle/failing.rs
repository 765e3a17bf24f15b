//! What happens when an execution fails: restart with backoff, circuit breaker, rollback of a
//! version on probation, resumption of a failed stop.

use millrace_types::ExecutionId;

use super::{
    Cause, Degraded, ExecutionEnd, Failure, FinalSnapshot, Next, Rest, RootCause, SavePhase,
    Severity, StartAt, State, TRIAL_FAILURES, Write, backoff, progress::end_of, turn::Turn,
};

impl Turn<'_> {
    pub(super) fn failed(
        &mut self,
        state: State,
        execution: ExecutionId,
        failure: Failure,
    ) -> State {
        match state {
            State::Starting { attempt, .. } if attempt.execution == execution => {
                self.fail(execution, None, failure)
            }
            State::Running { attempt, since_ms } if attempt.execution == execution => {
                self.fail(execution, Some(since_ms), failure)
            }
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase,
                next,
            } if attempt.execution == execution => match phase {
                SavePhase::Snapshotting => {
                    self.give_up_savepoint(snapshot, &format!("the job failed: {failure}"));
                    if matches!(next, Next::Suspend) {
                        return self.tear_down(
                            execution,
                            ExecutionEnd::Failed(failure),
                            Next::Suspend,
                        );
                    }
                    self.abandon_stop(&next, &failure.to_string());
                    self.fail(execution, Some(since_ms), failure)
                }
                SavePhase::Committing { .. } => {
                    self.warning(
                        "commit-interrupted",
                        format!(
                            "failed after the final snapshot, before every sink had committed it; the next start from it commits the rest: {failure}"
                        ),
                    );
                    let end = end_of(&next);
                    self.tear_down(execution, end, next)
                }
            },
            other => other,
        }
    }

    /// Ends a failed execution and decides whether, when and with what to go on.
    pub(super) fn fail(
        &mut self,
        execution: ExecutionId,
        ran_since_ms: Option<i64>,
        failure: Failure,
    ) -> State {
        self.record(Severity::Error, "execution-failed", failure.to_string());
        let now_ms = self.ambient.now_ms;
        let end = ExecutionEnd::Failed(failure.clone());
        if let Some(trial) = &mut self.context.trial {
            trial.failures += 1;
            if !failure.retryable || trial.failures >= TRIAL_FAILURES || trial.deadline_ms <= now_ms
            {
                return self.roll_back(execution, end, &failure.to_string());
            }
        }
        if !failure.retryable {
            return self.tear_down(execution, end, Next::Rest(Rest::Failed(failure)));
        }
        let restart = self.context.policy.restart.clone();
        let troubles = &mut self.context.troubles;
        let healthy_for_ms = ran_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        if healthy_for_ms >= restart.reset_after.0.min(i64::MAX as u64) as i64 {
            troubles.failures = 0;
            troubles.same_cause = 0;
        }
        troubles.failures = troubles.failures.saturating_add(1);
        let cause = RootCause::of(&failure);
        if troubles.cause.as_ref() == Some(&cause) {
            troubles.same_cause = troubles.same_cause.saturating_add(1);
        } else {
            troubles.same_cause = 1;
            troubles.cause = Some(cause.clone());
        }
        let (failures, same_cause) = (troubles.failures, troubles.same_cause);
        let delay_ms = if same_cause >= restart.degraded_after {
            self.degrade(&failure, cause, same_cause);
            backoff::longest_delay_ms(&restart, self.ambient.jitter)
        } else {
            backoff::delay_ms(&restart, failures, self.ambient.jitter)
        };
        self.info(
            "restart-scheduled",
            format!(
                "restarting from {} in {} ms",
                self.context.restore, delay_ms
            ),
        );
        self.tear_down(
            execution,
            end,
            Next::Retry {
                until_ms: now_ms + delay_ms,
            },
        )
    }

    /// Opens the circuit breaker: the job goes on trying, but seldom, and says why.
    fn degrade(&mut self, failure: &Failure, cause: RootCause, times: u32) {
        let degraded = Degraded {
            reason: failure.to_string(),
            cause,
        };
        let known = self
            .context
            .troubles
            .degraded
            .as_ref()
            .is_some_and(|former| former.cause == degraded.cause);
        if !known {
            self.record(
                Severity::Error,
                "degraded",
                format!(
                    "degraded: failed {times} times with one root cause ({}) and no checkpoint between: {}",
                    degraded.cause, degraded.reason
                ),
            );
        }
        self.context.troubles.degraded = Some(degraded);
    }

    /// Returns to the version and snapshot before the one on probation.
    pub(super) fn roll_back(
        &mut self,
        execution: ExecutionId,
        end: ExecutionEnd,
        reason: &str,
    ) -> State {
        let Some(trial) = self.context.trial.take() else {
            // Only called with a trial; without one a restart is the safe answer.
            return self.tear_down(
                execution,
                end,
                Next::Start {
                    cause: Cause::Restart,
                    from: StartAt::Latest,
                },
            );
        };
        let abandoned = self.context.version;
        let fallback = trial.fallback;
        self.write(Write::AbandonVersion {
            version: abandoned,
            back_to: fallback.version,
            reason: reason.into(),
        });
        self.warning(
            "rolled-back",
            format!(
                "version {abandoned} did not become healthy, back to version {} and {}: {reason}",
                fallback.version, fallback.restore
            ),
        );
        self.context.version = fallback.version;
        self.context.policy = fallback.policy;
        self.context.restore = fallback.restore;
        self.context.proven = true;
        self.context.troubles = Default::default();
        self.tear_down(
            execution,
            end,
            Next::Start {
                cause: trial.change.into(),
                from: StartAt::Latest,
            },
        )
    }

    /// The last snapshot failed: the sources have been told to go on, and so does the job.
    pub(super) fn final_failed(
        &mut self,
        state: State,
        execution: ExecutionId,
        reason: String,
    ) -> State {
        match state {
            State::Saving {
                attempt,
                since_ms,
                snapshot,
                phase: SavePhase::Snapshotting,
                next,
            } if attempt.execution == execution => {
                self.give_up_savepoint(snapshot, &reason);
                if matches!(next, Next::Suspend) {
                    return self.tear_down(execution, ExecutionEnd::Suspended, Next::Suspend);
                }
                self.abandon_stop(&next, &reason);
                match snapshot {
                    FinalSnapshot::Savepoint { drain: false, .. } | FinalSnapshot::Checkpoint => {
                        State::Running { attempt, since_ms }
                    }
                    // Its inputs have ended; what came of that was never committed.
                    FinalSnapshot::Savepoint { drain: true, .. } => self.tear_down(
                        execution,
                        ExecutionEnd::Replaced,
                        Next::Start {
                            cause: Cause::Restart,
                            from: StartAt::Latest,
                        },
                    ),
                }
            }
            other => other,
        }
    }
}
