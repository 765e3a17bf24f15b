//! What each node of a dataflow does. Column numbers refer to the node's (only) input schema
//! unless said otherwise.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{AggregateCall, ChangelogMode, ScalarExpr, StateId, WindowSource};

/// What a node does.
#[derive(Debug, Clone)]
pub enum NodeKind {
    Source(Arc<SourceNode>),
    Values(Arc<ValuesNode>),
    Calc(Arc<CalcNode>),
    /// All inputs have the node's schema; rows pass through.
    Union,
    Expand(Arc<ExpandNode>),
    WindowAssign(Arc<WindowAssignNode>),
    /// Pre-aggregates into partial accumulator columns before the exchange; keeps nothing over a barrier.
    LocalWindowAggregate(Arc<WindowAggregateNode>),
    /// Merges partials of a [`NodeKind::LocalWindowAggregate`].
    GlobalWindowAggregate(Arc<WindowAggregateNode>),
    /// Single phase, over raw rows. Session windows are always single phase.
    WindowAggregate(Arc<WindowAggregateNode>),
    /// Pre-aggregates each batch into partials before the exchange.
    LocalGroupAggregate(Arc<GroupAggregateNode>),
    GlobalGroupAggregate(Arc<GroupAggregateNode>),
    GroupAggregate(Arc<GroupAggregateNode>),
    Sink(Arc<SinkNode>),
}

/// The options of a table's `WITH` clause, `connector` and `format` included.
pub type TableOptions = BTreeMap<String, String>;

/// Reads a table.
#[derive(Debug, Clone)]
pub struct SourceNode {
    /// The table's name in the script.
    pub table: String,
    pub options: TableOptions,
    /// All physical columns as declared, in order: formats that go by position need them.
    pub declared: SchemaRef,
    /// The physical columns the query needs, as the format decodes them (a subset of `declared`,
    /// in its order).
    pub physical: SchemaRef,
    /// Metadata columns the query needs: (metadata key of the connector, field). They follow the
    /// physical columns in the schema that `output` is evaluated over.
    pub metadata: Vec<(String, arrow::datatypes::Field)>,
    /// The node's output columns, over physical then metadata columns (computed columns inlined).
    pub output: Vec<ScalarExpr>,
    pub watermark: Option<WatermarkSpec>,
    pub state_id: StateId,
}

/// How a source's watermark is made: per split, from every row, as the largest value of `expr`.
#[derive(Debug, Clone)]
pub struct WatermarkSpec {
    /// The event-time column of the output, `Timestamp(Millisecond, _)`.
    pub column: usize,
    /// The watermark that a row implies, over the output columns, `Timestamp(Millisecond, _)`.
    pub expr: ScalarExpr,
    /// A split without rows for this long (ms) no longer holds the watermark back; 0 = never.
    pub idle_timeout_ms: u64,
}

/// Emits fixed rows once (from subtask 0), then ends.
#[derive(Debug, Clone)]
pub struct ValuesNode {
    pub rows: Vec<RecordBatch>,
    pub state_id: StateId,
}

/// Filters, then projects.
#[derive(Debug, Clone)]
pub struct CalcNode {
    /// Boolean; null counts as false.
    pub predicate: Option<ScalarExpr>,
    pub projection: Vec<ScalarExpr>,
}

/// Emits each row once per grouping set: `columns` (the input's columns, with the nulled ones
/// replaced by null) then a BIGINT `$grouping_id` column.
#[derive(Debug, Clone)]
pub struct ExpandNode {
    /// Per grouping set: the input columns to null, and its grouping id.
    pub sets: Vec<(Vec<usize>, i64)>,
}

/// Appends `window_start`, `window_end` (Timestamp ms without zone) and `window_time` (the time
/// column's type, end − 1 ms) to each row, once per window the row belongs to. Never a session window.
#[derive(Debug, Clone)]
pub struct WindowAssignNode {
    pub window: WindowSource,
}

/// Aggregates per window and key. Input is append only. Output of the single-phase and global
/// form: keys, aggregates, then `window_start`, `window_end`, `window_time`.
#[derive(Debug, Clone)]
pub struct WindowAggregateNode {
    /// For the global form, column numbers refer to the input of the *local* node.
    pub window: WindowSource,
    pub keys: Vec<usize>,
    pub aggregates: Vec<AggregateCall>,
    /// Schema that `window`, `keys` and `aggregates` refer to (the raw input).
    pub raw_input: SchemaRef,
    pub state_id: StateId,
}

/// Aggregates per key for ever (or the TTL), emitting changes. No aggregates: `SELECT DISTINCT`.
/// Output: keys, then aggregates. Without keys there is one group, whose first result is
/// emitted with the first row.
#[derive(Debug, Clone)]
pub struct GroupAggregateNode {
    pub keys: Vec<usize>,
    pub aggregates: Vec<AggregateCall>,
    /// Schema that `keys` and `aggregates` refer to (the raw input).
    pub raw_input: SchemaRef,
    /// `Retract` inputs need accumulators that can take back.
    pub input_mode: ChangelogMode,
    /// 0 = for ever.
    pub ttl_ms: u64,
    /// Emit one change per input row rather than one per batch and key
    /// (`SET 'table.exec.mini-batch.enabled' = 'false'`).
    pub per_row: bool,
    pub state_id: StateId,
}

/// Writes a table.
#[derive(Debug, Clone)]
pub struct SinkNode {
    pub table: String,
    pub options: TableOptions,
    /// The table's schema; the input has the same columns in the same order.
    pub schema: SchemaRef,
    /// Columns of `PRIMARY KEY`, if declared.
    pub primary_key: Vec<usize>,
    pub partition_by: Vec<usize>,
    pub input_mode: ChangelogMode,
    pub state_id: StateId,
}
