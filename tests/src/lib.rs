//! Tests of the whole product from outside: they start the `millrace` binary, speak to it over
//! REST, read the files that its jobs write, and kill its processes.
//!
//! Nothing here uses Millrace's own crates, so that a fault of theirs cannot hide itself. Only
//! processes that a test started are ever signalled: the service it holds as a child, and workers
//! whose ids that service reports.

// Tests live outside of the engine: they wait on real time and draw real random numbers.
#![allow(clippy::disallowed_methods)]

pub mod case;
pub mod changelog;
pub mod client;
pub mod compare;
pub mod job;
pub mod kafka;
pub mod postgres;
pub mod process;
pub mod random;
pub mod rows;
pub mod s3;
mod server;
pub mod service;
pub mod value;
