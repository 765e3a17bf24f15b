//! Pre-aggregates rows per slice and key before the exchange, into partials.
//!
//! Keeps nothing over a barrier and drops nothing: whether a slice is late is for the global
//! aggregate to say. So that it judges rows by the watermark of their arrival, everything is
//! flushed before a watermark at which any window could fire. It is also flushed when it is much,
//! in groups or in bytes: few groups can hold many distinct or collected values.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, UInt32Array},
    compute::take,
    datatypes::SchemaRef,
};
use millrace_dataflow::{TimeDomain, WindowAggregateNode, WindowSource};
use millrace_types::CheckpointId;

use super::{
    columns::batch_of,
    slice_assignment::{self, check_times},
    window_aggregate::{key_types, windows_of},
    window_store::{SliceKey, Windows},
    window_time::WindowTime,
};
use crate::{
    Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output, StateSize,
    aggregate::{AggregatePlan, AggregateSet, Rows, UpdateScratch},
    batch::MAX_BATCH_ROWS,
    key_table::{KeyTable, int_array, int_values},
};

/// Most groups held over all slices.
const MAX_GROUPS: usize = 1 << 16;
/// Most bytes held over all slices after a batch.
const MAX_BYTES: usize = 8 << 20;
/// Zone offsets are multiples of this, so local window ends are on this grid in event time too.
const ZONE_GRID_MS: i64 = 15 * 60 * 1000;

pub(crate) struct LocalWindowAggregate {
    node: Arc<WindowAggregateNode>,
    schema: SchemaRef,
    windows: Windows,
    time: WindowTime,
    plan: Arc<AggregatePlan>,
    template: KeyTable,
    slices: BTreeMap<SliceKey, (KeyTable, AggregateSet)>,
    groups_held: usize,
    bytes_held: usize,
    watermark: i64,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
}

impl LocalWindowAggregate {
    pub(crate) fn new(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let (windows, time, domain) = windows_of(&node.window)?;
        if domain == Some(TimeDomain::Processing) {
            return Err(OperatorError::Internal(
                "a two-phase aggregate over processing time".into(),
            ));
        }
        Ok(LocalWindowAggregate {
            schema,
            windows,
            time,
            plan: AggregatePlan::new(&node.aggregates, &node.raw_input, false, 0)?,
            template: KeyTable::new(key_types(&node.raw_input, &node.keys))?,
            slices: BTreeMap::new(),
            groups_held: 0,
            bytes_held: 0,
            watermark: i64::MIN,
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
            node,
        })
    }

    /// Whether a window could fire between the last watermark and this one.
    fn crosses(&self, watermark: i64) -> bool {
        if watermark == i64::MAX || self.watermark == i64::MIN {
            return true;
        }
        match &self.windows {
            Windows::Attached => self
                .slices
                .keys()
                .next()
                .is_some_and(|first| self.time.trigger(first.end) <= watermark),
            Windows::Sliced(slicing) => {
                let grid = if self.time.is_shifted() {
                    gcd(slicing.grain(), ZONE_GRID_MS)
                } else {
                    slicing.grain()
                };
                let cell = |time: i64| {
                    time.saturating_add(1)
                        .saturating_sub(slicing.offset())
                        .div_euclid(grid)
                };
                cell(self.watermark) != cell(watermark)
            }
        }
    }

    fn flush(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        self.groups_held = 0;
        self.bytes_held = 0;
        for (key, (table, set)) in std::mem::take(&mut self.slices) {
            let groups: Vec<u32> = (0..table.group_bound() as u32).collect();
            for groups in groups.chunks(MAX_BATCH_ROWS) {
                let mut columns = table.columns(groups)?;
                let constants: &[i64] = match self.windows {
                    Windows::Sliced(_) => &[key.end],
                    Windows::Attached => &[key.end, key.start],
                };
                for value in constants {
                    let field = self.schema.fields().get(columns.len()).ok_or_else(|| {
                        OperatorError::Internal("a local aggregate without its slice end".into())
                    })?;
                    columns.push(int_array(
                        field.data_type(),
                        vec![*value; groups.len()],
                        None,
                    ));
                }
                columns.extend(set.partials(groups)?);
                out.emit(Batch::inserts(batch_of(
                    &self.schema,
                    columns,
                    groups.len(),
                )?));
            }
        }
        Ok(())
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Operator for LocalWindowAggregate {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        let rows = batch.rows;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let parts: Vec<(SliceKey, Option<Vec<u32>>)> = match (&self.node.window, &self.windows) {
            (WindowSource::Time { column, .. }, Windows::Sliced(slicing)) => {
                slice_assignment::by_time(slicing, &mut self.time, rows.column(*column))?
                    .into_iter()
                    .map(|(end, positions)| (SliceKey::ending(end), positions))
                    .collect()
            }
            (WindowSource::Attached { start, end, .. }, _) => {
                let (start, end) = (rows.column(*start), rows.column(*end));
                check_times(end, "window_end")?;
                check_times(start, "window_start")?;
                let (starts, ends) = (int_values(start.as_ref()), int_values(end.as_ref()));
                slice_assignment::split(ends.iter().zip(starts.iter()).map(|(end, start)| {
                    SliceKey {
                        end: *end,
                        start: *start,
                    }
                }))
            }
            _ => return Err(OperatorError::Internal("a window without its shape".into())),
        };
        for (key, positions) in parts {
            if !self.slices.contains_key(&key) {
                let made = (self.template.like(), self.plan.set()?);
                self.slices.insert(key, made);
            }
            let Some((table, set)) = self.slices.get_mut(&key) else {
                continue;
            };
            let indices = positions
                .as_ref()
                .map(|positions| UInt32Array::from(positions.clone()));
            let keys = self
                .node
                .keys
                .iter()
                .map(|column| match &indices {
                    Some(indices) => take(rows.column(*column), indices, None),
                    None => Ok(Arc::clone(rows.column(*column))),
                })
                .collect::<Result<Vec<ArrayRef>, _>>()?;
            let count = positions.as_ref().map_or(rows.num_rows(), Vec::len);
            let bytes_before = table.bytes() + set.bytes();
            self.created.clear();
            table.intern(&keys, count, &mut self.groups, &mut self.created);
            self.groups_held += self.created.len();
            set.resize(table.group_bound());
            let rows_of_slice = Rows {
                positions: positions.as_deref(),
                groups: &self.groups,
                retract: None,
            };
            set.update(rows.columns(), rows_of_slice, &mut self.scratch)?;
            self.bytes_held =
                (self.bytes_held + table.bytes() + set.bytes()).saturating_sub(bytes_before);
        }
        if self.groups_held >= MAX_GROUPS || self.bytes_held >= MAX_BYTES {
            self.flush(out)?;
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: i64, out: &mut Output) -> Result<(), OperatorError> {
        if !self.slices.is_empty() && self.crosses(watermark) {
            self.flush(out)?;
        }
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }

    fn before_barrier(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        self.flush(out)
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }

    fn end(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        self.flush(out)
    }

    fn relievable_bytes(&self) -> u64 {
        0
    }

    fn state_size(&self) -> StateSize {
        StateSize {
            entries: self.groups_held as u64,
            bytes: self.bytes_held as u64,
        }
    }
}
