//! The memory that all RocksDB instances of a worker share, and the options they run with.
//!
//! Tables are written as sorted files only (see `sorted_run`), so memtables stay empty but for
//! the range deletions of a restore; nearly all of the budget is block cache, which also holds
//! index and filter blocks. No write-ahead log: what is not in a checkpoint is replayed.

use std::{
    ffi::CStr,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use rocksdb::{
    BlockBasedOptions, Cache, CompactionDecision, DBCompressionType, LogLevel, Options,
    WriteBufferManager,
    compaction_filter::CompactionFilter,
    compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory},
};

use crate::value;

const BLOOM_BITS_PER_KEY: f64 = 10.0;
const BLOCK_BYTES: usize = 8 << 10;
/// Also the size of the files that are uploaded: large enough for few requests, small enough
/// that a compaction does not make a whole table new.
pub(crate) const SST_BYTES: u64 = 32 << 20;
const LEVEL_BASE_BYTES: u64 = 128 << 20;
const MEMTABLE_BYTES: usize = 4 << 20;
const OPEN_FILES_PER_SLOT: i32 = 256;
/// Every checkpoint copies the manifest, so it is rolled early.
const ROCKSDB_MANIFEST_BYTES: usize = 1 << 20;
/// Expired entries of files that nothing else compacts leave within this time.
const PERIODIC_COMPACTION_SECONDS: u64 = 12 * 3600;

/// One per worker: the block cache and write-buffer budget of all its slots. Cheap to clone.
#[derive(Clone)]
pub struct StateBudget {
    cache: Cache,
    write_buffers: WriteBufferManager,
}

impl StateBudget {
    /// A budget of this many bytes, of which at most a quarter (and 64 MiB) may be memtables.
    pub fn new(bytes: usize) -> Self {
        let cache = Cache::new_lru_cache(bytes);
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            (bytes / 4).min(64 << 20),
            false,
            cache.clone(),
        );
        StateBudget {
            cache,
            write_buffers,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.cache.get_usage()
    }

    pub(crate) fn db_options(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_manager(&self.write_buffers);
        options.set_max_background_jobs(2);
        options.set_max_subcompactions(1);
        options.set_max_open_files(OPEN_FILES_PER_SLOT);
        options.set_max_file_opening_threads(2);
        options.set_skip_stats_update_on_db_open(true);
        options.set_max_manifest_file_size(ROCKSDB_MANIFEST_BYTES);
        options.set_log_level(LogLevel::Warn);
        options.set_keep_log_file_num(1);
        options.set_max_log_file_size(1 << 20);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.set_bytes_per_sync(1 << 20);
        self.table_layout(&mut options);
        options
    }

    /// Options of one table. `ttl` and `now` are read by compactions while the table is open.
    pub(crate) fn table_options(&self, ttl: &TtlClock) -> Options {
        let mut options = Options::default();
        self.table_layout(&mut options);
        options.set_compaction_filter_factory(ExpiryFactory(ttl.clone()));
        options.set_periodic_compaction_seconds(PERIODIC_COMPACTION_SECONDS);
        options
    }

    fn table_layout(&self, options: &mut Options) {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_block_size(BLOCK_BYTES);
        blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
        blocks.set_whole_key_filtering(true);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_optimize_filters_for_memory(true);
        blocks.set_format_version(5);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_write_buffer_size(MEMTABLE_BYTES);
        options.set_target_file_size_base(SST_BYTES);
        options.set_max_bytes_for_level_base(LEVEL_BASE_BYTES);
    }
}

/// A table's TTL and the store's idea of now, as compactions and reads see them.
#[derive(Debug, Clone)]
pub(crate) struct TtlClock {
    /// Milliseconds; 0 keeps for ever.
    pub(crate) ttl_ms: Arc<AtomicU64>,
    /// Epoch milliseconds; `i64::MIN` (nothing is expired) until the slot sets it.
    pub(crate) now_ms: Arc<AtomicI64>,
}

impl TtlClock {
    pub(crate) fn new(now_ms: Arc<AtomicI64>) -> Self {
        TtlClock {
            ttl_ms: Arc::new(AtomicU64::new(0)),
            now_ms,
        }
    }

    pub(crate) fn is_expired(&self, written_at_ms: i64) -> bool {
        value::is_expired(
            written_at_ms,
            self.ttl_ms.load(Ordering::Relaxed),
            self.now_ms.load(Ordering::Relaxed),
        )
    }
}

struct ExpiryFactory(TtlClock);

impl CompactionFilterFactory for ExpiryFactory {
    type Filter = ExpiryFilter;

    fn create(&mut self, _context: CompactionFilterContext) -> ExpiryFilter {
        ExpiryFilter {
            ttl_ms: self.0.ttl_ms.load(Ordering::Relaxed),
            now_ms: self.0.now_ms.load(Ordering::Relaxed),
        }
    }

    fn name(&self) -> &CStr {
        c"millrace-expiry"
    }
}

struct ExpiryFilter {
    ttl_ms: u64,
    now_ms: i64,
}

impl CompactionFilter for ExpiryFilter {
    fn filter(&mut self, _level: u32, _key: &[u8], stored: &[u8]) -> CompactionDecision {
        // Values of an unknown version are kept: a newer Millrace may know them.
        match value::written_at(stored) {
            Some(at) if value::is_expired(at, self.ttl_ms, self.now_ms) => {
                CompactionDecision::Remove
            }
            _ => CompactionDecision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        c"millrace-expiry"
    }
}
