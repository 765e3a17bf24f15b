//! Finds the server binaries of the machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use tokio::process::Command;

/// A directory with `initdb`, `postgres`, `pg_ctl` and `pg_isready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) dir: PathBuf,
    pub(super) major: u32,
}

/// The oldest version whose SQL the migrations keep to.
const OLDEST: u32 = 13;
const NEEDED: [&str; 4] = ["initdb", "postgres", "pg_ctl", "pg_isready"];

impl Binaries {
    /// The newest version on the machine, or exactly `wanted`.
    pub(super) async fn find(wanted: Option<u32>) -> anyhow::Result<Self> {
        let mut found: Vec<Binaries> = Vec::new();
        for dir in candidates().await {
            if !NEEDED.iter().all(|name| dir.join(name).is_file()) {
                continue;
            }
            if let Some(major) = server_major(&dir).await
                && found.iter().all(|known| known.major != major)
            {
                found.push(Binaries { dir, major });
            }
        }
        found.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
        let majors: Vec<String> = found.iter().map(|b| b.major.to_string()).collect();
        match wanted {
            Some(wanted) => found.into_iter().find(|b| b.major == wanted).ok_or_else(|| {
                anyhow!(
                    "the data directory holds a cluster of Postgres {wanted}, the machine has {}: \
                     install postgresql-{wanted}, or move the data with pg_upgrade",
                    if majors.is_empty() { "none".to_owned() } else { majors.join(", ") }
                )
            }),
            None => found.into_iter().find(|b| b.major >= OLDEST).ok_or_else(|| {
                anyhow!(
                    "there are no Postgres server binaries (version {OLDEST} or newer): install them \
                     (Debian, Ubuntu: apt-get install postgresql), point MILLRACE_POSTGRES_BIN at their \
                     directory, or name a running server with --database-url"
                )
            }),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// The major version of the cluster in `dir`, if there is one.
pub(super) fn cluster_major(dir: &Path) -> anyhow::Result<Option<u32>> {
    let file = dir.join("PG_VERSION");
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let major = text.trim().parse().ok();
            if major.is_none() {
                bail!(
                    "{} says `{}`, expected a version such as 15",
                    file.display(),
                    text.trim()
                );
            }
            Ok(major)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Directories to look in, most wanted first.
async fn candidates() -> Vec<PathBuf> {
    if let Some(dir) = std::env::var_os("MILLRACE_POSTGRES_BIN") {
        return vec![PathBuf::from(dir)];
    }
    let mut dirs: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output().await {
        dirs.push(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ));
    }
    for (parent, below) in [
        ("/usr/lib/postgresql", "bin"),
        ("/usr/local/opt", "bin"),
        ("/opt/homebrew/opt", "bin"),
        ("/usr", "bin"),
    ] {
        let Ok(entries) = std::fs::read_dir(parent) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if parent.ends_with("postgresql")
                || name.starts_with("postgresql")
                || name.starts_with("pgsql-")
            {
                dirs.push(entry.path().join(below));
            }
        }
    }
    dirs.push(PathBuf::from("/usr/local/pgsql/bin"));
    dirs
}

async fn server_major(dir: &Path) -> Option<u32> {
    let output = Command::new(dir.join("postgres"))
        .arg("--version")
        .output()
        .await
        .ok()?;
    parse_major(&String::from_utf8_lossy(&output.stdout))
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` is 15.
fn parse_major(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("(PostgreSQL)")?;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_versions() {
        for (text, major) in [
            (
                "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18beta1\n", Some(18)),
            ("bash 5.2", None),
            ("", None),
        ] {
            assert_eq!(parse_major(text), major, "{text}");
        }
    }
}
