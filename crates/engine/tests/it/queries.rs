//! Projections, unions, constant rows and updating aggregates.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    input::{all_rows, file_rows, sink, source, write_all, write_file},
    matrix::{FULL, SHORT, final_state, published, same_however_it_runs, sorted},
};

#[test]
fn calc_over_files() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    let expected: Vec<String> = all_rows()
        .iter()
        .filter(|row| row.v > 0)
        .map(|row| format!(r#"{{"k":"{}","v2":{}}}"#, row.k, row.v * 2))
        .collect();
    same_however_it_runs(
        dir.path(),
        FULL,
        |out, slow| {
            format!(
                "{}{}INSERT INTO snk SELECT k, v * 2 FROM src WHERE v > 0;",
                source("src", &input, 3_000, slow),
                sink("snk", "(k STRING, v2 BIGINT)", out, "json", &[])
            )
        },
        published,
        &sorted(expected),
    );
}

#[test]
fn union_of_two_tables() {
    let dir = tempfile::tempdir().unwrap();
    let (left, right) = (dir.path().join("left"), dir.path().join("right"));
    write_file(&left, "a.json", &file_rows(0));
    write_file(&left, "b.json", &file_rows(1));
    write_file(&right, "a.json", &file_rows(2));
    // Windows over both: the watermark is the lesser one.
    let mut counts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (file, sign) in [(0, 1), (1, 1), (2, -1)] {
        for row in file_rows(file) {
            let (count, sum) = counts.entry(row.ms - row.ms % 5_000).or_default();
            *count += 1;
            *sum += sign * row.v;
        }
    }
    let expected: Vec<String> = counts
        .iter()
        .map(|(start, (count, sum))| {
            let start = crate::input::time(*start);
            format!(r#"{{"ws":"{start}","c":{count},"s":{sum}}}"#)
        })
        .collect();
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, slow| {
            format!(
                "{}{}{}
                 CREATE VIEW both_sides AS SELECT k, v, ts FROM l UNION ALL SELECT k, -v, ts FROM r;
                 INSERT INTO snk SELECT window_start, COUNT(*), SUM(v)
                 FROM TABLE(TUMBLE(TABLE both_sides, DESCRIPTOR(ts), INTERVAL '5' SECOND))
                 GROUP BY window_start, window_end;",
                source("l", &left, 3_000, slow),
                source("r", &right, 3_000, slow),
                sink(
                    "snk",
                    "(ws TIMESTAMP(3), c BIGINT, s BIGINT)",
                    out,
                    "json",
                    &[]
                )
            )
        },
        published,
        &expected,
    );
}

#[test]
fn constant_rows() {
    let dir = tempfile::tempdir().unwrap();
    let expected = [
        r#"{"a":1,"b":"x"}"#,
        r#"{"a":1,"b":"x"}"#,
        r#"{"a":2,"b":null}"#,
    ];
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, _| {
            format!(
                "{}INSERT INTO snk VALUES (1, 'x'), (2, NULL), (1, 'x');",
                sink("snk", "(a BIGINT, b STRING)", out, "json", &[])
            )
        },
        published,
        &expected.map(str::to_owned),
    );
}

/// Each subtask's changes of a key are in order in its files, but keys move between subtasks when
/// the job is rescaled, so the balance of all changes is what counts.
#[test]
fn updating_aggregate() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    let mut groups: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in all_rows() {
        groups.entry(row.k).or_default().push(row.v);
    }
    let expected: Vec<String> = groups
        .iter()
        .map(|(k, values)| {
            let distinct: BTreeSet<i64> = values.iter().map(|v| v % 10).collect();
            format!(
                r#"{{"c":{},"d":{},"k":"{k}","mx":{},"s":{}}}"#,
                values.len(),
                distinct.len(),
                values.iter().max().unwrap(),
                values.iter().sum::<i64>()
            )
        })
        .collect();
    same_however_it_runs(
        dir.path(),
        FULL,
        |out, slow| {
            format!(
                "{}{}INSERT INTO snk
                 SELECT k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT MOD(v, 10)) FROM src GROUP BY k;",
                source("src", &input, 3_000, slow),
                sink(
                    "snk",
                    "(k STRING, c BIGINT, s BIGINT, mx BIGINT, d BIGINT)",
                    out,
                    "debezium-json",
                    &[]
                )
            )
        },
        final_state,
        &sorted(expected),
    );
}

#[test]
fn distinct_rows() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    let expected: BTreeSet<String> = all_rows()
        .iter()
        .map(|row| format!(r#"{{"k":"{}","odd":{}}}"#, row.k, row.v % 2 != 0))
        .collect();
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, slow| {
            format!(
                "{}{}INSERT INTO snk SELECT DISTINCT k, MOD(v, 2) <> 0 FROM src;",
                source("src", &input, 3_000, slow),
                sink("snk", "(k STRING, odd BOOLEAN)", out, "debezium-json", &[])
            )
        },
        final_state,
        &expected.into_iter().collect::<Vec<_>>(),
    );
}
