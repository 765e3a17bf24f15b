//! Rows to bytes: the [`Encoder`] trait and what its implementations share.

mod csv;
mod debezium;
mod json;
mod message;
mod raw;
mod typed;

#[cfg(test)]
mod tests;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::error::FormatError;
use crate::sql_type::sql_type_name;

pub(crate) use csv::CsvEncoder;
pub(crate) use debezium::DebeziumEncoder;
pub(crate) use json::{JsonEncoder, JsonStyle, range as json_range};
pub use message::{EncodedMessages, MessageEncoder};
pub(crate) use raw::RawEncoder;
pub(crate) use typed::{Typed, Values};

/// Turns batches of one schema into bytes.
pub trait Encoder: Send {
    /// Appends what a file or stream starts with: the CSV header. Call it once per new file,
    /// not when appending to one that was begun before.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends the rows of `batch`. `kinds` has one kind per row; `None` means all are
    /// insertions. After an error `out` is as it was.
    ///
    /// # Errors
    /// [`FormatError::Changelog`] for a kind other than insertion if the format
    /// [does not take it](crate::FormatSpec::accepts_changelog),
    /// [`FormatError::BatchSchema`] for a batch of another schema.
    fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError>;
}

/// Checks that `batch` has the columns that the encoder was made for.
fn check_schema(schema: &SchemaRef, batch: &RecordBatch) -> Result<(), FormatError> {
    let wanted = schema.fields();
    for (index, field) in wanted.iter().enumerate() {
        let found = match batch.columns().get(index) {
            Some(column) if same_type(column.data_type(), field.data_type()) => continue,
            Some(column) => format!(
                "`{}` {}",
                batch.schema_ref().field(index).name(),
                sql_type_name(column.data_type())
            ),
            None => "missing".to_owned(),
        };
        return Err(FormatError::BatchSchema {
            index,
            found,
            expected: format!("`{}` {}", field.name(), sql_type_name(field.data_type())),
        });
    }
    if batch.num_columns() > wanted.len() {
        let extra = batch.schema_ref().field(wanted.len()).clone();
        return Err(FormatError::BatchSchema {
            index: wanted.len(),
            found: format!("`{}` {}", extra.name(), sql_type_name(extra.data_type())),
            expected: "no such column".to_owned(),
        });
    }
    Ok(())
}

/// Whether values of both types are written the same, names of nested fields aside.
fn same_type(found: &arrow::datatypes::DataType, wanted: &arrow::datatypes::DataType) -> bool {
    found.equals_datatype(wanted)
}

/// Checks that there is a kind per row, and that they are all insertions.
fn check_insertions(
    format: &'static str,
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
) -> Result<(), FormatError> {
    check_kind_count(batch, kinds)?;
    let other = kinds
        .unwrap_or(&[])
        .iter()
        .enumerate()
        .find(|(_, kind)| **kind != RowKind::Insert);
    match other {
        None => Ok(()),
        Some((row, kind)) => Err(FormatError::Changelog {
            format,
            row,
            kind: kind.short_name(),
        }),
    }
}

fn check_kind_count(batch: &RecordBatch, kinds: Option<&[RowKind]>) -> Result<(), FormatError> {
    match kinds {
        Some(kinds) if kinds.len() != batch.num_rows() => Err(FormatError::KindCount {
            rows: batch.num_rows(),
            kinds: kinds.len(),
        }),
        _ => Ok(()),
    }
}
