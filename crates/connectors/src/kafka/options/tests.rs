//! Options of Kafka tables: what is taken, what is refused, and where.

use super::*;

fn options(more: &[(&str, &str)]) -> TableOptions {
    let mut options: TableOptions = [
        ("connector", "kafka"),
        ("properties.bootstrap.servers", "localhost:9092"),
        ("topic", "in"),
        ("format", "json"),
        ("scan.startup.mode", "earliest-offset"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    for (key, value) in more {
        if value.is_empty() {
            options.remove(*key);
        } else {
            options.insert((*key).to_owned(), (*value).to_owned());
        }
    }
    options
}

fn source(more: &[(&str, &str)]) -> Result<SourceOptions, String> {
    SourceOptions::new("t", &options(more)).map_err(|error| error.0)
}

fn sink(more: &[(&str, &str)]) -> Result<SinkOptions, String> {
    SinkOptions::new("t", &options(more), "millrace").map_err(|error| error.0)
}

#[test]
fn defaults() {
    let read = source(&[]).unwrap();
    assert_eq!(read.startup, OffsetsMode::Earliest);
    assert_eq!(read.bounded, None);
    assert_eq!(read.discovery_ms, Some(300_000));
    assert_eq!(read.on_error, OnError::Fail);
    let written = sink(&[]).unwrap();
    assert_eq!(written.guarantee, Guarantee::AtLeastOnce);
    assert_eq!(written.partitioner, PartitionerKind::ByKey);
    assert_eq!(written.transactional_prefix, "millrace");
    assert_eq!(written.lost_marker, LostMarker::Fail);
}

#[test]
fn where_to_start_and_end() {
    let group = ("properties.group.id", "g");
    for (more, startup) in [
        (
            vec![("scan.startup.mode", "latest-offset")],
            OffsetsMode::Latest,
        ),
        (
            vec![("scan.startup.mode", ""), group],
            OffsetsMode::Group(Fallback::Fail),
        ),
        (
            vec![
                ("scan.startup.mode", "group-offsets"),
                group,
                ("properties.auto.offset.reset", "latest"),
            ],
            OffsetsMode::Group(Fallback::Latest),
        ),
        (
            vec![
                ("scan.startup.mode", "timestamp"),
                ("scan.startup.timestamp-millis", "1700000000000"),
            ],
            OffsetsMode::Timestamp(1_700_000_000_000),
        ),
        (
            vec![
                ("scan.startup.mode", "specific-offsets"),
                ("scan.startup.specific-offsets", "partition:0,offset:4"),
            ],
            OffsetsMode::Specific([(0, 4)].into()),
        ),
    ] {
        assert_eq!(source(&more).unwrap().startup, startup, "{more:?}");
    }
    let bounded = source(&[("scan.bounded.mode", "latest-offset")]).unwrap();
    assert_eq!(bounded.bounded, Some(OffsetsMode::Latest));
    // What ends does not wait for partitions to come.
    assert_eq!(bounded.discovery_ms, None);
    let off = source(&[("scan.topic-partition-discovery.interval", "0 s")]).unwrap();
    assert_eq!(off.discovery_ms, None);
}

#[test]
fn options_of_formats_belong_to_their_side() {
    for more in [
        vec![("json.fail-on-missing-field", "true")],
        vec![
            ("key.format", "csv"),
            ("key.csv.null-literal", "x"),
            ("key.fields", "a"),
        ],
        vec![
            ("format", ""),
            ("value.format", "csv"),
            ("value.csv.null-literal", "x"),
        ],
        vec![
            ("format", ""),
            ("value.format", "csv"),
            ("csv.null-literal", "x"),
        ],
    ] {
        source(&more).unwrap();
    }
    let error = source(&[("key.csv.null-literal", "x")]).unwrap_err();
    assert!(error.contains("key.csv.null-literal"), "{error}");
}

#[test]
fn what_is_wrong_is_told() {
    for (more, part) in [
        (vec![("scan.startup.mode", "")], "say where reading starts"),
        (
            vec![("scan.startup.mode", "group-offsets")],
            "properties.group.id",
        ),
        (vec![("scan.startup.mode", "earliest")], "'earliest-offset'"),
        (
            vec![("scan.startup.mode", "timestamp")],
            "scan.startup.timestamp-millis",
        ),
        (
            vec![("scan.startup.mode", "specific-offsets"), ("topic", "a;b")],
            "one topic",
        ),
        (
            vec![("scan.bounded.mode", "earliest-offset")],
            "'unbounded'",
        ),
        (
            vec![
                ("scan.bounded.mode", "timestamp"),
                ("scan.bounded.timestamp-millis", "soon"),
            ],
            "epoch milliseconds",
        ),
        (
            vec![("scan.startup.mod", "x")],
            "did you mean 'scan.startup.mode'",
        ),
        (vec![("on-error", "ignore")], "'dead-letter'"),
        (vec![("on-error", "dead-letter")], "dead-letter.path"),
        (
            vec![("scan.topic-partition-discovery.interval", "5")],
            "with its unit",
        ),
        (vec![("topic", "")], "'topic' is missing"),
        (vec![("sink.parallelism", "2")], "the job's parallelism"),
    ] {
        let error = source(&more).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(error.starts_with("table `t`: "), "{error}");
    }
    for (more, part) in [
        (vec![("topic", "a;b")], "one topic"),
        (vec![("sink.partitioner", "random")], "'round-robin'"),
        (vec![("sink.delivery-guarantee", "twice")], "'exactly-once'"),
        (vec![("sink.transaction-timeout", "10 ms")], "at least"),
        (vec![("sink.lost-marker", "what")], "'replay'"),
        (
            vec![("sink.semantic", "exactly-once")],
            "sink.delivery-guarantee",
        ),
    ] {
        let error = sink(&more).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
