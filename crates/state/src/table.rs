//! Reading a state table: frozen deltas from the newest to the oldest, then RocksDB.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use millrace_dataflow::KeyGroup;
use parking_lot::RwLock;
use rocksdb::ReadOptions;

use crate::{
    budget::TtlClock,
    delta::{Delta, FrozenDelta},
    error::{Result, RocksContext, StateError},
    store::{StoreInner, family},
    value::{self, Value},
};

/// A handle to one table of a slot's store. Cheap to clone.
#[derive(Clone)]
pub struct Table {
    pub(crate) store: Arc<StoreInner>,
    pub(crate) shared: Arc<TableShared>,
}

/// What all handles and deltas of a table have in common.
pub(crate) struct TableShared {
    /// `{state id}/{name}`, also the column family.
    pub(crate) name: String,
    pub(crate) clock: TtlClock,
    /// Whether anything was ever frozen or restored into it.
    pub(crate) written: AtomicBool,
    /// Frozen and not yet in RocksDB, oldest first.
    pub(crate) frozen: RwLock<Vec<Arc<FrozenDelta>>>,
}

impl TableShared {
    pub(crate) fn new(name: String, clock: TtlClock) -> Self {
        TableShared {
            name,
            clock,
            written: AtomicBool::new(false),
            frozen: RwLock::new(Vec::new()),
        }
    }
}

impl fmt::Debug for TableShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table `{}`", self.name)
    }
}

/// Receives the entries of a scan.
pub type ScanVisitor<'a> = dyn FnMut(KeyGroup, &[u8], Value) -> Result<()> + 'a;

impl Table {
    /// The value of a key, unless it is expired.
    pub fn get(&self, group: KeyGroup, key: &[u8]) -> Result<Option<Value>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut stored_key = Vec::new();
        value::append_key(&mut stored_key, group, key);
        let found = self.find_frozen(&self.shared.frozen.read(), &stored_key)?;
        if let Some(found) = found {
            return Ok(found);
        }
        let family = family(&self.store.db, &self.shared.name)?;
        let stored = self
            .store
            .db
            .get_pinned_cf(&family, &stored_key)
            .doing(|| self.reading())?;
        stored.map_or(Ok(None), |stored| self.live(&stored))
    }

    /// The values of many keys, in the order of the keys. Much cheaper than one by one.
    pub fn multi_get(&self, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Value>>> {
        let mut values = vec![None; keys.len()];
        if self.is_empty() {
            return Ok(values);
        }
        let mut stored_keys = Vec::new();
        // Keys that no frozen delta knows: their bytes in `stored_keys` and their position.
        let mut missing: Vec<(Range<usize>, usize)> = Vec::with_capacity(keys.len());
        {
            let frozen = self.shared.frozen.read();
            for (position, (group, key)) in keys.iter().enumerate() {
                let start = stored_keys.len();
                value::append_key(&mut stored_keys, *group, key);
                match self.find_frozen(&frozen, &stored_keys[start..])? {
                    Some(found) => {
                        values[position] = found;
                        stored_keys.truncate(start);
                    }
                    None => missing.push((start..stored_keys.len(), position)),
                }
            }
        }
        if missing.is_empty() {
            return Ok(values);
        }
        // Sorted look-ups read each block once.
        let stored_key = |range: &Range<usize>| &stored_keys[range.clone()];
        missing.sort_unstable_by(|a, b| stored_key(&a.0).cmp(stored_key(&b.0)));
        let family = family(&self.store.db, &self.shared.name)?;
        let found = self.store.db.batched_multi_get_cf_opt(
            &family,
            missing.iter().map(|(range, _)| stored_key(range)),
            true,
            &ReadOptions::default(),
        );
        for ((_, position), stored) in missing.iter().zip(found) {
            if let Some(stored) = stored.doing(|| self.reading())? {
                values[*position] = self.live(&stored)?;
            }
        }
        Ok(values)
    }

    /// Visits every entry in key order (by key group, then key), expired ones left out.
    pub fn scan(&self, visit: &mut ScanVisitor<'_>) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(1 << 20);
        self.scan_between(None, options, visit)
    }

    /// Visits the entries of one key group whose keys lie in a range (the end excluded), in key
    /// order, expired ones left out.
    pub fn scan_range(
        &self,
        group: KeyGroup,
        keys: Range<&[u8]>,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        if self.is_empty() || keys.start >= keys.end {
            return Ok(());
        }
        let (mut from, mut to) = (Vec::new(), Vec::new());
        value::append_key(&mut from, group, keys.start);
        value::append_key(&mut to, group, keys.end);
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(to.as_slice());
        self.scan_between(Some((&from, &to)), options, visit)
    }

    /// Visits the entries with stored keys in `bounds` (`options` know the end, too).
    fn scan_between(
        &self,
        bounds: Option<(&[u8], &[u8])>,
        mut options: ReadOptions,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        // The overlay is taken before RocksDB's snapshot: an entry that moves from the one to the
        // other meanwhile is seen in the overlay, which wins, with the same content.
        let frozen = self.shared.frozen.read().clone();
        let overlay = Overlay::new(&frozen, bounds);
        let mut overlay = overlay.entries().peekable();
        let family = family(&self.store.db, &self.shared.name)?;
        options.fill_cache(false);
        let mut rows = self.store.db.raw_iterator_cf_opt(&family, options);
        match bounds {
            Some((from, _)) => rows.seek(from),
            None => rows.seek_to_first(),
        }
        loop {
            let from_db = rows.item();
            let db_first = match (from_db, overlay.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((key, _)), Some((overlay_key, _))) => {
                    if key == *overlay_key {
                        // Hidden by the overlay.
                        rows.next();
                        continue;
                    }
                    key < *overlay_key
                }
            };
            if db_first {
                if let Some((key, stored)) = from_db {
                    self.visit(key, Some(stored), visit)?;
                }
                rows.next();
            } else if let Some((key, stored)) = overlay.next() {
                self.visit(key, stored, visit)?;
            }
        }
        rows.status().doing(|| self.reading())
    }

    /// True only when nothing was ever persisted: lets operators skip look-ups.
    pub fn is_empty(&self) -> bool {
        !self.shared.written.load(Ordering::Relaxed)
    }

    /// An empty delta for this table.
    pub fn delta(&self) -> Delta {
        Delta::new(Arc::clone(&self.shared))
    }

    /// `{state id}/{name}`.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn visit(
        &self,
        stored_key: &[u8],
        stored: Option<&[u8]>,
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        let Some(stored) = stored else {
            return Ok(());
        };
        let Some((group, key)) = value::split_key(stored_key) else {
            return Err(StateError::Corrupt {
                object: self.shared.name.clone(),
                reason: format!("a key of {} bytes, the least is 2", stored_key.len()),
            });
        };
        match self.live(stored)? {
            Some(value) => visit(group, key, value),
            None => Ok(()),
        }
    }

    /// What the newest of the frozen deltas that know the key says of it.
    fn find_frozen(
        &self,
        frozen: &[Arc<FrozenDelta>],
        stored_key: &[u8],
    ) -> Result<Option<Option<Value>>> {
        for delta in frozen.iter().rev() {
            if let Some(found) = delta.get(stored_key) {
                return Ok(Some(match found {
                    Some(stored) => self.live(stored)?,
                    None => None,
                }));
            }
        }
        Ok(None)
    }

    pub(crate) fn live(&self, stored: &[u8]) -> Result<Option<Value>> {
        let value = value::decode_value(&self.shared.name, stored)?;
        Ok((!self.shared.clock.is_expired(value.written_at_ms)).then_some(value))
    }

    pub(crate) fn reading(&self) -> String {
        format!("read table `{}`", self.shared.name)
    }
}

/// Several frozen deltas merged, all of them or within bounds: each key once, with what the
/// newest says.
struct Overlay<'a> {
    frozen: &'a [Arc<FrozenDelta>],
    /// Delta and entry, in key order.
    order: Vec<(usize, u32)>,
}

impl<'a> Overlay<'a> {
    fn new(frozen: &'a [Arc<FrozenDelta>], bounds: Option<(&[u8], &[u8])>) -> Self {
        let key = |(delta, entry): (usize, u32)| frozen[delta].columns.key(entry as usize);
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (number, delta) in frozen.iter().enumerate() {
            let mut entries = delta.order();
            if let Some((from, to)) = bounds {
                let before = |bound: &[u8]| {
                    entries.partition_point(|entry| delta.columns.key(*entry as usize) < bound)
                };
                entries = &entries[before(from)..before(to)];
            }
            order.extend(entries.iter().map(|entry| (number, *entry)));
        }
        // Newest first among equals, then the first of each key stays.
        order.sort_by(|a, b| key(*a).cmp(key(*b)).then(b.0.cmp(&a.0)));
        order.dedup_by(|later, earlier| key(*later) == key(*earlier));
        Overlay { frozen, order }
    }

    fn entries(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + '_ {
        self.order.iter().map(|(delta, entry)| {
            let columns = &self.frozen[*delta].columns;
            (columns.key(*entry as usize), columns.value(*entry as usize))
        })
    }
}
