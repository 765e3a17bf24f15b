//! How a control plane is set up.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use millrace_dataflow::Dataflow;
use millrace_types::JobId;

/// Removes what a deleted job has staged in its sinks and will never publish, as far as this
/// machine can reach it, and returns what kept it from doing so. The control plane knows no
/// connectors, so it is given this.
#[derive(Clone)]
pub struct DiscardStaged(Arc<Discard>);

type Discard = dyn Fn(&Dataflow, JobId) -> Vec<String> + Send + Sync;

impl DiscardStaged {
    pub fn new(discard: impl Fn(&Dataflow, JobId) -> Vec<String> + Send + Sync + 'static) -> Self {
        DiscardStaged(Arc::new(discard))
    }

    /// Blocks.
    pub(crate) fn discard(&self, dataflow: &Dataflow, job: JobId) -> Vec<String> {
        (self.0)(dataflow, job)
    }
}

impl Default for DiscardStaged {
    /// For sinks that stage nothing.
    fn default() -> Self {
        DiscardStaged::new(|_, _| Vec::new())
    }
}

impl fmt::Debug for DiscardStaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiscardStaged")
    }
}

/// Everything a control plane is told.
#[derive(Debug, Clone)]
pub struct ControlPlaneConfig {
    /// `postgres://…`.
    pub database_url: String,
    /// Where REST is served.
    pub listen: SocketAddr,
    /// Where workers register; port 0 takes a free one.
    pub grpc_listen: SocketAddr,
    /// Root of checkpoint storage: `file:///directory` or `s3://bucket/prefix`.
    pub storage_url: String,
    /// Program and first arguments of a worker; the worker's own options follow.
    pub worker_command: Vec<String>,
    /// Workers keep their local state in directories of their own below this one.
    pub worker_data_dir: PathBuf,
    /// Where the logs of workers go; absent: below `worker_data_dir`.
    pub log_dir: Option<PathBuf>,
    /// Name of this replica, unique among those that live at one time. The same name after a
    /// restart lets a control plane go on with its own jobs without waiting for their leases to
    /// expire. Absent: made of the machine's name and `worker_data_dir`, which nobody else uses.
    pub replica: Option<String>,
    /// Another replica may take a job over when its driver has not been heard of for so long.
    pub lease_duration: Duration,
    /// How often leases are renewed.
    pub lease_renewal: Duration,
    /// How often to look for jobs without being told of them.
    pub poll_interval: Duration,
    /// A worker that is not heard of for so long is lost.
    pub worker_silence: Duration,
    /// Rows of print tables wait for their reader rather than being dropped.
    pub lossless_output: bool,
    /// At a shutdown, stop the jobs with a last checkpoint and end their workers; the next start
    /// resumes them. Otherwise the workers go on for whoever takes the jobs over.
    pub suspend_on_shutdown: bool,
    /// Longest time that a suspension may take.
    pub suspend_patience: Duration,
    /// Jobs that this replica drives at most.
    pub max_jobs: u32,
    pub discard_staged: DiscardStaged,
}

impl ControlPlaneConfig {
    /// The defaults of a control plane on its own machine.
    pub fn new(database_url: impl Into<String>) -> Self {
        let data_dir = std::env::temp_dir().join("millrace");
        ControlPlaneConfig {
            database_url: database_url.into(),
            listen: ([127, 0, 0, 1], 7090).into(),
            grpc_listen: ([127, 0, 0, 1], 0).into(),
            storage_url: format!("file://{}", data_dir.join("checkpoints").display()),
            worker_command: vec!["millrace".to_owned(), "worker".to_owned()],
            worker_data_dir: data_dir.join("workers"),
            log_dir: None,
            replica: None,
            lease_duration: Duration::from_secs(10),
            lease_renewal: Duration::from_secs(2),
            poll_interval: Duration::from_millis(500),
            worker_silence: Duration::from_secs(10),
            lossless_output: false,
            suspend_on_shutdown: true,
            suspend_patience: Duration::from_secs(15),
            max_jobs: 1_000,
            discard_staged: DiscardStaged::default(),
        }
    }

    /// The replica's name.
    pub(crate) fn replica_name(&self) -> String {
        match &self.replica {
            Some(name) => name.clone(),
            None => {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
                let host = host.as_deref().map_or("localhost", str::trim);
                format!("{host}:{}", self.worker_data_dir.display())
            }
        }
    }
}
