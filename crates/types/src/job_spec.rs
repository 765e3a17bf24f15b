//! The job spec: everything a person says about a job. Kebab-case keys, unknown keys
//! refused, safe defaults.

use serde::{Deserialize, Serialize};

use crate::{JobName, Millis};

/// Key groups of a job that does not choose: many divisors, so that most parallelisms divide it evenly.
pub const DEFAULT_MAX_PARALLELISM: u32 = 720;

/// What a person submits: a name, the SQL script, and how to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct JobSpec {
    /// Unique within the tenant.
    pub name: JobName,
    /// The script: DDL, `SET` and `INSERT INTO` statements in Flink's dialect.
    pub sql: String,
    /// Subtasks of every operator; one slot each.
    #[serde(default = "one")]
    pub parallelism: u32,
    /// Key groups; fixed when the job is created, the upper bound of any later parallelism.
    #[serde(default = "default_max_parallelism")]
    pub max_parallelism: u32,
    #[serde(default)]
    pub checkpointing: CheckpointSpec,
    #[serde(default)]
    pub state: StateSpec,
    #[serde(default)]
    pub restart: RestartSpec,
    #[serde(default)]
    pub resources: ResourceSpec,
    #[serde(default)]
    pub upgrade: UpgradeMode,
}

fn one() -> u32 {
    1
}

fn default_max_parallelism() -> u32 {
    DEFAULT_MAX_PARALLELISM
}

/// When and how checkpoints are taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CheckpointSpec {
    /// Time between the starts of two checkpoints. Zero switches periodic checkpoints off.
    pub interval: Millis,
    /// A checkpoint that is not complete by then fails.
    pub timeout: Millis,
    /// Least time between the end of one checkpoint and the start of the next.
    pub min_pause: Millis,
    /// Consecutive failures after which the job restarts.
    pub tolerable_failures: u32,
    /// Completed checkpoints kept.
    pub retained: u32,
    pub mode: CheckpointMode,
}

impl Default for CheckpointSpec {
    fn default() -> Self {
        CheckpointSpec {
            interval: Millis::from_secs(10),
            timeout: Millis::from_secs(600),
            min_pause: Millis(0),
            tolerable_failures: 3,
            retained: 3,
            mode: CheckpointMode::ExactlyOnce,
        }
    }
}

/// Whether inputs are aligned at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointMode {
    #[default]
    ExactlyOnce,
    AtLeastOnce,
}

/// How keyed state is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StateSpec {
    /// State of non-windowed queries that is not written for this long is dropped. Zero keeps it forever.
    pub ttl: Millis,
}

/// What happens after a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RestartSpec {
    /// First delay.
    pub initial_delay: Millis,
    /// Delays double up to this.
    pub max_delay: Millis,
    /// A job healthy for this long starts over at the first delay.
    pub reset_after: Millis,
    /// Failures with one root cause, without a checkpoint between them, after which the job is DEGRADED.
    pub degraded_after: u32,
}

impl Default for RestartSpec {
    fn default() -> Self {
        RestartSpec {
            initial_delay: Millis::from_secs(1),
            max_delay: Millis::from_secs(60),
            reset_after: Millis::from_secs(600),
            degraded_after: 5,
        }
    }
}

/// What the job's workers may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ResourceSpec {
    /// Worker processes; slots are spread evenly over them. At most the parallelism.
    pub workers: u32,
    /// Memory of one worker in MiB, shared by hot state, RocksDB and buffers.
    pub memory_mib: u32,
}

impl Default for ResourceSpec {
    fn default() -> Self {
        ResourceSpec {
            workers: 1,
            memory_mib: 1024,
        }
    }
}

/// Where an updated job starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeMode {
    /// Stop with a savepoint, start from it.
    #[default]
    Savepoint,
    /// Stop now, start from the latest checkpoint.
    LastState,
    /// Start empty.
    Stateless,
}

/// A spec that says something impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct JobSpecError {
    /// Dotted path of the field.
    pub field: &'static str,
    pub reason: String,
}

impl JobSpec {
    /// A spec with defaults for everything but the name and the script.
    pub fn new(name: JobName, sql: impl Into<String>) -> Self {
        JobSpec {
            name,
            sql: sql.into(),
            parallelism: 1,
            max_parallelism: DEFAULT_MAX_PARALLELISM,
            checkpointing: CheckpointSpec::default(),
            state: StateSpec::default(),
            restart: RestartSpec::default(),
            resources: ResourceSpec::default(),
            upgrade: UpgradeMode::default(),
        }
    }

    /// Checks the numbers against each other. The SQL is checked by compiling it.
    pub fn validate(&self) -> Result<(), JobSpecError> {
        let fail = |field, reason: String| Err(JobSpecError { field, reason });
        if self.sql.trim().is_empty() {
            return fail(
                "sql",
                "is empty: write at least one INSERT INTO statement".into(),
            );
        }
        if let Some(line) = self.sql.lines().position(|line| line.contains('\0')) {
            return fail(
                "sql",
                format!("has a NUL character in line {}: remove it", line + 1),
            );
        }
        if self.max_parallelism == 0 || self.max_parallelism > 32_768 {
            return fail(
                "max-parallelism",
                format!("is {}, expected 1 to 32768", self.max_parallelism),
            );
        }
        if self.parallelism == 0 || self.parallelism > self.max_parallelism {
            return fail(
                "parallelism",
                format!(
                    "is {}, expected 1 to max-parallelism ({})",
                    self.parallelism, self.max_parallelism
                ),
            );
        }
        if self.resources.workers == 0 || self.resources.workers > self.parallelism {
            return fail(
                "resources.workers",
                format!(
                    "is {}, expected 1 to the parallelism ({})",
                    self.resources.workers, self.parallelism
                ),
            );
        }
        if self.resources.memory_mib < 128 {
            return fail(
                "resources.memory-mib",
                format!(
                    "is {}, a worker needs at least 128",
                    self.resources.memory_mib
                ),
            );
        }
        if self.checkpointing.interval.0 != 0 && self.checkpointing.interval.0 < 10 {
            return fail(
                "checkpointing.interval",
                format!("is {}, the least is 10 ms", self.checkpointing.interval),
            );
        }
        if self.checkpointing.timeout.0 == 0 {
            return fail(
                "checkpointing.timeout",
                "is 0, no checkpoint could complete".into(),
            );
        }
        if self.checkpointing.retained == 0 {
            return fail(
                "checkpointing.retained",
                "is 0, at least one checkpoint must be kept".into(),
            );
        }
        if self.restart.degraded_after == 0 {
            return fail("restart.degraded-after", "is 0, expected at least 1".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Result<JobSpec, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn only_name_and_sql_are_required() {
        let parsed = spec(r#"{"name":"j","sql":"INSERT INTO a SELECT 1"}"#).unwrap();
        assert_eq!(
            parsed,
            JobSpec::new(JobName::new("j").unwrap(), "INSERT INTO a SELECT 1")
        );
        assert_eq!(parsed.validate(), Ok(()));
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = spec(r#"{"name":"j","sql":"x","paralelism":2}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("paralelism"), "{error}");
    }

    #[test]
    fn impossible_numbers_name_their_field() {
        type Spoil = fn(&mut JobSpec);
        let cases: [(&str, Spoil); 5] = [
            ("parallelism", |s| s.parallelism = 0),
            ("parallelism", |s| s.parallelism = 721),
            ("resources.workers", |s| s.resources.workers = 2),
            ("checkpointing.interval", |s| {
                s.checkpointing.interval = Millis(9)
            }),
            ("checkpointing.retained", |s| s.checkpointing.retained = 0),
        ];
        for (field, spoil) in cases {
            let mut spoilt = JobSpec::new(JobName::new("j").unwrap(), "x");
            spoil(&mut spoilt);
            assert_eq!(spoilt.validate().unwrap_err().field, field);
        }
    }
}
