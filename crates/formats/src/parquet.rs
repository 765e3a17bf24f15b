//! Parquet files to and from rows of a table.

mod conform;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{ParquetBatch, ParquetReader};
pub use write::{ParquetCompression, ParquetFileWriter};
