//! A producer of one topic, and what its errors mean.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    metadata::Metadata,
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::{
    brokers::{is_final, told},
    client::Context,
    condition::Condition,
    epoch::Record,
    ledger::{Failure, FailureKind},
    options::SinkOptions,
    partitioner::Partitioner,
    properties::refusal,
};

/// How long the number of partitions is taken to stay the same.
const RECOUNT_MS: i64 = 60_000;

/// Events of the client that are looked at for the reason of a failure.
const MAX_EVENTS: usize = 20;
/// For a single answer of the brokers: a wait for it cannot be given up.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// Between two looks at whether records were delivered.
const PAUSE: Duration = Duration::from_millis(1);
/// Records after which the client's reports of delivery are taken, for which it has room.
const POLL_EVERY: u32 = 256;

/// Writes records to a topic. There is no thread that takes the client's reports: it would take
/// those that a flush waits for, which then wakes up late.
pub(super) struct Producing {
    pub(super) producer: BaseProducer<Context>,
    topic: String,
    partitioner: Partitioner,
    patience: Duration,
    /// Partitions, and when they were counted.
    partitions: Option<(i32, i64)>,
    /// Records since the client was polled.
    unpolled: u32,
}

impl Producing {
    /// With a transactional id, records only go within transactions.
    pub(super) fn new(
        options: &SinkOptions,
        topic: &str,
        subtask: u32,
        condition: &Arc<Condition>,
        transactional_id: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut config = options.properties.config();
        let given = |name: &str| options.properties.get(name).is_some();
        let mut timeout_ms = options.delivery_timeout_ms;
        match transactional_id {
            Some(id) => {
                timeout_ms = timeout_ms.min(options.transaction_timeout_ms);
                config.set("transactional.id", id);
                let limit = options.transaction_timeout_ms.to_string();
                config.set("transaction.timeout.ms", limit);
            }
            // Retries then neither repeat nor reorder records.
            None if !given("acks")
                && !given("request.required.acks")
                && !given("enable.idempotence") =>
            {
                config.set("enable.idempotence", "true");
            }
            None => {}
        }
        if !given("message.timeout.ms") && !given("delivery.timeout.ms") {
            config.set("message.timeout.ms", timeout_ms.to_string());
        }
        if !given("queue.buffering.max.kbytes") {
            config.set("queue.buffering.max.kbytes", "65536");
        }
        if !given("reconnect.backoff.max.ms") {
            config.set("reconnect.backoff.max.ms", "5000");
        }
        let producer = config
            .create_with_context(Context::new(condition.clone()))
            .map_err(|error| final_failure(refusal(&error)))?;
        Ok(Producing {
            producer,
            topic: topic.to_owned(),
            partitioner: Partitioner::new(options.partitioner, subtask),
            patience: Duration::from_millis(options.delivery_timeout_ms),
            partitions: None,
            unpolled: 0,
        })
    }

    fn partitions(&mut self, now_ms: i64) -> Result<i32, Failure> {
        if let Some((count, counted_ms)) = self.partitions
            && now_ms.saturating_sub(counted_ms) < RECOUNT_MS
        {
            return Ok(count);
        }
        let counted = match (self.count(), self.partitions) {
            (Ok(counted), _) => counted,
            // As many as before, until the next time.
            (Err(failure), Some((count, _))) if failure.kind == FailureKind::Passing => {
                self.partitions = Some((count, now_ms));
                return Ok(count);
            }
            (Err(failure), _) => return Err(failure),
        };
        let of_topic = counted
            .topics()
            .iter()
            .find(|topic| topic.name() == self.topic);
        let count = of_topic.map_or(0, |topic| topic.partitions().len());
        match i32::try_from(count) {
            Ok(count) if count > 0 => {
                self.partitions = Some((count, now_ms));
                Ok(count)
            }
            _ => Err(final_failure(format!(
                "there is no topic `{}`: create it, or correct 'topic'",
                self.topic
            ))),
        }
    }

    /// Asks until there is an answer, if it must be.
    fn count(&self) -> Result<Metadata, Failure> {
        let mut waited = Duration::ZERO;
        loop {
            let answer = self.patience.min(ANSWER);
            let metadata = self
                .producer
                .client()
                .fetch_metadata(Some(&self.topic), answer);
            let failure = match metadata {
                Ok(metadata) => return Ok(metadata),
                Err(error) => self.failure("count the partitions of", &error),
            };
            waited += answer;
            let passing = failure.kind == FailureKind::Passing;
            let known = self.partitions.is_some();
            if !passing || known || waited >= self.patience || self.is_canceled() {
                return Err(failure);
            }
            self.producer
                .client()
                .context()
                .condition
                .trouble(&failure.text);
        }
    }

    /// Hands a record to the client. Waits while its queue is full.
    pub(super) fn send(&mut self, record: Record<'_>, now_ms: i64) -> Result<(), Failure> {
        let partitions = self.partitions(now_ms)?;
        let mut message = BaseRecord::<[u8], [u8]>::to(&self.topic);
        if let Some(partition) = self.partitioner.partition(record.key, partitions) {
            message = message.partition(partition);
        }
        message.key = record.key;
        message.payload = record.value;
        message.timestamp = record.timestamp;
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for (key, value) in record.headers {
                let value = value.as_deref();
                headers = headers.insert(Header { key, value });
            }
            message.headers = Some(headers);
        }
        self.unpolled += 1;
        if self.unpolled >= POLL_EVERY {
            self.unpolled = 0;
            self.producer.poll(Duration::ZERO);
        }
        let mut waited = Duration::ZERO;
        loop {
            match self.producer.send(message) {
                Ok(()) => return Ok(()),
                Err((error, back)) => {
                    let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !full || waited > self.patience || self.is_canceled() {
                        return Err(self.failure("write", &error));
                    }
                    self.producer.poll(PAUSE);
                    self.check()?;
                    waited += PAUSE;
                    message = back;
                }
            }
        }
    }

    /// Waits until everything is on the brokers. The client's own flush looks for that ten times a
    /// second only.
    // The time is only used to end the wait, which the client ends earlier for each record.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn flush(&self) -> Result<(), Failure> {
        let patience = self.patience + Duration::from_secs(5);
        let started = std::time::Instant::now();
        while self.producer.in_flight_count() > 0 {
            if started.elapsed() > patience || self.is_canceled() {
                let late = KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut);
                return Err(self.failure("write", &late));
            }
            self.producer.poll(PAUSE);
        }
        self.check()?;
        self.producer.client().context().condition.well();
        Ok(())
    }

    fn is_canceled(&self) -> bool {
        self.producer.client().context().condition.is_canceled()
    }

    /// Whether a record was not delivered.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.producer.poll(Duration::ZERO);
        match self.producer.client().context().take_undelivered() {
            None => Ok(()),
            Some(reason) => {
                let text = format!(
                    "a record for topic `{}` was not delivered: {reason}",
                    self.topic
                );
                Err(Failure {
                    kind: self.fatal().unwrap_or(FailureKind::Passing),
                    text,
                })
            }
        }
    }

    fn fatal(&self) -> Option<FailureKind> {
        let (code, _) = self.producer.client().fatal_error()?;
        Some(kind_of(code))
    }

    /// What an error of the client means.
    pub(super) fn failure(&self, what: &str, error: &KafkaError) -> Failure {
        for _ in 0..MAX_EVENTS {
            self.producer.poll(Duration::ZERO);
        }
        let condition = &self.producer.client().context().condition;
        if let Some(refused) = condition.refused() {
            return final_failure(format!("cannot {what}: {refused}"));
        }
        let kind = self.fatal().unwrap_or_else(|| match error {
            KafkaError::Transaction(error) if error.is_fatal() => kind_of(error.code()),
            _ => error
                .rdkafka_error_code()
                .map_or(FailureKind::Passing, kind_of),
        });
        Failure {
            kind,
            text: format!("cannot {what} topic `{}`: {}", self.topic, told(error)),
        }
    }
}

fn kind_of(code: RDKafkaErrorCode) -> FailureKind {
    match code {
        RDKafkaErrorCode::Fenced
        | RDKafkaErrorCode::ProducerFenced
        | RDKafkaErrorCode::InvalidProducerEpoch => FailureKind::Fenced,
        RDKafkaErrorCode::MessageSizeTooLarge
        | RDKafkaErrorCode::InvalidMessageSize
        | RDKafkaErrorCode::InvalidRecord
        | RDKafkaErrorCode::InvalidTransactionTimeout => FailureKind::Final,
        code if is_final(code) => FailureKind::Final,
        _ => FailureKind::Passing,
    }
}

pub(super) fn final_failure(text: String) -> Failure {
    Failure {
        kind: FailureKind::Final,
        text,
    }
}
