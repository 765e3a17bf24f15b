//! Workers that speak the protocol and pretend to work: each is a gRPC server of its own.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use millrace_dataflow::KeyGroupRange;
use millrace_protocol::v1::{
    self, WorkerState,
    worker_event::Event,
    worker_server::{Worker, WorkerServer},
};
use millrace_state::{KeyedSnapshot, SlotSnapshot};
use millrace_types::{JobId, JobSpec, SubtaskIndex, WorkerId};
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::{
    provision::{ExitSender, ProvisionError, Provisioner, StartWorker, WorkerExit, WorkerHandle},
    store::{Registration, Store},
};

/// All pretended workers. Outlives the drivers.
#[derive(Clone)]
pub(super) struct Fleet {
    shared: Arc<Shared>,
    store: Store,
}

#[derive(Default)]
struct Shared {
    workers: Mutex<BTreeMap<WorkerId, Arc<Pretender>>>,
    calls: Mutex<Vec<String>>,
    refusal: Mutex<Option<Status>>,
    refused_version: Mutex<Option<(u32, Status)>>,
    fail_savepoints: Mutex<bool>,
    hold_savepoints: Mutex<bool>,
    linger: Mutex<bool>,
}

/// One worker.
struct Pretender {
    shared: Arc<Shared>,
    state: Mutex<State>,
    exits: Mutex<ExitSender>,
    end: CancellationToken,
    hung: CancellationToken,
}

#[derive(Default)]
struct State {
    epoch: u64,
    status: v1::Status,
    subtasks: Vec<u32>,
    spec: Option<JobSpec>,
    restored: String,
    stream: Option<mpsc::UnboundedSender<Result<v1::WorkerEvent, Status>>>,
}

impl Fleet {
    pub(super) fn new(store: Store) -> Self {
        Fleet {
            shared: Arc::default(),
            store,
        }
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().clone()
    }

    /// Calls that start so.
    pub(super) fn count(&self, prefix: &str) -> usize {
        self.calls()
            .iter()
            .filter(|call| call.starts_with(prefix))
            .count()
    }

    pub(super) fn said(&self, prefix: &str) -> bool {
        self.count(prefix) > 0
    }

    pub(super) fn alive(&self) -> usize {
        self.shared.workers.lock().len()
    }

    /// The highest epoch that any worker has seen.
    pub(super) fn epoch(&self) -> u64 {
        self.each(|worker| worker.state.lock().epoch)
            .into_iter()
            .max()
            .unwrap_or(0)
    }

    /// What each worker runs, in order.
    pub(super) fn subtasks(&self) -> Vec<Vec<u32>> {
        let mut all = self.each(|worker| worker.state.lock().subtasks.clone());
        all.sort();
        all
    }

    /// The manifest that the newest deployment restored.
    pub(super) fn last_restore(&self) -> String {
        self.each(|worker| worker.state.lock().restored.clone())
            .pop()
            .expect("a worker")
    }

    /// One worker's process hangs: its stream breaks and it answers nothing, but it is there.
    pub(super) fn hang_one(&self) {
        let workers = self.shared.workers.lock();
        let worker = workers.values().next().expect("a worker");
        worker.hung.cancel();
        worker.state.lock().stream = None;
    }

    pub(super) fn kill_one(&self, reason: &str) {
        let victim = self.shared.workers.lock().keys().next().copied();
        let victim = victim.expect("a worker");
        if let Some(worker) = self.shared.workers.lock().remove(&victim) {
            worker.die(victim, reason);
        }
    }

    /// Every source has read all there is.
    pub(super) fn end_inputs(&self) {
        self.each(|worker| worker.drain_all());
    }

    pub(super) fn refuse_deployments(&self, with: Option<Status>) {
        *self.shared.refusal.lock() = with;
    }

    pub(super) fn refuse_version(&self, version: u32, with: Status) {
        *self.shared.refused_version.lock() = Some((version, with));
    }

    pub(super) fn fail_savepoints(&self, fail: bool) {
        *self.shared.fail_savepoints.lock() = fail;
    }

    /// Whether barriers of savepoints are received and never acknowledged.
    pub(super) fn hold_savepoints(&self, hold: bool) {
        *self.shared.hold_savepoints.lock() = hold;
    }

    /// Whether processes do not end by themselves, so that they are killed after their grace.
    pub(super) fn linger(&self, linger: bool) {
        *self.shared.linger.lock() = linger;
    }

    pub(super) fn end(&self) {
        for (id, worker) in std::mem::take(&mut *self.shared.workers.lock()) {
            worker.die(id, "the test is over");
        }
    }

    fn each<T>(&self, look: impl Fn(&Pretender) -> T) -> Vec<T> {
        self.shared
            .workers
            .lock()
            .values()
            .map(|worker| look(worker))
            .collect()
    }
}

#[async_trait]
impl Provisioner for Fleet {
    async fn start(
        &self,
        worker: StartWorker,
        exits: ExitSender,
    ) -> Result<WorkerHandle, ProvisionError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let end = CancellationToken::new();
        let pretender = Arc::new(Pretender {
            shared: self.shared.clone(),
            state: Mutex::default(),
            exits: Mutex::new(exits),
            end: end.clone(),
            hung: CancellationToken::new(),
        });
        let service = WorkerServer::new(Served(pretender.clone(), worker.worker));
        tokio::spawn(async move {
            let serve = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::select! {
                _ = serve => {}
                () = end.cancelled() => {}
            }
        });
        self.shared.workers.lock().insert(worker.worker, pretender);
        let registration = Registration {
            worker: worker.worker,
            job: worker.job,
            address,
            slots: worker.slots,
            pid: 1,
            version: "test".into(),
            execution: None,
        };
        let store = self.store.clone();
        tokio::spawn(async move {
            while store.register_worker(&registration).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Ok(WorkerHandle {
            job: worker.job,
            worker: worker.worker,
            pid: None,
        })
    }

    fn watch(&self, worker: WorkerHandle, exits: ExitSender) {
        if let Some(pretender) = self.shared.workers.lock().get(&worker.worker) {
            *pretender.exits.lock() = exits;
        }
    }

    async fn stop(&self, worker: WorkerHandle, grace: Duration) {
        if *self.shared.linger.lock() {
            tokio::time::sleep(grace).await;
        }
        if let Some(pretender) = self.shared.workers.lock().remove(&worker.worker) {
            pretender.die(worker.worker, "stopped");
        }
    }

    async fn clean(&self, _: WorkerHandle) {}

    async fn forget(&self, _: JobId) {}
}

impl Pretender {
    fn die(&self, id: WorkerId, reason: &str) {
        self.end.cancel();
        self.state.lock().stream = None;
        let _ = self.exits.lock().send(WorkerExit {
            worker: id,
            reason: reason.to_owned(),
        });
    }

    fn call(&self, call: String) {
        self.shared.calls.lock().push(call);
    }

    /// Lets a call in, unless it comes from a former driver.
    async fn enter(&self, epoch: u64) -> Result<(), Status> {
        if self.hung.is_cancelled() {
            std::future::pending::<()>().await;
        }
        let mut state = self.state.lock();
        if epoch < state.epoch {
            return Err(Status::permission_denied("a driver with a higher epoch"));
        }
        state.epoch = epoch;
        Ok(())
    }

    fn emit(state: &State, event: Event) {
        if let Some(stream) = &state.stream {
            let _ = stream.send(Ok(v1::WorkerEvent { event: Some(event) }));
        }
    }

    fn drain_all(&self) {
        let mut state = self.state.lock();
        for subtask in state.subtasks.clone() {
            state.status.drained_subtasks.push(subtask);
            let execution_id = state.status.execution_id.clone();
            Self::emit(
                &state,
                Event::SubtaskDrained(v1::SubtaskDrained {
                    execution_id,
                    subtask,
                }),
            );
        }
    }

    fn forget(&self) {
        let mut state = self.state.lock();
        state.status = v1::Status::default();
        state.status.set_state(WorkerState::Idle);
    }
}

/// The gRPC side of a worker, which knows its id.
struct Served(Arc<Pretender>, WorkerId);

type Events = Pin<Box<dyn Stream<Item = Result<v1::WorkerEvent, Status>> + Send>>;

#[tonic::async_trait]
impl Worker for Served {
    type AttachStream = Events;

    async fn attach(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<Events>, Status> {
        self.0.enter(request.get_ref().epoch).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.0.state.lock();
        state.stream = Some(sender);
        let status = state.status.clone();
        Pretender::emit(&state, Event::Status(status));
        Ok(Response::new(
            UnboundedReceiverStream::new(receiver).boxed(),
        ))
    }

    async fn deploy(
        &self,
        request: Request<v1::DeployRequest>,
    ) -> Result<Response<v1::DeployResponse>, Status> {
        let request = request.into_inner();
        self.0.enter(request.epoch).await?;
        self.0.call(format!(
            "deploy version {} from `{}`",
            request.version, request.restore_manifest
        ));
        if let Some(refusal) = self.0.shared.refusal.lock().clone() {
            return Err(refusal);
        }
        if let Some((version, refusal)) = self.0.shared.refused_version.lock().clone()
            && version == request.version
        {
            return Err(refusal);
        }
        let mut state = self.0.state.lock();
        state.status = v1::Status {
            execution_id: request.execution_id,
            version: request.version,
            ..v1::Status::default()
        };
        state.status.set_state(WorkerState::Deployed);
        state.spec = serde_json::from_str(&request.spec_json).ok();
        state.restored = request.restore_manifest;
        let me = self.1.to_string();
        let peer = request
            .workers
            .into_iter()
            .find(|peer| peer.worker_id == me);
        state.subtasks = peer.expect("this worker among the peers").subtasks;
        Ok(Response::new(v1::DeployResponse {
            fingerprint: request.fingerprint,
        }))
    }

    async fn start(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.0.enter(request.get_ref().epoch).await?;
        self.0.call("start".into());
        self.0.state.lock().status.set_state(WorkerState::Running);
        Ok(Response::new(v1::Ack {}))
    }

    async fn trigger_checkpoint(
        &self,
        request: Request<v1::TriggerCheckpointRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        let request = request.into_inner();
        self.0.enter(request.epoch).await?;
        if request.savepoint_id != 0 {
            self.0.call(format!("savepoint {}", request.savepoint_id));
            if *self.0.shared.hold_savepoints.lock() {
                return Ok(Response::new(v1::Ack {}));
            }
        }
        let state = self.0.state.lock();
        let spec = state.spec.as_ref().expect("a deployed spec");
        for subtask in &state.subtasks {
            if request.savepoint_id != 0 && *self.0.shared.fail_savepoints.lock() {
                Pretender::emit(
                    &state,
                    Event::CheckpointFailed(v1::CheckpointFailed {
                        execution_id: request.execution_id.clone(),
                        checkpoint_id: request.checkpoint_id,
                        subtask: *subtask,
                        reason: "storage is full".into(),
                    }),
                );
                continue;
            }
            let slot = SlotSnapshot {
                subtask: SubtaskIndex(*subtask),
                key_groups: KeyGroupRange::of_subtask(
                    *subtask,
                    spec.parallelism,
                    spec.max_parallelism,
                ),
                keyed: KeyedSnapshot::Empty,
                operator_state: Vec::new(),
            };
            Pretender::emit(
                &state,
                Event::CheckpointAck(v1::CheckpointAck {
                    execution_id: request.execution_id.clone(),
                    checkpoint_id: request.checkpoint_id,
                    subtask: *subtask,
                    slot_snapshot_json: serde_json::to_string(&slot).expect("JSON"),
                    full_bytes: 10,
                    uploaded_bytes: 1,
                    ..v1::CheckpointAck::default()
                }),
            );
        }
        Ok(Response::new(v1::Ack {}))
    }

    async fn notify_checkpoint(
        &self,
        request: Request<v1::NotifyCheckpointRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        let request = request.into_inner();
        self.0.enter(request.epoch).await?;
        let mut state = self.0.state.lock();
        if request.completed {
            state.status.last_notified_checkpoint = request.checkpoint_id;
        }
        if request.r#final {
            self.0.call("notify final".into());
            state.status.set_state(WorkerState::Finished);
            for subtask in state.subtasks.clone() {
                state.status.finished_subtasks.push(subtask);
                Pretender::emit(
                    &state,
                    Event::SubtaskFinished(v1::SubtaskFinished {
                        execution_id: request.execution_id.clone(),
                        subtask,
                    }),
                );
            }
        }
        Ok(Response::new(v1::Ack {}))
    }

    async fn drain(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.0.enter(request.get_ref().epoch).await?;
        self.0.call("drain".into());
        self.0.drain_all();
        Ok(Response::new(v1::Ack {}))
    }

    async fn cancel(
        &self,
        request: Request<v1::ExecutionRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.0.enter(request.get_ref().epoch).await?;
        self.0.call("cancel".into());
        self.0.forget();
        Ok(Response::new(v1::Ack {}))
    }

    async fn shutdown(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<v1::Ack>, Status> {
        self.0.enter(request.get_ref().epoch).await?;
        self.0.call("shutdown".into());
        self.0.forget();
        Ok(Response::new(v1::Ack {}))
    }
}
