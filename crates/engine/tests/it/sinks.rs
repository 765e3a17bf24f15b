//! What is written, in every format and layout, exactly once.

use std::{fs::File, path::Path, sync::Arc};

use arrow::{
    array::{Array, AsArray},
    datatypes::{DataType, Field, Int64Type, Schema},
};
use millrace_formats::ParquetReader;

use crate::{
    input::{Row, all_rows, json, sink, source, write_all},
    matrix::{SHORT, published, published_files, same_however_it_runs, sorted},
};

const COLUMNS: &str = "(k STRING, v BIGINT, ts TIMESTAMP(3))";

fn check(
    format: &str,
    columns: &str,
    more: &[(&str, &str)],
    read: impl Fn(&Path) -> Vec<String>,
    line: impl Fn(&Row) -> String,
) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, slow| {
            format!(
                "{}{}INSERT INTO snk SELECT k, v, ts FROM src;",
                source("src", &input, 3_000, slow),
                sink("snk", columns, out, format, more)
            )
        },
        read,
        &sorted(all_rows().iter().map(line).collect()),
    );
}

#[test]
fn parquet_files() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
    ]));
    let read = |dir: &Path| {
        let mut lines = Vec::new();
        for path in published_files(dir) {
            let file = File::open(&path).unwrap();
            for batch in ParquetReader::open(file, schema.clone(), 0, 1_000).unwrap() {
                let batch = batch.unwrap().batch;
                let keys = batch.column(0).as_string::<i32>();
                let values = batch.column(1).as_primitive::<Int64Type>();
                assert_eq!(keys.null_count() + values.null_count(), 0);
                lines.extend(
                    (0..batch.num_rows())
                        .map(|row| format!("{} {}", keys.value(row), values.value(row))),
                );
            }
        }
        sorted(lines)
    };
    check("parquet", COLUMNS, &[], read, |row| {
        format!("{} {}", row.k, row.v)
    });
}

#[test]
fn csv_files_that_end_by_size() {
    let read = |dir: &Path| {
        let lines = published(dir).into_iter();
        lines.filter(|line| line != "k,v,ts").collect()
    };
    let small = ("sink.rolling-policy.file-size", "1kb");
    check("csv", COLUMNS, &[small], read, |row| {
        format!("{},{},{}", row.k, row.v, crate::input::time(row.ms))
    });
}

#[test]
fn partitions() {
    let read = |dir: &Path| {
        let mut lines = Vec::new();
        for path in published_files(dir) {
            let directory = path.parent().unwrap().file_name().unwrap();
            let k = directory.to_str().unwrap().strip_prefix("k=").unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            lines.extend(
                text.lines()
                    .map(|line| line.replacen('{', &format!(r#"{{"k":"{k}","#), 1)),
            );
        }
        sorted(lines)
    };
    let columns = format!("{COLUMNS} PARTITIONED BY (k)");
    check("json", &columns, &[], read, json);
}

/// Two statements stage into one directory, and each of them cleans up after former attempts.
#[test]
fn two_statements_into_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    let mut expected: Vec<String> = Vec::new();
    for row in all_rows() {
        expected.push(format!(r#"{{"k":"{}","n":{}}}"#, row.k, row.v));
        if row.v > 100 {
            expected.push(format!(r#"{{"k":"big","n":{}}}"#, row.v));
        }
    }
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, slow| {
            format!(
                "{}{}EXECUTE STATEMENT SET BEGIN
                 INSERT INTO snk SELECT k, v FROM src;
                 INSERT INTO snk SELECT 'big', v FROM src WHERE v > 100;
                 END;",
                source("src", &input, 3_000, slow),
                sink("snk", "(k STRING, n BIGINT)", out, "json", &[])
            )
        },
        published,
        &sorted(expected),
    );
}
