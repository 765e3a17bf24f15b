//! The protocol cores of the control plane: what a job does next, when a checkpoint is taken
//! and complete, and which worker runs which slot.
//!
//! Nothing here does IO, waits, reads a clock or draws a random number: events come in with the
//! time and the random numbers they need, effects go out as values. The driver in the control
//! plane performs the effects and feeds their results back as events. That makes every
//! interleaving of failures testable, which the property tests of this crate do.

pub mod checkpoint;
pub mod lifecycle;
pub mod schedule;

#[cfg(test)]
mod world;
