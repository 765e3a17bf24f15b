//! Appends to every row its window, once per window it belongs to.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, UInt64Array},
    datatypes::SchemaRef,
};
use millrace_dataflow::{TimeDomain, WindowAssignNode, WindowSource};
use millrace_types::CheckpointId;

use super::{
    columns::batch_of, slice_assignment::check_times, window_aggregate::windows_of,
    window_slices::Slicing, window_store::Windows, window_time::WindowTime,
};
use crate::{
    Batch, Clock, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    batch::MAX_BATCH_ROWS,
    key_table::{int_array, int_values},
};

pub(crate) struct WindowAssign {
    slicing: Slicing,
    time: WindowTime,
    /// `None`: processing time.
    column: Option<usize>,
    schema: SchemaRef,
    clock: Option<Arc<dyn Clock>>,
}

impl WindowAssign {
    pub(crate) fn new(node: &WindowAssignNode, schema: SchemaRef) -> Result<Self, OperatorError> {
        let (windows, time, _) = windows_of(&node.window)?;
        let (Windows::Sliced(slicing), WindowSource::Time { column, domain, .. }) =
            (windows, &node.window)
        else {
            return Err(OperatorError::Internal(
                "windows assigned to rows that have theirs".into(),
            ));
        };
        Ok(WindowAssign {
            slicing,
            time,
            column: (*domain == TimeDomain::Event).then_some(*column),
            schema,
            clock: None,
        })
    }
}

impl Operator for WindowAssign {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        self.clock = Some(Arc::clone(&context.clock));
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        let rows = batch.len();
        let moments: Vec<i64> = match self.column {
            Some(column) => {
                let column = batch.rows.column(column);
                check_times(column, "the time attribute")?;
                int_values(column.as_ref()).into_owned()
            }
            None => vec![self.clock.as_ref().map_or(0, |clock| clock.now_ms()); rows],
        };
        let mut windows = Assigned::default();
        for (row, moment) in moments.into_iter().enumerate() {
            let slice = self.slicing.slice_end(self.time.local_of(moment));
            for end in self.slicing.window_ends(slice) {
                windows.rows.push(row as u64);
                windows.starts.push(self.slicing.window_start(end));
                windows.ends.push(end);
                windows.times.push(if self.time.is_shifted() {
                    self.time.trigger(end)
                } else {
                    end - 1
                });
                if windows.rows.len() >= MAX_BATCH_ROWS {
                    self.emit(&batch, std::mem::take(&mut windows), out)?;
                }
            }
        }
        self.emit(&batch, windows, out)
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }
}

#[derive(Default)]
struct Assigned {
    rows: Vec<u64>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    times: Vec<i64>,
}

impl WindowAssign {
    fn emit(
        &self,
        batch: &Batch,
        windows: Assigned,
        out: &mut Output,
    ) -> Result<(), OperatorError> {
        let rows = windows.rows.len();
        if rows == 0 {
            return Ok(());
        }
        let is_whole = rows == batch.len()
            && windows
                .rows
                .iter()
                .enumerate()
                .all(|(i, row)| i as u64 == *row);
        let taken = if is_whole {
            batch.clone()
        } else {
            batch.take(&UInt64Array::from(windows.rows))?
        };
        let mut columns: Vec<ArrayRef> = taken.rows.columns().to_vec();
        for values in [windows.starts, windows.ends, windows.times] {
            let field = self.schema.fields().get(columns.len()).ok_or_else(|| {
                OperatorError::Internal("windows without their three columns".into())
            })?;
            columns.push(int_array(field.data_type(), values, None));
        }
        out.emit(Batch {
            rows: batch_of(&self.schema, columns, rows)?,
            kinds: taken.kinds,
        });
        Ok(())
    }
}
