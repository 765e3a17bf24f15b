//! What a job that is gone for good has staged and will never publish.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millrace_dataflow::{Dataflow, NodeKind};

use crate::{registry, sink::Sink, source::ConnectorError};

/// Removes what the job has staged in the sinks of its dataflow, and returns what kept it from
/// doing so. Nothing of the job may run any more, or ever again. What it has published and what
/// others have staged stays.
pub fn discard_staged(dataflow: &Dataflow, job: &str) -> Vec<ConnectorError> {
    let sinks = dataflow.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Sink(sink) => Some(registry::sink(sink)),
        NodeKind::Source(source) => registry::dead_letter_sink(source, &letters()).transpose(),
        _ => None,
    });
    sinks
        .filter_map(|sink: Result<Arc<dyn Sink>, _>| {
            sink.and_then(|sink| sink.discard_staged(job)).err()
        })
        .collect()
}

/// Columns do not matter for files that are only removed.
pub(crate) fn letters() -> SchemaRef {
    let record = Field::new("record", DataType::Utf8, false);
    Arc::new(Schema::new(vec![record]))
}
