//! What the brokers are asked: which partitions there are, and their offsets.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};

use super::{
    client::Context,
    offsets::{Answers, Lookup},
    topics::{TopicPartition, Topics},
};

/// Events of the client that are looked at for the reason of a failure.
const MAX_EVENTS: usize = 20;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Asking again may help.
    Away(String),
    /// It does not.
    Refused(String),
}

/// Asks through a consumer.
pub(super) struct Brokers {
    pub(super) consumer: Arc<BaseConsumer<Context>>,
    /// For each answer.
    pub(super) patience: Duration,
}

impl Brokers {
    /// The partitions of the table's topics.
    pub(super) fn partitions(&self, topics: &Topics) -> Result<Vec<TopicPartition>, Unanswered> {
        let mut found = Vec::new();
        match topics {
            Topics::Listed(names) => {
                for name in names {
                    self.add_partitions(Some(name), topics, &mut found)?;
                }
            }
            Topics::Matching(_) => self.add_partitions(None, topics, &mut found)?,
        }
        found.sort();
        Ok(found)
    }

    fn add_partitions(
        &self,
        topic: Option<&str>,
        topics: &Topics,
        found: &mut Vec<TopicPartition>,
    ) -> Result<(), Unanswered> {
        let metadata = self
            .consumer
            .fetch_metadata(topic, self.patience)
            .map_err(|error| self.unanswered("list the partitions", &error))?;
        for of_topic in metadata.topics() {
            let name = of_topic.name();
            if !topics.contains(name) {
                continue;
            }
            if let Some(error) = of_topic.error() {
                return Err(topic_error(name, error));
            }
            if of_topic.partitions().is_empty() {
                return Err(Unanswered::Away(format!(
                    "topic `{name}` shows no partitions yet"
                )));
            }
            let partitions = of_topic.partitions().iter();
            found.extend(partitions.map(|partition| TopicPartition::new(name, partition.id())));
        }
        Ok(())
    }

    /// The answers to all of `lookups` for all of `partitions`.
    pub(super) fn offsets(
        &self,
        lookups: &[Lookup],
        partitions: &[TopicPartition],
    ) -> Result<Answers, Unanswered> {
        let mut answers = Answers::new();
        if partitions.is_empty() {
            return Ok(answers);
        }
        for lookup in lookups {
            let offsets = match lookup {
                Lookup::Committed => self.consumer.committed_offsets(
                    list(partitions, Offset::Invalid)
                        .map_err(|error| self.unanswered("ask", &error))?,
                    self.patience,
                ),
                Lookup::Earliest => self.ask(partitions, Offset::Beginning),
                Lookup::Latest => self.ask(partitions, Offset::End),
                Lookup::At(time) => self.ask(partitions, Offset::Offset(*time)),
            };
            let what = match lookup {
                Lookup::Committed => "read the group's offsets",
                Lookup::Earliest | Lookup::Latest | Lookup::At(_) => "look offsets up",
            };
            let offsets = offsets.map_err(|error| self.unanswered(what, &error))?;
            for element in offsets.elements() {
                element
                    .error()
                    .map_err(|error| self.unanswered(what, &error))?;
                let partition = TopicPartition::new(element.topic(), element.partition());
                let offset = match element.offset() {
                    Offset::Offset(offset) => Some(offset),
                    _ => None,
                };
                answers.insert((*lookup, partition), offset);
            }
        }
        Ok(answers)
    }

    /// One request to each leader, whatever the number of its partitions: -1 and -2 in place of a
    /// time ask for the end and the beginning.
    fn ask(
        &self,
        partitions: &[TopicPartition],
        offset: Offset,
    ) -> Result<TopicPartitionList, KafkaError> {
        self.consumer
            .offsets_for_times(list(partitions, offset)?, self.patience)
    }

    fn unanswered(&self, what: &str, error: &KafkaError) -> Unanswered {
        // The client says what it met on its way to the brokers only when it is polled.
        for _ in 0..MAX_EVENTS {
            let _ = self.consumer.poll(Duration::ZERO);
        }
        if let Some(refusal) = self.consumer.client().context().condition.refused() {
            return Unanswered::Refused(format!("cannot {what}: {refusal}"));
        }
        let text = format!("cannot {what}: {}", told(error));
        match error.rdkafka_error_code() {
            Some(code) if is_final(code) => Unanswered::Refused(text),
            _ => Unanswered::Away(text),
        }
    }
}

/// An error in the client's words, without the name of the call that it came from.
pub(super) fn told(error: &KafkaError) -> String {
    match error {
        KafkaError::Transaction(error) => error.string(),
        _ => match error.rdkafka_error_code() {
            Some(code) => code.to_string(),
            None => error.to_string(),
        },
    }
}

/// Whether asking again gives the same answer.
pub(super) fn is_final(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::InvalidGroupId
            | RDKafkaErrorCode::UnsupportedVersion
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition
    )
}

fn topic_error(topic: &str, error: RDKafkaRespErr) -> Unanswered {
    let code = RDKafkaErrorCode::from(error);
    match code {
        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
            Unanswered::Refused(format!(
                "there is no topic `{topic}`: create it, or correct 'topic'"
            ))
        }
        _ if is_final(code) => Unanswered::Refused(format!("topic `{topic}`: {code}")),
        _ => Unanswered::Away(format!("topic `{topic}`: {code}")),
    }
}

fn list(partitions: &[TopicPartition], offset: Offset) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        match offset {
            Offset::Invalid => {
                list.add_partition(&partition.topic, partition.partition);
            }
            offset => {
                list.add_partition_offset(&partition.topic, partition.partition, offset)?;
            }
        }
    }
    Ok(list)
}

/// Offsets to commit to a group.
pub(super) fn positions(
    offsets: &BTreeMap<TopicPartition, i64>,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (partition, offset) in offsets {
        list.add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(*offset),
        )?;
    }
    Ok(list)
}
