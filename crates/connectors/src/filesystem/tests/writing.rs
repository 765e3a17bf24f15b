//! What is in the files that are written, and where one ends.

use millrace_dataflow::RowKind;

use super::{columns, input, input::rows, output::*, schema, table_options};
use crate::sink::Sink;

#[test]
fn every_format() {
    let dir = tempfile::tempdir().unwrap();
    let batch = rows(&[
        (Some(1), Some("a,\"b"), Some(1_704_067_200_250)),
        (None, Some(""), None),
    ]);
    let expected = [
        (
            "json",
            "{\"id\":1,\"name\":\"a,\\\"b\",\"at\":\"2024-01-01 00:00:00.250\"}\n{\"id\":null,\"name\":\"\",\"at\":null}\n",
        ),
        (
            "csv",
            "id,name,at\n1,\"a,\"\"b\",2024-01-01 00:00:00.250\n,\"\",\n",
        ),
        (
            "debezium-json",
            "{\"before\":null,\"after\":{\"id\":1,\"name\":\"a,\\\"b\",\"at\":\"2024-01-01 00:00:00.250\"},\"op\":\"c\"}\n\
             {\"before\":null,\"after\":{\"id\":null,\"name\":\"\",\"at\":null},\"op\":\"c\"}\n",
        ),
    ];
    for (format, text) in expected {
        let path = dir.path().join(format);
        let sink = sink(&table_options(&path, format, &[]), &schema(), &[]);
        let mut writer = writer(&sink);
        writer.write(&batch, None).unwrap();
        checkpoint(writer.as_mut());
        assert_eq!(published(&path), [text], "{format}");
    }
    let extensions: Vec<_> = names(dir.path());
    assert_eq!(
        extensions,
        [
            "csv/part-one-sink-1-0-0.csv",
            "debezium-json/part-one-sink-1-0-0.json",
            "json/part-one-sink-1-0-0.json"
        ]
    );
}

#[test]
fn parquet_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "parquet", &[("parquet.compression", "zstd")]);
    let sink = sink(&options, &schema(), &[]);
    let mut writer = writer(&sink);
    for id in 0..3 {
        writer
            .write(&rows(&[(Some(id), Some("é"), None)]), None)
            .unwrap();
    }
    checkpoint(writer.as_mut());
    assert_eq!(names(dir.path()), ["part-one-sink-1-0-0.parquet"]);
    let read = input::read_all(&input::node(options, schema())).unwrap();
    assert_eq!(read, ["0|é|∅", "1|é|∅", "2|é|∅"]);
}

#[test]
fn changes_only_where_the_format_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let batch = rows(&[(Some(1), None, None), (Some(2), None, None)]);
    let kinds = [RowKind::UpdateBefore, RowKind::UpdateAfter];
    for (format, holds) in [("debezium-json", true), ("json", false), ("csv", false)] {
        let path = dir.path().join(format);
        let sink = sink(&table_options(&path, format, &[]), &columns(&["id"]), &[]);
        let mut writer = writer(&sink);
        let ids = batch.project(&[0]).unwrap();
        let written = writer.write(&ids, Some(&kinds));
        assert_eq!(written.is_ok(), holds, "{format}");
        if holds {
            checkpoint(writer.as_mut());
            assert_eq!(
                published(&path),
                [
                    "{\"before\":{\"id\":1},\"after\":null,\"op\":\"d\"}\n{\"before\":null,\"after\":{\"id\":2},\"op\":\"c\"}\n"
                ]
            );
        } else {
            let error = written.unwrap_err().0;
            assert!(
                error.contains("table `t`") && error.contains("debezium-json"),
                "{error}"
            );
        }
    }
}

#[test]
fn files_end_by_size_by_age_and_at_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(
        dir.path(),
        "json",
        &[
            ("sink.rolling-policy.file-size", "20b"),
            ("sink.rolling-policy.rollover-interval", "10 s"),
        ],
    );
    let clock = Hand::default();
    let sink = sink(&options, &columns(&["id"]), &[]);
    let mut writer = sink.open(&context("one", &clock)).unwrap();
    let one = |id: i64| rows(&[(Some(id), None, None)]).project(&[0]).unwrap();
    assert_eq!(writer.next_tick(), None);
    // `{"id":1}` and its line end are 9 bytes: the third row reaches 20.
    for id in 1..=4 {
        writer.write(&one(id), None).unwrap();
    }
    // A file that is opened later is as old as it is, whether or not time was told in between.
    clock.set(3_000);
    checkpoint(writer.as_mut());
    assert_eq!(
        published(dir.path()),
        ["{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n", "{\"id\":4}\n"]
    );
    writer.write(&one(5), None).unwrap();
    assert_eq!(writer.next_tick(), Some(13_000));
    writer.tick(12_999).unwrap();
    assert_eq!(writer.next_tick(), Some(13_000));
    writer.tick(13_000).unwrap();
    assert_eq!(writer.next_tick(), None, "the file is closed");
    writer.write(&one(6), None).unwrap();
    checkpoint(writer.as_mut());
    assert_eq!(published(dir.path())[2..], ["{\"id\":5}\n", "{\"id\":6}\n"]);
    assert_eq!(checkpoint(writer.as_mut()), [], "nothing since");
}

#[test]
fn partitions_are_directories() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "csv", &[("partition.default-name", "none")]);
    // By name, then by time; the file holds the id.
    let sink = sink(&options, &schema(), &[1, 2]);
    let mut writer = writer(&sink);
    writer
        .write(
            &rows(&[
                (Some(1), Some("a/b"), Some(1_704_067_200_000)),
                (Some(2), None, None),
                (Some(3), Some("a/b"), Some(1_704_067_200_000)),
                (Some(4), Some(".."), None),
            ]),
            None,
        )
        .unwrap();
    checkpoint(writer.as_mut());
    let found: Vec<(String, String)> = files(dir.path())
        .into_iter()
        .map(|(name, content)| {
            let directory = name.rsplit_once('/').unwrap().0.to_owned();
            (directory, String::from_utf8(content).unwrap())
        })
        .collect();
    let expected = [
        ("name=../at=none", "id\n4\n"),
        ("name=a%2Fb/at=2024-01-01 00%3A00%3A00", "id\n1\n3\n"),
        ("name=none/at=none", "id\n2\n"),
    ];
    assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let all = crate::filesystem::FilesystemSink::with("t", &options, &schema(), &[0, 1, 2]);
    assert!(all.err().unwrap().0.contains("names every column"));
}

/// More partitions at once than files may be open: each row is still written once.
#[test]
fn many_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "json", &[]);
    let sink = sink(&options, &columns(&["id", "name"]), &[1]);
    let mut writer = writer(&sink);
    for round in 0..2 {
        let names: Vec<String> = (0..150).map(|i| format!("p{i}")).collect();
        let values: Vec<_> = (0..150)
            .map(|i| (Some(round), Some(names[i].as_str()), None))
            .collect();
        writer
            .write(&rows(&values).project(&[0, 1]).unwrap(), None)
            .unwrap();
    }
    checkpoint(writer.as_mut());
    let text = published(dir.path()).concat();
    assert_eq!(text.matches("{\"id\":0}").count(), 150);
    assert_eq!(text.matches("{\"id\":1}").count(), 150);
    assert!(names(dir.path()).iter().all(|name| !is_staged(name)));
}

/// Rows of many Parquet files at once do not pile up in memory.
#[test]
fn buffered_rows_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "parquet", &[]);
    let mut sink = sink(&options, &columns(&["id", "name"]), &[1]);
    let files_with = |sink: &crate::filesystem::FilesystemSink, execution: &str| {
        let mut writer = sink.open(&context(execution, &Hand::default())).unwrap();
        for id in 0..50 {
            for name in ["a", "b", "c"] {
                let batch = rows(&vec![(Some(id), Some(name), None); 2_000]);
                writer
                    .write(&batch.project(&[0, 1]).unwrap(), None)
                    .unwrap();
            }
        }
        writer.pre_commit().unwrap().len()
    };
    assert_eq!(files_with(&sink, "one"), 3);
    sink.limit_buffer(200 << 10);
    assert!(files_with(&sink, "two") > 3);
    let read = input::read_all(&input::node(
        table_options(&dir.path().join("name=a"), "parquet", &[]),
        columns(&["id"]),
    ));
    assert_eq!(read.unwrap(), [""; 0], "nothing is committed");
}
