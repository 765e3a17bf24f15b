//! Reads a window key group by key group, from the state table and from memory.
//!
//! Of every slice the runs come in order, then the hot part, and the slices come in order: so
//! functions that keep the first or last value, or all of them, see them in the order in which
//! slices in memory would be merged.

use std::ops::Range;

use hashbrown::HashMap;
use millrace_dataflow::KeyGroup;
use millrace_state::{Table, Value};

use super::{
    window_firing::Merged,
    window_persistence::{FORMAT, WindowPersistence, damaged},
    window_runs,
    window_store::{SliceKey, WindowStore, Windows},
};
use crate::{
    OperatorError,
    aggregate::{AggregateSet, ValueEntry, codec},
    batch::MAX_BATCH_ROWS,
    key_table::key_group,
};

/// What is read before rows are emitted, unless one key group has more.
const ENOUGH_BYTES: usize = 1 << 20;

struct Part {
    key: SliceKey,
    /// The run of the hot part: its entries in the table are older than it.
    run: u32,
    /// This is its last window: its entries are deleted as they are read.
    leaves: bool,
    /// Key group and group of the hot part, sorted.
    hot: Vec<(u16, u32)>,
    /// How many of them are merged.
    merged: usize,
}

/// A window in the making.
pub(super) struct Parts {
    windows: Windows,
    slices: Vec<Part>,
    /// Between which keys the table has their entries.
    bounds: Range<Vec<u8>>,
    /// Key groups still to be read.
    rest: Range<u16>,
    /// The last key groups read.
    pub(super) merged: Merged,
}

/// Where an entry was read to.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The merged groups themselves, being the first of its key.
    Merged(u32),
    /// Beside them, to be merged.
    Beside(u32),
}

impl Parts {
    /// `slices`: those of the window, in order; at least one.
    pub(super) fn new(
        store: &WindowStore,
        window: SliceKey,
        slices: &[SliceKey],
        state: &WindowPersistence,
    ) -> Result<Self, OperatorError> {
        let mut parts = Vec::with_capacity(slices.len());
        for key in slices {
            let slice = &store.slices[key];
            let mut hot = Vec::new();
            if let Some(part) = &slice.hot {
                let mut encoded = Vec::new();
                hot.extend((0..part.keys.group_bound() as u32).map(|group| {
                    encoded.clear();
                    part.keys.encode_key(group, &mut encoded);
                    (key_group(&encoded, state.max_parallelism).0, group)
                }));
                hot.sort_unstable();
            }
            parts.push(Part {
                key: *key,
                run: slice.run,
                leaves: store.ends_with(*key, window),
                hot,
                merged: 0,
            });
        }
        let cold = || {
            parts
                .iter()
                .filter(|part| part.run > 0)
                .map(|part| part.key)
        };
        let bounds = match (cold().next(), cold().next_back()) {
            (Some(first), Some(last)) => window_runs::bounds(&store.windows, first, last),
            _ => Vec::new()..Vec::new(),
        };
        Ok(Parts {
            windows: store.windows,
            slices: parts,
            bounds,
            rest: state.key_groups.start..state.key_groups.end,
            merged: Merged::new(store)?,
        })
    }

    pub(super) fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Reads key groups, at least one, until there is enough for a batch.
    pub(super) fn read(
        &mut self,
        store: &WindowStore,
        state: &mut WindowPersistence,
    ) -> Result<(), OperatorError> {
        self.merged = Merged::new(store)?;
        while let Some(group) = self.rest.next() {
            self.read_group(KeyGroup(group), store, state)?;
            if self.merged.keys.len() >= MAX_BATCH_ROWS || self.merged.set.bytes() >= ENOUGH_BYTES {
                break;
            }
        }
        Ok(())
    }

    fn read_group(
        &mut self,
        group: KeyGroup,
        store: &WindowStore,
        state: &mut WindowPersistence,
    ) -> Result<(), OperatorError> {
        let mut beside = Beside::new(store.plan().set()?, self.slices.len());
        self.read_entries(group, state, &mut beside)?;
        if !beside.places.is_empty() {
            self.read_values(group, state, &mut beside)?;
        }
        for (position, part) in self.slices.iter_mut().enumerate() {
            let groups: Vec<u32> = beside.of_slice[position].clone().collect();
            if !groups.is_empty() {
                let to = &beside.to[groups[0] as usize..][..groups.len()];
                self.merged.set.merge_from(&beside.set, &groups, to)?;
            }
            let rest = &part.hot[part.merged..];
            let of_group = rest.iter().take_while(|(place, _)| *place == group.0);
            let groups: Vec<u32> = of_group.map(|(_, group)| *group).collect();
            part.merged += groups.len();
            let hot = store
                .slices
                .get(&part.key)
                .and_then(|slice| slice.hot.as_ref());
            if let Some(hot) = hot.filter(|_| !groups.is_empty()) {
                self.merged.add(hot, &groups)?;
            }
        }
        Ok(())
    }

    /// Reads the entries of earlier runs.
    fn read_entries(
        &mut self,
        group: KeyGroup,
        state: &mut WindowPersistence,
        beside: &mut Beside,
    ) -> Result<(), OperatorError> {
        let (gone, layouts) = (&mut state.gone.slices, &state.layouts);
        let has_values = state.values.is_some();
        let (windows, slices, merged) = (&self.windows, &self.slices, &mut self.merged);
        scan(&state.slices, group, &self.bounds, &mut |key, value| {
            let (mut rest, mut payload) = (key, value.payload.as_slice());
            let slice =
                window_runs::take_slice(windows, &mut rest).ok_or_else(|| damaged("key"))?;
            // Others are on their way to deletion.
            let Ok(position) = slices.binary_search_by_key(&slice, |part| part.key) else {
                return Ok(());
            };
            let run = window_runs::take_run(&mut rest).ok_or_else(|| damaged("key"))?;
            if run >= slices[position].run {
                return Ok(());
            }
            if slices[position].leaves {
                gone.delete(group, key);
            }
            if codec::take_u8(&mut payload) != Some(FORMAT) {
                return Err(damaged("entry"));
            }
            let (target, is_new) = merged.keys.intern_encoded(rest)?;
            merged.set.resize(merged.keys.group_bound());
            // What hot parts of earlier slices have of the key comes before it.
            let place = if is_new && position == 0 {
                layouts.decode(&mut merged.set, target, payload)?;
                Place::Merged(target)
            } else {
                let place = beside.add(position, target);
                layouts.decode(&mut beside.set, place, payload)?;
                Place::Beside(place)
            };
            if has_values {
                beside.places.insert(key.into(), place);
            }
            Ok(())
        })
    }

    /// Reads the distinct values of the entries just read.
    fn read_values(
        &mut self,
        group: KeyGroup,
        state: &mut WindowPersistence,
        beside: &mut Beside,
    ) -> Result<(), OperatorError> {
        let Some(values) = &state.values else {
            return Ok(());
        };
        let (gone, layouts) = (&mut state.gone.values, &state.layouts);
        let (windows, slices, merged) = (&self.windows, &self.slices, &mut self.merged);
        let plan = std::sync::Arc::clone(merged.set.plan());
        let mut entry_key = Vec::new();
        scan(values, group, &self.bounds, &mut |key, value| {
            let fail = || damaged("value");
            let (mut rest, mut payload) = (key, value.payload.as_slice());
            let slice = window_runs::take_slice(windows, &mut rest).ok_or_else(fail)?;
            let slice_key = &key[..key.len() - rest.len()];
            let (identity, mut rest) = rest.split_first_chunk::<8>().ok_or_else(fail)?;
            let run_and_key = codec::take_bytes(&mut rest).ok_or_else(fail)?;
            entry_key.clear();
            entry_key.extend_from_slice(slice_key);
            entry_key.extend_from_slice(run_and_key);
            // Without a place: of the hot part, or on its way to deletion.
            let Some(place) = beside.places.get(entry_key.as_slice()) else {
                return Ok(());
            };
            let leaves = slices
                .binary_search_by_key(&slice, |part| part.key)
                .is_ok_and(|position| slices[position].leaves);
            if leaves && let Some(gone) = gone.as_mut() {
                gone.delete(group, key);
            }
            if codec::take_u8(&mut payload) != Some(FORMAT) {
                return Err(fail());
            }
            let identity = u64::from_be_bytes(*identity);
            let sets = plan.value_sets();
            // The call may be gone from the job.
            let Some(number) = sets.iter().position(|set| set.identity == identity) else {
                return Ok(());
            };
            let counts = layouts.decode_value(&sets[number].calls, &mut payload)?;
            let (set, group) = match place {
                Place::Merged(group) => (&mut merged.set, *group),
                Place::Beside(group) => (&mut beside.set, *group),
            };
            set.load_value(
                number,
                ValueEntry {
                    group,
                    value: rest,
                    counts: &counts,
                    seen_ms: 0,
                },
            )
        })
    }
}

/// Entries of one key group that have to be merged with others.
struct Beside {
    set: AggregateSet,
    /// Where each of its groups is merged into.
    to: Vec<u32>,
    /// Its groups by position of their slice.
    of_slice: Vec<Range<u32>>,
    /// By key of the entry, if there are values to follow.
    places: HashMap<Box<[u8]>, Place>,
}

impl Beside {
    fn new(set: AggregateSet, slices: usize) -> Self {
        Beside {
            set,
            to: Vec::new(),
            of_slice: vec![0..0; slices],
            places: HashMap::new(),
        }
    }

    /// A new group; slices come in order.
    fn add(&mut self, slice: usize, target: u32) -> u32 {
        let group = self.to.len() as u32;
        self.to.push(target);
        self.set.resize(self.to.len());
        let groups = &mut self.of_slice[slice];
        if groups.start == groups.end {
            groups.start = group;
        }
        groups.end = group + 1;
        group
    }
}

type EntryVisitor<'a> = dyn FnMut(&[u8], Value) -> Result<(), OperatorError> + 'a;

fn scan(
    table: &Table,
    group: KeyGroup,
    bounds: &Range<Vec<u8>>,
    visit: &mut EntryVisitor<'_>,
) -> Result<(), OperatorError> {
    let mut failure = None;
    table.scan_range(group, &bounds.start..&bounds.end, &mut |_, key, value| {
        if failure.is_none() {
            failure = visit(key, value).err();
        }
        Ok(())
    })?;
    failure.map_or(Ok(()), Err)
}
