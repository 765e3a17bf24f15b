//! The same job run clean, killed and restored, at several parallelisms: always the same result.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::cluster::Job;

/// Slows sources down so that there is something to kill.
pub(crate) const SLOW: (&str, &str) = ("source.rows-per-second", "1000");

/// Attempts that are killed (after this many checkpoints, at this parallelism), and the
/// parallelism of the last one, which is not.
pub(crate) struct Run {
    killed: &'static [(u32, u32)],
    last: u32,
}

const fn run(killed: &'static [(u32, u32)], last: u32) -> Run {
    Run { killed, last }
}

/// For jobs whose operators have much to get wrong.
pub(crate) const FULL: &[Run] = &[
    run(&[], 1),
    run(&[], 2),
    run(&[], 4),
    run(&[(1, 2)], 2),
    run(&[(3, 2), (2, 3), (2, 2)], 3),
    run(&[(5, 3), (2, 1), (2, 3)], 1),
    run(&[(8, 1), (2, 4)], 1),
];

pub(crate) const SHORT: &[Run] = &[
    run(&[], 1),
    run(&[], 3),
    run(&[(2, 1), (3, 3)], 2),
    run(&[(6, 2), (1, 4)], 1),
];

/// `script` is given a directory for the output and the options that slow sources down; `read`
/// gives the lines of the result found there.
pub(crate) fn same_however_it_runs(
    dir: &Path,
    runs: &[Run],
    script: impl Fn(&Path, &[(&str, &str)]) -> String,
    read: impl Fn(&Path) -> Vec<String>,
    expected: &[String],
) {
    assert!(!expected.is_empty());
    for (number, run) in runs.iter().enumerate() {
        let out = dir.join(format!("run-{number}"));
        let slow: &[(&str, &str)] = if run.killed.is_empty() { &[] } else { &[SLOW] };
        let mut job = Job::new(&dir.join(format!("job-{number}")), script(&out, slow));
        let mut from = None;
        let mut ended = false;
        for (checkpoints, parallelism) in run.killed {
            from = job.kill_after(*checkpoints, *parallelism, from.as_ref());
            ended = from.is_none();
            if ended {
                break;
            }
        }
        if !ended {
            job.finish(run.last, from.as_ref());
        }
        let found = read(&out);
        let what = format!("killed {:?}, then at {}", run.killed, run.last);
        assert_same(&found, expected, &what);
    }
}

/// Compares sorted lines; says which are missing and which are too many.
pub(crate) fn assert_same(found: &[String], expected: &[String], what: &str) {
    if found == expected {
        return;
    }
    let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
    for line in expected {
        *balance.entry(line).or_default() -= 1;
    }
    for line in found {
        *balance.entry(line).or_default() += 1;
    }
    balance.retain(|_, count| *count != 0);
    let differing = balance.len();
    let shown: Vec<String> = balance
        .iter()
        .take(12)
        .map(|(line, count)| format!("{count:+} {line}"))
        .collect();
    panic!(
        "{what}: {} lines instead of {}; {differing} differ (+ too many, - missing):\n{}",
        found.len(),
        expected.len(),
        shown.join("\n")
    );
}

/// The published files of a sink, also within partitions; none may be left staged.
pub(crate) fn published_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return files;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(published_files(&path));
        } else if !is_hidden(&path) {
            files.push(path);
        }
    }
    files.sort();
    files
}

pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// All lines of a sink's published files, sorted.
pub(crate) fn published(dir: &Path) -> Vec<String> {
    let mut lines: Vec<String> = published_files(dir)
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    lines.sort();
    lines
}

/// The final rows of a `debezium-json` sink, sorted; nothing may be taken back that was not there.
pub(crate) fn final_state(dir: &Path) -> Vec<String> {
    let mut balance: BTreeMap<String, i64> = BTreeMap::new();
    for line in published(dir) {
        let change: serde_json::Value = serde_json::from_str(&line).unwrap();
        let (row, count) = match change["op"].as_str() {
            Some("c") => (&change["after"], 1),
            Some("d") => (&change["before"], -1),
            other => panic!("operation {other:?} in {line}"),
        };
        *balance.entry(row.to_string()).or_default() += count;
    }
    balance
        .into_iter()
        .flat_map(|(row, count)| {
            assert!(
                count >= 0,
                "{row} was taken back {} times too often",
                -count
            );
            std::iter::repeat_n(row, count as usize)
        })
        .collect()
}

pub(crate) fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}
