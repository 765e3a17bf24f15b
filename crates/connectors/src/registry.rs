//! Finds the connector that a table's `connector` option names, and checks the rest of its
//! options. The names here are all that exist; an unknown one is answered with the nearest.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millrace_dataflow::{SinkNode, SourceNode, TableOptions};

use crate::{
    discard::{BlackholeSink, PrintSink},
    filesystem::{FilesystemSink, FilesystemSource},
    generated::{DatagenSource, NexmarkSource},
    kafka::{KafkaSink, KafkaSource, UpsertKafkaSink},
    nearest::did_you_mean,
    sink::Sink,
    source::{ConnectorError, Source},
};

/// Connectors that can be read.
pub const SOURCES: [&str; 4] = ["datagen", "filesystem", "kafka", "nexmark"];
/// Connectors that can be written.
pub const SINKS: [&str; 6] = [
    "blackhole",
    "collect",
    "filesystem",
    "kafka",
    "print",
    "upsert-kafka",
];

/// The connector that reads a table.
pub fn source(node: &SourceNode) -> Result<Arc<dyn Source>, ConnectorError> {
    match connector(&node.table, &node.options)? {
        "filesystem" => Ok(Arc::new(FilesystemSource::new(node)?)),
        "nexmark" => Ok(Arc::new(NexmarkSource::new(node)?)),
        "datagen" => Ok(Arc::new(DatagenSource::new(node)?)),
        "kafka" => Ok(Arc::new(KafkaSource::new(node)?)),
        "upsert-kafka" => Err(ConnectorError(format!(
            "table `{}`: connector 'upsert-kafka' can only be written so far: read the topic with connector 'kafka', every change as a row",
            node.table
        ))),
        other => Err(unknown(&node.table, other, "read", &SOURCES)),
    }
}

/// The connector that writes a table.
pub fn sink(node: &SinkNode) -> Result<Arc<dyn Sink>, ConnectorError> {
    match connector(&node.table, &node.options)? {
        "filesystem" => Ok(Arc::new(FilesystemSink::new(node)?)),
        "kafka" => Ok(Arc::new(KafkaSink::new(node)?)),
        "upsert-kafka" => Ok(Arc::new(UpsertKafkaSink::new(node)?)),
        connector @ ("blackhole" | "print" | "collect") => {
            refuse_options(&node.table, connector, &node.options)?;
            if connector == "blackhole" {
                Ok(Arc::new(BlackholeSink))
            } else {
                Ok(Arc::new(PrintSink))
            }
        }
        other => Err(unknown(&node.table, other, "written", &SINKS)),
    }
}

/// Where a source's malformed records go, when `'on-error' = 'dead-letter'`.
pub fn dead_letter_sink(
    node: &SourceNode,
    schema: &SchemaRef,
) -> Result<Option<Arc<dyn Sink>>, ConnectorError> {
    let Some(path) = node.options.get("dead-letter.path") else {
        return Ok(None);
    };
    let options = TableOptions::from([
        ("connector".to_owned(), "filesystem".to_owned()),
        ("path".to_owned(), path.clone()),
        ("format".to_owned(), "json".to_owned()),
    ]);
    let table = format!("{} (dead letters)", node.table);
    Ok(Some(Arc::new(FilesystemSink::with(
        &table,
        &options,
        schema,
        &[],
    )?)))
}

fn connector<'a>(table: &str, options: &'a TableOptions) -> Result<&'a str, ConnectorError> {
    options.get("connector").map(String::as_str).ok_or_else(|| {
        ConnectorError(format!(
            "table `{table}` has no 'connector' option: add it to the WITH clause"
        ))
    })
}

/// For connectors that have no options of their own.
fn refuse_options(
    table: &str,
    connector: &str,
    options: &TableOptions,
) -> Result<(), ConnectorError> {
    match options.keys().find(|key| *key != "connector") {
        None => Ok(()),
        Some(key) => Err(ConnectorError(format!(
            "table `{table}`: unknown option '{key}': connector '{connector}' has no options beside 'connector'"
        ))),
    }
}

fn unknown(table: &str, connector: &str, verb: &str, known: &[&str]) -> ConnectorError {
    ConnectorError(format!(
        "table `{table}`: connector '{connector}' cannot be {verb}; {}those that can are {}",
        did_you_mean(connector, known.iter().copied()),
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests;
