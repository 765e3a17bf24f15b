//! `millrace control-plane`.

use millrace_control_plane::ControlPlaneConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    args::ControlPlaneArgs,
    data_dir::DataDir,
    service::{Signals, compiler, config},
};

pub(super) async fn run(args: ControlPlaneArgs) -> anyhow::Result<()> {
    // Signals first, so that one that comes early is not lost.
    let mut signals = Signals::new()?;
    let data_dir = DataDir::open(&args.data_dir)?;
    let config = ControlPlaneConfig {
        listen: args.listen,
        grpc_listen: args.service.grpc_listen,
        storage_url: args
            .service
            .storage_url
            .unwrap_or_else(|| data_dir.storage_url()),
        ..config(args.database_url, &data_dir.workers(), &data_dir.logs())?
    };
    let shutdown = CancellationToken::new();
    let control_plane = millrace_control_plane::start(config, compiler(), shutdown.clone()).await?;
    tracing::info!("the REST API listens on http://{}", control_plane.address());
    signals.next().await;
    tracing::info!("stopping");
    shutdown.cancel();
    tokio::select! {
        ended = control_plane.wait() => Ok(ended?),
        () = signals.next() => anyhow::bail!("stopped at once by a second signal"),
    }
}
