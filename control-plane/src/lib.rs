//! The control plane: REST for people and programs, the store that holds the truth, and the
//! drivers that make it so.
//!
//! `api` turns requests into calls of `store` and what they say into answers; `driver` leases jobs
//! and asks the pure cores in `coordination` what to do; `provision` starts workers, `registry`
//! learns where they are, `live` keeps what they measure and print. Nothing here processes rows.

#![allow(
    clippy::disallowed_methods,
    reason = "the edge of the pure cores: clocks, ids and randomness come from here"
)]

pub mod api;
mod config;
mod driver;
mod live;
pub mod offline;
pub mod problem;
mod provision;
mod registry;
mod server;
mod sql;
mod store;

pub use self::{
    config::{ControlPlaneConfig, DiscardStaged},
    live::OutputRow,
    server::{ControlPlane, ControlPlaneError, run, start},
    sql::{CompileFailure, Compiler},
    store::StoreError,
};
