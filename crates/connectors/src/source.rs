//! What a source connector is to the source operator.
//!
//! A connector lists its **splits** (a file, a partition, a generator); which subtask reads a
//! split is a pure function of the split's id and the parallelism. Reading is polled from the
//! slot's thread and never blocks it for long: connectors that wait on IO do so elsewhere and
//! hand over what is ready.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::sink::RowTap;

/// Identifies a split for ever, within its table: a path, a partition number.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct SplitId(pub String);

/// A split with the position to read from; what is kept in snapshots. The position is the
/// connector's own, as JSON.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SplitState {
    pub id: SplitId,
    pub position: serde_json::Value,
}

/// A failure of a connector: what was wrong, where, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectorError(pub String);

/// An error with its causes, each said once.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// What a poll of a split yields.
#[derive(Debug)]
pub enum Polled {
    /// Rows: physical columns, then metadata columns. `SplitReader::position` is now just after them.
    Rows(RecordBatch),
    /// Input was read that holds no rows (malformed records); there may be more at once.
    Progress,
    /// Nothing ready; the waker is called when that changes.
    Pending,
    /// Nothing ready, and none before this time (epoch ms): a paced generator.
    PendingUntil(i64),
    /// The split has ended for good.
    Ended,
}

/// Rows that could not be decoded, for a dead-letter table or a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Where it was: `file.json line 12`.
    pub place: String,
    pub reason: String,
    pub raw: Vec<u8>,
}

/// Wakes the slot that polls; cheap, callable from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Reads one split.
pub trait SplitReader: Send {
    /// At most `max_rows` rows.
    fn poll(&mut self, max_rows: usize, now_ms: i64) -> Result<Polled, ConnectorError>;

    /// Where reading goes on after the rows handed out so far.
    fn position(&self) -> serde_json::Value;

    /// Where a row of the last [`Polled::Rows`] came from, for messages: `file.json line 12`. It
    /// may take long: it is asked for one row, when the job fails.
    fn place_of(&self, _row: usize) -> Option<String> {
        None
    }

    /// Malformed records skipped or dead-lettered since the last call: their number, and those to
    /// be dead-lettered.
    fn take_bad_records(&mut self) -> (u64, Vec<BadRecord>) {
        (0, Vec::new())
    }
}

/// A table to read.
pub trait Source: Send + Sync {
    /// The splits there are now. Called at start and, when [`Source::discovery_interval_ms`] says
    /// so, again and again; ids already known are ignored. May block (it is called off the slot's
    /// thread).
    fn splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError>;

    /// `None`: the first listing is all there will ever be, and the source ends when its splits have.
    fn discovery_interval_ms(&self) -> Option<u64> {
        None
    }

    /// As [`Source::splits`], once some are known: of a snapshot, or listed before. For sources
    /// where a split that appears later is read from another place than one of the beginning.
    fn later_splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        self.splits(parallelism)
    }

    /// Whether the first listing could not be made yet; [`Source::later_splits`] brings it. Until
    /// then the source counts as active: rows of splits that nobody knows must not be late.
    fn awaits_splits(&self) -> bool {
        false
    }

    /// Splits that one subtask has open at a time: bounds file handles and buffers. The others
    /// wait until one has ended.
    fn max_open_splits(&self) -> usize {
        64
    }

    /// Where to tell what the people who watch the job should know.
    fn report_to(&self, _tap: Arc<dyn RowTap>) {}

    /// Whether [`Source::completed`] is to be called.
    fn wants_completed(&self) -> bool {
        false
    }

    /// A checkpoint is complete in which the subtask's splits stood so. Must not block.
    fn completed(&self, _splits: &[SplitState]) {}

    /// What the splits are a listing of. A source that lists once does so again after a restore
    /// only if this has changed (by a new version of the job): what has appeared in the same
    /// place since the first start is not read.
    fn listing(&self) -> String {
        String::new()
    }

    /// Opens a split at its position.
    fn open(
        &self,
        split: &SplitState,
        waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError>;
}
