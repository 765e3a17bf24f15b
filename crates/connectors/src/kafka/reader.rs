//! Reads one partition out of its queue in the client. Never waits: the queue wakes the slot.

use std::{sync::Arc, time::Duration};

use millrace_formats::OnError;
use rdkafka::{
    Message,
    consumer::base_consumer::PartitionQueue,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    brokers::{is_final, told},
    client::Context,
    offsets::Progress,
    reading::Reading,
    records::RecordReader,
    topics::TopicPartition,
};
use crate::source::{BadRecord, ConnectorError, Polled, SplitReader};

/// Bytes that one poll works through at most, so that a slot gets to its barriers.
const MAX_POLL_BYTES: usize = 4 << 20;
/// Malformed records after which a poll ends.
const MAX_LETTERS: usize = 1_000;

/// Reads one partition.
pub(super) struct PartitionReader {
    pub(super) table: String,
    pub(super) partition: TopicPartition,
    pub(super) topic: Arc<str>,
    pub(super) queue: PartitionQueue<Context>,
    pub(super) reading: Arc<Reading>,
    pub(super) progress: Progress,
    pub(super) records: RecordReader,
    pub(super) on_error: OnError,
    /// Where the rows of the last batch came from.
    pub(super) offsets: Vec<i64>,
    pub(super) bad: u64,
    pub(super) letters: Vec<BadRecord>,
    /// Why reading cannot go on; told after the rows before it.
    pub(super) failure: Option<String>,
}

impl PartitionReader {
    fn place(&self, offset: i64) -> String {
        format!(
            "topic `{}` partition {} offset {offset}",
            self.partition.topic, self.partition.partition
        )
    }

    /// Takes what is in the queue, up to a batch.
    fn fill(&mut self, max_rows: usize) {
        let mut bytes = 0;
        let mut letters = 0;
        while self.records.rows() < max_rows
            && bytes < MAX_POLL_BYTES
            && letters < MAX_LETTERS
            && self.failure.is_none()
            && !self.progress.is_at_end()
        {
            let record = match self.queue.poll(Duration::ZERO) {
                None => return,
                Some(Ok(record)) => record,
                Some(Err(error)) => {
                    self.failure = self.met(&error);
                    continue;
                }
            };
            let offset = record.offset();
            if let Some(end) = self.progress.end
                && offset >= end
            {
                self.progress.offset = end;
                return;
            }
            bytes += record.payload_len() + record.key_len();
            match self.records.push(&self.topic, &record) {
                Ok(()) => self.offsets.push(offset),
                Err(reason) => {
                    let raw = match self.on_error {
                        OnError::DeadLetter => record.payload().unwrap_or_default().to_vec(),
                        OnError::Fail | OnError::Skip => Vec::new(),
                    };
                    if self.on_error == OnError::Fail {
                        self.failure = Some(format!(
                            "{}: {reason}; set 'on-error' to 'skip' or 'dead-letter' to read on past such records",
                            self.place(offset)
                        ));
                        continue;
                    }
                    letters += 1;
                    self.bad += 1;
                    if self.on_error == OnError::DeadLetter {
                        let place = self.place(offset);
                        self.letters.push(BadRecord { place, reason, raw });
                    }
                }
            }
            self.progress.offset = offset + 1;
        }
    }

    /// What an error among the records means: the text of a failure, if it is one.
    fn met(&mut self, error: &KafkaError) -> Option<String> {
        if let KafkaError::PartitionEOF(_) = error {
            // Everything there is has been read. Offsets before the end may hold no record: those
            // of transaction markers, or of records that compaction took away.
            if let Some(end) = self.progress.end {
                self.progress.offset = end;
            }
            return None;
        }
        let code = error.rdkafka_error_code();
        match code {
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => {
                Some(format!(
                    "{} is not there any more (or not yet): records were deleted before they were \
                     read. Set 'properties.auto.offset.reset' to 'earliest' or 'latest' to go on \
                     with those that are there",
                    self.place(self.progress.offset)
                ))
            }
            Some(code) if is_final(code) => {
                Some(format!("{}: {code}", self.place(self.progress.offset)))
            }
            _ => {
                self.reading.condition.trouble(&told(error));
                None
            }
        }
    }
}

impl SplitReader for PartitionReader {
    fn poll(&mut self, max_rows: usize, now_ms: i64) -> Result<Polled, ConnectorError> {
        let fault = |reason: String| ConnectorError(format!("table `{}`: {reason}", self.table));
        self.reading.serve(now_ms).map_err(fault)?;
        self.offsets.clear();
        let before = self.progress;
        if self.failure.is_none() {
            self.fill(max_rows);
        }
        let fault = |reason: String| ConnectorError(format!("table `{}`: {reason}", self.table));
        if self.progress != before {
            self.reading.condition.well();
        }
        if self.records.rows() > 0 {
            return self.records.finish().map(Polled::Rows).map_err(fault);
        }
        if let Some(failure) = self.failure.take() {
            return Err(fault(failure));
        }
        if self.progress.is_at_end() {
            return Ok(Polled::Ended);
        }
        Ok(if self.progress == before {
            Polled::Pending
        } else {
            Polled::Progress
        })
    }

    fn position(&self) -> serde_json::Value {
        self.progress.encode()
    }

    fn place_of(&self, row: usize) -> Option<String> {
        self.offsets.get(row).map(|offset| self.place(*offset))
    }

    fn take_bad_records(&mut self) -> (u64, Vec<BadRecord>) {
        (
            std::mem::take(&mut self.bad),
            std::mem::take(&mut self.letters),
        )
    }
}

impl Drop for PartitionReader {
    fn drop(&mut self) {
        self.reading.unassign(&self.partition);
    }
}

/// A split whose topic the table does not have any more: what was read stays read.
pub(super) struct Forgotten {
    pub(super) position: serde_json::Value,
}

impl SplitReader for Forgotten {
    fn poll(&mut self, _max_rows: usize, _now_ms: i64) -> Result<Polled, ConnectorError> {
        Ok(Polled::Ended)
    }

    fn position(&self) -> serde_json::Value {
        self.position.clone()
    }
}
