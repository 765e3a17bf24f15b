//! The streaming engine: operators and the slot executor. Synchronous and deterministic: time
//! comes in through [`Clock`], data through channels, and nothing here knows tokio.
//!
//! A [`slot::Slot`] is put together by [`slot_builder::SlotBuilder`]: the dataflow is cut into
//! tasks ([`plan`]), each task is a [`chain`] of operators fed by channels ([`task`]) or by a
//! table's splits ([`source_task`]).

pub mod aggregate;
pub mod batch;
pub mod chain;
pub mod channel;
pub mod dead_letter;
mod discovery;
mod event_time;
pub mod key_table;
pub mod operator;
pub mod operators;
pub mod partition;
pub mod plan;
pub mod sink_operator;
pub mod slot;
pub mod slot_builder;
pub mod slot_event;
mod slot_memory;
pub mod slot_snapshot;
pub mod source_task;
pub mod splits;
pub mod task;
pub mod two_phase;
pub mod values_source;
pub mod watermark;
pub mod watermark_split;

pub use batch::Batch;
pub use operator::{
    Clock, Event, LateRows, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot,
    Output, RestoredState, StateSize,
};
