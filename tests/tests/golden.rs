//! Every golden case, clean and disturbed: the rows are the expected ones each time.
//!
//! `MILLRACE_CASES=hop,late` runs the cases whose names contain one of these; `MILLRACE_RUNS`
//! (`one,four,killed,rescaled`) picks ways; `MILLRACE_TEST_SEED` repeats the random points.

#![allow(clippy::disallowed_methods)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    case::{Case, Mode, Run},
    client::Client,
    job::{Job, Shape, kill, spec},
    random::{Chance, run_seed},
    service::Service,
};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};

/// Cases at a time: each has up to two worker processes.
const AT_ONCE: usize = 4;
/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_as_expected_however_the_job_runs() -> Result<()> {
    let seed = run_seed("golden");
    let runs = std::env::var("MILLRACE_RUNS").unwrap_or_default();
    let root = tempfile::tempdir()?;
    let mut service = Service::up(root.path()).await?;
    let started = Instant::now();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    let mut total = 0;
    for case in Case::all()? {
        if case.spec.compare == Mode::Error {
            continue;
        }
        let case = Arc::new(case);
        for run in Run::ALL {
            let picked = runs.is_empty() || runs.split(',').any(|name| name == run.name());
            if !case.wants(run) || !picked {
                continue;
            }
            total += 1;
            let (case, permits) = (case.clone(), permits.clone());
            let client = service.client().clone();
            let out = root.path().join("out").join(&case.name).join(run.name());
            tasks.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let name = format!("{}-{}", case.name, run.name());
                let mut chance = Chance::new(seed, &name);
                let begun = Instant::now();
                let result = one_run(&client, &case, run, &out, &mut chance).await;
                let verdict = if result.is_ok() { "ok" } else { "FAILED" };
                eprintln!("{verdict} {name} {:.1} s", begun.elapsed().as_secs_f64());
                result.with_context(|| format!("case {} ({})", case.name, run.name()))
            });
        }
    }
    let mut failures = Vec::new();
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result? {
            failures.push(format!("{error:#}"));
        }
    }
    eprintln!("{total} runs in {:.0} s", started.elapsed().as_secs_f64());
    failures.extend(service.panics());
    let status = service.stop().await?;
    if !status.success() {
        failures.push(format!(
            "the service ended with {status}:\n{}",
            service.log()
        ));
    }
    report(failures)
}

fn report(mut failures: Vec<String>) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    failures.sort();
    for failure in &failures {
        eprintln!("---- {failure}");
    }
    bail!("{} failures", failures.len())
}

async fn one_run(
    client: &Client,
    case: &Case,
    run: Run,
    out: &Path,
    chance: &mut Chance,
) -> Result<()> {
    std::fs::create_dir_all(out)?;
    let disturbed = matches!(run, Run::Killed | Run::Rescaled);
    let sql = case.script(out, disturbed)?;
    let (parallelism, workers, interval) = match run {
        Run::One => (1, 1, 10_000),
        Run::Four => (4, 2, 10_000),
        Run::Killed => (2, 2, 200),
        Run::Rescaled => (2, 1, 10_000),
    };
    let shape = Shape {
        parallelism,
        workers,
        checkpoint_interval: Duration::from_millis(interval),
    };
    let job = Job::create(
        client,
        &spec(&format!("{}-{}", case.name, run.name()), &sql, shape),
    )
    .await?;
    match run {
        Run::One | Run::Four => {}
        Run::Killed => disturb(&job, chance, case.throttled_millis()?).await?,
        Run::Rescaled => rescale(&job, chance, case.throttled_millis()?).await?,
    }
    job.wait_for("finished", PATIENCE).await?;
    let executions = job.executions().await?.len();
    if (disturbed && executions < 2) || (!disturbed && executions != 1) {
        bail!("{executions} executions\n{}", job.history().await);
    }
    if run == Run::One {
        check_counts(&job, case).await?;
    }
    case.check(out, !disturbed)
}

/// What the job says of the rows that it left out.
async fn check_counts(job: &Job, case: &Case) -> Result<()> {
    for (name, expected) in [
        ("lateRows", case.spec.late_rows),
        ("badRecords", case.spec.bad_records),
    ] {
        let Some(expected) = expected else { continue };
        let metrics = job.metrics().await?;
        let operators = metrics["operators"].as_array().cloned().unwrap_or_default();
        let counted: u64 = operators
            .iter()
            .filter_map(|operator| operator[name].as_u64())
            .sum();
        if counted != expected {
            bail!("metrics count {counted} {name}, expected {expected}: {metrics}");
        }
    }
    Ok(())
}

/// Kills one worker while rows are on their way.
async fn disturb(job: &Job, chance: &mut Chance, millis: u64) -> Result<()> {
    job.wait_for("running", PATIENCE).await?;
    tokio::time::sleep(chance.millis(0, millis * 7 / 10)).await;
    let workers = job.workers().await?;
    let victim = chance
        .pick(&workers)
        .context("the job has no workers to kill")?;
    kill(victim)
}

/// Stops the job midway and starts it at another parallelism over two workers.
async fn rescale(job: &Job, chance: &mut Chance, millis: u64) -> Result<()> {
    job.wait_for("running", PATIENCE).await?;
    tokio::time::sleep(chance.millis(0, millis * 7 / 10)).await;
    let savepoint = job.stop_with_savepoint(PATIENCE).await?;
    job.patch(&json!({"parallelism": 3, "resources": {"workers": 2}}))
        .await?;
    job.start(&json!({"from": {"savepoint": savepoint}})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_scripts_are_refused_with_place_and_reason() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let mut failures = Vec::new();
    for case in Case::all()? {
        if case.spec.compare != Mode::Error {
            continue;
        }
        let sql = case.script(root.path(), false)?;
        if let Err(error) = check_refusal(service.client(), &case, &sql).await {
            failures.push(format!("case {}: {error:#}", case.name));
        }
    }
    report(failures)
}

async fn check_refusal(client: &Client, case: &Case, sql: &str) -> Result<()> {
    let reply = client
        .post(&Client::path("sql/validate"), &json!({"sql": sql}))
        .await?;
    let answer = reply.ok()?;
    if answer["valid"] != false {
        bail!("the script is said to be valid");
    }
    let found = answer["diagnostics"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for expected in &case.spec.errors {
        let matches = found.iter().any(|item| {
            let number = |name: &str| item[name].as_u64();
            let text = |name: &str| item[name].as_str().unwrap_or("");
            item["code"] == expected.code.as_str()
                && expected
                    .line
                    .is_none_or(|line| number("line") == Some(line))
                && expected
                    .column
                    .is_none_or(|column| number("column") == Some(column))
                && format!("{} {}", text("message"), text("hint")).contains(&expected.message)
        });
        if !matches {
            bail!(
                "expected {expected:?}, found {}",
                serde_json::to_string(&found)?
            );
        }
    }
    // A job with this script is refused in the same words.
    let job = json!({"name": case.name, "sql": sql});
    let reply = client.post(&Client::path("jobs"), &job).await?;
    if reply.status != 422
        || reply.code() != "invalid-sql"
        || reply.body["errors"].as_array().is_none_or(Vec::is_empty)
    {
        bail!(
            "creating the job was answered with HTTP {}: {}",
            reply.status,
            reply.body
        );
    }
    Ok(())
}
