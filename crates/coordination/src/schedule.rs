//! Which worker runs which slots. Subtask `i` of every operator runs in slot `i`; a worker gets
//! a contiguous range, so that neighbouring key groups share a process, and the ranges are as
//! even as the workers' sizes allow.

use std::ops::Range;

use millrace_types::WorkerId;

/// A worker that can take slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub worker: WorkerId,
    pub slots: u32,
}

/// A worker with the subtasks it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub worker: WorkerId,
    pub subtasks: Range<u32>,
}

/// The workers cannot hold the job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{needed} slots are needed, {offered} are there")]
pub struct NotEnoughSlots {
    pub needed: u32,
    pub offered: u32,
}

/// The sizes of the workers to start for a job: their slots, `workers` of them (at most the
/// parallelism), even up to one.
pub fn worker_sizes(parallelism: u32, workers: u32) -> Vec<u32> {
    let workers = workers.clamp(1, parallelism.max(1));
    (0..workers)
        .map(|i| parallelism / workers + u32::from(i < parallelism % workers))
        .collect()
}

/// Spreads the subtasks `0..parallelism` over the workers, in the order of their ids. Workers
/// that get nothing are left out.
pub fn place(parallelism: u32, workers: &[Capacity]) -> Result<Vec<Placement>, NotEnoughSlots> {
    let offered = workers
        .iter()
        .fold(0_u32, |sum, worker| sum.saturating_add(worker.slots));
    if offered < parallelism {
        return Err(NotEnoughSlots {
            needed: parallelism,
            offered,
        });
    }
    let mut workers = workers.to_vec();
    workers.sort_by_key(|worker| worker.worker);
    // Give out one slot per worker and round until all are given: as even as can be.
    let mut shares = vec![0_u32; workers.len()];
    let mut left = parallelism;
    while left > 0 {
        for (share, worker) in shares.iter_mut().zip(&workers) {
            if left > 0 && *share < worker.slots {
                *share += 1;
                left -= 1;
            }
        }
    }
    let mut start = 0;
    let mut placements = Vec::with_capacity(workers.len());
    for (share, worker) in shares.into_iter().zip(workers) {
        if share > 0 {
            placements.push(Placement {
                worker: worker.worker,
                subtasks: start..start + share,
            });
            start += share;
        }
    }
    Ok(placements)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn workers(slots: &[u32]) -> Vec<Capacity> {
        slots
            .iter()
            .enumerate()
            .map(|(i, slots)| Capacity {
                worker: WorkerId(Uuid::from_u128(i as u128)),
                slots: *slots,
            })
            .collect()
    }

    fn ranges(parallelism: u32, slots: &[u32]) -> Vec<Range<u32>> {
        place(parallelism, &workers(slots))
            .unwrap()
            .into_iter()
            .map(|placement| placement.subtasks)
            .collect()
    }

    #[test]
    fn subtasks_are_spread_evenly_and_in_order() {
        assert_eq!(ranges(4, &[2, 2]), [0..2, 2..4]);
        assert_eq!(ranges(5, &[3, 2]), [0..3, 3..5]);
        assert_eq!(ranges(4, &[1, 8]), [0..1, 1..4]);
        assert_eq!(ranges(2, &[4, 4, 4]), [0..1, 1..2]);
    }

    #[test]
    fn too_few_slots_are_named() {
        assert_eq!(
            place(4, &workers(&[1, 2])),
            Err(NotEnoughSlots {
                needed: 4,
                offered: 3
            })
        );
    }

    #[test]
    fn worker_sizes_add_up() {
        for (parallelism, workers, sizes) in [
            (4, 2, vec![2, 2]),
            (5, 2, vec![3, 2]),
            (1, 1, vec![1]),
            (2, 9, vec![1, 1]),
        ] {
            assert_eq!(worker_sizes(parallelism, workers), sizes);
        }
    }

    proptest! {
        #[test]
        fn every_subtask_has_one_place(slots in prop::collection::vec(0_u32..9, 1..9), part in 0.0..1.0_f64) {
            let offered: u32 = slots.iter().sum();
            let parallelism = (f64::from(offered) * part) as u32;
            let placements = place(parallelism, &workers(&slots)).unwrap();
            let mut next = 0;
            for placement in &placements {
                prop_assert_eq!(placement.subtasks.start, next);
                prop_assert!(placement.subtasks.end > next);
                next = placement.subtasks.end;
                let Capacity { slots, .. } = workers(&slots)[placement.worker.0.as_u128() as usize];
                prop_assert!(placement.subtasks.len() as u32 <= slots);
            }
            prop_assert_eq!(next, parallelism);
        }
    }
}
