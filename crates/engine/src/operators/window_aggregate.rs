//! Aggregates per window and key: the single-phase form over raw rows and the global form over
//! the partials of `local_window_aggregate`. Event time and processing time.
//!
//! Work per row does not depend on how many windows the row belongs to: rows go into slices,
//! and slices are merged when a window fires.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, SchemaRef},
};
use millrace_dataflow::{TimeDomain, WindowAggregateNode, WindowSource};
use millrace_types::CheckpointId;

use super::{
    late::note_late,
    slice_assignment::{self, SliceRows, check_times},
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

/// Where rows say which slice they belong to.
#[derive(Debug, Clone)]
enum Input {
    /// Raw rows with a time.
    Time { column: usize },
    /// Raw rows, at the clock's time.
    Clock,
    /// Raw rows with their window.
    Attached { start: usize, end: usize },
    /// Partials: keys, slice end, (for attached windows) window start, accumulators.
    Partials { attached: bool },
}

pub(crate) struct WindowAggregate {
    node: Arc<WindowAggregateNode>,
    input: Input,
    store: WindowStore,
    persistence: Option<WindowPersistence>,
    clock: Option<Arc<dyn Clock>>,
    /// The latest processing time seen.
    now: i64,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
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
        let input = match &node.window {
            WindowSource::Time {
                domain: TimeDomain::Processing,
                ..
            } => Input::Clock,
            WindowSource::Time { column, .. } => Input::Time { column: *column },
            WindowSource::Attached { start, end, .. } => Input::Attached {
                start: *start,
                end: *end,
            },
        };
        Self::new(node, schema, input)
    }

    /// Over partials.
    pub(crate) fn global(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let attached = match &node.window {
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
        Self::new(node, schema, Input::Partials { attached })
    }

    fn new(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
        input: Input,
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
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
            node,
        })
    }

    fn assign(&mut self, rows: &RecordBatch) -> Result<Vec<SliceRows<SliceKey>>, OperatorError> {
        let ending = |parts: Vec<SliceRows<i64>>| {
            parts
                .into_iter()
                .map(|(end, rows)| (SliceKey::ending(end), rows))
                .collect()
        };
        match (&self.input, &self.store.windows) {
            (Input::Time { column }, Windows::Sliced(slicing)) => Ok(ending(
                slice_assignment::by_time(slicing, &mut self.store.time, rows.column(*column))?,
            )),
            (Input::Clock, Windows::Sliced(slicing)) => {
                if let Some(clock) = &self.clock {
                    // A clock that stands behind the former machine's must not reopen windows.
                    let closed = self.store.watermark;
                    self.now = self.now.max(clock.now_ms()).max(closed.saturating_add(1));
                }
                let local = self.store.time.local_of(self.now);
                Ok(vec![(SliceKey::ending(slicing.slice_end(local)), None)])
            }
            (Input::Attached { start, end }, _) => {
                by_window(rows.column(*end), Some(rows.column(*start)))
            }
            (Input::Partials { attached }, _) => {
                let end = self.node.keys.len();
                by_window(rows.column(end), attached.then(|| rows.column(end + 1)))
            }
            _ => Err(OperatorError::Internal("a window without its shape".into())),
        }
    }

    fn add(
        &mut self,
        key: SliceKey,
        rows: &RecordBatch,
        positions: Option<&[u32]>,
    ) -> Result<(), OperatorError> {
        let partials = match self.input {
            Input::Partials { attached } => Some(self.node.keys.len() + 1 + usize::from(attached)),
            _ => None,
        };
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
        let slice = self.store.slice(key)?;
        self.created.clear();
        slice
            .keys
            .intern(&keys, count, &mut self.groups, &mut self.created);
        slice.resize();
        match partials {
            Some(first) => {
                let partials = rows.columns()[first..]
                    .iter()
                    .map(selected)
                    .collect::<Result<Vec<_>, _>>()?;
                slice.set.merge(&partials, &self.groups)?;
            }
            None => slice.set.update(
                rows.columns(),
                Rows {
                    positions,
                    groups: &self.groups,
                    retract: None,
                },
                &mut self.scratch,
            )?,
        }
        slice.mark_dirty(&self.groups);
        Ok(())
    }

    fn note_late(&mut self, rows: &RecordBatch, positions: Option<Vec<u32>>) {
        let positions = positions.unwrap_or_else(|| (0..rows.num_rows() as u32).collect());
        let mut count = positions.len() as u64;
        // A partial stands for many rows; how many is known if they are counted anyway.
        if let (Input::Partials { attached }, Some(call)) =
            (&self.input, self.store.plan().row_count())
        {
            let first = self.node.keys.len() + 1 + usize::from(*attached);
            if let Some(column) = self.store.plan().partial_column(call, first)
                && column < rows.num_columns()
            {
                let counts = int_values(rows.column(column).as_ref());
                count = positions
                    .iter()
                    .map(|row| counts[*row as usize] as u64)
                    .sum();
            }
        }
        note_late(&mut self.store.late, rows, &positions, count);
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

    fn process(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<(), OperatorError> {
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
        let is_end = watermark == i64::MAX;
        if !matches!(self.input, Input::Clock) {
            // Sources may begin behind what was restored here; what fired stays fired.
            self.store.watermark = self.store.watermark.max(watermark);
            self.store.fire(watermark, out)?;
        } else if is_end {
            self.store.fire(watermark, out)?;
        }
        out.watermark(watermark);
        Ok(())
    }

    fn next_tick(&self) -> Option<i64> {
        match self.input {
            Input::Clock => Some(self.store.next_trigger()?.saturating_add(1)),
            _ => None,
        }
    }

    fn tick(&mut self, now_ms: i64, out: &mut Output) -> Result<(), OperatorError> {
        if matches!(self.input, Input::Clock) {
            self.now = self.now.max(now_ms);
            let closed = self.now.saturating_sub(1);
            // Kept over a restore: slices that later windows share must not fire earlier ones again.
            self.store.watermark = self.store.watermark.max(closed);
            self.store.fire(closed, out)?;
        }
        Ok(())
    }

    fn snapshot(
        &mut self,
        _: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        match &mut self.persistence {
            Some(persistence) => persistence.snapshot(&mut self.store, snapshot),
            None => Err(OperatorError::Internal("a snapshot before open".into())),
        }
    }

    fn state_size(&self) -> StateSize {
        self.store.state_size()
    }

    fn late_rows(&self) -> LateRows {
        self.store.late.clone()
    }
}
