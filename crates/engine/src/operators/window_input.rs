//! What a window aggregate reads: where its rows say which slice they belong to.

use arrow::array::{ArrayRef, RecordBatch};
use millrace_dataflow::{TimeDomain, WindowSource};

use super::{
    slice_assignment::{self, SliceRows, check_times},
    window_store::{SliceKey, Windows},
    window_time::WindowTime,
};
use crate::{OperatorError, key_table::int_values};

#[derive(Debug, Clone)]
pub(super) enum WindowInput {
    /// Raw rows with a time.
    Time { column: usize },
    /// Raw rows, at the clock's time.
    Clock,
    /// Raw rows with their window.
    Attached { start: usize, end: usize },
    /// Partials: so many keys, slice end, (for attached windows) window start, accumulators.
    Partials { keys: usize, attached: bool },
}

impl WindowInput {
    pub(super) fn raw(window: &WindowSource) -> Self {
        match window {
            WindowSource::Time {
                domain: TimeDomain::Processing,
                ..
            } => WindowInput::Clock,
            WindowSource::Time { column, .. } => WindowInput::Time { column: *column },
            WindowSource::Attached { start, end, .. } => WindowInput::Attached {
                start: *start,
                end: *end,
            },
        }
    }

    pub(super) fn partials(window: &WindowSource, keys: usize) -> Result<Self, OperatorError> {
        let attached = match window {
            WindowSource::Time {
                domain: TimeDomain::Processing,
                ..
            } => {
                return Err(OperatorError::Internal(
                    "a two-phase aggregate over processing time".into(),
                ));
            }
            WindowSource::Time { .. } => false,
            WindowSource::Attached { .. } => true,
        };
        Ok(WindowInput::Partials { keys, attached })
    }

    /// The first column of accumulators.
    pub(super) fn first_partial(&self) -> Option<usize> {
        match self {
            WindowInput::Partials { keys, attached } => Some(keys + 1 + usize::from(*attached)),
            WindowInput::Time { .. } | WindowInput::Clock | WindowInput::Attached { .. } => None,
        }
    }

    /// The rows by slice. `now`: the moment that rows without a time of their own belong to.
    pub(super) fn assign(
        &self,
        windows: &Windows,
        time: &mut WindowTime,
        now: i64,
        rows: &RecordBatch,
    ) -> Result<Vec<SliceRows<SliceKey>>, OperatorError> {
        match (self, windows) {
            (WindowInput::Time { column }, Windows::Sliced(slicing)) => {
                let parts = slice_assignment::by_time(slicing, time, rows.column(*column))?;
                Ok(parts
                    .into_iter()
                    .map(|(end, rows)| (SliceKey::ending(end), rows))
                    .collect())
            }
            (WindowInput::Clock, Windows::Sliced(slicing)) => {
                let end = slicing.slice_end(time.local_of(now));
                Ok(vec![(SliceKey::ending(end), None)])
            }
            (WindowInput::Attached { start, end }, _) => {
                by_window(rows.column(*end), Some(rows.column(*start)))
            }
            (WindowInput::Partials { keys, attached }, _) => {
                let start = attached.then(|| rows.column(keys + 1));
                by_window(rows.column(*keys), start)
            }
            _ => Err(OperatorError::Internal("a window without its shape".into())),
        }
    }
}

/// By window end and start columns.
fn by_window(
    end: &ArrayRef,
    start: Option<&ArrayRef>,
) -> Result<Vec<SliceRows<SliceKey>>, OperatorError> {
    check_times(end, "window_end")?;
    let ends = int_values(end.as_ref());
    match start {
        None => Ok(slice_assignment::split(
            ends.iter().map(|end| SliceKey::ending(*end)),
        )),
        Some(start) => {
            check_times(start, "window_start")?;
            let starts = int_values(start.as_ref());
            Ok(slice_assignment::split(ends.iter().zip(starts.iter()).map(
                |(end, start)| SliceKey {
                    end: *end,
                    start: *start,
                },
            )))
        }
    }
}
