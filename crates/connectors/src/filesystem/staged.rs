//! A file between staging and publishing.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::durable::sync_directory;

/// A staged file and the name it gets; a snapshot keeps it until it is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StagedFile {
    pub(super) staged: PathBuf,
    pub(super) final_path: PathBuf,
}

/// What became of a file that was to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    Now,
    Before,
    /// Neither name exists.
    Gone,
}

impl StagedFile {
    /// Renames; the caller makes the names durable.
    pub(super) fn publish(&self) -> io::Result<Published> {
        match fs::rename(&self.staged, &self.final_path) {
            Ok(()) => Ok(Published::Now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Says so when it cannot be told, rather than that the file is gone.
                if self.final_path.try_exists()? {
                    Ok(Published::Before)
                } else {
                    Ok(Published::Gone)
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Synchronizes the directory of each path once.
pub(super) fn sync_directories<'a>(
    paths: impl Iterator<Item = &'a Path>,
) -> Result<(), (PathBuf, io::Error)> {
    let mut done = BTreeSet::new();
    for path in paths {
        if done.insert(path.parent()) {
            sync_directory(path).map_err(|error| (path.to_owned(), error))?;
        }
    }
    Ok(())
}
