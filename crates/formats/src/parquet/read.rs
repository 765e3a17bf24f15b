//! Reads a Parquet file as rows of a table, from any row on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use crate::error::FormatError;
use crate::sql_type::sql_type_name;

use super::conform::conform;

/// Rows of a file that follow each other.
#[derive(Debug, Clone)]
pub struct ParquetBatch {
    /// At least one row, in the table's schema.
    pub batch: RecordBatch,
    /// Rows of the file up to and including the last one here: where to resume.
    pub end_row: u64,
}

/// Iterates over the rows of one file in the table's schema.
///
/// Columns are matched by name. A column that the file does not have is null, or an error if
/// it is NOT NULL. A column of another type is converted where no value can change by it;
/// anything else is an error naming the column and both types.
pub struct ParquetReader {
    schema: SchemaRef,
    /// Place of each column in the batches of `reader`; `None` if the file has no such.
    places: Vec<Option<usize>>,
    /// `None` after an error.
    reader: Option<ParquetRecordBatchReader>,
    row: u64,
    total: u64,
}

/// The library panics on some damaged files; for whoever reads a file that is an error like
/// any other. What `read` works on must not be used afterwards.
fn without_panic<T>(
    context: &str,
    read: impl FnOnce() -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no reason given".to_owned());
        Err(FormatError::Parquet {
            context: format!("{context}: the file is damaged"),
            source: ParquetError::General(message),
        })
    })
}

fn failed(context: &str) -> impl FnOnce(ParquetError) -> FormatError {
    let context = context.to_owned();
    move |source| FormatError::Parquet { context, source }
}

impl ParquetReader {
    /// Opens `file` to read the columns of `schema` from row `start_row` on (rows count from
    /// 0), at most `max_rows` per batch. Row groups before `start_row` are not read.
    ///
    /// # Errors
    /// When it is not a Parquet file, ends before `start_row`, or has not the columns.
    pub fn open<R: ChunkReader + 'static>(
        file: R,
        schema: SchemaRef,
        start_row: u64,
        max_rows: usize,
    ) -> Result<ParquetReader, FormatError> {
        without_panic("cannot open the file", || {
            Self::open_file(file, schema, start_row, max_rows)
        })
    }

    fn open_file<R: ChunkReader + 'static>(
        file: R,
        schema: SchemaRef,
        start_row: u64,
        max_rows: usize,
    ) -> Result<ParquetReader, FormatError> {
        // The Arrow schema that some writers embed says how a file was written, not what it
        // holds; types such as dictionaries would only have to be undone.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
            .map_err(failed("cannot read the file's footer"))?;
        let file_schema = Arc::clone(builder.schema());
        let metadata = Arc::clone(builder.metadata());

        let mut roots = Vec::new();
        for field in schema.fields() {
            match file_schema.index_of(field.name()) {
                Ok(root) => roots.push(Some(root)),
                Err(_) if field.is_nullable() => roots.push(None),
                Err(_) => {
                    let names: Vec<&str> = file_schema
                        .fields()
                        .iter()
                        .take(30)
                        .map(|field| field.name().as_str())
                        .collect();
                    return Err(FormatError::ParquetColumn {
                        column: field.name().clone(),
                        file_type: "absent".to_owned(),
                        wanted: format!("{} NOT NULL", sql_type_name(field.data_type())),
                        problem: format!("the file has {}", names.join(", ")),
                    });
                }
            }
        }
        // Batches hold the projected columns in the file's order.
        let mut projected: Vec<usize> = roots.iter().flatten().copied().collect();
        projected.sort_unstable();
        projected.dedup();
        let places = roots
            .iter()
            .map(|root| root.and_then(|root| projected.binary_search(&root).ok()))
            .collect();

        let mut total = 0u64;
        let mut skipped = 0u64;
        let mut groups = Vec::new();
        for (index, group) in metadata.row_groups().iter().enumerate() {
            let rows = u64::try_from(group.num_rows()).map_err(|_| FormatError::Parquet {
                context: format!("row group {index} of the file is damaged"),
                source: ParquetError::General("negative number of rows".to_owned()),
            })?;
            total = total.saturating_add(rows);
            if total <= start_row {
                skipped = total;
            } else {
                groups.push(index);
            }
        }
        if start_row > total {
            return Err(FormatError::Parquet {
                context: format!("cannot resume at row {start_row} of a file of {total} rows"),
                source: ParquetError::General("the file is shorter than it was".to_owned()),
            });
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), projected);
        let offset = usize::try_from(start_row - skipped).unwrap_or(usize::MAX);
        let reader = builder
            .with_projection(mask)
            .with_row_groups(groups)
            .with_offset(offset)
            .with_batch_size(max_rows.max(1))
            .build()
            .map_err(failed("cannot start reading"))?;
        Ok(ParquetReader {
            schema,
            places,
            reader: Some(reader),
            row: start_row,
            total,
        })
    }

    /// Rows of the whole file.
    pub fn total_rows(&self) -> u64 {
        self.total
    }

    /// Row that the next batch starts with.
    pub fn next_row(&self) -> u64 {
        self.row
    }

    fn in_schema(&self, file_batch: &RecordBatch) -> Result<RecordBatch, FormatError> {
        let rows = file_batch.num_rows();
        let fields = self.schema.fields().iter();
        let columns = fields
            .zip(&self.places)
            .map(|(field, place)| match place {
                Some(place) => conform(field.name(), file_batch.column(*place), field, self.row),
                None => Ok(new_null_array(field.data_type(), rows)),
            })
            .collect::<Result<Vec<ArrayRef>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(
            |source| FormatError::Arrow {
                context: "cannot build a batch from the columns of a Parquet file",
                source,
            },
        )
    }
}

impl Iterator for ParquetReader {
    type Item = Result<ParquetBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Whatever goes wrong, the reader is gone: it may have left its place.
        let mut reader = self.reader.take()?;
        let read = without_panic("cannot read on in the file", || {
            loop {
                match reader.next().transpose() {
                    Ok(Some(batch)) if batch.num_rows() == 0 => {}
                    Ok(batch) => return Ok(batch),
                    Err(source) => {
                        return Err(FormatError::Arrow {
                            context: "cannot read on in the Parquet file",
                            source,
                        });
                    }
                }
            }
        });
        let batch = match read {
            Ok(batch) => self.in_schema(&batch?),
            Err(error) => Err(error),
        };
        Some(batch.map(|batch| {
            self.reader = Some(reader);
            self.row += batch.num_rows() as u64;
            ParquetBatch {
                batch,
                end_row: self.row,
            }
        }))
    }
}
