//! Writes entries into a table as sorted files that RocksDB takes over by a rename: no
//! memtable, no log, one pass.

use std::{fs, path::Path};

use rocksdb::{BoundColumnFamily, DB, IngestExternalFileOptions, Options, SstFileWriter};
use std::sync::Arc;

use crate::{
    budget::SST_BYTES,
    delta::Columns,
    error::{IoContext, Result, RocksContext},
};

/// Makes the entries of `columns` named by `order` (ascending keys, each once) part of the
/// table. `scratch` is a directory on the database's file system for the files in the making.
/// Repeating a call that failed is safe: the entries are the same.
pub(crate) fn ingest(
    db: &DB,
    table: &Arc<BoundColumnFamily<'_>>,
    options: &Options,
    scratch: &Path,
    columns: &Columns,
    order: &[u32],
) -> Result<()> {
    if order.is_empty() {
        return Ok(());
    }
    if scratch.exists() {
        fs::remove_dir_all(scratch).at("clear", scratch)?;
    }
    fs::create_dir_all(scratch).at("create", scratch)?;
    let mut files = Vec::new();
    let mut entries = order.iter().map(|entry| *entry as usize).peekable();
    while entries.peek().is_some() {
        let path = scratch.join(format!("{:06}.sst", files.len()));
        let mut writer = SstFileWriter::create(options);
        let action = || format!("write the sorted file {}", path.display());
        writer.open(&path).doing(action)?;
        let mut bytes = 0;
        for entry in entries.by_ref() {
            let key = columns.key(entry);
            match columns.value(entry) {
                Some(value) => writer.put(key, value),
                None => writer.delete(key),
            }
            .doing(action)?;
            bytes += (key.len() + columns.value(entry).map_or(0, <[u8]>::len)) as u64;
            if bytes >= SST_BYTES {
                break;
            }
        }
        writer.finish().doing(action)?;
        files.push(path);
    }
    let mut ingest = IngestExternalFileOptions::default();
    ingest.set_move_files(true);
    db.ingest_external_file_cf_opts(table, &ingest, files)
        .doing(|| "take over sorted files".into())?;
    fs::remove_dir_all(scratch).at("clear", scratch)
}
