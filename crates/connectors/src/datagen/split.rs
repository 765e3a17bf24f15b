//! Splits of a datagen table and their positions.

use serde::{Deserialize, Serialize};

use super::DatagenError;
use super::config::{DatagenConfig, MAX_ROWS};

/// One split and how far it has come: the state to store in a checkpoint. The number of
/// splits stays as it was at the first start, whatever the parallelism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagenSplit {
    /// Which split, from 0.
    pub index: u32,
    /// Of how many.
    pub splits: u32,
    /// Time of the table's first row, milliseconds since the epoch.
    pub base_time_ms: i64,
    /// Rows emitted so far.
    pub next: u64,
}

impl DatagenSplit {
    pub(crate) fn check(&self) -> Result<(), DatagenError> {
        let most = MAX_ROWS as u64;
        if self.index < self.splits
            && self.next <= most / u64::from(self.splits)
            && self.base_time_ms.unsigned_abs() <= most
        {
            Ok(())
        } else {
            Err(DatagenError::Split(Box::new(self.clone())))
        }
    }
}

impl DatagenConfig {
    /// Lays a table out in splits: as many as it says, else one per subtask. `now_ms` is the
    /// base time of a table that names none.
    pub fn make_splits(&self, parallelism: u32, now_ms: i64) -> Vec<DatagenSplit> {
        let splits = self.splits.unwrap_or(parallelism).max(1);
        (0..splits)
            .map(|index| DatagenSplit {
                index,
                splits,
                base_time_ms: self.base_time_ms.unwrap_or(now_ms),
                next: 0,
            })
            .collect()
    }

    /// Rows of a split in all: its share of the table's rows (the first splits take one more
    /// if they do not divide), or what its counting columns have to give, if less.
    pub(crate) fn rows_of(&self, split: &DatagenSplit) -> u64 {
        let (index, splits) = (u64::from(split.index), u64::from(split.splits.max(1)));
        let share = |total: u64| total / splits + u64::from(index < total % splits);
        let counted = self.fields.iter().filter_map(|field| field.counted());
        counted
            .chain(self.number_of_rows)
            .map(share)
            .min()
            .unwrap_or(u64::MAX)
            .min(MAX_ROWS as u64 / splits)
    }
}
