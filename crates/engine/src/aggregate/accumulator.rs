//! What every aggregate function implements.

use std::any::Any;

use arrow::array::ArrayRef;

use super::Rows;
use crate::OperatorError;

/// A member of a group's value set that changed since it was last persisted.
#[derive(Debug)]
pub struct ValueChange<'a> {
    pub group: u32,
    /// Canonical encoding of the value.
    pub value: &'a [u8],
    /// How many rows have it; 0: it is gone.
    pub count: i64,
    /// When a row last had it (epoch ms), as far as a TTL makes that matter.
    pub seen_ms: i64,
}

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

    /// Appends the group's state in its persisted form (without its value set, if it has one).
    fn encode(&self, group: u32, out: &mut Vec<u8>);

    /// Replaces the group's state by a persisted one.
    fn decode(&mut self, group: u32, bytes: &[u8]) -> Result<(), OperatorError>;

    /// Makes the group empty again.
    fn clear(&mut self, group: u32);

    /// Bytes in memory.
    fn bytes(&self) -> usize;

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

    /// Whether the call keeps a set of values per group that is persisted value by value.
    fn has_value_set(&self) -> bool {
        false
    }

    /// From now on keep track of what changes in the value sets.
    fn track_values(&mut self) {}

    /// The present time (epoch ms), for value sets under a TTL.
    fn set_time(&mut self, _now_ms: i64) {}

    /// Visits what changed in the value sets since the last call.
    fn take_value_changes(&mut self, _visit: &mut dyn FnMut(ValueChange<'_>)) {}

    /// Visits all values of a group.
    fn each_value(&self, _group: u32, _visit: &mut dyn FnMut(&[u8])) {}

    /// Puts a persisted value back.
    fn load_value(
        &mut self,
        _group: u32,
        _value: &[u8],
        _count: i64,
        _seen_ms: i64,
    ) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Values that the rows bring for groups whose set is not wholly in memory (`is_partial` by
    /// group) and which are not in memory: group and canonical encoding, each pair once.
    fn missing_values(
        &self,
        _values: Option<&ArrayRef>,
        _rows: Rows<'_>,
        _is_partial: &[bool],
    ) -> Result<Vec<(u32, Vec<u8>)>, OperatorError> {
        Ok(Vec::new())
    }
}

/// A persisted accumulator that cannot be read.
pub(super) fn damaged(what: &str) -> OperatorError {
    OperatorError::Internal(format!("the persisted state of {what}"))
}
