//! Jobs whose state is larger than their memory: it leaves memory, the workers stay within their
//! limit, and with a worker killed on the way nothing is lost or counted twice.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    changelog,
    compare::{self, Tolerance},
    job::{Job, Shape, kill, spec},
    process,
    random::{Chance, run_seed},
    rows,
    service::Service,
    value::Value,
};

const ROWS: u64 = 900_000;
const KEYS: u64 = 300_000;
/// Of each worker. Its share for hot state is far below what half the keys take.
const MEMORY_MIB: u64 = 128;
/// What a worker may take beyond its limit: what is not state, in a build without optimisation.
const SLACK_MIB: u64 = 64;
const SHAPE: Shape = Shape {
    parallelism: 2,
    workers: 2,
    checkpoint_interval: Duration::from_secs(1),
};
const PATIENCE: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(180);

/// Counts over the results of `per_key`, a query over `numbers` with a row `n`, `total` per key:
/// its one row says whether every key is there, once, with all of its ids. A row comes every
/// millisecond of event time, each key every five minutes.
fn script(out: &Path, per_key: &str) -> String {
    format!(
        "CREATE TABLE source (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'datagen', 'rows-per-second' = '150000',
           'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{}');
         CREATE TABLE totals (`keys` BIGINT, n BIGINT, total BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'debezium-json');
         CREATE VIEW numbers AS
           SELECT CONCAT(REPEAT('key-', 25), CAST(MOD(id, {KEYS}) AS STRING)) AS k, id, ts FROM source;
         INSERT INTO totals SELECT COUNT(*), SUM(n), SUM(total) FROM ({per_key}) AS per_key;",
        ROWS - 1,
        out.display()
    )
}

/// The most private memory that each worker has had.
#[derive(Clone, Default)]
struct Peaks(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Peaks {
    /// Watches a job's workers until dropped.
    fn watch(&self, job: Job) -> tokio::task::AbortHandle {
        let peaks = self.clone();
        tokio::spawn(async move {
            loop {
                for worker in job.workers().await.unwrap_or_default() {
                    if let Some(bytes) = process::private_memory(worker.pid) {
                        let mut peaks = peaks.0.lock().expect("no watcher panics");
                        let peak = peaks.entry(worker.pid).or_default();
                        *peak = bytes.max(*peak);
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .abort_handle()
    }
}

async fn survives_a_kill(name: &str, per_key: &str, keys: u64) -> Result<()> {
    let mut chance = Chance::new(run_seed(name), name);
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let out = root.path().join("totals");
    let mut spec = spec(name, &script(&out, per_key), SHAPE);
    spec["resources"]["memory-mib"] = serde_json::json!(MEMORY_MIB);
    let job = Job::create(service.client(), &spec).await?;
    job.wait_for("running", PATIENCE).await?;
    let peaks = Peaks::default();
    let watch = peaks.watch(job.clone());
    job.wait_for_checkpoint_after(0, PATIENCE).await?;
    tokio::time::sleep(chance.millis(500, 3_000)).await;
    let workers = job.workers().await?;
    kill(
        chance
            .pick(&workers)
            .context("the job has no workers to kill")?,
    )?;
    job.wait_for("finished", END).await?;
    watch.abort();
    let restored = job.executions().await?;
    if restored.len() < 2 || restored[0]["restoredFrom"].is_null() {
        bail!(
            "the job did not go on from a checkpoint\n{}",
            job.history().await
        );
    }
    let state = changelog::final_state(&rows::read(&out)?)?;
    let expected = format!(
        "{{\"keys\":{keys},\"n\":{ROWS},\"total\":{}}}",
        ROWS * (ROWS - 1) / 2
    );
    compare::multiset(&[Value::parse(&expected)?], &state, &Tolerance::default())?;
    let panics = service.panics();
    if !panics.is_empty() {
        bail!("{panics:?}");
    }
    let peaks = peaks.0.lock().expect("no watcher panics").clone();
    let mib = peaks.values().map(|bytes| bytes >> 20);
    if peaks.len() < 2 {
        bail!(
            "the memory of {} workers was seen, there were 2 and more",
            peaks.len()
        );
    }
    if mib.max() > Some(MEMORY_MIB + SLACK_MIB) {
        bail!("a worker with a limit of {MEMORY_MIB} MiB took more: {peaks:?}, in bytes by pid");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups() -> Result<()> {
    let per_key = "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM numbers GROUP BY k";
    survives_a_kill("groups", per_key, KEYS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values() -> Result<()> {
    let per_key = "SELECT MOD(id, 11) AS k, COUNT(DISTINCT id) AS n, SUM(DISTINCT id) AS total
        FROM numbers GROUP BY MOD(id, 11)";
    survives_a_kill("distinct-values", per_key, 11).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window() -> Result<()> {
    let per_key = "SELECT k, COUNT(*) AS n, SUM(id) AS total
        FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY k, window_start, window_end";
    survives_a_kill("a-window", per_key, KEYS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions() -> Result<()> {
    let per_key = "SELECT k, COUNT(*) AS n, SUM(id) AS total
        FROM TABLE(SESSION(TABLE numbers PARTITION BY k, DESCRIPTOR(ts), INTERVAL '20' MINUTE))
        GROUP BY k, window_start, window_end";
    survives_a_kill("sessions", per_key, KEYS).await
}
