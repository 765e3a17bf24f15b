//! The worker: one process that runs its share of one job's subtasks.
//!
//! A driver in the control plane attaches to it over gRPC ([`service`], [`supervisor`]),
//! deploys an execution ([`deploy`]), and hears what happens ([`events`]). Each slot of the
//! execution is a thread of the engine; around them stand the links to other workers
//! ([`exchange`]), the way of snapshots to object storage ([`checkpoint`]) and the tap for the
//! job's output ([`output`]).
//!
//! Invariant: the worker does nothing on its own account. It keeps processing while no control
//! plane is there, but starts, checkpoints, restarts and ends only when it is told to.
#![allow(
    clippy::disallowed_methods,
    reason = "the worker is at the edge: it brings the clock that the engine takes as an argument"
)]

mod budget;
mod checkpoint;
mod clock;
mod compile;
mod config;
mod deploy;
mod deploy_error;
mod events;
mod exchange;
mod execution;
mod output;
mod process;
mod progress;
mod register;
mod run;
mod service;
mod supervisor;
mod transport;

pub use clock::SystemClock;
pub use config::WorkerConfig;
pub use run::run;

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
