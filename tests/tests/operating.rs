//! What those who run the service meet: how long a stop takes, what a deleted job leaves, what
//! the program says when something around it is wrong.

#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    client::Client,
    job::{self, Job, Shape, spec},
    rows,
    service::{Service, binary, free_port},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
const SHAPE: Shape = Shape {
    parallelism: 2,
    workers: 2,
    checkpoint_interval: Duration::from_millis(200),
};

/// A stream without an end, into files.
fn endless(out: &Path) -> String {
    format!(
        "CREATE TABLE src (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
           WITH ('connector' = 'datagen', 'rows-per-second' = '200');
         CREATE TABLE snk (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO snk SELECT id FROM src;",
        out.display()
    )
}

/// How long the job was in a state, as a client sees it.
async fn time_until(job: &Job, state: &str) -> Result<Duration> {
    let started = Instant::now();
    while job.view().await?["state"] != state {
        if started.elapsed() > PATIENCE {
            bail!("not {state}: {}", job.view().await?);
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(started.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_takes_no_longer_than_its_last_checkpoint() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let job = Job::create(
        service.client(),
        &spec("job", &endless(&root.path().join("out")), SHAPE),
    )
    .await?;
    job.wait_for("running", PATIENCE).await?;
    // Metrics and output are looked at, as people do.
    let watcher = tokio::spawn({
        let job = job.clone();
        async move {
            loop {
                let _ = job.metrics().await;
                tokio::time::sleep(LOOK).await;
            }
        }
    });
    for mode in ["now", "savepoint", "drain", "now"] {
        job.wait_for_checkpoint_after(job.newest_checkpoint().await?, PATIENCE)
            .await?;
        job.stop(mode).await?;
        let took = time_until(&job, "stopped").await?;
        // A checkpoint of nearly no state and the end of two processes, on a busy machine.
        if took > Duration::from_secs(3) {
            bail!("{mode}: stopping took {took:?}\n{}", service.log());
        }
        job.start(&serde_json::json!({"from": "empty"})).await?;
        job.wait_for("running", PATIENCE).await?;
    }
    watcher.abort();
    Ok(())
}

fn hidden(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            found.push(name);
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_job_leaves_nothing_staged() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let out = root.path().join("out");
    let job = Job::create(service.client(), &spec("job", &endless(&out), SHAPE)).await?;
    job.wait_for("running", PATIENCE).await?;
    job.wait_for_checkpoint_after(1, PATIENCE).await?;
    let others = ".0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11.sink-1.part-x-sink-1-0-0.json.staged";
    fs::write(out.join(others), "{}\n")?;
    // As soon as rows are staged, so that dead workers leave them behind.
    let deadline = Instant::now() + PATIENCE;
    while hidden(&out)?.len() < 2 {
        if Instant::now() > deadline {
            bail!("nothing is staged in {}", out.display());
        }
        tokio::time::sleep(LOOK / 10).await;
    }
    for worker in job.workers().await? {
        job::kill(&worker)?;
    }
    let path = Client::path("jobs/job?force=true");
    let deleted = service
        .client()
        .send(reqwest::Method::DELETE, &path, &[], None);
    deleted.await?.ok()?;
    let deadline = Instant::now() + PATIENCE;
    while service
        .client()
        .get(&Client::path("jobs/job"))
        .await?
        .status
        != 404
    {
        if Instant::now() > deadline {
            bail!("the job is still there\n{}", service.log());
        }
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(hidden(&out)?, [others]);
    if rows::read(&out)?.is_empty() {
        bail!("what was committed is gone");
    }
    Ok(())
}

/// Runs the program to its end, or for so long; what it wrote to stderr.
async fn stderr_of(arguments: &[&str], directory: &Path, limit: Duration) -> Result<String> {
    let mut child = tokio::process::Command::new(binary()?)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stderr = child.stderr.take().context("stderr is piped")?;
    let mut text = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stderr, &mut text);
    // Whatever it has said by then.
    let _ = tokio::time::timeout(limit, read).await;
    child.kill().await.ok();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_not_there_is_named() -> Result<()> {
    let root = tempfile::tempdir()?;
    let (database, listen) = (free_port()?, free_port()?);
    let said = stderr_of(
        &[
            "control-plane",
            "--database-url",
            &format!("postgres://me:hunter2@127.0.0.1:{database}/db"),
            "--data-dir",
            "data",
            "--listen",
            &format!("127.0.0.1:{listen}"),
        ],
        root.path(),
        Duration::from_secs(3),
    )
    .await?;
    if !said.contains(&format!("nothing answers at 127.0.0.1:{database}")) {
        bail!("{said}");
    }
    if said.contains("hunter2") {
        bail!("the password is told: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_without_a_time_is_named_by_its_line() -> Result<()> {
    let root = tempfile::tempdir()?;
    fs::write(
        root.path().join("in.ndjson"),
        "{\"ts\":\"2024-01-01 00:00:00\"}\n\n{\"ts\":\"2024-01-01 00:00:01\"}\n{\"ts\":\"never\"}\n",
    )?;
    fs::write(
        root.path().join("q.sql"),
        "CREATE TABLE t (ts STRING, at AS TO_TIMESTAMP(ts), WATERMARK FOR at AS at)
           WITH ('connector' = 'filesystem', 'path' = 'in.ndjson', 'format' = 'json');
         CREATE TABLE o (ts STRING) WITH ('connector' = 'print');
         INSERT INTO o SELECT ts FROM t;",
    )?;
    let said = stderr_of(&["run", "q.sql"], root.path(), PATIENCE).await?;
    let wanted = "the event-time column `at` is null in";
    if !said.contains(wanted) || !said.contains("in.ndjson line 4:") {
        bail!("{said}");
    }
    Ok(())
}
