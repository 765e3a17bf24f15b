//! Writes rows as a Parquet file.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::error::FormatError;

/// How the pages of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParquetCompression {
    /// Not at all.
    None,
    /// Fast and understood by every reader.
    #[default]
    Snappy,
    /// Smaller files at some cost.
    Zstd,
    /// Fast; not every reader understands it.
    Lz4,
}

/// Rows of a row group: readers skip whole groups when they resume, and the writer holds
/// one in memory.
const ROW_GROUP_ROWS: usize = 256 * 1024;

/// Bytes of a row group in memory after which it is written though it has fewer rows.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A Parquet file being written to `W`.
///
/// Until [`finish`](Self::finish) has written the footer it cannot be read, so a file cannot
/// be continued by another writer.
pub struct ParquetFileWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    rows: u64,
}

fn failed(context: &'static str) -> impl FnOnce(ParquetError) -> FormatError {
    move |source| FormatError::Parquet {
        context: context.to_owned(),
        source,
    }
}

impl<W: Write + Send> ParquetFileWriter<W> {
    /// Starts a file of `schema` at the current end of `target`.
    ///
    /// # Errors
    /// When Parquet has no type for a column, or `target` refuses bytes.
    pub fn new(
        target: W,
        schema: SchemaRef,
        compression: ParquetCompression,
    ) -> Result<Self, FormatError> {
        let compression = match compression {
            ParquetCompression::None => Compression::UNCOMPRESSED,
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
            ParquetCompression::Lz4 => Compression::LZ4_RAW,
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(target, schema, Some(properties))
            .map_err(failed("cannot start the file"))?;
        Ok(ParquetFileWriter { writer, rows: 0 })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// When the batch has another schema, or the target refuses bytes.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), FormatError> {
        self.writer
            .write(batch)
            .map_err(failed("cannot write rows"))?;
        self.rows += batch.num_rows() as u64;
        if self.writer.memory_size() >= ROW_GROUP_BYTES {
            self.writer
                .flush()
                .map_err(failed("cannot write a row group"))?;
        }
        Ok(())
    }

    /// Rows written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes written to the target, and an estimate for the rows that are still in memory:
    /// what a sink that rolls files by size goes by.
    pub fn bytes_so_far(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// Bytes of memory that the open row group takes.
    pub fn memory_size(&self) -> usize {
        self.writer.memory_size()
    }

    /// Writes the open row group and the footer, and gives the target back.
    ///
    /// # Errors
    /// When the target refuses bytes.
    pub fn finish(self) -> Result<W, FormatError> {
        self.writer
            .into_inner()
            .map_err(failed("cannot finish the file"))
    }
}

impl ParquetFileWriter<Vec<u8>> {
    /// Takes the bytes that have reached the target so far, for a caller that passes them
    /// on piece by piece. Concatenated with what [`finish`](Self::finish) gives they are
    /// the file.
    ///
    /// # Errors
    /// When the row groups written so far cannot be completed.
    pub fn drain(&mut self) -> Result<Vec<u8>, FormatError> {
        self.writer.sync().map_err(|error| FormatError::Parquet {
            context: "cannot hand out the bytes written so far".to_owned(),
            source: ParquetError::External(Box::new(error)),
        })?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }
}
