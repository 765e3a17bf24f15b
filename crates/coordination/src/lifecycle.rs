//! The life of one job, as a machine: [`Job::step`] takes an [`Event`] and returns the next job
//! and the [`Effect`]s to perform.
//!
//! Invariants, held by the property tests:
//! - An event of an execution that is not the current one changes nothing.
//! - A new execution is provisioned only after the former was torn down ([`Event::TornDown`]),
//!   so two executions of a job are never deployed at once.
//! - What a start restores ([`Context::restore`]) only moves forward within an execution.
//! - A job is never dropped: until it rests, something will happen to it by an effect that is
//!   being performed or at [`Job::next_wake`].
//!
//! A job is stored as JSON after every step and before its effects are performed; a driver that
//! takes it over continues with [`Event::TakenOver`].

mod backoff;
mod cause;
mod desired;
mod effect;
mod event;
mod failing;
mod progress;
mod state;
mod takeover;
mod turn;

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

pub use cause::RootCause;
pub use effect::{
    Action, Effect, ExecutionEnd, FinalSnapshot, Record, SavepointOrigin, Severity, Write,
};
pub use event::{Ambient, Event, Failure, Found, Place, StartAt, Target};
pub use state::{
    Attempt, Cause, Change, Context, Degraded, FORMAT, Fallback, Job, Next, Phase, Policy, Rest,
    Restore, SavePhase, State, Trial, Troubles,
};

/// Time a job's workers have to start and register, in milliseconds.
pub const PROVISION_LIMIT_MS: i64 = 120_000;
/// Time an execution has to restore its state and start, in milliseconds.
pub const DEPLOY_LIMIT_MS: i64 = 900_000;
/// Time that sinks have to commit a final snapshot, in milliseconds.
pub const COMMIT_LIMIT_MS: i64 = 60_000;
/// After this long a teardown or a deletion is asked for again, in milliseconds.
pub const REPEAT_MS: i64 = 60_000;
/// Least time an upgraded job has to prove itself, in milliseconds.
pub const TRIAL_MS: i64 = 300_000;
/// Failures after which an upgraded job is rolled back.
pub const TRIAL_FAILURES: u32 = 3;
