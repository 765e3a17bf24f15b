//! What a sink connector is to the sink operator: a two-phase commit that every exactly-once
//! sink shares.
//!
//! Rows are staged; at a barrier [`SinkWriter::pre_commit`] makes the staged rows durable and
//! returns **committables**, which go into the checkpoint; when the checkpoint is complete,
//! [`SinkWriter::commit`] publishes them. After a restore the committables found in the
//! snapshot are committed again, so committing must be idempotent. What a dead attempt staged
//! and never pre-committed is removed by [`SinkWriter::abort_leftovers`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use millrace_types::CheckpointId;

use crate::source::ConnectorError;

/// Something staged that a commit publishes, in the connector's own JSON form.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Committable(pub serde_json::Value);

/// Writes one subtask's share of a table.
pub trait SinkWriter: Send {
    /// Stages (or, for sinks without transactions, writes) rows. `kinds` is `None` for inserts only.
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError>;

    /// The next [`SinkWriter::pre_commit`] is for this checkpoint. Numbers grow over the whole life
    /// of a job.
    fn at_barrier(&mut self, _checkpoint: CheckpointId) {}

    /// Makes everything staged so far durable. Called at every barrier and at the end of input.
    fn pre_commit(&mut self) -> Result<Vec<Committable>, ConnectorError>;

    /// Publishes; idempotent. What an earlier execution staged may have been published by it, and
    /// may since have been taken away by whoever reads the output.
    fn commit(&mut self, committables: &[Committable]) -> Result<(), ConnectorError>;

    /// Called once before the first write: removes what former attempts of this subtask staged and
    /// that no committable of the restored snapshot mentions (those were committed just before).
    fn abort_leftovers(&mut self) -> Result<(), ConnectorError> {
        Ok(())
    }

    /// The time (epoch ms) at which [`SinkWriter::tick`] should be called, for rolling by time.
    fn next_tick(&self) -> Option<i64> {
        None
    }

    fn tick(&mut self, _now_ms: i64) -> Result<(), ConnectorError> {
        Ok(())
    }
}

/// Takes rows that a person wants to see: print tables, collected results, previews.
pub trait RowTap: Send + Sync {
    fn rows(&self, table: &str, subtask: u32, rows: &RecordBatch, kinds: Option<&[RowKind]>);

    /// Something that belongs in the job's history: `severity` is `info`, `warning` or `error`.
    fn notice(&self, _severity: &str, _message: &str) {}

    /// Whether the slot is to end: who waits for something on its thread gives up.
    fn is_canceled(&self) -> bool {
        false
    }
}

/// Who writes: makes staged names unique and lets leftovers be told apart.
#[derive(Clone)]
pub struct WriterContext {
    /// The table's name.
    pub table: String,
    /// Where print and collect tables show their rows.
    pub tap: Arc<dyn RowTap>,
    pub job: String,
    /// Fresh for every execution.
    pub execution: String,
    /// Tells the writers of a job apart and is the same in every execution: several may write
    /// into one place.
    pub writer: String,
    pub subtask: u32,
    pub parallelism: u32,
    /// The wall clock, epoch ms.
    pub now_ms: NowMs,
}

/// Tells the wall-clock time in epoch ms.
pub type NowMs = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A table to write.
pub trait Sink: Send + Sync {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError>;

    /// Removes what a job has staged, in any execution and by any writer. The job is deleted:
    /// nothing of it runs, and nothing of it will be published any more.
    fn discard_staged(&self, _job: &str) -> Result<(), ConnectorError> {
        Ok(())
    }
}
