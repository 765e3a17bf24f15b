//! Options of the commands that run something: `up`, `run`, `control-plane`, `worker`.

use std::{net::SocketAddr, path::PathBuf};

use millrace_types::{JobId, Millis, WorkerId};

/// Starts the whole service on this machine.
///
/// Everything lives under one data directory: a private Postgres cluster from the machine's server
/// binaries (or the server that --database-url names), the control plane, and the checkpoints.
/// Workers are child processes. Stopping the service with Ctrl-C stops the workers; the jobs go on
/// from their last checkpoints when it is started again.
///
/// Examples:
///
///   millrace up
///   millrace up --data-dir ./data --listen 127.0.0.1:8080
///   millrace up --database-url postgres://millrace:secret@db.example/millrace
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpArgs {
    /// Where everything is kept. [default: /var/lib/millrace/up as root, else ~/.local/share/millrace]
    #[arg(long, env = "MILLRACE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address of the REST API. There are no accounts: keep it on loopback.
    #[arg(
        long,
        env = "MILLRACE_LISTEN",
        default_value = "127.0.0.1:7090",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// A Postgres server to use instead of a private one.
    #[arg(
        long,
        env = "MILLRACE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,
}

/// What `up` and `control-plane` have in common.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServiceArgs {
    /// Address where workers register; port 0 takes a free one.
    #[arg(
        long,
        env = "MILLRACE_GRPC_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS"
    )]
    pub(crate) grpc_listen: SocketAddr,
    /// Root of checkpoint storage, such as s3://bucket/prefix. [default: checkpoints below the data directory]
    #[arg(long, env = "MILLRACE_STORAGE_URL", value_name = "URL")]
    pub(crate) storage_url: Option<String>,
}

/// Runs a control plane on its own.
///
/// Serves the REST API, drives the jobs whose leases it holds, and starts their workers as child
/// processes of its own. Several may share one database: each job is driven by one of them, and
/// the others take over when it is gone.
///
/// Example:
///
///   millrace control-plane --database-url postgres://millrace@localhost/millrace --data-dir ./data
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ControlPlaneArgs {
    /// The Postgres database. The schema is made and migrated by the control plane.
    #[arg(
        long,
        env = "MILLRACE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: String,
    /// Where workers keep their local state, and checkpoints if --storage-url does not say otherwise.
    #[arg(long, env = "MILLRACE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Address of the REST API.
    #[arg(
        long,
        env = "MILLRACE_LISTEN",
        default_value = "127.0.0.1:7090",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// Runs one worker of one job. Started by the control plane, not by hand.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Where control planes take registrations: host:port, several separated by commas.
    #[arg(
        long,
        env = "MILLRACE_CONTROL_PLANE",
        value_delimiter = ',',
        required = true,
        value_name = "ADDRESS"
    )]
    pub(crate) control_plane: Vec<String>,
    /// The job to work for.
    #[arg(long, env = "MILLRACE_JOB", value_name = "UUID")]
    pub(crate) job: JobId,
    /// The id of this worker, fresh for every process.
    #[arg(long, env = "MILLRACE_WORKER_ID", value_name = "UUID")]
    pub(crate) worker_id: WorkerId,
    /// Subtasks that it has room for.
    #[arg(long, env = "MILLRACE_SLOTS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096), value_name = "N")]
    pub(crate) slots: u32,
    /// Memory for state, RocksDB and buffers together, in MiB.
    #[arg(long, env = "MILLRACE_MEMORY_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..), value_name = "MIB")]
    pub(crate) memory_mib: u32,
    /// Where local state lies.
    #[arg(long, env = "MILLRACE_WORKER_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// End when the process that started the worker is gone, rather than go on for whoever takes
    /// the job over.
    #[arg(long)]
    pub(crate) end_with_parent: bool,
    /// Address of its own server; port 0 takes a free one.
    #[arg(
        long,
        env = "MILLRACE_WORKER_LISTEN",
        default_value = "127.0.0.1:0",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: SocketAddr,
}

/// Runs a SQL script to its end, rows to stdout.
///
/// Starts a service of its own for the time of the run, with worker processes and a private
/// Postgres, submits the script as a job, and prints every row that the script writes to tables
/// with 'connector' = 'print'. The command ends when all inputs have ended. Ctrl-C stops the job
/// with a final checkpoint; a second Ctrl-C stops it at once.
///
/// Rows are JSON objects, one per line. Where results are updated, each line holds the row and
/// what becomes of it: {"op":"+I","row":{…}} (+I new, -U old content, +U new content, -D gone).
/// With several print tables, each line also names its table: {"table":"t","row":{…}}.
///
/// A job that recovers from a failure prints the rows since its last checkpoint again: only sinks
/// that commit with checkpoints, such as files, hold every row once.
///
/// Examples:
///
///   millrace run query.sql
///   millrace run query.sql --output table --parallelism 4 --workers 2
///   millrace run query.sql --set table.local-time-zone=Europe/Berlin | jq .
///   millrace run query.sql --checkpoint-dir ./state      # Ctrl-C, then again: goes on
///   echo "..." | millrace run -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// The script; `-` reads it from stdin.
    #[arg(value_name = "FILE.sql")]
    pub(crate) file: PathBuf,
    /// Subtasks of every operator.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32_768), value_name = "N")]
    pub(crate) parallelism: u32,
    /// Worker processes; at most the parallelism.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    pub(crate) workers: u32,
    /// Keep the job's checkpoints and history in DIR, and go on from there if it has been run before.
    /// After Ctrl-C the next run prints exactly the rows that are missing; after a crash it prints
    /// those since the last checkpoint again. Without this option, nothing is left of a run.
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Time between checkpoints, with its unit: 500ms, 10s, 2min, 1h.
    #[arg(long, default_value = "10 s", value_parser = parse_millis, value_name = "DURATION")]
    pub(crate) checkpoint_interval: Millis,
    /// Memory of one worker in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(128..), value_name = "MIB")]
    pub(crate) memory_mib: u32,
    /// A setting, as if the script began with SET 'KEY' = 'VALUE'. Can be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Stop after this time (500ms, 10s, 2min, 1h), with a final checkpoint and exit code 124.
    #[arg(long, value_parser = parse_millis, value_name = "DURATION")]
    pub(crate) timeout: Option<Millis>,
    /// No progress on stderr.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

pub(super) fn parse_millis(text: &str) -> Result<Millis, String> {
    text.parse()
        .map_err(|error: millrace_types::ParseMillisError| error.to_string())
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write it as KEY=VALUE, such as table.local-time-zone=UTC".to_owned()),
    }
}
