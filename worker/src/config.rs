//! How a worker is started.

use std::{net::SocketAddr, path::PathBuf};

use millrace_types::{JobId, WorkerId};

/// Everything a worker process is told. One worker serves one job.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// `host:port` of the control plane's replicas; asked in turn until one answers.
    pub control_plane: Vec<String>,
    pub job_id: JobId,
    pub worker_id: WorkerId,
    /// Subtasks that it has room for.
    pub slots: u32,
    /// Memory for state, RocksDB and buffers together, in MiB.
    pub memory_mib: u32,
    /// Where the local state of slots lies, for this worker alone. It removes what it no longer
    /// needs in it.
    pub data_dir: PathBuf,
    /// Address of its own server; port 0 takes a free one.
    pub listen: SocketAddr,
}
