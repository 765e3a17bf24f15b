//! The changelog of an updating aggregate: what a batch did to each group it touched.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, UInt32Array},
    compute::{interleave, kernels::cmp, take},
    datatypes::SchemaRef,
};
use millrace_dataflow::RowKind;

use super::{columns::batch_of, group_state::GroupState};
use crate::{Batch, OperatorError, Output, batch::MAX_BATCH_ROWS};

/// Results of the touched groups as they were before a batch.
pub(crate) struct Before {
    /// By position in the touched groups: row in `columns`, if the group existed.
    rows: Vec<Option<u32>>,
    columns: Vec<ArrayRef>,
}

impl Before {
    pub(crate) fn read(state: &GroupState, touched: &[u32]) -> Result<Self, OperatorError> {
        let mut existing = Vec::new();
        let rows = touched
            .iter()
            .map(|group| {
                (state.rows(*group) > 0).then(|| {
                    existing.push(*group);
                    existing.len() as u32 - 1
                })
            })
            .collect();
        let columns = if existing.is_empty() {
            Vec::new()
        } else {
            state.set.emit(&existing)?
        };
        Ok(Before { rows, columns })
    }

    /// Emits the difference to what the groups are now. `repeat_equal`: emit an update even if
    /// the result is the same (Flink does so when state expires, to keep what is downstream alive).
    pub(crate) fn emit_changes(
        self,
        state: &GroupState,
        touched: &[u32],
        schema: &SchemaRef,
        repeat_equal: bool,
        out: &mut Output,
    ) -> Result<(), OperatorError> {
        let mut present = Vec::new();
        let now_rows: Vec<Option<u32>> = touched
            .iter()
            .map(|group| {
                (state.rows(*group) > 0).then(|| {
                    present.push(*group);
                    present.len() as u32 - 1
                })
            })
            .collect();
        let columns = state.set.emit(&present)?;
        if self.columns.is_empty() && self.rows.iter().all(Option::is_none) {
            // Nothing existed: all that is here now is new.
            return emit_inserts(state, &present, columns, schema, out);
        }
        let changed = if repeat_equal {
            None
        } else {
            Some(self.changed(&now_rows, &columns)?)
        };
        let mut keys: Vec<u32> = Vec::new();
        let mut picks: Vec<(usize, usize)> = Vec::new();
        let mut kinds = Vec::new();
        let mut pair = 0;
        for (number, (before, now)) in self.rows.iter().zip(&now_rows).enumerate() {
            let mut push = |source: usize, row: u32, kind| {
                keys.push(number as u32);
                picks.push((source, row as usize));
                kinds.push(kind);
            };
            match (before, now) {
                (None, None) => {}
                (None, Some(now)) => push(1, *now, RowKind::Insert),
                (Some(before), None) => push(0, *before, RowKind::Delete),
                (Some(before), Some(now)) => {
                    if changed.as_ref().is_none_or(|changed| changed[pair]) {
                        push(0, *before, RowKind::UpdateBefore);
                        push(1, *now, RowKind::UpdateAfter);
                    }
                    pair += 1;
                }
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        let rows = keys.len();
        // Both halves of an update have the same key: it is read once.
        let keys = UInt32Array::from(keys);
        let mut output = Vec::with_capacity(schema.fields().len());
        for column in state.keys.columns(touched)? {
            output.push(take(&column, &keys, None)?);
        }
        for (before, now) in self.columns.iter().zip(&columns) {
            output.push(interleave(&[before.as_ref(), now.as_ref()], &picks)?);
        }
        let rows = batch_of(schema, output, rows)?;
        emit_pieces(Batch::changes(rows, kinds), out);
        Ok(())
    }

    /// For every group that existed and exists: whether its result differs.
    fn changed(
        &self,
        now_rows: &[Option<u32>],
        columns: &[ArrayRef],
    ) -> Result<Vec<bool>, OperatorError> {
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for (old, new) in self.rows.iter().zip(now_rows) {
            if let (Some(old), Some(new)) = (old, new) {
                before.push(*old);
                now.push(*new);
            }
        }
        let mut changed = vec![false; before.len()];
        let pick = |column: &ArrayRef, rows: &[u32]| {
            if rows.len() == column.len() {
                // Both lists are ascending, so as many as there are means all in order.
                Ok(Arc::clone(column))
            } else {
                take(column, &UInt32Array::from(rows.to_vec()), None)
            }
        };
        for (old, new) in self.columns.iter().zip(columns) {
            let (old, new) = (pick(old, &before)?, pick(new, &now)?);
            let differs = if old.data_type().is_nested() {
                (0..old.len())
                    .map(|row| Some(old.slice(row, 1) != new.slice(row, 1)))
                    .collect::<BooleanArray>()
            } else {
                cmp::distinct(&old, &new)?
            };
            for (changed, differs) in changed.iter_mut().zip(differs.values()) {
                *changed |= differs;
            }
        }
        Ok(changed)
    }
}

/// Emits groups as new rows.
pub(crate) fn emit_inserts(
    state: &GroupState,
    groups: &[u32],
    results: Vec<ArrayRef>,
    schema: &SchemaRef,
    out: &mut Output,
) -> Result<(), OperatorError> {
    if groups.is_empty() {
        return Ok(());
    }
    let mut output = state.keys.columns(groups)?;
    output.extend(results);
    let rows = batch_of(schema, output, groups.len())?;
    emit_pieces(Batch::inserts(rows), out);
    Ok(())
}

fn emit_pieces(batch: Batch, out: &mut Output) {
    if batch.len() <= MAX_BATCH_ROWS {
        out.emit(batch);
        return;
    }
    // The two halves of an update may part here; they stay in order, which is all that counts.
    for offset in (0..batch.len()).step_by(MAX_BATCH_ROWS) {
        out.emit(batch.slice(offset, MAX_BATCH_ROWS.min(batch.len() - offset)));
    }
}
