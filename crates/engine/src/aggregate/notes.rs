//! Notes of what changed in value sets since the last barrier.

use super::kept::Kept;

/// A change of a group's set.
#[derive(Debug)]
pub(super) struct Note<V> {
    pub(super) group: u32,
    /// See [`Presence::note`](super::kept::Presence::note).
    pub(super) presence: u32,
    pub(super) value: V,
}

/// Notes in pieces: a vector that grows by moving would touch all its memory again and again.
#[derive(Debug)]
pub(super) struct Notes<V> {
    pieces: Vec<Vec<Note<V>>>,
}

const PIECE: usize = 1 << 14;

impl<V> Default for Notes<V> {
    fn default() -> Self {
        Notes { pieces: Vec::new() }
    }
}

impl<V> Notes<V> {
    #[inline]
    pub(super) fn push(&mut self, note: Note<V>) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(note),
            _ => {
                // The first piece grows as it must, since most sets are small.
                let capacity = if self.pieces.is_empty() { 1 } else { PIECE };
                let mut piece = Vec::with_capacity(capacity);
                piece.push(note);
                self.pieces.push(piece);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self.pieces.split_last() {
            Some((last, full)) => full.len() * PIECE + last.len(),
            None => 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * size_of::<Note<V>>()
    }

    fn iter(&self) -> impl Iterator<Item = &Note<V>> {
        self.pieces.iter().flatten()
    }
}

/// Notes arranged by group, in an order of groups that all value sets of a node share.
#[derive(Debug)]
pub(super) struct Arranged<V> {
    /// Where the notes of each place end.
    ends: Vec<usize>,
    notes: Vec<(V, u32)>,
}

impl<V> Default for Arranged<V> {
    fn default() -> Self {
        Arranged {
            ends: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// No place: the group has no notes.
pub(super) const NOWHERE: u32 = u32::MAX;

impl<V: Kept> Notes<V> {
    /// Marks the groups that have notes: `NOWHERE` becomes 0, and the group is listed.
    pub(super) fn groups(&self, place: &mut [u32], groups: &mut Vec<u32>) {
        for note in self.iter() {
            if std::mem::replace(&mut place[note.group as usize], 0) == NOWHERE {
                groups.push(note.group);
            }
        }
    }

    /// Arranges the notes by the place of their group (a counting sort), and leaves none.
    pub(super) fn arrange(&mut self, place: &[u32], places: usize) -> Arranged<V> {
        let mut ends = vec![0usize; places + 1];
        for note in self.iter() {
            ends[place[note.group as usize] as usize + 1] += 1;
        }
        for position in 1..ends.len() {
            ends[position] += ends[position - 1];
        }
        let mut notes = vec![(V::default(), 0); self.len()];
        for note in std::mem::take(self).pieces.into_iter().flatten() {
            let next = &mut ends[place[note.group as usize] as usize];
            notes[*next] = (note.value, note.presence);
            *next += 1;
        }
        Arranged { ends, notes }
    }
}

impl<V: Kept> Arranged<V> {
    /// Visits the notes of a place by value; of several notes of one value only the last.
    pub(super) fn visit(&mut self, place: usize, mut visit: impl FnMut(&V, u32)) {
        let start = match place {
            0 => 0,
            _ => self.ends[place - 1],
        };
        let notes = &mut self.notes[start..self.ends[place]];
        // Stable, so that of several notes of a value the last stays last.
        notes.sort_by(|a, b| a.0.cmp(&b.0));
        for (position, (value, presence)) in notes.iter().enumerate() {
            if notes.get(position + 1).is_none_or(|next| next.0 != *value) {
                visit(value, *presence);
            }
        }
    }
}
