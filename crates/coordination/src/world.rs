//! A world for the property tests: performs effects of both cores with delays, losses and
//! take-overs chosen by the test, and checks the invariants after every step.

mod perform;

use std::collections::{BTreeMap, BTreeSet};

use millrace_types::{
    CheckpointId, ExecutionId, Millis, RestartSpec, SavepointId, StopMode, SubtaskIndex,
    UpgradeMode, VersionNumber,
};
use uuid::Uuid;

use crate::{
    checkpoint::{Barrier, Coordinator, Input},
    lifecycle::{
        Ambient, Change, Effect, Event, Failure, Found, Job, Policy, Restore, StartAt, State,
        Target,
    },
};

pub(crate) const SUBTASKS: u32 = 2;

/// What the test decides.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Start,
    Stop(StopMode),
    Cancel,
    NewVersion(UpgradeMode),
    Suspend,
    Savepoint,
    /// One of the answers that are due arrives, as a success or a failure.
    Answer {
        which: usize,
        good: bool,
    },
    /// The current execution fails by itself.
    Fail {
        retryable: bool,
    },
    /// An event of an execution long gone.
    Stale,
    /// All inputs end.
    InputsEnd,
    Wait {
        ms: i64,
    },
    TakeOver,
}

/// An answer that is on its way.
#[derive(Debug, Clone)]
enum Answer {
    Lifecycle { good: Event, bad: Option<Event> },
    Checkpoint { good: Input, bad: Option<Input> },
}

/// A row of the table of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Row {
    InProgress,
    Completed,
    Failed,
}

pub(crate) struct World {
    pub(crate) job: Job,
    coordinator: Option<Coordinator>,
    now_ms: i64,
    answers: Vec<Answer>,
    /// Executions that workers hold, and whether they process.
    deployed: BTreeMap<ExecutionId, bool>,
    drained: BTreeSet<SubtaskIndex>,
    finished: BTreeSet<SubtaskIndex>,
    rows: BTreeMap<CheckpointId, (ExecutionId, Barrier, Row)>,
    /// Subtasks whose part of a barrier is durable.
    acknowledged: BTreeMap<CheckpointId, BTreeSet<SubtaskIndex>>,
    /// The newest checkpoint that sinks were told to commit.
    committed: Option<CheckpointId>,
    last: CheckpointId,
    savepoints: u64,
    versions: u32,
    executions: u128,
    log: Vec<String>,
}

fn policy(upgrade: UpgradeMode) -> Policy {
    Policy {
        restart: RestartSpec {
            initial_delay: Millis(100),
            max_delay: Millis(1_000),
            reset_after: Millis(10_000),
            degraded_after: 3,
        },
        upgrade,
        checkpoint_interval_ms: 1_000,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        World {
            job: Job::new(VersionNumber(1), policy(UpgradeMode::Savepoint)),
            coordinator: None,
            now_ms: 1_000_000,
            answers: Vec::new(),
            deployed: BTreeMap::new(),
            drained: BTreeSet::new(),
            finished: BTreeSet::new(),
            rows: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            committed: None,
            last: CheckpointId(0),
            savepoints: 0,
            versions: 1,
            executions: 1,
            log: Vec::new(),
        }
    }

    pub(crate) fn log(&self) -> String {
        self.log.join("\n")
    }

    /// Makes one move; an error names the invariant that broke.
    pub(crate) fn make(&mut self, next: &Move) -> Result<(), String> {
        self.log.push(format!("{next:?}"));
        match next {
            Move::Start => self.event(Event::Start {
                from: StartAt::Latest,
            })?,
            Move::Stop(mode) => {
                let savepoint = self.next_savepoint();
                self.event(Event::Stop {
                    mode: *mode,
                    savepoint,
                })?;
            }
            Move::Cancel => self.event(Event::Cancel)?,
            Move::NewVersion(upgrade) => {
                self.versions += 1;
                let savepoint = self.next_savepoint();
                self.event(Event::NewVersion {
                    target: Target {
                        version: VersionNumber(self.versions),
                        policy: policy(*upgrade),
                        change: Change::Upgrade,
                    },
                    savepoint,
                })?;
            }
            Move::Suspend => self.event(Event::Suspend)?,
            Move::Savepoint => {
                let savepoint = self.next_savepoint();
                self.input(Input::Savepoint { savepoint })?;
            }
            Move::Answer { which, good } => {
                if !self.answers.is_empty() {
                    let answer = self.answers.remove(which % self.answers.len());
                    self.answer(answer, *good)?;
                }
            }
            Move::Fail { retryable } => {
                if let Some(execution) = self.job.execution() {
                    let failure = Failure {
                        reason: "worker 7 was killed by signal 9".into(),
                        place: None,
                        retryable: *retryable,
                    };
                    self.event(Event::Failed { execution, failure })?;
                }
            }
            Move::Stale => {
                let execution = ExecutionId(Uuid::from_u128(u128::MAX));
                let before = self.job.clone();
                for event in [
                    Event::WorkersReady { execution },
                    Event::Deployed { execution },
                    Event::Launched { execution },
                    Event::TornDown { execution },
                    Event::Finished { execution },
                    Event::FinalCompleted { execution },
                    Event::Failed {
                        execution,
                        failure: Failure::retryable("old"),
                    },
                    Event::CheckpointCompleted {
                        execution,
                        checkpoint: CheckpointId(u64::MAX),
                        savepoint: None,
                    },
                ] {
                    self.event(event)?;
                    if self.job != before {
                        return Err("an event of another execution changed the job".into());
                    }
                }
            }
            Move::InputsEnd => {
                if let Some(execution) = self.job.execution()
                    && self.deployed.get(&execution) == Some(&true)
                {
                    self.drain(execution);
                }
            }
            Move::Wait { ms } => {
                self.now_ms += ms;
                self.wake()?;
            }
            Move::TakeOver => self.take_over()?,
        }
        self.check()
    }

    /// Lets everything due arrive well and time pass, until the job rests.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.log.push("settle".into());
        for _ in 0..500 {
            if self.job.is_resting() {
                return Ok(());
            }
            if self.answers.is_empty() {
                let due = [
                    self.job.next_wake(),
                    self.coordinator.as_ref().and_then(Coordinator::next_wake),
                ];
                let due = due.into_iter().flatten().min();
                self.now_ms = self.now_ms.max(due.unwrap_or(self.now_ms));
                self.wake()?;
            } else {
                let answer = self.answers.remove(0);
                self.answer(answer, true)?;
            }
            self.check()?;
        }
        Err(format!(
            "the job does not come to rest: {:?}",
            self.job.state
        ))
    }

    fn wake(&mut self) -> Result<(), String> {
        if self.job.next_wake().is_some_and(|at| at <= self.now_ms) {
            self.event(Event::Wake)?;
        }
        self.input(Input::Tick)
    }

    fn next_savepoint(&mut self) -> SavepointId {
        self.savepoints += 1;
        SavepointId(self.savepoints)
    }

    fn answer(&mut self, answer: Answer, good: bool) -> Result<(), String> {
        match answer {
            Answer::Lifecycle { good: yes, bad } => {
                let event = if good { yes } else { bad.unwrap_or(yes) };
                match &event {
                    Event::TornDown { execution } => {
                        self.deployed.remove(execution);
                    }
                    Event::Launched { execution } => {
                        if let Some(runs) = self.deployed.get_mut(execution) {
                            *runs = true;
                        }
                    }
                    _ => {}
                }
                self.event(event)
            }
            Answer::Checkpoint { good: yes, bad } => {
                let input = if good { yes } else { bad.unwrap_or(yes) };
                if let Input::Persisted { checkpoint } = input {
                    // The row is only completed while it is in progress.
                    let row = self.rows.get_mut(&checkpoint).ok_or("no row")?;
                    if row.2 != Row::InProgress {
                        return self.input(Input::PersistFailed {
                            checkpoint,
                            reason: "given up".into(),
                        });
                    }
                    row.2 = Row::Completed;
                }
                match &input {
                    Input::Acknowledged {
                        checkpoint,
                        subtask,
                        ..
                    } => {
                        let parts = self.acknowledged.entry(*checkpoint).or_default();
                        parts.insert(*subtask);
                    }
                    Input::Drained { subtask, .. } => {
                        self.drained.insert(*subtask);
                    }
                    Input::Finished { subtask, .. } => {
                        self.finished.insert(*subtask);
                    }
                    _ => {}
                }
                self.input(input)
            }
        }
    }

    fn event(&mut self, event: Event) -> Result<(), String> {
        self.executions += 1;
        let ambient = Ambient {
            now_ms: self.now_ms,
            jitter: 0.5,
            execution: ExecutionId(Uuid::from_u128(self.executions)),
        };
        self.log.push(format!("  event {event:?}"));
        let before = self.job.execution();
        let (job, effects) = self.job.clone().step(event, ambient);
        let stored = serde_json::to_string(&job).map_err(|error| error.to_string())?;
        let read: Job = serde_json::from_str(&stored).map_err(|error| error.to_string())?;
        if read != job {
            return Err("the job does not read back as it was stored".into());
        }
        self.job = job;
        self.log.push(format!("  state {:?}", self.job.state));
        for effect in &effects {
            if let Effect::Write(write) = effect {
                self.write(write)?;
            }
        }
        for effect in effects {
            if let Effect::Do(action) = effect {
                self.log.push(format!("  do {action:?}"));
                self.act(action, before)?;
            }
        }
        Ok(())
    }

    /// Another driver takes over: answers on their way to the old one are lost.
    fn take_over(&mut self) -> Result<(), String> {
        self.answers.clear();
        self.coordinator = None;
        // A launch that was asked for may have arrived.
        let running: Vec<ExecutionId> = self
            .deployed
            .iter()
            .filter(|(_, runs)| **runs)
            .map(|(execution, _)| *execution)
            .collect();
        let found = match running.first() {
            Some(execution) => Found::Running {
                execution: *execution,
            },
            None => Found::Nothing,
        };
        let newest = self
            .rows
            .values()
            .rfind(|(owner, _, row)| Some(*owner) == self.job.execution() && *row == Row::Completed)
            .copied();
        if let Some((execution, barrier, _)) = newest {
            self.event(Event::CheckpointCompleted {
                execution,
                checkpoint: barrier.checkpoint,
                savepoint: barrier.savepoint,
            })?;
        }
        self.event(Event::TakenOver { found })?;
        self.input(Input::Tick)
    }

    fn check(&self) -> Result<(), String> {
        if self.deployed.len() > 1 {
            return Err(format!("two executions are deployed: {:?}", self.deployed));
        }
        let waits_for_nothing = self.answers.is_empty()
            && self.job.next_wake().is_none()
            && self
                .coordinator
                .as_ref()
                .and_then(Coordinator::next_wake)
                .is_none();
        let may_wait = self.job.is_resting() || matches!(self.job.state, State::Suspended);
        if waits_for_nothing && !may_wait {
            return Err(format!(
                "nothing will happen any more: {:?}",
                self.job.state
            ));
        }
        match (&self.job.state, self.job.context.restore) {
            (State::Deleted, _) | (_, Restore::Empty) => Ok(()),
            (_, restore) => {
                let completed = restore
                    .checkpoint()
                    .and_then(|id| self.rows.get(&id))
                    .is_some_and(|row| row.2 == Row::Completed);
                if completed {
                    Ok(())
                } else {
                    Err(format!("{restore} would be restored, but is not complete"))
                }
            }
        }
    }
}
