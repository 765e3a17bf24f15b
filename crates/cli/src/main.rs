//! `millrace`: the one binary. It is the whole service on one machine (`up`), each of its parts
//! (`control-plane`, `worker`), a runner of single scripts (`run`) and the client of a running
//! service (`jobs`, `savepoints`, `checkpoints`, `sql`).

#![allow(
    clippy::disallowed_methods,
    reason = "the edge of the program: clocks, ids and waiting come from here"
)]

mod args;
mod caret;
mod client;
mod commands;
mod data_dir;
mod exit;
mod out;
mod postgres;
mod problem_text;
mod progress;
mod rows;
mod script;
mod service;
mod table;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Threads that serve the network. Rows are processed on threads of their own.
const NETWORK_THREADS: usize = 2;

fn main() -> ExitCode {
    let args = args::Args::parse();
    if let Err(error) = start_logging(args.command.log_level()) {
        eprintln!("error: {error:#}");
        return ExitCode::from(exit::BAD_INPUT);
    }
    // A second installation in one process would be an error; this is the only one.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::warn!("a TLS provider was installed before");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .thread_name("millrace-net")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start threads: {error}");
            return ExitCode::from(exit::FAILED);
        }
    };
    let result = runtime.block_on(commands::run(args));
    // Blocking tasks that nobody waits for any more must not hold the process.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

/// Logs to stderr. `MILLRACE_LOG` takes what `RUST_LOG` does elsewhere.
fn start_logging(default: &str) -> anyhow::Result<()> {
    let filter = match std::env::var("MILLRACE_LOG") {
        Ok(text) => EnvFilter::try_new(&text).map_err(|error| {
            anyhow::anyhow!("MILLRACE_LOG `{text}` cannot be read ({error}): write a level such as info, or millrace=debug,warn")
        })?,
        Err(_) => EnvFilter::new(default),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
    Ok(())
}
