//! The store of one slot: a RocksDB with one column family per state table, and the queue of
//! frozen deltas on their way into it.
//!
//! Invariants: deltas enter RocksDB in the order they were frozen; a delta is readable from the
//! moment it is frozen, first from memory, then from RocksDB, without a gap; nothing is lost
//! when a snapshot is given up, its deltas go with the next one.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use millrace_dataflow::StateId;
use millrace_types::CheckpointId;
use parking_lot::{Mutex, RwLock};
use rocksdb::{BoundColumnFamily, ColumnFamilyDescriptor, DB, IteratorMode, Options};

use crate::{
    budget::{StateBudget, TtlClock},
    delta::{Delta, FrozenDelta},
    error::{IoContext, Result, RocksContext, StateError},
    frozen::{FrozenSnapshot, Spill},
    sorted_run,
    table::{Table, TableShared},
};

/// Column family that RocksDB insists on; never used.
pub(crate) const DEFAULT_TABLE: &str = "default";
const DB_DIR: &str = "db";
const SCRATCH_DIR: &str = "scratch";
/// Written by a restore as its last act and removed when the store opens: only files that a
/// restore finished, and that no store has written to since, are ever opened.
const RESTORED_MARK: &str = "RESTORED";

/// One slot's keyed state. Operators get their tables from it; the slot executor freezes it.
#[derive(Clone)]
pub struct SlotStore {
    inner: Arc<StoreInner>,
}

pub(crate) struct StoreInner {
    pub(crate) db: DB,
    budget: StateBudget,
    write_options: Options,
    scratch: PathBuf,
    now_ms: Arc<AtomicI64>,
    tables: RwLock<HashMap<String, Arc<TableShared>>>,
    queue: Mutex<Queue>,
    /// Bytes of the deltas in `queue`.
    unwritten: AtomicU64,
    /// Held while deltas are written and a checkpoint is cut.
    pub(crate) writing: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    /// All with a lower sequence than this are in RocksDB.
    written: u64,
    pending: VecDeque<Pending>,
    /// Snapshots that may still be persisted: nothing frozen after one may be written before it.
    awaited: BTreeSet<u64>,
}

struct Pending {
    sequence: u64,
    deltas: Vec<Arc<FrozenDelta>>,
}

impl SlotStore {
    /// Opens the files that [`restore`](crate::restore) placed in `dir`, or starts empty.
    /// Anything else that lies in `dir` (of a slot that died) is removed. No living store, nor a
    /// snapshot of one, may use `dir`: give every execution a directory of its own.
    pub fn create(dir: &Path, budget: &StateBudget) -> Result<Self> {
        let mark = dir.join(RESTORED_MARK);
        if mark.exists() {
            fs::remove_file(&mark).at("remove", &mark)?;
        } else {
            clear_dir(dir)?;
        }
        Self::open(dir, budget)
    }

    /// Opens whatever is in `dir`.
    pub(crate) fn open(dir: &Path, budget: &StateBudget) -> Result<Self> {
        let db_dir = db_dir(dir);
        let now_ms = Arc::new(AtomicI64::new(i64::MIN));
        let db_options = budget.db_options();
        let names = if db_dir.join("CURRENT").exists() {
            DB::list_cf(&db_options, &db_dir)
                .doing(|| format!("list the tables in {}", db_dir.display()))?
        } else {
            vec![DEFAULT_TABLE.to_owned()]
        };
        let mut tables = HashMap::new();
        let mut families = Vec::new();
        for name in names {
            let clock = TtlClock::new(Arc::clone(&now_ms));
            families.push(ColumnFamilyDescriptor::new(
                &name,
                budget.table_options(&clock),
            ));
            if name != DEFAULT_TABLE {
                tables.insert(name.clone(), Arc::new(TableShared::new(name, clock)));
            }
        }
        let db = DB::open_cf_descriptors(&db_options, &db_dir, families)
            .doing(|| format!("open the state in {}", db_dir.display()))?;
        for (name, table) in &tables {
            let family = family(&db, name)?;
            let first = db.iterator_cf(&family, IteratorMode::Start).next();
            let has_rows = first
                .transpose()
                .doing(|| format!("read table `{name}`"))?
                .is_some();
            table.written.store(has_rows, Ordering::Relaxed);
        }
        Ok(SlotStore {
            inner: Arc::new(StoreInner {
                db,
                budget: budget.clone(),
                write_options: db_options,
                scratch: dir.join(SCRATCH_DIR),
                now_ms,
                tables: RwLock::new(tables),
                queue: Mutex::new(Queue {
                    next: 1,
                    written: 1,
                    ..Queue::default()
                }),
                unwritten: AtomicU64::new(0),
                writing: Mutex::new(()),
            }),
        })
    }

    /// The table of this name, made if it is new. `ttl_ms` 0 keeps for ever; whatever it was
    /// before, it applies to all entries from now on. Meant to be called once per table.
    pub fn table(&self, state_id: &StateId, name: &'static str, ttl_ms: u64) -> Result<Table> {
        self.open_table(&format!("{state_id}/{name}"), ttl_ms)
    }

    pub(crate) fn open_table(&self, name: &str, ttl_ms: u64) -> Result<Table> {
        let mut tables = self.inner.tables.write();
        let shared = match tables.get(name) {
            Some(shared) => Arc::clone(shared),
            None => {
                let clock = TtlClock::new(Arc::clone(&self.inner.now_ms));
                self.inner
                    .db
                    .create_cf(name, &self.inner.budget.table_options(&clock))
                    .doing(|| format!("create table `{name}`"))?;
                let shared = Arc::new(TableShared::new(name.to_owned(), clock));
                tables.insert(name.to_owned(), Arc::clone(&shared));
                shared
            }
        };
        shared.clock.ttl_ms.store(ttl_ms, Ordering::Relaxed);
        Ok(Table {
            store: Arc::clone(&self.inner),
            shared,
        })
    }

    /// Tells the store the time that TTLs are measured against, in epoch milliseconds. Until the
    /// first call nothing expires. Must not go backwards.
    pub fn set_now_ms(&self, now_ms: i64) {
        self.inner.now_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    /// Makes the deltas readable at once and hands back what must be persisted off the slot's
    /// thread. Several operators of a slot contribute to one checkpoint at different moments;
    /// the slot executor collects all deltas first. Costs no more than the hand-over.
    pub fn freeze(&self, checkpoint: CheckpointId, deltas: Vec<Delta>) -> FrozenSnapshot {
        let sequence = self.inner.enqueue(deltas, true);
        FrozenSnapshot::new(Arc::clone(&self.inner), sequence, checkpoint)
    }

    /// Like [`freeze`](Self::freeze), but only to move deltas out of memory between checkpoints.
    pub fn spill(&self, deltas: Vec<Delta>) -> Spill {
        let sequence = self.inner.enqueue(deltas, false);
        Spill::new(Arc::clone(&self.inner), sequence)
    }

    /// Memory of frozen deltas that RocksDB does not have yet.
    pub fn unwritten_bytes(&self) -> u64 {
        self.inner.unwritten.load(Ordering::Relaxed)
    }

    /// The names of all tables, those of operators that the job no longer has included.
    pub fn tables(&self) -> Vec<String> {
        let mut names: Vec<String> = self.inner.tables.read().keys().cloned().collect();
        names.sort();
        names
    }

    /// Drops a table and everything in it, such as that of an operator the job no longer has.
    /// No handle or delta of it may be used afterwards. Unknown names are ignored.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let _writing = self.inner.writing.lock();
        if self.inner.tables.write().remove(name).is_none() {
            return Ok(());
        }
        self.inner
            .db
            .drop_cf(name)
            .doing(|| format!("drop table `{name}`"))
    }

    /// Bytes of the files on the local disk, live ones and those that checkpoints still hold.
    pub fn disk_bytes(&self) -> u64 {
        self.inner
            .db
            .live_files()
            .map(|files| files.iter().map(|file| file.size as u64).sum())
            .unwrap_or(0)
    }

    #[cfg(test)]
    pub(crate) fn compact(&self) {
        for name in self.tables() {
            if let Ok(family) = family(&self.inner.db, &name) {
                self.inner
                    .db
                    .compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
            }
        }
    }

    pub(crate) fn inner(&self) -> &Arc<StoreInner> {
        &self.inner
    }
}

impl StoreInner {
    fn enqueue(&self, deltas: Vec<Delta>, awaited: bool) -> u64 {
        let deltas: Vec<Arc<FrozenDelta>> = deltas
            .into_iter()
            .filter(|delta| !delta.is_empty())
            .map(|delta| Arc::new(FrozenDelta::new(delta)))
            .collect();
        self.unwritten
            .fetch_add(bytes_of(&deltas), Ordering::Relaxed);
        for delta in &deltas {
            delta.table.written.store(true, Ordering::Relaxed);
            delta.table.frozen.write().push(Arc::clone(delta));
        }
        let mut queue = self.queue.lock();
        let sequence = queue.next;
        queue.next += 1;
        queue.pending.push_back(Pending { sequence, deltas });
        if awaited {
            queue.awaited.insert(sequence);
        }
        sequence
    }

    /// Writes everything up to `sequence` for the snapshot that owns it. `false` if something
    /// frozen later is in RocksDB already.
    pub(crate) fn write_for_snapshot(&self, sequence: u64) -> Result<bool> {
        if self.queue.lock().written > sequence + 1 {
            return Ok(false);
        }
        self.write_up_to(sequence)?;
        Ok(true)
    }

    /// Writes what may be written up to `sequence` without overtaking a snapshot still to come.
    pub(crate) fn write_for_spill(&self, sequence: u64) -> Result<()> {
        let limit = match self.queue.lock().awaited.first() {
            Some(awaited) => sequence.min(*awaited),
            None => sequence,
        };
        self.write_up_to(limit)
    }

    /// The snapshot of this sequence is done or given up.
    pub(crate) fn release(&self, sequence: u64) {
        self.queue.lock().awaited.remove(&sequence);
    }

    /// Only called under `writing`.
    fn write_up_to(&self, limit: u64) -> Result<()> {
        loop {
            let (sequence, deltas) = {
                let queue = self.queue.lock();
                match queue.pending.front() {
                    Some(front) if front.sequence <= limit => {
                        (front.sequence, front.deltas.clone())
                    }
                    _ => return Ok(()),
                }
            };
            for delta in &deltas {
                // A table that was dropped since takes its deltas with it.
                let Some(family) = self.db.cf_handle(&delta.table.name) else {
                    continue;
                };
                sorted_run::ingest(
                    &self.db,
                    &family,
                    &self.write_options,
                    &self.scratch,
                    &delta.columns,
                    delta.order(),
                )?;
            }
            // Only now that RocksDB has them all do the frozen deltas go.
            for delta in &deltas {
                delta
                    .table
                    .frozen
                    .write()
                    .retain(|other| !Arc::ptr_eq(other, delta));
            }
            self.unwritten
                .fetch_sub(bytes_of(&deltas), Ordering::Relaxed);
            let mut queue = self.queue.lock();
            queue.pending.pop_front();
            queue.written = sequence + 1;
        }
    }
}

fn bytes_of(deltas: &[Arc<FrozenDelta>]) -> u64 {
    deltas
        .iter()
        .map(|delta| delta.columns.bytes() as u64)
        .sum()
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        // A compaction of a slot that goes away is work for nothing.
        self.db.cancel_all_background_work(true);
    }
}

pub(crate) fn family<'db>(db: &'db DB, name: &str) -> Result<Arc<BoundColumnFamily<'db>>> {
    db.cf_handle(name).ok_or_else(|| StateError::Corrupt {
        object: name.to_owned(),
        reason: "the table was dropped while in use".into(),
    })
}

pub(crate) fn db_dir(dir: &Path) -> PathBuf {
    dir.join(DB_DIR)
}

/// Makes `dir` an empty directory.
pub(crate) fn clear_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).at("clear", dir),
    }
    fs::create_dir_all(dir).at("create", dir)
}

/// Declares the files in `dir` complete.
pub(crate) fn mark_restored(dir: &Path) -> Result<()> {
    let mark = dir.join(RESTORED_MARK);
    fs::write(&mark, b"").at("write", &mark)
}
