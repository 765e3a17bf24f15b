//! Reading goes on at every position as if it had never stopped; files that changed in between
//! are noticed.

use std::fs;

use super::{columns, input::*, schema, table_options};
use crate::source::SplitState;

const ROWS: usize = 12;
/// One row per batch, so that there is a position after each.
const ONE_BY_ONE: (&str, &str) = ("source.rows-per-second", "1");

fn json() -> String {
    (0..ROWS)
        .map(|id| format!("{{\"id\":{id},\"name\":\"n{id}\"}}\n\n"))
        .collect()
}

fn csv(header: &str) -> String {
    let mut text = header.to_owned();
    for id in 0..ROWS {
        text.push_str(&format!("{id},\"line\none of {id}\",\r\n"));
    }
    text
}

fn parquet_file(rows_of_it: usize) -> Vec<u8> {
    let names: Vec<String> = (0..ROWS).map(|id| format!("n{id}")).collect();
    let values: Vec<_> = (0..rows_of_it)
        .map(|id| (Some(id as i64), Some(names[id].as_str()), None))
        .collect();
    parquet(&rows(&values))
}

/// Name, format, content and further options.
type File = (
    &'static str,
    &'static str,
    Vec<u8>,
    Vec<(&'static str, &'static str)>,
);

fn files() -> Vec<File> {
    vec![
        ("a.json", "json", json().into(), vec![]),
        ("a.json.gz", "json", gzip(json().as_bytes()), vec![]),
        ("a.csv", "csv", csv("id,name,at\n").into(), vec![]),
        (
            "a.csv.gz",
            "csv",
            gzip(csv("id,name,at\n").as_bytes()),
            vec![],
        ),
        (
            "b.csv",
            "csv",
            csv("").into(),
            vec![("csv.header", "false")],
        ),
        ("a.parquet", "parquet", parquet_file(ROWS), vec![]),
    ]
}

#[test]
fn every_position_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format, content, mut more) in files() {
        let path = write(dir.path(), name, &content);
        more.push(ONE_BY_ONE);
        for names in [&["id", "name", "at"][..], &["name"], &[]] {
            let table = source(&node(table_options(&path, format, &more), columns(names))).unwrap();
            let split = first(&table);
            let (whole, error) = steps(&table, &split);
            assert_eq!(error, None, "{name}");
            assert_eq!(
                whole.len(),
                ROWS + 1,
                "{name}: one row at a time, then the end"
            );
            for done in 0..whole.len() {
                let resumed = SplitState {
                    position: whole[done].position.clone(),
                    ..split.clone()
                };
                let (rest, error) = steps(&table, &resumed);
                assert_eq!(error, None, "{name} after {done}");
                // A file that has been read to its end ends again.
                let expected = &whole[(done + 1).min(ROWS)..];
                assert_eq!(rest, expected, "{name} after {done}");
            }
        }
    }
}

#[test]
fn files_that_vanish_or_shrink() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format, content, mut more) in files() {
        let path = write(dir.path(), name, &content);
        more.push(ONE_BY_ONE);
        let table = source(&node(table_options(&path, format, &more), schema())).unwrap();
        let split = first(&table);
        let resumed = SplitState {
            position: steps(&table, &split).0[ROWS - 1].position.clone(),
            ..split
        };
        let shorter = match format {
            "parquet" => parquet_file(ROWS / 2),
            _ if name.ends_with(".gz") => gzip(&json().as_bytes()[..40]),
            _ => content[..40].to_vec(),
        };
        fs::write(&path, shorter).unwrap();
        let error = steps(&table, &resumed).1.unwrap();
        assert!(
            error.contains("table `t`") && error.contains(name),
            "{name}: {error}"
        );
        let reason = match format {
            "parquet" => "the file is shorter than it was",
            _ => "files must not change once they are listed",
        };
        assert!(error.contains(reason), "{name}: {error}");
        fs::remove_file(&path).unwrap();
        let error = steps(&table, &resumed).1.unwrap();
        assert!(
            error.contains(name)
                && error.contains("No such file")
                && error.contains("files must stay until the job that reads them has ended"),
            "{name}: {error}"
        );
    }
}

#[test]
fn damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let zipped = gzip(json().as_bytes());
    for (name, format, content, reason) in [
        (
            "cut.json.gz",
            "json",
            zipped[..zipped.len() - 9].to_vec(),
            "is the file complete",
        ),
        ("not.json.gz", "json", json().into_bytes(), "is it gzip"),
        (
            "not.parquet",
            "parquet",
            json().into_bytes(),
            "Parquet: cannot",
        ),
        ("empty.parquet", "parquet", Vec::new(), "Parquet: cannot"),
        (
            "h.csv",
            "csv",
            b"id,nam\n1,a\n".to_vec(),
            "CSV header on line 1",
        ),
    ] {
        let path = write(dir.path(), name, &content);
        let error = read_all(&node(table_options(&path, format, &[]), schema()));
        let error = error.err().unwrap_or_default();
        // A missing column of a CSV file with a header may be allowed; the others may not.
        assert!(
            error.contains(name) && error.contains(reason),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_position_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.json", b"{}\n");
    let table = source(&node(table_options(&path, "json", &[]), schema())).unwrap();
    let split = SplitState {
        position: serde_json::json!({"offset": "x"}),
        ..first(&table)
    };
    let error = steps(&table, &split).1.unwrap();
    assert!(error.contains("position in the snapshot"), "{error}");
}
