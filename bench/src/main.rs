//! Runs the Nexmark queries through the real binary (`millrace run`: service, Postgres, worker
//! process, RocksDB, checkpoints every 10 s) and prints what each costs the worker.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and prints its table"
)]

mod process;
mod query;
mod report;

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::{
    query::{QUERIES, Query},
    report::{Measurement, Report},
};

/// Nexmark on Millrace: events per second and CPU-seconds per million events.
#[derive(Debug, Parser)]
struct Options {
    /// Events per query.
    #[arg(long, default_value_t = 20_000_000)]
    events: u64,
    /// Only these queries, such as `q0,q5hop`.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<String>,
    /// Subtasks, in one worker process.
    #[arg(long, default_value_t = 2)]
    parallelism: u32,
    /// The `millrace` binary.
    #[arg(long, env = "MILLRACE_BIN")]
    binary: PathBuf,
    /// Where the queries are.
    #[arg(long, default_value = "examples/nexmark")]
    directory: PathBuf,
    /// Also writes the figures here, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let chosen: Vec<&Query> = QUERIES
        .iter()
        .filter(|query| {
            options.queries.is_empty() || options.queries.iter().any(|name| name == query.name)
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = QUERIES.iter().map(|query| query.name).collect();
        bail!("no such query; there are {}", names.join(", "));
    }
    let mut report = Report::new(options.events, options.parallelism);
    println!("{}", Report::header());
    for query in chosen {
        let measurement = run(&options, query).with_context(|| format!("query {}", query.name))?;
        println!("{}", Report::line(&measurement));
        report.add(measurement);
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Runs one query to its end.
fn run(options: &Options, query: &Query) -> Result<Measurement> {
    let path = options.directory.join(format!("{}.sql", query.name));
    let template =
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("query.sql");
    std::fs::write(
        &script,
        template.replace("${EVENTS}", &options.events.to_string()),
    )?;
    let started = Instant::now();
    let usage = process::run_and_watch(
        std::process::Command::new(&options.binary)
            .arg("run")
            .arg(&script)
            .args(["--parallelism", &options.parallelism.to_string()])
            .args(["--workers", "1"]),
    )?;
    Ok(Measurement::new(
        query,
        options.events,
        started.elapsed(),
        &usage,
    ))
}
