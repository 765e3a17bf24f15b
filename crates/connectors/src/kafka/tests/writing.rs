use arrow::array::{ArrayRef, Int64Array, StringArray};
use millrace_types::CheckpointId;
use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
};

use super::*;
use crate::{
    kafka::{KafkaSink, UpsertKafkaSink},
    sink::{Committable, Sink, SinkWriter},
};

const ONCE: (&str, &str) = ("sink.delivery-guarantee", "exactly-once");

fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let names = ids.clone().map(|id| format!("n{id}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(StringArray::from_iter_values(names)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Key and value of every committed record, in the order of partitions.
fn read(topic: &str) -> Vec<(i32, Option<String>, Option<String>)> {
    let mut config = config();
    config
        .set("group.id", "reader")
        .set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    let partitions = metadata.topics()[0].partitions().len();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition as i32, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut records, mut ended) = (Vec::new(), 0);
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    while ended < partitions {
        match consumer.poll(PATIENCE).unwrap() {
            Ok(record) => records.push((
                record.partition(),
                text(record.key()),
                text(record.payload()),
            )),
            Err(KafkaError::PartitionEOF(_)) => ended += 1,
            Err(error) => panic!("{error}"),
        }
    }
    records.sort_by_key(|(partition, _, _)| *partition);
    records
}

fn ids(topic: &str) -> Vec<i64> {
    ids_of(&read(topic))
}

fn ids_of(records: &[(i32, Option<String>, Option<String>)]) -> Vec<i64> {
    let records = records.iter();
    let mut ids: Vec<i64> = records
        .map(|(_, _, value)| {
            let value: serde_json::Value = serde_json::from_str(value.as_ref().unwrap()).unwrap();
            value["id"].as_i64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    ids
}

fn writer(topic: &str, job: &str, subtask: u32) -> Box<dyn SinkWriter> {
    let sink = KafkaSink::new(&sink_node(topic, &[ONCE], &[])).unwrap();
    sink.open(&context(job, subtask)).unwrap()
}

fn stage(
    writer: &mut dyn SinkWriter,
    ids: std::ops::Range<i64>,
    checkpoint: u64,
) -> Vec<Committable> {
    writer.write(&rows(ids), None).unwrap();
    writer.at_barrier(CheckpointId(checkpoint));
    writer.pre_commit().unwrap()
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn rows_are_there_at_the_barrier_and_spread_by_key() {
    let topic = topic(3);
    let keyed = [("key.format", "raw"), ("key.fields", "name")];
    let sink = KafkaSink::new(&sink_node(&topic, &keyed, &[])).unwrap();
    let mut writer = sink.open(&context("j", 0)).unwrap();
    writer.write(&rows(0..100), None).unwrap();
    assert_eq!(writer.pre_commit().unwrap(), []);
    let records = read(&topic);
    assert_eq!(ids(&topic), (0..100).collect::<Vec<_>>());
    // As Java's producer: murmur2 of "n1", for one.
    let mut by_key = super::super::partitioner::Partitioner::new(
        super::super::options::PartitionerKind::ByKey,
        0,
    );
    for (partition, key, value) in &records {
        let key = key.as_deref().unwrap();
        assert!(
            value
                .as_deref()
                .unwrap()
                .contains(&format!("\"name\":\"{key}\""))
        );
        assert_eq!(
            by_key.partition(Some(key.as_bytes()), 3),
            Some(*partition),
            "{key}"
        );
    }
    let error = KafkaSink::new(&sink_node("no-such-topic", &[], &[])).unwrap();
    let mut writer = error.open(&context("j", 0)).unwrap();
    let error = writer.write(&rows(0..1), None).unwrap_err();
    assert!(
        error.0.contains("there is no topic `no-such-topic`"),
        "{error}"
    );
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn deletions_are_tombstones() {
    let topic = topic(2);
    let formats = [
        ("key.format", "json"),
        ("value.fields-include", "EXCEPT_KEY"),
    ];
    let sink = UpsertKafkaSink::new(&sink_node(&topic, &formats, &[0])).unwrap();
    let mut writer = sink.open(&context("j", 0)).unwrap();
    let kinds = [
        RowKind::Insert,
        RowKind::UpdateBefore,
        RowKind::UpdateAfter,
        RowKind::Delete,
    ];
    writer.write(&rows(0..4), Some(&kinds)).unwrap();
    writer.pre_commit().unwrap();
    let mut records: Vec<_> = read(&topic)
        .into_iter()
        .map(|(_, key, value)| (key.unwrap(), value))
        .collect();
    records.sort();
    let value = |name: &str| Some(format!(r#"{{"name":"{name}"}}"#));
    assert_eq!(
        records,
        [
            (r#"{"id":0}"#.to_owned(), value("n0")),
            (r#"{"id":2}"#.to_owned(), value("n2")),
            (r#"{"id":3}"#.to_owned(), None),
        ]
    );
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn epochs_land_once_however_often_they_are_committed() {
    let topic = topic(2);
    let mut first = writer(&topic, &topic, 0);
    let one = stage(first.as_mut(), 0..1_000, 1);
    let two = stage(first.as_mut(), 1_000..1_010, 2);
    assert_eq!(ids(&topic), Vec::<i64>::new());
    first.commit(&one).unwrap();
    assert_eq!(ids(&topic), (0..1_000).collect::<Vec<_>>());

    // The job is restored from checkpoint 2, whose epochs the snapshot holds: one has landed.
    let all = [one.clone(), two.clone()].concat();
    let mut second = writer(&topic, &topic, 0);
    second.commit(&all).unwrap();
    assert_eq!(ids(&topic), (0..1_010).collect::<Vec<_>>());
    // And again, after a crash that nobody has noticed.
    writer(&topic, &topic, 0).commit(&all).unwrap();

    // The zombie learns of checkpoint 2 late: it is fenced, and writes nothing.
    let error = first.commit(&two).unwrap_err();
    assert!(
        error
            .0
            .contains("another execution of this job has taken over"),
        "{error}"
    );
    assert_eq!(ids(&topic), (0..1_010).collect::<Vec<_>>());

    // One that has never written before reads the marker.
    let mut late = writer(&topic, &topic, 0);
    late.commit(&two).unwrap();
    let three = stage(late.as_mut(), 1_010..1_020, 3);
    late.commit(&three).unwrap();
    assert_eq!(ids(&topic), (0..1_020).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn subtask_0_settles_for_all_former_ones() {
    let topic = topic(1);
    let mut staged = Vec::new();
    for subtask in 0..3_u32 {
        let from = i64::from(subtask) * 10;
        staged.extend(stage(
            writer(&topic, &topic, subtask).as_mut(),
            from..from + 10,
            5,
        ));
    }
    // One of them had committed before the crash.
    writer(&topic, &topic, 1).commit(&staged[1..2]).unwrap();
    let mut restored = writer(&topic, &topic, 0);
    restored.commit(&staged).unwrap();
    assert_eq!(ids(&topic), (0..30).collect::<Vec<_>>());
    let next = stage(restored.as_mut(), 30..40, 6);
    restored.commit(&next).unwrap();
    assert_eq!(ids(&topic), (0..40).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn a_transaction_that_was_left_open_holds_nobody_up() {
    let topic = topic(1);
    let mut dead = writer(&topic, &topic, 0);
    let one = stage(dead.as_mut(), 0..10, 1);
    // A dead execution wrote rows and marker, and never committed.
    let id = format!("millrace-{topic}-w-0");
    let mut transactional = config();
    transactional.set("transactional.id", &id);
    let producer: ThreadedProducer<DefaultProducerContext> = transactional.create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer
        .send(BaseRecord::<(), str>::to(&topic).payload(r#"{"id":0}"#))
        .unwrap();
    let group: BaseConsumer = config().set("group.id", &id).create().unwrap();
    let mut marker = TopicPartitionList::new();
    marker
        .add_partition_offset(&topic, 0, Offset::Offset(1))
        .unwrap();
    producer
        .send_offsets_to_transaction(&marker, &group.group_metadata().unwrap(), PATIENCE)
        .unwrap();
    producer.flush(PATIENCE).unwrap();
    let started = Instant::now();
    writer(&topic, &topic, 0).commit(&one).unwrap();
    assert_eq!(ids(&topic), (0..10).collect::<Vec<_>>());
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    assert!(producer.commit_transaction(PATIENCE).is_err());
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn a_marker_that_brokers_have_forgotten_is_asked_about() {
    let topic = topic(1);
    let staged = stage(writer(&topic, &topic, 0).as_mut(), 0..10, 1);
    let mut old = staged[0].clone();
    old.0["staged-ms"] = (now_ms() - 8 * 24 * 3_600_000).into();
    let error = writer(&topic, &topic, 0)
        .commit(std::slice::from_ref(&old))
        .unwrap_err();
    assert!(
        error.0.contains("'sink.lost-marker'") && error.0.contains("checkpoint 1"),
        "{error}"
    );
    for (choice, expected) in [("skip", 0), ("replay", 10)] {
        let options = [ONCE, ("sink.lost-marker", choice)];
        let sink = KafkaSink::new(&sink_node(&topic, &options, &[])).unwrap();
        let mut writer = sink.open(&context(&topic, 0)).unwrap();
        writer.commit(std::slice::from_ref(&old)).unwrap();
        assert_eq!(ids(&topic).len(), expected, "{choice}");
    }
}

#[test]
fn what_a_checkpoint_cannot_hold_is_refused_before_it_is_taken() {
    let sink = KafkaSink::new(&sink_node("t", &[ONCE], &[])).unwrap();
    let mut writer = sink.open(&context("j", 0)).unwrap();
    let mut seed = 1_u64;
    let mut text = |length: usize| -> String {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + (seed >> 33) as u8 % 64)
        };
        (0..length).map(|_| next()).collect()
    };
    let mut batches = 0;
    let error = loop {
        let names = StringArray::from_iter_values((0..100).map(|_| text(10_000)));
        let ids = Int64Array::from_iter_values(0..100);
        let rows = RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(names)]).unwrap();
        match writer.write(&rows, None) {
            Ok(()) => batches += 1,
            Err(error) => break error.0,
        }
        assert!(batches < 40, "{batches} MB were taken");
    };
    assert!(batches > 8, "{batches}: {error}");
    assert!(
        error.contains("at most 16384 KiB") && error.contains("checkpointing.interval"),
        "{error}"
    );
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn timestamps_and_headers_are_written() {
    use arrow::array::{BinaryBuilder, MapBuilder, StringBuilder, TimestampMillisecondArray};
    use rdkafka::message::Headers;

    let mut maps = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    maps.keys().append_value("h");
    maps.values().append_value(b"v");
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let maps: ArrayRef = Arc::new(maps.finish());
    let times: ArrayRef =
        Arc::new(TimestampMillisecondArray::from(vec![Some(1_000), None]).with_timezone("UTC"));
    let noted = |key: &str, column: &ArrayRef| {
        let field = Field::new(key, column.data_type().clone(), true);
        field.with_metadata([("millrace.metadata".to_owned(), key.to_owned())].into())
    };
    for guarantee in ["at-least-once", "exactly-once"] {
        let topic = topic(1);
        let mut node = sink_node(&topic, &[("sink.delivery-guarantee", guarantee)], &[]);
        node.schema = Arc::new(Schema::new(vec![
            noted("timestamp", &times),
            Field::new("id", DataType::Int64, true),
            noted("headers", &maps),
        ]));
        let mut writer = KafkaSink::new(&node)
            .unwrap()
            .open(&context(&topic, 0))
            .unwrap();
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let columns = vec![times.clone(), ids, maps.clone()];
        let rows = RecordBatch::try_new(node.schema.clone(), columns).unwrap();
        writer.write(&rows, None).unwrap();
        writer.at_barrier(CheckpointId(1));
        let staged = writer.pre_commit().unwrap();
        writer.commit(&staged).unwrap();
        assert_eq!(ids_of(&read(&topic)), [7, 8]);
        let consumer: BaseConsumer = config().set("group.id", "reader").create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Beginning)
            .unwrap();
        consumer.assign(&list).unwrap();
        let first = consumer.poll(PATIENCE).unwrap().unwrap();
        assert_eq!(first.payload(), Some(&br#"{"id":7}"#[..]));
        assert_eq!(first.timestamp().to_millis(), Some(1_000));
        let header = first.headers().unwrap().get(0);
        assert_eq!((header.key, header.value), ("h", Some(&b"v"[..])));
        let second = consumer.poll(PATIENCE).unwrap().unwrap();
        assert!(second.headers().is_none());
        assert!((now_ms() - second.timestamp().to_millis().unwrap()).abs() < 60_000);
    }
}
