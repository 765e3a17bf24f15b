//! The operator at the end: hands rows to a connector's writer under the two-phase commit.

use std::sync::Arc;

use arrow::{array::Array, datatypes::SchemaRef};
use millrace_connectors::sink::{Sink, WriterContext};
use millrace_dataflow::StateId;
use millrace_types::CheckpointId;

use crate::{
    Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    two_phase::{TwoPhase, connector},
};

const NAME: &str = "committables";

/// Writes one subtask's rows of a table.
pub struct SinkOperator {
    sink: Arc<dyn Sink>,
    context: WriterContext,
    state_id: StateId,
    phases: Option<TwoPhase>,
    schema: SchemaRef,
}

impl SinkOperator {
    /// `schema` is the table's: its NOT NULL columns are enforced.
    pub fn new(
        sink: Arc<dyn Sink>,
        context: WriterContext,
        schema: SchemaRef,
        state_id: StateId,
    ) -> Self {
        SinkOperator {
            sink,
            context,
            state_id,
            phases: None,
            schema,
        }
    }

    fn phases(&mut self) -> Result<&mut TwoPhase, OperatorError> {
        self.phases
            .as_mut()
            .ok_or_else(|| OperatorError::Internal("sink used before it was opened".into()))
    }
}

impl Operator for SinkOperator {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        let writer = self.sink.open(&self.context).map_err(connector)?;
        self.phases = Some(TwoPhase::open(
            writer,
            NAME,
            &self.state_id,
            context.subtask,
            context.restored,
        )?);
        Ok(())
    }

    fn process(
        &mut self,
        _input: usize,
        batch: Batch,
        _out: &mut Output,
    ) -> Result<(), OperatorError> {
        for (index, field) in self.schema.fields().iter().enumerate() {
            if !field.is_nullable() && batch.rows.column(index).null_count() > 0 {
                return Err(OperatorError::Data(format!(
                    "column `{}` of table `{}` is NOT NULL, but a row to be written has NULL there: \
                     filter such rows out, give them a value with COALESCE, or declare the column nullable",
                    field.name(),
                    self.context.table
                )));
            }
        }
        let kinds = batch.kinds.as_deref();
        self.phases()?
            .writer()
            .write(&batch.rows, kinds)
            .map_err(connector)
    }

    fn next_tick(&self) -> Option<i64> {
        self.phases.as_ref()?.next_tick()
    }

    fn tick(&mut self, now_ms: i64, _out: &mut Output) -> Result<(), OperatorError> {
        self.phases()?.writer().tick(now_ms).map_err(connector)
    }

    fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        let state_id = self.state_id.clone();
        self.phases()?.snapshot(checkpoint, &state_id, snapshot)
    }

    fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), OperatorError> {
        self.phases()?.commit(checkpoint)
    }
}
