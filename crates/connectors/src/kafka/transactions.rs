//! The brokers as the ledger of one writer sees them: its transactional id, and its marker, which
//! is the offset of a consumer group of the same name.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    producer::Producer,
};

use super::{
    brokers::told,
    client::Context,
    condition::Condition,
    epoch::Epoch,
    ledger::{EpochNumber, Failure, FailureKind, Transactions, WriterId},
    options::SinkOptions,
    producing::{ANSWER, Producing, final_failure},
    properties::refusal,
};

/// What is needed to talk to the brokers for one writer.
pub(super) struct WriterClients {
    writer: WriterId,
    topic: String,
    subtask: u32,
    options: Arc<SinkOptions>,
    condition: Arc<Condition>,
    /// Of the marker's group; it reads nothing.
    group: Option<BaseConsumer<Context>>,
    /// Fenced all others when it was made.
    producing: Option<Producing>,
}

impl WriterClients {
    pub(super) fn new(
        writer: WriterId,
        topic: &str,
        subtask: u32,
        options: &Arc<SinkOptions>,
        condition: &Arc<Condition>,
    ) -> Self {
        WriterClients {
            writer,
            topic: topic.to_owned(),
            subtask,
            options: options.clone(),
            condition: condition.clone(),
            group: None,
            producing: None,
        }
    }

    /// Forgets what was established: the next call begins anew.
    pub(super) fn reset(&mut self) {
        self.producing = None;
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.options.delivery_timeout_ms).min(ANSWER)
    }

    fn group(&mut self) -> Result<&BaseConsumer<Context>, Failure> {
        if self.group.is_none() {
            let mut config = self.options.properties.config();
            config.set("group.id", &self.writer.0);
            config.set("enable.auto.commit", "false");
            // Has the brokers hold the answer back while a transaction on the offset is undecided.
            config.set("isolation.level", "read_committed");
            let group: BaseConsumer<Context> = config
                .create_with_context(Context::new(self.condition.clone()))
                .map_err(|error| final_failure(refusal(&error)))?;
            self.group = Some(group);
        }
        self.group
            .as_ref()
            .ok_or_else(|| final_failure("the marker's group is not there".to_owned()))
    }

    /// The marker is kept at partition 0, which every topic has.
    fn marker_place(&self, offset: Option<EpochNumber>) -> Result<TopicPartitionList, Failure> {
        let mut list = TopicPartitionList::with_capacity(1);
        let set = match offset {
            None => {
                list.add_partition(&self.topic, 0);
                Ok(())
            }
            Some(EpochNumber(number)) => {
                let offset = Offset::Offset(i64::try_from(number).unwrap_or(i64::MAX));
                list.add_partition_offset(&self.topic, 0, offset)
            }
        };
        set.map_err(|error| final_failure(told(&error)))?;
        Ok(list)
    }

    /// For the time of one settling: with the epochs that it is about.
    pub(super) fn with<'a>(&'a mut self, epochs: &'a [Epoch], now_ms: i64) -> Settling<'a> {
        Settling {
            clients: self,
            epochs,
            now_ms,
        }
    }
}

/// The brokers during one settling.
pub(super) struct Settling<'a> {
    clients: &'a mut WriterClients,
    epochs: &'a [Epoch],
    now_ms: i64,
}

impl Settling<'_> {
    fn producing(&mut self) -> Result<&mut Producing, Failure> {
        self.clients.producing.as_mut().ok_or_else(|| {
            final_failure("internal fault: a transaction before the id was fenced".to_owned())
        })
    }
}

impl Transactions for Settling<'_> {
    fn marker(&mut self) -> Result<Option<EpochNumber>, Failure> {
        let place = self.clients.marker_place(None)?;
        let group = self.clients.group()?;
        let failed = |error: &KafkaError| Failure {
            kind: FailureKind::Passing,
            text: format!(
                "cannot read the marker of the last transaction: {}",
                told(error)
            ),
        };
        let offsets = group.committed_offsets(place, ANSWER);
        let offsets = offsets.map_err(|error| failed(&error))?;
        let mut marker = None;
        for element in offsets.elements() {
            element.error().map_err(|error| failed(&error))?;
            if let Offset::Offset(offset) = element.offset() {
                marker = u64::try_from(offset).ok().map(EpochNumber);
            }
        }
        Ok(marker)
    }

    fn fence(&mut self) -> Result<(), Failure> {
        let clients = &mut *self.clients;
        clients.producing = None;
        let producing = Producing::new(
            &clients.options,
            &clients.topic,
            clients.subtask,
            &clients.condition,
            Some(&clients.writer.0),
        )?;
        producing
            .producer
            .init_transactions(clients.patience())
            .map_err(|error| producing.failure("begin transactions for", &error))?;
        clients.producing = Some(producing);
        Ok(())
    }

    fn commit(&mut self, epochs: &[usize], marker: EpochNumber) -> Result<(), Failure> {
        let place = self.clients.marker_place(Some(marker))?;
        let patience = self.clients.patience();
        let group = self.clients.group()?.group_metadata().ok_or_else(|| {
            final_failure("internal fault: the marker's group has no metadata".to_owned())
        })?;
        let (all, now_ms) = (self.epochs, self.now_ms);
        let producing = self.producing()?;
        // Of transactions before, which have failed.
        let _ = producing.check();
        producing
            .producer
            .begin_transaction()
            .map_err(|error| producing.failure("begin a transaction on", &error))?;
        for epoch in epochs.iter().filter_map(|at| all.get(*at)) {
            let mut failure = None;
            let sent = epoch.for_each(|record| {
                producing.send(record, now_ms).map_err(|error| {
                    let text = error.text.clone();
                    failure = Some(error);
                    text
                })
            });
            if let Err(text) = sent {
                return Err(failure.unwrap_or_else(|| final_failure(text)));
            }
        }
        producing.flush()?;
        producing
            .producer
            .send_offsets_to_transaction(&place, &group, patience)
            .map_err(|error| producing.failure("mark a transaction on", &error))?;
        // An answer that does not come is found out about by fencing and reading the marker.
        producing
            .producer
            .commit_transaction(patience)
            .map_err(|error| producing.failure("commit a transaction on", &error))
    }
}
