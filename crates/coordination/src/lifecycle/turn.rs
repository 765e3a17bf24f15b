//! One step: who handles which event, and the moves that several handlers share.

use millrace_types::{ExecutionId, UpgradeMode};

use super::{
    Action, Ambient, Attempt, Cause, Context, Effect, Event, ExecutionEnd, Fallback, Job, Next,
    PROVISION_LIMIT_MS, Phase, REPEAT_MS, Record, Restore, Severity, StartAt, State, TRIAL_MS,
    Trial, Write,
};

/// The working set of one step.
pub(super) struct Turn<'a> {
    pub(super) context: &'a mut Context,
    pub(super) ambient: Ambient,
    effects: Vec<Effect>,
}

impl Job {
    /// Takes one event in. The effects must be performed in order, writes before actions, after
    /// the job was stored.
    #[must_use]
    pub fn step(mut self, event: Event, ambient: Ambient) -> (Job, Vec<Effect>) {
        let mut turn = Turn {
            context: &mut self.context,
            ambient,
            effects: Vec::new(),
        };
        let state = turn.dispatch(self.state, event);
        let effects = turn.effects;
        (
            Job {
                format: self.format,
                context: self.context,
                state,
            },
            effects,
        )
    }
}

impl Turn<'_> {
    fn dispatch(&mut self, state: State, event: Event) -> State {
        match event {
            Event::Start { from } => self.start(state, from),
            Event::Stop { mode, savepoint } => self.stop(state, mode, savepoint),
            Event::Cancel => self.cancel(state),
            Event::Delete => self.delete(state),
            Event::NewVersion { target, savepoint } => self.new_version(state, target, savepoint),
            Event::Suspend => self.suspend(state),
            Event::WorkersReady { execution } => self.workers_ready(state, execution),
            Event::Deployed { execution } => self.deployed(state, execution),
            Event::Launched { execution } => self.launched(state, execution),
            Event::Failed { execution, failure } => self.failed(state, execution, failure),
            Event::CheckpointCompleted {
                execution,
                checkpoint,
                savepoint,
            } => self.checkpoint_completed(state, execution, checkpoint, savepoint),
            Event::FinalCompleted { execution } => self.final_completed(state, execution),
            Event::FinalFailed { execution, reason } => self.final_failed(state, execution, reason),
            Event::Finished { execution } => self.finished(state, execution),
            Event::TornDown { execution } => self.torn_down(state, execution),
            Event::Forgotten => self.forgotten(state),
            Event::Wake => self.wake(state),
            Event::TakenOver { found } => self.taken_over(state, found),
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.effects.push(Effect::Do(action));
    }

    pub(super) fn write(&mut self, write: Write) {
        self.effects.push(Effect::Write(write));
    }

    pub(super) fn record(&mut self, severity: Severity, kind: &'static str, message: String) {
        self.write(Write::Record(Record {
            severity,
            kind,
            message,
        }));
    }

    pub(super) fn info(&mut self, kind: &'static str, message: impl Into<String>) {
        self.record(Severity::Info, kind, message.into());
    }

    pub(super) fn warning(&mut self, kind: &'static str, message: impl Into<String>) {
        self.record(Severity::Warning, kind, message.into());
    }

    /// Begins a new execution. Only called when no other one can be deployed.
    pub(super) fn begin(&mut self, cause: Cause, from: StartAt) -> State {
        self.adopt_target();
        if let StartAt::Exactly(restore) = from {
            self.context.restore = restore;
        }
        let attempt = Attempt {
            execution: self.ambient.execution,
            version: self.context.version,
        };
        let restore = self.context.restore;
        self.write(Write::OpenExecution { attempt, restore });
        self.info(
            "execution-started",
            format!("starting version {} from {restore}", attempt.version),
        );
        self.act(Action::Provision { attempt });
        State::Starting {
            attempt,
            cause,
            phase: Phase::Provisioning,
            deadline_ms: self.ambient.now_ms + PROVISION_LIMIT_MS,
        }
    }

    /// Moves to the version that waits for the next start, on probation if the one before it
    /// was known to work.
    fn adopt_target(&mut self) {
        let Some(target) = self.context.target.take() else {
            return;
        };
        let window_ms = TRIAL_MS.max(2 * target.policy.checkpoint_interval_ms.min(1 << 40) as i64);
        let deadline_ms = self.ambient.now_ms + window_ms;
        let context = &mut *self.context;
        let fallback = match context.trial.take() {
            // A correction of a version on probation: what lies behind both is still the way back.
            Some(trial) => Some(trial.fallback),
            None if context.proven => Some(Fallback {
                version: context.version,
                policy: context.policy.clone(),
                restore: context.restore,
            }),
            None => None,
        };
        context.trial = fallback.map(|fallback| Trial {
            deadline_ms,
            failures: 0,
            change: target.change,
            fallback,
        });
        if target.policy.upgrade == UpgradeMode::Stateless {
            context.restore = Restore::Empty;
        }
        context.version = target.version;
        context.policy = target.policy;
        context.proven = false;
        context.troubles = Default::default();
    }

    /// Stops an execution that has not ended by itself.
    pub(super) fn tear_down(
        &mut self,
        execution: ExecutionId,
        end: ExecutionEnd,
        next: Next,
    ) -> State {
        self.write(Write::CloseExecution { execution, end });
        self.release(execution, next)
    }

    /// Frees the workers of an execution that is over, or keeps them for the next one.
    pub(super) fn release(&mut self, execution: ExecutionId, next: Next) -> State {
        let keep_workers = match next {
            Next::Retry { .. } | Next::Start { .. } => true,
            Next::Rest(_) | Next::Suspend | Next::Delete => false,
        };
        self.act(Action::TearDown {
            execution,
            keep_workers,
        });
        State::TearingDown {
            execution,
            next,
            repeat_ms: self.ambient.now_ms + REPEAT_MS,
        }
    }
}
