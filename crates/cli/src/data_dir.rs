//! The data directory of one machine's service: who uses it, and what lies where.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};

/// A data directory that nobody else uses while this value lives.
pub(crate) struct DataDir {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if need be and locks it.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot use {} as the data directory", path.display());
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(failed)?;
        let path = fs::canonicalize(path).with_context(failed)?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&file)
            .with_context(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who holds it only makes the message better.
                let _ = lock.read_to_string(&mut holder);
                let holder = holder.trim();
                let who = if holder.is_empty() {
                    String::new()
                } else {
                    format!(" (process {holder})")
                };
                bail!(
                    "another millrace{who} uses {}: stop it, or choose another --data-dir",
                    path.display()
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(anyhow!(error))
                    .with_context(|| format!("cannot lock {}", file.display()));
            }
        }
        lock.set_len(0).with_context(failed)?;
        lock.seek(SeekFrom::Start(0)).with_context(failed)?;
        writeln!(lock, "{}", std::process::id()).with_context(failed)?;
        let dir = DataDir { path, _lock: lock };
        for below in [dir.logs(), dir.checkpoints(), dir.workers()] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&below)
                .with_context(|| format!("cannot create {}", below.display()))?;
        }
        Ok(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Checkpoints and savepoints.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Local state of the workers; can be lost.
    pub(crate) fn workers(&self) -> PathBuf {
        self.path.join("workers")
    }

    /// Root of checkpoint storage as a URL.
    pub(crate) fn storage_url(&self) -> String {
        let mut url = String::from("file://");
        for byte in self.checkpoints().to_string_lossy().bytes() {
            match byte {
                b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(byte)),
                plain if plain.is_ascii_alphanumeric() => url.push(char::from(plain)),
                other => url.push_str(&format!("%{other:02X}")),
            }
        }
        url
    }
}

/// Where `up` keeps its data when nobody says.
pub(crate) fn default_path() -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if root {
        return PathBuf::from("/var/lib/millrace/up");
    }
    match (std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")) {
        (Some(data), _) => PathBuf::from(data).join("millrace"),
        (None, Some(home)) => PathBuf::from(home).join(".local/share/millrace"),
        (None, None) => PathBuf::from("millrace-data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instance_per_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let Err(second) = DataDir::open(dir.path()) else {
            panic!("locked twice");
        };
        let text = second.to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn a_file_is_no_data_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let Err(error) = DataDir::open(file.path()) else {
            panic!("opened a file");
        };
        assert!(format!("{error:#}").contains("data directory"), "{error:#}");
    }

    #[test]
    fn the_storage_url_is_encoded() {
        let parent = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&parent.path().join("a b")).unwrap();
        assert!(
            dir.storage_url().ends_with("/a%20b/checkpoints"),
            "{}",
            dir.storage_url()
        );
    }
}
