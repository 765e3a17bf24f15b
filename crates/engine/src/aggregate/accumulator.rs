//! What every aggregate function implements.

use std::any::Any;

use arrow::array::ArrayRef;

use super::Rows;
use crate::OperatorError;

/// The state of one aggregate call for many groups.
pub trait Accumulator: Send {
    /// Makes room for groups `0..groups`; new ones are empty.
    fn resize(&mut self, groups: usize);

    /// Takes raw rows; `values` is the argument column (`None` for `COUNT(*)`).
    fn update(&mut self, values: Option<&ArrayRef>, rows: Rows<'_>) -> Result<(), OperatorError>;

    /// Number of columns of [`Accumulator::partials`].
    fn partial_width(&self) -> usize;

    /// Merges row `i` of the partial columns into group `groups[i]`.
    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError>;

    /// What another instance needs to merge these groups.
    fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError>;

    /// The results of these groups.
    fn emit(&self, groups: &[u32]) -> Result<ArrayRef, OperatorError>;

    /// Appends the group's state in its persisted form.
    fn encode(&self, group: u32, out: &mut Vec<u8>);

    /// Replaces the group's state by a persisted one.
    fn decode(&mut self, group: u32, bytes: &[u8]) -> Result<(), OperatorError>;

    /// Makes the group empty again.
    fn clear(&mut self, group: u32);

    /// Bytes in memory.
    fn bytes(&self) -> usize;

    /// Those of them that belong to single groups and are freed with them.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Merges groups of an accumulator of the same call: `from[i]` there into `to[i]` here.
    fn merge_from(
        &mut self,
        other: &dyn Accumulator,
        from: &[u32],
        to: &[u32],
    ) -> Result<(), OperatorError> {
        self.merge(&other.partials(from)?, to)
    }

    /// For downcasting in `merge_from`.
    fn as_any(&self) -> &dyn Any;
}

/// A persisted accumulator that cannot be read.
pub(super) fn damaged(what: &str) -> OperatorError {
    OperatorError::Internal(format!("the persisted state of {what}"))
}
