//! The rows that the jobs read, and the tables over them.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// One row: `k STRING, v BIGINT, ts TIMESTAMP(3)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) k: String,
    pub(crate) v: i64,
    /// Since 2024-01-01 00:00, which all windows are aligned with; at least a minute.
    pub(crate) ms: i64,
}

/// 500 rows: keys with skew, times out of order within 3 s.
pub(crate) fn file_rows(file: i64) -> Vec<Row> {
    (0..500_i64)
        .map(|i| {
            let mix = (i * 7_919 + file * 104_729) % 1_000;
            Row {
                k: if mix < 300 {
                    "hot".to_owned()
                } else {
                    format!("k{}", mix % 17)
                },
                v: mix - 500,
                ms: 60_000 + i * 100 + (mix * 3) % 3_000,
            }
        })
        .collect()
}

/// The rows of four files.
pub(crate) fn all_rows() -> Vec<Row> {
    (0..4).flat_map(file_rows).collect()
}

/// As JSON shows it.
pub(crate) fn time(ms: i64) -> String {
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("2024-01-01 00:{:02}:{:02}.{ms:03}", s / 60, s % 60)
}

pub(crate) fn json(row: &Row) -> String {
    let Row { k, v, ms } = row;
    format!(r#"{{"k":"{k}","v":{v},"ts":"{}"}}"#, time(*ms))
}

/// Writes a file elsewhere and renames it in, as files for a watched directory must be.
pub(crate) fn write_file(dir: &Path, name: &str, rows: &[Row]) -> PathBuf {
    let mut text = String::new();
    for row in rows {
        writeln!(text, "{}", json(row)).unwrap();
    }
    write_text(dir, name, &text)
}

pub(crate) fn write_text(dir: &Path, name: &str, text: &str) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    let path = dir.join(name);
    let hidden = dir.join(format!(".{name}"));
    fs::write(&hidden, text).unwrap();
    fs::rename(&hidden, &path).unwrap();
    path
}

/// The four files.
pub(crate) fn write_all(dir: &Path) {
    for file in 0..4 {
        write_file(dir, &format!("part-{file}.json"), &file_rows(file));
    }
}

fn options(pairs: &[(&str, &str)]) -> String {
    pairs
        .iter()
        .map(|(key, value)| format!(", '{key}' = '{value}'"))
        .collect()
}

/// A table over JSON files of rows.
pub(crate) fn source(name: &str, path: &Path, delay_ms: i64, more: &[(&str, &str)]) -> String {
    format!(
        "CREATE TABLE {name} (k STRING, v BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(),
           WATERMARK FOR ts AS ts - INTERVAL '{}.{:03}' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json'{});\n",
        delay_ms / 1000,
        delay_ms % 1000,
        path.display(),
        options(more)
    )
}

/// A table of files to write. `columns` may be followed by PARTITIONED BY.
pub(crate) fn sink(
    name: &str,
    columns: &str,
    path: &Path,
    format: &str,
    more: &[(&str, &str)],
) -> String {
    format!(
        "CREATE TABLE {name} {columns} WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}'{});\n",
        path.display(),
        options(more)
    )
}
