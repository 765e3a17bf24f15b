//! What an operator is to the slot that runs it.
//!
//! The slot calls one method at a time, on one thread. An operator owns its state without
//! locks, emits only through [`Output`], and keeps the order of what it emits. Rules that
//! every operator holds:
//!
//! - `watermark` is called with strictly growing values (the minimum over the inputs); the
//!   operator forwards it, after whatever it emits because of it.
//! - At a barrier the slot calls `before_barrier` (emit what is only buffered), then
//!   `snapshot`. What `snapshot` writes plus the rows after the barrier is all that a
//!   restored operator needs.
//! - After the last row, `watermark(i64::MAX)` then `end` are called, once.

mod evaluation;

use std::{fmt, sync::Arc};

use millrace_dataflow::{KeyGroupRange, StateId};
use millrace_state::{Delta, OperatorStateItem, StateError, Table};
use millrace_types::CheckpointId;

use crate::Batch;

/// Where time comes from. Real in a worker, simulated in tests.
pub trait Clock: Send + Sync {
    /// Wall-clock time in epoch milliseconds.
    fn now_ms(&self) -> i64;
    /// Monotonic nanoseconds, for measuring.
    fn monotonic_nanos(&self) -> u64;
}

/// A failure that ends the execution. The text says what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The data or the query: a malformed record, an overflow, a failed CAST.
    #[error("{0}")]
    Data(String),
    /// A connector: a file that vanished, a full disk.
    #[error("{0}")]
    Connector(String),
    #[error("state: {0}")]
    State(#[from] StateError),
    #[error("{}", evaluation::arrow_text(.0))]
    Arrow(#[from] arrow::error::ArrowError),
    #[error("{}", evaluation::text(.0))]
    Expression(#[from] datafusion_common::DataFusionError),
    /// A broken invariant of Millrace itself.
    #[error("internal fault in {0}: please report it")]
    Internal(String),
}

impl OperatorError {
    /// A failed evaluation, and of which expression of the script.
    pub(crate) fn in_expression(error: &datafusion_common::DataFusionError, sql: &str) -> Self {
        OperatorError::Data(evaluation::text_in(error, sql))
    }
}

/// What moves along an edge within a chain.
#[derive(Debug, Clone)]
pub enum Event {
    Batch(Batch),
    /// No row with a time ≤ this will come; epoch milliseconds.
    Watermark(i64),
    /// Nothing is expected for now: do not let this input hold the watermark back.
    Idle,
}

/// What an operator that can pause emits in one go, in bytes.
const FULL_OUTPUT_BYTES: usize = 2 << 20;

/// Takes what an operator emits.
#[derive(Debug, Default)]
pub struct Output {
    events: Vec<Event>,
    bytes: usize,
}

impl Output {
    /// Emits rows; empty batches are dropped.
    pub fn emit(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.bytes += batch.bytes();
            self.events.push(Event::Batch(batch));
        }
    }

    /// Whether there is enough for one go: an operator with much more to emit stops here and says
    /// so with [`Operator::has_more`].
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL_OUTPUT_BYTES
    }

    /// Forwards or advances the watermark.
    pub fn watermark(&mut self, watermark: i64) {
        self.events.push(Event::Watermark(watermark));
    }

    /// Declares the output idle until the next row or watermark.
    pub fn idle(&mut self) {
        self.events.push(Event::Idle);
    }

    /// What was emitted since the last call, in order.
    pub fn take(&mut self) -> Vec<Event> {
        self.bytes = 0;
        std::mem::take(&mut self.events)
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// What a restored operator finds.
#[derive(Debug, Clone, Default)]
pub struct RestoredState {
    /// True when the execution starts from a snapshot (of which this operator may have no part).
    pub restored: bool,
    /// The items of *all* former subtasks: an operator picks those that are its own.
    pub items: Vec<OperatorStateItem>,
}

impl RestoredState {
    /// All items of a named list, over all former subtasks.
    pub fn list<'a>(
        &'a self,
        state_id: &'a StateId,
        name: &'a str,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.items
            .iter()
            .filter(move |item| item.state_id == *state_id && item.name == name)
            .flat_map(|item| item.items.iter().map(Vec::as_slice))
    }
}

/// Opens a table of the slot's store.
pub trait OpenTable {
    /// `name` tells the tables of one operator apart; `ttl_ms` 0 keeps entries for ever.
    fn open_table(
        &mut self,
        state_id: &StateId,
        name: &'static str,
        ttl_ms: u64,
    ) -> Result<Table, OperatorError>;
}

/// What an operator gets when it is opened.
pub struct OpenContext<'a> {
    pub subtask: u32,
    pub parallelism: u32,
    pub max_parallelism: u32,
    /// The groups whose keys come to this subtask.
    pub key_groups: KeyGroupRange,
    pub clock: Arc<dyn Clock>,
    pub restored: &'a RestoredState,
    pub tables: &'a mut dyn OpenTable,
}

impl fmt::Debug for OpenContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenContext")
            .field("subtask", &self.subtask)
            .field("parallelism", &self.parallelism)
            .finish_non_exhaustive()
    }
}

/// Collects what an operator keeps over a barrier.
#[derive(Debug, Default)]
pub struct OperatorSnapshot {
    pub deltas: Vec<Delta>,
    pub items: Vec<OperatorStateItem>,
}

impl OperatorSnapshot {
    /// What changed in a table since the last barrier.
    pub fn delta(&mut self, delta: Delta) {
        self.deltas.push(delta);
    }

    /// The whole of a named list, as it stands.
    pub fn list(&mut self, state_id: &StateId, name: &str, items: Vec<Vec<u8>>) {
        self.items.push(OperatorStateItem {
            state_id: state_id.clone(),
            name: name.to_owned(),
            items,
        });
    }
}

/// Keyed state an operator holds in memory; `bytes` falls when [`Operator::relieve`] is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateSize {
    pub entries: u64,
    pub bytes: u64,
}

/// Rows that came too late, and a few of them.
#[derive(Debug, Clone, Default)]
pub struct LateRows {
    pub count: u64,
    /// JSON objects, at most [`LateRows::MAX_SAMPLES`], newest kept.
    pub samples: Vec<String>,
}

impl LateRows {
    pub const MAX_SAMPLES: usize = 8;
}

/// One operator on one subtask.
pub trait Operator: Send {
    /// Called once before anything else.
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError>;

    /// Rows of input `input`.
    fn process(
        &mut self,
        input: usize,
        batch: Batch,
        out: &mut Output,
    ) -> Result<(), OperatorError>;

    /// Event time has advanced; forwards it by default.
    fn watermark(&mut self, watermark: i64, out: &mut Output) -> Result<(), OperatorError> {
        out.watermark(watermark);
        Ok(())
    }

    /// The wall-clock time (epoch ms) at which [`Operator::tick`] should be called next, if any.
    fn next_tick(&self) -> Option<i64> {
        None
    }

    /// Wall-clock time has reached `next_tick`.
    fn tick(&mut self, _now_ms: i64, _out: &mut Output) -> Result<(), OperatorError> {
        Ok(())
    }

    /// A barrier is about to pass: emit what is only buffered.
    fn before_barrier(&mut self, _out: &mut Output) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Whether there is more to emit of what the operator was called for before, such as the rest of
    /// a large window. Until it is out the operator gets nothing else.
    fn has_more(&self) -> bool {
        false
    }

    /// Emits more of it. Called when the outputs have room.
    fn resume(&mut self, _out: &mut Output) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Memory is short: lets go of about this many bytes of state, what was used least recently
    /// first, and hands over the changes among them that the tables do not have. What is handed
    /// over can be read from the tables as soon as the call has returned. Also called with more
    /// than there is, and when nothing is dirty.
    fn relieve(&mut self, _bytes: u64, _deltas: &mut Vec<Delta>) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Hand over what must survive.
    fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError>;

    /// The checkpoint is complete and durable: commit what it covers.
    fn checkpoint_complete(&mut self, _checkpoint: CheckpointId) -> Result<(), OperatorError> {
        Ok(())
    }

    /// All inputs have ended (after `watermark(i64::MAX)`).
    fn end(&mut self, _out: &mut Output) -> Result<(), OperatorError> {
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        StateSize::default()
    }

    /// Bytes that [`Operator::relieve`] can free. Less than the state size where an operator bounds
    /// what it holds by itself.
    fn relievable_bytes(&self) -> u64 {
        self.state_size().bytes
    }

    fn late_rows(&self) -> LateRows {
        LateRows::default()
    }

    /// Malformed records met so far.
    fn bad_records(&self) -> u64 {
        0
    }
}
