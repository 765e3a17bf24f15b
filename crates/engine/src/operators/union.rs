//! Passes the rows of all inputs on.

use arrow::datatypes::SchemaRef;
use millrace_types::CheckpointId;

use super::columns::batch_of;
use crate::{Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output};

pub(crate) struct Union {
    schema: SchemaRef,
}

impl Union {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Union { schema }
    }
}

impl Operator for Union {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        if batch.rows.schema_ref() == &self.schema {
            out.emit(batch);
            return Ok(());
        }
        // Inputs may name their columns otherwise.
        let rows = batch_of(&self.schema, batch.rows.columns().to_vec(), batch.len())?;
        out.emit(Batch {
            rows,
            kinds: batch.kinds,
        });
        Ok(())
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }
}
