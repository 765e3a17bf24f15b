//! What the world does with the effects of the cores.

use std::collections::BTreeSet;

use millrace_types::{CheckpointId, ExecutionId, SubtaskIndex};

use super::{Answer, Row, SUBTASKS, World};
use crate::{
    checkpoint::{Adopted, Barrier, Coordinator, Input, Output, Settings, Setup},
    lifecycle::{Action, Event, Failure, Write},
};

impl World {
    pub(super) fn write(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::OpenExecution { restore, .. } => {
                if restore.checkpoint() < self.committed {
                    return Err(format!(
                        "starts from {restore}, but sinks have committed {:?}",
                        self.committed
                    ));
                }
            }
            Write::CloseExecution { execution, .. } => {
                for (owner, _, row) in self.rows.values_mut() {
                    if owner == execution && *row == Row::InProgress {
                        *row = Row::Failed;
                    }
                }
            }
            Write::ExecutionRuns { .. }
            | Write::OpenSavepoint { .. }
            | Write::FailSavepoint { .. }
            | Write::AbandonVersion { .. }
            | Write::DesireRunning
            | Write::Record(_) => {}
        }
        Ok(())
    }

    pub(super) fn act(
        &mut self,
        action: Action,
        before: Option<ExecutionId>,
    ) -> Result<(), String> {
        let current = self.job.execution();
        let must_be_current = |execution: ExecutionId| {
            if Some(execution) == current {
                Ok(())
            } else {
                Err(format!("{execution} is not the current execution"))
            }
        };
        let failed = |execution: ExecutionId| {
            Some(Event::Failed {
                execution,
                failure: Failure::retryable("disk 3 is full"),
            })
        };
        match action {
            Action::Provision { attempt } => {
                let execution = attempt.execution;
                must_be_current(execution)?;
                if before == Some(execution) {
                    return Err("an execution is provisioned twice".into());
                }
                self.answers.push(Answer::Lifecycle {
                    good: Event::WorkersReady { execution },
                    bad: failed(execution),
                });
            }
            Action::Deploy { attempt, .. } => {
                let execution = attempt.execution;
                must_be_current(execution)?;
                self.deployed.insert(execution, false);
                self.drained.clear();
                self.finished.clear();
                self.answers.push(Answer::Lifecycle {
                    good: Event::Deployed { execution },
                    bad: failed(execution),
                });
            }
            Action::Launch { execution } => {
                must_be_current(execution)?;
                self.answers.push(Answer::Lifecycle {
                    good: Event::Launched { execution },
                    bad: failed(execution),
                });
            }
            Action::Checkpoint { execution } => {
                must_be_current(execution)?;
                self.coordinator = Some(Coordinator::new(self.setup(execution), self.now_ms));
            }
            Action::AdoptCheckpoints { execution } => {
                must_be_current(execution)?;
                let of_execution: Vec<(Barrier, Row)> = self
                    .rows
                    .values()
                    .filter(|(owner, _, _)| *owner == execution)
                    .map(|(_, barrier, row)| (*barrier, *row))
                    .collect();
                let with = |wanted: Row| {
                    of_execution
                        .iter()
                        .filter(move |(_, row)| *row == wanted)
                        .map(|(barrier, _)| *barrier)
                };
                let adopted = Adopted {
                    in_flight: with(Row::InProgress).collect(),
                    completed: with(Row::Completed).next_back(),
                    notified: CheckpointId(0),
                    drained: self.drained.iter().copied().collect(),
                    finished: self.finished.iter().copied().collect(),
                };
                let (coordinator, outputs) =
                    Coordinator::adopt(self.setup(execution), adopted, self.now_ms);
                self.coordinator = Some(coordinator);
                self.outputs(outputs)?;
            }
            Action::Drain { execution } => {
                must_be_current(execution)?;
                self.drain(execution);
            }
            Action::Snapshot {
                execution,
                snapshot,
            } => {
                must_be_current(execution)?;
                self.input(Input::Final { snapshot })?;
            }
            Action::TearDown { execution, .. } => {
                self.coordinator = None;
                self.answers.push(Answer::Lifecycle {
                    good: Event::TornDown { execution },
                    bad: None,
                });
            }
            Action::Forget => self.answers.push(Answer::Lifecycle {
                good: Event::Forgotten,
                bad: None,
            }),
        }
        Ok(())
    }

    pub(super) fn setup(&self, execution: ExecutionId) -> Setup {
        Setup {
            settings: Settings {
                interval_ms: 1_000,
                min_pause_ms: 0,
                timeout_ms: 5_000,
                tolerable_failures: 1,
                retained: 2,
            },
            execution,
            subtasks: SUBTASKS,
            last: self.last,
            retained: Vec::new(),
        }
    }

    pub(super) fn drain(&mut self, execution: ExecutionId) {
        for subtask in (0..SUBTASKS).map(SubtaskIndex) {
            self.answers.push(Answer::Checkpoint {
                good: Input::Drained { execution, subtask },
                bad: None,
            });
        }
    }

    pub(super) fn input(&mut self, input: Input) -> Result<(), String> {
        let Some(mut coordinator) = self.coordinator.take() else {
            return Ok(());
        };
        self.log.push(format!("  input {input:?}"));
        let outputs = coordinator.step(input, self.now_ms);
        self.coordinator = Some(coordinator);
        self.outputs(outputs)
    }

    pub(super) fn outputs(&mut self, outputs: Vec<Output>) -> Result<(), String> {
        let Some(execution) = self.coordinator.as_ref().map(Coordinator::execution) else {
            return Ok(());
        };
        for output in outputs {
            self.log.push(format!("  output {output:?}"));
            match output {
                Output::Begin(barrier) => {
                    if barrier.checkpoint <= self.last {
                        return Err(format!("checkpoint {} is not new", barrier.checkpoint));
                    }
                    let another = self
                        .rows
                        .values()
                        .any(|(owner, _, row)| *owner == execution && *row == Row::InProgress);
                    if another {
                        return Err("two barriers are in flight".into());
                    }
                    self.last = barrier.checkpoint;
                    self.rows
                        .insert(barrier.checkpoint, (execution, barrier, Row::InProgress));
                    for subtask in (0..SUBTASKS).map(SubtaskIndex) {
                        self.answers.push(Answer::Checkpoint {
                            good: Input::Acknowledged {
                                execution,
                                checkpoint: barrier.checkpoint,
                                subtask,
                            },
                            bad: Some(Input::Declined {
                                execution,
                                checkpoint: barrier.checkpoint,
                                reason: "upload failed".into(),
                            }),
                        });
                    }
                }
                Output::Persist(barrier) => {
                    let parts = self.acknowledged.get(&barrier.checkpoint);
                    if parts.map_or(0, BTreeSet::len) < SUBTASKS as usize {
                        return Err(format!("{barrier:?} is persisted with parts {parts:?}"));
                    }
                    self.answers.push(Answer::Checkpoint {
                        good: Input::Persisted {
                            checkpoint: barrier.checkpoint,
                        },
                        bad: Some(Input::PersistFailed {
                            checkpoint: barrier.checkpoint,
                            reason: "storage is down".into(),
                        }),
                    });
                }
                Output::Abort { barrier, .. } => {
                    if let Some((_, _, row)) = self.rows.get_mut(&barrier.checkpoint)
                        && *row == Row::InProgress
                    {
                        *row = Row::Failed;
                    }
                }
                Output::Report(event) => self.event(event)?,
                Output::Notify(barrier) => {
                    let row = self.rows.get(&barrier.checkpoint).map(|row| row.2);
                    if row != Some(Row::Completed) {
                        return Err(format!("told of checkpoint {barrier:?}, which is {row:?}"));
                    }
                    self.committed = self.committed.max(Some(barrier.checkpoint));
                    if barrier.last {
                        for subtask in (0..SUBTASKS).map(SubtaskIndex) {
                            self.answers.push(Answer::Checkpoint {
                                good: Input::Finished { execution, subtask },
                                bad: None,
                            });
                        }
                    }
                }
                Output::Retire(_) | Output::Refuse { .. } => {}
            }
        }
        Ok(())
    }
}
