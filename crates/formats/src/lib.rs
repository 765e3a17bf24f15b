//! Bytes to rows and back: the formats of tables over [Arrow](arrow).
//!
//! A [`FormatSpec`] is made from a table's `WITH` options and schema and gives out
//! [`Decoder`]s and [`Encoder`]s for record formats (`json`, `csv`, `raw`, `debezium-json`).
//! Parquet files have a [`ParquetReader`] and a [`ParquetFileWriter`] of their own. Where a record
//! comes as a message of its own there is a [`MessageSpec`] instead.
//!
//! The crate does no IO and is synchronous: callers bring bytes, readers and writers.
//! Invariants: bad input is an error that says where and what, or a counted record, never a
//! panic; memory is bounded by a record's limit and a batch's; what a decoder yields does not
//! depend on how its input was cut into chunks.

mod compression;
mod decode;
mod encode;
mod error;
mod parquet;
mod rows;
mod spec;
mod sql_type;
mod text;

pub use compression::Compression;
pub use decode::{
    BadMessage, DEFAULT_MAX_RECORD_BYTES, DEFAULT_MAX_ROWS, DeadLetter, DecodeCounters,
    DecodedBatch, DecodedRows, Decoder, DecoderConfig, MAX_RECORD_LIMIT, MessageDecoder, OnError,
    Position,
};
pub use encode::{EncodedMessages, Encoder, MessageEncoder};
pub use error::{BadRecord, FormatError, MAX_QUOTED};
pub use parquet::{ParquetBatch, ParquetCompression, ParquetFileWriter, ParquetReader};
pub use rows::{JsonRow, json_objects, json_rows};
pub use spec::{FormatKind, FormatSpec, MessageSpec};
pub use sql_type::sql_type_name;
