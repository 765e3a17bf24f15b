//! The checkpoint coordinator of one execution: when a barrier is sent, when the snapshot is
//! complete, what is given up and what is no longer kept.
//!
//! Invariants, held by the property tests:
//! - One barrier is in flight at a time; ids only grow, over all executions of a job.
//! - A snapshot is persisted only after every subtask acknowledged it, and sinks are told to
//!   commit only after it was persisted.
//! - What concerns another execution, or a barrier that was given up, is ignored.
//! - Once every subtask has reached the end of its input there is a last checkpoint, after
//!   which the execution is finished.

mod coordinator;
mod protocol;

#[cfg(test)]
mod tests;

pub use coordinator::Coordinator;
pub use protocol::{Adopted, Barrier, Input, Output, Settings, Setup};

/// A final checkpoint that failed is tried again after this long, in milliseconds.
pub const FINAL_RETRY_MS: i64 = 1_000;
