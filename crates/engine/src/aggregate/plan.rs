//! The calls of one aggregate node, and their accumulators over one set of groups.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millrace_dataflow::{AggregateCall, AggregateKind};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Accumulator, AggregateSet,
    average::Average,
    collect::{Collect, Shape},
    count::Count,
    extreme::{Extreme, First, Last, Max, Min},
    extreme_bytes::ExtremeBytes,
    multiset::Multiset,
    sum::Sum,
    value_set::{MAX_CALLS, SetOptions},
    variance::Variance,
};
use crate::{OperatorError, key_table::is_int_like};

/// What is the same for all sets of a node.
#[derive(Debug)]
pub struct AggregatePlan {
    pub(super) calls: Vec<Call>,
    /// Filter columns, each evaluated once per batch.
    pub(super) filters: Vec<usize>,
    pub(super) value_sets: Vec<ValueSetPlan>,
}

#[derive(Debug)]
pub(super) struct Call {
    kind: AggregateKind,
    pub(super) argument: Option<usize>,
    input: DataType,
    pub(super) distinct: bool,
    /// Position in `AggregatePlan::filters`.
    pub(super) filter: Option<usize>,
    output: Field,
    retract: bool,
    meaning: String,
}

/// A value set and the `DISTINCT` calls that share it.
#[derive(Debug)]
pub struct ValueSetPlan {
    /// What the set means: function and argument of its calls. Part of persisted keys.
    pub identity: u64,
    /// Positions of the calls.
    pub calls: Vec<usize>,
    pub(super) argument: usize,
    pub(super) options: SetOptions,
    /// Whether the inner functions keep the values in order of arrival themselves.
    pub(super) inner_keeps_values: bool,
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
            value_sets: Vec::new(),
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
                meaning: call.meaning.clone(),
            };
            call.accumulator()?;
            if let (true, Some(argument)) = (call.distinct, argument) {
                plan.share_values(&call, argument, ttl_ms);
            }
            plan.calls.push(call);
        }
        // In this order their values lie in the state table.
        plan.value_sets.sort_by_key(|set| set.identity);
        Ok(Arc::new(plan))
    }

    /// Finds or makes the value set of the call that is about to be added.
    fn share_values(&mut self, call: &Call, argument: usize, ttl_ms: u64) {
        let position = self.calls.len();
        // Calls that differ only in their filter mean the same up to it.
        let meaning = call.meaning.split(" FILTER (WHERE ").next();
        let identity = xxh3_64(meaning.unwrap_or_default().as_bytes());
        let mut number = 0;
        for set in &mut self.value_sets {
            if set.identity == identity.wrapping_add(number) && set.argument == argument {
                if set.calls.len() < MAX_CALLS {
                    set.calls.push(position);
                    set.options.calls += 1;
                    return;
                }
                number += 1;
            }
        }
        let keeps_values = matches!(
            call.kind,
            AggregateKind::ArrayAgg | AggregateKind::Listagg { .. }
        );
        self.value_sets.push(ValueSetPlan {
            identity: identity.wrapping_add(number),
            calls: vec![position],
            argument,
            options: SetOptions {
                input: call.input.clone(),
                calls: 1,
                counting: call.retract,
                takes_nulls: call.kind == AggregateKind::ArrayAgg,
                ttl_ms,
            },
            inner_keeps_values: keeps_values,
        });
    }

    /// Accumulators for no groups yet.
    pub fn set(self: &Arc<Self>) -> Result<AggregateSet, OperatorError> {
        AggregateSet::new(Arc::clone(self))
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

    /// The value sets of `DISTINCT` calls, which are persisted value by value.
    pub fn value_sets(&self) -> &[ValueSetPlan] {
        &self.value_sets
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
            Some(call.partial_width(accumulator.as_ref()))
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
    /// Number of columns that a local aggregate passes on.
    pub(super) fn partial_width(&self, accumulator: &dyn Accumulator) -> usize {
        if self.distinct {
            1
        } else {
            accumulator.partial_width()
        }
    }

    /// An accumulator over all values, or over those that a value set lets through.
    pub(super) fn accumulator(&self) -> Result<Box<dyn Accumulator>, OperatorError> {
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
