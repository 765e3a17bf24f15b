//! Keeps a slot's state within its budget: which operators let go of how much, and when the slot
//! has to wait until what it let go of is written.
//!
//! Two things hold memory: hot state, and deltas on their way into RocksDB. State that changes while
//! its task's part of a snapshot waits for those of the other tasks can't be let go of, since it
//! would get into that snapshot. Such tasks take no input while the slot is over its budget.
//!
//! That cannot hold up the snapshot: whoever feeds a task that has taken the barrier has sent it to
//! all others, too, and so needs no room in that task's channels to get it through. A snapshot that
//! never becomes whole is aborted by the coordinator, which ends the hold.

/// A share of the budget: freed beyond need, so that not every batch has to free some.
const SLACK: u64 = 5;

/// What one operator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) task: usize,
    /// Its position in the task's chain.
    pub(crate) position: usize,
    pub(crate) bytes: u64,
    /// Its task has handed over its part of a snapshot that is not whole.
    pub(crate) held_back: bool,
}

/// What an operator is to let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relief {
    pub(crate) task: usize,
    pub(crate) position: usize,
    pub(crate) bytes: u64,
}

/// What to do about memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Measures {
    /// Take no input until deltas have been written.
    pub(crate) wait: bool,
    /// Take no input for tasks that have handed over their part of a snapshot.
    pub(crate) hold: bool,
    /// Largest first.
    pub(crate) reliefs: Vec<Relief>,
}

/// The budget of one slot, in bytes.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    budget: u64,
    /// Where it is tried again, when the last relief did not come below the budget.
    retry_at: u64,
}

impl SlotMemory {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        SlotMemory {
            budget: budget_bytes as u64,
            retry_at: 0,
        }
    }

    /// `unwritten`: bytes of deltas that wait to be written.
    pub(crate) fn judge(&self, holdings: &[Holding], unwritten: u64) -> Measures {
        let mut measures = Measures::default();
        let held: u64 = holdings.iter().map(|holding| holding.bytes).sum();
        if held <= self.budget.max(self.retry_at) {
            return measures;
        }
        if unwritten > self.budget / 2 {
            measures.wait = true;
            return measures;
        }
        let mut missing = held - self.budget + self.budget / SLACK;
        let mut free: Vec<&Holding> = holdings
            .iter()
            .filter(|holding| !holding.held_back && holding.bytes > 0)
            .collect();
        free.sort_by_key(|holding| std::cmp::Reverse(holding.bytes));
        for holding in free {
            if missing == 0 {
                break;
            }
            let bytes = missing.min(holding.bytes);
            missing -= bytes;
            measures.reliefs.push(Relief {
                task: holding.task,
                position: holding.position,
                bytes,
            });
        }
        measures.hold = missing > self.budget / SLACK;
        measures
    }

    /// What is still held after a relief.
    pub(crate) fn relieved(&mut self, held: u64) {
        self.retry_at = held + self.budget / (2 * SLACK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(task: usize, bytes: u64, held_back: bool) -> Holding {
        Holding {
            task,
            position: 0,
            bytes,
            held_back,
        }
    }

    fn relief(task: usize, bytes: u64) -> Relief {
        Relief {
            task,
            position: 0,
            bytes,
        }
    }

    fn relieve(reliefs: Vec<Relief>) -> Measures {
        Measures {
            reliefs,
            ..Measures::default()
        }
    }

    #[test]
    fn the_largest_give_first_and_a_little_more_than_needed() {
        let memory = SlotMemory::new(1_000);
        let judge = |holdings: &[Holding], unwritten| memory.judge(holdings, unwritten);
        assert_eq!(
            judge(&[holding(0, 600, false), holding(1, 400, false)], 0),
            Measures::default()
        );
        assert_eq!(
            judge(&[holding(0, 400, false), holding(1, 700, false)], 0),
            relieve(vec![relief(1, 300)])
        );
        assert_eq!(
            judge(&[holding(0, 1_200, false), holding(1, 1_500, false)], 0),
            relieve(vec![relief(1, 1_500), relief(0, 400)])
        );
        let wait = judge(&[holding(0, 1_100, false)], 501);
        assert!(wait.wait && wait.reliefs.is_empty());
    }

    #[test]
    fn tasks_in_the_midst_of_a_snapshot_are_held() {
        let memory = SlotMemory::new(1_000);
        let measures = memory.judge(&[holding(0, 1_000, true), holding(1, 150, false)], 0);
        assert_eq!(measures.reliefs, [relief(1, 150)]);
        assert!(!measures.hold, "the others give enough");
        let measures = memory.judge(&[holding(0, 1_200, true), holding(1, 150, false)], 0);
        assert_eq!(measures.reliefs, [relief(1, 150)]);
        assert!(measures.hold);
    }

    #[test]
    fn what_cannot_be_freed_is_not_asked_for_at_every_batch() {
        let mut memory = SlotMemory::new(1_000);
        memory.relieved(2_000);
        assert_eq!(
            memory.judge(&[holding(0, 2_100, false)], 0),
            Measures::default()
        );
        assert_eq!(
            memory.judge(&[holding(0, 2_101, false)], 0),
            relieve(vec![relief(0, 1_301)])
        );
        memory.relieved(0);
        assert_eq!(
            memory.judge(&[holding(0, 1_001, false)], 0),
            relieve(vec![relief(0, 201)])
        );
    }
}
