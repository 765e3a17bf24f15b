//! Jobs of the service under test: submit, watch, disturb.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    client::Client,
    process::{self, Signal},
};

/// Between two looks at a job.
const LOOK: Duration = Duration::from_millis(60);

/// One job, by name.
#[derive(Debug, Clone)]
pub struct Job {
    client: Client,
    name: String,
}

/// How a job runs.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub parallelism: u32,
    pub workers: u32,
    pub checkpoint_interval: Duration,
}

/// A worker process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub id: String,
    pub pid: u32,
}

/// The spec of a job that recovers quickly.
pub fn spec(name: &str, sql: &str, shape: Shape) -> Value {
    json!({
        "name": name,
        "sql": sql,
        "parallelism": shape.parallelism,
        "checkpointing": {"interval": format!("{} ms", shape.checkpoint_interval.as_millis())},
        "restart": {"initial-delay": "100 ms", "max-delay": "1 s", "degraded-after": 8},
        "resources": {"workers": shape.workers, "memory-mib": 512},
    })
}

impl Job {
    /// Creates and starts a job.
    pub async fn create(client: &Client, spec: &Value) -> Result<Self> {
        let name = spec["name"]
            .as_str()
            .context("a spec has a name")?
            .to_owned();
        let reply = client.post(&Client::path("jobs"), spec).await?;
        reply
            .ok()
            .with_context(|| format!("cannot create job {name}"))?;
        Ok(Job {
            client: client.clone(),
            name,
        })
    }

    /// A job that is there already.
    pub fn existing(client: &Client, name: &str) -> Self {
        Job {
            client: client.clone(),
            name: name.to_owned(),
        }
    }

    fn path(&self, rest: &str) -> String {
        Client::path(&format!("jobs/{}{rest}", self.name))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job as the API shows it.
    pub async fn view(&self) -> Result<Value> {
        self.client.get(&self.path("")).await?.ok()
    }

    /// Waits for a state; one that it can never leave for it is an error with the job's events.
    pub async fn wait_for(&self, wanted: &str, patience: Duration) -> Result<Value> {
        let deadline = Instant::now() + patience;
        loop {
            // The service may be away for a moment in a test that kills it.
            let view = match self.view().await {
                Ok(view) => view,
                Err(_) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK * 4).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let state = view["state"].as_str().unwrap_or("");
            if state == wanted {
                return Ok(view);
            }
            let over = match state {
                "failed" | "canceled" => true,
                "finished" => wanted != "finished",
                "stopped" => wanted == "finished",
                _ => false,
            };
            // It tries on, but with one failure over and over.
            let over = over || view["condition"] == "degraded";
            if over || Instant::now() > deadline {
                let why = view["reason"].as_str().unwrap_or("no reason given");
                bail!(
                    "job {} is {state} ({why}), expected {wanted}{}\n{}",
                    self.name,
                    if over { "" } else { " by now" },
                    self.history().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The job's executions, one per line, for messages.
    pub async fn history(&self) -> String {
        let executions = self.items("/executions").await.unwrap_or_default();
        let mut text = String::new();
        for execution in executions {
            let field = |name: &str| execution[name].as_str().unwrap_or("-").to_owned();
            text.push_str(&format!(
                "  execution {} {} restored from {}: {}\n",
                field("id"),
                field("state"),
                field("restoredFrom"),
                field("failure")
            ));
        }
        text
    }

    async fn items(&self, rest: &str) -> Result<Vec<Value>> {
        let page = self
            .client
            .get(&self.path(&format!("{rest}?limit=500")))
            .await?
            .ok()?;
        Ok(page["items"].as_array().cloned().unwrap_or_default())
    }

    /// Attempts to run the job so far.
    pub async fn executions(&self) -> Result<Vec<Value>> {
        self.items("/executions").await
    }

    /// The number of the newest complete checkpoint; 0 before the first.
    pub async fn newest_checkpoint(&self) -> Result<u64> {
        let all = self.items("/checkpoints").await?;
        let complete = all.iter().filter(|view| view["status"] == "completed");
        Ok(complete
            .filter_map(|view| view["id"].as_u64())
            .max()
            .unwrap_or(0))
    }

    /// Waits until a checkpoint newer than `known` is complete.
    pub async fn wait_for_checkpoint_after(&self, known: u64, patience: Duration) -> Result<u64> {
        let deadline = Instant::now() + patience;
        loop {
            // The service may be away for a moment.
            if let Ok(newest) = self.newest_checkpoint().await
                && newest > known
            {
                return Ok(newest);
            }
            if Instant::now() > deadline {
                bail!(
                    "job {} has no checkpoint after {known} within {patience:?}\n{}",
                    self.name,
                    self.history().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Processes that work for the job now.
    pub async fn workers(&self) -> Result<Vec<Worker>> {
        let all = self.items("/workers").await?;
        let mut found = Vec::new();
        for view in all {
            let (Some(id), Some(pid)) = (view["id"].as_str(), view["pid"].as_u64()) else {
                continue;
            };
            let worker = Worker {
                id: id.to_owned(),
                pid: u32::try_from(pid)?,
            };
            // Listed long after its end as well: only a living process is a worker.
            if process::command_line(worker.pid).is_some_and(|line| line.contains(&worker.id)) {
                found.push(worker);
            }
        }
        Ok(found)
    }

    /// The latest metrics.
    pub async fn metrics(&self) -> Result<Value> {
        self.client.get(&self.path("/metrics")).await?.ok()
    }

    /// Asks the job to stop: `savepoint`, `drain` or `now`.
    pub async fn stop(&self, mode: &str) -> Result<()> {
        self.client
            .post(&self.path("/stop"), &json!({"mode": mode}))
            .await?
            .ok()?;
        Ok(())
    }

    /// Stops with a savepoint and gives its number.
    pub async fn stop_with_savepoint(&self, patience: Duration) -> Result<u64> {
        self.stop("savepoint").await?;
        self.wait_for("stopped", patience).await?;
        self.newest_savepoint().await?.with_context(|| {
            format!(
                "job {} has no savepoint after it stopped with one",
                self.name
            )
        })
    }

    /// The number of the newest complete savepoint.
    async fn newest_savepoint(&self) -> Result<Option<u64>> {
        let all = self.items("/savepoints").await?;
        let complete = all.iter().filter(|view| view["status"] == "completed");
        Ok(complete.filter_map(|view| view["id"].as_u64()).max())
    }

    /// Takes a savepoint of the running job and waits for it.
    pub async fn take_savepoint(&self, patience: Duration) -> Result<u64> {
        let asked = self
            .client
            .post(&self.path("/savepoints"), &json!({}))
            .await?
            .ok()?;
        let deadline = Instant::now() + patience;
        loop {
            if let Some(newest) = self.newest_savepoint().await? {
                return Ok(newest);
            }
            if Instant::now() > deadline {
                bail!(
                    "savepoint {asked} is not complete\n{}",
                    self.history().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Changes parts of the spec.
    pub async fn patch(&self, patch: &Value) -> Result<()> {
        let headers = [("if-match", "*")];
        self.client
            .json(reqwest::Method::PATCH, &self.path(""), &headers, patch)
            .await?
            .ok()?;
        Ok(())
    }

    /// Starts the job: `{"from": …}`.
    pub async fn start(&self, from: &Value) -> Result<()> {
        self.client.post(&self.path("/start"), from).await?.ok()?;
        Ok(())
    }
}

/// SIGKILL to a worker.
pub fn kill(worker: &Worker) -> Result<()> {
    process::signal(worker.pid, &worker.id, Signal::Kill)
}
