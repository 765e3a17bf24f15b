//! Tables that are files: a file, a directory or a glob to read, a directory to write.
//!
//! Reading: every file is a split; files are taken to be complete once they are listed (write
//! them elsewhere and rename them in), names that start with `.` or `_` are ignored. Writing:
//! rows are staged in hidden files and renamed to their final names when their checkpoint is
//! complete, so readers see every row exactly once. A staged file and its name are on the disk
//! before its checkpoint is, and its final name before the checkpoint counts as committed.

mod durable;
mod leftovers;
mod listing;
mod options;
mod part_file;
mod partition;
mod read;
mod record_file;
mod row_file;
mod shape;
mod staged;
mod write;

#[cfg(test)]
pub(crate) use options::OPTIONS;
pub use options::{SinkOptions, SourceOptions};
pub use read::FilesystemSource;
pub use write::FilesystemSink;

#[cfg(test)]
mod tests;
