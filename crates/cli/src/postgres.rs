//! A private Postgres for `millrace up` and `millrace run`, from the machine's server binaries.
//!
//! The cluster is reached through a Unix socket in a directory that only its owner may enter,
//! and through nothing else. Postgres refuses to run as root, so root runs it as the `postgres`
//! user. The server lives in a process group of its own: Ctrl-C reaches `millrace` first, and a
//! `millrace` that is killed leaves a server behind that the next one takes over.

mod account;
mod binaries;
mod location;
mod server;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{sync::Mutex, task::JoinHandle};

pub(crate) use self::location::remove_outside;
use self::{account::Account, binaries::Binaries, server::Server};

/// What the cluster is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Survives a power cut.
    Safe,
    /// Gone with the run: nothing waits for the disk.
    Ephemeral,
}

/// A running private cluster.
pub(crate) struct Postgres {
    shared: std::sync::Arc<Shared>,
    supervisor: JoinHandle<()>,
}

struct Shared {
    server: Server,
    child: Mutex<Option<tokio::process::Child>>,
}

/// How often the supervisor looks whether the server still runs.
const WATCH: Duration = Duration::from_millis(500);

impl Postgres {
    /// Starts the cluster of a data directory, making it first if it is not there; one that
    /// still runs is taken over. `log` is appended to.
    pub(crate) async fn start(
        data_dir: &Path,
        log: &Path,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        let account = Account::for_server(data_dir)?;
        let cluster = location::cluster_dir(data_dir, account.as_ref())?;
        let wanted = binaries::cluster_major(&cluster)?;
        let binaries = Binaries::find(wanted).await?;
        let server = Server {
            binaries,
            account,
            cluster,
            log: log.to_path_buf(),
            durability,
        };
        if !server.is_initialized() {
            server
                .initialize()
                .await
                .context("cannot make the private Postgres cluster")?;
        }
        let child = match server.take_over().await? {
            true => {
                tracing::info!(cluster = %server.cluster.display(), "took over the running private Postgres");
                None
            }
            false => Some(server.launch().await?),
        };
        let shared = std::sync::Arc::new(Shared {
            server,
            child: Mutex::new(child),
        });
        let supervisor = tokio::spawn(supervise(shared.clone()));
        Ok(Postgres { shared, supervisor })
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        self.shared.server.url()
    }

    /// Stops the server: sessions end, everything is on disk.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.supervisor.abort();
        // The supervisor may have been in the middle of a restart.
        let _ = self.supervisor.await;
        self.shared.server.stop().await
    }
}

/// Starts the server again when it has ended by itself.
async fn supervise(shared: std::sync::Arc<Shared>) {
    loop {
        tokio::time::sleep(WATCH).await;
        let mut child = shared.child.lock().await;
        let ended = match child.as_mut() {
            Some(running) => match running.try_wait() {
                Ok(Some(status)) => {
                    tracing::warn!(%status, log = %shared.server.log.display(), "the private Postgres ended");
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    tracing::warn!(%error, "cannot look after the private Postgres");
                    false
                }
            },
            None => !shared.server.process_exists(),
        };
        if ended {
            match shared.server.launch().await {
                Ok(fresh) => {
                    tracing::info!("the private Postgres runs again");
                    *child = Some(fresh);
                }
                Err(error) => {
                    tracing::error!("the private Postgres does not start again: {error:#}")
                }
            }
        }
    }
}

/// Last lines of a log file, for an error message.
pub(crate) fn log_tail(log: &Path, lines: usize) -> String {
    let Ok(text) = std::fs::read(log) else {
        return String::new();
    };
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Creates a directory that only its owner may enter.
fn private_dir(path: &Path, account: Option<&Account>) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .with_context(|| format!("cannot restrict {}", path.display()))?;
    if let Some(account) = account {
        std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
            .with_context(|| format!("cannot give {} to {}", path.display(), account.name))?;
    }
    if !path.is_dir() {
        bail!("{} is not a directory", path.display());
    }
    Ok(path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when the process is killed: nobody stops the server.
    fn abandon(postgres: Postgres) -> Option<u32> {
        postgres.supervisor.abort();
        let shared = postgres.shared.clone();
        let pid = shared.child.try_lock().ok()?.as_ref()?.id();
        std::mem::forget(shared);
        pid
    }

    #[tokio::test]
    async fn a_cluster_is_made_once_taken_over_when_abandoned_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("postgres.log");
        let start = || Postgres::start(dir.path(), &log, Durability::Ephemeral);

        let first = start().await.unwrap();
        let url = first.url().unwrap();
        assert!(url.starts_with("postgres:///postgres?host=%2F"), "{url}");
        let pid = abandon(first).unwrap();

        let second = start().await.unwrap();
        assert_eq!(second.url().unwrap(), url);
        assert!(
            second.shared.child.lock().await.is_none(),
            "started a second server"
        );
        second.stop().await.unwrap();
        let pid_file = dir.path().join("postgres/postmaster.pid");
        assert!(!pid_file.exists(), "process {pid} was not stopped");

        // What a server leaves behind that had no time to clean up, its number now another's.
        std::fs::write(&pid_file, format!("{}\n", std::process::id())).unwrap();
        let third = start().await.unwrap();
        assert!(third.shared.child.lock().await.is_some());
        third.stop().await.unwrap();
        assert!(!pid_file.exists());
    }
}
