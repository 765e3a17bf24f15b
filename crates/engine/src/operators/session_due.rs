//! When cold keys of session windows have to be looked at again.
//!
//! Time is cut into buckets. A bucket is named by its start; a cold key is listed in one that
//! starts at or before the end of its first session. So nothing cold ends before the first
//! bucket starts, and sessions can fire in the order of their ends, bucket by bucket.
//!
//! Buckets of ends that are far ahead are wide, so that there are few at any time: when such a
//! bucket starts, its keys go into narrower ones.
//!
//! List `due`, one item per bucket: version tag, start (8 bytes), the key groups that have keys in
//! it (2 bytes each), all big-endian.

use std::collections::BTreeSet;

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};

use crate::{OperatorError, OperatorSnapshot, RestoredState};

const LIST: &str = "due";
const FORMAT: u8 = 1;

/// The buckets that have keys, per key group.
#[derive(Debug)]
pub(crate) struct DueBuckets {
    /// Of the narrowest buckets, a power of two.
    width: i64,
    buckets: BTreeSet<(i64, u16)>,
}

impl DueBuckets {
    /// Those of all former subtasks that fall to these key groups.
    pub(crate) fn open(
        gap: i64,
        state_id: &StateId,
        key_groups: KeyGroupRange,
        restored: &RestoredState,
    ) -> Result<Self, OperatorError> {
        let mut buckets = BTreeSet::new();
        for item in restored.list(state_id, LIST) {
            let (bucket, groups) = decode(item).ok_or_else(|| {
                OperatorError::Internal(format!("a bucket in the state of {state_id}"))
            })?;
            let own = groups.filter(|group| key_groups.contains(*group));
            buckets.extend(own.map(|group| (bucket, group.0)));
        }
        Ok(DueBuckets {
            width: power_of_two(gap / 16),
            buckets,
        })
    }

    pub(crate) fn save(&self, state_id: &StateId, snapshot: &mut OperatorSnapshot) {
        let mut items: Vec<Vec<u8>> = Vec::new();
        let mut last = None;
        for (bucket, group) in &self.buckets {
            if last != Some(*bucket) {
                last = Some(*bucket);
                let mut item = vec![FORMAT];
                item.extend_from_slice(&bucket.to_be_bytes());
                items.push(item);
            }
            if let Some(item) = items.last_mut() {
                item.extend_from_slice(&group.to_be_bytes());
            }
        }
        snapshot.list(state_id, LIST, items);
    }

    /// The bucket for an end that is this far ahead of the present.
    pub(crate) fn bucket_of(&self, end: i64, ahead: i64) -> i64 {
        // At most an eighth of the way too early.
        let width = power_of_two(ahead / 8).max(self.width);
        end & !(width - 1)
    }

    pub(crate) fn insert(&mut self, bucket: i64, group: KeyGroup) {
        self.buckets.insert((bucket, group.0));
    }

    /// The bucket has no more keys of this group.
    pub(crate) fn remove(&mut self, bucket: i64, group: KeyGroup) {
        self.buckets.remove(&(bucket, group.0));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The first bucket.
    pub(crate) fn first(&self) -> Option<i64> {
        self.buckets.first().map(|(bucket, _)| *bucket)
    }

    /// The first bucket after this one.
    pub(crate) fn first_after(&self, bucket: i64) -> Option<i64> {
        let after = bucket.checked_add(1)?;
        let (bucket, _) = self.buckets.range((after, 0)..).next()?;
        Some(*bucket)
    }

    /// The first key group with keys in this bucket.
    pub(crate) fn group_in(&self, bucket: i64) -> Option<KeyGroup> {
        let (_, group) = self
            .buckets
            .range((bucket, 0)..=(bucket, u16::MAX))
            .next()?;
        Some(KeyGroup(*group))
    }

    pub(crate) fn bytes(&self) -> usize {
        // A node of the tree is at least half full.
        self.buckets.len() * 2 * size_of::<(i64, u16)>()
    }
}

/// The greatest power of two that is not greater, at least 1.
fn power_of_two(value: i64) -> i64 {
    1 << value.max(1).ilog2()
}

fn decode(item: &[u8]) -> Option<(i64, impl Iterator<Item = KeyGroup>)> {
    let (FORMAT, rest) = item.split_first().map(|(tag, rest)| (*tag, rest))? else {
        return None;
    };
    let (bucket, groups) = rest.split_first_chunk::<8>()?;
    let (groups, []) = groups.as_chunks::<2>() else {
        return None;
    };
    let groups = groups
        .iter()
        .map(|group| KeyGroup(u16::from_be_bytes(*group)));
    Some((i64::from_be_bytes(*bucket), groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: KeyGroupRange = KeyGroupRange { start: 0, end: 12 };

    fn buckets(gap: i64, key_groups: KeyGroupRange, restored: &RestoredState) -> DueBuckets {
        DueBuckets::open(gap, &StateId("s".into()), key_groups, restored).unwrap()
    }

    #[test]
    fn buckets_start_early_but_not_long_ago() {
        let buckets = buckets(1000, ALL, &RestoredState::default());
        for present in [-5_000, 0, 1 << 40] {
            for ahead in [-3, 0, 1, 17, 999, 5_000, 1 << 33] {
                let end = present + ahead;
                let bucket = buckets.bucket_of(end, ahead);
                assert!(bucket <= end && end - bucket < (ahead / 8).max(62).max(1) + 1);
                assert!(ahead < 600 || bucket > present);
            }
        }
        for extreme in [i64::MIN, i64::MAX] {
            assert!(buckets.bucket_of(extreme, extreme) <= extreme);
        }
    }

    #[test]
    fn few_buckets_whatever_is_ahead() {
        let buckets = buckets(1000, ALL, &RestoredState::default());
        let distinct: BTreeSet<i64> = (0..2_000_000)
            .map(|i| i * 1_003)
            .map(|end| buckets.bucket_of(end, end))
            .collect();
        assert!(distinct.len() < 300, "{} buckets", distinct.len());
    }

    #[test]
    fn a_restore_finds_its_own() {
        let none = RestoredState::default();
        let id = StateId("s".into());
        let mut snapshot = OperatorSnapshot::default();
        for (range, entries) in [
            (KeyGroupRange { start: 0, end: 6 }, [(-8, 1), (16, 5)]),
            (KeyGroupRange { start: 6, end: 12 }, [(-8, 7), (32, 6)]),
        ] {
            let mut buckets = buckets(100, range, &none);
            for (bucket, group) in entries {
                buckets.insert(bucket, KeyGroup(group));
            }
            buckets.save(&id, &mut snapshot);
        }
        let restored = RestoredState {
            restored: true,
            items: snapshot.items,
        };
        let mut own = buckets(100, KeyGroupRange { start: 5, end: 8 }, &restored);
        assert_eq!(own.first(), Some(-8));
        assert_eq!(own.group_in(-8), Some(KeyGroup(7)));
        assert_eq!(own.first_after(-8), Some(16));
        own.remove(-8, KeyGroup(7));
        assert_eq!(own.first(), Some(16));
        assert_eq!(own.first_after(32), None);
    }
}
