//! Two real jobs whose processes are killed all the while: workers at random, then the control
//! plane, then their database is away for 20 s. The files hold every window once. And jobs
//! whose state is larger than their memory (`beyond_memory`).

#![allow(clippy::disallowed_methods)]

#[path = "chaos/beyond_memory.rs"]
mod beyond_memory;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    compare::{self, Tolerance},
    job::{Job, Shape, kill, spec},
    postgres::Postgres,
    process::{self, Signal},
    random::{Chance, run_seed},
    rows,
    service::Service,
    value::Value,
};

/// How long workers are killed.
const KILLING: Duration = Duration::from_secs(10);
/// How long the control plane is away, and then the database.
const CONTROL_PLANE_AWAY: Duration = Duration::from_secs(4);
const DATABASE_AWAY: Duration = Duration::from_secs(20);
/// For every single step.
const PATIENCE: Duration = Duration::from_secs(60);
/// For the end of the job.
const END: Duration = Duration::from_secs(180);

const CLEAN: Shape = Shape {
    parallelism: 1,
    workers: 1,
    checkpoint_interval: Duration::from_secs(10),
};
const DISTURBED: Shape = Shape {
    parallelism: 2,
    workers: 2,
    checkpoint_interval: Duration::from_millis(500),
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Replaces text that must be there, so that a changed example is noticed.
fn replace(script: &str, from: &str, to: &str) -> Result<String> {
    if !script.contains(from) {
        bail!("the example script has no {from}");
    }
    Ok(script.replacen(from, to, 1))
}

/// The flights example over files, its source slowed down to `rate` rows per second (0: not).
fn flights(out: &Path, rate: u32) -> Result<String> {
    let script = fs::read_to_string(repository().join("examples/flights.sql"))?;
    let data = repository()
        .join("examples/data/flights-2013-01.ndjson.gz")
        .canonicalize()?;
    let script = replace(
        &script,
        "'path' = 'examples/data/flights-2013-01.ndjson.gz'",
        &format!(
            "'path' = '{}', 'source.rows-per-second' = '{rate}'",
            data.display()
        ),
    )?;
    let sink = format!(
        "'connector' = 'filesystem', 'path' = '{}', 'format' = 'json'",
        out.display()
    );
    replace(&script, "'connector' = 'print'", &sink)
}

const NEXMARK_EVENTS: u64 = 110_000;
const NEXMARK_BIDS: u64 = NEXMARK_EVENTS / 50 * 46;

/// The Nexmark example over files; paced, events come as fast as their times say.
fn nexmark(out: &Path, paced: bool) -> Result<String> {
    let script = fs::read_to_string(repository().join("examples/nexmark-hop.sql"))?;
    let script = replace(
        &script,
        "'first-event.rate' = '100000'",
        "'first-event.rate' = '2000'",
    )?;
    let speed = if paced { "false" } else { "true" };
    let script = replace(
        &script,
        "'events.num' = '10000000'",
        &format!(
            "'events.num' = '{NEXMARK_EVENTS}', 'nexmark.splits' = '4', 'max-emit-speed' = '{speed}'"
        ),
    )?;
    let sink = format!(
        "'connector' = 'filesystem', 'path' = '{}', 'format' = 'json'",
        out.display()
    );
    replace(&script, "'connector' = 'blackhole'", &sink)
}

/// Kills a random worker every few seconds; returns how many died.
async fn kill_workers(job: &Job, chance: &mut Chance) -> Result<u32> {
    let deadline = Instant::now() + KILLING;
    let mut killed = 0;
    while Instant::now() < deadline {
        tokio::time::sleep(chance.millis(1_000, 3_000)).await;
        if let Some(victim) = chance.pick(&job.workers().await?) {
            // It may just have ended because another died.
            if kill(victim).is_ok() {
                killed += 1;
            }
        }
    }
    Ok(killed)
}

/// Kills the control plane while its job is healthy. The workers stay, and the next control plane
/// takes them over as they are.
async fn kill_control_plane(service: &mut Service, job: &Job) -> Result<()> {
    job.wait_for("running", PATIENCE).await?;
    let known = job.newest_checkpoint().await?;
    let known = job.wait_for_checkpoint_after(known, PATIENCE).await?;
    let (executions, workers) = (job.executions().await?, job.workers().await?);
    if workers.is_empty() {
        bail!("a running job has no workers");
    }
    service.kill()?;
    tokio::time::sleep(CONTROL_PLANE_AWAY).await;
    for worker in &workers {
        if !process::command_line(worker.pid).is_some_and(|line| line.contains(&worker.id)) {
            bail!("worker {} ended with the control plane", worker.id);
        }
    }
    service.restart().await?;
    job.wait_for_checkpoint_after(known, PATIENCE).await?;
    let (executions_now, workers_now) = (job.executions().await?, job.workers().await?);
    if executions_now.len() != executions.len() || workers_now != workers {
        bail!(
            "the new control plane restarted the job: workers {workers:?} became {workers_now:?}\n{}",
            job.history().await
        );
    }
    Ok(())
}

fn read_and_check_once(out: &Path, key: &[&str]) -> Result<Vec<Value>> {
    let found = rows::read(out)?;
    let mut keys: Vec<Vec<Option<&Value>>> = found
        .iter()
        .map(|row| key.iter().map(|name| row.get(name)).collect())
        .collect();
    keys.sort();
    let all = keys.len();
    keys.dedup();
    if keys.len() != all {
        bail!("{} windows came more than once", all - keys.len());
    }
    let staged = rows::staged_files(out);
    if !staged.is_empty() {
        bail!("staged files remain: {staged:?}");
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flights_survive_the_death_of_any_process() -> Result<()> {
    let mut chance = Chance::new(run_seed("flights"), "flights");
    let root = tempfile::tempdir()?;
    let mut service = Service::up(root.path()).await?;
    let key = ["window_start", "origin"];
    // The order of additions may turn the last digit of a rounded mean.
    let tolerance = Tolerance {
        approximate: ["avg_delay".to_owned()].into(),
    };

    let clean_dir = root.path().join("clean");
    let clean = Job::create(
        service.client(),
        &spec("clean", &flights(&clean_dir, 0)?, CLEAN),
    )
    .await?;
    clean.wait_for("finished", PATIENCE).await?;
    let clean_rows = read_and_check_once(&clean_dir, &key)?;
    let mut expected = Vec::new();
    let packed =
        fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos/flights.ndjson.gz"))?;
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut expected)?;
    let expected = rows::read_lines(&expected)?;
    compare::multiset(&expected, &clean_rows, &tolerance).context("clean run, against DuckDB")?;

    let out = root.path().join("disturbed");
    let job = Job::create(
        service.client(),
        &spec("disturbed", &flights(&out, 450)?, DISTURBED),
    )
    .await?;
    job.wait_for("running", PATIENCE).await?;
    let killed = kill_workers(&job, &mut chance).await?;
    kill_control_plane(&mut service, &job).await?;

    // Postgres stands still: connections hang instead of failing.
    let frozen = service.postgres_processes()?;
    let mark = "postgres";
    for pid in &frozen {
        process::signal(*pid, mark, Signal::Stop)?;
    }
    tokio::time::sleep(DATABASE_AWAY).await;
    for pid in &frozen {
        process::signal(*pid, mark, Signal::Continue)?;
    }
    job.wait_for("finished", END).await?;
    eprintln!(
        "flights: {killed} workers killed, {} executions",
        job.executions().await?.len()
    );
    if job.executions().await?.len() < 2 {
        bail!("no kill had an effect");
    }
    compare::multiset(&clean_rows, &read_and_check_once(&out, &key)?, &tolerance)
        .context("disturbed run, against the clean one")?;
    let panics = service.panics();
    if !panics.is_empty() {
        bail!("{panics:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nexmark_survives_the_death_of_any_process() -> Result<()> {
    let mut chance = Chance::new(run_seed("nexmark"), "nexmark");
    let root = tempfile::tempdir()?;
    process::open_to_all(root.path())?;
    let postgres = Postgres::start(root.path())?;
    let mut service = Service::control_plane(root.path(), &postgres.url()).await?;
    let key = ["auction", "window_start"];

    let clean_dir = root.path().join("clean");
    let clean = Job::create(
        service.client(),
        &spec("clean", &nexmark(&clean_dir, false)?, CLEAN),
    )
    .await?;
    clean.wait_for("finished", PATIENCE).await?;
    let clean_rows = read_and_check_once(&clean_dir, &key)?;
    // 46 of 50 events are bids, each of which is in 10 s / 2 s windows; none is late.
    let counted: f64 = clean_rows
        .iter()
        .filter_map(|row| match row.get("bids") {
            Some(Value::Number(bids)) => Some(bids.as_f64()),
            _ => None,
        })
        .sum();
    if counted != (5 * NEXMARK_BIDS) as f64 {
        bail!("{counted} bids in all windows, expected 5 * {NEXMARK_BIDS}");
    }

    let out = root.path().join("disturbed");
    let job = Job::create(
        service.client(),
        &spec("disturbed", &nexmark(&out, true)?, DISTURBED),
    )
    .await?;
    job.wait_for("running", PATIENCE).await?;
    let killed = kill_workers(&job, &mut chance).await?;
    kill_control_plane(&mut service, &job).await?;

    // Postgres dies: connections break and new ones are refused.
    postgres.crash()?;
    tokio::time::sleep(DATABASE_AWAY).await;
    postgres.launch()?;
    job.wait_for("finished", END).await?;
    eprintln!(
        "nexmark: {killed} workers killed, {} executions",
        job.executions().await?.len()
    );
    if job.executions().await?.len() < 2 {
        bail!("no kill had an effect");
    }
    compare::multiset(
        &clean_rows,
        &read_and_check_once(&out, &key)?,
        &Tolerance::default(),
    )
    .context("disturbed run, against the clean one")?;
    let panics = service.panics();
    if !panics.is_empty() {
        bail!("{panics:?}");
    }
    Ok(())
}
