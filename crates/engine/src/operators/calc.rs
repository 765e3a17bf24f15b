//! Filters rows, then projects columns.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray},
    datatypes::SchemaRef,
};
use datafusion_physical_expr::expressions::Column;
use millrace_dataflow::{CalcNode, ScalarExpr};
use millrace_types::CheckpointId;

use super::columns::batch_of;
use crate::{Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output};

pub(crate) struct Calc {
    node: Arc<CalcNode>,
    schema: SchemaRef,
    /// By output column: the input column that it is, unless it is computed.
    plain: Vec<Option<usize>>,
}

impl Calc {
    pub(crate) fn new(node: Arc<CalcNode>, schema: SchemaRef) -> Self {
        let plain = node
            .projection
            .iter()
            .map(|scalar| scalar.expr.downcast_ref::<Column>().map(Column::index))
            .collect();
        Calc {
            node,
            schema,
            plain,
        }
    }

    /// Keeps only the columns that the projection reads, so that the filter copies no others.
    fn filter(&self, batch: Batch) -> Result<Option<Batch>, OperatorError> {
        let Some(predicate) = &self.node.predicate else {
            return Ok(Some(batch));
        };
        let mask = evaluate(predicate, &batch)?;
        let mask = mask.as_boolean_opt().ok_or_else(|| {
            OperatorError::Internal(format!("the filter `{}` is not boolean", predicate.text))
        })?;
        match true_count(mask) {
            0 => Ok(None),
            all if all == batch.len() => Ok(Some(batch)),
            _ => Ok(Some(batch.filter(mask)?)),
        }
    }
}

fn true_count(mask: &BooleanArray) -> usize {
    match mask.nulls() {
        Some(nulls) => (mask.values() & nulls.inner()).count_set_bits(),
        None => mask.values().count_set_bits(),
    }
}

fn evaluate(scalar: &ScalarExpr, batch: &Batch) -> Result<ArrayRef, OperatorError> {
    scalar
        .expr
        .evaluate(&batch.rows)
        .and_then(|value| value.into_array(batch.len()))
        .map_err(|error| OperatorError::in_expression(&error, &scalar.text))
}

impl Operator for Calc {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        if batch.is_empty() {
            return Ok(());
        }
        let Some(batch) = self.filter(batch)? else {
            return Ok(());
        };
        let columns = self
            .node
            .projection
            .iter()
            .zip(&self.plain)
            .map(|(scalar, plain)| match plain {
                Some(column) => Ok(Arc::clone(batch.rows.column(*column))),
                None => evaluate(scalar, &batch),
            })
            .collect::<Result<Vec<_>, _>>()?;
        out.emit(Batch {
            rows: batch_of(&self.schema, columns, batch.len())?,
            kinds: batch.kinds,
        });
        Ok(())
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }
}
