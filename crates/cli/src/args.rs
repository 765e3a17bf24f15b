//! The command line. Its help texts are the manual.

mod client;
mod service;

use clap::{Parser, Subcommand, ValueEnum};
use millrace_types::TenantName;

pub(crate) use self::{
    client::{
        CheckpointsCommand, CreateArgs, DeleteArgs, EventsArgs, JobsCommand, ListArgs, MetricsArgs,
        OutputArgs, SavepointsCommand, SpecArgs, SqlArgs, SqlCommand, StartArgs, StopArgs,
        UpdateArgs,
    },
    service::{ControlPlaneArgs, RunArgs, UpArgs, WorkerArgs},
};

/// Runs stream processing jobs written in SQL.
///
/// On one machine, `millrace up` is the whole service, and `millrace run FILE.sql` runs one script
/// without it. The other commands talk to a running service.
///
/// Try it:
///
///   millrace run query.sql                     run a script, rows to stdout
///   millrace up                                start the service on this machine
///   millrace jobs create query.sql             have the service run the script
///   millrace jobs output query                 watch its rows
///   millrace jobs stop query                   stop it, with a savepoint
#[derive(Debug, Parser)]
#[command(
    name = "millrace",
    version,
    propagate_version = true,
    max_term_width = 100,
    verbatim_doc_comment
)]
#[command(after_help = EXIT_CODES, after_long_help = LONG_AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success · 1 failure · 2 wrong input (command line, job spec or SQL) · \
124 --timeout ran out · 130 interrupted";

const LONG_AFTER: &str = "\
Exit codes:
  0    success
  1    failure: the job failed, the service refused or cannot be reached
  2    wrong input: the command line, a job spec or a SQL script
  124  --timeout ran out
  130  interrupted by Ctrl-C (after a final checkpoint, where there is a job to stop)

Environment:
  MILLRACE_SERVER   the service that client commands talk to (--server)
  MILLRACE_TENANT   the tenant they act for (--tenant)
  MILLRACE_LOG      what to log to stderr: error, warn, info, debug, or millrace_worker=debug,info
  MILLRACE_POSTGRES_BIN   directory of the Postgres server binaries, if they are not found";

/// Options of every client command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Global {
    /// The service to talk to.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SERVER",
        default_value = "http://127.0.0.1:7090",
        value_name = "URL",
        help_heading = "Global options"
    )]
    pub(crate) server: String,
    /// The tenant to act for.
    #[arg(long, global = true, env = "MILLRACE_TENANT", default_value = "default", value_name = "NAME", help_heading = "Global options", value_parser = parse_tenant)]
    pub(crate) tenant: TenantName,
    /// How to print results. `run` prints json if not told otherwise, the others print tables.
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    pub(crate) output: Option<OutputFormat>,
}

fn parse_tenant(text: &str) -> Result<TenantName, String> {
    TenantName::new(text).map_err(|error| error.to_string())
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For programs: the API's own JSON; streams as one object per line.
    Json,
    /// For people.
    Table,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Run(RunArgs),
    #[command(subcommand)]
    Jobs(JobsCommand),
    #[command(subcommand)]
    Savepoints(SavepointsCommand),
    #[command(subcommand)]
    Checkpoints(CheckpointsCommand),
    #[command(subcommand)]
    Sql(SqlCommand),
    ControlPlane(ControlPlaneArgs),
    Worker(WorkerArgs),
}

impl Command {
    /// What is logged if `MILLRACE_LOG` does not say.
    pub(crate) fn log_level(&self) -> &'static str {
        match self {
            Command::Up(_) | Command::ControlPlane(_) | Command::Worker(_) => "info,sqlx=warn",
            Command::Run(_) => "warn",
            Command::Jobs(_)
            | Command::Savepoints(_)
            | Command::Checkpoints(_)
            | Command::Sql(_) => "error",
        }
    }
}

#[cfg(test)]
mod tests;
