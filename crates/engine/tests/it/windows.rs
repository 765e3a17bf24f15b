//! Windows over event time.

use std::collections::BTreeMap;

use crate::{
    input::{Row, all_rows, sink, source, time, write_all},
    matrix::{FULL, Run, SHORT, published, same_however_it_runs},
};

const COLUMNS: &str = "(k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s BIGINT, mn BIGINT)";

/// Count, sum and minimum per key and window, as lines.
pub(crate) fn aggregate(rows: &[(&Row, i64, i64)]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, i64, i64), Vec<i64>> = BTreeMap::new();
    for (row, start, end) in rows {
        groups
            .entry((&row.k, *start, *end))
            .or_default()
            .push(row.v);
    }
    let mut lines: Vec<String> = groups
        .into_iter()
        .map(|((k, start, end), values)| {
            format!(
                r#"{{"k":"{k}","ws":"{}","we":"{}","c":{},"s":{},"mn":{}}}"#,
                time(start),
                time(end),
                values.len(),
                values.iter().sum::<i64>(),
                values.iter().min().unwrap()
            )
        })
        .collect();
    lines.sort();
    lines
}

fn check(runs: &[Run], window: &str, expected: &[String]) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    same_however_it_runs(
        dir.path(),
        runs,
        |out, slow| {
            format!(
                "{}{}INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), SUM(v), MIN(v)
                 FROM TABLE({window}) GROUP BY k, window_start, window_end;",
                source("src", &input, 3_000, slow),
                sink("snk", COLUMNS, out, "json", &[])
            )
        },
        published,
        expected,
    );
}

/// Each row with the windows (start, end) that `assign` puts it in.
fn assigned(rows: &[Row], assign: impl Fn(i64) -> Vec<(i64, i64)>) -> Vec<String> {
    let pairs: Vec<(&Row, i64, i64)> = rows
        .iter()
        .flat_map(|row| {
            let windows = assign(row.ms).into_iter();
            windows.map(move |(start, end)| (row, start, end))
        })
        .collect();
    aggregate(&pairs)
}

#[test]
fn tumbling_windows() {
    let expected = assigned(&all_rows(), |ms| {
        let start = ms - ms % 5_000;
        vec![(start, start + 5_000)]
    });
    check(
        FULL,
        "TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
        &expected,
    );
}

#[test]
fn hopping_windows() {
    let expected = assigned(&all_rows(), |ms| {
        let last = ms - ms % 2_000;
        (0..5)
            .map(|i| last - i * 2_000)
            .map(|start| (start, start + 10_000))
            .collect()
    });
    check(
        FULL,
        "HOP(TABLE src, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
        &expected,
    );
}

#[test]
fn cumulating_windows() {
    let expected = assigned(&all_rows(), |ms| {
        let start = ms - ms % 12_000;
        (1..=4)
            .map(|step| (start, start + step * 3_000))
            .filter(|(_, end)| ms < *end)
            .collect()
    });
    check(
        SHORT,
        "CUMULATE(TABLE src, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '12' SECOND)",
        &expected,
    );
}

#[test]
fn session_windows() {
    const GAP: i64 = 1_000;
    let rows = all_rows();
    let mut by_key: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        by_key.entry(&row.k).or_default().push(row);
    }
    let mut pairs = Vec::new();
    for mut rows in by_key.into_values() {
        rows.sort_by_key(|row| row.ms);
        // Rows at most a gap apart are in one session.
        for session in rows.chunk_by(|a, b| b.ms - a.ms <= GAP) {
            let (start, end) = (session[0].ms, session[session.len() - 1].ms + GAP);
            pairs.extend(session.iter().map(|row| (*row, start, end)));
        }
    }
    check(
        FULL,
        "SESSION(TABLE src PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
        &aggregate(&pairs),
    );
}
