//! Which files a path, directory or glob stands for.
//!
//! Names that start with `.` or `_` are left out unless the path itself asks for them. What
//! vanishes while it is listed (a file renamed to its final name) is not an error; sockets, pipes
//! and links that lead nowhere or back up are passed over.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

use crate::source::ConnectorError;

#[cfg(test)]
mod tests;

/// The files, sorted by path. A path that does not exist is an error, an empty directory or a
/// glob without matches is not. `max_files` bounds files and directories alike.
pub(super) fn files(
    table: &str,
    path: &str,
    max_files: usize,
) -> Result<Vec<PathBuf>, ConnectorError> {
    let mut listing = Listing {
        table,
        max_files,
        files: BTreeSet::new(),
        directories: 0,
    };
    if is_glob(path) && !Path::new(path).exists() {
        // To the library, a trailing `**` is directories only.
        let pattern = if path.ends_with("**") {
            format!("{path}/*")
        } else {
            path.to_owned()
        };
        let matches = glob::glob(&pattern).map_err(|error| {
            ConnectorError(format!(
                "table `{table}`: 'path' = '{path}' is not a valid glob: {error}"
            ))
        })?;
        let hidden = HiddenInGlob::new(path);
        for entry in matches {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.error().kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(ConnectorError(format!(
                        "table `{table}`: cannot list '{path}': {error}"
                    )));
                }
            };
            if !hidden.hides(&entry) {
                listing.entry(&entry, &mut Vec::new())?;
            }
        }
    } else {
        let root = Path::new(path);
        let metadata = fs::metadata(root).map_err(|error| listing.fault(root, &error))?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(ConnectorError(format!(
                "table `{table}`: '{path}' is neither a file nor a directory"
            )));
        }
        listing.entry(root, &mut Vec::new())?;
    }
    Ok(listing.files.into_iter().collect())
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn hidden_mark(name: &str) -> Option<char> {
    name.chars()
        .next()
        .filter(|first| matches!(first, '.' | '_'))
}

fn names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect()
}

/// Tells which matches of a glob are hidden: those with a hidden name where the pattern has
/// wildcards, unless some part of the pattern from there on starts in the same way.
struct HiddenInGlob {
    /// Names before the first wildcard.
    literal: usize,
    asked_for: Vec<char>,
}

impl HiddenInGlob {
    fn new(pattern: &str) -> Self {
        let names = names(Path::new(pattern));
        let literal = names.iter().take_while(|name| !is_glob(name)).count();
        let asked_for = names[literal..]
            .iter()
            .filter_map(|name| hidden_mark(name))
            .collect();
        HiddenInGlob { literal, asked_for }
    }

    fn hides(&self, path: &Path) -> bool {
        names(path)
            .iter()
            .skip(self.literal)
            .filter_map(|name| hidden_mark(name))
            .any(|mark| !self.asked_for.contains(&mark))
    }
}

struct Listing<'a> {
    table: &'a str,
    max_files: usize,
    files: BTreeSet<PathBuf>,
    directories: usize,
}

impl Listing<'_> {
    fn fault(&self, path: &Path, error: &io::Error) -> ConnectorError {
        let hint = if error.kind() == io::ErrorKind::NotFound {
            "; relative paths start at the directory the service runs in"
        } else {
            ""
        };
        ConnectorError(format!(
            "table `{}`: cannot read '{}': {error}{hint}",
            self.table,
            path.display()
        ))
    }

    fn too_many(&self, what: &str) -> ConnectorError {
        ConnectorError(format!(
            "table `{}`: more than {} {what}; raise 'source.max-files' or narrow 'path'",
            self.table, self.max_files
        ))
    }

    /// `above`: the real paths of the directories on the way, to notice links that lead back up.
    fn entry(&mut self, path: &Path, above: &mut Vec<PathBuf>) -> Result<(), ConnectorError> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.fault(path, &error)),
        };
        if metadata.is_file() {
            if self.files.len() >= self.max_files && !self.files.contains(path) {
                return Err(self.too_many("files"));
            }
            self.files.insert(path.to_owned());
            return Ok(());
        }
        if !metadata.is_dir() {
            return Ok(());
        }
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.fault(path, &error)),
        };
        if above.contains(&real) {
            return Ok(());
        }
        self.directories += 1;
        if self.directories > self.max_files {
            return Err(self.too_many("directories"));
        }
        above.push(real);
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.fault(path, &error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| self.fault(path, &error))?;
            if hidden_mark(&entry.file_name().to_string_lossy()).is_none() {
                self.entry(&entry.path(), above)?;
            }
        }
        above.pop();
        Ok(())
    }
}
