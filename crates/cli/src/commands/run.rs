//! `millrace run`: one script, from its own service to its last row.
//!
//! The service is the whole one, so a run shows what the service would do: workers are
//! processes, state is in RocksDB, checkpoints are taken. With a checkpoint directory, cluster and
//! checkpoints stay there, and the next run of the same script finds its job and goes on.

mod follow;
mod job;
mod output;

use std::{collections::BTreeMap, path::Path};

use millrace_control_plane::{
    Compiler,
    api::view::{ExplainView, GraphView},
    offline,
};
use millrace_types::{JobSpec, Millis, TenantName};

use self::{
    follow::{Ending, Follow},
    job::Submitted,
};
use crate::{
    args::{OutputFormat, RunArgs},
    client::Client,
    commands::up::wait_until_ready,
    data_dir::DataDir,
    exit::{self, Failure},
    postgres::{self, Durability},
    problem_text,
    progress::Progress,
    rows,
    script::Script,
    service::{LocalService, ServiceOptions, Signals, compiler},
};

pub(super) async fn run(args: RunArgs, format: OutputFormat) -> anyhow::Result<()> {
    // Signals first, so that one that comes early is not lost.
    let mut signals = Signals::new()?;
    let script = Script::read(&args.file)?.with_settings(&args.settings);
    let compiler = compiler();
    let (spec, graph) = compile(&args, &script, &compiler).await?;
    let sources = graph
        .nodes
        .iter()
        .filter(|node| node.inputs.is_empty())
        .map(|node| node.id);
    let mut progress = Progress::new(!args.quiet, sources.collect());

    let home = Home::open(args.checkpoint_dir.as_deref())?;
    progress.phase("starting Postgres and the control plane");
    let service = tokio::select! {
        service = start(&home, compiler) => service?,
        () = signals.next() => return Err(Failure::error(exit::INTERRUPTED, "")),
    };
    let ended = run_on(
        &service,
        &args,
        &spec,
        &graph,
        format,
        &mut progress,
        &mut signals,
    )
    .await;
    progress.clear();
    let stopped = service.stop().await;
    home.close();
    let ending = ended?;
    stopped?;
    conclude(ending, args.checkpoint_dir.as_deref())
}

async fn start(home: &Home, compiler: Compiler) -> anyhow::Result<LocalService> {
    let options = ServiceOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        grpc_listen: ([127, 0, 0, 1], 0).into(),
        database_url: None,
        storage_url: None,
        durability: home.durability(),
        foreground: true,
    };
    LocalService::start(home.data_dir(), options, compiler).await
}

async fn run_on(
    service: &LocalService,
    args: &RunArgs,
    spec: &JobSpec,
    graph: &GraphView,
    format: OutputFormat,
    progress: &mut Progress,
    signals: &mut Signals,
) -> anyhow::Result<Ending> {
    let client = Client::new(&service.url(), TenantName::new("default")?)?;
    let (job, seen) = tokio::select! {
        submitted = async {
            wait_until_ready(service).await?;
            job::submit(&client, spec).await
        } => match submitted? {
            Submitted::Runs { job, seen } => (job, seen),
            Submitted::HadFinished => return Ok(Ending::HadFinished),
        },
        () = signals.next() => return Ok(Ending::Interrupted { saved: false }),
    };
    let rows = service.control_plane.lossless_output(job);
    let shape = rows::shape(&print_tables(graph));
    let follow = Follow {
        client: &client,
        job,
        seen,
        timeout: args.timeout.map(Millis::as_duration),
        progress,
        signals,
    };
    follow
        .until_it_ends(output::spawn(rows, format, shape))
        .await
}

/// Compiles the script here first: what is wrong with it is told without starting anything.
async fn compile(
    args: &RunArgs,
    script: &Script,
    compiler: &Compiler,
) -> anyhow::Result<(JobSpec, GraphView)> {
    let mut spec = JobSpec::new(script.job_name(), script.sql());
    spec.parallelism = args.parallelism;
    spec.max_parallelism = spec.max_parallelism.max(args.parallelism);
    spec.resources.workers = args.workers;
    spec.resources.memory_mib = args.memory_mib;
    spec.checkpointing.interval = args.checkpoint_interval;
    // Somebody waits at the terminal: a job that keeps failing is told soon.
    spec.restart.initial_delay = Millis(200);
    spec.restart.max_delay = Millis::from_secs(5);
    spec.restart.degraded_after = 3;
    let refused = |text: String| Failure::error(exit::BAD_INPUT, text.trim_end());
    if args.workers > args.parallelism {
        return Err(refused(format!(
            "error: --workers {} is more than --parallelism {}: every worker needs at least one subtask",
            args.workers, args.parallelism
        )));
    }
    match offline::explain(compiler, spec.clone()).await {
        Ok(ExplainView {
            plan,
            graph,
            warnings,
            ..
        }) => {
            let warnings: Vec<_> = warnings.iter().map(|item| script.localize(item)).collect();
            if !warnings.is_empty() && !args.quiet {
                eprint!(
                    "{}",
                    problem_text::findings(&warnings, &script.file, &script.text)
                );
            }
            if graph.nodes.is_empty() {
                return Err(refused(format!(
                    "error: {} runs nothing: it has no INSERT INTO statement{}",
                    script.file,
                    if plan.is_empty() {
                        ""
                    } else {
                        "\n  hint: `millrace sql explain` shows the plan"
                    }
                )));
            }
            Ok((spec, graph))
        }
        Err(mut problem) => {
            problem.errors = problem
                .errors
                .iter()
                .map(|item| script.localize(item))
                .collect();
            Err(refused(problem_text::of_script(
                &problem,
                &script.file,
                &script.text,
            )))
        }
    }
}

/// The tables whose rows are printed, and whether their results are updated.
fn print_tables(graph: &GraphView) -> BTreeMap<String, bool> {
    graph
        .nodes
        .iter()
        .filter(|node| matches!(node.connector.as_deref(), Some("print" | "collect")))
        .filter_map(|node| {
            let table = node.table.clone()?;
            Some((table, node.changelog != "append"))
        })
        .collect()
}

/// Where the run keeps what it needs.
enum Home {
    /// Gone with the run.
    Temporary {
        data_dir: DataDir,
        directory: tempfile::TempDir,
    },
    Kept(DataDir),
}

impl Home {
    fn open(checkpoint_dir: Option<&Path>) -> anyhow::Result<Self> {
        match checkpoint_dir {
            Some(path) => DataDir::open(path).map(Home::Kept),
            None => {
                let directory = tempfile::Builder::new().prefix("millrace-run-").tempdir()?;
                let data_dir = DataDir::open(directory.path())?;
                Ok(Home::Temporary {
                    data_dir,
                    directory,
                })
            }
        }
    }

    fn data_dir(&self) -> &DataDir {
        match self {
            Home::Temporary { data_dir, .. } | Home::Kept(data_dir) => data_dir,
        }
    }

    fn durability(&self) -> Durability {
        match self {
            Home::Temporary { .. } => Durability::Ephemeral,
            Home::Kept(_) => Durability::Safe,
        }
    }

    /// Removes what is temporary.
    fn close(self) {
        if let Home::Temporary {
            data_dir,
            directory,
        } = self
        {
            postgres::remove_outside(data_dir.path());
            if let Err(error) = directory.close() {
                tracing::warn!(%error, "the run's temporary files cannot be removed");
            }
        }
    }
}

/// Turns the end of the job into the end of the command.
fn conclude(ending: Ending, checkpoint_dir: Option<&Path>) -> anyhow::Result<()> {
    let goes_on = |saved: bool| match checkpoint_dir {
        Some(dir) if saved => format!(
            "; run it again with --checkpoint-dir {} to go on",
            dir.display()
        ),
        _ => String::new(),
    };
    match ending {
        Ending::Finished => Ok(()),
        Ending::HadFinished => {
            eprintln!(
                "the job has finished in an earlier run; remove the --checkpoint-dir to run it from the beginning"
            );
            Ok(())
        }
        Ending::ReaderGone => Ok(()),
        Ending::Failed(reason) => Err(Failure::error(
            exit::FAILED,
            format!("error: the job failed: {reason}"),
        )),
        Ending::Interrupted { saved } => Err(Failure::error(
            exit::INTERRUPTED,
            format!("stopped{}", goes_on(saved)),
        )),
        Ending::TimedOut { saved } => Err(Failure::error(
            exit::TIMED_OUT,
            format!("stopped: --timeout ran out{}", goes_on(saved)),
        )),
    }
}
