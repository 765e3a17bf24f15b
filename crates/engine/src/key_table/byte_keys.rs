//! Keys of any types, kept as their canonical encoding in one arena.

use arrow::{array::ArrayRef, datatypes::DataType};
use hashbrown::{HashTable, hash_table::Entry};
use millrace_dataflow::{KeyEncoder, KeyRows, decode_key_column, key_hash};

use super::Numbers;
use crate::OperatorError;

#[derive(Debug)]
pub(super) struct ByteKeys {
    encoder: KeyEncoder,
    /// Hash and group; the hash settles nearly every comparison without reading the arena.
    table: HashTable<(u64, u32)>,
    arena: Vec<u8>,
    /// By group: where its key lies in the arena, also of removed groups until their release.
    spans: Vec<Span>,
    /// Bytes of the arena that belong to no key.
    garbage: usize,
    /// Scratch.
    rows: KeyRows,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: usize,
    len: u32,
}

impl ByteKeys {
    pub(super) fn new(types: &[DataType]) -> Result<Self, OperatorError> {
        let encoder = KeyEncoder::new(types.to_vec())
            .map_err(|error| OperatorError::Internal(error.to_string()))?;
        Ok(ByteKeys {
            encoder,
            table: HashTable::new(),
            arena: Vec::new(),
            spans: Vec::new(),
            garbage: 0,
            rows: KeyRows::default(),
        })
    }

    pub(super) fn like(&self) -> Self {
        ByteKeys {
            encoder: self.encoder.clone(),
            table: HashTable::new(),
            arena: Vec::new(),
            spans: Vec::new(),
            garbage: 0,
            rows: KeyRows::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.capacity() * 18 + self.spans.capacity() * size_of::<Span>() + self.heap_bytes()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.arena.len() - self.garbage
    }

    pub(super) fn key(&self, group: u32) -> &[u8] {
        bytes_of(&self.arena, self.spans[group as usize])
    }

    pub(super) fn intern(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        numbers: &mut Numbers,
        groups: &mut Vec<u32>,
        created: &mut Vec<u32>,
    ) {
        let mut encoded = std::mem::take(&mut self.rows);
        self.encoder.encode(columns, rows, &mut encoded);
        groups.reserve(rows);
        for row in 0..rows {
            let (group, new) = self.intern_encoded(encoded.row(row), numbers);
            if new {
                created.push(group);
            }
            groups.push(group);
        }
        self.rows = encoded;
    }

    #[inline]
    pub(super) fn intern_encoded(&mut self, key: &[u8], numbers: &mut Numbers) -> (u32, bool) {
        let hash = key_hash(key);
        let (arena, spans) = (&self.arena, &self.spans);
        let entry = self.table.entry(
            hash,
            |(other, group)| *other == hash && bytes_of(arena, spans[*group as usize]) == key,
            |(other, _)| *other,
        );
        match entry {
            Entry::Occupied(entry) => (entry.get().1, false),
            Entry::Vacant(entry) => {
                let group = numbers.next();
                entry.insert((hash, group));
                let span = Span {
                    start: self.arena.len(),
                    len: key.len() as u32,
                };
                self.arena.extend_from_slice(key);
                if group as usize >= self.spans.len() {
                    self.spans.resize(group as usize + 1, Span::default());
                }
                self.spans[group as usize] = span;
                (group, true)
            }
        }
    }

    pub(super) fn columns(
        &self,
        groups: &[u32],
        types: &[DataType],
    ) -> Result<Vec<ArrayRef>, OperatorError> {
        let mut cursors: Vec<&[u8]> = groups.iter().map(|group| self.key(*group)).collect();
        types
            .iter()
            .map(|data_type| {
                decode_key_column(data_type, &mut cursors)
                    .map_err(|error| OperatorError::Internal(format!("a key in memory: {error}")))
            })
            .collect()
    }

    pub(super) fn remove(&mut self, group: u32) {
        let hash = key_hash(self.key(group));
        if let Ok(entry) = self.table.find_entry(hash, |(_, other)| *other == group) {
            entry.remove();
        }
    }

    pub(super) fn release(&mut self, group: u32) {
        self.garbage += self.spans[group as usize].len as usize;
        self.spans[group as usize] = Span::default();
        if self.garbage > 1 << 16 && self.garbage * 4 > self.arena.len() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(self.arena.len() - self.garbage);
        for span in &mut self.spans {
            let start = arena.len();
            arena.extend_from_slice(bytes_of(&self.arena, *span));
            span.start = start;
        }
        self.arena = arena;
        self.garbage = 0;
    }
}

fn bytes_of(arena: &[u8], span: Span) -> &[u8] {
    &arena[span.start..span.start + span.len as usize]
}
