//! Malformed records of a source on their way to its dead-letter folder, exactly once.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use millrace_connectors::{sink::SinkWriter, source::BadRecord};
use millrace_dataflow::StateId;
use millrace_types::CheckpointId;

use crate::{
    OperatorError, OperatorSnapshot, RestoredState,
    two_phase::{TwoPhase, connector},
};

const NAME: &str = "dead-letters";

/// Columns of a dead letter: where it was, why it is bad, and the record (invalid UTF-8 replaced).
pub fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        text("place"),
        text("reason"),
        text("record"),
    ]))
}

/// Writes dead letters of one source subtask.
pub struct DeadLetters {
    phases: TwoPhase,
}

impl DeadLetters {
    pub fn open(
        writer: Box<dyn SinkWriter>,
        state_id: &StateId,
        subtask: u32,
        restored: &RestoredState,
    ) -> Result<Self, OperatorError> {
        Ok(DeadLetters {
            phases: TwoPhase::open(writer, NAME, state_id, subtask, restored)?,
        })
    }

    pub fn write(&mut self, letters: &[BadRecord]) -> Result<(), OperatorError> {
        let column = |text: &dyn Fn(&BadRecord) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(letters.iter().map(text)))
        };
        let columns = vec![
            column(&|letter| letter.place.clone()),
            column(&|letter| letter.reason.clone()),
            column(&|letter| String::from_utf8_lossy(&letter.raw).into_owned()),
        ];
        let rows = RecordBatch::try_new(schema(), columns)?;
        self.phases.writer().write(&rows, None).map_err(connector)
    }

    pub fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        state_id: &StateId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        self.phases.snapshot(checkpoint, state_id, snapshot)
    }

    pub fn commit(&mut self, checkpoint: CheckpointId) -> Result<(), OperatorError> {
        self.phases.commit(checkpoint)
    }
}
