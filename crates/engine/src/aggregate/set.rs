//! The accumulators of all calls of a node over one set of groups.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray},
    buffer::BooleanBuffer,
};

use super::{
    Accumulator, AggregatePlan, Rows,
    accumulator::damaged,
    codec,
    notes::NOWHERE,
    plan::ValueSetPlan,
    value_set::{Passed, RowCalls, ValueEntry, ValueSets, value_sets},
};
use crate::OperatorError;

/// Memory that `update` reuses from batch to batch.
#[derive(Debug, Default)]
pub struct UpdateScratch {
    filtered: Vec<Filtered>,
    masks: Vec<u32>,
}

/// The rows for which a filter holds.
#[derive(Debug, Default)]
struct Filtered {
    /// By position in the batch; null is false.
    holds: Option<BooleanBuffer>,
    positions: Vec<u32>,
    groups: Vec<u32>,
    retract: Vec<bool>,
}

/// A value that a batch brings and that may be in the state table only.
#[derive(Debug)]
pub struct MissingValue {
    /// Position of the value set in the plan.
    pub set: usize,
    pub group: u32,
    /// Canonical encoding.
    pub value: Vec<u8>,
}

/// The accumulators of all calls.
pub struct AggregateSet {
    plan: Arc<AggregatePlan>,
    /// By call; for `DISTINCT` calls those behind the value set.
    accumulators: Vec<Box<dyn Accumulator>>,
    value_sets: Vec<Box<dyn ValueSets>>,
    passed: Vec<Passed>,
    groups: usize,
}

impl AggregateSet {
    pub(super) fn new(plan: Arc<AggregatePlan>) -> Result<Self, OperatorError> {
        let accumulators = plan.calls.iter().map(|call| call.accumulator());
        Ok(AggregateSet {
            accumulators: accumulators.collect::<Result<_, _>>()?,
            value_sets: plan
                .value_sets
                .iter()
                .map(|set| value_sets(&set.options))
                .collect(),
            passed: Vec::new(),
            plan,
            groups: 0,
        })
    }

    pub fn plan(&self) -> &Arc<AggregatePlan> {
        &self.plan
    }

    /// Makes room for groups `0..groups`.
    pub fn resize(&mut self, groups: usize) {
        if groups > self.groups {
            for accumulator in &mut self.accumulators {
                accumulator.resize(groups);
            }
            for set in &mut self.value_sets {
                set.resize(groups);
            }
            self.groups = groups;
        }
    }

    /// Takes raw rows of a batch with these columns.
    pub fn update(
        &mut self,
        columns: &[ArrayRef],
        rows: Rows<'_>,
        scratch: &mut UpdateScratch,
    ) -> Result<(), OperatorError> {
        let filters = self.plan.filters.len();
        scratch.filtered.resize_with(filters, Filtered::default);
        for (column, filtered) in self.plan.filters.iter().zip(&mut scratch.filtered) {
            filtered.fill(&columns[*column], rows);
        }
        for (call, accumulator) in self.plan.calls.iter().zip(&mut self.accumulators) {
            if !call.distinct {
                let values = call.argument.map(|column| &columns[column]);
                accumulator.update(values, scratch.rows(call.filter, rows))?;
            }
        }
        let plan = Arc::clone(&self.plan);
        for (number, set) in plan.value_sets.iter().enumerate() {
            let calls = scratch.row_calls(&plan, set, rows);
            self.pass(number, set, &columns[set.argument], rows, calls)?;
        }
        Ok(())
    }

    /// Sends rows through a value set and what comes out to the accumulators behind it.
    fn pass(
        &mut self,
        number: usize,
        set: &ValueSetPlan,
        column: &ArrayRef,
        rows: Rows<'_>,
        calls: RowCalls<'_>,
    ) -> Result<(), OperatorError> {
        self.passed
            .resize_with(self.passed.len().max(set.calls.len()), Passed::default);
        for passed in &mut self.passed {
            passed.positions.clear();
            passed.groups.clear();
            passed.retract.clear();
        }
        self.value_sets[number].pass(column, rows, calls, &mut self.passed)?;
        for (call, passed) in set.calls.iter().zip(&self.passed) {
            if !passed.groups.is_empty() {
                let rows = Rows {
                    positions: Some(&passed.positions),
                    groups: &passed.groups,
                    retract: set.options.counting.then_some(&passed.retract[..]),
                };
                self.accumulators[*call].update(Some(column), rows)?;
            }
        }
        Ok(())
    }

    /// Merges partial columns (of all calls, in order): row `i` into `groups[i]`.
    pub fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let plan = Arc::clone(&self.plan);
        let mut first = Vec::with_capacity(plan.calls.len());
        let mut rest = partials;
        for (call, accumulator) in plan.calls.iter().zip(&mut self.accumulators) {
            first.push(partials.len() - rest.len());
            let (own, others) = rest
                .split_at_checked(call.partial_width(accumulator.as_ref()))
                .ok_or_else(|| OperatorError::Internal("too few partial columns".into()))?;
            if !call.distinct {
                accumulator.merge(own, groups)?;
            }
            rest = others;
        }
        for (number, set) in plan.value_sets.iter().enumerate() {
            for (bit, call) in set.calls.iter().enumerate() {
                let list = partials[first[*call]].as_list::<i32>();
                let (positions, of) = flatten(list, groups);
                let rows = Rows {
                    positions: Some(&positions),
                    groups: &of,
                    retract: None,
                };
                self.pass(number, set, list.values(), rows, RowCalls::All(1 << bit))?;
            }
        }
        Ok(())
    }

    /// Merges groups of another set of the same plan: `from[i]` there into `to[i]` here.
    pub fn merge_from(
        &mut self,
        other: &AggregateSet,
        from: &[u32],
        to: &[u32],
    ) -> Result<(), OperatorError> {
        if !self.value_sets.is_empty() {
            return self.merge(&other.partials(from)?, to);
        }
        for (accumulator, other) in self.accumulators.iter_mut().zip(&other.accumulators) {
            accumulator.merge_from(other.as_ref(), from, to)?;
        }
        Ok(())
    }

    /// Merges group `from` of this set into group `to`.
    pub fn merge_within(&mut self, from: u32, to: u32) -> Result<(), OperatorError> {
        let partials = self.partials(&[from])?;
        self.merge(&partials, &[to])
    }

    /// The partial columns of all calls.
    pub fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let mut columns = Vec::new();
        for (position, call) in self.plan.calls.iter().enumerate() {
            let set = self
                .plan
                .value_sets
                .iter()
                .enumerate()
                .find_map(|(i, set)| {
                    let bit = set.calls.iter().position(|other| *other == position)?;
                    Some((i, bit, set))
                });
            match set {
                Some((number, bit, set)) if call.distinct && !set.inner_keeps_values => {
                    columns.push(self.value_sets[number].lists(bit, groups)?);
                }
                _ => columns.extend(self.accumulators[position].partials(groups)?),
            }
        }
        Ok(columns)
    }

    /// The result columns, one per call.
    pub fn emit(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        self.accumulators
            .iter()
            .map(|accumulator| accumulator.emit(groups))
            .collect()
    }

    /// Makes the group empty.
    pub fn clear(&mut self, group: u32) {
        for accumulator in &mut self.accumulators {
            accumulator.clear(group);
        }
        for set in &mut self.value_sets {
            set.clear(group);
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        let accumulators = self
            .accumulators
            .iter()
            .map(|accumulator| accumulator.bytes());
        let sets = self.value_sets.iter().map(|set| set.bytes());
        accumulators.chain(sets).sum()
    }

    /// Those of them that are freed when groups are cleared. The rest is columns, which groups to
    /// come use again.
    pub fn heap_bytes(&self) -> usize {
        let accumulators = self
            .accumulators
            .iter()
            .map(|accumulator| accumulator.heap_bytes());
        let sets = self.value_sets.iter().map(|set| set.heap_bytes());
        accumulators.chain(sets).sum()
    }

    /// Appends the group's persisted form: per call its length, then its bytes. Values of value
    /// sets are not part of it.
    pub fn encode(&self, group: u32, out: &mut Vec<u8>) {
        for accumulator in &self.accumulators {
            // One byte for the length is nearly always enough; longer ones are moved.
            let start = out.len();
            out.push(0);
            accumulator.encode(group, out);
            let length = out.len() - start - 1;
            if length < 0x80 {
                out[start] = length as u8;
            } else {
                let bytes = out.split_off(start + 1);
                out.truncate(start);
                codec::put_bytes(out, &bytes);
            }
        }
    }

    /// Reads a group back. `order[i]` is the call that the `i`-th persisted part belongs to now,
    /// `None` for one that is no more. Calls without a part stay empty.
    pub fn decode(
        &mut self,
        group: u32,
        order: &[Option<usize>],
        mut bytes: &[u8],
    ) -> Result<(), OperatorError> {
        for call in order {
            let part = codec::take_bytes(&mut bytes).ok_or_else(|| damaged("an aggregate"))?;
            if let Some(call) = call {
                self.accumulators[*call].decode(group, part)?;
            }
        }
        Ok(())
    }

    /// From now on keep track of what changes in the value sets.
    pub fn track_values(&mut self) {
        for set in &mut self.value_sets {
            set.track();
        }
    }

    /// The present time (epoch ms), for value sets under a TTL.
    pub fn set_time(&mut self, now_ms: i64) {
        for set in &mut self.value_sets {
            set.set_time(now_ms);
        }
    }

    /// Forgets some of the distinct values that have outlived the TTL.
    pub fn sweep_values(&mut self) {
        for set in &mut self.value_sets {
            set.sweep();
        }
    }

    /// Visits what changed in the value sets since the last call, each value once: group by
    /// group in the order that `rank` puts them in, then set by set, by value. Counts are by
    /// position of the call among those of the set.
    pub fn take_value_changes(
        &mut self,
        rank: impl FnOnce(&mut Vec<u32>),
        visit: &mut dyn FnMut(usize, ValueEntry<'_>),
    ) {
        let mut place = vec![NOWHERE; self.groups];
        let mut groups = Vec::new();
        for set in &self.value_sets {
            set.changed_groups(&mut place, &mut groups);
        }
        if groups.is_empty() {
            return;
        }
        rank(&mut groups);
        for (position, group) in groups.iter().enumerate() {
            place[*group as usize] = position as u32;
        }
        for set in &mut self.value_sets {
            set.arrange_changes(&place, groups.len());
        }
        for (position, group) in groups.iter().enumerate() {
            for (number, set) in self.value_sets.iter_mut().enumerate() {
                set.visit_changes(position, *group, &mut |entry| visit(number, entry));
            }
        }
        for set in &mut self.value_sets {
            set.changes_done();
        }
    }

    /// Number of changes that wait to be taken, repeated ones counted each time.
    pub fn noted_values(&self) -> usize {
        self.value_sets.iter().map(|set| set.noted()).sum()
    }

    /// Visits all values of a group.
    pub fn each_value(&self, set: usize, group: u32, visit: &mut dyn FnMut(ValueEntry<'_>)) {
        self.value_sets[set].each(group, visit);
    }

    /// Puts a persisted value back.
    pub fn load_value(&mut self, set: usize, entry: ValueEntry<'_>) -> Result<(), OperatorError> {
        self.value_sets[set].load(entry)
    }

    /// The values that the rows bring for groups marked in `is_partial` and that are not in memory.
    pub fn missing_values(
        &self,
        columns: &[ArrayRef],
        rows: Rows<'_>,
        is_partial: &[bool],
    ) -> Result<Vec<MissingValue>, OperatorError> {
        let mut missing = Vec::new();
        for (number, set) in self.plan.value_sets.iter().enumerate() {
            let of_set =
                self.value_sets[number].missing(&columns[set.argument], rows, is_partial)?;
            missing.extend(of_set.into_iter().map(|(group, value)| MissingValue {
                set: number,
                group,
                value,
            }));
        }
        Ok(missing)
    }

    /// Like [`AggregateSet::missing_values`], for partials.
    pub fn missing_in_partials(
        &self,
        partials: &[ArrayRef],
        groups: &[u32],
        is_partial: &[bool],
    ) -> Result<Vec<MissingValue>, OperatorError> {
        let mut missing = Vec::new();
        let mut column = 0;
        for (position, call) in self.plan.calls.iter().enumerate() {
            for (number, set) in self.plan.value_sets.iter().enumerate() {
                if !set.calls.contains(&position) {
                    continue;
                }
                let list = partials[column].as_list::<i32>();
                let (positions, of) = flatten(list, groups);
                let rows = Rows {
                    positions: Some(&positions),
                    groups: &of,
                    retract: None,
                };
                let of_call = self.value_sets[number].missing(list.values(), rows, is_partial)?;
                missing.extend(of_call.into_iter().map(|(group, value)| MissingValue {
                    set: number,
                    group,
                    value,
                }));
            }
            column += call.partial_width(self.accumulators[position].as_ref());
        }
        Ok(missing)
    }
}

/// Positions of the elements of all lists, and the group each goes to.
fn flatten(list: &ListArray, groups: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut positions, mut of) = (Vec::new(), Vec::new());
    for (row, group) in groups.iter().enumerate() {
        if list.is_valid(row) {
            let range = list.offsets()[row] as u32..list.offsets()[row + 1] as u32;
            of.resize(of.len() + range.len(), *group);
            positions.extend(range);
        }
    }
    (positions, of)
}

impl UpdateScratch {
    fn rows<'a>(&'a self, filter: Option<usize>, all: Rows<'a>) -> Rows<'a> {
        match filter {
            None => all,
            Some(filter) => {
                let filtered = &self.filtered[filter];
                Rows {
                    positions: Some(&filtered.positions),
                    groups: &filtered.groups,
                    retract: all.retract.map(|_| &filtered.retract[..]),
                }
            }
        }
    }

    /// For which of the set's calls every row counts.
    fn row_calls(
        &mut self,
        plan: &AggregatePlan,
        set: &ValueSetPlan,
        rows: Rows<'_>,
    ) -> RowCalls<'_> {
        let mut unfiltered = 0;
        let mut filtered = Vec::new();
        for (bit, call) in set.calls.iter().enumerate() {
            match plan.calls[*call].filter {
                None => unfiltered |= 1 << bit,
                Some(filter) => filtered.push((bit, filter)),
            }
        }
        if filtered.is_empty() {
            return RowCalls::All(unfiltered);
        }
        self.masks.clear();
        self.masks.resize(rows.groups.len(), unfiltered);
        for (bit, filter) in filtered {
            let filtered = &self.filtered[filter];
            match (&filtered.holds, rows.positions) {
                (Some(holds), Some(positions)) => {
                    for (mask, position) in self.masks.iter_mut().zip(positions) {
                        *mask |= u32::from(holds.value(*position as usize)) << bit;
                    }
                }
                _ => {
                    for position in &filtered.positions {
                        self.masks[*position as usize] |= 1 << bit;
                    }
                }
            }
        }
        RowCalls::Each(&self.masks)
    }
}

impl Filtered {
    fn fill(&mut self, column: &ArrayRef, rows: Rows<'_>) {
        self.positions.clear();
        self.groups.clear();
        self.retract.clear();
        let column = column.as_boolean();
        let holds = match column.nulls() {
            Some(nulls) => column.values() & nulls.inner(),
            None => column.values().clone(),
        };
        if let (None, None) = (rows.positions, rows.retract) {
            for position in holds.set_indices() {
                self.positions.push(position as u32);
                self.groups.push(rows.groups[position]);
            }
        } else {
            rows.each(|group, position, retract| {
                if holds.value(position) {
                    self.positions.push(position as u32);
                    self.groups.push(group as u32);
                    if rows.retract.is_some() {
                        self.retract.push(retract);
                    }
                }
            });
        }
        self.holds = Some(holds);
    }
}
