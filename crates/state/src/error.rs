//! What can go wrong with state, as the next action of whoever reads it: retry (storage, IO),
//! give way (fenced, superseded), restore from another snapshot (missing, corrupt), or fix
//! the configuration (URL, format).

use std::path::PathBuf;

use millrace_dataflow::KeyGroupRange;
use millrace_types::CheckpointId;

/// A failure of the state layer. Display omits the source: log the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// RocksDB refused; the slot's state is unusable, restore from the latest checkpoint.
    #[error("RocksDB could not {action}")]
    RocksDb {
        action: String,
        source: rocksdb::Error,
    },
    /// The local disk refused.
    #[error("could not {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The object store refused; the operation can be repeated.
    #[error("could not {action} object `{object}`")]
    Storage {
        action: &'static str,
        object: String,
        source: object_store::Error,
    },
    /// A snapshot refers to an object that is gone.
    #[error(
        "object `{object}`, needed by {needed_by}, does not exist: restore from another checkpoint or savepoint"
    )]
    MissingObject { object: String, needed_by: String },
    /// Stored bytes are not what was written.
    #[error("`{object}` is damaged: {reason}; restore from another checkpoint or savepoint")]
    Corrupt { object: String, reason: String },
    /// Stored by a version of Millrace that this one does not know.
    #[error(
        "`{object}` has {what} {found}, this version reads {expected}: use the version that wrote it, or a newer one"
    )]
    UnsupportedFormat {
        object: String,
        what: &'static str,
        found: String,
        expected: String,
    },
    /// Another attempt has written this snapshot's manifest: this one is a zombie and must stop.
    #[error("`{object}` exists with other content: another execution has completed this snapshot")]
    Fenced { object: String },
    /// A later snapshot of the same store has been persisted, so this one can no longer be.
    #[error(
        "the snapshot of checkpoint {checkpoint} was overtaken by a later one of the same slot"
    )]
    Superseded { checkpoint: CheckpointId },
    /// The snapshots given to a restore do not hold all key groups asked for.
    #[error("no snapshot holds key group {missing} of the range {}..{}", range.start, range.end)]
    Uncovered { missing: u16, range: KeyGroupRange },
    /// A storage URL that cannot be used.
    #[error("storage URL `{url}` is not usable: {reason}")]
    Url { url: String, reason: String },
    /// A background task of the restore or savepoint panicked.
    #[error("a background task died while it had to {action}")]
    Task {
        action: &'static str,
        source: tokio::task::JoinError,
    },
}

pub(crate) type Result<T> = std::result::Result<T, StateError>;

/// Adds what was being done to a RocksDB error.
pub(crate) trait RocksContext<T> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T> RocksContext<T> for std::result::Result<T, rocksdb::Error> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| StateError::RocksDb {
            action: action(),
            source,
        })
    }
}

/// Adds the action and path to an IO error.
pub(crate) trait IoContext<T> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T> {
        self.map_err(|source| StateError::Io {
            action,
            path: path.to_path_buf(),
            source,
        })
    }
}

/// Adds the action and object to a storage error.
pub(crate) trait StorageContext<T> {
    fn on(self, action: &'static str, object: &object_store::path::Path) -> Result<T>;
}

impl<T> StorageContext<T> for object_store::Result<T> {
    fn on(self, action: &'static str, object: &object_store::path::Path) -> Result<T> {
        self.map_err(|source| StateError::Storage {
            action,
            object: object.to_string(),
            source,
        })
    }
}
