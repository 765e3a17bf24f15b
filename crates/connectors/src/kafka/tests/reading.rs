use arrow::array::Array;
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};

use super::*;
use crate::kafka::KafkaSource;

const EARLIEST: (&str, &str) = ("scan.startup.mode", "earliest-offset");
const TO_LATEST: (&str, &str) = ("scan.bounded.mode", "latest-offset");

fn values(ids: std::ops::Range<i64>) -> Vec<String> {
    ids.map(|id| format!(r#"{{"id":{id},"name":"n{id}"}}"#))
        .collect()
}

fn fill(topic: &str, partition: i32, ids: std::ops::Range<i64>) {
    let values = values(ids);
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    append(topic, partition, &values);
}

fn source(topic: &str, more: &[(&str, &str)]) -> KafkaSource {
    KafkaSource::new(&source_node(topic, more)).unwrap()
}

fn offsets(splits: &[SplitState]) -> Vec<i64> {
    splits
        .iter()
        .map(|split| split.position["offset"].as_i64().unwrap())
        .collect()
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn a_bounded_table_is_read_to_its_end_and_on_from_any_position() {
    let topic = topic(3);
    fill(&topic, 0, 0..5_000);
    fill(&topic, 2, 5_000..5_010);
    let table = source(&topic, &[EARLIEST, TO_LATEST]);
    let splits = table.splits(2).unwrap();
    assert_eq!(offsets(&splits), [0, 0, 0]);
    fill(&topic, 1, 9_000..9_010);
    let mut task = Task::open(&table, &splits);
    let all = task.rows(usize::MAX).unwrap();
    assert_eq!(all.len(), 5_010);
    assert!(all.iter().take(5_000).map(|(_, at, _)| *at).eq(0..5_000));
    assert_eq!(all[5_009], (2, 9, Some(5_009)));
    assert_eq!(offsets(&task.positions()), [5_000, 0, 10]);
    // A restored task goes on where it stood, also in the middle.
    let mut middle = splits.clone();
    middle[0].position["offset"] = 4_998.into();
    let rest = Task::open(&source(&topic, &[EARLIEST, TO_LATEST]), &middle)
        .rows(usize::MAX)
        .unwrap();
    assert_eq!(rest.len(), 12);
    assert_eq!(rest[0], (0, 4_998, Some(4_998)));
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn every_startup_mode_becomes_numbers() {
    let topic = topic(2);
    fill(&topic, 0, 0..10);
    let before = now_ms();
    std::thread::sleep(Duration::from_millis(5));
    fill(&topic, 0, 10..15);
    let consumer: BaseConsumer = config().set("group.id", &topic).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, rdkafka::Offset::Offset(7))
        .unwrap();
    consumer
        .commit(&list, rdkafka::consumer::CommitMode::Sync)
        .unwrap();

    let mode = ("scan.startup.mode", "group-offsets");
    let group = ("properties.group.id", topic.as_str());
    let time = (before + 1).to_string();
    for (more, expected) in [
        (vec![("scan.startup.mode", "latest-offset")], [15, 0]),
        (
            vec![mode, group, ("properties.auto.offset.reset", "latest")],
            [7, 0],
        ),
        (
            vec![
                ("scan.startup.mode", "timestamp"),
                ("scan.startup.timestamp-millis", &time),
            ],
            [10, 0],
        ),
        (
            vec![
                ("scan.startup.mode", "specific-offsets"),
                (
                    "scan.startup.specific-offsets",
                    "partition:0,offset:3;partition:1,offset:0",
                ),
            ],
            [3, 0],
        ),
    ] {
        let table = source(&topic, &more);
        assert_eq!(offsets(&table.splits(1).unwrap()), expected, "{more:?}");
        // What is listed later is read from the beginning.
        assert_eq!(offsets(&table.later_splits(1).unwrap()), [0, 0]);
        assert_eq!(
            offsets(&source(&topic, &more).later_splits(1).unwrap()),
            [0, 0]
        );
    }
    let error = source(&topic, &[mode, group]).splits(1).unwrap_err();
    assert!(
        error.0.contains("partition 1") && error.0.contains("auto.offset.reset"),
        "{error}"
    );
    let error = source("no-such-topic", &[EARLIEST]).splits(1).unwrap_err();
    assert!(
        error.0.contains("there is no topic `no-such-topic`"),
        "{error}"
    );
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn malformed_records_are_named_and_offsets_are_committed_to_the_group() {
    let topic = topic(1);
    append(
        &topic,
        0,
        &[r#"{"id":1}"#, "no JSON", r#"{"id":"x"}"#, r#"{"id":2}"#],
    );
    let strict = source(&topic, &[EARLIEST]);
    let mut task = Task::open(&strict, &strict.splits(1).unwrap());
    assert_eq!(task.rows(1).unwrap(), [(0, 0, Some(1))]);
    let error = task.rows(1).unwrap_err();
    let place = format!("topic `{topic}` partition 0 offset 1: ");
    assert!(
        error.contains(&place) && error.contains("'on-error'"),
        "{error}"
    );
    assert_eq!(offsets(&task.positions()), [1]);
    drop(task);

    let group = ("properties.group.id", topic.as_str());
    let letters = [
        EARLIEST,
        TO_LATEST,
        group,
        ("on-error", "dead-letter"),
        ("dead-letter.path", "/x"),
    ];
    let lax = source(&topic, &letters);
    let mut task = Task::open(&lax, &lax.splits(1).unwrap());
    assert_eq!(
        task.rows(usize::MAX).unwrap(),
        [(0, 0, Some(1)), (0, 3, Some(2))]
    );
    let (bad, letters) = task.readers[0].1.take_bad_records();
    assert_eq!((bad, letters.len()), (2, 2));
    assert_eq!(letters[0].raw, b"no JSON");
    assert!(letters[1].place.contains("offset 2") && letters[1].reason.contains("field `id`"));

    assert!(lax.wants_completed());
    lax.completed(&task.positions());
    let consumer: BaseConsumer = config().set("group.id", &topic).create().unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut list = TopicPartitionList::new();
        list.add_partition(&topic, 0);
        let committed = consumer.committed_offsets(list, PATIENCE).unwrap();
        if committed.elements()[0].offset() == rdkafka::Offset::Offset(4) {
            break;
        }
        assert!(Instant::now() < deadline, "the offset is not committed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn many_partitions_of_many_topics_are_read_side_by_side() {
    let (first, second) = (topic(40), topic(40));
    for partition in 0..40 {
        fill(&first, partition, 0..20);
        fill(&second, partition, 0..20);
    }
    let both = format!("{first};{second}");
    let table = source(&both, &[EARLIEST, TO_LATEST]);
    let splits = table.splits(1).unwrap();
    assert_eq!(splits.len(), 80);
    assert_eq!(
        Task::open(&table, &splits).rows(usize::MAX).unwrap().len(),
        1_600
    );
    // The same by pattern.
    let mut node = source_node("", &[EARLIEST, TO_LATEST]);
    node.options.remove("topic");
    node.options
        .insert("topic-pattern".into(), format!("{first}|{second}"));
    assert_eq!(KafkaSource::new(&node).unwrap().splits(1).unwrap(), splits);
    // A topic that the table has no more is not read on.
    let fewer = source(&first, &[EARLIEST, TO_LATEST]);
    assert_eq!(
        Task::open(&fewer, &splits).rows(usize::MAX).unwrap().len(),
        800
    );
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn deleted_records_are_an_error_and_aborted_ones_are_not_read() {
    let topic = topic(1);
    let mut transactional = config();
    transactional.set("transactional.id", &topic);
    let producer: ThreadedProducer<DefaultProducerContext> = transactional.create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    for (value, commit) in [
        (r#"{"id":1}"#, true),
        (r#"{"id":2}"#, false),
        (r#"{"id":3}"#, true),
        (r#"{"id":4}"#, false),
    ] {
        producer.begin_transaction().unwrap();
        producer
            .send(BaseRecord::<(), str>::to(&topic).payload(value))
            .unwrap();
        producer.flush(PATIENCE).unwrap();
        if commit {
            producer.commit_transaction(PATIENCE).unwrap();
        } else {
            producer.abort_transaction(PATIENCE).unwrap();
        }
    }
    // Ends though its last offsets are those of an aborted record and of markers.
    let table = source(&topic, &[EARLIEST, TO_LATEST]);
    let mut task = Task::open(&table, &table.splits(1).unwrap());
    assert_eq!(
        task.rows(usize::MAX).unwrap(),
        [(0, 0, Some(1)), (0, 4, Some(3))]
    );

    let mut beyond = table.splits(1).unwrap();
    beyond[0].position = serde_json::json!({"format": 1, "offset": 1_000});
    let unbounded = source(&topic, &[EARLIEST]);
    let error = Task::open(&unbounded, &beyond).rows(1).unwrap_err();
    assert!(error.contains("offset 1000 is not there"), "{error}");
}

#[test]
fn brokers_that_are_away_are_told_of() {
    let more = [
        EARLIEST,
        ("properties.bootstrap.servers", "127.0.0.1:9"),
        ("properties.sasl.password", "hunter2"),
    ];
    let table = source("t", &more);
    let notices = Arc::new(Notices::default());
    table.report_to(notices.clone());
    let started = Instant::now();
    assert_eq!(table.splits(1).unwrap(), []);
    assert!(started.elapsed() < Duration::from_secs(8));
    assert!(table.awaits_splits());
    assert_eq!(table.discovery_interval_ms(), Some(1_000));
    let told = notices.0.lock().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("warning: table `t`: Kafka at 127.0.0.1:9: "),
        "{told:?}"
    );
    assert!(told[0].ends_with("; trying again"), "{told:?}");
}

#[test]
#[ignore = "needs a broker at MILLRACE_TEST_KAFKA"]
fn metadata_are_columns() {
    use arrow::array::AsArray;
    use arrow::datatypes::{Fields, TimeUnit, TimestampMillisecondType};
    use rdkafka::message::{Header, OwnedHeaders};

    let topic = topic(1);
    let producer: ThreadedProducer<DefaultProducerContext> = config().create().unwrap();
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "a",
            value: Some("1"),
        })
        .insert(Header {
            key: "a",
            value: None::<&str>,
        });
    let first = BaseRecord::<(), str>::to(&topic)
        .payload("{}")
        .timestamp(1_700_000_000_123);
    producer.send(first.headers(headers)).unwrap();
    producer.flush(PATIENCE).unwrap();
    append(&topic, 0, &["{}"]);

    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, true),
    ]);
    let entries = Arc::new(Field::new("entries", DataType::Struct(entries), false));
    let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let mut node = source_node(&topic, &[EARLIEST, TO_LATEST]);
    node.metadata = [
        ("topic", DataType::Utf8),
        ("timestamp", utc),
        ("timestamp-type", DataType::Utf8),
        ("headers", DataType::Map(entries, false)),
    ]
    .map(|(key, data_type)| (key.to_owned(), Field::new(key, data_type, true)))
    .to_vec();
    let table = KafkaSource::new(&node).unwrap();
    let mut task = Task::open(&table, &table.splits(1).unwrap());
    let deadline = Instant::now() + PATIENCE;
    let mut batches = Vec::new();
    while batches.iter().map(RecordBatch::num_rows).sum::<usize>() < 2 {
        assert!(Instant::now() < deadline);
        if let Polled::Rows(rows) = task.readers[0].1.poll(10, now_ms()).unwrap() {
            batches.push(rows);
        }
    }
    let rows = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(rows.num_rows(), 2);
    assert_eq!(rows.column(2).as_string::<i32>().value(1), topic);
    let times = rows.column(3).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.value(0), 1_700_000_000_123);
    assert!((now_ms() - times.value(1)).abs() < 60_000);
    assert_eq!(rows.column(4).as_string::<i32>().value(0), "CreateTime");
    let headers = rows.column(5).as_map();
    let of_first = headers.value(0);
    let (keys, values) = (
        of_first.column(0).as_string::<i32>(),
        of_first.column(1).as_binary::<i32>(),
    );
    assert_eq!((keys.value(0), values.value(0)), ("a", &b"1"[..]));
    assert_eq!((keys.value(1), values.is_null(1)), ("a", true));
    assert_eq!(headers.value(1).len(), 0);
}
