//! Whole jobs in one process: real slots on real threads, real RocksDB and files, without
//! control plane or network. Killing is dropping the slots; a restore starts new ones from the
//! last complete checkpoint.

mod cluster;
mod jobs;
