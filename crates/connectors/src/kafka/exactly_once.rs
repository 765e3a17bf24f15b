//! Keeps the rows of an epoch for the checkpoint, and writes them with their marker once it is
//! complete. The argument is at the module `kafka`, the logic in `ledger`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use millrace_types::CheckpointId;

use super::{
    condition::Condition,
    epoch::{Epoch, EpochBuilder, Stamp},
    ledger::{Entry, EpochNumber, FailureKind, Ledger, OnLost, Unsettled, WriterId},
    options::{LostMarker, SinkOptions},
    transactions::WriterClients,
    write_layout::RecordEncoder,
};
use crate::{
    sink::{Committable, SinkWriter, WriterContext},
    source::ConnectorError,
};

/// What the epochs of a subtask may take in a checkpoint: its part is sent as one message,
const MAX_STAGED_BYTES: usize = 16 << 20;
/// and all parts lie in one manifest.
const MAX_STAGED_OF_ALL: usize = 128 << 20;
/// A marker is renewed long before brokers forget it.
const RENEW_MS: i64 = 12 * 60 * 60 * 1000;
/// Between two tries to settle.
const PAUSE: Duration = Duration::from_millis(500);

/// Who writes a subtask's rows, in every execution.
pub(super) fn writer_id(prefix: &str, context: &WriterContext) -> WriterId {
    WriterId(format!(
        "{prefix}-{}-{}-{}",
        context.job, context.writer, context.subtask
    ))
}

/// Writes one subtask's rows exactly once.
pub(super) struct ExactlyOnceWriter {
    table: String,
    options: Arc<SinkOptions>,
    context: WriterContext,
    condition: Arc<Condition>,
    records: RecordEncoder,
    staged: EpochBuilder,
    /// Of epochs that are not committed yet.
    pending_bytes: usize,
    checkpoint: CheckpointId,
    own: WriterId,
    settler: Settler,
    /// When the marker was written last.
    marked_ms: Option<i64>,
}

/// The ledger of one writer with what it needs to talk to the brokers.
struct Settler {
    ledger: Ledger,
    clients: WriterClients,
}

impl ExactlyOnceWriter {
    pub(super) fn new(
        options: Arc<SinkOptions>,
        context: &WriterContext,
        condition: Arc<Condition>,
        records: RecordEncoder,
    ) -> Result<Self, ConnectorError> {
        let own = writer_id(&options.transactional_prefix, context);
        let staged = EpochBuilder::new().map_err(|error| {
            ConnectorError(format!(
                "table `{}`: cannot compress: {error}",
                context.table
            ))
        })?;
        Ok(ExactlyOnceWriter {
            table: context.table.clone(),
            settler: Settler {
                ledger: Ledger::default(),
                clients: WriterClients::new(
                    own.clone(),
                    &options.topic,
                    context.subtask,
                    &options,
                    &condition,
                ),
            },
            options,
            context: context.clone(),
            condition,
            records,
            staged,
            pending_bytes: 0,
            checkpoint: CheckpointId(0),
            own,
            marked_ms: None,
        })
    }

    fn fault(&self, reason: impl std::fmt::Display) -> ConnectorError {
        ConnectorError(format!("table `{}`: {reason}", self.table))
    }

    /// Settles the epochs of one writer. What may pass is tried again for as long as records may
    /// take to be delivered.
    // The time is only used to end the attempts, and a slot that commits does nothing else.
    #[allow(clippy::disallowed_methods)]
    fn settle(&self, settler: &mut Settler, epochs: &[Epoch]) -> Result<(), ConnectorError> {
        let entries: Vec<Entry> = epochs
            .iter()
            .map(|epoch| Entry {
                number: epoch.number,
                after: epoch.after,
                staged_ms: epoch.staged_ms,
            })
            .collect();
        let on_lost = match self.options.lost_marker {
            LostMarker::Fail => OnLost::Fail,
            LostMarker::Replay => OnLost::Replay,
            LostMarker::Skip => OnLost::Skip,
        };
        let started = std::time::Instant::now();
        loop {
            let now_ms = (self.context.now_ms)();
            let mut brokers = settler.clients.with(epochs, now_ms);
            let failure = match settler
                .ledger
                .settle(&entries, &mut brokers, on_lost, now_ms)
            {
                Ok(()) => {
                    self.condition.well();
                    return Ok(());
                }
                Err(Unsettled::LostMarker(number)) => {
                    return Err(self.fault(format!(
                        "cannot tell whether the rows of checkpoint {} were written: the marker of \
                         their transaction is gone from topic `{}`, where brokers keep it for \
                         'offsets.retention.minutes'. Look at the topic, then set 'sink.lost-marker' \
                         to 'skip' if they are there, or to 'replay' to write them (again)",
                        number.0, self.options.topic
                    )));
                }
                Err(Unsettled::Failed(failure)) => failure,
            };
            settler.clients.reset();
            let patience = Duration::from_millis(self.options.delivery_timeout_ms);
            match failure.kind {
                FailureKind::Fenced => {
                    return Err(self.fault(format!(
                        "{}: another execution of this job has taken over",
                        failure.text
                    )));
                }
                FailureKind::Final => return Err(self.fault(failure.text)),
                FailureKind::Passing
                    if started.elapsed() > patience || self.condition.is_canceled() =>
                {
                    return Err(self.fault(failure.text));
                }
                FailureKind::Passing => {
                    self.condition.trouble(&failure.text);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

impl SinkWriter for ExactlyOnceWriter {
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        let staged = &mut self.staged;
        let encoded = self.records.for_each(rows, kinds, |record| {
            staged.push(record).map_err(|error| error.to_string())
        });
        encoded.map_err(|reason| self.fault(reason))?;
        // Base64 adds a third.
        let bytes = self.pending_bytes + self.staged.bytes() / 3 * 4;
        let limit =
            (MAX_STAGED_OF_ALL / self.context.parallelism.max(1) as usize).min(MAX_STAGED_BYTES);
        if bytes > limit {
            return Err(self.fault(format!(
                "{} records ({} KiB compressed) wait for a checkpoint, which holds at most {} KiB of \
                 them per subtask: shorten execution.checkpointing.interval or raise the \
                 parallelism, or set 'sink.delivery-guarantee' = 'at-least-once'",
                self.staged.records(),
                bytes >> 10,
                limit >> 10
            )));
        }
        Ok(())
    }

    fn at_barrier(&mut self, checkpoint: CheckpointId) {
        self.checkpoint = checkpoint;
    }

    fn pre_commit(&mut self) -> Result<Vec<Committable>, ConnectorError> {
        let now_ms = (self.context.now_ms)();
        let due = self
            .marked_ms
            .is_some_and(|marked| now_ms.saturating_sub(marked) >= RENEW_MS);
        if self.staged.records() == 0 && !due {
            return Ok(Vec::new());
        }
        let stamp = Stamp {
            writer: self.own.clone(),
            topic: self.options.topic.clone(),
            number: EpochNumber(self.checkpoint.0),
            after: self.settler.ledger.known(),
            staged_ms: now_ms,
        };
        let epoch = self.staged.finish(stamp);
        let epoch = epoch.map_err(|error| self.fault(format!("cannot compress: {error}")))?;
        self.pending_bytes += epoch.bytes();
        let committable = epoch.committable().map_err(|reason| self.fault(reason))?;
        Ok(vec![committable])
    }

    fn commit(&mut self, committables: &[Committable]) -> Result<(), ConnectorError> {
        let mut by_writer: BTreeMap<(WriterId, String), Vec<Epoch>> = BTreeMap::new();
        for committable in committables {
            let epoch = Epoch::of(committable).map_err(|reason| {
                self.fault(format!(
                    "the snapshot's rows of an epoch cannot be read: {reason}"
                ))
            })?;
            let place = (epoch.writer.clone(), epoch.topic.clone());
            by_writer.entry(place).or_default().push(epoch);
        }
        for ((writer, topic), mut epochs) in by_writer {
            epochs.sort_by_key(|epoch| epoch.number);
            if writer == self.own && topic == self.options.topic {
                let clients = WriterClients::new(
                    writer,
                    &topic,
                    self.context.subtask,
                    &self.options,
                    &self.condition,
                );
                let spare = Settler {
                    ledger: Ledger::default(),
                    clients,
                };
                let mut settler = std::mem::replace(&mut self.settler, spare);
                self.settle(&mut settler, &epochs)?;
                self.settler = settler;
                self.marked_ms = Some((self.context.now_ms)());
                let bytes: usize = epochs.iter().map(Epoch::bytes).sum();
                self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
            } else {
                // Of a former subtask, job or topic.
                let (options, condition) = (&self.options, &self.condition);
                let mut settler = Settler {
                    ledger: Ledger::default(),
                    clients: WriterClients::new(
                        writer,
                        &topic,
                        self.context.subtask,
                        options,
                        condition,
                    ),
                };
                self.settle(&mut settler, &epochs)?;
            }
        }
        Ok(())
    }
}
