//! Which rows of a batch an accumulator takes, and for which group.

use arrow::array::Array;

/// A selection of rows. All slices have the same length, one item per selected row.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Positions in the batch; `None`: all rows of the batch, in order.
    pub positions: Option<&'a [u32]>,
    /// The group of each selected row.
    pub groups: &'a [u32],
    /// Whether the row takes back what another one added; `None`: none does.
    pub retract: Option<&'a [bool]>,
}

impl<'a> Rows<'a> {
    /// All rows of a batch, as additions.
    pub fn all(groups: &'a [u32]) -> Self {
        Rows {
            positions: None,
            groups,
            retract: None,
        }
    }

    /// Calls `visit(group, position, retract)` for every row.
    #[inline(always)]
    pub fn each(self, mut visit: impl FnMut(usize, usize, bool)) {
        match (self.positions, self.retract) {
            (None, None) => {
                for (position, group) in self.groups.iter().enumerate() {
                    visit(*group as usize, position, false);
                }
            }
            (Some(positions), None) => {
                for (position, group) in positions.iter().zip(self.groups) {
                    visit(*group as usize, *position as usize, false);
                }
            }
            (None, Some(retract)) => {
                for (position, (group, retract)) in self.groups.iter().zip(retract).enumerate() {
                    visit(*group as usize, position, *retract);
                }
            }
            (Some(positions), Some(retract)) => {
                for ((position, group), retract) in positions.iter().zip(self.groups).zip(retract) {
                    visit(*group as usize, *position as usize, *retract);
                }
            }
        }
    }

    /// Like [`Rows::each`], for the rows where `column` is not null.
    #[inline(always)]
    pub fn each_valid(self, column: &dyn Array, mut visit: impl FnMut(usize, usize, bool)) {
        match column
            .logical_nulls()
            .filter(|nulls| nulls.null_count() > 0)
        {
            None => self.each(visit),
            Some(nulls) => self.each(|group, position, retract| {
                if nulls.is_valid(position) {
                    visit(group, position, retract);
                }
            }),
        }
    }
}
