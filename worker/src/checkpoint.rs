//! From a slot's frozen state to an acknowledged part of a checkpoint, off the slot's thread.
//!
//! Each slot has one pipeline, which takes its snapshots one after the other: persist on a
//! blocking thread, upload (or write the savepoint), acknowledge. A checkpoint that is given up
//! stops wherever it is; its deltas go with the next one.

use std::{path::PathBuf, sync::Arc, time::Instant};

use millrace_dataflow::KeyGroupRange;
use millrace_engine::{channel::BarrierInfo, slot_event::SnapshotTimings};
use millrace_protocol::v1::{self, worker_event::Event};
use millrace_state::{
    FrozenSnapshot, KeyedSnapshot, Layout, OperatorStateItem, SlotSnapshot, UploadedFiles,
    upload_incremental, write_canonical,
};
use millrace_types::{CheckpointId, ExecutionId, SubtaskIndex};
use object_store::ObjectStore;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{events::EventHub, transport::describe};

/// Where and for whom the slots of an execution take snapshots.
#[derive(Clone)]
pub(crate) struct SnapshotTarget {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) layout: Layout,
    pub(crate) execution: ExecutionId,
    /// Local directory for snapshots, on the file system of the slots' stores.
    pub(crate) scratch: PathBuf,
    /// Slots that may upload at once: each holds parts of several files in memory.
    pub(crate) uploads: Arc<Semaphore>,
    pub(crate) events: Arc<EventHub>,
}

/// A snapshot as the slot hands it over.
pub(crate) struct TakenSnapshot {
    pub(crate) barrier: BarrierInfo,
    pub(crate) keyed: FrozenSnapshot,
    pub(crate) operator_state: Vec<OperatorStateItem>,
    pub(crate) timings: SnapshotTimings,
}

/// The pipeline of one slot; dropping it stops it.
pub(crate) struct SnapshotPipeline {
    snapshots: mpsc::UnboundedSender<TakenSnapshot>,
    /// Checkpoints up to this one are given up.
    aborted: watch::Sender<u64>,
    _task: AbortOnDropHandle<()>,
}

impl SnapshotPipeline {
    /// `uploads`: what the slot's restore found in object storage already.
    pub(crate) fn spawn(
        target: SnapshotTarget,
        subtask: SubtaskIndex,
        key_groups: KeyGroupRange,
        uploads: UploadedFiles,
    ) -> Self {
        let (snapshots, taken) = mpsc::unbounded_channel();
        let (aborted, aborts) = watch::channel(0);
        let worker = PipelineTask {
            target,
            subtask,
            key_groups,
            uploads,
            aborts,
        };
        SnapshotPipeline {
            snapshots,
            aborted,
            _task: AbortOnDropHandle::new(tokio::spawn(worker.run(taken))),
        }
    }

    /// Never blocks. The queue holds no more than the checkpoints the coordinator has under way.
    pub(crate) fn submit(&self, snapshot: TakenSnapshot) {
        // It fails only when the execution is being dropped.
        let _ = self.snapshots.send(snapshot);
    }

    /// Gives up this checkpoint and all before it.
    pub(crate) fn abort(&self, checkpoint: CheckpointId) {
        self.aborted.send_if_modified(|aborted| {
            let newer = checkpoint.0 > *aborted;
            *aborted = checkpoint.0.max(*aborted);
            newer
        });
    }
}

struct PipelineTask {
    target: SnapshotTarget,
    subtask: SubtaskIndex,
    key_groups: KeyGroupRange,
    uploads: UploadedFiles,
    aborts: watch::Receiver<u64>,
}

impl PipelineTask {
    async fn run(mut self, mut taken: mpsc::UnboundedReceiver<TakenSnapshot>) {
        while let Some(snapshot) = taken.recv().await {
            let checkpoint = snapshot.barrier.checkpoint;
            let mut aborts = self.aborts.clone();
            // An error means that the execution is being dropped.
            let aborted = async move {
                aborts
                    .wait_for(|aborted| *aborted >= checkpoint.0)
                    .await
                    .is_ok()
            };
            let outcome = tokio::select! {
                biased;
                _ = aborted => {
                    tracing::debug!(%checkpoint, subtask = %self.subtask, "snapshot given up");
                    continue;
                }
                outcome = self.take(snapshot) => outcome,
            };
            let event = match outcome {
                Ok(ack) => Event::CheckpointAck(ack),
                Err(reason) => {
                    tracing::warn!(%checkpoint, subtask = %self.subtask, reason, "snapshot failed");
                    Event::CheckpointFailed(v1::CheckpointFailed {
                        execution_id: self.target.execution.to_string(),
                        checkpoint_id: checkpoint.0,
                        subtask: self.subtask.0,
                        reason,
                    })
                }
            };
            self.target.events.publish(event);
        }
    }

    async fn take(&mut self, snapshot: TakenSnapshot) -> Result<v1::CheckpointAck, String> {
        let started = Instant::now();
        let TakenSnapshot {
            barrier,
            keyed,
            operator_state,
            timings,
        } = snapshot;
        let keyed = self.store(barrier, keyed).await?;
        let operator_bytes: usize = operator_state
            .iter()
            .flat_map(|item| item.items.iter().map(Vec::len))
            .sum();
        let (full_bytes, uploaded_bytes) = (keyed.bytes(), keyed.new_bytes());
        let slot = SlotSnapshot {
            subtask: self.subtask,
            key_groups: self.key_groups,
            keyed,
            operator_state,
        };
        let slot_snapshot_json = serde_json::to_string(&slot).map_err(|error| {
            format!("the description of the snapshot cannot be written: {error}")
        })?;
        Ok(v1::CheckpointAck {
            execution_id: self.target.execution.to_string(),
            checkpoint_id: barrier.checkpoint.0,
            subtask: self.subtask.0,
            slot_snapshot_json,
            full_bytes: full_bytes + operator_bytes as u64,
            uploaded_bytes: uploaded_bytes + operator_bytes as u64,
            alignment_ms: timings.alignment_ms,
            pause_ms: timings.pause_ms,
            async_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    async fn store(
        &mut self,
        barrier: BarrierInfo,
        keyed: FrozenSnapshot,
    ) -> Result<KeyedSnapshot, String> {
        let target = &self.target;
        let dir = target
            .scratch
            .join(format!("{}-{}", self.subtask, barrier.checkpoint));
        let local = tokio::task::spawn_blocking(move || keyed.persist(&dir))
            .await
            .map_err(|error| format!("the thread that writes the state failed: {error}"))?
            .map_err(|error| describe(&error))?;
        // The semaphore is never closed; without a permit the bound is merely not held.
        let _permit = target.uploads.acquire().await.ok();
        let stored = match barrier.savepoint {
            Some(savepoint) => {
                write_canonical(
                    target.store.as_ref(),
                    &target.layout,
                    local,
                    savepoint,
                    target.execution,
                    self.subtask,
                )
                .await
            }
            None => {
                upload_incremental(
                    target.store.as_ref(),
                    &target.layout,
                    local,
                    &mut self.uploads,
                    barrier.checkpoint,
                    target.execution,
                    self.subtask,
                )
                .await
            }
        };
        stored.map_err(|error| describe(&error))
    }
}

#[cfg(test)]
mod tests;
