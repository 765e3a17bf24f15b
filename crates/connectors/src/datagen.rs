//! The datagen source: rows of any schema with random or counted values, under the options
//! of Flink's connector of that name.
//!
//! Invariant: a row's values depend on the seed, the split and the row's number alone, so a
//! position is a number and any row can be made without those before it. Pure: no clock, no
//! IO; the caller paces by [`DatagenGenerator::due`].

mod config;
mod field;
mod generator;
mod split;
#[cfg(test)]
mod tests;
mod values;

pub use crate::generator_options::OptionError;
#[cfg(test)]
pub(crate) use config::TABLE_OPTIONS;
pub use config::{DEFAULT_SEED, DatagenConfig};
#[cfg(test)]
pub(crate) use field::FIELD_OPTIONS;
pub use generator::{DatagenGenerator, MAX_BATCH_ROWS};
pub use split::DatagenSplit;

use arrow::error::ArrowError;

/// Why a datagen generator cannot be made or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DatagenError {
    /// A stored position does not come from a split of this source.
    #[error(
        "the stored position of datagen split {} of {} is not one this version writes \
         (row {}); start the job without this state",
        .0.index, .0.splits, .0.next
    )]
    Split(Box<DatagenSplit>),
    /// A batch could not be put together.
    #[error("cannot build a batch of generated rows")]
    Batch(#[from] ArrowError),
}
