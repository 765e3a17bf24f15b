//! Topics of the test's broker: made, filled and read to their end by a client of the test's own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    producer::{BaseRecord, Producer, ThreadedProducer},
};
use serde_json::Value;

/// For a single answer of the broker.
const PATIENCE: Duration = Duration::from_secs(30);

/// The broker's address, with clients made for each use.
pub(crate) struct Topics {
    bootstrap: String,
}

/// A record as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) timestamp: Option<i64>,
}

impl Record {
    /// The value, which is JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        let text = self.value.as_deref().context("a record has no value")?;
        serde_json::from_str(text).with_context(|| text.to_owned())
    }
}

impl Topics {
    pub(crate) fn of(bootstrap: String) -> Self {
        Topics { bootstrap }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    pub(crate) async fn create(&self, topic: &str, partitions: i32) -> Result<()> {
        let admin: AdminClient<_> = self.config().create()?;
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let made = admin.create_topics([&new], &AdminOptions::new()).await?;
        for result in made {
            result.map_err(|(topic, code)| anyhow::anyhow!("topic {topic}: {code}"))?;
        }
        Ok(())
    }

    /// A producer that goes on over restarts of the broker.
    pub(crate) fn producer(
        &self,
    ) -> Result<ThreadedProducer<rdkafka::producer::DefaultProducerContext>> {
        let mut config = self.config();
        config.set("enable.idempotence", "true");
        Ok(config.create()?)
    }

    /// Appends values to one partition and waits until the broker has them.
    pub(crate) fn append(&self, topic: &str, partition: i32, values: &[String]) -> Result<()> {
        let producer = self.producer()?;
        for value in values {
            let record = BaseRecord::<(), str>::to(topic)
                .partition(partition)
                .payload(value);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(PATIENCE)?;
        Ok(())
    }

    /// All committed records up to the end that there is now.
    pub(crate) fn read(&self, topic: &str) -> Result<Vec<Record>> {
        let mut config = self.config();
        config.set("group.id", "test");
        config.set("enable.auto.commit", "false");
        config.set("enable.partition.eof", "true");
        config.set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create()?;
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
        let partitions = metadata
            .topics()
            .first()
            .context("no topic")?
            .partitions()
            .len();
        let mut list = TopicPartitionList::new();
        for partition in 0..i32::try_from(partitions)? {
            list.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let mut records = Vec::new();
        let mut ended = 0;
        let deadline = Instant::now() + PATIENCE;
        while ended < partitions {
            match consumer.poll(Duration::from_millis(100)) {
                None if Instant::now() > deadline => bail!("topic {topic} has no end"),
                None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(record)) => {
                    let text = |bytes: Option<&[u8]>| {
                        bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                    };
                    records.push(Record {
                        partition: record.partition(),
                        key: text(record.key()),
                        value: text(record.payload()),
                        timestamp: record.timestamp().to_millis(),
                    });
                }
            }
        }
        Ok(records)
    }

    /// The group's committed offset of a partition.
    pub(crate) fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Result<Option<i64>> {
        let mut config = self.config();
        config.set("group.id", group);
        let consumer: BaseConsumer = config.create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let offsets = consumer.committed_offsets(list, PATIENCE)?;
        let found = offsets.find_partition(topic, partition);
        Ok(found
            .and_then(|element| element.offset().to_raw())
            .filter(|offset| *offset >= 0))
    }
}
