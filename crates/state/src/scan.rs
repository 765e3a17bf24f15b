//! Scans of a part of a table, stopped and taken up again at any key.

use millrace_dataflow::KeyGroup;
use rocksdb::ReadOptions;

use crate::{
    Table,
    delta::FrozenDelta,
    error::{Result, RocksContext},
    store::family,
    table::ScanVisitor,
    value::{self, GROUP_BYTES, Value},
};

/// Receives entries until it returns false.
pub type PartVisitor<'a> = dyn FnMut(&[u8], Value) -> Result<bool> + 'a;

impl Table {
    /// Visits the entries of a key group whose keys begin with `prefix`, in key order, expired
    /// ones left out.
    pub fn scan_prefix(
        &self,
        group: KeyGroup,
        prefix: &[u8],
        visit: &mut ScanVisitor<'_>,
    ) -> Result<()> {
        self.scan_prefix_after(group, prefix, None, &mut |key, value| {
            visit(group, key, value)?;
            Ok(true)
        })
    }

    /// Like [`Table::scan_prefix`], from the first key behind `after` on, until `visit` returns
    /// false.
    pub fn scan_prefix_after(
        &self,
        group: KeyGroup,
        prefix: &[u8],
        after: Option<&[u8]>,
        visit: &mut PartVisitor<'_>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let (mut start, mut common) = (Vec::new(), Vec::new());
        value::append_key(&mut common, group, prefix);
        match after.filter(|after| *after >= prefix) {
            None => start.extend_from_slice(&common),
            Some(after) => {
                value::append_key(&mut start, group, after);
                // The least key behind it.
                start.push(0);
            }
        }
        // The overlay is taken before RocksDB's snapshot, as in a whole scan.
        let frozen = self.shared.frozen.read().clone();
        let mut cursors: Vec<Cursor<'_>> = frozen
            .iter()
            .map(|delta| Cursor::at(delta, &start))
            .collect();
        let family = family(&self.store.db, &self.shared.name)?;
        let mut options = ReadOptions::default();
        if let Some(end) = successor(&common) {
            options.set_iterate_upper_bound(end);
        }
        let mut rows = self.store.db.raw_iterator_cf_opt(&family, options);
        rows.seek(&start);
        loop {
            let from_db = rows.item();
            let overlay = cursors.iter().filter_map(Cursor::key).min();
            let least = match (from_db, overlay) {
                (None, None) => break,
                (Some((key, _)), None) => key,
                (None, Some(key)) => key,
                (Some((key, _)), Some(other)) => key.min(other),
            };
            if !least.starts_with(&common) {
                break;
            }
            let in_db = from_db.filter(|(key, _)| *key == least);
            // The newest delta that knows the key decides, RocksDB only if none does.
            let newest = cursors.iter().rev().find(|at| at.key() == Some(least));
            let stored = match newest {
                Some(cursor) => cursor.value(),
                None => in_db.map(|(_, stored)| stored),
            };
            let value = match stored {
                Some(stored) => self.live(stored)?,
                None => None,
            };
            if let Some(value) = value
                && !visit(&least[GROUP_BYTES..], value)?
            {
                break;
            }
            let is_in_db = in_db.is_some();
            let known: Vec<bool> = (cursors.iter())
                .map(|cursor| cursor.key() == Some(least))
                .collect();
            for (cursor, known) in cursors.iter_mut().zip(known) {
                cursor.next += usize::from(known);
            }
            if is_in_db {
                rows.next();
            }
        }
        rows.status().doing(|| self.reading())
    }
}

/// A place in a frozen delta.
struct Cursor<'a> {
    delta: &'a FrozenDelta,
    next: usize,
}

impl<'a> Cursor<'a> {
    fn at(delta: &'a FrozenDelta, start: &[u8]) -> Self {
        let before = |entry: &u32| delta.columns.key(*entry as usize) < start;
        Cursor {
            delta,
            next: delta.order().partition_point(before),
        }
    }

    fn entry(&self) -> Option<usize> {
        self.delta
            .order()
            .get(self.next)
            .map(|entry| *entry as usize)
    }

    fn key(&self) -> Option<&'a [u8]> {
        self.entry().map(|entry| self.delta.columns.key(entry))
    }

    fn value(&self) -> Option<&'a [u8]> {
        self.delta.columns.value(self.entry()?)
    }
}

/// The least key greater than all that begin with these bytes.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}
