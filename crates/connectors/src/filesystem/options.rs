//! The options of filesystem tables, checked against what exists.

use std::path::PathBuf;

use arrow::datatypes::SchemaRef;
use millrace_dataflow::TableOptions;
use millrace_formats::FormatSpec;
use millrace_types::Millis;

use crate::source::ConnectorError;

const SOURCE_OPTIONS: [&str; 5] = [
    "path",
    "source.monitor-interval",
    "source.rows-per-second",
    "source.max-files",
    "dead-letter.path",
];
const SINK_OPTIONS: [&str; 5] = [
    "path",
    "sink.rolling-policy.file-size",
    "sink.rolling-policy.rollover-interval",
    "sink.parallelism",
    "partition.default-name",
];
/// Understood by the SQL layer for any source.
const SHARED_PREFIXES: [&str; 2] = ["scan.", "connector"];

const DEFAULT_FILE_BYTES: u64 = 128 << 20;
const DEFAULT_ROLLOVER_MS: u64 = 30 * 60 * 1000;
const DEFAULT_MAX_FILES: usize = 100_000;

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
    /// Directory name for a null partition value.
    pub default_partition: String,
}

impl SourceOptions {
    pub fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        check_known(table, options, &SOURCE_OPTIONS)?;
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
            rows_per_second: number(table, options, "source.rows-per-second")?.unwrap_or(0),
            max_files: number(table, options, "source.max-files")?
                .map_or(DEFAULT_MAX_FILES, |n| n as usize),
            dead_letter_path,
        })
    }
}

impl SinkOptions {
    pub fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        check_known(table, options, &SINK_OPTIONS)?;
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
        .map_err(|error| ConnectorError(format!("table `{table}`: {error}")))
}

fn check_known(table: &str, options: &TableOptions, known: &[&str]) -> Result<(), ConnectorError> {
    for key in options.keys() {
        let shared = SHARED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        if !shared && !FormatSpec::owns_option(key) && !known.contains(&key.as_str()) {
            return Err(ConnectorError(format!(
                "table `{table}`: unknown option '{key}' of connector 'filesystem'; it has {}",
                known
                    .iter()
                    .map(|k| format!("'{k}'"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
    }
    Ok(())
}

fn path(table: &str, options: &TableOptions) -> Result<String, ConnectorError> {
    let path = options
        .get("path")
        .map(|path| path.trim())
        .unwrap_or_default();
    if path.is_empty() {
        return Err(ConnectorError(format!(
            "table `{table}`: option 'path' is missing"
        )));
    }
    if let Some(local) = path.strip_prefix("file://") {
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

fn number(table: &str, options: &TableOptions, key: &str) -> Result<Option<u64>, ConnectorError> {
    let Some(value) = options.get(key) else {
        return Ok(None);
    };
    let parsed = value
        .trim()
        .parse()
        .map_err(|_| bad(table, key, value, "a whole number"))?;
    Ok(Some(parsed))
}

fn millis(table: &str, options: &TableOptions, key: &str) -> Result<Option<u64>, ConnectorError> {
    let Some(value) = options.get(key) else {
        return Ok(None);
    };
    match value.parse::<Millis>() {
        Ok(Millis(ms)) if ms > 0 => Ok(Some(ms)),
        _ => Err(bad(table, key, value, "a duration such as '10 s'")),
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
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return Err(bad(table, key, value, "a size such as '128MB'")),
    };
    match text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
    {
        Some(bytes) if bytes > 0 => Ok(Some(bytes)),
        _ => Err(bad(table, key, value, "a size such as '128MB'")),
    }
}
