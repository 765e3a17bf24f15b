//! Aggregates per window and key: the single-phase form over raw rows and the global form over
//! the partials of `local_window_aggregate`. Event time and processing time.
//!
//! Work per row does not depend on how many windows the row belongs to: rows go into slices,
//! and slices are merged when a window fires. Memory is bounded: slices can leave it at any time
//! (`relieve`), rows then go into new parts of them, and a window whose slices are not all in
//! memory is put together piece by piece. A window is emitted with pauses (`resume`).

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, SchemaRef},
};
use millrace_dataflow::{TimeDomain, WindowAggregateNode, WindowSource};
use millrace_state::Delta;
use millrace_types::CheckpointId;

use super::{
    late::note_late,
    slice_assignment::SliceRows,
    window_input::WindowInput,
    window_persistence::WindowPersistence,
    window_slices::Slicing,
    window_store::{SliceKey, WindowStore, Windows},
    window_time::WindowTime,
};
use crate::{
    Batch, Clock, LateRows, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    StateSize,
    aggregate::{AggregatePlan, Rows, UpdateScratch},
    key_table::{KeyTable, int_values},
};

pub(crate) struct WindowAggregate {
    node: Arc<WindowAggregateNode>,
    input: WindowInput,
    store: WindowStore,
    persistence: Option<WindowPersistence>,
    clock: Option<Arc<dyn Clock>>,
    /// The latest processing time seen.
    now: i64,
    /// The windows that are being fired.
    due: Option<Due>,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
}

/// Windows to be fired.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// All that are complete at this watermark.
    until: i64,
    /// To be forwarded once all their rows are out.
    watermark: Option<i64>,
}

/// The window shape of a node and the clock it follows.
pub(crate) fn windows_of(
    source: &WindowSource,
) -> Result<(Windows, WindowTime, Option<TimeDomain>), OperatorError> {
    match source {
        WindowSource::Time {
            kind, domain, zone, ..
        } => Ok((
            Windows::Sliced(Slicing::new(*kind)?),
            WindowTime::new(zone.as_deref())?,
            Some(*domain),
        )),
        WindowSource::Attached { zone, .. } => {
            Ok((Windows::Attached, WindowTime::new(zone.as_deref())?, None))
        }
    }
}

/// Types of the key columns.
pub(crate) fn key_types(schema: &arrow::datatypes::Schema, keys: &[usize]) -> Vec<DataType> {
    keys.iter()
        .map(|key| schema.field(*key).data_type().clone())
        .collect()
}

impl WindowAggregate {
    /// Over raw rows.
    pub(crate) fn single(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let input = WindowInput::raw(&node.window);
        Self::new(node, schema, input)
    }

    /// Over partials.
    pub(crate) fn global(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let input = WindowInput::partials(&node.window, node.keys.len())?;
        Self::new(node, schema, input)
    }

    fn new(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
        input: WindowInput,
    ) -> Result<Self, OperatorError> {
        let (windows, time, _) = windows_of(&node.window)?;
        let plan = AggregatePlan::new(&node.aggregates, &node.raw_input, false, 0)?;
        let keys = KeyTable::new(key_types(&node.raw_input, &node.keys))?;
        Ok(WindowAggregate {
            input,
            store: WindowStore::new(windows, time, keys, plan, schema),
            persistence: None,
            clock: None,
            now: i64::MIN,
            due: None,
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
            node,
        })
    }

    fn assign(&mut self, rows: &RecordBatch) -> Result<Vec<SliceRows<SliceKey>>, OperatorError> {
        if let (WindowInput::Clock, Some(clock)) = (&self.input, &self.clock) {
            // A clock that stands behind the former machine's must not reopen windows.
            let closed = self.store.watermark;
            self.now = self.now.max(clock.now_ms()).max(closed.saturating_add(1));
        }
        let store = &mut self.store;
        self.input
            .assign(&store.windows, &mut store.time, self.now, rows)
    }

    fn add(
        &mut self,
        key: SliceKey,
        rows: &RecordBatch,
        positions: Option<&[u32]>,
    ) -> Result<(), OperatorError> {
        let partials = self.input.first_partial();
        let key_columns: Vec<usize> = match partials {
            Some(_) => (0..self.node.keys.len()).collect(),
            None => self.node.keys.clone(),
        };
        let indices = positions.map(|positions| UInt32Array::from(positions.to_vec()));
        let selected = |column: &ArrayRef| match &indices {
            Some(indices) => take(column, indices, None),
            None => Ok(Arc::clone(column)),
        };
        let keys = key_columns
            .iter()
            .map(|column| selected(rows.column(*column)))
            .collect::<Result<Vec<_>, _>>()?;
        let count = positions.map_or(rows.num_rows(), <[u32]>::len);
        let hot = self.store.hot(key)?;
        self.created.clear();
        hot.keys
            .intern(&keys, count, &mut self.groups, &mut self.created);
        hot.resize();
        match partials {
            Some(first) => {
                let partials = rows.columns()[first..]
                    .iter()
                    .map(selected)
                    .collect::<Result<Vec<_>, _>>()?;
                hot.set.merge(&partials, &self.groups)?;
            }
            None => hot.set.update(
                rows.columns(),
                Rows {
                    positions,
                    groups: &self.groups,
                    retract: None,
                },
                &mut self.scratch,
            )?,
        }
        hot.mark_dirty(&self.groups);
        self.store.recount(key);
        Ok(())
    }

    /// Fires what is due until enough is out.
    fn fire(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        let Some(due) = self.due else {
            return Ok(());
        };
        let state = self.persistence.as_mut().ok_or_else(unopened)?;
        if self.store.fire(due.until, state, out)? {
            self.due = None;
            if let Some(watermark) = due.watermark {
                out.watermark(watermark);
            }
        }
        Ok(())
    }

    /// Fires all that is due: what comes next must not get into it.
    fn finish(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        while self.due.is_some() {
            self.fire(out)?;
        }
        Ok(())
    }

    fn note_late(&mut self, rows: &RecordBatch, positions: Option<Vec<u32>>) {
        let positions = positions.unwrap_or_else(|| (0..rows.num_rows() as u32).collect());
        let mut count = positions.len() as u64;
        // A partial stands for many rows; how many is known if they are counted anyway.
        if let (Some(first), Some(call)) =
            (self.input.first_partial(), self.store.plan().row_count())
            && let Some(column) = self.store.plan().partial_column(call, first)
            && column < rows.num_columns()
        {
            let counts = int_values(rows.column(column).as_ref());
            count = positions
                .iter()
                .map(|row| counts[*row as usize] as u64)
                .sum();
        }
        note_late(&mut self.store.late, rows, &positions, count);
    }
}

fn unopened() -> OperatorError {
    OperatorError::Internal("a window aggregate that was not opened".into())
}

impl Operator for WindowAggregate {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        self.clock = Some(Arc::clone(&context.clock));
        self.persistence = Some(WindowPersistence::open(
            &self.node.state_id,
            &mut self.store,
            context,
        )?);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        self.finish(out)?;
        let rows = batch.rows;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        for (key, positions) in self.assign(&rows)? {
            if self.store.is_gap(key) {
                continue;
            }
            if self.store.is_late(key) {
                self.note_late(&rows, positions);
            } else {
                self.add(key, &rows, positions.as_deref())?;
            }
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: i64, out: &mut Output) -> Result<(), OperatorError> {
        self.finish(out)?;
        let is_end = watermark == i64::MAX;
        let by_clock = matches!(self.input, WindowInput::Clock);
        if !by_clock {
            // Sources may begin behind what was restored here; what fired stays fired.
            self.store.watermark = self.store.watermark.max(watermark);
        }
        if by_clock && !is_end {
            out.watermark(watermark);
            return Ok(());
        }
        self.due = Some(Due {
            until: watermark,
            watermark: Some(watermark),
        });
        self.fire(out)
    }

    fn next_tick(&self) -> Option<i64> {
        match self.input {
            WindowInput::Clock => Some(self.store.next_trigger()?.saturating_add(1)),
            _ => None,
        }
    }

    fn tick(&mut self, now_ms: i64, out: &mut Output) -> Result<(), OperatorError> {
        self.finish(out)?;
        if !matches!(self.input, WindowInput::Clock) {
            return Ok(());
        }
        self.now = self.now.max(now_ms);
        let closed = self.now.saturating_sub(1);
        // Kept over a restore: slices that later windows share must not fire earlier ones again.
        self.store.watermark = self.store.watermark.max(closed);
        self.due = Some(Due {
            until: closed,
            watermark: None,
        });
        self.fire(out)
    }

    fn before_barrier(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        self.finish(out)
    }

    fn has_more(&self) -> bool {
        self.due.is_some()
    }

    fn resume(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        self.fire(out)
    }

    fn relieve(&mut self, bytes: u64, deltas: &mut Vec<Delta>) -> Result<(), OperatorError> {
        let state = self.persistence.as_mut().ok_or_else(unopened)?;
        state.relieve(&mut self.store, bytes, deltas);
        Ok(())
    }

    fn snapshot(
        &mut self,
        _: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        let state = self.persistence.as_mut().ok_or_else(unopened)?;
        if self.due.is_some() {
            return Err(OperatorError::Internal(
                "a snapshot before all rows of a window are out".into(),
            ));
        }
        state.snapshot(&mut self.store, snapshot);
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        let mut size = self.store.state_size();
        size.bytes += (self.persistence.as_ref()).map_or(0, WindowPersistence::gone_bytes);
        size
    }

    fn late_rows(&self) -> LateRows {
        self.store.late.clone()
    }
}
