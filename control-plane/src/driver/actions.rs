//! Performs what the lifecycle wants done.

use millrace_coordination::{
    checkpoint::{Coordinator, Input, Settings, Setup},
    lifecycle::{Action, Event, Failure},
};
use millrace_types::{CheckpointStatus, ExecutionId};
use tokio_util::task::AbortOnDropHandle;

use super::{
    ambient,
    job_task::{Flow, JobTask, Work},
    patience::persist,
};
use crate::store::CheckpointRecord;

impl JobTask {
    /// Performs one action; what follows from it at once is returned.
    pub(super) async fn act(&mut self, action: Action) -> Flow<Vec<Work>> {
        tracing::debug!(job = %self.lease.job, ?action, "lifecycle action");
        match action {
            Action::Provision { attempt } => {
                let work = self.yard.clone().provision(attempt, self.crew.clone());
                self.crew_work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
            }
            Action::Deploy { attempt, restore } => {
                let Some(plan) = self.plan.clone() else {
                    return Ok(vec![unplanned(attempt.execution)]);
                };
                self.live.begin(attempt.execution, plan.operators.clone());
                let work = self
                    .yard
                    .clone()
                    .deploy(attempt, restore, plan, self.crew.clone());
                self.crew_work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
            }
            Action::Launch { execution } => {
                let work = self.yard.clone().launch(execution, self.crew.clone());
                self.crew_work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
            }
            Action::Checkpoint { execution } => {
                let live = self.live_checkpoints().await?;
                let Some(setup) = self.setup(execution, &live) else {
                    return Ok(vec![unplanned(execution)]);
                };
                self.coordinator = Some(Coordinator::new(setup, ambient::now_ms()));
                // The coordinator leaves out what other executions said.
                let early = std::mem::take(&mut self.early);
                return Ok(early.into_iter().map(Work::Input).collect());
            }
            Action::AdoptCheckpoints { execution } => return self.adopt(execution).await,
            Action::Drain { execution } => {
                let work = self.yard.clone().drain(execution, self.crew.clone());
                self.crew_work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
            }
            Action::Snapshot { snapshot, .. } => {
                return Ok(vec![Work::Input(Input::Final { snapshot })]);
            }
            Action::TearDown {
                execution,
                keep_workers,
            } => {
                self.crew_work = None;
                self.coordinator = None;
                self.early.clear();
                self.parts.clear();
                self.teardown += 1;
                let work = self.yard.clone().tear_down(
                    self.teardown,
                    execution,
                    self.crew.clone(),
                    keep_workers,
                );
                self.teardown_work = Some(AbortOnDropHandle::new(tokio::spawn(work)));
            }
            Action::Forget => self.forget(),
        }
        Ok(Vec::new())
    }

    /// Checkpoints in progress or kept, oldest first.
    pub(super) async fn live_checkpoints(&self) -> Flow<Vec<CheckpointRecord>> {
        let live = persist("read the job's checkpoints", || {
            self.shared.store.live_checkpoints(&self.lease)
        })
        .await?;
        Ok(live)
    }

    /// What a coordinator of this execution starts with.
    pub(super) fn setup(&self, execution: ExecutionId, live: &[CheckpointRecord]) -> Option<Setup> {
        let plan = self.plan.as_ref()?;
        Some(Setup {
            settings: Settings::from(&plan.spec.checkpointing),
            execution,
            subtasks: plan.spec.parallelism,
            last: self.last_checkpoint,
            retained: live
                .iter()
                .filter(|record| {
                    record.status == CheckpointStatus::Completed && record.savepoint.is_none()
                })
                .map(|record| record.id)
                .collect(),
        })
    }
}

/// A fault of the driver: the execution has no plan where it must have one.
fn unplanned(execution: ExecutionId) -> Work {
    Work::Event(Event::Failed {
        execution,
        failure: Failure::retryable(
            "internal fault: the execution was not planned: please report it",
        ),
    })
}
