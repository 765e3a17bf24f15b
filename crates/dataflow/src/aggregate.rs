//! Aggregate calls: what is aggregated, over which input columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};

/// The function of an aggregate call. Semantics and result types are Flink's: integer AVG
/// truncates, SUM keeps the input's integer type, sums of DECIMAL(p, s) are DECIMAL(38, s).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AggregateKind {
    /// `COUNT(*)`.
    CountStar,
    /// `COUNT(x)`: rows where `x` is not null.
    Count,
    Sum,
    Avg,
    Min,
    Max,
    /// First and last non-null value in arrival order.
    FirstValue,
    LastValue,
    StddevPop,
    StddevSamp,
    VarPop,
    VarSamp,
    /// All values (nulls included) in arrival order.
    ArrayAgg,
    /// Non-null strings joined by the separator.
    Listagg {
        separator: String,
    },
}

/// One aggregate call of an aggregate node.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    pub kind: AggregateKind,
    /// Input columns of the arguments (none for `COUNT(*)`, one otherwise).
    pub args: Vec<usize>,
    /// Over distinct values only.
    pub distinct: bool,
    /// Boolean input column: only rows where it is true count.
    pub filter: Option<usize>,
    /// Name, type and nullability of the result.
    pub output: Field,
    /// What the call means, free of positions: `SUM(bid.price) FILTER (WHERE …)`. Part of the
    /// state id, so that a call keeps its state when others come or go.
    pub meaning: String,
}

/// The columns in which a local aggregate passes a call's partial result to the global one.
/// `raw_input` is the schema that the call's arguments refer to.
///
/// | call | columns |
/// |---|---|
/// | COUNT | `count` |
/// | SUM | `sum` (of the result's type), `count` of the non-null values |
/// | AVG | `sum` (BIGINT, DOUBLE or DECIMAL(38, s)), `count` |
/// | MIN, MAX, FIRST_VALUE, LAST_VALUE | `value` |
/// | STDDEV, VARIANCE | `count`, `mean`, `m2` |
/// | ARRAY_AGG, LISTAGG | `values` |
/// | any over DISTINCT | `values`: the distinct non-null values |
pub fn partial_fields(call: &AggregateCall, raw_input: &Schema) -> Vec<Field> {
    let argument = call
        .args
        .first()
        .map(|column| raw_input.field(*column).data_type().clone())
        .unwrap_or(DataType::Int64);
    let list = |element: DataType| {
        let item = Field::new("item", element, true);
        Field::new("values", DataType::List(Arc::new(item)), true)
    };
    let count = || Field::new("count", DataType::Int64, false);
    if call.distinct {
        return vec![list(argument)];
    }
    match &call.kind {
        AggregateKind::CountStar | AggregateKind::Count => vec![count()],
        AggregateKind::Sum => {
            let sum = Field::new("sum", call.output.data_type().clone(), true);
            vec![sum, count()]
        }
        AggregateKind::Avg => {
            let sum = match argument {
                DataType::Float32 | DataType::Float64 => DataType::Float64,
                DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
                _ => DataType::Int64,
            };
            vec![Field::new("sum", sum, true), count()]
        }
        AggregateKind::Min
        | AggregateKind::Max
        | AggregateKind::FirstValue
        | AggregateKind::LastValue => vec![Field::new("value", argument, true)],
        AggregateKind::StddevPop
        | AggregateKind::StddevSamp
        | AggregateKind::VarPop
        | AggregateKind::VarSamp => vec![
            count(),
            Field::new("mean", DataType::Float64, true),
            Field::new("m2", DataType::Float64, true),
        ],
        AggregateKind::ArrayAgg => vec![list(argument)],
        AggregateKind::Listagg { .. } => vec![list(DataType::Utf8)],
    }
}
