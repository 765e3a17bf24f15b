//! Malformed records on their way to dead letters: each exactly once, as the good rows.

use crate::{
    input::{file_rows, json, sink, source, write_text},
    matrix::{SHORT, published, same_however_it_runs, sorted},
};

/// Bad records by line (from 1) of a file.
fn bad(file: i64, line: usize) -> Option<String> {
    match (line * 31 + file as usize) % 7 {
        0 => Some(format!("not json {line}")),
        3 => Some(format!(
            r#"{{"k":"x","v":"many","ts":"2024-01-01 00:00:00","line":{line}}}"#
        )),
        _ => None,
    }
}

#[test]
fn dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    let mut expected = Vec::new();
    for file in 0..3 {
        let name = format!("part-{file}.json");
        let path = input.join(&name);
        let mut text = String::new();
        let mut line = 0;
        let mut push = |record: &str| {
            text.push_str(record);
            text.push('\n');
        };
        for row in file_rows(file) {
            line += 1;
            while let Some(record) = bad(file, line) {
                push(&record);
                expected.push(format!("{} line {line}: {record}", path.display()));
                line += 1;
            }
            push(&json(&row));
            expected.push(format!(r#"{{"k":"{}","v":{}}}"#, row.k, row.v));
        }
        // Nothing but bad records at the end.
        for _ in 0..20 {
            line += 1;
            push(&format!("end {line}"));
            expected.push(format!("{} line {line}: end {line}", path.display()));
        }
        write_text(&input, &name, &text);
    }
    same_however_it_runs(
        dir.path(),
        SHORT,
        |out, slow| {
            let letters = out.join("letters").display().to_string();
            let mut more = vec![
                ("on-error", "dead-letter"),
                ("dead-letter.path", letters.as_str()),
            ];
            more.extend(slow);
            format!(
                "{}{}INSERT INTO snk SELECT k, v FROM src;",
                source("src", &input, 3_000, &more),
                sink(
                    "snk",
                    "(k STRING, v BIGINT)",
                    &out.join("rows"),
                    "json",
                    &[]
                )
            )
        },
        |out| {
            let mut lines = published(&out.join("rows"));
            for line in published(&out.join("letters")) {
                let letter: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert!(letter["reason"].as_str().unwrap().contains("expected "));
                lines.push(format!(
                    "{}: {}",
                    letter["place"].as_str().unwrap(),
                    letter["record"].as_str().unwrap()
                ));
            }
            sorted(lines)
        },
        &sorted(expected),
    );
}
