//! Scripts and job specs as files.

use std::{fs::File, io::Read, path::Path};

use anyhow::Context;
use millrace_control_plane::problem::ProblemItem;
use millrace_types::{JobName, JobSpec};

use crate::exit::{self, Failure};

/// Largest file that is read; the service takes no larger body either.
const MAX_BYTES: u64 = 4 << 20;

/// A SQL script and what stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// For messages.
    pub(crate) file: String,
    /// As it stands in the file.
    pub(crate) text: String,
    /// `SET` statements in front, on the script's first line.
    prefix: String,
}

impl Script {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = read_text(path)?;
        let file = if is_stdin(path) {
            "stdin".to_owned()
        } else {
            path.display().to_string()
        };
        Ok(Script {
            file,
            text,
            prefix: String::new(),
        })
    }

    /// Puts settings in front. They share the first line with the script, so that line numbers
    /// stay those of the file.
    pub(crate) fn with_settings(mut self, settings: &[(String, String)]) -> Self {
        for (key, value) in settings {
            let key = key.replace('\'', "''");
            let value = value.replace('\'', "''");
            self.prefix.push_str(&format!("SET '{key}' = '{value}'; "));
        }
        self
    }

    /// What is compiled.
    pub(crate) fn sql(&self) -> String {
        format!("{}{}", self.prefix, self.text)
    }

    /// Moves a finding about [`Script::sql`] to its place in the file.
    pub(crate) fn localize(&self, item: &ProblemItem) -> ProblemItem {
        let mut item = item.clone();
        let offset = self.prefix.chars().count() as u64;
        if offset == 0 || item.line != Some(1) {
            return item;
        }
        match item.column {
            Some(column) if column > offset => item.column = Some(column - offset),
            _ => {
                item.line = None;
                item.column = None;
                item.message = format!("--set: {}", item.message);
            }
        }
        if item.end_line == Some(1) {
            item.end_column = item
                .end_column
                .map(|column| column.saturating_sub(offset).max(1));
        }
        item
    }

    /// The file's name without its extension, with what a job's name may not hold replaced.
    pub(crate) fn job_name(&self) -> JobName {
        let stem = Path::new(&self.file)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let cleaned: String = stem
            .unwrap_or_default()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
                    c
                } else {
                    '-'
                }
            })
            .take(63)
            .collect();
        let cleaned = cleaned.trim_start_matches(['.', '_', '-']);
        JobName::new(cleaned)
            .or_else(|_| JobName::new("script"))
            .unwrap_or_else(|_| unreachable!("`script` keeps to the alphabet of names"))
    }
}

/// What a file says of a job.
pub(crate) enum JobFile {
    Script(Script),
    Spec { file: String, spec: Box<JobSpec> },
}

impl JobFile {
    /// YAML and JSON are specs, anything else is a script.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        if !matches!(extension.as_deref(), Some("yaml" | "yml" | "json")) {
            return Script::read(path).map(JobFile::Script);
        }
        let text = read_text(path)?;
        let file = path.display().to_string();
        // JSON is YAML too, but its own parser explains better what is wrong with it.
        // A list would be read as the fields of a spec in their order.
        let is_list = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(&text)
            .is_ok_and(|value| value.is_sequence());
        let parsed = if is_list {
            Err("it is a list, expected an object with named fields".to_owned())
        } else if extension.as_deref() == Some("json") {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            serde_yaml_ng::from_str(&text).map_err(|error| error.to_string())
        };
        match parsed {
            Ok(spec) => Ok(JobFile::Spec {
                file,
                spec: Box::new(spec),
            }),
            Err(reason) => Err(Failure::error(
                exit::BAD_INPUT,
                format!(
                    "error: {file} is not a job spec: {reason}\n  hint: `millrace jobs create --help` shows one"
                ),
            )),
        }
    }

    /// File and script, to point into.
    pub(crate) fn source(&self) -> (String, &str) {
        match self {
            JobFile::Script(script) => (script.file.clone(), &script.text),
            JobFile::Spec { file, spec } => (format!("{file} (sql)"), &spec.sql),
        }
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    if is_stdin(path) {
        std::io::stdin()
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .context("cannot read stdin")?;
    } else {
        let refused = |error: &std::io::Error| {
            Failure::error(
                exit::BAD_INPUT,
                format!("error: cannot read {}: {error}", path.display()),
            )
        };
        let file = File::open(path).map_err(|error| refused(&error))?;
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refused(&error))?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::error(
            exit::BAD_INPUT,
            format!(
                "error: {} is larger than {} MiB",
                path.display(),
                MAX_BYTES >> 20
            ),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        Failure::error(
            exit::BAD_INPUT,
            format!(
                "error: {} is not UTF-8 text: line {line} holds other bytes",
                path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn script(file: &str, text: &str) -> Script {
        Script {
            file: file.to_owned(),
            text: text.to_owned(),
            prefix: String::new(),
        }
    }

    #[test]
    fn names_come_from_files() {
        for (file, name) in [
            ("examples/flights.sql", "flights"),
            ("my query.v2.sql", "my-query.v2"),
            ("stdin", "stdin"),
            ("..sql", "script"),
            ("-ä-.sql", "script"),
        ] {
            assert_eq!(script(file, "").job_name().as_str(), name, "{file}");
        }
    }

    #[test]
    fn settings_leave_places_as_they_are_in_the_file() {
        let script = script("a.sql", "SELECT x").with_settings(&[("a".into(), "it's".into())]);
        assert_eq!(script.sql(), "SET 'a' = 'it''s'; SELECT x");
        let at = |column: u64| ProblemItem {
            message: "m".into(),
            line: Some(1),
            column: Some(column),
            end_line: Some(1),
            end_column: Some(column + 1),
            ..ProblemItem::default()
        };
        // `x` is the 8th character of the file and the 27th of what is compiled.
        let found = script.localize(&at(27));
        assert_eq!(
            (found.line, found.column, found.end_column),
            (Some(1), Some(8), Some(9))
        );
        let in_setting = script.localize(&at(11));
        assert_eq!(
            (in_setting.line, in_setting.message.as_str()),
            (None, "--set: m")
        );
    }

    #[test]
    fn files_that_cannot_be_used_are_bad_input() {
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        file.write_all(b"name: a\nsequel: x\n").unwrap();
        let mut binary = tempfile::NamedTempFile::new().unwrap();
        binary.write_all(b"SELECT\n\xff").unwrap();
        for (path, expected) in [
            (file.path(), "sequel"),
            (binary.path(), "line 2"),
            (Path::new("/nowhere/x.sql"), "cannot read /nowhere/x.sql"),
        ] {
            let Err(error) = JobFile::read(path) else {
                panic!("{} was read", path.display());
            };
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(
                error.downcast_ref::<Failure>().unwrap().code,
                exit::BAD_INPUT
            );
        }
    }
}
