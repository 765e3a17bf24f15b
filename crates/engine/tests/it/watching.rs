//! Directories that are watched: each file once, however the job runs, and results flow though
//! nothing new comes.

use std::path::Path;

use millrace_engine::slot_event::SlotCommand;

use crate::{
    cluster::Job,
    input::{Row, file_rows, json, sink, source, write_file},
    matrix::{assert_same, published, sorted},
    windows::aggregate,
};

const WATCH: (&str, &str) = ("source.monitor-interval", "20 ms");

fn lines(files: &[i64]) -> Vec<String> {
    sorted(
        files
            .iter()
            .flat_map(|file| file_rows(*file))
            .map(|row| json(&row))
            .collect(),
    )
}

fn add(input: &Path, file: i64) {
    write_file(input, &format!("{file}.json"), &file_rows(file));
}

#[test]
fn files_that_appear_while_the_job_runs_or_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    add(&input, 0);
    let sql = format!(
        "{}{}INSERT INTO snk SELECT k, v, ts FROM src;",
        source(
            "src",
            &input,
            3_000,
            &[WATCH, ("source.rows-per-second", "3000")]
        ),
        sink(
            "snk",
            "(k STRING, v BIGINT, ts TIMESTAMP(3))",
            &out,
            "json",
            &[]
        )
    );
    let mut job = Job::new(&dir.path().join("job"), sql);
    let shows = |files: &[i64]| {
        let count = lines(files).len();
        let out = out.clone();
        move || published(&out).len() >= count
    };
    let mut attempt = job.start(2, None);
    let done = shows(&[0]);
    attempt.run_until(|_| done());
    add(&input, 1);
    add(&input, 2);
    let done = shows(&[0, 1, 2]);
    attempt.run_until(|_| done());
    // Killed in the middle of one file, while another comes.
    add(&input, 3);
    attempt.pass(std::time::Duration::from_millis(80));
    let from = attempt.checkpoint(false);
    drop(attempt);
    add(&input, 4);
    let mut attempt = job.start(3, Some(&from));
    add(&input, 5);
    let done = shows(&[0, 1, 2, 3, 4, 5]);
    attempt.run_until(|_| done());
    let from = attempt.checkpoint(false);
    drop(attempt);
    // All that was read may go.
    for file in 0..6 {
        std::fs::remove_file(input.join(format!("{file}.json"))).unwrap();
    }
    add(&input, 6);
    let mut attempt = job.start(1, Some(&from));
    let done = shows(&[0, 1, 2, 3, 4, 5, 6]);
    attempt.run_until(|_| done());
    attempt.tell(SlotCommand::Drain);
    attempt.finish();
    assert_same(
        &published(&out),
        &lines(&[0, 1, 2, 3, 4, 5, 6]),
        "watched directory",
    );
}

/// One subtask has files, the others have none: windows fire as far as the files go, also after
/// a restore; what comes then is added.
#[test]
fn windows_fire_while_nothing_new_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let early = file_rows(0);
    let later: Vec<Row> = file_rows(1)
        .into_iter()
        .map(|row| Row {
            ms: row.ms + 120_000,
            ..row
        })
        .collect();
    let window = |row: &Row| row.ms - row.ms % 5_000;
    // Whole windows of 5 s below the watermark of the first file.
    let reached = early.iter().map(|row| row.ms).max().unwrap() - 3_000;
    let expected = |rows: &[&Row], all: bool| {
        let pairs: Vec<_> = rows
            .iter()
            .map(|row| (*row, window(row), window(row) + 5_000))
            .filter(|(_, _, end)| all || end - 1 <= reached)
            .collect();
        aggregate(&pairs)
    };
    let sql = format!(
        "{}{}INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), SUM(v), MIN(v)
         FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '5' SECOND))
         GROUP BY k, window_start, window_end;",
        source("src", &input, 3_000, &[WATCH]),
        sink(
            "snk",
            "(k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s BIGINT, mn BIGINT)",
            &out,
            "json",
            &[]
        )
    );
    let mut job = Job::new(&dir.path().join("job"), sql);
    write_file(&input, "a.json", &early);
    let first: Vec<&Row> = early.iter().collect();
    let shown = expected(&first, false);
    assert!(shown.len() > 20);
    let mut attempt = job.start(3, None);
    attempt.run_until(|_| published(&out).len() >= shown.len());
    assert_same(&published(&out), &shown, "the first file");
    let from = attempt.checkpoint(false);
    drop(attempt);

    let mut attempt = job.start(2, Some(&from));
    write_file(&input, "b.json", &later);
    let all: Vec<&Row> = early.iter().chain(&later).collect();
    let more = expected(&first, true).len();
    // The second file's watermark closes all windows of the first, though the subtasks that
    // have read everything stay idle.
    attempt.run_until(|_| published(&out).len() > more);
    attempt.tell(SlotCommand::Drain);
    attempt.finish();
    assert_same(&published(&out), &expected(&all, true), "both files");
}
