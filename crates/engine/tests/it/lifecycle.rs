//! Stopping, going on after all, draining, and windows over processing time.

use std::{collections::BTreeSet, path::Path, time::Duration};

use millrace_engine::slot_event::SlotCommand;

use crate::{
    cluster::Job,
    input::{all_rows, json, sink, source, write_all},
    matrix::{SLOW, assert_same, published, published_files, sorted},
};

fn copy_job(dir: &Path, out: &Path) -> Job {
    let input = dir.join("in");
    write_all(&input);
    let sql = format!(
        "{}{}INSERT INTO snk SELECT k, v, ts FROM src;",
        source("src", &input, 3_000, &[SLOW]),
        sink(
            "snk",
            "(k STRING, v BIGINT, ts TIMESTAMP(3))",
            out,
            "json",
            &[]
        )
    );
    Job::new(&dir.join("job"), sql)
}

fn all_lines() -> Vec<String> {
    sorted(all_rows().iter().map(json).collect())
}

#[test]
fn a_stop_that_is_given_up_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut job = copy_job(dir.path(), &out);
    let mut attempt = job.start(2, None);
    attempt.pass(Duration::from_millis(100));
    let stopped = attempt.checkpoint(true);
    // Nothing comes after the barrier.
    let rows = |attempt: &crate::cluster::Attempt<'_>| -> u64 {
        attempt
            .metrics()
            .iter()
            .map(|metrics| metrics.rows_in)
            .sum()
    };
    attempt.pass(Duration::from_millis(300));
    let before = rows(&attempt);
    attempt.pass(Duration::from_millis(300));
    assert_eq!(rows(&attempt), before);
    assert_eq!(published(&out), [""; 0], "the checkpoint is not complete");
    attempt.abort(&stopped);
    attempt.finish();
    assert_same(&published(&out), &all_lines(), "resumed");
}

#[test]
fn a_stop_that_is_complete_goes_on_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut job = copy_job(dir.path(), &out);
    let mut attempt = job.start(3, None);
    attempt.pass(Duration::from_millis(150));
    let stopped = attempt.checkpoint(true);
    attempt.commit(&stopped, true);
    attempt.pass(Duration::from_millis(200));
    drop(attempt);
    let so_far = published(&out);
    assert!(
        !so_far.is_empty() && so_far.len() < 2_000,
        "{}",
        so_far.len()
    );
    job.finish(1, Some(&stopped));
    assert_same(&published(&out), &all_lines(), "stopped and started");
}

#[test]
fn a_drained_job_ends_early_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut job = copy_job(dir.path(), &out);
    let mut attempt = job.start(2, None);
    attempt.pass(Duration::from_millis(150));
    attempt.tell(SlotCommand::Drain);
    attempt.until(|attempt| attempt.is_drained());
    let last = attempt.checkpoint(false);
    attempt.commit(&last, true);
    attempt.pass(Duration::from_millis(200));
    drop(attempt);
    let so_far = published(&out);
    let all = all_lines();
    let known: BTreeSet<&String> = all.iter().collect();
    assert!(so_far.len() < all.len(), "it was not throttled enough");
    assert!(so_far.iter().all(|line| known.contains(line)));
    // What it had not read is read by whoever starts from its last checkpoint.
    job.finish(3, Some(&last));
    assert_same(&published(&out), &all, "drained and started");
}

/// No row is counted twice or not at all, whenever its window was.
#[test]
fn processing_time_windows_count_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write_all(&input);
    let out = dir.path().join("out");
    let sql = format!(
        "{}{}INSERT INTO snk SELECT k, window_start, COUNT(*), SUM(v)
         FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(pt), INTERVAL '0.2' SECOND))
         GROUP BY k, window_start, window_end;",
        source("src", &input, 3_000, &[("source.rows-per-second", "400")]),
        sink(
            "snk",
            "(k STRING, ws TIMESTAMP(3), c BIGINT, s BIGINT)",
            &out,
            "json",
            &[]
        )
    );
    let mut job = Job::new(&dir.path().join("job"), sql);
    let first = job.kill_after(2, 2, None);
    assert!(first.is_some(), "the job ended before it could be killed");
    // None: it ended under load.
    if let Some(second) = job.kill_after(1, 3, first.as_ref()) {
        job.finish(1, Some(&second));
    }
    let mut windows = BTreeSet::new();
    let (mut count, mut sum) = (0, 0);
    for line in published(&out) {
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        count += row["c"].as_i64().unwrap();
        sum += row["s"].as_i64().unwrap();
        windows.insert(row["ws"].to_string());
    }
    assert_eq!(count, 2_000);
    assert_eq!(sum, all_rows().iter().map(|row| row.v).sum::<i64>());
    assert!(windows.len() > 1, "{windows:?}");
    assert!(published_files(&out).len() > 1);
}
