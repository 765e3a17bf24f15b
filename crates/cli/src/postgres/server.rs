//! Makes, starts, takes over and stops one server.

use std::{
    fs::{self, OpenOptions},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::process::{Child, Command};

use super::{Durability, account::Account, binaries::Binaries, log_tail, private_dir};

/// Superuser and only role of the cluster.
const ROLE: &str = "millrace";
/// Only the name of the socket file: the server listens on no network.
const PORT: u16 = 5432;
/// Longest socket directory: the whole path must fit into 107 bytes.
const MAX_SOCKET_DIR: usize = 85;
/// A server that recovers after a crash may take its time.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT_S: u32 = 30;
/// A log larger than this is set aside at start.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// One cluster and how to run it.
pub(super) struct Server {
    pub(super) binaries: Binaries,
    pub(super) account: Option<Account>,
    pub(super) cluster: PathBuf,
    pub(super) log: PathBuf,
    pub(super) durability: Durability,
}

/// What `postmaster.pid` says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Postmaster {
    pid: u32,
    socket_dir: Option<PathBuf>,
}

impl Server {
    pub(super) fn is_initialized(&self) -> bool {
        self.cluster.join("PG_VERSION").is_file()
    }

    /// Makes the cluster beside its place and moves it there whole, so that one that was
    /// interrupted is never taken for a cluster.
    pub(super) async fn initialize(&self) -> anyhow::Result<()> {
        let draft = self.cluster.with_extension("new");
        if draft.exists() {
            fs::remove_dir_all(&draft)
                .with_context(|| format!("cannot remove {}", draft.display()))?;
        }
        private_dir(&draft, self.account.as_ref())?;
        let mut command = self.command("initdb");
        command
            .args([
                "--auth-local=trust",
                "--auth-host=reject",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .arg(format!("--username={ROLE}"))
            .arg("--pgdata")
            .arg(&draft);
        if self.durability == Durability::Ephemeral {
            command.arg("--no-sync");
        }
        let output = command.output().await.context("cannot run initdb")?;
        if !output.status.success() {
            bail!(
                "initdb failed ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        fs::rename(&draft, &self.cluster)
            .with_context(|| format!("cannot move the cluster to {}", self.cluster.display()))
    }

    /// Whether a server of this cluster already runs; the marks of a dead one are removed.
    pub(super) async fn take_over(&self) -> anyhow::Result<bool> {
        let Some(postmaster) = self.postmaster() else {
            return Ok(false);
        };
        if is_postgres(postmaster.pid) {
            let deadline = Instant::now() + START_TIMEOUT;
            while is_postgres(postmaster.pid) && Instant::now() < deadline {
                if self.is_ready().await {
                    return Ok(true);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if is_postgres(postmaster.pid) {
                bail!(
                    "the private Postgres (process {}) runs but does not answer; its log is {}",
                    postmaster.pid,
                    self.log.display()
                );
            }
        }
        let file = self.cluster.join("postmaster.pid");
        match fs::remove_file(&file) {
            Ok(()) => {}
            // A server that was shutting down has removed it itself.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
        }
        Ok(false)
    }

    /// Starts the server and waits until it takes connections.
    pub(super) async fn launch(&self) -> anyhow::Result<Child> {
        let socket_dir = self.socket_dir()?;
        let log = self.open_log()?;
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(&self.cluster)
            .arg("-k")
            .arg(&socket_dir);
        let durable = if self.durability == Durability::Safe {
            "on"
        } else {
            "off"
        };
        for (name, value) in [
            ("listen_addresses", ""),
            ("unix_socket_permissions", "0700"),
            ("shared_buffers", "32MB"),
            ("max_connections", "60"),
            ("max_wal_size", "256MB"),
            ("jit", "off"),
            ("fsync", durable),
            ("full_page_writes", durable),
            ("logging_collector", "off"),
            ("log_line_prefix", "%m [%p] "),
            ("timezone", "UTC"),
        ] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.arg("-p").arg(PORT.to_string());
        command
            .stdin(Stdio::null())
            .stdout(
                log.try_clone()
                    .context("cannot use the log of Postgres twice")?,
            )
            .stderr(log);
        command.as_std_mut().process_group(0);
        let mut child = command.spawn().context("cannot run postgres")?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = child.try_wait().context("cannot look after postgres")? {
                bail!(
                    "the private Postgres ended at once ({status}); the end of {}:\n{}",
                    self.log.display(),
                    log_tail(&self.log, 15)
                );
            }
            if self.is_ready().await {
                return Ok(child);
            }
            if Instant::now() > deadline {
                bail!(
                    "the private Postgres did not start within {} s; its log is {}",
                    START_TIMEOUT.as_secs(),
                    self.log.display()
                );
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Ends every session and the server.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        if self.postmaster().is_none() {
            return Ok(());
        }
        let mut command = self.command("pg_ctl");
        command
            .args(["stop", "--mode=fast", "--wait", "--silent"])
            .arg(format!("--timeout={STOP_TIMEOUT_S}"))
            .arg("--pgdata")
            .arg(&self.cluster);
        let output = command.output().await.context("cannot run pg_ctl")?;
        if !output.status.success() {
            bail!(
                "the private Postgres does not stop: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        if let Some(dir) = self.outside_socket_dir() {
            // What stays behind is an empty directory.
            let _ = fs::remove_dir_all(dir);
        }
        Ok(())
    }

    /// Whether the server's process is there, by its pid file.
    pub(super) fn process_exists(&self) -> bool {
        self.postmaster()
            .is_some_and(|postmaster| is_postgres(postmaster.pid))
    }

    pub(super) fn url(&self) -> anyhow::Result<String> {
        let dir = match self
            .postmaster()
            .and_then(|postmaster| postmaster.socket_dir)
        {
            Some(dir) => dir,
            None => self.socket_dir()?,
        };
        Ok(format!(
            "postgres:///postgres?host={}&port={PORT}&user={ROLE}",
            percent_encoded(&dir.to_string_lossy())
        ))
    }

    async fn is_ready(&self) -> bool {
        let Some(Postmaster {
            socket_dir: Some(socket_dir),
            ..
        }) = self.postmaster()
        else {
            return false;
        };
        let mut command = self.command("pg_isready");
        command
            .arg("--quiet")
            .args(["--timeout", "2", "--port", &PORT.to_string(), "--host"])
            .arg(socket_dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().await.is_ok_and(|status| status.success())
    }

    fn postmaster(&self) -> Option<Postmaster> {
        parse_postmaster(&fs::read_to_string(self.cluster.join("postmaster.pid")).ok()?)
    }

    /// The cluster itself, unless its path is too long for a socket.
    fn socket_dir(&self) -> anyhow::Result<PathBuf> {
        match self.outside_socket_dir() {
            Some(dir) => private_dir(&dir, self.account.as_ref()),
            None => Ok(self.cluster.clone()),
        }
    }

    fn outside_socket_dir(&self) -> Option<PathBuf> {
        use std::os::unix::fs::MetadataExt;
        if self.cluster.as_os_str().len() <= MAX_SOCKET_DIR {
            return None;
        }
        // The inode tells clusters apart and stays the same over restarts.
        let inode = fs::metadata(&self.cluster).ok()?.ino();
        Some(std::env::temp_dir().join(format!("millrace-postgres-{inode}")))
    }

    fn open_log(&self) -> anyhow::Result<fs::File> {
        let failed = || format!("cannot write {}", self.log.display());
        if fs::metadata(&self.log).is_ok_and(|found| found.len() > MAX_LOG_BYTES) {
            fs::rename(&self.log, self.log.with_extension("log.1")).with_context(failed)?;
        }
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(failed)
    }

    /// A command of the server's, as its account and with nothing of our environment that
    /// could lead it elsewhere.
    fn command(&self, name: &str) -> Command {
        let mut command = std::process::Command::new(self.binaries.path(name));
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PG") {
                command.env_remove(variable);
            }
        }
        command.env("LC_ALL", "C").current_dir(Path::new("/"));
        if let Some(account) = &self.account {
            command.uid(account.uid).gid(account.gid);
        }
        Command::from(command)
    }
}

/// Lines: pid, data directory, start time, port, socket directory, …
fn parse_postmaster(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    let socket_dir = lines
        .nth(3)
        .map(str::trim)
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    Some(Postmaster { pid, socket_dir })
}

/// Whether the process is a Postgres server, not one that got its number later.
fn is_postgres(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| matches!(name.trim(), "postgres" | "postmaster"))
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_file_names_process_and_socket() {
        let text = "4711\n/data/postgres\n1700000000\n5432\n/data/postgres\n\n  5432001 0\nready\n";
        let found = parse_postmaster(text).unwrap();
        assert_eq!(found.pid, 4711);
        assert_eq!(found.socket_dir, Some(PathBuf::from("/data/postgres")));
        // A server that has only begun to start.
        let early = parse_postmaster("4711\n/data/postgres\n").unwrap();
        assert_eq!(early.socket_dir, None);
        assert_eq!(parse_postmaster(""), None);
        assert_eq!(parse_postmaster("x\n"), None);
    }

    #[test]
    fn our_own_process_is_no_postgres() {
        assert!(!is_postgres(std::process::id()));
        assert!(!is_postgres(u32::MAX));
    }

    #[test]
    fn paths_are_encoded_for_the_url() {
        assert_eq!(percent_encoded("/a b/ü"), "%2Fa%20b%2F%C3%BC");
    }
}
