//! A changelog as `debezium-json`: one object per change, as Flink writes it.
//!
//! An addition (`+I`, `+U`) is `{"before":null,"after":{…},"op":"c"}`, what takes a row back
//! (`-U`, `-D`) is `{"before":{…},"after":null,"op":"d"}`.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::error::FormatError;

use super::json::JsonRows;
use super::{Encoder, JsonStyle, check_kind_count, check_schema};

/// Writes every kind of row.
pub(crate) struct DebeziumEncoder {
    schema: SchemaRef,
    rows: JsonRows,
}

impl DebeziumEncoder {
    pub(crate) fn new(schema: SchemaRef, style: JsonStyle) -> DebeziumEncoder {
        let rows = JsonRows::new(&schema, style);
        DebeziumEncoder { schema, rows }
    }
}

impl Encoder for DebeziumEncoder {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        check_schema(&self.schema, batch)?;
        check_kind_count(batch, kinds)?;
        let columns = self.rows.columns(batch)?;
        for row in 0..batch.num_rows() {
            if kinds.is_none_or(|kinds| kinds[row].is_addition()) {
                out.extend_from_slice(br#"{"before":null,"after":"#);
                self.rows.write(&columns, row, out);
                out.extend_from_slice(b",\"op\":\"c\"}\n");
            } else {
                out.extend_from_slice(br#"{"before":"#);
                self.rows.write(&columns, row, out);
                out.extend_from_slice(b",\"after\":null,\"op\":\"d\"}\n");
            }
        }
        Ok(())
    }
}
