//! The coordinator itself.

use std::collections::{BTreeSet, VecDeque};

use millrace_types::{CheckpointId, ExecutionId, SavepointId, SubtaskIndex};

use super::{Adopted, Barrier, FINAL_RETRY_MS, Input, Output, Setup};
use crate::lifecycle::{Event, Failure, FinalSnapshot};

/// See the [module](super).
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinator {
    setup: Setup,
    flight: Flight,
    /// Savepoints the owner asked for.
    queue: VecDeque<SavepointId>,
    ending: Ending,
    drained: BTreeSet<SubtaskIndex>,
    finished: BTreeSet<SubtaskIndex>,
    /// Checkpoints that failed since the last that completed.
    failures: u32,
    /// When the next periodic (or repeated final) checkpoint is due.
    due_ms: i64,
}

/// The barrier on its way.
#[derive(Debug, Clone, PartialEq)]
enum Flight {
    None,
    Collecting {
        barrier: Barrier,
        started_ms: i64,
        missing: BTreeSet<SubtaskIndex>,
    },
    Persisting {
        barrier: Barrier,
        started_ms: i64,
    },
}

/// Whether the execution is coming to its end.
#[derive(Debug, Clone, PartialEq)]
enum Ending {
    No,
    /// The lifecycle has asked for the last snapshot.
    Ordered(FinalSnapshot),
    /// The last snapshot, this one, is complete; subtasks commit and end.
    Committing(Barrier),
    /// All subtasks have ended.
    Over,
}

impl Coordinator {
    /// For an execution that has just been started.
    pub fn new(setup: Setup, now_ms: i64) -> Self {
        let due_ms = now_ms + setup.settings.interval_ms;
        Coordinator {
            setup,
            flight: Flight::None,
            queue: VecDeque::new(),
            ending: Ending::No,
            drained: BTreeSet::new(),
            finished: BTreeSet::new(),
            failures: 0,
            due_ms,
        }
    }

    /// For an execution that another driver began: gives up what is in flight and repeats the
    /// newest notification, which may not have reached every worker. Savepoints in flight are
    /// taken again: those that were asked for from here, the last one by the lifecycle's order.
    /// What follows from the subtasks' states comes at the next [`Input::Tick`], after the
    /// lifecycle had its say.
    pub fn adopt(setup: Setup, adopted: Adopted, now_ms: i64) -> (Self, Vec<Output>) {
        let mut coordinator = Coordinator::new(setup, now_ms);
        coordinator.drained.extend(adopted.drained);
        let mut outputs = Vec::new();
        for barrier in adopted.in_flight {
            if !barrier.last {
                coordinator.queue.extend(barrier.savepoint);
            }
            outputs.push(Output::Abort {
                barrier,
                failed: None,
                reason: "the control plane was replaced while it was taken".into(),
            });
        }
        if let Some(completed) = adopted.completed {
            if completed.last {
                coordinator.ending = Ending::Committing(completed);
            }
            if completed.last || completed.checkpoint > adopted.notified {
                outputs.push(Output::Notify(completed));
            }
        }
        coordinator.finished.extend(adopted.finished);
        (coordinator, outputs)
    }

    pub fn execution(&self) -> ExecutionId {
        self.setup.execution
    }

    /// The newest id given to a barrier.
    pub fn last(&self) -> CheckpointId {
        self.setup.last
    }

    /// Takes one input in.
    #[must_use]
    pub fn step(&mut self, input: Input, now_ms: i64) -> Vec<Output> {
        let mut outputs = Vec::new();
        let ours = self.setup.execution;
        match input {
            Input::Tick => self.expire(now_ms, &mut outputs),
            Input::Savepoint { savepoint } => self.request(savepoint, &mut outputs),
            Input::Final { snapshot } => self.order(snapshot, &mut outputs),
            Input::Acknowledged {
                execution,
                checkpoint,
                subtask,
            } => {
                if execution == ours {
                    self.acknowledged(checkpoint, subtask, &mut outputs);
                }
            }
            Input::Declined {
                execution,
                checkpoint,
                reason,
            } => {
                if execution == ours && self.collects(checkpoint) {
                    self.give_up(reason, now_ms, &mut outputs);
                }
            }
            Input::Drained { execution, subtask } => {
                if execution == ours && subtask.0 < self.setup.subtasks {
                    self.drained.insert(subtask);
                }
            }
            Input::Finished { execution, subtask } => {
                if execution == ours {
                    self.finished(subtask);
                }
            }
            Input::Persisted { checkpoint } => self.persisted(checkpoint, now_ms, &mut outputs),
            Input::PersistFailed { checkpoint, reason } => {
                let persists = matches!(&self.flight, Flight::Persisting { barrier, .. }
                    if barrier.checkpoint == checkpoint);
                if persists {
                    self.give_up(reason, now_ms, &mut outputs);
                }
            }
        }
        self.advance(now_ms, &mut outputs);
        outputs
    }

    /// When [`Input::Tick`] is due, in epoch milliseconds.
    pub fn next_wake(&self) -> Option<i64> {
        match (&self.flight, &self.ending) {
            (Flight::Collecting { started_ms, .. }, _) => {
                Some(started_ms + self.setup.settings.timeout_ms)
            }
            (Flight::Persisting { .. }, _) | (Flight::None, Ending::Over) => None,
            (Flight::None, Ending::Committing(_)) => self.all_finished().then_some(0),
            (Flight::None, Ending::No | Ending::Ordered(_)) => {
                let first_last = self.all_drained() && self.failures == 0;
                if first_last || !self.queue.is_empty() {
                    Some(0)
                } else if self.setup.settings.interval_ms > 0 || self.all_drained() {
                    Some(self.due_ms)
                } else {
                    None
                }
            }
        }
    }

    fn all_drained(&self) -> bool {
        self.drained.len() as u64 >= u64::from(self.setup.subtasks)
    }

    fn all_finished(&self) -> bool {
        self.finished.len() as u64 >= u64::from(self.setup.subtasks)
    }

    fn collects(&self, checkpoint: CheckpointId) -> bool {
        matches!(&self.flight, Flight::Collecting { barrier, .. } if barrier.checkpoint == checkpoint)
    }

    fn request(&mut self, savepoint: SavepointId, outputs: &mut Vec<Output>) {
        let under_way = match &self.flight {
            Flight::None => false,
            Flight::Collecting { barrier, .. } | Flight::Persisting { barrier, .. } => {
                barrier.savepoint == Some(savepoint)
            }
        };
        if under_way || self.queue.contains(&savepoint) {
            return;
        }
        match self.ending {
            Ending::No => self.queue.push_back(savepoint),
            Ending::Ordered(_) | Ending::Committing(_) | Ending::Over => {
                outputs.push(Output::Refuse {
                    savepoint,
                    reason: "the job is coming to its end".into(),
                });
            }
        }
    }

    fn order(&mut self, snapshot: FinalSnapshot, outputs: &mut Vec<Output>) {
        match self.ending {
            Ending::No | Ending::Ordered(_) => self.ending = Ending::Ordered(snapshot),
            Ending::Committing(barrier) => {
                let ordered_before = match snapshot {
                    FinalSnapshot::Savepoint { savepoint, .. } => {
                        barrier.savepoint == Some(savepoint)
                    }
                    // Else the inputs have ended, and the job finishes by itself.
                    FinalSnapshot::Checkpoint => !self.all_drained(),
                };
                // Asked for by a driver before this one, which could not note that it is there.
                if ordered_before {
                    outputs.push(Output::Report(Event::FinalCompleted {
                        execution: self.setup.execution,
                    }));
                }
            }
            Ending::Over => outputs.push(Output::Report(Event::Finished {
                execution: self.setup.execution,
            })),
        }
    }

    fn acknowledged(
        &mut self,
        checkpoint: CheckpointId,
        subtask: SubtaskIndex,
        outputs: &mut Vec<Output>,
    ) {
        let Flight::Collecting {
            barrier,
            started_ms,
            missing,
        } = &mut self.flight
        else {
            return;
        };
        if barrier.checkpoint != checkpoint {
            return;
        }
        missing.remove(&subtask);
        if missing.is_empty() {
            let barrier = *barrier;
            self.flight = Flight::Persisting {
                barrier,
                started_ms: *started_ms,
            };
            outputs.push(Output::Persist(barrier));
        }
    }

    fn persisted(&mut self, checkpoint: CheckpointId, now_ms: i64, outputs: &mut Vec<Output>) {
        let (barrier, started_ms) = match &self.flight {
            Flight::Persisting {
                barrier,
                started_ms,
            } if barrier.checkpoint == checkpoint => (*barrier, *started_ms),
            Flight::None | Flight::Collecting { .. } | Flight::Persisting { .. } => return,
        };
        self.flight = Flight::None;
        self.failures = 0;
        let execution = self.setup.execution;
        outputs.push(Output::Report(Event::CheckpointCompleted {
            execution,
            checkpoint,
            savepoint: barrier.savepoint,
        }));
        if barrier.last {
            if matches!(self.ending, Ending::Ordered(_)) {
                outputs.push(Output::Report(Event::FinalCompleted { execution }));
            }
            self.ending = Ending::Committing(barrier);
        }
        outputs.push(Output::Notify(barrier));
        if barrier.savepoint.is_none() {
            self.setup.retained.push(checkpoint);
            let surplus = self
                .setup
                .retained
                .len()
                .saturating_sub(self.setup.settings.retained.max(1));
            if surplus > 0 {
                outputs.push(Output::Retire(
                    self.setup.retained.drain(..surplus).collect(),
                ));
            }
        }
        self.schedule(started_ms, now_ms);
    }

    fn finished(&mut self, subtask: SubtaskIndex) {
        if !matches!(self.ending, Ending::Committing(_)) || subtask.0 >= self.setup.subtasks {
            return;
        }
        self.finished.insert(subtask);
    }

    fn expire(&mut self, now_ms: i64, outputs: &mut Vec<Output>) {
        let Flight::Collecting {
            started_ms,
            missing,
            ..
        } = &self.flight
        else {
            return;
        };
        if started_ms + self.setup.settings.timeout_ms <= now_ms {
            let first: Vec<String> = missing.iter().take(5).map(ToString::to_string).collect();
            let reason = format!(
                "not complete within {} ms: {} of {} subtasks have not acknowledged it (first: {})",
                self.setup.settings.timeout_ms,
                missing.len(),
                self.setup.subtasks,
                first.join(", ")
            );
            self.give_up(reason, now_ms, outputs);
        }
    }

    /// Fails what is in flight.
    fn give_up(&mut self, reason: String, now_ms: i64, outputs: &mut Vec<Output>) {
        let flight = std::mem::replace(&mut self.flight, Flight::None);
        let (barrier, started_ms) = match flight {
            Flight::None => return,
            Flight::Collecting {
                barrier,
                started_ms,
                ..
            }
            | Flight::Persisting {
                barrier,
                started_ms,
            } => (barrier, started_ms),
        };
        outputs.push(Output::Abort {
            barrier,
            failed: barrier.savepoint.filter(|_| !barrier.last),
            reason: reason.clone(),
        });
        self.schedule(started_ms, now_ms);
        let execution = self.setup.execution;
        match self.ending {
            Ending::Ordered(_) if barrier.last => {
                self.ending = Ending::No;
                outputs.push(Output::Report(Event::FinalFailed { execution, reason }));
            }
            Ending::No | Ending::Ordered(_) | Ending::Committing(_) | Ending::Over => {
                if barrier.last {
                    self.due_ms = now_ms + FINAL_RETRY_MS;
                }
                if barrier.savepoint.is_some() {
                    return;
                }
                self.failures += 1;
                if self.failures > self.setup.settings.tolerable_failures {
                    outputs.push(Output::Report(Event::Failed {
                        execution,
                        failure: Failure::retryable(format!(
                            "{} checkpoints in a row failed, the last one because: {reason}",
                            self.failures
                        )),
                    }));
                    self.failures = 0;
                }
            }
        }
    }

    /// Sets when the next periodic checkpoint is due, after one that began at `started_ms` ended.
    fn schedule(&mut self, started_ms: i64, now_ms: i64) {
        let settings = &self.setup.settings;
        self.due_ms = (started_ms + settings.interval_ms).max(now_ms + settings.min_pause_ms);
    }

    /// Sends the next barrier, if there is one to send.
    fn advance(&mut self, now_ms: i64, outputs: &mut Vec<Output>) {
        if self.flight != Flight::None {
            return;
        }
        if matches!(self.ending, Ending::Committing(_)) && self.all_finished() {
            self.ending = Ending::Over;
            outputs.push(Output::Report(Event::Finished {
                execution: self.setup.execution,
            }));
        }
        let all_drained = self.all_drained();
        let (savepoint, last) = match &self.ending {
            Ending::Committing(_) | Ending::Over => return,
            Ending::Ordered(snapshot) => match (self.queue.pop_front(), snapshot) {
                (Some(savepoint), _) => (Some(savepoint), false),
                (None, FinalSnapshot::Checkpoint) => (None, true),
                (None, FinalSnapshot::Savepoint { savepoint, drain }) => {
                    if *drain && !all_drained {
                        if self.setup.settings.interval_ms == 0 || now_ms < self.due_ms {
                            return;
                        }
                        // Draining can take long: periodic checkpoints go on meanwhile.
                        (None, false)
                    } else {
                        (Some(*savepoint), true)
                    }
                }
            },
            Ending::No => match self.queue.pop_front() {
                Some(savepoint) => (Some(savepoint), false),
                None if all_drained => {
                    // The first final checkpoint need not wait for the interval.
                    if self.failures > 0 && now_ms < self.due_ms {
                        return;
                    }
                    (None, true)
                }
                None => {
                    if self.setup.settings.interval_ms == 0 || now_ms < self.due_ms {
                        return;
                    }
                    (None, false)
                }
            },
        };
        self.setup.last = self.setup.last.next();
        let barrier = Barrier {
            checkpoint: self.setup.last,
            savepoint,
            last,
        };
        self.flight = Flight::Collecting {
            barrier,
            started_ms: now_ms,
            missing: (0..self.setup.subtasks).map(SubtaskIndex).collect(),
        };
        outputs.push(Output::Begin(barrier));
    }
}
