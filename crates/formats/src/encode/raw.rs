//! Rows of one STRING or BYTES column as lines.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::error::FormatError;
use crate::sql_type::sql_type_name;

use super::{Encoder, Typed, check_insertions, check_schema};

/// Writes every value as it is, and a line end. Null is an empty line.
pub(crate) struct RawEncoder {
    schema: SchemaRef,
}

impl RawEncoder {
    pub(crate) fn new(schema: SchemaRef) -> RawEncoder {
        RawEncoder { schema }
    }
}

impl Encoder for RawEncoder {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        check_schema(&self.schema, batch)?;
        check_insertions("raw", batch, kinds)?;
        let start = out.len();
        for (array, field) in batch.columns().iter().zip(self.schema.fields()) {
            let column = Typed::new(array).map_err(|data_type| FormatError::UnsupportedColumn {
                format: "raw",
                column: field.name().clone(),
                sql_type: sql_type_name(&data_type),
                hint: "CAST it to STRING",
            })?;
            for row in 0..batch.num_rows() {
                let value = if column.is_null(row) {
                    &[][..]
                } else if let Some(text) = column.string(row) {
                    text.as_bytes()
                } else {
                    column.binary(row).unwrap_or(&[])
                };
                if value.contains(&b'\n') {
                    out.truncate(start);
                    return Err(FormatError::BadValue {
                        row,
                        column: field.name().clone(),
                        problem: "the value has a line end, which format 'raw' cannot hold; \
                                  use 'json' or 'csv'"
                            .to_owned(),
                    });
                }
                out.extend_from_slice(value);
                out.push(b'\n');
            }
        }
        Ok(())
    }
}
