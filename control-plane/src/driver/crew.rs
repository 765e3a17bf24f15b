//! The workers of a job: started, dialed, deployed, told to go.

use std::{collections::HashSet, ops::Range, sync::Arc, time::Duration};

use futures::future::join_all;
use millrace_coordination::{
    lifecycle::{Attempt, Event, Failure, Restore},
    schedule::{self, Capacity},
};
use millrace_protocol::v1;
use millrace_state::Layout;
use millrace_types::{ExecutionId, WorkerId};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::Status;

use super::{
    Shared, ambient,
    connection::{self, Client, Connection},
    inbox::{Message, Outbox},
    patience::persist,
    plan::RunPlan,
};
use crate::{
    live::LiveJob,
    problem::chain,
    provision::{ExitSender, StartWorker, WorkerHandle},
    store::{Lease, NewWorker, Result, WorkerPlacement, WorkerRecord, WorkerRowState},
};

/// How often to look whether new workers have registered.
const LOOK: Duration = Duration::from_millis(50);
/// Longest time of a deployment's call; the lifecycle gives up a little later.
const DEPLOY_LIMIT: Duration = Duration::from_secs(890);
/// Longest time of any other call.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A worker that is connected.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) worker: WorkerId,
    pub(super) pid: Option<u32>,
    pub(super) address: String,
    pub(super) slots: u32,
    pub(super) memory_mib: u32,
    pub(super) subtasks: Range<u32>,
    pub(super) client: Client,
    /// The worker is lost: nobody need wait for its answers.
    pub(super) gone: CancellationToken,
    /// Ends with the last clone of the member.
    _connection: Arc<AbortOnDropHandle<()>>,
}

impl Member {
    pub(super) fn handle(&self, lease: &Lease) -> WorkerHandle {
        WorkerHandle {
            job: lease.job,
            worker: self.worker,
            pid: self.pid,
        }
    }

    /// Calls the worker, as long as it is there.
    pub(super) async fn call<T, F>(
        &self,
        limit: Duration,
        call: impl FnOnce(Client) -> F,
    ) -> std::result::Result<T, Status>
    where
        F: Future<Output = std::result::Result<tonic::Response<T>, Status>>,
    {
        tokio::select! {
            answer = timed(limit, call(self.client.clone())) => answer,
            () = self.gone.cancelled() => Err(Status::unavailable("the worker is gone")),
        }
    }
}

/// What work on a job's workers needs.
#[derive(Clone)]
pub(super) struct Yard {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Lease,
    pub(super) layout: Layout,
    pub(super) live: Arc<LiveJob>,
    pub(super) outbox: Outbox,
    pub(super) exits: ExitSender,
    /// Workers that this driver has ended on purpose.
    pub(super) dismissed: Arc<Mutex<HashSet<WorkerId>>>,
}

impl Yard {
    /// Has the workers of a version there, keeping those of `present` that fit, and answers.
    pub(super) async fn provision(self, attempt: Attempt, present: Vec<Member>) {
        let execution = attempt.execution;
        match self.try_provision(attempt, present).await {
            Ok(Ok((plan, crew))) => self.outbox.send(Message::CrewReady {
                execution,
                plan: Box::new(plan),
                crew,
            }),
            Ok(Err(failure)) => self.outbox.send(Message::Suspect { execution, failure }),
            Err(error) => self.store_failed(&error, execution),
        }
    }

    /// An error of the store that is no absence ends the attempt, or the whole task.
    pub(super) fn store_failed(&self, error: &crate::store::StoreError, execution: ExecutionId) {
        if error.is_fenced() {
            self.outbox.send(Message::Fenced);
        } else {
            tracing::error!(job = %self.lease.job, error = chain(error), "the store failed");
            self.outbox.send(Message::Event(Event::Failed {
                execution,
                failure: Failure::retryable(format!("the control plane's store failed: {error}")),
            }));
        }
    }

    async fn try_provision(
        &self,
        attempt: Attempt,
        present: Vec<Member>,
    ) -> Result<std::result::Result<(RunPlan, Vec<Member>), Failure>> {
        let plan = match RunPlan::load(&self.shared, &self.lease, attempt.version).await? {
            Ok(plan) => plan,
            Err(failure) => return Ok(Err(failure)),
        };
        let spec = &plan.spec;
        let memory_mib = spec.resources.memory_mib;
        let mut wanted = schedule::worker_sizes(spec.parallelism, spec.resources.workers);
        let mut crew = Vec::with_capacity(wanted.len());
        for member in present {
            let fits = wanted
                .iter()
                .position(|slots| *slots == member.slots && member.memory_mib == memory_mib);
            if let Some(position) = fits {
                wanted.swap_remove(position);
                crew.push(member);
            }
        }
        self.dismiss_others(&crew).await?;
        let mut expected = Vec::with_capacity(wanted.len());
        for slots in wanted {
            match self.start_worker(slots, memory_mib).await? {
                Ok(worker) => expected.push(worker),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        while !expected.is_empty() {
            let rows = self.rows().await?;
            expected.retain(|worker| {
                let row = rows.iter().find(|row| row.id == *worker);
                match row.and_then(|row| self.member(row)) {
                    Some(member) => {
                        crew.push(member);
                        false
                    }
                    None => true,
                }
            });
            if !expected.is_empty() {
                sleep(LOOK).await;
            }
        }
        if let Err(failure) = place(&plan, &mut crew) {
            return Ok(Err(failure));
        }
        Ok(Ok((plan, crew)))
    }

    /// Workers of the job that are not gone.
    pub(super) async fn rows(&self) -> Result<Vec<WorkerRecord>> {
        persist("read the job's workers", || {
            self.shared.store.workers_of(&self.lease)
        })
        .await
    }

    /// Ends all workers of the job but these.
    async fn dismiss_others(&self, crew: &[Member]) -> Result<()> {
        let others: Vec<WorkerHandle> = self
            .rows()
            .await?
            .iter()
            .filter(|row| crew.iter().all(|member| member.worker != row.id))
            .map(handle)
            .collect();
        self.dismiss(&others, Duration::from_secs(1), "not needed any more")
            .await
    }

    /// Ends workers for good.
    pub(super) async fn dismiss(
        &self,
        workers: &[WorkerHandle],
        grace: Duration,
        reason: &str,
    ) -> Result<()> {
        let provisioner = &self.shared.provisioner;
        self.dismissed
            .lock()
            .extend(workers.iter().map(|worker| worker.worker));
        join_all(
            workers
                .iter()
                .map(|worker| provisioner.stop(*worker, grace)),
        )
        .await;
        for worker in workers {
            provisioner.clean(*worker).await;
            persist("note the end of a worker", || {
                self.shared
                    .store
                    .worker_gone(&self.lease, worker.worker, reason)
            })
            .await?;
        }
        Ok(())
    }

    /// Whether the worker's end is of this driver's own making.
    pub(super) fn was_dismissed(&self, worker: WorkerId) -> bool {
        self.dismissed.lock().contains(&worker)
    }

    async fn start_worker(
        &self,
        slots: u32,
        memory_mib: u32,
    ) -> Result<std::result::Result<WorkerId, Failure>> {
        let worker = ambient::new_worker();
        let new = NewWorker {
            id: worker,
            slots,
            memory_mib,
        };
        // Announced first: a worker that registers without a row is turned away.
        persist("announce a worker", || {
            self.shared.store.add_worker(&self.lease, &new)
        })
        .await?;
        let start = StartWorker {
            job: self.lease.job,
            worker,
            slots,
            memory_mib,
        };
        let provisioner = &self.shared.provisioner;
        match provisioner.start(start, self.exits.clone()).await {
            Ok(started) => {
                if let Some(pid) = started.pid {
                    persist("note a worker's process", || {
                        self.shared.store.set_worker_pid(&self.lease, worker, pid)
                    })
                    .await?;
                }
                Ok(Ok(worker))
            }
            Err(error) => {
                let reason = chain(&error);
                persist("note the end of a worker", || {
                    self.shared.store.worker_gone(&self.lease, worker, &reason)
                })
                .await?;
                Ok(Err(Failure::retryable(reason)))
            }
        }
    }

    /// Connects to a worker that has registered.
    pub(super) fn member(&self, row: &WorkerRecord) -> Option<Member> {
        if row.state != WorkerRowState::Registered {
            return None;
        }
        let address = row.address.clone()?;
        let client = match connection::client(&address, self.shared.config.worker_silence) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(worker = %row.id, address, %error, "a worker registered an address that is none");
                return None;
            }
        };
        let gone = CancellationToken::new();
        let connection = Connection {
            shared: self.shared.clone(),
            lease: self.lease.clone(),
            worker: row.id,
            address: address.clone(),
            client: client.clone(),
            live: self.live.clone(),
            outbox: self.outbox.clone(),
            gone: gone.clone(),
        };
        Some(Member {
            worker: row.id,
            pid: row.pid,
            address,
            slots: row.slots,
            memory_mib: row.memory_mib,
            subtasks: 0..0,
            client,
            gone,
            _connection: Arc::new(AbortOnDropHandle::new(tokio::spawn(connection.run()))),
        })
    }

    /// Deploys an execution on all workers, and answers.
    pub(super) async fn deploy(
        self,
        attempt: Attempt,
        restore: Restore,
        plan: RunPlan,
        crew: Vec<Member>,
    ) {
        let execution = attempt.execution;
        let placement: Vec<WorkerPlacement> = crew
            .iter()
            .map(|member| WorkerPlacement {
                worker: member.worker,
                subtasks: member.subtasks.clone(),
            })
            .collect();
        let placed = persist("note where the job runs", || {
            self.shared
                .store
                .place_execution(&self.lease, execution, &placement)
        })
        .await;
        if let Err(error) = placed {
            return self.store_failed(&error, execution);
        }
        let request = match self.deploy_request(attempt, restore, &plan, &crew) {
            Ok(request) => request,
            Err(error) => {
                return self.outbox.send(Message::Event(Event::Failed {
                    execution,
                    failure: Failure {
                        retryable: false,
                        ..Failure::retryable(format!("the job's spec cannot be sent: {error}"))
                    },
                }));
            }
        };
        let answers = join_all(crew.iter().map(|member| {
            let request = request.clone();
            member.call(DEPLOY_LIMIT, async move |mut client| {
                client.deploy(request).await
            })
        }))
        .await;
        self.answer(execution, answers, Event::Deployed { execution });
    }

    fn deploy_request(
        &self,
        attempt: Attempt,
        restore: Restore,
        plan: &RunPlan,
        crew: &[Member],
    ) -> std::result::Result<v1::DeployRequest, serde_json::Error> {
        let manifest = match restore {
            Restore::Empty => String::new(),
            Restore::Checkpoint(checkpoint) => {
                self.layout.checkpoint_manifest(checkpoint).to_string()
            }
            Restore::Savepoint { savepoint, .. } => {
                self.layout.savepoint_manifest(savepoint).to_string()
            }
        };
        Ok(v1::DeployRequest {
            epoch: self.lease.epoch.0,
            job_id: self.lease.job.to_string(),
            tenant: self.lease.tenant.to_string(),
            execution_id: attempt.execution.to_string(),
            version: attempt.version.0,
            spec_json: serde_json::to_string(&*plan.spec)?,
            fingerprint: plan.fingerprint.0.clone(),
            control_plane_version: env!("CARGO_PKG_VERSION").to_owned(),
            workers: crew
                .iter()
                .map(|member| v1::Peer {
                    worker_id: member.worker.to_string(),
                    address: member.address.clone(),
                    subtasks: member.subtasks.clone().collect(),
                })
                .collect(),
            storage_url: self.shared.config.storage_url.clone(),
            restore_manifest: manifest,
            lossless_output: self.shared.config.lossless_output,
        })
    }

    /// Tells all workers to go, and answers.
    pub(super) async fn launch(self, execution: ExecutionId, crew: Vec<Member>) {
        let request = self.execution_request(execution);
        let answers = join_all(crew.iter().map(|member| {
            let request = request.clone();
            member.call(CALL_LIMIT, async move |mut client| {
                client.start(request).await
            })
        }))
        .await;
        self.answer(execution, answers, Event::Launched { execution });
    }

    /// Ends all inputs; answered by the subtasks themselves.
    pub(super) async fn drain(self, execution: ExecutionId, crew: Vec<Member>) {
        let request = self.execution_request(execution);
        let answers = join_all(crew.iter().map(|member| {
            let request = request.clone();
            member.call(CALL_LIMIT, async move |mut client| {
                client.drain(request).await
            })
        }))
        .await;
        for status in answers.into_iter().filter_map(std::result::Result::err) {
            self.refused(execution, &status);
        }
    }

    pub(super) fn execution_request(&self, execution: ExecutionId) -> v1::ExecutionRequest {
        v1::ExecutionRequest {
            epoch: self.lease.epoch.0,
            execution_id: execution.to_string(),
        }
    }

    fn answer<T>(
        &self,
        execution: ExecutionId,
        answers: Vec<std::result::Result<T, Status>>,
        good: Event,
    ) {
        let mut refusals: Vec<Status> = answers
            .into_iter()
            .filter_map(std::result::Result::err)
            .collect();
        // What cannot be healed says more than what a broken peer has caused.
        refusals.sort_by_key(|status| match connection::refused(execution, status) {
            Event::Failed { failure, .. } => failure.retryable,
            _ => true,
        });
        match refusals.first() {
            None => self.outbox.send(Message::Event(good)),
            Some(status) => self.refused(execution, status),
        }
    }

    fn refused(&self, execution: ExecutionId, status: &Status) {
        if connection::is_fenced(status) {
            self.outbox.send(Message::Fenced);
            return;
        }
        if let Event::Failed { execution, failure } = connection::refused(execution, status) {
            self.outbox.send(Message::Suspect { execution, failure });
        }
    }
}

/// A call with a limit.
pub(super) async fn timed<T>(
    limit: Duration,
    call: impl Future<Output = std::result::Result<tonic::Response<T>, Status>>,
) -> std::result::Result<T, Status> {
    match timeout(limit, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "a worker did not answer within {} s",
            limit.as_secs()
        ))),
    }
}

pub(super) fn handle(row: &WorkerRecord) -> WorkerHandle {
    WorkerHandle {
        job: row.job,
        worker: row.id,
        pid: row.pid,
    }
}

/// Gives every worker its subtasks.
fn place(plan: &RunPlan, crew: &mut Vec<Member>) -> std::result::Result<(), Failure> {
    let capacities: Vec<Capacity> = crew
        .iter()
        .map(|member| Capacity {
            worker: member.worker,
            slots: member.slots,
        })
        .collect();
    let placements = schedule::place(plan.spec.parallelism, &capacities)
        .map_err(|error| Failure::retryable(format!("the workers are too few: {error}")))?;
    crew.retain_mut(|member| {
        let placed = placements
            .iter()
            .find(|placement| placement.worker == member.worker);
        match placed {
            Some(placement) => {
                member.subtasks = placement.subtasks.clone();
                true
            }
            None => false,
        }
    });
    Ok(())
}
