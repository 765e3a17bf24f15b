//! The calls of one aggregate node, and their accumulators over one set of groups.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field, Schema},
};
use millrace_dataflow::{AggregateCall, AggregateKind};

use super::{
    Accumulator, Rows,
    accumulator::damaged,
    average::Average,
    codec,
    collect::{Collect, Shape},
    count::Count,
    distinct::{DistinctOptions, distinct, flatten},
    extreme::{Extreme, First, Last, Max, Min},
    extreme_bytes::ExtremeBytes,
    multiset::Multiset,
    sum::Sum,
    variance::Variance,
};
use crate::{OperatorError, key_table::is_int_like};

/// What is the same for all sets of a node.
#[derive(Debug)]
pub struct AggregatePlan {
    calls: Vec<Call>,
    /// Distinct filter columns, each evaluated once per batch.
    filters: Vec<usize>,
}

#[derive(Debug)]
struct Call {
    kind: AggregateKind,
    argument: Option<usize>,
    input: DataType,
    distinct: bool,
    /// Position in `AggregatePlan::filters`.
    filter: Option<usize>,
    output: Field,
    retract: bool,
    ttl_ms: u64,
    meaning: String,
}

impl AggregatePlan {
    /// Plans the calls over columns of `input`. `retract`: rows can be taken back. `ttl_ms`:
    /// how long a distinct value is kept without being seen, 0 for ever. Fails for types that a
    /// function does not take.
    pub fn new(
        calls: &[AggregateCall],
        input: &Schema,
        retract: bool,
        ttl_ms: u64,
    ) -> Result<Arc<Self>, OperatorError> {
        let mut plan = AggregatePlan {
            calls: Vec::new(),
            filters: Vec::new(),
        };
        for call in calls {
            let filter = call.filter.map(|column| {
                let known = plan.filters.iter().position(|other| *other == column);
                known.unwrap_or_else(|| {
                    plan.filters.push(column);
                    plan.filters.len() - 1
                })
            });
            let argument = call.args.first().copied();
            let call = Call {
                kind: call.kind.clone(),
                argument,
                input: argument.map_or(DataType::Null, |column| {
                    input.field(column).data_type().clone()
                }),
                distinct: call.distinct && argument.is_some(),
                filter,
                output: call.output.clone(),
                retract,
                ttl_ms,
                meaning: call.meaning.clone(),
            };
            call.accumulator()?;
            plan.calls.push(call);
        }
        Ok(Arc::new(plan))
    }

    /// Accumulators for no groups yet.
    pub fn set(self: &Arc<Self>) -> Result<AggregateSet, OperatorError> {
        Ok(AggregateSet {
            accumulators: self
                .calls
                .iter()
                .map(Call::accumulator)
                .collect::<Result<_, _>>()?,
            plan: Arc::clone(self),
            groups: 0,
        })
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// What each call means: the identity of its part of persisted state.
    pub fn meanings(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.meaning.as_str())
    }

    /// Whether any call keeps a value set that is persisted value by value.
    pub fn has_value_sets(&self) -> bool {
        self.calls.iter().any(|call| call.distinct)
    }

    /// Whether partials of changelog input can be merged: sums and counts only.
    pub fn merges_retractions(&self) -> bool {
        self.calls.iter().all(|call| {
            !call.distinct
                && matches!(
                    call.kind,
                    AggregateKind::CountStar
                        | AggregateKind::Count
                        | AggregateKind::Sum
                        | AggregateKind::Avg
                )
        })
    }

    /// The column of a call's first partial, if the first call's is at `first`.
    pub fn partial_column(&self, call: usize, first: usize) -> Option<usize> {
        let widths = self.calls[..call].iter().map(|call| {
            let accumulator = call.accumulator().ok()?;
            Some(accumulator.partial_width())
        });
        Some(first + widths.sum::<Option<usize>>()?)
    }

    /// The position of a `COUNT(*)` over all rows, if there is one.
    pub fn row_count(&self) -> Option<usize> {
        self.calls
            .iter()
            .position(|call| call.kind == AggregateKind::CountStar && call.filter.is_none())
    }
}

impl Call {
    fn accumulator(&self) -> Result<Box<dyn Accumulator>, OperatorError> {
        let inner = self.plain()?;
        if !self.distinct {
            return Ok(inner);
        }
        let options = DistinctOptions {
            input: self.input.clone(),
            counting: self.retract,
            takes_nulls: self.kind == AggregateKind::ArrayAgg,
            inner_keeps_values: matches!(
                self.kind,
                AggregateKind::ArrayAgg | AggregateKind::Listagg { .. }
            ),
            ttl_ms: self.ttl_ms,
        };
        Ok(distinct(options, inner))
    }

    fn plain(&self) -> Result<Box<dyn Accumulator>, OperatorError> {
        let output = self.output.data_type().clone();
        let refused = || {
            OperatorError::Data(format!(
                "{} does not take values of type {}",
                self.meaning, self.input
            ))
        };
        macro_rules! by_number {
            ($make:ident) => {
                match &self.input {
                    DataType::Float32 | DataType::Float64 => $make!(f64),
                    DataType::Decimal128(_, _) => $make!(i128),
                    other if is_int_like(other) => $make!(i64),
                    _ => return Err(refused()),
                }
            };
        }
        macro_rules! sum {
            ($number:ty) => {
                Box::new(Sum::<$number>::new(output))
            };
        }
        macro_rules! average {
            ($number:ty) => {
                Box::new(Average::<$number>::new(&self.input, output))
            };
        }
        macro_rules! extreme {
            ($pick:ty) => {
                match &self.input {
                    DataType::Utf8 | DataType::Binary => {
                        Box::new(ExtremeBytes::<$pick>::new(output))
                    }
                    DataType::Float32 | DataType::Float64 => {
                        Box::new(Extreme::<f64, $pick>::new(output))
                    }
                    DataType::Decimal128(_, _) => Box::new(Extreme::<i128, $pick>::new(output)),
                    other if is_int_like(other) => Box::new(Extreme::<i64, $pick>::new(output)),
                    _ => return Err(refused()),
                }
            };
        }
        let collect = |shape| Box::new(Collect::new(shape, &self.input, &output));
        let is_scalar = is_int_like(&self.input)
            || matches!(
                self.input,
                DataType::Float32
                    | DataType::Float64
                    | DataType::Decimal128(_, _)
                    | DataType::Utf8
                    | DataType::Binary
            );
        Ok(match &self.kind {
            AggregateKind::CountStar | AggregateKind::Count => Box::new(Count::default()),
            AggregateKind::Sum => by_number!(sum),
            AggregateKind::Avg => by_number!(average),
            AggregateKind::Min | AggregateKind::Max if self.retract => {
                if !is_scalar {
                    return Err(refused());
                }
                let largest = self.kind == AggregateKind::Max;
                Box::new(Multiset::new(output, largest))
            }
            AggregateKind::Min => extreme!(Min),
            AggregateKind::Max => extreme!(Max),
            AggregateKind::FirstValue if self.retract || !is_scalar => collect(Shape::First),
            AggregateKind::LastValue if self.retract || !is_scalar => collect(Shape::Last),
            AggregateKind::FirstValue => extreme!(First),
            AggregateKind::LastValue => extreme!(Last),
            AggregateKind::VarPop => Box::new(Variance::new(output, false, false)),
            AggregateKind::VarSamp => Box::new(Variance::new(output, true, false)),
            AggregateKind::StddevPop => Box::new(Variance::new(output, false, true)),
            AggregateKind::StddevSamp => Box::new(Variance::new(output, true, true)),
            AggregateKind::ArrayAgg => collect(Shape::Array),
            AggregateKind::Listagg { separator } => collect(Shape::Joined {
                separator: separator.clone(),
            }),
        })
    }
}

/// Memory that `update` reuses from batch to batch.
#[derive(Debug, Default)]
pub struct UpdateScratch {
    filtered: Vec<Filtered>,
}

#[derive(Debug, Default)]
struct Filtered {
    positions: Vec<u32>,
    groups: Vec<u32>,
    retract: Vec<bool>,
}

/// A value that a batch brings and that may be in the state table only.
#[derive(Debug)]
pub struct MissingValue {
    /// Position of the call.
    pub call: usize,
    pub group: u32,
    /// Canonical encoding.
    pub value: Vec<u8>,
}

/// The accumulators of all calls.
pub struct AggregateSet {
    plan: Arc<AggregatePlan>,
    accumulators: Vec<Box<dyn Accumulator>>,
    groups: usize,
}

impl AggregateSet {
    pub fn plan(&self) -> &Arc<AggregatePlan> {
        &self.plan
    }

    /// Makes room for groups `0..groups`.
    pub fn resize(&mut self, groups: usize) {
        if groups > self.groups {
            for accumulator in &mut self.accumulators {
                accumulator.resize(groups);
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
        self.filter(columns, rows, scratch);
        for (call, accumulator) in self.plan.calls.iter().zip(&mut self.accumulators) {
            let values = call.argument.map(|column| &columns[column]);
            accumulator.update(values, scratch.rows(call.filter, rows))?;
        }
        Ok(())
    }

    fn filter(&self, columns: &[ArrayRef], rows: Rows<'_>, scratch: &mut UpdateScratch) {
        scratch
            .filtered
            .resize_with(self.plan.filters.len(), Filtered::default);
        for (column, filtered) in self.plan.filters.iter().zip(&mut scratch.filtered) {
            filtered.fill(&columns[*column], rows);
        }
    }

    /// Per call with a value set: the values that the rows bring for groups marked in
    /// `is_partial` and that are not in memory.
    pub fn missing_values(
        &self,
        columns: &[ArrayRef],
        rows: Rows<'_>,
        is_partial: &[bool],
        scratch: &mut UpdateScratch,
    ) -> Result<Vec<MissingValue>, OperatorError> {
        self.filter(columns, rows, scratch);
        let mut missing = Vec::new();
        for (position, call) in self.plan.calls.iter().enumerate() {
            if call.distinct {
                let values = call.argument.map(|column| &columns[column]);
                let rows = scratch.rows(call.filter, rows);
                let of_call =
                    self.accumulators[position].missing_values(values, rows, is_partial)?;
                missing.extend(of_call.into_iter().map(|(group, value)| MissingValue {
                    call: position,
                    group,
                    value,
                }));
            }
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
        for (call, accumulator) in self.accumulators.iter().enumerate() {
            if accumulator.has_value_set() {
                let list = partials[column].as_list::<i32>();
                let (positions, of) = flatten(list, groups);
                let rows = Rows {
                    positions: Some(&positions),
                    groups: &of,
                    retract: None,
                };
                let of_call = accumulator.missing_values(Some(list.values()), rows, is_partial)?;
                missing.extend(of_call.into_iter().map(|(group, value)| MissingValue {
                    call,
                    group,
                    value,
                }));
            }
            column += accumulator.partial_width();
        }
        Ok(missing)
    }

    /// Puts a persisted value back into a call's value set.
    pub fn load_value(
        &mut self,
        call: usize,
        group: u32,
        value: &[u8],
        count: i64,
        seen_ms: i64,
    ) -> Result<(), OperatorError> {
        self.accumulators[call].load_value(group, value, count, seen_ms)
    }

    /// The present time (epoch ms), for value sets under a TTL.
    pub fn set_time(&mut self, now_ms: i64) {
        for accumulator in &mut self.accumulators {
            accumulator.set_time(now_ms);
        }
    }

    /// Merges partial columns (of all calls, in order): row `i` into `groups[i]`.
    pub fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<(), OperatorError> {
        let mut rest = partials;
        for accumulator in &mut self.accumulators {
            let (own, others) = rest
                .split_at_checked(accumulator.partial_width())
                .ok_or_else(|| OperatorError::Internal("too few partial columns".into()))?;
            accumulator.merge(own, groups)?;
            rest = others;
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
        for (accumulator, other) in self.accumulators.iter_mut().zip(&other.accumulators) {
            accumulator.merge_from(other.as_ref(), from, to)?;
        }
        Ok(())
    }

    /// Merges group `from` of this set into group `to`.
    pub fn merge_within(&mut self, from: u32, to: u32) -> Result<(), OperatorError> {
        for accumulator in &mut self.accumulators {
            let partials = accumulator.partials(&[from])?;
            accumulator.merge(&partials, &[to])?;
        }
        Ok(())
    }

    /// The partial columns of all calls.
    pub fn partials(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        let mut columns = Vec::new();
        for accumulator in &self.accumulators {
            columns.extend(accumulator.partials(groups)?);
        }
        Ok(columns)
    }

    /// Number of partial columns of all calls.
    pub fn partial_width(&self) -> usize {
        self.accumulators
            .iter()
            .map(|accumulator| accumulator.partial_width())
            .sum()
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
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.accumulators
            .iter()
            .map(|accumulator| accumulator.bytes())
            .sum()
    }

    /// Appends the group's persisted form: per call its length, then its bytes.
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

    /// Positions of the calls with value sets, and their accumulators.
    pub fn value_sets(&mut self) -> impl Iterator<Item = (usize, &mut Box<dyn Accumulator>)> {
        self.accumulators
            .iter_mut()
            .enumerate()
            .filter(|(_, accumulator)| accumulator.has_value_set())
    }
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
}

impl Filtered {
    fn fill(&mut self, column: &ArrayRef, rows: Rows<'_>) {
        self.positions.clear();
        self.groups.clear();
        self.retract.clear();
        let column = column.as_boolean();
        let values = match column.nulls() {
            Some(nulls) => column.values() & nulls.inner(),
            None => column.values().clone(),
        };
        if let (None, None) = (rows.positions, rows.retract) {
            for position in values.set_indices() {
                self.positions.push(position as u32);
                self.groups.push(rows.groups[position]);
            }
            return;
        }
        rows.each(|group, position, retract| {
            if values.value(position) {
                self.positions.push(position as u32);
                self.groups.push(group as u32);
                if rows.retract.is_some() {
                    self.retract.push(retract);
                }
            }
        });
    }
}
