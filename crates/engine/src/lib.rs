//! The streaming engine: operators and the slot executor. Synchronous and deterministic: time
//! comes in through [`Clock`], data through channels, and nothing here knows tokio.

pub mod batch;
pub mod operator;

pub use batch::Batch;
pub use operator::{
    Clock, Event, LateRows, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot,
    OperatorStateItem, Output, RestoredState, StateSize,
};
