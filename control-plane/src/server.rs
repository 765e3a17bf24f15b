//! The control plane as a process: its listeners, the wait for its database, its drivers.
//!
//! Both listeners are bound before anything else, so that an address that is taken is told at
//! once. REST answers from then on; until the database is there and has the schema, routes that
//! need it answer 503. Only then do the drivers start and workers can register.

use std::{net::SocketAddr, time::Duration};

use axum::serve::ListenerExt;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{self, ApiState, Readiness},
    config::ControlPlaneConfig,
    driver,
    live::{LiveJobs, OutputRow},
    problem::chain,
    provision::ProcessProvisioner,
    registry,
    sql::Compiler,
    store::{Store, StoreError},
};

/// Between two attempts to reach the database.
const RETRY: Duration = Duration::from_millis(250);
/// The wait is logged this often.
const REMIND: Duration = Duration::from_secs(10);
/// Open requests have this long to end after a stop.
const GRACE: Duration = Duration::from_secs(5);

/// Why a control plane does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    #[error("cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("the database URL cannot be used")]
    DatabaseUrl(#[source] StoreError),
    #[error("the checkpoint storage cannot be used: {0}")]
    Storage(String),
    #[error("the OpenAPI document cannot be written")]
    OpenApi(#[source] serde_json::Error),
    #[error("the REST server ended: {0}")]
    Serve(#[source] std::io::Error),
    #[error("a task of the control plane broke: {0}")]
    Task(#[source] tokio::task::JoinError),
}

/// A running control plane.
pub struct ControlPlane {
    address: SocketAddr,
    store: Store,
    live: LiveJobs,
    rest: JoinHandle<Result<(), ControlPlaneError>>,
    workers: JoinHandle<Result<(), ControlPlaneError>>,
}

impl ControlPlane {
    /// Where REST is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The rows of a job, none of which is dropped; for one reader.
    pub fn lossless_output(
        &self,
        job: millrace_types::JobId,
    ) -> tokio::sync::mpsc::Receiver<OutputRow> {
        self.live.lossless_output(job)
    }

    /// Ends when the control plane has, after its shutdown was asked for.
    pub async fn wait(self) -> Result<(), ControlPlaneError> {
        let rest = self.rest.await.map_err(ControlPlaneError::Task)?;
        self.workers.await.map_err(ControlPlaneError::Task)??;
        // So that a server that is stopped next finds no sessions to break off.
        if tokio::time::timeout(GRACE, self.store.pool().close())
            .await
            .is_err()
        {
            tracing::warn!("connections to the database are still in use");
        }
        rest
    }
}

/// Starts a control plane and runs it to its end.
pub async fn run(
    config: ControlPlaneConfig,
    compiler: Compiler,
    shutdown: CancellationToken,
) -> Result<(), ControlPlaneError> {
    start(config, compiler, shutdown).await?.wait().await
}

/// Starts a control plane, which ends when `shutdown` is canceled. It serves REST when this
/// returns; `/readyz` tells when the database is there.
pub async fn start(
    config: ControlPlaneConfig,
    compiler: Compiler,
    shutdown: CancellationToken,
) -> Result<ControlPlane, ControlPlaneError> {
    let rest = listen(config.listen).await?;
    let grpc = listen(config.grpc_listen).await?;
    let address = local_address(&rest, config.listen)?;
    let grpc_address = local_address(&grpc, config.grpc_listen)?;
    let store =
        Store::connect_lazy(&config.database_url).map_err(ControlPlaneError::DatabaseUrl)?;
    let live = LiveJobs::default();
    let (readiness, ready) = watch::channel(Readiness::Waiting("not asked yet".to_owned()));

    let state = ApiState::new(
        config.replica_name(),
        store.clone(),
        live.clone(),
        compiler.clone(),
        ready,
        shutdown.clone(),
    );
    let router = api::router(state, address).map_err(ControlPlaneError::OpenApi)?;
    let rest = tokio::spawn(serve(rest, router, shutdown.clone()));
    let provisioner = ProcessProvisioner::new(&config, grpc_address);
    let parts = driver::Parts::new(store.clone(), live.clone(), provisioner, compiler, config)
        .map_err(|error| ControlPlaneError::Storage(chain(&error)))?;
    let workers = tokio::spawn({
        let (store, live) = (store.clone(), live.clone());
        async move {
            if !wait_for_database(&store, &readiness, &shutdown).await {
                return Ok(());
            }
            let registration =
                tokio::spawn(serve_registration(grpc, store, live, shutdown.clone()));
            driver::spawn(parts, shutdown)
                .await
                .map_err(ControlPlaneError::Task)?;
            registration.await.map_err(ControlPlaneError::Task)
        }
    });
    Ok(ControlPlane {
        address,
        store,
        live,
        rest,
        workers,
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ControlPlaneError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ControlPlaneError::Listen { address, source })
}

fn local_address(
    listener: &TcpListener,
    address: SocketAddr,
) -> Result<SocketAddr, ControlPlaneError> {
    listener
        .local_addr()
        .map_err(|source| ControlPlaneError::Listen { address, source })
}

async fn serve(
    listener: TcpListener,
    router: axum::Router,
    shutdown: CancellationToken,
) -> Result<(), ControlPlaneError> {
    let listener = listener.tap_io(|connection| {
        // Small answers must not wait for more to send.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch delays off");
        }
    });
    let graceful =
        axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    tokio::select! {
        ended = async { graceful.await } => ended.map_err(ControlPlaneError::Serve),
        // A connection that does not end by itself does not hold the process.
        () = async {
            shutdown.cancelled().await;
            sleep(GRACE).await;
        } => Ok(()),
    }
}

/// Lets workers say where they are.
async fn serve_registration(
    listener: TcpListener,
    store: Store,
    live: LiveJobs,
    shutdown: CancellationToken,
) {
    let service = registry::Service::new(store, live).into_server();
    let served = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::error!(error = chain(&error), "workers cannot register any more");
    }
}

/// A connection first: it tells why there is none.
async fn migrate(store: &Store) -> Result<(), StoreError> {
    store.probe().await?;
    store.migrate().await
}

/// Brings the schema up to date, however long it takes. False: shut down before that.
async fn wait_for_database(
    store: &Store,
    readiness: &watch::Sender<Readiness>,
    shutdown: &CancellationToken,
) -> bool {
    let started = Instant::now();
    let mut reminded: Option<Instant> = None;
    loop {
        let attempt = tokio::select! {
            attempt = migrate(store) => attempt,
            () = shutdown.cancelled() => return false,
        };
        match attempt {
            Ok(()) => {
                readiness.send_replace(Readiness::Ready);
                tracing::info!(
                    waited_ms = started.elapsed().as_millis() as u64,
                    "the database is ready"
                );
                return true;
            }
            Err(error) => {
                // What a person can do about it is all that is wanted of a missing connection.
                let reason = match &error {
                    StoreError::NoConnection { reason, .. } => reason.clone(),
                    error => chain(error),
                };
                if reminded.is_none_or(|last| last.elapsed() >= REMIND) {
                    reminded = Some(Instant::now());
                    tracing::warn!(
                        waited_s = started.elapsed().as_secs(),
                        "waiting for the database: {reason}"
                    );
                }
                readiness.send_replace(Readiness::Waiting(reason));
            }
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            () = shutdown.cancelled() => return false,
        }
    }
}
