//! Goes on with a job that another driver, or this replica's former life, has left: dials its
//! workers, sees what they run, and adopts it.

use std::{collections::BTreeMap, time::Duration};

use millrace_coordination::{
    checkpoint::{Adopted, Barrier, Coordinator},
    lifecycle::{Event, Found, State},
};
use millrace_protocol::v1::{self, WorkerState};
use millrace_state::manifest;
use millrace_types::{CheckpointId, CheckpointStatus, ExecutionId, SubtaskIndex, WorkerId};
use tokio::time::{Instant, sleep};

use super::{
    ambient,
    connection::{failure, words},
    crew::{CALL_LIMIT, handle, timed},
    inbox::Message,
    job_task::{End, Flow, JobTask, Work},
    patience::persist,
    plan::RunPlan,
};
use crate::{
    problem::chain,
    store::{CheckpointDone, WorkerRecord, WorkerRowState},
};

/// Workers that do not answer within this time are taken for dead.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

impl JobTask {
    /// Adopts what is there. For a job that nobody has driven yet this does nothing.
    pub(super) async fn take_over(&mut self) -> Flow {
        match &self.job.state {
            State::Resting(_) | State::Deleted => return Ok(()),
            State::Starting { .. }
            | State::Running { .. }
            | State::Saving { .. }
            | State::TearingDown { .. }
            | State::Waiting { .. }
            | State::Suspended
            | State::Deleting { .. } => {}
        }
        self.live.taken_over();
        let found = match self.job.execution() {
            Some(execution) => self.look_around(execution).await?,
            None => Found::Nothing,
        };
        self.complete_written_savepoints().await?;
        self.settle_newest_checkpoint().await?;
        self.run_work(Work::Event(Event::TakenOver { found })).await
    }

    /// The driver before may have written a savepoint's manifest without coming to complete its
    /// rows. The savepoint is there then, and could not be taken again: manifests are written once.
    async fn complete_written_savepoints(&mut self) -> Flow {
        let Some(execution) = self.job.execution() else {
            return Ok(());
        };
        for record in self.live_checkpoints().await? {
            let Some(savepoint) = record.savepoint else {
                continue;
            };
            if record.execution != execution || record.status != CheckpointStatus::InProgress {
                continue;
            }
            let path = self.layout.savepoint_manifest(savepoint);
            let manifest = match manifest::read(&*self.shared.storage, &path).await {
                Ok(manifest) => manifest,
                // Mostly, since it is not written: then it is taken again.
                Err(error) => {
                    tracing::debug!(job = %self.lease.job, %savepoint, error = chain(&error), "the savepoint in flight has no manifest");
                    continue;
                }
            };
            if manifest.checkpoint != record.id || manifest.execution != execution {
                continue;
            }
            let done = CheckpointDone {
                manifest: path.to_string(),
                full_bytes: manifest.state_bytes(),
                // Known to the driver before only.
                uploaded_bytes: 0,
                alignment_ms: 0,
                pause_ms: 0,
                async_ms: 0,
            };
            let barrier = record.barrier();
            persist("complete a savepoint", || {
                self.shared
                    .store
                    .complete_checkpoint(&self.lease, &barrier, &done)
            })
            .await?;
        }
        Ok(())
    }

    /// The driver before may have completed a checkpoint without coming to note it in the
    /// lifecycle; its sinks may have committed it.
    async fn settle_newest_checkpoint(&mut self) -> Flow {
        let Some(execution) = self.job.execution() else {
            return Ok(());
        };
        let live = self.live_checkpoints().await?;
        let newest = live.iter().rfind(|record| {
            record.execution == execution && record.status == CheckpointStatus::Completed
        });
        if let Some(record) = newest {
            self.run_work(Work::Event(Event::CheckpointCompleted {
                execution,
                checkpoint: record.id,
                savepoint: record.savepoint,
            }))
            .await?;
        }
        Ok(())
    }

    /// Connects to the workers and compares what they run with what they should.
    async fn look_around(&mut self, execution: ExecutionId) -> Flow<Found> {
        let rows = self.yard.rows().await?;
        let placement = persist("read where the job runs", || {
            self.shared.store.placement(&self.lease, execution)
        })
        .await?;
        let registered: Vec<&WorkerRecord> = rows
            .iter()
            .filter(|row| row.state == WorkerRowState::Registered)
            .filter(|row| placement.iter().any(|place| place.worker == row.id))
            .collect();
        let asked = futures::future::join_all(registered.iter().map(|row| self.ask(row))).await;
        let mut statuses = BTreeMap::new();
        for (row, status) in registered.iter().zip(asked) {
            if let Some(status) = status? {
                statuses.insert(row.id, status);
            }
        }
        let all_run = !placement.is_empty()
            && placement.iter().all(|place| {
                statuses
                    .get(&place.worker)
                    .is_some_and(|status| runs(status, execution))
            });
        if !all_run {
            return Ok(Found::Nothing);
        }
        let version = match &self.job.state {
            State::Starting { attempt, .. }
            | State::Running { attempt, .. }
            | State::Saving { attempt, .. } => attempt.version,
            State::Resting(_)
            | State::TearingDown { .. }
            | State::Waiting { .. }
            | State::Suspended
            | State::Deleting { .. }
            | State::Deleted => return Ok(Found::Nothing),
        };
        match RunPlan::load(&self.shared, &self.lease, version).await? {
            Ok(plan) => {
                self.live.begin(execution, plan.operators.clone());
                self.plan = Some(plan);
            }
            // Then it cannot be driven, but a restart will tell why.
            Err(_) => return Ok(Found::Nothing),
        }
        for row in &registered {
            self.shared
                .provisioner
                .watch(handle(row), self.yard.exits.clone());
            if let Some(mut member) = self.yard.member(row) {
                if let Some(place) = placement.iter().find(|place| place.worker == row.id) {
                    member.subtasks = place.subtasks.clone();
                }
                self.crew.push(member);
            }
        }
        self.adopted_statuses = statuses;
        Ok(Found::Running { execution })
    }

    /// What a worker says of itself when attached to; absent if it does not answer.
    async fn ask(&self, row: &WorkerRecord) -> Flow<Option<v1::Status>> {
        let Some(address) = &row.address else {
            return Ok(None);
        };
        let silence = self.shared.config.worker_silence;
        let Ok(client) = super::connection::client(address, silence) else {
            return Ok(None);
        };
        let request = v1::AttachRequest {
            epoch: self.lease.epoch.0,
            job_id: self.lease.job.to_string(),
        };
        let deadline = Instant::now() + DIAL_LIMIT;
        while Instant::now() < deadline {
            let mut client = client.clone();
            match timed(CALL_LIMIT, client.attach(request.clone())).await {
                Ok(mut events) => {
                    if let Ok(Some(event)) = events.message().await
                        && let Some(v1::worker_event::Event::Status(status)) = event.event
                    {
                        return Ok(Some(status));
                    }
                }
                Err(status) if super::connection::is_fenced(&status) => return Err(End::Fenced),
                Err(status) => {
                    tracing::debug!(worker = %row.id, reason = words(&status), "a worker does not answer");
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(None)
    }

    /// Goes on with the checkpoints of an adopted execution.
    pub(super) async fn adopt(&mut self, execution: ExecutionId) -> Flow<Vec<Work>> {
        let live = self.live_checkpoints().await?;
        let Some(setup) = self.setup(execution, &live) else {
            return Ok(Vec::new());
        };
        let of_execution = |status: CheckpointStatus| {
            live.iter()
                .filter(move |record| record.execution == execution && record.status == status)
                .map(crate::store::CheckpointRecord::barrier)
        };
        let statuses = &self.adopted_statuses;
        let subtasks = |list: fn(&v1::Status) -> &Vec<u32>| {
            statuses
                .values()
                .flat_map(|status| list(status).iter().copied().map(SubtaskIndex))
                .collect()
        };
        let notified = statuses
            .values()
            .map(|status| status.last_notified_checkpoint)
            .min()
            .unwrap_or(0);
        let adopted = Adopted {
            in_flight: of_execution(CheckpointStatus::InProgress).collect(),
            completed: of_execution(CheckpointStatus::Completed).next_back(),
            notified: CheckpointId(notified),
            drained: subtasks(|status| &status.drained_subtasks),
            finished: subtasks(|status| &status.finished_subtasks),
        };
        let (coordinator, outputs) = Coordinator::adopt(setup, adopted, ambient::now_ms());
        self.coordinator = Some(coordinator);
        Ok(outputs.into_iter().map(Work::Output).collect())
    }

    /// A worker's stream was opened, for the first time or again: what was told meanwhile may be
    /// lost, and the status makes up for it.
    pub(super) async fn attached(&mut self, worker: WorkerId, status: v1::Status) -> Flow {
        let Some(coordinator) = &self.coordinator else {
            return Ok(());
        };
        let execution = coordinator.execution();
        if status.execution_id != execution.to_string() {
            let in_crew = self.crew.iter().any(|member| member.worker == worker);
            if in_crew {
                self.outbox.send(Message::Suspect {
                    execution,
                    failure: millrace_coordination::lifecycle::Failure::retryable(
                        "a worker has lost the execution it ran",
                    ),
                });
            }
            return Ok(());
        }
        if let Some(failed) = status.failure {
            self.outbox.send(Message::Suspect {
                execution,
                failure: failure(failed),
            });
        }
        let live = self.live_checkpoints().await?;
        let newest: Option<Barrier> = live
            .iter()
            .rfind(|record| {
                record.execution == execution && record.status == CheckpointStatus::Completed
            })
            .map(crate::store::CheckpointRecord::barrier);
        // Only what the lifecycle knows of: sinks must not commit what a restart would not restore.
        let restorable = self.job.context.restore.checkpoint();
        if let Some(barrier) = newest
            && barrier.checkpoint.0 > status.last_notified_checkpoint
            && restorable >= Some(barrier.checkpoint)
        {
            self.tell_again(worker, barrier);
        }
        let drained = status.drained_subtasks.into_iter().map(|subtask| {
            millrace_coordination::checkpoint::Input::Drained {
                execution,
                subtask: SubtaskIndex(subtask),
            }
        });
        let finished = status.finished_subtasks.into_iter().map(|subtask| {
            millrace_coordination::checkpoint::Input::Finished {
                execution,
                subtask: SubtaskIndex(subtask),
            }
        });
        for input in drained.chain(finished) {
            self.run_work(Work::Input(input)).await?;
        }
        Ok(())
    }
}

/// Whether a worker processes an execution, has processed it, or has failed in it.
fn runs(status: &v1::Status, execution: ExecutionId) -> bool {
    if status.execution_id != execution.to_string() {
        return false;
    }
    match status.state() {
        WorkerState::Running | WorkerState::Finished | WorkerState::Failed => true,
        WorkerState::Unspecified | WorkerState::Idle | WorkerState::Deployed => false,
    }
}
