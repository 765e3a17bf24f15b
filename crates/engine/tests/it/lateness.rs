//! Late rows: which rows of a file are late is the same at every parallelism and over kills.

use crate::{
    cluster::Job,
    input::{Row, file_rows, sink, source, write_file},
    matrix::{FULL, SLOW, published, same_however_it_runs},
    windows::aggregate,
};

/// Far less than rows are out of order.
const DELAY_MS: i64 = 700;
const SIZE_MS: i64 = 1_000;

/// The rows that are in time for their window, by the watermark of the rows before them, and the
/// number of those that are not.
fn in_time(rows: &[Row]) -> (Vec<(&Row, i64, i64)>, u64) {
    let mut watermark = i64::MIN;
    let mut kept = Vec::new();
    let mut late = 0;
    for row in rows {
        let start = row.ms - row.ms % SIZE_MS;
        let end = start + SIZE_MS;
        if end - 1 <= watermark {
            late += 1;
        } else {
            kept.push((row, start, end));
        }
        watermark = watermark.max(row.ms - DELAY_MS);
    }
    (kept, late)
}

fn script(input: &std::path::Path, out: &std::path::Path, slow: &[(&str, &str)]) -> String {
    format!(
        "{}{}INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), SUM(v), MIN(v)
         FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' SECOND))
         GROUP BY k, window_start, window_end;",
        source("src", input, DELAY_MS, slow),
        sink(
            "snk",
            "(k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s BIGINT, mn BIGINT)",
            out,
            "json",
            &[]
        )
    )
}

#[test]
fn the_same_rows_are_late() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    let rows = file_rows(0);
    write_file(&input, "only.json", &rows);
    let (kept, late) = in_time(&rows);
    assert!(late > 50 && kept.len() > 50, "{late} late");
    let expected = aggregate(&kept);
    same_however_it_runs(
        dir.path(),
        FULL,
        |out, slow| script(&input, out, slow),
        published,
        &expected,
    );
    // And they are counted, all of them.
    for parallelism in [1, 3] {
        let out = dir.path().join(format!("counted-{parallelism}"));
        let mut job = Job::new(&dir.path().join("jobs"), script(&input, &out, &[SLOW]));
        let metrics = job.start(parallelism, None).finish();
        let counted: u64 = metrics.iter().map(|operator| operator.late_rows).sum();
        assert_eq!(counted, late, "at {parallelism}");
    }
}
