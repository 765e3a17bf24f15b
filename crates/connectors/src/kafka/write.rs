//! Writes records as they come: for `sink.delivery-guarantee` `none` and `at-least-once`.

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use rdkafka::producer::Producer;

use super::{
    condition::{Condition, Severity},
    ledger::Failure,
    options::{Guarantee, SinkOptions},
    producing::Producing,
    write_layout::RecordEncoder,
};
use crate::{
    sink::{Committable, NowMs, SinkWriter},
    source::ConnectorError,
};

/// What a writer without a guarantee waits for its last records when it ends.
const LAST_RECORDS: Duration = Duration::from_secs(5);

/// Writes one subtask's rows.
pub(super) struct DirectWriter {
    pub(super) table: String,
    pub(super) options: Arc<SinkOptions>,
    pub(super) subtask: u32,
    pub(super) condition: Arc<Condition>,
    pub(super) records: RecordEncoder,
    pub(super) now_ms: NowMs,
    /// Made for the first row: a job without rows needs no brokers.
    pub(super) producing: Option<Producing>,
}

impl DirectWriter {
    fn fault(&self, failure: &Failure) -> ConnectorError {
        ConnectorError(format!("table `{}`: {}", self.table, failure.text))
    }

    /// Fails where rows are promised to arrive, tells of it where they are not.
    fn judge(&self, outcome: Result<(), Failure>) -> Result<(), ConnectorError> {
        match outcome {
            Ok(()) => Ok(()),
            Err(failure) if self.options.guarantee == Guarantee::None => {
                self.condition.tell(Severity::Warning, &failure.text);
                Ok(())
            }
            Err(failure) => Err(self.fault(&failure)),
        }
    }
}

impl SinkWriter for DirectWriter {
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        let mut producing = match self.producing.take() {
            Some(producing) => producing,
            None => {
                let (options, topic) = (&self.options, &self.options.topic);
                Producing::new(options, topic, self.subtask, &self.condition, None)
                    .map_err(|failure| self.fault(&failure))?
            }
        };
        let now_ms = (self.now_ms)();
        let mut failure = None;
        let encoded = self.records.for_each(rows, kinds, |record| {
            if failure.is_none() {
                failure = producing.send(record, now_ms).err();
            }
            Ok(())
        });
        let checked = producing.check();
        self.producing = Some(producing);
        encoded.map_err(|reason| ConnectorError(format!("table `{}`: {reason}", self.table)))?;
        self.judge(failure.map_or(checked, Err))
    }

    fn pre_commit(&mut self) -> Result<Vec<Committable>, ConnectorError> {
        if let Some(producing) = &self.producing {
            let outcome = match self.options.guarantee {
                Guarantee::None => producing.check(),
                Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => producing.flush(),
            };
            self.judge(outcome)?;
        }
        Ok(Vec::new())
    }

    fn commit(&mut self, _committables: &[Committable]) -> Result<(), ConnectorError> {
        Ok(())
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        if self.options.guarantee == Guarantee::None
            && let Some(producing) = &self.producing
            && let Err(error) = producing.producer.flush(LAST_RECORDS)
        {
            tracing::warn!(table = self.table, %error, "last records were not delivered");
        }
    }
}
