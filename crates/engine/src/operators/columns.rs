//! Putting output batches together.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::SchemaRef,
};

use crate::OperatorError;

/// A batch of this schema. Columns that differ from it only in form (another string layout,
/// another element name) are cast.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, OperatorError> {
    if columns.len() != schema.fields().len() {
        return Err(OperatorError::Internal(format!(
            "{} columns for a schema of {}",
            columns.len(),
            schema.fields().len()
        )));
    }
    let columns = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(column)
            } else {
                cast(&column, field.data_type())
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}
