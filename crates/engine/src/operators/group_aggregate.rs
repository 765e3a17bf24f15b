//! Aggregates per key for ever, emitting how each result changes: the single-phase form over raw
//! rows and the global form over the partials of `local_group_aggregate`. Without aggregate
//! calls it is `SELECT DISTINCT`.
//!
//! A group's first result is `+I`; later ones are `-U`/`+U` pairs, and only if the result
//! differs; when the last row of a group is taken back its result goes with `-D`, also for the
//! one group of an aggregate without keys, as in Flink. Retractions of rows that a group never had (after
//! their state expired) are ignored. One change per key and batch, or per row if so asked.

use std::sync::Arc;

use arrow::{
    array::ArrayRef,
    datatypes::{Schema, SchemaRef},
};
use hashbrown::HashSet;
use millrace_dataflow::{ChangelogMode, GroupAggregateNode};
use millrace_state::Delta;
use millrace_types::CheckpointId;

use super::{
    group_changes::{Before, emit_inserts},
    group_state::GroupState,
    window_aggregate::key_types,
};
use crate::{
    Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output, StateSize,
    aggregate::{AggregatePlan, Rows, UpdateScratch},
    key_table::{KeyTable, int_values},
};

/// Name of the column of a local aggregate's output that counts rows (additions less retractions).
pub const ROW_COUNT_COLUMN: &str = "$rows";

#[derive(Debug, Clone, Copy)]
enum Input {
    Raw,
    /// Keys, partials, and how many rows they stand for if that is counted.
    Partials {
        row_count: Option<usize>,
    },
}

pub(crate) struct GroupAggregate {
    node: Arc<GroupAggregateNode>,
    schema: SchemaRef,
    input: Input,
    key_columns: Vec<usize>,
    state: GroupState,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    touched: Vec<u32>,
}

impl GroupAggregate {
    /// Over raw rows.
    pub(crate) fn single(
        node: Arc<GroupAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let keys = node.keys.clone();
        Self::new(node, schema, keys, |_| Ok(Input::Raw))
    }

    /// Over partials of this schema.
    pub(crate) fn global(
        node: Arc<GroupAggregateNode>,
        schema: SchemaRef,
        input: &Schema,
    ) -> Result<Self, OperatorError> {
        let keys = (0..node.keys.len()).collect();
        let retract = node.input_mode == ChangelogMode::Retract;
        let key_count = node.keys.len();
        Self::new(node, schema, keys, |plan| {
            if retract && !plan.merges_retractions() {
                return Err(OperatorError::Internal(
                    "a two-phase aggregate that cannot take partials back".into(),
                ));
            }
            let column = input.index_of(ROW_COUNT_COLUMN).ok();
            let row_count = column.or_else(|| plan.partial_column(plan.row_count()?, key_count));
            if retract && row_count.is_none() {
                return Err(OperatorError::Internal(
                    "a two-phase aggregate over a changelog without a row count".into(),
                ));
            }
            Ok(Input::Partials { row_count })
        })
    }

    fn new(
        node: Arc<GroupAggregateNode>,
        schema: SchemaRef,
        key_columns: Vec<usize>,
        input: impl FnOnce(&AggregatePlan) -> Result<Input, OperatorError>,
    ) -> Result<Self, OperatorError> {
        let retract = node.input_mode == ChangelogMode::Retract;
        let plan = AggregatePlan::new(&node.aggregates, &node.raw_input, retract, node.ttl_ms)?;
        let keys = KeyTable::new(key_types(&node.raw_input, &node.keys))?;
        Ok(GroupAggregate {
            input: input(&plan)?,
            state: GroupState::new(Arc::clone(&node), keys, &plan)?,
            key_columns,
            schema,
            node,
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            touched: Vec::new(),
        })
    }

    fn process_batch(&mut self, batch: &Batch, out: &mut Output) -> Result<(), OperatorError> {
        let now = self.state.now();
        let columns = batch.rows.columns();
        let keys: Vec<ArrayRef> = self
            .key_columns
            .iter()
            .map(|column| Arc::clone(&columns[*column]))
            .collect();
        self.state
            .intern(&keys, batch.len(), now, &mut self.groups, &mut self.touched)?;
        if self.is_plain_distinct(batch) {
            return self.process_distinct(now, out);
        }
        let before = Before::read(&self.state, &self.touched)?;
        match self.input {
            Input::Raw => self.update(columns, batch)?,
            Input::Partials { row_count } => self.merge(columns, row_count)?,
        }
        before.emit_changes(
            &self.state,
            &self.touched,
            &self.schema,
            self.node.ttl_ms > 0,
            out,
        )?;
        self.state.mark_dirty(&self.touched, now);
        for group in &self.touched {
            if self.state.rows(*group) <= 0 {
                self.state.clear(*group);
            }
        }
        self.state.sweep(now);
        Ok(())
    }

    fn is_plain_distinct(&self, batch: &Batch) -> bool {
        self.node.aggregates.is_empty()
            && batch.kinds.is_none()
            && self.node.ttl_ms == 0
            && self.node.input_mode == ChangelogMode::Append
    }

    /// `SELECT DISTINCT` over appended rows: only keys never seen matter.
    fn process_distinct(&mut self, now: i64, out: &mut Output) -> Result<(), OperatorError> {
        let new = self.state.take_new();
        for group in &new {
            self.state.add_rows(*group, 1);
        }
        self.state.mark_dirty(&new, now);
        emit_inserts(&self.state, &new, Vec::new(), &self.schema, out)
    }

    fn update(&mut self, columns: &[ArrayRef], batch: &Batch) -> Result<(), OperatorError> {
        let all = Rows::all(&self.groups);
        let Some(kinds) = &batch.kinds else {
            for group in &self.groups {
                self.state.add_rows(*group, 1);
            }
            self.state.load_values(columns, all)?;
            return self.state.set.update(columns, all, &mut self.scratch);
        };
        let mut kept = Vec::with_capacity(kinds.len());
        let mut retract = Vec::with_capacity(kinds.len());
        let mut groups = Vec::with_capacity(kinds.len());
        for (position, (group, kind)) in self.groups.iter().zip(kinds.iter()).enumerate() {
            let adds = kind.is_addition();
            if !adds && self.state.rows(*group) <= 0 {
                continue;
            }
            self.state.add_rows(*group, if adds { 1 } else { -1 });
            kept.push(position as u32);
            retract.push(!adds);
            groups.push(*group);
        }
        let rows = Rows {
            positions: Some(&kept),
            groups: &groups,
            retract: Some(&retract),
        };
        self.state.load_values(columns, rows)?;
        self.state.set.update(columns, rows, &mut self.scratch)
    }

    fn merge(
        &mut self,
        columns: &[ArrayRef],
        row_count: Option<usize>,
    ) -> Result<(), OperatorError> {
        match row_count {
            Some(column) => {
                let counts = int_values(columns[column].as_ref());
                for (group, count) in self.groups.iter().zip(counts.iter()) {
                    self.state.add_rows(*group, *count);
                }
            }
            None => {
                for group in &self.groups {
                    self.state.add_rows(*group, 1);
                }
            }
        }
        let partials = &columns[self.node.keys.len()..];
        self.state.load_merged_values(partials, &self.groups)?;
        self.state.set.merge(partials, &self.groups)
    }

    /// Cuts a batch where a key comes again, so that every row makes its own change.
    fn runs(&self, batch: &Batch) -> Result<Vec<Batch>, OperatorError> {
        let mut table = self.state.keys.like();
        let keys: Vec<ArrayRef> = self
            .key_columns
            .iter()
            .map(|column| Arc::clone(batch.rows.column(*column)))
            .collect();
        let (mut groups, mut created) = (Vec::new(), Vec::new());
        table.intern(&keys, batch.len(), &mut groups, &mut created);
        let mut runs = Vec::new();
        let mut seen = HashSet::new();
        let mut start = 0;
        for (row, group) in groups.iter().enumerate() {
            if !seen.insert(*group) {
                runs.push(batch.slice(start, row - start));
                start = row;
                seen.clear();
                seen.insert(*group);
            }
        }
        runs.push(batch.slice(start, batch.len() - start));
        Ok(runs)
    }
}

impl Operator for GroupAggregate {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        self.state.open(context)
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.node.per_row && matches!(self.input, Input::Raw) {
            for run in self.runs(&batch)? {
                self.process_batch(&run, out)?;
            }
            return Ok(());
        }
        self.process_batch(&batch, out)
    }

    fn relieve(&mut self, bytes: u64, deltas: &mut Vec<Delta>) -> Result<(), OperatorError> {
        self.state.relieve(bytes, deltas);
        Ok(())
    }

    fn snapshot(
        &mut self,
        _: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        self.state.snapshot(snapshot)
    }

    fn state_size(&self) -> StateSize {
        self.state.state_size()
    }
}
