//! The service inside this process: a private Postgres, if one is wanted, and the control plane.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use millrace_connectors::{abandoned::discard_staged, catalog::Connectors};
use millrace_control_plane::{Compiler, ControlPlane, ControlPlaneConfig, DiscardStaged};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    data_dir::DataDir,
    postgres::{Durability, Postgres},
};

/// How the service is set up.
pub(crate) struct ServiceOptions {
    pub(crate) listen: SocketAddr,
    pub(crate) grpc_listen: SocketAddr,
    /// Absent: a private cluster in the data directory.
    pub(crate) database_url: Option<String>,
    pub(crate) storage_url: Option<String>,
    pub(crate) durability: Durability,
    /// For one run in the foreground: rows of print tables are held back rather than dropped
    /// until they are read, and workers end with this process, since nobody would read what they
    /// print on their own.
    pub(crate) foreground: bool,
}

/// A running service.
pub(crate) struct LocalService {
    postgres: Option<Postgres>,
    pub(crate) control_plane: ControlPlane,
    shutdown: CancellationToken,
}

impl LocalService {
    pub(crate) async fn start(
        data_dir: &DataDir,
        options: ServiceOptions,
        compiler: Compiler,
    ) -> anyhow::Result<Self> {
        let (postgres, database_url) = match options.database_url {
            Some(url) => (None, url),
            None => {
                let log = data_dir.logs().join("postgres.log");
                let postgres = Postgres::start(data_dir.path(), &log, options.durability).await?;
                let url = postgres.url()?;
                (Some(postgres), url)
            }
        };
        let mut config = ControlPlaneConfig {
            listen: options.listen,
            grpc_listen: options.grpc_listen,
            storage_url: options
                .storage_url
                .unwrap_or_else(|| data_dir.storage_url()),
            lossless_output: options.foreground,
            ..config(database_url, &data_dir.workers(), &data_dir.logs())?
        };
        if options.foreground {
            config.worker_command.push("--end-with-parent".to_owned());
        }
        let shutdown = CancellationToken::new();
        match millrace_control_plane::start(config, compiler, shutdown.clone()).await {
            Ok(control_plane) => Ok(LocalService {
                postgres,
                control_plane,
                shutdown,
            }),
            Err(error) => {
                if let Some(postgres) = postgres {
                    postgres.stop().await?;
                }
                Err(error.into())
            }
        }
    }

    /// The URL of the REST API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.control_plane.address())
    }

    /// Ends the control plane and its workers, then Postgres.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        let ended = self.control_plane.wait().await;
        if let Some(postgres) = self.postgres {
            postgres.stop().await?;
        }
        ended.map_err(anyhow::Error::from)
    }
}

/// What every control plane of this binary has in common.
pub(crate) fn config(
    database_url: String,
    workers: &Path,
    logs: &Path,
) -> anyhow::Result<ControlPlaneConfig> {
    let exe: PathBuf = std::env::current_exe().context("cannot find this program's own file")?;
    let mut config = ControlPlaneConfig::new(database_url);
    config.worker_command = vec![exe.to_string_lossy().into_owned(), "worker".to_owned()];
    config.worker_data_dir = workers.to_path_buf();
    config.log_dir = Some(logs.to_path_buf());
    config.discard_staged = DiscardStaged::new(|dataflow, job| {
        let problems = discard_staged(dataflow, &job.to_string());
        problems.iter().map(ToString::to_string).collect()
    });
    Ok(config)
}

/// The compiler against the connectors of this binary, which its workers use too.
pub(crate) fn compiler() -> Compiler {
    Compiler::new(Connectors::shared())
}

/// Ends when the process is asked to end: SIGINT (Ctrl-C) or SIGTERM. Can be awaited again for
/// the next time.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Between two looks at something that is awaited.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(200);
