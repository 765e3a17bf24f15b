//! Performs what the checkpoint coordinator wants done, and collects the parts of a checkpoint.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use millrace_coordination::checkpoint::{Barrier, Coordinator, Input, Output};
use millrace_dataflow::ENCODING_VERSION;
use millrace_protocol::v1;
use millrace_state::{
    SlotSnapshot, SnapshotKind, SnapshotManifest,
    manifest::{self, MANIFEST_FORMAT},
};
use millrace_types::{CheckpointId, ExecutionId, SavepointId, SubtaskIndex};

use super::{
    ambient, connection,
    crew::CALL_LIMIT,
    inbox::Message,
    job_task::{Flow, JobTask, Work},
    patience::persist,
};
use crate::{
    problem::chain,
    store::{CheckpointDone, StoreError},
};

/// Attempts to tell a worker that a checkpoint is complete, while it stays connected.
const NOTIFY_ATTEMPTS: u32 = 5;
const NOTIFY_PAUSE: Duration = Duration::from_millis(200);

/// The parts of the barrier in flight.
#[derive(Default)]
pub(super) struct Parts {
    barrier: Option<Barrier>,
    slots: BTreeMap<SubtaskIndex, SlotSnapshot>,
    done: Totals,
}

#[derive(Default, Clone, Copy)]
struct Totals {
    full_bytes: u64,
    uploaded_bytes: u64,
    alignment_ms: u64,
    pause_ms: u64,
    async_ms: u64,
}

impl Parts {
    pub(super) fn clear(&mut self) {
        *self = Parts::default();
    }

    fn begin(&mut self, barrier: Barrier) {
        *self = Parts {
            barrier: Some(barrier),
            ..Parts::default()
        };
    }
}

impl JobTask {
    /// Steps the coordinator.
    pub(super) fn coordinate(&mut self, input: Input) -> Vec<Work> {
        match &mut self.coordinator {
            None => match input {
                // Nobody takes checkpoints now.
                Input::Savepoint { savepoint } => vec![Work::Output(Output::Refuse {
                    savepoint,
                    reason: "the job is not running".into(),
                })],
                // Short inputs end before everybody knows that the job runs; workers say so once.
                input @ (Input::Drained { .. } | Input::Finished { .. }) => {
                    self.early.push(input);
                    Vec::new()
                }
                Input::Tick
                | Input::Final { .. }
                | Input::Acknowledged { .. }
                | Input::Declined { .. }
                | Input::Persisted { .. }
                | Input::PersistFailed { .. } => Vec::new(),
            },
            Some(coordinator) => coordinator
                .step(input, ambient::now_ms())
                .into_iter()
                .map(Work::Output)
                .collect(),
        }
    }

    /// Performs one output; what follows from it at once is returned.
    pub(super) async fn perform(&mut self, output: Output) -> Flow<Vec<Work>> {
        match output {
            Output::Begin(barrier) => self.begin(barrier).await?,
            Output::Persist(barrier) => return Ok(self.persist_parts(barrier)),
            Output::Abort {
                barrier,
                failed,
                reason,
            } => self.abort(barrier, failed, reason).await?,
            Output::Report(event) => return Ok(vec![Work::Event(event)]),
            Output::Notify(barrier) => self.notify(barrier),
            Output::Retire(checkpoints) => self.retire(checkpoints),
            Output::Refuse { savepoint, reason } => {
                persist("refuse a savepoint", || {
                    self.shared
                        .store
                        .refuse_savepoint(&self.lease, savepoint, &reason)
                })
                .await?;
            }
        }
        Ok(Vec::new())
    }

    async fn begin(&mut self, barrier: Barrier) -> Flow {
        let Some(execution) = self.coordinated() else {
            return Ok(());
        };
        let version = match &self.plan {
            Some(plan) => plan.version,
            None => self.job.context.version,
        };
        persist("note a checkpoint", || {
            self.shared
                .store
                .begin_checkpoint(&self.lease, execution, version, &barrier)
        })
        .await?;
        self.last_checkpoint = barrier.checkpoint;
        self.parts.begin(barrier);
        let request = v1::TriggerCheckpointRequest {
            epoch: self.lease.epoch.0,
            execution_id: execution.to_string(),
            checkpoint_id: barrier.checkpoint.0,
            savepoint_id: barrier.savepoint.map_or(0, |savepoint| savepoint.0),
            stop_after: barrier.last,
        };
        let (crew, outbox) = (self.crew.clone(), self.outbox.clone());
        tokio::spawn(async move {
            let answers = join_all(crew.iter().map(|member| {
                let request = request.clone();
                member.call(CALL_LIMIT, async move |mut client| {
                    client.trigger_checkpoint(request).await
                })
            }))
            .await;
            for status in answers.into_iter().filter_map(std::result::Result::err) {
                if connection::is_fenced(&status) {
                    outbox.send(Message::Fenced);
                    return;
                }
                outbox.send(Message::Input(Input::Declined {
                    execution,
                    checkpoint: barrier.checkpoint,
                    reason: connection::words(&status),
                }));
            }
        });
        Ok(())
    }

    /// The execution whose checkpoints are being taken.
    fn coordinated(&self) -> Option<ExecutionId> {
        self.coordinator.as_ref().map(Coordinator::execution)
    }

    /// A subtask's part has come.
    pub(super) async fn part(&mut self, part: v1::CheckpointAck) -> Flow {
        let checkpoint = CheckpointId(part.checkpoint_id);
        let current = self.parts.barrier.map(|barrier| barrier.checkpoint);
        let Some(execution) = self.coordinated() else {
            return Ok(());
        };
        // Late, or of another execution.
        if current != Some(checkpoint) || part.execution_id != execution.to_string() {
            return Ok(());
        }
        let subtask = SubtaskIndex(part.subtask);
        let input = match serde_json::from_str::<SlotSnapshot>(&part.slot_snapshot_json) {
            Ok(slot) if slot.subtask == subtask => {
                let repeated = self.parts.slots.insert(subtask, slot).is_some();
                if !repeated {
                    let done = &mut self.parts.done;
                    done.full_bytes += part.full_bytes;
                    done.uploaded_bytes += part.uploaded_bytes;
                    done.alignment_ms = done.alignment_ms.max(part.alignment_ms);
                    done.pause_ms = done.pause_ms.max(part.pause_ms);
                    done.async_ms = done.async_ms.max(part.async_ms);
                }
                Input::Acknowledged {
                    execution,
                    checkpoint,
                    subtask,
                }
            }
            Ok(slot) => Input::Declined {
                execution,
                checkpoint,
                reason: format!(
                    "subtask {subtask} acknowledged with the state of subtask {}",
                    slot.subtask
                ),
            },
            Err(error) => Input::Declined {
                execution,
                checkpoint,
                reason: format!("subtask {subtask} sent a part that cannot be read: {error}"),
            },
        };
        self.run_work(Work::Input(input)).await
    }

    /// Writes manifest and row in a task of its own.
    fn persist_parts(&mut self, barrier: Barrier) -> Vec<Work> {
        let failed = |reason: &str| {
            vec![Work::Input(Input::PersistFailed {
                checkpoint: barrier.checkpoint,
                reason: reason.to_owned(),
            })]
        };
        let (Some(execution), Some(plan)) = (self.coordinated(), &self.plan) else {
            return failed("internal fault: the execution was not planned: please report it");
        };
        let parts = std::mem::take(&mut self.parts);
        let manifest = SnapshotManifest {
            format: MANIFEST_FORMAT,
            tenant: self.lease.tenant.clone(),
            job: self.lease.job,
            checkpoint: barrier.checkpoint,
            kind: match barrier.savepoint {
                None => SnapshotKind::Checkpoint,
                Some(savepoint) => SnapshotKind::Savepoint(savepoint),
            },
            created_at_ms: ambient::now_ms(),
            execution,
            fingerprint: plan.fingerprint.clone(),
            parallelism: plan.spec.parallelism,
            max_parallelism: plan.spec.max_parallelism,
            key_encoding: ENCODING_VERSION,
            slots: parts.slots.into_values().collect(),
        };
        let done = CheckpointDone {
            manifest: manifest.path(&self.layout).to_string(),
            full_bytes: parts.done.full_bytes,
            uploaded_bytes: parts.done.uploaded_bytes,
            alignment_ms: parts.done.alignment_ms,
            pause_ms: parts.done.pause_ms,
            async_ms: parts.done.async_ms,
        };
        let (shared, lease, layout) =
            (self.shared.clone(), self.lease.clone(), self.layout.clone());
        let outbox = self.outbox.clone();
        tokio::spawn(async move {
            let failed = |reason: String| {
                Message::Input(Input::PersistFailed {
                    checkpoint: barrier.checkpoint,
                    reason,
                })
            };
            if let Err(error) = manifest::write(&*shared.storage, &layout, &manifest).await {
                outbox.send(failed(format!(
                    "its manifest could not be written: {}",
                    chain(&error)
                )));
                return;
            }
            let completed = persist("complete a checkpoint", || {
                shared.store.complete_checkpoint(&lease, &barrier, &done)
            })
            .await;
            outbox.send(match completed {
                Ok(true) => Message::Persisted {
                    execution,
                    barrier,
                    manifest: Box::new(manifest),
                },
                Ok(false) => failed("it was given up meanwhile".into()),
                Err(StoreError::Fenced { .. }) => Message::Fenced,
                Err(error) => failed(format!("its row could not be written: {error}")),
            });
        });
        Vec::new()
    }

    async fn abort(
        &mut self,
        barrier: Barrier,
        failed: Option<SavepointId>,
        reason: String,
    ) -> Flow {
        if self
            .parts
            .barrier
            .is_some_and(|current| current.checkpoint == barrier.checkpoint)
        {
            self.parts.clear();
        }
        persist("give a checkpoint up", || {
            self.shared
                .store
                .fail_checkpoint(&self.lease, barrier.checkpoint, failed, &reason)
        })
        .await?;
        let checkpoint = barrier.checkpoint;
        let what = match (failed, barrier.savepoint) {
            (Some(savepoint), _) => format!("savepoint {savepoint}"),
            (None, None) => format!("checkpoint {checkpoint}"),
            (None, Some(savepoint)) => format!("checkpoint {checkpoint} for savepoint {savepoint}"),
        };
        self.record(
            "warning",
            "checkpoint-failed",
            format!("{what} failed: {reason}"),
        )
        .await?;
        self.tell(barrier, false);
        Ok(())
    }

    fn notify(&mut self, barrier: Barrier) {
        self.tell(barrier, true);
    }

    /// Tells all workers what became of a barrier.
    fn tell(&mut self, barrier: Barrier, completed: bool) {
        let Some(execution) = self.coordinated() else {
            return;
        };
        let request = v1::NotifyCheckpointRequest {
            epoch: self.lease.epoch.0,
            execution_id: execution.to_string(),
            checkpoint_id: barrier.checkpoint.0,
            completed,
            r#final: completed && barrier.last,
        };
        for member in &self.crew {
            let (member, request) = (member.clone(), request.clone());
            let outbox = self.outbox.clone();
            tokio::spawn(async move {
                // Workers that reconnect say what they know, and are told again.
                for _ in 0..NOTIFY_ATTEMPTS {
                    let request = request.clone();
                    let told = member
                        .call(CALL_LIMIT, async move |mut client| {
                            client.notify_checkpoint(request).await
                        })
                        .await;
                    match told {
                        Ok(_) => return,
                        Err(status) if connection::is_fenced(&status) => {
                            outbox.send(Message::Fenced);
                            return;
                        }
                        Err(status) => {
                            tracing::debug!(worker = %member.worker, reason = connection::words(&status), "a worker could not be notified");
                        }
                    }
                    if member.gone.is_cancelled() {
                        return;
                    }
                    tokio::time::sleep(NOTIFY_PAUSE).await;
                }
            });
        }
    }

    /// Repeats the newest notification to one worker that has missed it.
    pub(super) fn tell_again(&mut self, worker: millrace_types::WorkerId, barrier: Barrier) {
        let others: Vec<_> = self
            .crew
            .extract_if(.., |member| member.worker != worker)
            .collect();
        self.tell(barrier, true);
        self.crew.extend(others);
    }
}
