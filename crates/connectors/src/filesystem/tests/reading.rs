//! What comes out of files of every format, whole and pruned, and at what pace.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, time::UNIX_EPOCH};

use arrow::datatypes::{DataType, Field, TimeUnit};

use super::{columns, input::*, schema, table_options};
use crate::source::{Polled, Source};

const JSON: &str = "{\"id\":1,\"name\":\"a\",\"at\":\"2024-01-01 00:00:00\"}\n\
                    {\"at\":\"2024-01-01 00:00:01.5\",\"id\":2,\"name\":\"b,\\\"c\\n\",\"more\":[1]}\n\
                    {\"id\":3}";
const CSV: &str = "at,extra,name,id\r\n2024-01-01 00:00:00,x,a,1\r\n2024-01-01 00:00:01.5,,\"b,\"\"c\n\",2\r\n,,,3\r\n";
const CSV_PLAIN: &str = "1,a,2024-01-01 00:00:00\n2,\"b,\"\"c\n\",2024-01-01 00:00:01.5\n3,,\n";

fn parquet_file() -> Vec<u8> {
    parquet(&rows(&[
        (Some(1), Some("a"), Some(1_704_067_200_000)),
        (Some(2), Some("b,\"c\n"), Some(1_704_067_201_500)),
        (Some(3), None, None),
    ]))
}

/// Name, format, content and further options.
type File<'a> = (&'a str, &'a str, Vec<u8>, &'a [(&'a str, &'a str)]);

#[test]
fn the_same_rows_from_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let no_header: &[(&str, &str)] = &[("csv.header", "false")];
    let files: Vec<File<'_>> = vec![
        ("a.json", "json", JSON.into(), &[]),
        ("b.json.gz", "json", gzip(JSON.as_bytes()), &[]),
        ("c.csv", "csv", CSV.into(), &[]),
        ("d.CSV.GZ", "csv", gzip(CSV.as_bytes()), &[]),
        ("e.csv", "csv", CSV_PLAIN.into(), no_header),
        ("f.parquet", "parquet", parquet_file(), &[]),
    ];
    for (name, format, content, more) in files {
        let path = write(dir.path(), name, &content);
        let read = |names: &[&str]| {
            let node = node(table_options(&path, format, more), columns(names));
            read_all(&node).unwrap()
        };
        assert_eq!(
            read(&["id", "name", "at"]),
            [
                "1|a|2024-01-01T00:00:00",
                "2|b,\"c\n|2024-01-01T00:00:01.500",
                "3|∅|∅",
            ],
            "{name}"
        );
        assert_eq!(
            read(&["at", "id"])[1],
            "2024-01-01T00:00:01.500|2",
            "{name}"
        );
        assert_eq!(read(&["name"]), ["a", "b,\"c\n", "∅"], "{name}");
        // COUNT(*): rows without columns.
        assert_eq!(read(&[]), ["", "", ""], "{name}");
    }
}

#[test]
fn lines_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "x.log", b"one\r\n\n two ,\nlast");
    let mut table = node(table_options(&path, "raw", &[]), columns(&["name"]));
    table.declared = columns(&["name"]);
    assert_eq!(read_all(&table).unwrap(), ["one", "", " two ,", "last"]);
    table.physical = columns(&[]);
    assert_eq!(read_all(&table).unwrap().len(), 4);
}

#[test]
fn files_without_rows_and_tables_without_files() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format, content) in [
        ("a.json", "json", Vec::new()),
        ("b.json.gz", "json", gzip(b"")),
        ("c.csv", "csv", Vec::new()),
        ("d.csv", "csv", b"id,name,at\n".to_vec()),
        ("e.json", "json", b"\n\n".to_vec()),
        ("f.parquet", "parquet", parquet(&rows(&[]))),
    ] {
        let path = write(dir.path(), name, &content);
        let table = node(table_options(&path, format, &[]), schema());
        assert_eq!(read_all(&table).unwrap(), [""; 0], "{name}");
    }
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let table = node(table_options(&empty, "json", &[]), schema());
    assert_eq!(read_all(&table).unwrap(), [""; 0]);
    let table = node(table_options(&empty.join("none"), "json", &[]), schema());
    let error = read_all(&table).unwrap_err();
    assert!(
        error.contains("table `t`") && error.contains("empty/none") && error.contains("No such"),
        "{error}"
    );
}

#[test]
fn whole_directories_file_by_file() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "2/b.json", b"{\"id\":2}\n");
    write(dir.path(), "1/deep/a.json", b"{\"id\":1}\n");
    write(dir.path(), "1/.hidden.json", b"{\"id\":9}\n");
    write(dir.path(), "_tmp/c.json", b"{\"id\":9}\n");
    let table = node(table_options(dir.path(), "json", &[]), columns(&["id"]));
    assert_eq!(read_all(&table).unwrap(), ["1", "2"]);
    let ids: Vec<String> = source(&table)
        .unwrap()
        .splits(4)
        .unwrap()
        .into_iter()
        .map(|split| split.id.0)
        .collect();
    assert_eq!(
        ids,
        [
            dir.path().join("1/deep/a.json").display().to_string(),
            dir.path().join("2/b.json").display().to_string()
        ]
    );
    let glob = dir.path().join("[2-9]*/*.json");
    let table = node(table_options(&glob, "json", &[]), columns(&["id"]));
    assert_eq!(read_all(&table).unwrap(), ["2"]);
}

#[test]
fn names_that_are_not_utf8_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"caf\xe9.json");
    std::fs::write(dir.path().join(name), "{}").unwrap();
    let table = node(table_options(dir.path(), "json", &[]), schema());
    let error = read_all(&table).unwrap_err();
    assert!(
        error.contains("caf\\xE9.json") && error.contains("not UTF-8; rename it"),
        "{error}"
    );
}

#[test]
fn metadata_follows_the_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "in/a.json", b"{\"id\":1}\n{\"id\":2}\n");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let ms = modified.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let table = with_metadata(
        node(table_options(&path, "json", &[]), columns(&["id"])),
        vec![
            ("file.name", Field::new("n", DataType::Utf8, false)),
            ("file.path", Field::new("p", DataType::Utf8, false)),
            ("file.size", Field::new("s", DataType::Int64, false)),
            ("file.modification-time", Field::new("m", time, false)),
        ],
    );
    let read = read_all(&table).unwrap();
    assert_eq!(read.len(), 2);
    let values: Vec<&str> = read[1].split('|').collect();
    assert_eq!(
        values[..4],
        ["2", "a.json", &path.display().to_string(), "18"]
    );
    let shown: i64 = chrono::DateTime::parse_from_rfc3339(values[4])
        .unwrap()
        .timestamp_millis();
    assert_eq!(u128::try_from(shown).unwrap(), ms);

    for (key, data_type, parts) in [
        ("file.nam", DataType::Utf8, ["'file.nam'", "'file.name'"]),
        ("file.size", DataType::Utf8, ["is STRING", "is BIGINT"]),
        ("file.path", DataType::Int64, ["is BIGINT", "is STRING"]),
    ] {
        let table = with_metadata(
            node(table_options(&path, "json", &[]), columns(&["id"])),
            vec![(key, Field::new("x", data_type, false))],
        );
        let error = read_all(&table).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn rows_are_given_out_at_the_pace_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let content: String = (0..100).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let path = write(dir.path(), "a.json", content.as_bytes());
    let options = table_options(&path, "json", &[("source.rows-per-second", "100")]);
    let table = source(&node(options, columns(&["id"]))).unwrap();
    let mut split = first(&table);
    let (mut seen, mut now) = (0, 5_000);
    let mut reader = open(&table, &split).unwrap();
    while seen < 50 {
        match reader.poll(8192, now).unwrap() {
            Polled::Rows(rows) => {
                seen += rows.num_rows() as i64;
                assert!(seen <= (now - 5_000) / 10 + 5, "{seen} rows at {now}");
            }
            Polled::PendingUntil(at) => {
                assert!(at > now && at <= now + 50, "{at} at {now}");
                now = at;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        now, 5_450,
        "50 rows take half a second, the first 5 come at once"
    );
    // The pace starts afresh after a restart: no burst for the time in between.
    split.position = reader.position();
    let mut reader = open(&table, &split).unwrap();
    assert!(
        matches!(reader.poll(8192, 90_000).unwrap(), Polled::Rows(rows) if rows.num_rows() == 5)
    );
    assert!(matches!(
        reader.poll(8192, 90_000).unwrap(),
        Polled::PendingUntil(90_050)
    ));
}

/// Where rows came from is told for every one, also past malformed records, blank lines, records
/// of several lines, and after a restore.
#[test]
fn rows_have_places() {
    let dir = tempfile::tempdir().unwrap();
    let places = |name: &str, format: &str, rate: &str, content: &[u8]| -> Vec<String> {
        let path = write(dir.path(), name, content);
        // Slow enough for batches of one row.
        let more = [("on-error", "skip"), ("source.rows-per-second", rate)];
        let options = table_options(&path, format, &more);
        let source = source(&node(options, schema())).unwrap();
        let mut split = first(&source);
        let mut found = Vec::new();
        let mut reader = open(&source, &split).unwrap();
        while let Polled::Rows(rows) = reader.poll(8192, 0).unwrap() {
            found.extend((0..rows.num_rows()).filter_map(|row| reader.place_of(row)));
            split.position = reader.position();
            reader = open(&source, &split).unwrap();
        }
        let prefix = format!("{} ", path.display());
        found
            .iter()
            .map(|place| place.strip_prefix(&prefix).unwrap().to_owned())
            .collect()
    };
    let json = b"{\"id\":1}\n\n{\"id\":\"x\"}\n{\"id\":2}\n{\"id\":3}\n";
    let csv = b"id,name,at\n1,\"two\nlines\",\n2,b,\n";
    for rate in ["0", "1"] {
        let found = places("a.json", "json", rate, json);
        assert_eq!(found, ["line 1", "line 4", "line 5"], "{rate}");
        let found = places("a.csv", "csv", rate, csv);
        assert_eq!(found, ["line 2", "line 4"], "{rate}");
    }
}
