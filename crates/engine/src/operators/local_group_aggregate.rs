//! Pre-aggregates each batch into partials before the exchange. Keeps nothing between batches.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array},
    datatypes::SchemaRef,
};
use millrace_dataflow::{ChangelogMode, GroupAggregateNode};
use millrace_types::CheckpointId;

use super::{columns::batch_of, window_aggregate::key_types};
use crate::{
    Batch, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    aggregate::{AggregatePlan, Rows, UpdateScratch},
    key_table::KeyTable,
};

pub(crate) struct LocalGroupAggregate {
    node: Arc<GroupAggregateNode>,
    schema: SchemaRef,
    plan: Arc<AggregatePlan>,
    template: KeyTable,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
}

impl LocalGroupAggregate {
    pub(crate) fn new(
        node: Arc<GroupAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let retract = node.input_mode == ChangelogMode::Retract;
        let plan = AggregatePlan::new(&node.aggregates, &node.raw_input, retract, 0)?;
        if retract && !plan.merges_retractions() {
            return Err(OperatorError::Internal(
                "a two-phase aggregate that cannot take partials back".into(),
            ));
        }
        Ok(LocalGroupAggregate {
            template: KeyTable::new(key_types(&node.raw_input, &node.keys))?,
            node,
            schema,
            plan,
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
        })
    }
}

impl Operator for LocalGroupAggregate {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        if batch.is_empty() {
            return Ok(());
        }
        let columns = batch.rows.columns();
        let keys: Vec<ArrayRef> = self
            .node
            .keys
            .iter()
            .map(|column| Arc::clone(&columns[*column]))
            .collect();
        let (mut table, mut set) = (self.template.like(), self.plan.set()?);
        self.created.clear();
        table.intern(&keys, batch.len(), &mut self.groups, &mut self.created);
        set.resize(table.group_bound());
        let retract: Option<Vec<bool>> = batch
            .kinds
            .as_ref()
            .map(|kinds| kinds.iter().map(|kind| !kind.is_addition()).collect());
        let rows = Rows {
            positions: None,
            groups: &self.groups,
            retract: retract.as_deref(),
        };
        set.update(columns, rows, &mut self.scratch)?;
        let groups: Vec<u32> = (0..table.group_bound() as u32).collect();
        let mut output = table.columns(&groups)?;
        output.extend(set.partials(&groups)?);
        if output.len() < self.schema.fields().len() {
            let mut counts = vec![0i64; groups.len()];
            rows.each(|group, _, retract| counts[group] += if retract { -1 } else { 1 });
            output.push(Arc::new(Int64Array::from(counts)));
        }
        out.emit(Batch::inserts(batch_of(
            &self.schema,
            output,
            groups.len(),
        )?));
        Ok(())
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
    }
}
