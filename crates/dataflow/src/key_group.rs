//! Key groups: the unit in which keyed state is spread over subtasks and moved by a rescale.
//! A key's group is `hash mod max parallelism` and never changes; a subtask owns a
//! contiguous range of groups.

use serde::{Deserialize, Serialize};

/// A key group, from 0 up to the job's maximum parallelism (at most 32,768).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The group of a key with this [`key_hash`](crate::key_hash).
    pub fn of_hash(hash: u64, max_parallelism: u32) -> Self {
        KeyGroup((hash % u64::from(max_parallelism)) as u16)
    }

    /// The subtask that owns the group.
    pub fn subtask(self, parallelism: u32, max_parallelism: u32) -> u32 {
        u32::from(self.0) * parallelism / max_parallelism
    }
}

/// Groups `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyGroupRange {
    pub start: u16,
    /// Exclusive.
    pub end: u16,
}

impl KeyGroupRange {
    /// The groups that a subtask owns: exactly those for which [`KeyGroup::subtask`] names it.
    pub fn of_subtask(subtask: u32, parallelism: u32, max_parallelism: u32) -> Self {
        let bound = |i: u32| {
            (u64::from(i) * u64::from(max_parallelism)).div_ceil(u64::from(parallelism)) as u16
        };
        KeyGroupRange {
            start: bound(subtask),
            end: bound(subtask + 1),
        }
    }

    pub fn contains(self, group: KeyGroup) -> bool {
        (self.start..self.end).contains(&group.0)
    }

    pub fn overlaps(self, other: KeyGroupRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_where_the_groups_go() {
        for max in [1, 7, 128, 720, 32_768] {
            for parallelism in [1, 2, 3, 5, 7, 64, 720].into_iter().filter(|p| *p <= max) {
                for group in 0..max {
                    let group = KeyGroup(group as u16);
                    let subtask = group.subtask(parallelism, max);
                    for other in 0..parallelism {
                        let range = KeyGroupRange::of_subtask(other, parallelism, max);
                        assert_eq!(
                            range.contains(group),
                            other == subtask,
                            "{group:?} of {max} over {parallelism}"
                        );
                    }
                    if max > 1_000 && group.0 > 600 {
                        break;
                    }
                }
            }
        }
    }
}
