//! The values of `DISTINCT` calls: per group a set of values, each with the calls it counts for.
//!
//! Calls of one function over one argument that differ only in their filter share a set, so a
//! row costs one look-up however many filters there are. A value goes on to a call's (inner)
//! accumulator when it comes for that call, and is taken back when its last row goes.
//!
//! Sets can be large, so they are persisted value by value: only values that changed since the
//! last barrier are handed over. Under a TTL every value has its own: one not seen for so long
//! counts as new, as in Flink.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ListArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field},
};
use hashbrown::{HashTable, hash_table::Entry};

use super::{
    Rows,
    int_sets::IntSets,
    kept::{Kept, Presence, Seen},
    notes::{Arranged, Note, Notes},
};
use crate::{OperatorError, key_table::is_int_like};

/// Most calls that share a set.
pub(super) const MAX_CALLS: usize = 32;

/// A member of a group's set, as it is persisted.
#[derive(Debug)]
pub struct ValueEntry<'a> {
    pub group: u32,
    /// Canonical encoding of the value.
    pub value: &'a [u8],
    /// Calls of the set and how many rows have the value there, zeros left out. Empty: it is gone.
    pub counts: &'a [(usize, i64)],
    /// When a row last had it (epoch ms), as far as a TTL makes that matter.
    pub seen_ms: i64,
}

/// What a set is made for.
#[derive(Debug, Clone)]
pub(super) struct SetOptions {
    pub(super) input: DataType,
    /// Number of calls.
    pub(super) calls: usize,
    /// Whether rows can be taken back.
    pub(super) counting: bool,
    /// Whether null is a value (`ARRAY_AGG`) rather than skipped.
    pub(super) takes_nulls: bool,
    /// 0: values are kept for ever.
    pub(super) ttl_ms: u64,
}

/// Rows on their way through a set, per call: those that bring or take a value.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) positions: Vec<u32>,
    pub(super) groups: Vec<u32>,
    pub(super) retract: Vec<bool>,
}

/// Which calls a row counts for.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowCalls<'a> {
    All(u32),
    /// By selected row.
    Each(&'a [u32]),
}

/// The sets of all groups for the calls that share them.
pub(super) trait ValueSets: Send {
    fn resize(&mut self, groups: usize);
    fn clear(&mut self, group: u32);
    fn bytes(&self) -> usize;
    /// Those of them that belong to single groups and are freed with them, and notes.
    fn heap_bytes(&self) -> usize;
    /// From now on note what changes.
    fn track(&mut self);
    fn set_time(&mut self, now_ms: i64);
    /// Takes rows; `passed` has one (empty) item per call.
    fn pass(
        &mut self,
        column: &ArrayRef,
        rows: Rows<'_>,
        calls: RowCalls<'_>,
        passed: &mut [Passed],
    ) -> Result<(), OperatorError>;
    /// Forgets some of the values that have outlived the TTL. They are gone from the state
    /// tables by themselves.
    fn sweep(&mut self);
    /// The values of a call, one list per group.
    fn lists(&self, call: usize, groups: &[u32]) -> Result<ArrayRef, OperatorError>;
    /// Lists the groups that changed since the last time and are not listed yet.
    fn changed_groups(&self, place: &mut [u32], groups: &mut Vec<u32>);
    /// Takes the changes and arranges them by the place of their group.
    fn arrange_changes(&mut self, place: &[u32], places: usize);
    /// Visits the changes of the group at a place, each value once as it is now, by value.
    fn visit_changes(&mut self, place: usize, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>));
    /// Frees what `arrange_changes` made.
    fn changes_done(&mut self);
    /// Number of changes noted since the last time, repeated ones counted each time.
    fn noted(&self) -> usize;
    /// Visits all values of a group.
    fn each(&self, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>));
    /// Puts a persisted value back, unless it is there.
    fn load(&mut self, entry: ValueEntry<'_>) -> Result<(), OperatorError>;
    /// Values that the rows bring for groups marked in `is_partial` and that are not in memory:
    /// group and canonical encoding, each pair once.
    fn missing(
        &self,
        column: &ArrayRef,
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError>;
}

/// Empty sets in the layout that suits.
pub(super) fn value_sets(options: &SetOptions) -> Box<dyn ValueSets> {
    fn sets<V: Kept, P: Presence, S: Seen>(options: &SetOptions) -> Box<dyn ValueSets> {
        Box::new(Sets::<V, P, S>::new(options.clone()))
    }
    type Bytes = Box<[u8]>;
    type Counts = Box<[i32]>;
    let ints = is_int_like(&options.input) && !options.takes_nulls;
    match (ints, options.counting, options.ttl_ms > 0) {
        (true, false, false) => Box::new(IntSets::new(options.input.clone())),
        (true, false, true) => sets::<i64, u32, i64>(options),
        (true, true, false) => sets::<i64, Counts, ()>(options),
        (true, true, true) => sets::<i64, Counts, i64>(options),
        (false, false, false) => sets::<Bytes, u32, ()>(options),
        (false, false, true) => sets::<Bytes, u32, i64>(options),
        (false, true, false) => sets::<Bytes, Counts, ()>(options),
        (false, true, true) => sets::<Bytes, Counts, i64>(options),
    }
}

struct Member<V, P, S> {
    value: V,
    presence: P,
    seen: S,
    /// Already noted as changed since the last barrier.
    noted: bool,
}

struct Sets<V, P, S> {
    options: SetOptions,
    by_group: Vec<HashTable<Member<V, P, S>>>,
    changed: Notes<V>,
    arranged: Arranged<V>,
    tracking: bool,
    members: usize,
    heap_bytes: usize,
    now_ms: i64,
    /// Group to sweep next.
    sweep: usize,
}

/// Values looked at per sweep, give or take a group.
const SWEPT: usize = 1 << 16;

impl<V: Kept, P: Presence, S: Seen> Sets<V, P, S> {
    fn new(options: SetOptions) -> Self {
        Sets {
            options,
            by_group: Vec::new(),
            changed: Notes::default(),
            arranged: Arranged::default(),
            tracking: false,
            members: 0,
            heap_bytes: 0,
            now_ms: 0,
            sweep: 0,
        }
    }

    /// Notes hold all there is to know of a change, and all of them count; else each value that
    /// changed is noted once.
    const NOTES_SUFFICE: bool = P::IN_NOTES && !S::EXPIRES;

    /// Adds a row or takes it back: calls for which the value has come, and has gone.
    #[inline(always)]
    fn apply(&mut self, group: usize, value: V::Ref<'_>, calls: u32, retract: bool) -> (u32, u32) {
        let entry = self.by_group[group].entry(
            V::hash(value),
            |member| member.value.is(value),
            |member| V::hash(member.value.by_ref()),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                let member = entry.get_mut();
                if S::EXPIRES && member.seen.is_expired(self.now_ms, self.options.ttl_ms) {
                    member.presence = P::none(self.options.calls);
                }
                let (come, gone, changed) = member.presence.apply(calls, retract);
                // Under a TTL, seeing a value again is a change.
                if changed || S::EXPIRES {
                    member.seen = S::at(self.now_ms);
                    if self.tracking && (Self::NOTES_SUFFICE || !member.noted) {
                        member.noted = true;
                        self.changed.push(Note {
                            group: group as u32,
                            presence: member.presence.note(),
                            value: V::own(value),
                        });
                    }
                    // Under tracking it stays until its deletion is written: to miss it would mean
                    // to look for it in the state table, where it still is.
                    if member.presence.is_none() && !self.tracking {
                        let (member, _) = entry.remove();
                        self.members -= 1;
                        self.heap_bytes -= member.value.heap_bytes() + member.presence.heap_bytes();
                    }
                }
                (come, gone)
            }
            Entry::Vacant(entry) => {
                let value = V::own(value);
                let mut presence = P::none(self.options.calls);
                let (come, gone, _) = presence.apply(calls, retract);
                self.members += 1;
                self.heap_bytes += value.heap_bytes() + presence.heap_bytes();
                if self.tracking {
                    self.changed.push(Note {
                        group: group as u32,
                        presence: presence.note(),
                        value: value.clone(),
                    });
                }
                entry.insert(Member {
                    value,
                    presence,
                    seen: S::at(self.now_ms),
                    noted: self.tracking,
                });
                (come, gone)
            }
        }
    }
}

impl<V: Kept, P: Presence, S: Seen> ValueSets for Sets<V, P, S> {
    fn resize(&mut self, groups: usize) {
        self.by_group.resize_with(groups, HashTable::new);
    }

    fn clear(&mut self, group: u32) {
        let set = std::mem::take(&mut self.by_group[group as usize]);
        self.members -= set.len();
        for member in &set {
            self.heap_bytes -= member.value.heap_bytes() + member.presence.heap_bytes();
        }
    }

    fn bytes(&self) -> usize {
        self.by_group.capacity() * size_of::<HashTable<Member<V, P, S>>>()
            + ValueSets::heap_bytes(self)
    }

    fn heap_bytes(&self) -> usize {
        // A table is between 7/16 and 7/8 full.
        self.members * (size_of::<Member<V, P, S>>() + 1) * 3 / 2
            + self.heap_bytes
            + self.changed.bytes()
    }

    fn track(&mut self) {
        self.tracking = true;
    }

    fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    fn sweep(&mut self) {
        if !S::EXPIRES {
            return;
        }
        let mut looked_at = 0;
        for _ in 0..self.by_group.len() {
            if looked_at >= SWEPT {
                break;
            }
            self.sweep = (self.sweep + 1) % self.by_group.len();
            let set = &mut self.by_group[self.sweep];
            looked_at += set.len() + 1;
            set.retain(|member| {
                let keep = !member.seen.is_expired(self.now_ms, self.options.ttl_ms);
                if !keep {
                    self.members -= 1;
                    self.heap_bytes -= member.value.heap_bytes() + member.presence.heap_bytes();
                }
                keep
            });
        }
    }

    fn pass(
        &mut self,
        column: &ArrayRef,
        rows: Rows<'_>,
        calls: RowCalls<'_>,
        passed: &mut [Passed],
    ) -> Result<(), OperatorError> {
        let values = V::read(column)?;
        let nulls = column
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0 && !self.options.takes_nulls);
        for (row, group) in rows.groups.iter().enumerate() {
            let position = rows
                .positions
                .map_or(row, |positions| positions[row] as usize);
            let mask = match calls {
                RowCalls::All(mask) => mask,
                RowCalls::Each(masks) => masks[row],
            };
            if mask == 0 || nulls.as_ref().is_some_and(|nulls| nulls.is_null(position)) {
                continue;
            }
            let retract = rows.retract.is_some_and(|retract| retract[row]);
            let (come, gone) = self.apply(*group as usize, V::at(&values, position), mask, retract);
            let mut changes = come | gone;
            while changes != 0 {
                let call = changes.trailing_zeros() as usize;
                changes &= changes - 1;
                passed[call].positions.push(position as u32);
                passed[call].groups.push(*group);
                passed[call].retract.push(gone & 1 << call != 0);
            }
        }
        Ok(())
    }

    fn lists(&self, call: usize, groups: &[u32]) -> Result<ArrayRef, OperatorError> {
        let mut lengths = Vec::with_capacity(groups.len());
        let mut values = Vec::new();
        for group in groups {
            let before = values.len();
            for member in &self.by_group[*group as usize] {
                member.presence.each(|of, count| {
                    if of == call && count > 0 {
                        values.push(&member.value);
                    }
                });
            }
            lengths.push(values.len() - before);
        }
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new("item", self.options.input.clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            V::array(&self.options.input, values.into_iter())?,
            None,
        )?))
    }

    fn noted(&self) -> usize {
        self.changed.len()
    }

    fn changed_groups(&self, place: &mut [u32], groups: &mut Vec<u32>) {
        self.changed.groups(place, groups);
    }

    fn arrange_changes(&mut self, place: &[u32], places: usize) {
        self.arranged = self.changed.arrange(place, places);
    }

    fn changes_done(&mut self) {
        self.arranged = Arranged::default();
    }

    fn visit_changes(&mut self, place: usize, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>)) {
        let (mut cell, mut counts) = (Vec::new(), Vec::new());
        let mut arranged = std::mem::take(&mut self.arranged);
        arranged.visit(place, |value, presence| {
            cell.clear();
            counts.clear();
            value.encode(&self.options.input, &mut cell);
            let mut seen_ms = self.now_ms;
            if Self::NOTES_SUFFICE {
                P::each_noted(presence, |call, count| counts.push((call, count)));
            } else if let Ok(mut member) = self.by_group[group as usize]
                .find_entry(V::hash(value.by_ref()), |m| m.value.is(value.by_ref()))
            {
                member.get_mut().noted = false;
                let kept = member.get();
                kept.presence.each(|call, count| counts.push((call, count)));
                seen_ms = kept.seen.or(self.now_ms);
                if counts.is_empty() {
                    let (member, _) = member.remove();
                    self.members -= 1;
                    self.heap_bytes -= member.value.heap_bytes() + member.presence.heap_bytes();
                }
            }
            visit(ValueEntry {
                group,
                value: &cell,
                counts: &counts,
                seen_ms,
            });
        });
        self.arranged = arranged;
    }

    fn each(&self, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>)) {
        let (mut cell, mut counts) = (Vec::new(), Vec::new());
        for member in &self.by_group[group as usize] {
            cell.clear();
            counts.clear();
            member.value.encode(&self.options.input, &mut cell);
            member
                .presence
                .each(|call, count| counts.push((call, count)));
            visit(ValueEntry {
                group,
                value: &cell,
                counts: &counts,
                seen_ms: member.seen.or(self.now_ms),
            });
        }
    }

    fn load(&mut self, entry: ValueEntry<'_>) -> Result<(), OperatorError> {
        let value = V::decode(&self.options.input, entry.value)?;
        let slot = self.by_group[entry.group as usize].entry(
            V::hash(value.by_ref()),
            |member| member.value.is(value.by_ref()),
            |member| V::hash(member.value.by_ref()),
        );
        if let Entry::Vacant(slot) = slot {
            let mut presence = P::none(self.options.calls);
            for (call, count) in entry.counts {
                presence.set(*call, *count);
            }
            self.members += 1;
            self.heap_bytes += value.heap_bytes() + presence.heap_bytes();
            slot.insert(Member {
                value,
                presence,
                seen: S::at(entry.seen_ms),
                noted: false,
            });
        }
        Ok(())
    }

    fn missing(
        &self,
        column: &ArrayRef,
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError> {
        let values = V::read(column)?;
        let mut missing = Vec::new();
        let visit = |group: usize, position: usize, _| {
            if !is_partial[group] {
                return;
            }
            let value = V::at(&values, position);
            let known = self.by_group[group].find(V::hash(value), |member| member.value.is(value));
            if known.is_none() {
                let mut cell = Vec::new();
                V::own(value).encode(&self.options.input, &mut cell);
                missing.push((group as u32, cell));
            }
        };
        if self.options.takes_nulls {
            rows.each(visit);
        } else {
            rows.each_valid(column.as_ref(), visit);
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }
}
