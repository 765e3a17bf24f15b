//! Malformed records: fail, skip, dead-letter.

use super::{columns, input::*, schema, table_options};
use crate::{
    filesystem::FilesystemSource,
    source::{BadRecord, SplitState},
};

const INPUT: &str = "{\"id\":1}\n{\"id\":\"x\"}\nnonsense\n{\"id\":2}\n{\"id\":3}\n{\"id\":4.5}\n";

fn table(dir: &std::path::Path, content: &[u8], more: &[(&str, &str)]) -> FilesystemSource {
    let path = write(dir, "in.json", content);
    source(&node(table_options(&path, "json", more), columns(&["id"]))).unwrap()
}

fn all_rows(steps: &[Step]) -> Vec<String> {
    steps.iter().flat_map(|step| step.rows.clone()).collect()
}

fn all_letters(steps: &[Step]) -> Vec<BadRecord> {
    steps.iter().flat_map(|step| step.letters.clone()).collect()
}

#[test]
fn failing_names_file_line_and_field_after_the_rows_before() {
    let dir = tempfile::tempdir().unwrap();
    let table = table(
        dir.path(),
        INPUT.as_bytes(),
        &[("source.rows-per-second", "1")],
    );
    let (steps, error) = steps(&table, &first(&table));
    assert_eq!(all_rows(&steps), ["1"]);
    let error = error.unwrap();
    for part in [
        "table `t`",
        "/in.json: line 2 ",
        "field `id`",
        "expected ",
        "found \"x\"",
        "'on-error'",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_csv_record_is_named_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "in.csv", b"id,name,at\n1,a,\n2,b,yesterday\n");
    let error = read_all(&node(table_options(&path, "csv", &[]), schema())).unwrap_err();
    for part in ["/in.csv: line 3 ", "field `at`", "\"yesterday\""] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn skipped_records_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let table = table(dir.path(), INPUT.as_bytes(), &[("on-error", "skip")]);
    let (steps, error) = steps(&table, &first(&table));
    assert_eq!(error, None);
    assert_eq!(all_rows(&steps), ["1", "2", "3"]);
    assert_eq!(steps.iter().map(|step| step.bad).sum::<u64>(), 3);
    assert_eq!(all_letters(&steps), []);
}

#[test]
fn each_letter_comes_once_wherever_reading_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let letters = dir.path().join("letters").display().to_string();
    let table = table(
        dir.path(),
        INPUT.as_bytes(),
        &[
            ("on-error", "dead-letter"),
            ("dead-letter.path", &letters),
            ("source.rows-per-second", "1"),
        ],
    );
    let split = first(&table);
    let (whole, error) = steps(&table, &split);
    assert_eq!(error, None);
    assert_eq!(all_rows(&whole), ["1", "2", "3"]);
    let found = all_letters(&whole);
    let path = dir.path().join("in.json").display().to_string();
    let places: Vec<String> = [2, 3, 6]
        .iter()
        .map(|line| format!("{path} line {line}"))
        .collect();
    assert_eq!(
        found.iter().map(|letter| &letter.place).collect::<Vec<_>>(),
        places.iter().collect::<Vec<_>>()
    );
    assert_eq!(found[1].raw, b"nonsense");
    assert!(found[0].reason.contains("field `id`"), "{:?}", found[0]);
    for done in 0..whole.len() {
        let resumed = SplitState {
            position: whole[done].position.clone(),
            ..split.clone()
        };
        let rest = steps(&table, &resumed).0;
        for (kind, before, after, expected) in [
            (
                "rows",
                all_rows(&whole[..=done]),
                all_rows(&rest),
                all_rows(&whole),
            ),
            (
                "letters",
                all_letters(&whole[..=done])
                    .iter()
                    .map(|l| l.place.clone())
                    .collect(),
                all_letters(&rest).iter().map(|l| l.place.clone()).collect(),
                places.clone(),
            ),
        ] {
            assert_eq!(
                [before, after].concat(),
                expected,
                "{kind} after step {done}"
            );
        }
    }
}

/// A file that is nothing but malformed records must neither hold its slot nor fill the memory.
#[test]
fn long_runs_of_bad_records_are_read_in_steps() {
    let dir = tempfile::tempdir().unwrap();
    let mut content = "{\"id\":1}\n".to_owned();
    content.push_str(&"?\n".repeat(300_000));
    content.push_str("{\"id\":2}\n");
    let letters = dir.path().join("letters").display().to_string();
    let options = [
        ("on-error", "dead-letter"),
        ("dead-letter.path", letters.as_str()),
    ];
    let table = table(dir.path(), content.as_bytes(), &options);
    let split = first(&table);
    let (whole, _) = steps(&table, &split);
    assert!(whole.len() > 3, "{} steps", whole.len());
    assert!(whole.iter().all(|step| step.letters.len() < 100_000));
    assert_eq!(all_rows(&whole), ["1", "2"]);
    assert_eq!(
        whole.iter().map(|step| step.letters.len()).sum::<usize>(),
        300_000
    );
    // In the middle, where there was no row for a while.
    let middle = whole.iter().position(|step| step.rows.is_empty()).unwrap();
    let resumed = SplitState {
        position: whole[middle].position.clone(),
        ..split
    };
    let (rest, _) = steps(&table, &resumed);
    assert_eq!(all_rows(&rest), ["2"]);
    let before: usize = whole[..=middle].iter().map(|step| step.letters.len()).sum();
    let after: usize = rest.iter().map(|step| step.letters.len()).sum();
    assert_eq!(before + after, 300_000);
}
