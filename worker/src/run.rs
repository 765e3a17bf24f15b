//! The worker process: its server, its registration, its end.

use std::{
    fs::{self, File},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use millrace_protocol::{
    MAX_MESSAGE_BYTES,
    v1::{exchange_server::ExchangeServer, worker_server::WorkerServer},
};
use millrace_state::StateBudget;
use millrace_types::ExecutionId;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::MissedTickBehavior,
};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    SystemClock, WorkerConfig,
    budget::MemoryBudget,
    deploy::{Compile, Deployer},
    events::EventHub,
    exchange::{ExchangeHub, ExchangeService},
    register::{self, Ended},
    service::WorkerService,
    supervisor::Supervisor,
    transport,
};

const METRICS_INTERVAL: Duration = Duration::from_secs(1);
/// For calls under way when the process ends.
const SERVER_PATIENCE: Duration = Duration::from_secs(3);

/// Runs a worker until the control plane does not want it any more, it is shut down, or it gets
/// SIGTERM or SIGINT. A runtime with two threads is plenty: rows are processed on threads of
/// their own.
pub async fn run(config: WorkerConfig) -> anyhow::Result<()> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("the worker cannot listen on {}", config.listen))?;
    run_on(
        listener,
        config,
        crate::compile::sql(),
        CancellationToken::new(),
    )
    .await
}

/// Runs a worker on a listener and with a compiler of the caller's; `shutdown` ends it.
pub(crate) async fn run_on(
    listener: TcpListener,
    config: WorkerConfig,
    compile: Compile,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let address = listener
        .local_addr()
        .context("the worker's own address is unknown")?;
    let _lock = take_data_dir(&config)?;
    let memory = MemoryBudget::of(config.memory_mib);
    let hub = Arc::new(ExchangeHub::default());
    let deployer = Deployer {
        worker: config.worker_id,
        job: config.job_id,
        slots: config.slots,
        data_dir: config.data_dir.clone(),
        memory,
        state_budget: StateBudget::new(memory.rocksdb),
        clock: Arc::new(SystemClock::new()),
        events: EventHub::new(memory.output),
        compile,
    };
    let events = Arc::clone(&deployer.events);
    let supervisor = Supervisor::new(deployer, Arc::clone(&hub), shutdown.clone());

    let serving = CancellationToken::new();
    let server = {
        let worker = WorkerServer::new(WorkerService::new(Arc::clone(&supervisor)))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let exchange = ExchangeServer::new(ExchangeService::new(hub))
            .max_decoding_message_size(MAX_MESSAGE_BYTES);
        let serving = serving.clone();
        tokio::spawn(
            transport::server()
                .add_service(worker)
                .add_service(exchange)
                .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move {
                    serving.cancelled().await;
                }),
        )
    };
    let _metrics = AbortOnDropHandle::new(tokio::spawn(tell_metrics(Arc::clone(&supervisor))));
    tracing::info!(worker = %config.worker_id, job = %config.job_id, %address, "worker ready");

    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut server = server;
    let reason = tokio::select! {
        ended = register::run(&config, address.to_string(), &supervisor, &shutdown) => match ended? {
            Ended::Unwanted => "the control plane does not want it any more",
            Ended::Lonely => "there was neither a control plane nor work for a minute",
            Ended::ShutDown => "it was shut down",
        },
        _ = terminate.recv() => "it got SIGTERM",
        _ = tokio::signal::ctrl_c() => "it got SIGINT",
        served = &mut server => {
            served.context("the worker's server failed")?.context("the worker's server failed")?;
            anyhow::bail!("the worker's server ended by itself");
        }
    };
    tracing::info!(reason, "worker ends");
    supervisor
        .terminate(&format!("worker {} ends: {reason}", config.worker_id))
        .await;
    events.close();
    serving.cancel();
    // Calls that do not end by then end with the process.
    let _ = tokio::time::timeout(SERVER_PATIENCE, server).await;
    Ok(())
}

/// Makes the data directory, takes it for this process alone while the lock lives, and removes
/// what a dead worker left there: it is of no use.
fn take_data_dir(config: &WorkerConfig) -> anyhow::Result<File> {
    let dir = &config.data_dir;
    let unusable = || format!("the data directory {} cannot be used", dir.display());
    fs::create_dir_all(dir).with_context(unusable)?;
    let lock = File::create(dir.join("lock")).with_context(unusable)?;
    lock.try_lock().with_context(|| {
        format!(
            "the data directory {} is in use by another worker",
            dir.display()
        )
    })?;
    for entry in fs::read_dir(dir).with_context(unusable)? {
        let path = entry.with_context(unusable)?.path();
        // Only what a worker makes: a directory named by an execution's id.
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.parse::<ExecutionId>().is_ok() {
            fs::remove_dir_all(&path).with_context(unusable)?;
        }
    }
    Ok(lock)
}

async fn tell_metrics(supervisor: Arc<Supervisor>) {
    let mut ticks = tokio::time::interval(METRICS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        supervisor.publish_metrics();
    }
}
