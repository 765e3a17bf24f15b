//! Tells the control plane where this worker is, again and again. That nobody answers, however
//! long, changes nothing for the execution that runs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use millrace_protocol::v1::{self, control_plane_client::ControlPlaneClient};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::{WorkerConfig, supervisor::Supervisor, transport};

const INTERVAL: Duration = Duration::from_secs(2);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Without an execution and without a control plane for this long, nobody needs this process.
const LONELY_AFTER: Duration = Duration::from_secs(60);

/// Why registering ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The control plane does not want this worker any more.
    Unwanted,
    /// Nobody has been there, and nothing to do, for a minute.
    Lonely,
    ShutDown,
}

/// Registers until the process should end. `address` is where this worker listens.
pub(crate) async fn run(
    config: &WorkerConfig,
    address: String,
    supervisor: &Arc<Supervisor>,
    shutdown: &CancellationToken,
) -> anyhow::Result<Ended> {
    let mut replicas = config
        .control_plane
        .iter()
        .map(|replica| client(replica))
        .collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(!replicas.is_empty(), "no control-plane address was given");
    let mut last_answer = Instant::now();
    let mut away = false;
    loop {
        let request = v1::RegisterRequest {
            worker_id: config.worker_id.to_string(),
            job_id: config.job_id.to_string(),
            address: address.clone(),
            slots: config.slots,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            execution_id: supervisor
                .execution()
                .map(|execution| execution.id().to_string())
                .unwrap_or_default(),
        };
        let call = tokio::time::timeout(CALL_TIMEOUT, replicas[0].register(request));
        let outcome = tokio::select! {
            outcome = call => outcome,
            () = shutdown.cancelled() => return Ok(Ended::ShutDown),
        };
        let problem = match outcome {
            Ok(Ok(response)) => {
                if !response.get_ref().wanted {
                    return Ok(Ended::Unwanted);
                }
                last_answer = Instant::now();
                None
            }
            Ok(Err(status)) => Some(transport::describe_status(&status)),
            Err(_) => Some(format!("no answer within {} s", CALL_TIMEOUT.as_secs())),
        };
        match &problem {
            Some(reason) => {
                if !away {
                    tracing::warn!(
                        reason,
                        "the control plane does not answer; going on without it"
                    );
                }
                replicas.rotate_left(1);
            }
            None if away => tracing::info!("the control plane answers again"),
            None => {}
        }
        away = problem.is_some();
        if last_answer.elapsed() > LONELY_AFTER && supervisor.idle_for() > LONELY_AFTER {
            return Ok(Ended::Lonely);
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shutdown.cancelled() => return Ok(Ended::ShutDown),
        }
    }
}

fn client(replica: &str) -> anyhow::Result<ControlPlaneClient<Channel>> {
    let endpoint = Endpoint::from_shared(format!("http://{replica}")).map_err(|error| {
        anyhow::anyhow!("control-plane address `{replica}` is not host:port: {error}")
    })?;
    // Connects with the first call, and again whenever the connection is lost.
    Ok(ControlPlaneClient::new(
        transport::tuned(endpoint).connect_lazy(),
    ))
}
