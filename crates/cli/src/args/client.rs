//! Options of the commands that talk to a running service.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use millrace_types::{JobName, StopMode};

/// Creates, watches, changes and stops jobs.
///
/// A job is named by its name or its id.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    Create(CreateArgs),
    List(ListArgs),
    Get(JobArg),
    Update(UpdateArgs),
    Start(StartArgs),
    Stop(StopArgs),
    Delete(DeleteArgs),
    Events(EventsArgs),
    Metrics(MetricsArgs),
    Output(OutputArgs),
}

/// Shows a job.
#[derive(Debug, clap::Args)]
pub(crate) struct JobArg {
    /// Name or id of the job.
    pub(crate) job: String,
}

/// What a file and options say of a job spec.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SpecArgs {
    /// A SQL script (FILE.sql), or a job spec (FILE.yaml, FILE.json); `-` reads a script from stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Subtasks of every operator.
    #[arg(long, short, value_parser = clap::value_parser!(u32).range(1..=32_768), value_name = "N")]
    pub(crate) parallelism: Option<u32>,
    /// Worker processes; at most the parallelism.
    #[arg(long, short, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    pub(crate) workers: Option<u32>,
}

/// Creates a job from a script or a spec, and starts it.
///
/// Examples:
///
///   millrace jobs create flights.sql
///   millrace jobs create flights.sql --name delays --parallelism 4 --no-start
///   millrace jobs create job.yaml
///
/// A job spec holds at least a name and the script; everything else has defaults:
///
///   name: delays
///   sql: |
///     CREATE TABLE …;
///     INSERT INTO …;
///   parallelism: 4
///   checkpointing:
///     interval: 30 s
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) spec: SpecArgs,
    /// Name of the job. [default: the file's name without its extension]
    #[arg(long, value_parser = parse_job_name)]
    pub(crate) name: Option<JobName>,
    /// Only create it.
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Repeating a command with the same key creates nothing new.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait until it runs (or has finished or failed).
    #[arg(long)]
    pub(crate) wait: bool,
}

fn parse_job_name(text: &str) -> Result<JobName, String> {
    JobName::new(text).map_err(|error| error.to_string())
}

/// Lists jobs, oldest first.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only jobs in this state, such as running.
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only jobs whose name starts so.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) name: Option<String>,
    /// Most jobs to list.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) limit: usize,
}

/// Changes a job: a new version, to which it moves with its state.
///
/// A script replaces the job's script and leaves the rest of its spec; a spec replaces everything.
///
/// Examples:
///
///   millrace jobs update flights flights.sql
///   millrace jobs update flights flights.sql --parallelism 8
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpdateArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) spec: SpecArgs,
}

/// Starts a job that does not run.
///
/// Examples:
///
///   millrace jobs start flights                  from its latest checkpoint or savepoint
///   millrace jobs start flights --savepoint 3
///   millrace jobs start flights --empty          without any state
///
/// A job that was stopped with `--mode drain` has closed its windows for ever: it needs --empty or
/// --savepoint.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StartArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// Start from this savepoint of the job.
    #[arg(long, value_name = "N", conflicts_with = "empty")]
    pub(crate) savepoint: Option<u64>,
    /// Start without state, and read all inputs from their beginning.
    #[arg(long)]
    pub(crate) empty: bool,
    /// Wait until it runs (or has finished or failed).
    #[arg(long)]
    pub(crate) wait: bool,
}

/// Stops a job: with a savepoint, by draining it, or at once.
#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// How to stop.
    #[arg(long, value_enum, default_value = "savepoint")]
    pub(crate) mode: StopModeArg,
    /// Wait until it has stopped.
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopModeArg {
    /// Take a savepoint, commit sinks, then stop.
    Savepoint,
    /// Fire every open window as if all inputs had ended, take a savepoint, then stop. The windows
    /// stay closed, so the next start needs --empty or --savepoint.
    Drain,
    /// Stop at once; what was written since the last checkpoint is replayed at the next start.
    Now,
}

impl From<StopModeArg> for StopMode {
    fn from(mode: StopModeArg) -> Self {
        match mode {
            StopModeArg::Savepoint => StopMode::Savepoint,
            StopModeArg::Drain => StopMode::Drain,
            StopModeArg::Now => StopMode::Now,
        }
    }
}

/// Deletes a job with its history, checkpoints and savepoints.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// Even while it runs: it is canceled first.
    #[arg(long)]
    pub(crate) force: bool,
    /// Wait until it is gone.
    #[arg(long)]
    pub(crate) wait: bool,
}

/// Shows what happened to a job.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// Stay and show what is to come.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events after this number.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) after: u64,
}

/// Shows what a job's operators measure: rows, rates, load, watermarks, late rows, state.
#[derive(Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// Show them again every second until Ctrl-C.
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// Shows the rows that a job writes to its print tables, as they come.
///
/// A preview: the job does not wait for it, and rows are left out when they come too fast.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Name or id of the job.
    pub(crate) job: String,
    /// Only rows of this table.
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Stop after this many rows.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

/// Takes, lists and deletes savepoints: complete snapshots that stay until they are deleted.
#[derive(Debug, Subcommand)]
pub(crate) enum SavepointsCommand {
    /// Takes a savepoint of a running job and waits until it is complete.
    Create {
        /// Name or id of the job.
        job: String,
        /// Do not wait.
        #[arg(long)]
        no_wait: bool,
    },
    /// Lists a job's savepoints, newest first.
    List {
        /// Name or id of the job.
        job: String,
        /// Most savepoints to list.
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: usize,
    },
    /// Deletes a savepoint and its files.
    Delete {
        /// Name or id of the job.
        job: String,
        /// Number of the savepoint.
        savepoint: u64,
    },
}

/// Shows checkpoints: the snapshots that a job recovers from.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// Lists a job's checkpoints, newest first.
    List {
        /// Name or id of the job.
        job: String,
        /// Most checkpoints to list.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
    },
}

/// Checks and explains SQL scripts, on this machine and without a service.
#[derive(Debug, Subcommand)]
pub(crate) enum SqlCommand {
    /// Checks a script: every error and warning, with its line and a hint.
    Validate(SqlArgs),
    /// Shows how a script would run.
    Explain(SqlArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SqlArgs {
    /// The script; `-` reads it from stdin.
    #[arg(value_name = "FILE.sql")]
    pub(crate) file: PathBuf,
    /// Subtasks of every operator.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32_768), value_name = "N")]
    pub(crate) parallelism: u32,
}
