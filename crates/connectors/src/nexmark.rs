//! The Nexmark source: an online auction's persons, auctions and bids, generated.
//!
//! The stream is bit for bit that of the public Flink generator with seeded random sources,
//! so results can be compared row by row. It is deterministic: a stored [`NexmarkSplit`]
//! continues with exactly the rows that were to come. Pure: no clock, no IO.
//!
//! ```text
//! options ── NexmarkConfig ── make_splits ──> NexmarkSplit (state)
//!                  └──────────────────────────────┴── NexmarkGenerator ──> batches
//! ```

mod auction;
mod bid;
mod columns;
mod config;
mod generator;
mod person;
mod price;
pub(crate) mod random;
mod schema;
mod sequence;
mod split;
#[cfg(test)]
mod tests;
mod text;

pub use crate::generator_options::OptionError;
#[cfg(test)]
pub(crate) use config::OPTIONS;
pub use config::{BaseTime, DEFAULT_BASE_TIME_MS, DEFAULT_SEED, NexmarkConfig};
pub use generator::{MAX_BATCH_ROWS, NexmarkGenerator};
pub use schema::{NexmarkProjection, check_declared, nexmark_schema};
pub use split::NexmarkSplit;

use arrow::error::ArrowError;

/// Why a Nexmark generator cannot be made or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NexmarkError {
    /// A stored position does not come from a split of this source.
    #[error(
        "the stored position of Nexmark split {} of {} is not one this version writes \
         (event {} of {}); start the job without this state",
        .0.index, .0.splits, .0.next, .0.events
    )]
    Split(Box<NexmarkSplit>),
    /// A projection names what is not in the schema.
    #[error("a Nexmark table has no column '{0}'; it has event_type, person, auction and bid")]
    Column(String),
    /// A table declares a column with another type than is generated.
    #[error(
        "column '{column}' of a Nexmark table is declared as {declared}, but holds {generated}"
    )]
    ColumnType {
        column: String,
        declared: String,
        generated: String,
    },
    /// A batch could not be put together.
    #[error("cannot build a batch of Nexmark rows")]
    Batch(#[from] ArrowError),
}
