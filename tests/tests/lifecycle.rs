//! The ways of a job besides running to its end at once: savepoints, stops, starts, upgrades, a
//! service that ends and comes back, directories that are watched, scripts in the foreground.
//!
//! They borrow a golden case: whatever happens on the way, its rows must come out.

#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    case::Case,
    client::Client,
    job::{Job, Shape, spec},
    rows,
    service::{Service, binary},
    value::Value,
};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
const SHAPE: Shape = Shape {
    parallelism: 2,
    workers: 1,
    checkpoint_interval: Duration::from_millis(200),
};
/// Long enough for a few checkpoints, too short for the input to end.
const MIDWAY: Duration = Duration::from_millis(900);

/// A case whose rows need state: a lost or repeated row changes a sum.
const CASE: &str = "tumble-keyed";

/// A slowed-down job of the case, its output directory named like the job.
async fn start(service: &Service, root: &Path, name: &str) -> Result<(Job, Case, PathBuf)> {
    let case = Case::named(CASE)?;
    let out = root.join(name);
    let job = Job::create(
        service.client(),
        &spec(name, &case.script(&out, true)?, SHAPE),
    )
    .await?;
    job.wait_for("running", PATIENCE).await?;
    tokio::time::sleep(MIDWAY).await;
    Ok((job, case, out))
}

async fn finish(job: &Job, case: &Case, out: &Path) -> Result<()> {
    job.wait_for("finished", PATIENCE).await?;
    case.check(out, false)
        .with_context(|| format!("job {}", job.name()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_stop_and_start_wherever_they_are_told_to() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;

    // At once, and on from the latest checkpoint.
    let (job, case, out) = start(&service, root.path(), "now").await?;
    job.stop("now").await?;
    job.wait_for("stopped", PATIENCE).await?;
    job.start(&json!({"from": "latest"})).await?;
    finish(&job, &case, &out).await?;

    // A savepoint on the way disturbs nothing.
    let (job, case, out) = start(&service, root.path(), "savepoint").await?;
    let savepoint = job.take_savepoint(PATIENCE).await?;
    finish(&job, &case, &out).await?;
    if job.executions().await?.len() != 1 {
        bail!("a savepoint restarted the job");
    }

    // The job that has finished starts again from it: its sink gets the rest a second time.
    let files = || rows::part_files(&out.join("results")).map(|files| files.len());
    let before = files()?;
    job.start(&json!({"from": {"savepoint": savepoint}}))
        .await?;
    job.wait_for("finished", PATIENCE).await?;
    if files()? == before {
        bail!("nothing was written after the start from the savepoint");
    }

    // Empty: everything again, into an empty directory.
    let (job, case, out) = start(&service, root.path(), "empty").await?;
    job.stop("now").await?;
    job.wait_for("stopped", PATIENCE).await?;
    fs::remove_dir_all(&out)?;
    job.start(&json!({"from": "empty"})).await?;
    finish(&job, &case, &out).await?;

    // Draining fires what is open, though the input has not ended.
    let (job, _, out) = start(&service, root.path(), "drain").await?;
    job.stop("drain").await?;
    job.wait_for("stopped", PATIENCE).await?;
    let counted = sum(&rows::read(&out.join("results"))?, "n");
    if counted == 0.0 || counted >= 90.0 {
        bail!("{counted} rows in the windows of a job that was drained midway, expected 1 to 89");
    }

    // Delete: gone from the listing, and its name is free again.
    let deleted = service
        .client()
        .send(
            reqwest::Method::DELETE,
            &Client::path("jobs/drain"),
            &[],
            None,
        )
        .await?;
    deleted.ok()?;
    let deadline = Instant::now() + PATIENCE;
    while service
        .client()
        .get(&Client::path("jobs/drain"))
        .await?
        .status
        != 404
    {
        if Instant::now() > deadline {
            bail!("the job is still there");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    start(&service, root.path(), "drain").await?;
    no_panics(&service)
}

fn sum(found: &[Value], column: &str) -> f64 {
    let numbers = found.iter().filter_map(|row| match row.get(column) {
        Some(Value::Number(number)) => Some(number.as_f64()),
        _ => None,
    });
    numbers.sum()
}

fn no_panics(service: &Service) -> Result<()> {
    let panics = service.panics();
    if panics.is_empty() {
        Ok(())
    } else {
        bail!("{panics:?}")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_job_moves_to_its_new_version() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    for mode in ["savepoint", "last-state"] {
        let (job, case, out) = start(&service, root.path(), mode).await?;
        job.patch(&json!({"parallelism": 3, "resources": {"workers": 2}, "upgrade": mode}))
            .await?;
        let deadline = Instant::now() + PATIENCE;
        while job.view().await?["runningVersion"] != 2 {
            if Instant::now() > deadline {
                bail!(
                    "version 2 does not run: {}\n{}",
                    job.view().await?,
                    job.history().await
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        finish(&job, &case, &out).await?;
    }
    no_panics(&service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_go_on_after_the_service_was_ended_and_started_again() -> Result<()> {
    let root = tempfile::tempdir()?;
    let mut service = Service::up(root.path()).await?;
    let (job, case, out) = start(&service, root.path(), "job").await?;
    let status = service.stop().await?;
    if !status.success() {
        bail!("the service ended with {status}:\n{}", service.log());
    }
    if !job.workers().await.unwrap_or_default().is_empty() {
        bail!("workers outlived the service");
    }
    service.restart().await?;
    finish(&job, &case, &out).await?;
    no_panics(&service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watched_directory_is_read_as_it_fills() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let (inbox, out) = (root.path().join("in"), root.path().join("out"));
    fs::create_dir_all(&inbox)?;
    let sql = format!(
        "CREATE TABLE src (id INT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', 'source.monitor-interval' = '100 ms');
         CREATE TABLE snk (id INT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO snk SELECT id FROM src;",
        inbox.display(),
        out.display()
    );
    let job = Job::create(service.client(), &spec("watch", &sql, SHAPE)).await?;
    job.wait_for("running", PATIENCE).await?;
    let deliver = |number: u32| -> Result<()> {
        let staged = root.path().join("staged");
        let lines: String = (0..10)
            .map(|row| format!("{{\"id\":{}}}\n", number * 10 + row))
            .collect();
        fs::write(&staged, lines)?;
        fs::rename(&staged, inbox.join(format!("{number}.ndjson")))?;
        Ok(())
    };
    for number in 0..3 {
        deliver(number)?;
        wait_for_rows(&out, 10 * (number as usize + 1)).await?;
    }
    // What comes while the job is stopped is read after it.
    let savepoint = job.stop_with_savepoint(PATIENCE).await?;
    deliver(3)?;
    job.patch(&json!({"parallelism": 3})).await?;
    job.start(&json!({"from": {"savepoint": savepoint}}))
        .await?;
    wait_for_rows(&out, 40).await?;
    job.stop("now").await?;
    job.wait_for("stopped", PATIENCE).await?;
    let mut ids: Vec<String> = rows::read(&out)?.iter().map(Value::to_string).collect();
    ids.sort();
    ids.dedup();
    if ids.len() != 40 || rows::read(&out)?.len() != 40 {
        bail!(
            "{} different rows of {}",
            ids.len(),
            rows::read(&out)?.len()
        );
    }
    no_panics(&service)
}

async fn wait_for_rows(out: &Path, expected: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = rows::read(out)?.len();
        if found >= expected {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{found} rows after {PATIENCE:?}, expected {expected}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_runs_in_the_foreground() -> Result<()> {
    let root = tempfile::tempdir()?;
    let script = "
        CREATE TABLE numbers (id INT, x DOUBLE) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence',
          'fields.id.start' = '1', 'fields.id.end' = '100');
        CREATE TABLE out (parity INT, n BIGINT, total BIGINT) WITH ('connector' = 'print');
        INSERT INTO out SELECT MOD(id, 2), COUNT(*), SUM(CAST(id AS BIGINT)) FROM numbers GROUP BY MOD(id, 2);";
    let file = root.path().join("sums.sql");
    fs::write(&file, script)?;
    let mut command = tokio::process::Command::new(binary()?);
    command
        .arg("run")
        .arg(&file)
        .args(["--parallelism", "2", "--workers", "2"])
        .current_dir(root.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE * 2, command.output())
        .await
        .context("it hangs")??;
    let (stdout, stderr) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    if !output.status.success() {
        bail!("{}: {stderr}", output.status);
    }
    // Every line is a row; the last of each parity holds the sums.
    for (parity, total) in [(0, 2_550), (1, 2_500)] {
        let wanted = format!("\"parity\":{parity},\"n\":50,\"total\":{total}");
        if !stdout.lines().any(|line| line.contains(&wanted)) {
            bail!("no row with {wanted} in:\n{stdout}\n{stderr}");
        }
    }
    for line in stdout.lines() {
        Value::parse(line).with_context(|| format!("not a row: {line}"))?;
    }
    Ok(())
}
