//! Whole workers for tests: real servers on loopback, a control plane that only registers, and a
//! driver that a test steers by hand.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_physical_expr::expressions::Column;
use millrace_dataflow::{
    ChangelogMode, Dataflow, Exchange, Input, Node, NodeId, NodeKind, ScalarExpr, SinkNode,
    SourceNode, StateId,
};
use millrace_protocol::v1::{
    self,
    control_plane_server::{ControlPlane, ControlPlaneServer},
    worker_client::WorkerClient,
    worker_event::Event,
};
use millrace_types::{ExecutionId, JobId, JobName, JobSpec, WorkerId};
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::{StreamExt, wrappers::TcpListenerStream};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Request, Response, Status, transport::Channel};
use uuid::Uuid;

use crate::{WorkerConfig, run::run_on};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A job that counts: the script is `COUNT PER_SECOND`. Numbers from 0 up to the count come out
/// of a generator, are exchanged by their value, and are printed to table `out`.
pub(crate) fn counting_job(spec: &JobSpec) -> Result<Dataflow, String> {
    let (count, rate) = spec.sql.split_once(' ').ok_or("write COUNT PER_SECOND")?;
    let count: u64 = count
        .parse()
        .map_err(|_| format!("`{count}` is not a number"))?;
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let options = |options: &[(&str, &str)]| -> BTreeMap<String, String> {
        options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let end = (count - 1).to_string();
    let id = ScalarExpr {
        expr: Arc::new(Column::new("id", 0)),
        field: schema.field(0).clone(),
        text: "id".into(),
    };
    let source = SourceNode {
        table: "numbers".into(),
        options: options(&[
            ("connector", "datagen"),
            ("rows-per-second", rate),
            ("fields.id.kind", "sequence"),
            ("fields.id.start", "0"),
            ("fields.id.end", &end),
        ]),
        declared: schema.clone(),
        physical: schema.clone(),
        metadata: Vec::new(),
        output: vec![id],
        watermark: None,
        state_id: StateId("source".into()),
    };
    let sink = SinkNode {
        table: "out".into(),
        options: options(&[("connector", "print")]),
        schema: schema.clone(),
        primary_key: Vec::new(),
        partition_by: Vec::new(),
        input_mode: ChangelogMode::Append,
        state_id: StateId("sink".into()),
    };
    let node = |id, kind, inputs| Node {
        id: NodeId(id),
        name: format!("node {id}"),
        kind,
        inputs,
        schema: schema.clone(),
        mode: ChangelogMode::Append,
        time_column: None,
    };
    let exchange = Input {
        node: NodeId(0),
        exchange: Exchange::Hash(vec![0]),
    };
    Ok(Dataflow {
        nodes: vec![
            node(0, NodeKind::Source(Arc::new(source)), vec![]),
            node(1, NodeKind::Sink(Arc::new(sink)), vec![exchange]),
        ],
        parallelism: spec.parallelism,
        max_parallelism: spec.max_parallelism,
    })
}

/// Answers registrations.
#[derive(Clone, Default)]
struct Registry {
    wanted: Arc<AtomicBool>,
    seen: Arc<Mutex<BTreeMap<String, v1::RegisterRequest>>>,
}

#[tonic::async_trait]
impl ControlPlane for Registry {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let request = request.into_inner();
        self.seen.lock().insert(request.worker_id.clone(), request);
        Ok(Response::new(v1::RegisterResponse {
            wanted: self.wanted.load(Ordering::SeqCst),
        }))
    }
}

/// A job's workers, all in this process.
pub(crate) struct Cluster {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) job: JobId,
    pub(crate) workers: Vec<TestWorker>,
    registry: Registry,
    control_plane: String,
    server: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
}

pub(crate) struct TestWorker {
    pub(crate) id: WorkerId,
    pub(crate) address: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) ended: Option<AbortOnDropHandle<anyhow::Result<()>>>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) client: WorkerClient<Channel>,
    events: mpsc::UnboundedReceiver<Result<Event, Status>>,
}

impl Cluster {
    /// Workers with room for four slots each.
    pub(crate) async fn new(workers: usize) -> Cluster {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control_plane = listener.local_addr().unwrap().to_string();
        let registry = Registry::default();
        registry.wanted.store(true, Ordering::SeqCst);
        let server = tonic::transport::Server::builder()
            .add_service(ControlPlaneServer::new(registry.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let mut cluster = Cluster {
            dir: tempfile::tempdir().unwrap(),
            job: JobId(Uuid::from_u128(1)),
            workers: Vec::new(),
            registry,
            control_plane,
            server: AbortOnDropHandle::new(tokio::spawn(server)),
        };
        for number in 0..workers {
            cluster.add_worker(number as u128 + 1).await;
        }
        cluster
    }

    pub(crate) async fn add_worker(&mut self, number: u128) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let id = WorkerId(Uuid::from_u128(number));
        let data_dir = self.dir.path().join(format!("worker-{number}"));
        let config = WorkerConfig {
            control_plane: vec![self.control_plane.clone()],
            job_id: self.job,
            worker_id: id,
            slots: 4,
            memory_mib: 256,
            data_dir: data_dir.clone(),
            listen: listener.local_addr().unwrap(),
        };
        let shutdown = CancellationToken::new();
        let worker = run_on(listener, config, Arc::new(counting_job), shutdown.clone());
        let ended = AbortOnDropHandle::new(tokio::spawn(worker));
        let client = WorkerClient::connect(format!("http://{address}"))
            .await
            .unwrap();
        let (_, events) = mpsc::unbounded_channel();
        self.workers.push(TestWorker {
            id,
            address,
            data_dir,
            ended: Some(ended),
            shutdown,
            client,
            events,
        });
    }

    /// What a worker registered last.
    pub(crate) fn registered(&self, worker: WorkerId) -> Option<v1::RegisterRequest> {
        self.registry.seen.lock().get(&worker.to_string()).cloned()
    }

    /// Nobody answers registrations any more.
    pub(crate) fn stop_control_plane(&self) {
        self.server.abort();
    }

    pub(crate) fn unwant(&self) {
        self.registry.wanted.store(false, Ordering::SeqCst);
    }

    pub(crate) fn storage_url(&self) -> String {
        format!("file://{}", self.dir.path().join("storage").display())
    }

    /// Subtasks dealt out in turn.
    pub(crate) fn request(
        &self,
        execution: u128,
        script: &str,
        parallelism: u32,
    ) -> v1::DeployRequest {
        let mut spec = JobSpec::new(JobName::new("job").unwrap(), script);
        spec.parallelism = parallelism;
        spec.max_parallelism = 16;
        let fingerprint = counting_job(&spec).map(|dataflow| dataflow.fingerprint().0);
        let count = self.workers.len();
        let workers = self
            .workers
            .iter()
            .enumerate()
            .map(|(index, worker)| v1::Peer {
                worker_id: worker.id.to_string(),
                address: worker.address.clone(),
                subtasks: (0..parallelism)
                    .filter(|subtask| *subtask as usize % count == index)
                    .collect(),
            });
        v1::DeployRequest {
            epoch: 1,
            job_id: self.job.to_string(),
            tenant: "default".into(),
            execution_id: ExecutionId(Uuid::from_u128(execution)).to_string(),
            version: 1,
            spec_json: serde_json::to_string(&spec).unwrap(),
            fingerprint: fingerprint.unwrap_or_default(),
            control_plane_version: "9.9.9".into(),
            workers: workers.collect(),
            storage_url: self.storage_url(),
            restore_manifest: String::new(),
            lossless_output: true,
        }
    }

    /// Attaches to all workers, deploys and starts.
    pub(crate) async fn start(&mut self, request: &v1::DeployRequest) {
        let job = self.job;
        for worker in &mut self.workers {
            worker.attach(job, request.epoch).await.unwrap();
        }
        for worker in &mut self.workers {
            worker.client.deploy(request.clone()).await.unwrap();
        }
        for worker in &mut self.workers {
            worker
                .client
                .start(execution_request(request))
                .await
                .unwrap();
        }
    }

    /// Takes a checkpoint and returns the acknowledgements of all subtasks.
    pub(crate) async fn checkpoint(
        &mut self,
        request: &v1::DeployRequest,
        id: u64,
        parallelism: u32,
    ) -> Vec<v1::CheckpointAck> {
        for worker in &mut self.workers {
            let trigger = v1::TriggerCheckpointRequest {
                epoch: request.epoch,
                execution_id: request.execution_id.clone(),
                checkpoint_id: id,
                ..v1::TriggerCheckpointRequest::default()
            };
            worker.client.trigger_checkpoint(trigger).await.unwrap();
        }
        let mut acks = Vec::new();
        for index in 0..self.workers.len() {
            let count = self.workers.len();
            let local = (0..parallelism as usize)
                .filter(|subtask| subtask % count == index)
                .count();
            for _ in 0..local {
                let ack = self.workers[index].until(|event| match event {
                    Event::CheckpointAck(ack) if ack.checkpoint_id == id => Some(ack.clone()),
                    _ => None,
                });
                acks.push(ack.await);
            }
        }
        acks
    }

    pub(crate) async fn notify(
        &mut self,
        request: &v1::DeployRequest,
        id: u64,
        completed: bool,
        is_final: bool,
    ) {
        for worker in &mut self.workers {
            let notice = v1::NotifyCheckpointRequest {
                epoch: request.epoch,
                execution_id: request.execution_id.clone(),
                checkpoint_id: id,
                completed,
                r#final: is_final,
            };
            worker.client.notify_checkpoint(notice).await.unwrap();
        }
    }
}

pub(crate) fn execution_request(request: &v1::DeployRequest) -> v1::ExecutionRequest {
    v1::ExecutionRequest {
        epoch: request.epoch,
        execution_id: request.execution_id.clone(),
    }
}

impl TestWorker {
    /// Attaches and reads on in the background; returns the status.
    pub(crate) async fn attach(&mut self, job: JobId, epoch: u64) -> Result<v1::Status, Status> {
        let request = v1::AttachRequest {
            epoch,
            job_id: job.to_string(),
        };
        let mut stream = self.client.attach(request).await?.into_inner();
        let (sender, events) = mpsc::unbounded_channel();
        self.events = events;
        tokio::spawn(async move {
            while let Some(event) = stream.next().await {
                let event =
                    event.and_then(|event| event.event.ok_or_else(|| Status::internal("no event")));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Ok(self
            .until(|event| match event {
                Event::Status(status) => Some(status.clone()),
                _ => None,
            })
            .await)
    }

    /// The next event; the error that ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Event, Status> {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event
            .expect("no event came")
            .unwrap_or_else(|| Err(Status::cancelled("the stream ended")))
    }

    /// Skips events until one gives a value.
    pub(crate) async fn until<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let event = self.next().await.expect("the stream broke");
            if let Some(picked) = pick(&event) {
                return picked;
            }
        }
    }
}

/// The numbers in rows of the counting job.
pub(crate) fn numbers(output: &v1::OutputRows) -> Vec<i64> {
    output
        .rows
        .iter()
        .map(|row| {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            assert_eq!(row["kind"], "+I");
            row["row"]["id"].as_i64().unwrap()
        })
        .collect()
}
