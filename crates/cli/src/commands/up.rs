//! `millrace up`.

use std::time::Duration;

use anyhow::bail;

use crate::{
    args::UpArgs,
    client::Client,
    data_dir::{self, DataDir},
    out,
    postgres::Durability,
    service::{LOOK_AGAIN, LocalService, ServiceOptions, Signals, compiler},
};

/// A database that is named may take its time; the service says so every while.
const REMIND: Duration = Duration::from_secs(10);

pub(super) async fn run(args: UpArgs) -> anyhow::Result<()> {
    // Signals first, so that one that comes early is not lost.
    let mut signals = Signals::new()?;
    let path = args.data_dir.unwrap_or_else(data_dir::default_path);
    let data_dir = DataDir::open(&path)?;
    // An address that is taken is told before Postgres starts for nothing.
    drop(std::net::TcpListener::bind(args.listen).map_err(|error| {
        anyhow::anyhow!(
            "cannot listen on {}: {error}\n  hint: choose another address with --listen",
            args.listen
        )
    })?);
    let options = ServiceOptions {
        listen: args.listen,
        grpc_listen: args.service.grpc_listen,
        database_url: args.database_url,
        storage_url: args.service.storage_url,
        durability: Durability::Safe,
        foreground: false,
    };
    let service = LocalService::start(&data_dir, options, compiler()).await?;
    let ready = tokio::select! {
        ready = wait_until_ready(&service) => Some(ready),
        () = signals.next() => None,
    };
    if let Some(ready) = ready {
        ready?;
        out::line(&format!("Millrace listens on {}", service.url()))?;
        tracing::info!(data_dir = %data_dir.path().display(), "ready");
        signals.next().await;
    }
    tracing::info!("stopping; the jobs go on from their last checkpoints at the next start");
    tokio::select! {
        ended = service.stop() => ended,
        () = signals.next() => bail!("stopped at once by a second signal; Postgres may still run, the next start takes it over"),
    }
}

/// Asks the service itself until it can serve.
pub(super) async fn wait_until_ready(service: &LocalService) -> anyhow::Result<()> {
    let tenant = millrace_types::TenantName::new("default")?;
    let client = Client::new(&service.url(), tenant)?;
    let mut reminded = std::time::Instant::now();
    loop {
        match client.get::<serde_json::Value>("readyz", &[]).await {
            Ok(_) => return Ok(()),
            Err(error) => match error.problem() {
                Some(problem) if problem.status == 503 => {
                    if reminded.elapsed() > REMIND {
                        reminded = std::time::Instant::now();
                        tracing::warn!("not ready yet: {}", problem.detail);
                    }
                }
                _ => return Err(error.into()),
            },
        }
        tokio::time::sleep(LOOK_AGAIN / 4).await;
    }
}
