//! Runs: the parts of a slice in the state table.
//!
//! Accumulators merge, so a part of a slice that left memory need not come back to be updated:
//! rows that come later make a new hot part, which is written as the next run. Reading a key of a
//! slice means merging its runs in order, then the hot part.
//!
//! Entries are keyed by slice (end, and start for windows that rows bring along, big-endian with
//! the sign flipped), run and key. Run 0 has no mark, as in state from before there were runs;
//! later ones are marked by a byte that no encoded key begins with (see `key_encoding`) and the
//! run, big-endian: so a scan meets the runs of a slice in order.
//!
//! List `runs`, one item per subtask: version tag, its key groups (2 × 2 bytes, big-endian), number
//! of slices, then per slice end, start, next run and number of entries as varints. It saves a
//! restore from reading entries to know which slices there are.

use std::{collections::BTreeMap, ops::Range};

use millrace_dataflow::{KeyGroupRange, StateId};

use super::window_store::{SliceKey, Windows};
use crate::{OperatorError, OperatorSnapshot, RestoredState, aggregate::codec};

const LIST: &str = "runs";
const FORMAT: u8 = 1;
/// Encoded keys are empty or begin with 0 or 1.
const RUN_MARK: u8 = 2;

/// What the state table has of a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cold {
    /// All runs in the table are below this.
    pub(crate) next_run: u32,
    /// Number of entries; an estimate after a rescale.
    pub(crate) entries: u64,
}

pub(crate) fn put_slice(windows: &Windows, key: SliceKey, out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.end as u64 ^ 1 << 63).to_be_bytes());
    if matches!(windows, Windows::Attached) {
        out.extend_from_slice(&(key.start as u64 ^ 1 << 63).to_be_bytes());
    }
}

pub(crate) fn take_slice(windows: &Windows, bytes: &mut &[u8]) -> Option<SliceKey> {
    let mut take = || {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some((u64::from_be_bytes(*head) ^ 1 << 63) as i64)
    };
    let end = take()?;
    let start = match windows {
        Windows::Attached => take()?,
        Windows::Sliced(_) => 0,
    };
    Some(SliceKey { end, start })
}

pub(crate) fn put_run(run: u32, out: &mut Vec<u8>) {
    if run > 0 {
        out.push(RUN_MARK);
        out.extend_from_slice(&run.to_be_bytes());
    }
}

/// The run; what follows it is the key.
pub(crate) fn take_run(bytes: &mut &[u8]) -> Option<u32> {
    let Some((&RUN_MARK, rest)) = bytes.split_first() else {
        return Some(0);
    };
    let (run, rest) = rest.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*run))
}

/// Between which keys all entries of the slices from `first` to `last` lie.
pub(crate) fn bounds(windows: &Windows, first: SliceKey, last: SliceKey) -> Range<Vec<u8>> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    put_slice(windows, first, &mut from);
    // Times are far from the ends of their type (see `window_slices::TIME_LIMIT`).
    let after = match windows {
        Windows::Sliced(_) => SliceKey::ending(last.end + 1),
        Windows::Attached => SliceKey {
            end: last.end,
            start: last.start + 1,
        },
    };
    put_slice(windows, after, &mut to);
    from..to
}

/// Notes which slices the table has and up to which run.
pub(crate) fn save(
    state_id: &StateId,
    key_groups: KeyGroupRange,
    slices: &[(SliceKey, Cold)],
    snapshot: &mut OperatorSnapshot,
) {
    let mut item = vec![FORMAT];
    item.extend_from_slice(&key_groups.start.to_be_bytes());
    item.extend_from_slice(&key_groups.end.to_be_bytes());
    codec::put_u64(&mut item, slices.len() as u64);
    for (key, cold) in slices {
        codec::put_i64(&mut item, key.end);
        codec::put_i64(&mut item, key.start);
        codec::put_u64(&mut item, u64::from(cold.next_run));
        codec::put_u64(&mut item, cold.entries);
    }
    snapshot.list(state_id, LIST, vec![item]);
}

/// The slices of all former subtasks that had some of these key groups; `None`: the state is from
/// before there was such a list, or there is none.
pub(crate) fn restore(
    state_id: &StateId,
    key_groups: KeyGroupRange,
    restored: &RestoredState,
) -> Result<Option<BTreeMap<SliceKey, Cold>>, OperatorError> {
    let mut slices: BTreeMap<SliceKey, Cold> = BTreeMap::new();
    let mut any = false;
    for item in restored.list(state_id, LIST) {
        any = true;
        let (held, of_subtask) = decode(item).ok_or_else(|| {
            OperatorError::Internal(format!("the list of slices in the state of {state_id}"))
        })?;
        let shared = held
            .end
            .min(key_groups.end)
            .saturating_sub(held.start.max(key_groups.start));
        if shared == 0 {
            continue;
        }
        let all = u64::from(held.end - held.start);
        for (key, cold) in of_subtask {
            let known = slices.entry(key).or_default();
            known.next_run = known.next_run.max(cold.next_run);
            // Keys are spread evenly over key groups.
            known.entries +=
                (u128::from(cold.entries) * u128::from(shared) / u128::from(all)) as u64;
        }
    }
    Ok(any.then_some(slices))
}

fn decode(mut item: &[u8]) -> Option<(KeyGroupRange, Vec<(SliceKey, Cold)>)> {
    if codec::take_u8(&mut item)? != FORMAT {
        return None;
    }
    let (range, mut item) = item.split_first_chunk::<4>()?;
    let key_groups = KeyGroupRange {
        start: u16::from_be_bytes([range[0], range[1]]),
        end: u16::from_be_bytes([range[2], range[3]]),
    };
    let slices = (0..codec::take_u64(&mut item)?)
        .map(|_| {
            let (end, start) = (codec::take_i64(&mut item)?, codec::take_i64(&mut item)?);
            let cold = Cold {
                next_run: codec::take_u64(&mut item)?.try_into().ok()?,
                entries: codec::take_u64(&mut item)?,
            };
            Some((SliceKey { end, start }, cold))
        })
        .collect::<Option<_>>()?;
    Some((key_groups, slices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_slice_are_in_order_and_apart_from_keys() {
        // Without key columns the key is empty; else it begins with 0 or 1.
        for key in [&[][..], &[0][..], &[1, 2, 0, 0][..]] {
            let mut last = Vec::new();
            for run in [0u32, 1, 2, 255, 256, u32::MAX] {
                let mut bytes = Vec::new();
                put_slice(
                    &Windows::Attached,
                    SliceKey { end: 10, start: -5 },
                    &mut bytes,
                );
                put_run(run, &mut bytes);
                bytes.extend_from_slice(key);
                assert!(run == 0 || last < bytes, "{run}");
                let mut rest = bytes.as_slice();
                let slice = take_slice(&Windows::Attached, &mut rest).unwrap();
                assert_eq!((slice.end, slice.start), (10, -5));
                assert_eq!(take_run(&mut rest), Some(run));
                assert_eq!(rest, key);
                last = bytes;
            }
        }
        assert_eq!(take_run(&mut &[RUN_MARK, 0, 0][..]), None);
        assert!(take_slice(&Windows::Attached, &mut &[0; 9][..]).is_none());
    }

    #[test]
    fn a_rescale_takes_the_highest_runs_and_a_share_of_the_entries() {
        let id = StateId("a".into());
        let key = |end| SliceKey { end, start: 3 };
        let cold = |next_run, entries| Cold { next_run, entries };
        let groups = |start, end| KeyGroupRange { start, end };
        let mut restored = RestoredState {
            restored: true,
            items: Vec::new(),
        };
        assert_eq!(restore(&id, groups(0, 6), &restored).unwrap(), None);
        for (held, slices) in [
            (
                groups(0, 4),
                vec![(key(-7), cold(2, 100)), (key(9), cold(1, 8))],
            ),
            (groups(4, 8), vec![(key(9), cold(3, 40))]),
            (groups(8, 12), vec![(key(20), cold(1, 1))]),
        ] {
            let mut snapshot = OperatorSnapshot::default();
            save(&id, held, &slices, &mut snapshot);
            restored.items.extend(snapshot.items);
        }
        assert_eq!(
            restore(&id, groups(0, 6), &restored).unwrap(),
            Some([(key(-7), cold(2, 100)), (key(9), cold(3, 28))].into())
        );
        restored.items[0].items[0].truncate(7);
        assert!(restore(&id, groups(0, 6), &restored).is_err());
    }
}
