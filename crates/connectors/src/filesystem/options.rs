//! The options of filesystem tables, checked against what exists.

use std::path::PathBuf;

use arrow::datatypes::SchemaRef;
use millrace_dataflow::TableOptions;
use millrace_formats::FormatSpec;
use millrace_types::Millis;

use crate::{
    generator_options::belongs_to_every_source,
    nearest::did_you_mean,
    source::{ConnectorError, with_causes},
};

#[cfg(test)]
mod tests;

/// A table may be read by one job and written by another: each takes the other's options too.
pub(crate) const OPTIONS: [&str; 8] = [
    "path",
    "source.monitor-interval",
    "source.rows-per-second",
    "source.max-files",
    "dead-letter.path",
    "sink.rolling-policy.file-size",
    "sink.rolling-policy.rollover-interval",
    "partition.default-name",
];

const DEFAULT_FILE_BYTES: u64 = 128 << 20;
const DEFAULT_ROLLOVER_MS: u64 = 30 * 60 * 1000;
const DEFAULT_MAX_FILES: u64 = 100_000;
/// What a table's listing may hold at most, as its paths are kept in memory and in snapshots.
const MAX_MAX_FILES: u64 = 10_000_000;
const MAX_ROWS_PER_SECOND: u64 = 1_000_000_000;

/// How a filesystem table is read.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// A file, a directory or a glob.
    pub path: String,
    /// Look for new files this often, in ms; without it the table is bounded.
    pub monitor_interval_ms: Option<u64>,
    /// Rows per second and split at most; 0 = as fast as can be.
    pub rows_per_second: u64,
    /// Most files that one listing may hold.
    pub max_files: usize,
    pub dead_letter_path: Option<String>,
}

/// How a filesystem table is written.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    pub directory: PathBuf,
    /// A file is closed when it has this many bytes,
    pub file_bytes: u64,
    /// or is this old (ms), or a checkpoint passes.
    pub rollover_ms: u64,
    /// Directory name for a partition value that is null or empty.
    pub default_partition: String,
}

impl SourceOptions {
    pub fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        check_known(table, options)?;
        let dead_letter_path = options.get("dead-letter.path").cloned();
        let wants_letters = options
            .get("on-error")
            .is_some_and(|value| value == "dead-letter");
        if wants_letters != dead_letter_path.is_some() {
            return Err(ConnectorError(format!(
                "table `{table}`: 'on-error' = 'dead-letter' and 'dead-letter.path' (a directory for the malformed records) go together"
            )));
        }
        Ok(SourceOptions {
            path: path(table, options)?,
            monitor_interval_ms: millis(table, options, "source.monitor-interval")?,
            rows_per_second: number(
                table,
                options,
                "source.rows-per-second",
                0,
                MAX_ROWS_PER_SECOND,
            )?
            .unwrap_or(0),
            max_files: number(table, options, "source.max-files", 1, MAX_MAX_FILES)?
                .unwrap_or(DEFAULT_MAX_FILES) as usize,
            dead_letter_path,
        })
    }
}

impl SinkOptions {
    pub fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        check_known(table, options)?;
        Ok(SinkOptions {
            directory: path(table, options)?.into(),
            file_bytes: bytes(table, options, "sink.rolling-policy.file-size")?
                .unwrap_or(DEFAULT_FILE_BYTES),
            rollover_ms: millis(table, options, "sink.rolling-policy.rollover-interval")?
                .unwrap_or(DEFAULT_ROLLOVER_MS),
            default_partition: options
                .get("partition.default-name")
                .cloned()
                .unwrap_or_else(|| "__DEFAULT_PARTITION__".to_owned()),
        })
    }
}

/// The table's format over these columns.
pub(super) fn format(
    table: &str,
    options: &TableOptions,
    schema: &SchemaRef,
) -> Result<FormatSpec, ConnectorError> {
    FormatSpec::from_options(options, schema)
        .map_err(|error| ConnectorError(format!("table `{table}`: {}", with_causes(&error))))
}

fn check_known(table: &str, options: &TableOptions) -> Result<(), ConnectorError> {
    let known = |key: &str| {
        belongs_to_every_source(key) || FormatSpec::owns_option(key) || OPTIONS.contains(&key)
    };
    let Some(key) = options.keys().find(|key| !known(key)) else {
        return Ok(());
    };
    let hint = match key.as_str() {
        "sink.parallelism" => {
            "every operator runs at the job's parallelism: leave it out".to_owned()
        }
        _ => {
            let candidates =
                OPTIONS
                    .into_iter()
                    .chain(["format", "on-error", "scan.watermark.idle-timeout"]);
            let all: Vec<String> = OPTIONS.iter().map(|key| format!("'{key}'")).collect();
            format!(
                "{}It has {}, and those of its format",
                did_you_mean(key, candidates),
                all.join(", ")
            )
        }
    };
    Err(ConnectorError(format!(
        "table `{table}`: unknown option '{key}' of connector 'filesystem'; {hint}"
    )))
}

fn path(table: &str, options: &TableOptions) -> Result<String, ConnectorError> {
    let path = options
        .get("path")
        .map(|path| path.trim())
        .unwrap_or_default();
    if path.is_empty() {
        return Err(ConnectorError(format!(
            "table `{table}`: option 'path' is missing: give a file, a directory or a glob"
        )));
    }
    if let Some(local) = path.strip_prefix("file:") {
        // `file:/a`, `file:///a` and `file://localhost/a` are the same file.
        let local = match local.strip_prefix("//") {
            Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
            None => local,
        };
        if !local.starts_with('/') {
            return Err(ConnectorError(format!(
                "table `{table}`: 'path' = '{path}': after 'file://' comes an absolute path, as in 'file:///data/in'"
            )));
        }
        return Ok(local.to_owned());
    }
    if let Some((scheme, _)) = path.split_once("://") {
        return Err(ConnectorError(format!(
            "table `{table}`: 'path' = '{path}': tables on '{scheme}' are not supported yet; use a local path or file://"
        )));
    }
    Ok(path.to_owned())
}

fn bad(table: &str, key: &str, value: &str, expected: &str) -> ConnectorError {
    ConnectorError(format!(
        "table `{table}`: option '{key}' = '{value}': expected {expected}"
    ))
}

fn number(
    table: &str,
    options: &TableOptions,
    key: &str,
    min: u64,
    max: u64,
) -> Result<Option<u64>, ConnectorError> {
    let Some(value) = options.get(key) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
        _ => {
            let expected = format!("a whole number from {min} to {max}");
            Err(bad(table, key, value, &expected))
        }
    }
}

fn millis(table: &str, options: &TableOptions, key: &str) -> Result<Option<u64>, ConnectorError> {
    let Some(value) = options.get(key) else {
        return Ok(None);
    };
    match value.parse::<Millis>() {
        Ok(Millis(ms)) if ms > 0 => Ok(Some(ms)),
        _ => Err(bad(
            table,
            key,
            value,
            "a duration with its unit, such as '10 s'",
        )),
    }
}

/// A size with a binary unit, as in Flink: `128MB` is 128 · 2²⁰ bytes.
fn bytes(table: &str, options: &TableOptions, key: &str) -> Result<Option<u64>, ConnectorError> {
    let Some(value) = options.get(key) else {
        return Ok(None);
    };
    let text = value.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let shift = match text[digits..].trim() {
        "" | "b" | "bytes" => Some(0),
        "k" | "kb" => Some(10),
        "m" | "mb" => Some(20),
        "g" | "gb" => Some(30),
        _ => None,
    };
    shift
        .zip(text[..digits].parse::<u64>().ok())
        .and_then(|(shift, number)| number.checked_mul(1 << shift))
        .filter(|bytes| *bytes > 0)
        .map(Some)
        .ok_or_else(|| bad(table, key, value, "a size such as '128MB'"))
}
