//! Rows as CSV.
//!
//! A null is the null literal without quotes. A value is quoted when it would otherwise read
//! as something else: when it holds the delimiter, a quote or a line end, equals the null
//! literal, is an empty string, or begins like a comment. So what is written reads back the
//! same, but for a NULL string alone in its record: that line would be blank, so it is
//! written `""` and reads back as an empty string unless a null literal is set.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::decode::CsvDialect;
use crate::error::FormatError;
use crate::sql_type::sql_type_name;

use super::{Encoder, Typed, check_insertions, check_schema};

/// Writes insertions as records of CSV.
pub(crate) struct CsvEncoder {
    schema: SchemaRef,
    dialect: CsvDialect,
    null_literal: String,
    with_header: bool,
}

impl CsvEncoder {
    pub(crate) fn new(
        schema: SchemaRef,
        dialect: CsvDialect,
        null_literal: String,
        with_header: bool,
    ) -> CsvEncoder {
        CsvEncoder {
            schema,
            dialect,
            null_literal,
            with_header,
        }
    }

    /// Quotes the field that was appended from `start` on if it needs it; false when it does
    /// but the table has no quote character.
    #[inline]
    fn close_field(&self, start: usize, first: bool, out: &mut Vec<u8>) -> bool {
        let CsvDialect {
            delimiter,
            quote,
            escape,
            ..
        } = self.dialect;
        let field = &out[start..];
        let special = |byte: &u8| {
            *byte == delimiter
                || *byte == b'\n'
                || *byte == b'\r'
                || Some(*byte) == quote
                || Some(*byte) == escape
        };
        let needed = field.iter().any(special)
            || field.is_empty()
            || field == self.null_literal.as_bytes()
            || (first && (field[0] == b'#' || field.starts_with(b"\xef\xbb\xbf")));
        if !needed {
            return true;
        }
        let Some(quote) = quote else {
            // Without quotes an empty string cannot be told from null; the rest would read
            // back as other fields, as null or as a comment.
            return !field.iter().any(special)
                && (field.is_empty() || field != self.null_literal.as_bytes())
                && !(first && self.dialect.is_comment(field));
        };
        let plain = field.to_vec();
        out.truncate(start);
        out.push(quote);
        for byte in plain {
            if byte == quote {
                out.push(quote);
            } else if Some(byte) == escape {
                out.push(byte);
            }
            out.push(byte);
        }
        out.push(quote);
        true
    }

    fn write_row(
        &self,
        columns: &[Typed<'_>],
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(self.dialect.delimiter);
            }
            let start = out.len();
            if column.is_null(row) {
                out.extend_from_slice(self.null_literal.as_bytes());
                continue;
            }
            column.write_text(row, b' ', out);
            if !self.close_field(start, index == 0, out) {
                return Err(FormatError::BadValue {
                    row,
                    column: self.schema.field(index).name().clone(),
                    problem: "the value needs quotes but the table has \
                              'csv.disable-quote-character' = 'true'"
                        .to_owned(),
                });
            }
        }
        if let ([column], Some(quote)) = (columns, self.dialect.quote)
            && column.is_null(row)
            && self.null_literal.is_empty()
        {
            out.extend_from_slice(&[quote, quote]);
        }
        out.push(b'\n');
        Ok(())
    }
}

impl Encoder for CsvEncoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.with_header {
            return;
        }
        for (index, field) in self.schema.fields().iter().enumerate() {
            if index > 0 {
                out.push(self.dialect.delimiter);
            }
            let start = out.len();
            out.extend_from_slice(field.name().as_bytes());
            self.close_field(start, index == 0, out);
        }
        out.push(b'\n');
    }

    fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        check_schema(&self.schema, batch)?;
        check_insertions("csv", batch, kinds)?;
        let fields = batch.schema_ref().fields();
        let columns = batch
            .columns()
            .iter()
            .zip(fields)
            .map(|(column, field)| {
                Typed::new(column).map_err(|data_type| FormatError::UnsupportedColumn {
                    format: "csv",
                    column: field.name().clone(),
                    sql_type: sql_type_name(&data_type),
                    hint: "CAST it to a type that is",
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let start = out.len();
        for row in 0..batch.num_rows() {
            if let Err(error) = self.write_row(&columns, row, out) {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }
}
