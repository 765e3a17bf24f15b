//! Repeats every row once per grouping set, with the columns outside of the set nulled.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, new_null_array},
    datatypes::SchemaRef,
};
use millrace_dataflow::ExpandNode;
use millrace_types::CheckpointId;

use super::columns::batch_of;
use crate::{Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output};

pub(crate) struct Expand {
    node: Arc<ExpandNode>,
    schema: SchemaRef,
}

impl Expand {
    pub(crate) fn new(node: Arc<ExpandNode>, schema: SchemaRef) -> Self {
        Expand { node, schema }
    }
}

impl Operator for Expand {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        let rows = batch.len();
        for (nulled, grouping_id) in &self.node.sets {
            let mut columns = batch.rows.columns().to_vec();
            for column in nulled {
                columns[*column] = new_null_array(columns[*column].data_type(), rows);
            }
            let ids: ArrayRef = Arc::new(Int64Array::from(vec![*grouping_id; rows]));
            columns.push(ids);
            out.emit(Batch {
                rows: batch_of(&self.schema, columns, rows)?,
                kinds: batch.kinds.clone(),
            });
        }
        Ok(())
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }
}
