//! Golden cases: `tests/cases/NAME/{case.json, job.sql, in/, out/}`.
//!
//! `job.sql` holds `${in}` (the case's input directory), `${out}` (where sinks write, each into a
//! directory of its own) and `${throttle}` (options that slow a source down, or nothing).
//! `out/SINK.ndjson` are the expected rows of the sink directory `${out}/SINK`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    changelog,
    compare::{self, Tolerance},
    rows,
    value::Value,
};

/// What `case.json` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Features that the case is there for.
    pub covers: Vec<String>,
    pub compare: Mode,
    /// Who says what is right: `flink`, `duckdb` or `hand`.
    pub oracle: String,
    /// How it was found by hand.
    #[serde(default)]
    pub derivation: Option<String>,
    /// Sinks, when they differ in mode.
    #[serde(default)]
    pub sinks: BTreeMap<String, Mode>,
    /// Columns whose last digits may differ.
    #[serde(default)]
    pub approximate: BTreeSet<String>,
    /// Runs that make sense for the case; all without it.
    #[serde(default)]
    pub runs: Option<BTreeSet<Run>>,
    /// By sink: the only columns that are compared.
    #[serde(default)]
    pub columns: BTreeMap<String, BTreeSet<String>>,
    /// By sink: partition columns, in the order of the directories.
    #[serde(default)]
    pub partitions: BTreeMap<String, Vec<String>>,
    /// By sink: files that it must at least write in a clean run.
    #[serde(default)]
    pub least_files: BTreeMap<String, usize>,
    /// Rows that metrics must count as late after a clean run at parallelism 1.
    #[serde(default)]
    pub late_rows: Option<u64>,
    /// Records that metrics must count as malformed after such a run.
    #[serde(default)]
    pub bad_records: Option<u64>,
    /// Findings that compiling must yield.
    #[serde(default)]
    pub errors: Vec<ExpectedError>,
}

/// How expected and actual rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The same rows in any order.
    Multiset,
    /// What remains after all changes.
    FinalState,
    /// The changes themselves, in order.
    Changelog,
    /// The script does not compile.
    Error,
}

/// The ways in which each case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Run {
    /// Parallelism 1.
    One,
    /// Parallelism 4 over two worker processes.
    Four,
    /// A worker is killed on the way.
    Killed,
    /// Stopped with a savepoint, started at another parallelism.
    Rescaled,
}

impl Run {
    pub const ALL: [Run; 4] = [Run::One, Run::Four, Run::Killed, Run::Rescaled];

    pub fn name(self) -> &'static str {
        match self {
            Run::One => "one",
            Run::Four => "four",
            Run::Killed => "killed",
            Run::Rescaled => "rescaled",
        }
    }
}

/// One finding of the compiler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedError {
    pub code: String,
    #[serde(default)]
    pub line: Option<u64>,
    #[serde(default)]
    pub column: Option<u64>,
    /// Part of the message.
    pub message: String,
}

/// A case on disk.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub spec: Spec,
    directory: PathBuf,
    script: String,
}

/// How long a throttled run reads, at most.
const THROTTLED_SECONDS: usize = 3;

impl Case {
    /// All cases, by name; `MILLRACE_CASES` (parts of names, separated by commas) picks some.
    pub fn all() -> Result<Vec<Case>> {
        let wanted = std::env::var("MILLRACE_CASES").unwrap_or_default();
        Self::named_like(|name| {
            wanted.is_empty() || wanted.split(',').any(|part| name.contains(part.trim()))
        })
    }

    /// The case of this name.
    pub fn named(wanted: &str) -> Result<Case> {
        let mut found = Self::named_like(|name| name == wanted)?;
        found
            .pop()
            .with_context(|| format!("there is no case {wanted}"))
    }

    fn named_like(wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let mut cases = Vec::new();
        for entry in fs::read_dir(&root)? {
            let directory = entry?.path();
            let name = directory
                .file_name()
                .and_then(|name| name.to_str())
                .with_context(|| directory.display().to_string())?
                .to_owned();
            if wanted(&name) {
                cases.push(Self::load(name, directory)?);
            }
        }
        cases.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(cases)
    }

    fn load(name: String, directory: PathBuf) -> Result<Case> {
        let read = |file: &str| {
            let path = directory.join(file);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let spec: Spec = serde_json::from_str(&read("case.json")?)
            .with_context(|| format!("case.json of {name}"))?;
        if spec.oracle == "hand" && spec.derivation.is_none() {
            bail!("case {name} was made by hand and has no derivation");
        }
        Ok(Case {
            script: read("job.sql")?,
            name,
            spec,
            directory,
        })
    }

    /// Whether the case makes sense in this way.
    pub fn wants(&self, run: Run) -> bool {
        self.spec
            .runs
            .as_ref()
            .is_none_or(|runs| runs.contains(&run))
    }

    /// The script with everything filled in.
    pub fn script(&self, out: &Path, throttled: bool) -> Result<String> {
        let throttle = if throttled {
            let rate = self.rate()?;
            format!(",\n  'source.rows-per-second' = '{rate}'")
        } else {
            String::new()
        };
        Ok(self
            .script
            .replace("${in}", &self.directory.join("in").display().to_string())
            .replace("${out}", &out.display().to_string())
            .replace("${throttle}", &throttle))
    }

    /// Rows per second of a throttled source.
    fn rate(&self) -> Result<usize> {
        Ok(self.largest_file()?.div_ceil(THROTTLED_SECONDS).max(1))
    }

    /// How long a throttled run reads, about.
    pub fn throttled_millis(&self) -> Result<u64> {
        Ok(u64::try_from(self.largest_file()? * 1_000 / self.rate()?)?)
    }

    /// Rows of the largest input file, about.
    fn largest_file(&self) -> Result<usize> {
        let mut most = 0;
        for entry in fs::read_dir(self.directory.join("in"))? {
            let path = entry?.path();
            let bytes = fs::read(&path)?;
            let extension = path.extension().and_then(|extension| extension.to_str());
            let rows = match extension {
                Some("gz") => {
                    let mut text = Vec::new();
                    let mut unpacked = flate2::read::GzDecoder::new(bytes.as_slice());
                    std::io::Read::read_to_end(&mut unpacked, &mut text)?;
                    lines(&text)
                }
                Some("parquet") => 150,
                _ => lines(&bytes),
            };
            most = most.max(rows);
        }
        Ok(most)
    }

    /// Compares every sink below `out` with what is expected.
    pub fn check(&self, out: &Path, clean: bool) -> Result<()> {
        let expected_dir = self.directory.join("out");
        let mut sinks = Vec::new();
        for entry in
            fs::read_dir(&expected_dir).with_context(|| expected_dir.display().to_string())?
        {
            let path = entry?.path();
            let name = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default();
            sinks.push((name.to_owned(), path.clone()));
        }
        if sinks.is_empty() {
            bail!("case {} expects nothing", self.name);
        }
        sinks.sort();
        for (sink, path) in sinks {
            self.check_sink(&sink, &path, out, clean)
                .with_context(|| format!("sink {sink}"))?;
        }
        Ok(())
    }

    fn check_sink(&self, sink: &str, expected: &Path, out: &Path, clean: bool) -> Result<()> {
        let directory = out.join(sink);
        let expected = rows::read_lines(&fs::read(expected)?)?;
        let mut actual = rows::read(&directory)?;
        if let Some(columns) = self.spec.columns.get(sink) {
            for row in &mut actual {
                if let Value::Object(members) = row {
                    members.retain(|name, _| columns.contains(name));
                }
            }
        }
        let tolerance = Tolerance {
            approximate: self.spec.approximate.clone(),
        };
        match self
            .spec
            .sinks
            .get(sink)
            .copied()
            .unwrap_or(self.spec.compare)
        {
            Mode::Multiset => compare::multiset(&expected, &actual, &tolerance)?,
            Mode::FinalState => {
                compare::multiset(&expected, &changelog::final_state(&actual)?, &tolerance)?;
            }
            Mode::Changelog => compare::ordered(&expected, &actual, &tolerance)?,
            Mode::Error => bail!("a case of errors has no rows to compare"),
        }
        let files = rows::part_files(&directory)?;
        if let Some(partition) = self.spec.partitions.get(sink) {
            for file in &files {
                let columns: Vec<&String> = file.partition.iter().map(|(name, _)| name).collect();
                if columns != partition.iter().collect::<Vec<_>>() {
                    bail!(
                        "{} is not in a directory per {partition:?}",
                        file.path.display()
                    );
                }
            }
        }
        if let Some(least) = self.spec.least_files.get(sink)
            && clean
            && files.len() < *least
        {
            bail!("{} files, expected at least {least}", files.len());
        }
        let staged = rows::staged_files(&directory);
        if !staged.is_empty() {
            bail!("staged files remain: {staged:?}");
        }
        Ok(())
    }
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}
