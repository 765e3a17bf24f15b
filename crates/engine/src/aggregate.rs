//! Aggregate functions as typed columns, one value per group.
//!
//! An [`AggregateSet`] holds the accumulators of all calls of one aggregate node for the groups
//! of one key table: `update` takes raw rows, `merge` takes the partials of another set (see the
//! layout of partial columns in `millrace_dataflow`), `emit` gives results in Flink's types.
//! Groups are dense numbers from a [`KeyTable`](crate::key_table::KeyTable); nothing is
//! allocated per group except by the functions that collect values.
//!
//! Arithmetic is Flink's: sums of integers wrap silently, integer averages truncate toward zero,
//! a DECIMAL sum beyond 38 digits is NULL, aggregates over no non-null row are NULL (COUNT: 0).
//! Retraction is exact for integers, decimals, counts, minima, maxima and distinct values; for
//! floating-point sums and variances it is exact up to rounding.

mod accumulator;
mod average;
mod cell;
pub(crate) mod codec;
mod collect;
mod count;
mod extreme;
mod extreme_bytes;
mod int_sets;
mod kept;
mod multiset;
mod notes;
mod number;
mod plan;
mod rows;
mod set;
mod sum;
mod value_set;
mod variance;

pub use accumulator::Accumulator;
pub use plan::{AggregatePlan, ValueSetPlan};
pub use rows::Rows;
pub use set::{AggregateSet, MissingValue, UpdateScratch};
pub use value_set::ValueEntry;
