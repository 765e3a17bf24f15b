//! Aggregate calls: what is aggregated, over which input columns.

use arrow::datatypes::Field;
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
