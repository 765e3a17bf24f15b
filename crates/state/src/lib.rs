//! Keyed state: tables over RocksDB on the slot's side, snapshots in object storage on the
//! other, and the way between them.
//!
//! A slot owns a [`SlotStore`] with one [`Table`] per state. Operators keep hot entries in their
//! own form and hand over what changed as a [`Delta`]. At a barrier [`SlotStore::freeze`] makes
//! the deltas readable at once; [`FrozenSnapshot::persist`], off the slot's thread, writes them
//! and cuts a [`LocalSnapshot`], which [`upload_incremental`] or [`write_canonical`] bring to
//! object storage. A [`SnapshotManifest`] makes all slots' parts a checkpoint or savepoint, and
//! [`restore`] turns it back into files that a store opens.
//!
//! Time comes in through [`SlotStore::set_now_ms`]; nothing here reads a clock.

mod base64_bytes;
mod budget;
mod canonical;
mod delta;
mod error;
mod frozen;
pub mod garbage;
mod layout;
pub mod manifest;
mod restore;
mod savepoint;
mod scan;
mod snapshot;
mod sorted_run;
pub mod storage;
mod store;
mod table;
mod transfer;
mod upload;
mod value;

pub use budget::StateBudget;
pub use delta::Delta;
pub use error::StateError;
pub use frozen::{FrozenSnapshot, LocalSnapshot, Spill};
pub use layout::{Layout, SharedFileId, SharedFileIdError};
pub use manifest::{OperatorStateItem, SlotSnapshot, SnapshotKind, SnapshotManifest};
pub use restore::{RestoredInfo, restore};
pub use savepoint::write_canonical;
pub use scan::PartVisitor;
pub use snapshot::{
    CanonicalPart, CanonicalSnapshot, IncrementalSnapshot, KeyedSnapshot, MetadataFile, SharedFile,
    UploadedFiles,
};
pub use store::SlotStore;
pub use table::{ScanVisitor, Table};
pub use upload::upload_incremental;
pub use value::Value;

#[cfg(test)]
mod tests;
