//! What the SQL compiler asks about connectors: the same checks that opening a table does, so
//! that what compiles also opens.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use millrace_dataflow::{ChangelogMode, SinkNode, SourceNode, StateId, TableOptions};
use millrace_formats::FormatSpec;
use millrace_sql::{ConnectorCatalog, SinkRefusal};

use crate::{
    abandoned,
    kafka::{self, KafkaSink},
    nexmark, registry,
    source::ConnectorError,
};

/// All connectors of this build.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connectors;

impl Connectors {
    /// As the compiler takes it.
    pub fn shared() -> Arc<dyn ConnectorCatalog> {
        Arc::new(Connectors)
    }
}

fn plain(error: ConnectorError) -> String {
    error.0
}

impl ConnectorCatalog for Connectors {
    fn check_source(
        &self,
        table: &str,
        options: &TableOptions,
        schema: &SchemaRef,
        metadata: &[(String, Field)],
    ) -> Result<(), String> {
        let node = SourceNode {
            table: table.to_owned(),
            options: options.clone(),
            declared: schema.clone(),
            physical: schema.clone(),
            metadata: metadata.to_vec(),
            output: Vec::new(),
            watermark: None,
            state_id: StateId(String::new()),
        };
        registry::source(&node).map_err(plain)?;
        registry::dead_letter_sink(&node, &abandoned::letters()).map_err(plain)?;
        Ok(())
    }

    fn check_sink(
        &self,
        table: &str,
        options: &TableOptions,
        schema: &SchemaRef,
        primary_key: &[usize],
        mode: ChangelogMode,
    ) -> Result<(), SinkRefusal> {
        let node = SinkNode {
            table: table.to_owned(),
            options: options.clone(),
            schema: schema.clone(),
            primary_key: primary_key.to_vec(),
            partition_by: Vec::new(),
            input_mode: mode,
            state_id: StateId(String::new()),
        };
        registry::sink(&node).map_err(|error| SinkRefusal::Other(error.0))?;
        let takes_updates = match options.get("connector").map(String::as_str) {
            Some("filesystem") => FormatSpec::from_options(options, schema)
                .map_err(|error| SinkRefusal::Other(error.to_string()))?
                .accepts_changelog(),
            Some("kafka") => KafkaSink::new(&node)
                .map_err(|error| SinkRefusal::Other(error.0))?
                .takes_updates(),
            _ => true,
        };
        if mode == ChangelogMode::Retract && !takes_updates {
            let instead = match options.get("connector").map(String::as_str) {
                Some("kafka") => "use connector 'upsert-kafka' or format 'debezium-json'",
                _ => "use format 'debezium-json'",
            };
            return Err(SinkRefusal::NoUpdates(Some(instead.to_owned())));
        }
        Ok(())
    }

    fn provided_schema(&self, options: &TableOptions) -> Option<SchemaRef> {
        (options.get("connector").map(String::as_str) == Some("nexmark"))
            .then(nexmark::nexmark_schema)
    }

    fn writable_metadata(&self, options: &TableOptions) -> &'static [&'static str] {
        match options.get("connector").map(String::as_str) {
            Some("kafka" | "upsert-kafka") => &kafka::WRITABLE_METADATA,
            _ => &[],
        }
    }
}
