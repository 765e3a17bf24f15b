//! The client that reads all partitions of one subtask: one connection to each broker, and a
//! bounded queue for each partition.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, base_consumer::PartitionQueue},
    error::KafkaError,
};

use super::{
    brokers::{positions, told},
    client::Context,
    condition::{Condition, Severity},
    options::SourceOptions,
    properties::refusal,
    topics::TopicPartition,
};

/// Memory for records that were fetched and not read yet, over all partitions of a subtask.
const QUEUES_KB: usize = 64 << 10;
const MIN_QUEUE_KB: usize = 1 << 10;
const MAX_QUEUE_KB: usize = 16 << 10;
/// How often the client's own events are looked at.
const SERVE_MS: i64 = 100;

/// A reading client.
pub(super) struct Reading {
    consumer: Arc<BaseConsumer<Context>>,
    pub(super) condition: Arc<Condition>,
    has_group: bool,
    served_ms: AtomicI64,
}

/// A consumer for the table; `partitions` are expected to be read by it.
pub(super) fn consumer(
    options: &SourceOptions,
    condition: &Arc<Condition>,
    partitions: usize,
) -> Result<Arc<BaseConsumer<Context>>, String> {
    let mut config = options.properties.config();
    let default = |config: &mut ClientConfig, name: &str, value: &str| {
        if options.properties.get(name).is_none() {
            config.set(name, value);
        }
    };
    // Without a group the client assigns nothing; nothing is committed to this one.
    default(&mut config, "group.id", "millrace");
    default(&mut config, "isolation.level", "read_committed");
    let queue = (QUEUES_KB / partitions.max(1)).clamp(MIN_QUEUE_KB, MAX_QUEUE_KB);
    default(
        &mut config,
        "queued.max.messages.kbytes",
        &queue.to_string(),
    );
    // A full queue is soon read: a fetch that waits for longer would leave the slot idle.
    default(&mut config, "fetch.queue.backoff.ms", "20");
    default(&mut config, "fetch.wait.max.ms", "100");
    default(&mut config, "reconnect.backoff.max.ms", "5000");
    default(&mut config, "topic.metadata.refresh.interval.ms", "60000");
    let reset = match options.properties.get("auto.offset.reset") {
        Some("none") | None => "error",
        Some(other) => other,
    };
    config.set("auto.offset.reset", reset);
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    config.set(
        "enable.partition.eof",
        options.bounded.is_some().to_string(),
    );
    config
        .create_with_context(Context::new(condition.clone()))
        .map(Arc::new)
        .map_err(|error: KafkaError| refusal(&error))
}

impl Reading {
    pub(super) fn new(
        options: &SourceOptions,
        condition: &Arc<Condition>,
        partitions: usize,
    ) -> Result<Self, String> {
        Ok(Reading {
            consumer: consumer(options, condition, partitions)?,
            condition: condition.clone(),
            has_group: options.properties.get("group.id").is_some(),
            served_ms: AtomicI64::new(i64::MIN),
        })
    }

    /// Begins to fetch a partition. Its queue is split off first, or what is fetched at once would
    /// go to the common one.
    pub(super) fn assign(
        &self,
        partition: &TopicPartition,
        offset: i64,
    ) -> Result<PartitionQueue<Context>, String> {
        let queue = self
            .consumer
            .split_partition_queue(&partition.topic, partition.partition)
            .ok_or_else(|| format!("topic `{}` has no queue", partition.topic))?;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition_offset(
            &partition.topic,
            partition.partition,
            Offset::Offset(offset),
        )
        .and_then(|()| self.consumer.incremental_assign(&list))
        .map_err(|error| {
            format!(
                "topic `{}` partition {} cannot be read: {}",
                partition.topic,
                partition.partition,
                told(&error)
            )
        })?;
        Ok(queue)
    }

    pub(super) fn unassign(&self, partition: &TopicPartition) {
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&partition.topic, partition.partition);
        if let Err(error) = self.consumer.incremental_unassign(&list) {
            tracing::debug!(?partition, %error, "a partition could not be unassigned");
        }
    }

    /// Takes note of the client's own events, from time to time. Cheap otherwise.
    pub(super) fn serve(&self, now_ms: i64) -> Result<(), String> {
        let last = self.served_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(last) < SERVE_MS && now_ms >= last {
            return Ok(());
        }
        self.served_ms.store(now_ms, Ordering::Relaxed);
        while let Some(event) = self.consumer.poll(Duration::ZERO) {
            match event {
                // Those of partitions come to their queues.
                Err(error) => tracing::debug!(%error, "event of a Kafka consumer"),
                Ok(record) => {
                    use rdkafka::Message;
                    return Err(format!(
                        "internal fault: a record of topic `{}` partition {} came to the wrong queue: please report it",
                        record.topic(),
                        record.partition()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Tells the group where a complete checkpoint stands.
    pub(super) fn commit(&self, offsets: &BTreeMap<TopicPartition, i64>) {
        if !self.has_group || offsets.is_empty() {
            return;
        }
        let committed =
            positions(offsets).and_then(|list| self.consumer.commit(&list, CommitMode::Async));
        if let Err(error) = committed {
            let text = format!("offsets cannot be committed to the group: {}", told(&error));
            self.condition.tell(Severity::Warning, &text);
        }
    }
}
