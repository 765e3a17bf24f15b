//! Whole jobs in one process: real slots on real threads, real RocksDB and files, without
//! control plane or network. Killing is dropping the slots; a restore starts new ones from the
//! last complete checkpoint.
//!
//! What is expected is computed here, row by row, from the rows of `input`; it never comes from
//! a run.

mod bad_rows;
mod cluster;
mod input;
mod lateness;
mod lifecycle;
mod matrix;
mod queries;
mod sinks;
mod watching;
mod windows;
