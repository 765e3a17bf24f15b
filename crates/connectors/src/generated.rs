//! `nexmark` and `datagen` as tables: the generators behind the source traits, paced by the
//! clock when they are asked to be.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use arrow::array::RecordBatch;
use millrace_dataflow::SourceNode;

use crate::{
    datagen::{DatagenConfig, DatagenGenerator, DatagenSplit},
    nexmark::{NexmarkConfig, NexmarkGenerator, NexmarkProjection, NexmarkSplit, check_declared},
    source::{
        ConnectorError, Polled, Source, SplitId, SplitReader, SplitState, Waker, with_causes,
    },
};

/// Longest wait of a paced generator between two polls, in ms.
const MAX_WAIT_MS: i64 = 10;

fn fault(table: &str, error: &dyn std::error::Error) -> ConnectorError {
    ConnectorError(format!("table `{table}`: {}", with_causes(error)))
}

fn position<T: serde::de::DeserializeOwned>(
    table: &str,
    split: &SplitState,
) -> Result<T, ConnectorError> {
    serde_json::from_value(split.position.clone()).map_err(|error| fault(table, &error))
}

fn split_state<T: serde::Serialize>(
    table: &str,
    index: u32,
    split: &T,
) -> Result<SplitState, ConnectorError> {
    let position = serde_json::to_value(split).map_err(|error| fault(table, &error))?;
    Ok(SplitState {
        id: SplitId(index.to_string()),
        position,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stream that starts `now` asks for the time once; it is kept with its position"
)]
fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as i64)
}

/// The columns of `from` that `node` reads, in its order.
fn project(node: &SourceNode, rows: RecordBatch) -> Result<RecordBatch, ConnectorError> {
    let mut columns = Vec::with_capacity(node.physical.fields().len());
    for field in node.physical.fields() {
        let index = rows.schema().index_of(field.name());
        columns.push(index.map_err(|error| fault(&node.table, &error))?);
    }
    rows.project(&columns)
        .map_err(|error| fault(&node.table, &error))
}

/// A generator that both kinds share the pacing of.
trait Generator: Send {
    fn next(&mut self, max_rows: usize) -> Result<RecordBatch, ConnectorError>;
    /// Rows emitted so far, from the very first start.
    fn emitted(&self) -> u64;
    fn finished(&self) -> bool;
    /// Rows due this long (ms) after the first.
    fn due(&self, elapsed_ms: u64) -> u64;
    fn position(&self) -> serde_json::Value;
}

struct GeneratorReader<G> {
    generator: G,
    /// Pace by the clock: the wall-clock time and the rows that were out at the first poll.
    paced: bool,
    started: Option<(i64, u64)>,
}

impl<G: Generator> SplitReader for GeneratorReader<G> {
    fn poll(&mut self, max_rows: usize, now_ms: i64) -> Result<Polled, ConnectorError> {
        if self.generator.finished() {
            return Ok(Polled::Ended);
        }
        let mut allowed = max_rows;
        if self.paced {
            let emitted = self.generator.emitted();
            let (started_ms, before) = *self.started.get_or_insert((now_ms, emitted));
            let elapsed = now_ms.saturating_sub(started_ms).max(0) as u64;
            let due = self.generator.due(elapsed);
            let out = emitted - before;
            if due <= out {
                return Ok(Polled::PendingUntil(now_ms + MAX_WAIT_MS));
            }
            allowed = allowed.min(usize::try_from(due - out).unwrap_or(usize::MAX));
        }
        let rows = self.generator.next(allowed)?;
        if rows.num_rows() == 0 {
            // A stream that is kept alive after its last event.
            return Ok(Polled::Pending);
        }
        Ok(Polled::Rows(rows))
    }

    fn position(&self) -> serde_json::Value {
        self.generator.position()
    }
}

/// The `nexmark` connector.
pub struct NexmarkSource {
    node: Arc<SourceNode>,
    config: NexmarkConfig,
}

impl NexmarkSource {
    /// Checks the table's options.
    pub fn new(node: &SourceNode) -> Result<Self, ConnectorError> {
        let config = NexmarkConfig::from_options(&node.options)
            .map_err(|error| fault(&node.table, &error))?;
        check_declared(&node.declared).map_err(|error| fault(&node.table, &error))?;
        Ok(NexmarkSource {
            node: Arc::new(node.clone()),
            config,
        })
    }
}

impl Source for NexmarkSource {
    fn splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        let splits = self.config.make_splits(parallelism, now_ms());
        splits
            .iter()
            .map(|split| split_state(&self.node.table, split.index, split))
            .collect()
    }

    fn open(
        &self,
        split: &SplitState,
        _waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let table = &self.node.table;
        let split: NexmarkSplit = position(table, split)?;
        let names = self
            .node
            .physical
            .fields()
            .iter()
            .map(|f| f.name().as_str());
        let projection = NexmarkProjection::of(names).map_err(|error| fault(table, &error))?;
        let generator = NexmarkGenerator::new(&self.config, split, projection)
            .map_err(|error| fault(table, &error))?;
        Ok(Box::new(GeneratorReader {
            generator: NexmarkRows {
                node: self.node.clone(),
                generator,
                batch_rows: self.config.batch_rows as usize,
                keep_alive: self.config.keep_alive,
            },
            paced: !self.config.max_emit_speed,
            started: None,
        }))
    }
}

struct NexmarkRows {
    node: Arc<SourceNode>,
    generator: NexmarkGenerator,
    batch_rows: usize,
    keep_alive: bool,
}

impl Generator for NexmarkRows {
    fn next(&mut self, max_rows: usize) -> Result<RecordBatch, ConnectorError> {
        let rows = self
            .generator
            .next_batch(max_rows.min(self.batch_rows.max(1)))
            .map_err(|error| fault(&self.node.table, &error))?;
        project(&self.node, rows)
    }

    fn emitted(&self) -> u64 {
        self.generator.split().next
    }

    fn finished(&self) -> bool {
        self.generator.split().is_finished() && !self.keep_alive
    }

    fn due(&self, elapsed_ms: u64) -> u64 {
        self.generator.due(elapsed_ms)
    }

    fn position(&self) -> serde_json::Value {
        serde_json::to_value(self.generator.split()).unwrap_or(serde_json::Value::Null)
    }
}

/// The `datagen` connector.
pub struct DatagenSource {
    node: Arc<SourceNode>,
    config: DatagenConfig,
}

impl DatagenSource {
    /// Checks the table's options against its columns.
    pub fn new(node: &SourceNode) -> Result<Self, ConnectorError> {
        let options: &BTreeMap<String, String> = &node.options;
        let config = DatagenConfig::from_options(options, node.declared.clone())
            .map_err(|error| fault(&node.table, &error))?;
        Ok(DatagenSource {
            node: Arc::new(node.clone()),
            config,
        })
    }
}

impl Source for DatagenSource {
    fn splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        let splits = self.config.make_splits(parallelism, now_ms());
        splits
            .iter()
            .map(|split| split_state(&self.node.table, split.index, split))
            .collect()
    }

    fn open(
        &self,
        split: &SplitState,
        _waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let table = &self.node.table;
        let split: DatagenSplit = position(table, split)?;
        let generator = DatagenGenerator::new(self.config.clone(), split)
            .map_err(|error| fault(table, &error))?;
        Ok(Box::new(GeneratorReader {
            generator: DatagenRows {
                node: self.node.clone(),
                generator,
            },
            paced: true,
            started: None,
        }))
    }
}

struct DatagenRows {
    node: Arc<SourceNode>,
    generator: DatagenGenerator,
}

impl Generator for DatagenRows {
    fn next(&mut self, max_rows: usize) -> Result<RecordBatch, ConnectorError> {
        let rows = self
            .generator
            .next_batch(max_rows)
            .map_err(|error| fault(&self.node.table, &error))?;
        project(&self.node, rows)
    }

    fn emitted(&self) -> u64 {
        self.generator.split().next
    }

    fn finished(&self) -> bool {
        self.generator.is_finished()
    }

    fn due(&self, elapsed_ms: u64) -> u64 {
        self.generator.due(elapsed_ms)
    }

    fn position(&self) -> serde_json::Value {
        serde_json::to_value(self.generator.split()).unwrap_or(serde_json::Value::Null)
    }
}
