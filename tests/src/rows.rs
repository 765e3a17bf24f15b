//! Rows in the directory that a filesystem sink wrote.
//!
//! Only what a reader may see counts: hidden files are staged ones. Files are ordered as they
//! were written: by execution (a UUID that grows with time), subtask, and number.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::value::Value;

/// One part file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartFile {
    pub execution: String,
    pub subtask: u32,
    pub number: u64,
    pub path: PathBuf,
    /// Partition columns from the directories above it.
    pub partition: Vec<(String, String)>,
}

/// The visible files of a sink, in order. A directory that was never made is empty.
pub fn part_files(directory: &Path) -> Result<Vec<PartFile>> {
    let mut found = Vec::new();
    collect(directory, &[], &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(
    directory: &Path,
    partition: &[(String, String)],
    found: &mut Vec<PartFile>,
) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            let (column, value) = name
                .split_once('=')
                .with_context(|| format!("directory {name} is no partition"))?;
            let mut below = partition.to_vec();
            below.push((column.to_owned(), value.to_owned()));
            collect(&entry.path(), &below, found)?;
        } else {
            found.push(part_file(entry.path(), &name, partition)?);
        }
    }
    Ok(())
}

/// Reads `part-{execution}-{subtask}-{number}.{extension}`.
fn part_file(path: PathBuf, name: &str, partition: &[(String, String)]) -> Result<PartFile> {
    let parse = || {
        let stem = name.strip_prefix("part-")?.rsplit_once('.')?.0;
        let (rest, number) = stem.rsplit_once('-')?;
        let (execution, subtask) = rest.rsplit_once('-')?;
        Some((
            execution.to_owned(),
            subtask.parse().ok()?,
            number.parse().ok()?,
        ))
    };
    let Some((execution, subtask, number)) = parse() else {
        bail!("{} is no part file", path.display());
    };
    Ok(PartFile {
        execution,
        subtask,
        number,
        path,
        partition: partition.to_vec(),
    })
}

/// Files that a sink left staged: none may remain when a job has finished.
pub fn staged_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(staged_files(&path));
        } else if entry.file_name().to_string_lossy().starts_with('.') {
            found.push(path);
        }
    }
    found
}

/// All rows of a sink as objects, in the order of the files.
pub fn read(directory: &Path) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for file in part_files(directory)? {
        let mut part = read_file(&file.path).with_context(|| file.path.display().to_string())?;
        for (column, value) in &file.partition {
            for row in &mut part {
                if let Value::Object(members) = row {
                    members.insert(column.clone(), Value::Text(value.clone()));
                }
            }
        }
        rows.extend(part);
    }
    Ok(rows)
}

fn read_file(path: &Path) -> Result<Vec<Value>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => read_lines(&fs::read(path)?),
        Some("csv") => read_csv(path),
        Some("parquet") => read_parquet(path),
        other => bail!("no reader for files that end with {other:?}"),
    }
}

/// One JSON value per line. A last line without its end is a file that was cut off.
pub fn read_lines(bytes: &[u8]) -> Result<Vec<Value>> {
    let text = std::str::from_utf8(bytes)?;
    if !text.is_empty() && !text.ends_with('\n') {
        bail!("the last line has no end");
    }
    text.split_terminator('\n').map(Value::parse).collect()
}

/// CSV with a header: every field is text.
fn read_csv(path: &Path) -> Result<Vec<Value>> {
    let mut reader = csv::Reader::from_path(path)?;
    let header = reader.headers()?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let members = header.iter().zip(record.iter());
        rows.push(Value::Object(
            members
                .map(|(name, field)| (name.to_owned(), Value::Text(field.to_owned())))
                .collect(),
        ));
    }
    Ok(rows)
}

/// Parquet by way of Arrow's own JSON writer, nulls written out.
fn read_parquet(path: &Path) -> Result<Vec<Value>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
    let mut lines = Vec::new();
    let builder = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.3f".to_owned());
    let mut writer = builder.build::<_, arrow::json::writer::LineDelimited>(&mut lines);
    for batch in reader {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    drop(writer);
    read_lines(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_files_are_ordered_and_staged_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let first = "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11";
        let second = "0190b3c2-7b1f-7c00-8000-3f6f2f0d9a11";
        for (name, text) in [
            (format!("part-{second}-0-0.json"), "{\"n\":4}\n"),
            (format!("part-{first}-1-0.json"), "{\"n\":3}\n"),
            (format!("part-{first}-0-10.json"), "{\"n\":2}\n"),
            (format!("part-{first}-0-9.json"), "{\"n\":1}\n"),
            (format!(".job.part-{first}-0-11.json.staged"), "{\"n\":9}\n"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let rows: Vec<String> = read(dir.path())
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        assert_eq!(rows, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]);
        assert_eq!(staged_files(dir.path()).len(), 1);
        fs::write(dir.path().join("stray.json"), "").unwrap();
        assert!(read(dir.path()).is_err());
    }

    #[test]
    fn partitions_become_columns_and_cut_lines_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("k=a/l=1");
        fs::create_dir_all(&below).unwrap();
        let file = below.join("part-x-0-0.json");
        fs::write(&file, "{\"n\":1}\n").unwrap();
        let rows = read(dir.path()).unwrap();
        assert_eq!(rows[0].to_string(), "{\"k\":\"a\",\"l\":\"1\",\"n\":1}");
        fs::write(&file, "{\"n\":1}\n{\"n\":").unwrap();
        assert!(read(dir.path()).is_err());
    }
}
