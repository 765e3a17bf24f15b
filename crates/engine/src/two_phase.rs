//! The two-phase commit that sinks and dead letters share: stage, pre-commit at the barrier,
//! commit when the checkpoint is complete, commit again after a restore.

use millrace_connectors::sink::{Committable, SinkWriter};
use millrace_dataflow::StateId;
use millrace_types::CheckpointId;
use serde::{Deserialize, Serialize};

use crate::{OperatorError, OperatorSnapshot, RestoredState};

/// What a snapshot keeps: everything pre-committed by a barrier.
#[derive(Debug, Serialize, Deserialize)]
struct EpochRecord {
    /// 1.
    format: u32,
    checkpoint: CheckpointId,
    committables: Vec<Committable>,
}

/// A writer with the epochs that wait for their checkpoint.
pub struct TwoPhase {
    writer: Box<dyn SinkWriter>,
    /// Pre-committed, not yet committed; oldest first.
    pending: Vec<EpochRecord>,
    name: &'static str,
}

impl TwoPhase {
    /// Commits what the restored snapshot covers and removes what dead attempts left. Subtask 0
    /// does both for all former subtasks, so that nobody removes what another is about to commit.
    pub fn open(
        mut writer: Box<dyn SinkWriter>,
        name: &'static str,
        state_id: &StateId,
        subtask: u32,
        restored: &RestoredState,
    ) -> Result<Self, OperatorError> {
        if subtask == 0 {
            let mut committables = Vec::new();
            for item in restored.list(state_id, name) {
                let record: EpochRecord = serde_json::from_slice(item).map_err(|error| {
                    OperatorError::Data(format!(
                        "the snapshot's record of staged output cannot be read: {error}"
                    ))
                })?;
                if record.format != 1 {
                    return Err(OperatorError::Data(format!(
                        "the snapshot's record of staged output has format {}, this version of Millrace reads 1",
                        record.format
                    )));
                }
                committables.extend(record.committables);
            }
            if !committables.is_empty() {
                writer.commit(&committables).map_err(connector)?;
            }
            writer.abort_leftovers().map_err(connector)?;
        }
        Ok(TwoPhase {
            writer,
            pending: Vec::new(),
            name,
        })
    }

    pub fn writer(&mut self) -> &mut dyn SinkWriter {
        self.writer.as_mut()
    }

    pub fn next_tick(&self) -> Option<i64> {
        self.writer.next_tick()
    }

    /// Pre-commits and records all epochs that are not committed yet.
    pub fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        state_id: &StateId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        self.writer.at_barrier(checkpoint);
        let committables = self.writer.pre_commit().map_err(connector)?;
        if !committables.is_empty() {
            self.pending.push(EpochRecord {
                format: 1,
                checkpoint,
                committables,
            });
        }
        let mut items = Vec::with_capacity(self.pending.len());
        for record in &self.pending {
            let item = serde_json::to_vec(record).map_err(|error| {
                OperatorError::Internal(format!("record of staged output: {error}"))
            })?;
            items.push(item);
        }
        snapshot.list(state_id, self.name, items);
        Ok(())
    }

    /// Commits every epoch up to this checkpoint.
    pub fn commit(&mut self, checkpoint: CheckpointId) -> Result<(), OperatorError> {
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|record| record.checkpoint <= checkpoint);
        self.pending = later;
        let committables: Vec<Committable> = due
            .into_iter()
            .flat_map(|record| record.committables)
            .collect();
        if !committables.is_empty() {
            self.writer.commit(&committables).map_err(connector)?;
        }
        Ok(())
    }
}

pub(crate) fn connector(error: millrace_connectors::source::ConnectorError) -> OperatorError {
    OperatorError::Connector(error.0)
}
