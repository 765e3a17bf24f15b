//! The task of one job: takes messages in one by one, steps the cores, performs what they want.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use millrace_coordination::{
    checkpoint::{Coordinator, Input, Output},
    lifecycle::{Action, Effect, Event, Failure, Job, State, Write},
};
use millrace_protocol::v1;
use millrace_state::{Layout, SnapshotManifest};
use millrace_types::{CheckpointId, ExecutionId, WorkerId};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Shared, ambient,
    barriers::Parts,
    crew::{Member, Yard},
    garbage::Garbage,
    inbox::{Inbox, Message, Outbox},
    patience::persist,
    plan::RunPlan,
};
use crate::{
    live::LiveJob,
    problem::chain,
    provision::{ExitSender, WorkerExit},
    store::{Commit, JobRef, Lease, StoreError},
};

/// How often to look at the job's row without being told to.
const LOOK: Duration = Duration::from_secs(5);
/// How soon to look again whether a job that rests needs no driver any more.
const RECHECK: Duration = Duration::from_millis(500);

/// Why a task ends.
pub(super) enum End {
    /// Another driver has the job, or may have: touch nothing more.
    Fenced,
    /// The job is deleted.
    Forgotten,
    /// The store holds what cannot be understood, or refuses what should work.
    Broken(StoreError),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        if error.is_fenced() {
            End::Fenced
        } else {
            End::Broken(error)
        }
    }
}

pub(super) type Flow<T = ()> = std::result::Result<T, End>;

/// Something to do, in order.
pub(super) enum Work {
    Event(Event),
    Action(Action),
    Input(Input),
    Output(Output),
}

/// Everything of one job.
pub(super) struct JobTask {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Lease,
    pub(super) layout: Layout,
    pub(super) live: Arc<LiveJob>,
    pub(super) job: Job,
    /// Steps committed.
    pub(super) step: u64,
    pub(super) observed_revision: u64,
    pub(super) observed_command: u64,
    pub(super) last_checkpoint: CheckpointId,
    pub(super) outbox: Outbox,
    pub(super) yard: Yard,
    /// Connected workers.
    pub(super) crew: Vec<Member>,
    /// What the current execution runs.
    pub(super) plan: Option<RunPlan>,
    pub(super) coordinator: Option<Coordinator>,
    /// What subtasks said of their end before there was a coordinator to hear it.
    pub(super) early: Vec<Input>,
    /// Parts of the barrier in flight.
    pub(super) parts: Parts,
    /// Manifests of kept checkpoints, as far as they are known.
    pub(super) manifests: BTreeMap<CheckpointId, SnapshotManifest>,
    /// What is being done to the crew: provisioning, deploying, launching.
    pub(super) crew_work: Option<AbortOnDropHandle<()>>,
    pub(super) teardown: u64,
    pub(super) teardown_work: Option<AbortOnDropHandle<()>>,
    pub(super) garbage: Garbage,
    /// What the workers of a taken-over job said of themselves.
    pub(super) adopted_statuses: BTreeMap<WorkerId, v1::Status>,
    /// A failure whose cause may still show itself, and until when that is waited for.
    pub(super) suspicion: Option<(Instant, ExecutionId, Failure)>,
    work: VecDeque<Work>,
}

/// Drives a job until its lease is lost, the job rests, or the service is shut down.
pub(super) async fn run(
    shared: Arc<Shared>,
    lease: Lease,
    wake: Arc<Notify>,
    suspend: CancellationToken,
) {
    let job = lease.job;
    tracing::debug!(%job, epoch = %lease.epoch, "driving a job");
    match drive(shared, lease, wake, suspend).await {
        Ok(()) => tracing::debug!(%job, "the job needs no driver any more"),
        Err(End::Forgotten) => tracing::info!(%job, "the job is deleted"),
        Err(End::Fenced) => tracing::warn!(%job, "another driver has taken the job over"),
        Err(End::Broken(error)) => {
            tracing::error!(%job, error = chain(&error), "the job cannot be driven; trying again when its lease has expired");
        }
    }
}

async fn drive(
    shared: Arc<Shared>,
    lease: Lease,
    wake: Arc<Notify>,
    suspend: CancellationToken,
) -> Flow {
    let patience = shared.config.suspend_patience;
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let (exits, mut exited) = mpsc::unbounded_channel();
    let mut task = tokio::select! {
        task = JobTask::load(shared, lease, Outbox(sender), exits) => task?,
        () = suspend.cancelled() => return Ok(()),
    };
    let out_of_patience = async {
        suspend.cancelled().await;
        sleep(patience).await;
    };
    // From outside of the loop, since a step that waits for the database does not look up.
    tokio::select! {
        end = task.drive(&mut inbox, &mut exited, &wake, &suspend) => return match end {
            Err(End::Fenced) => Err(task.fenced().await),
            end => end,
        },
        () = out_of_patience => {}
    }
    task.give_up().await
}

async fn next(inbox: &mut Inbox) -> Message {
    match inbox.recv().await {
        Some(message) => message,
        // The task itself holds a sender.
        None => std::future::pending().await,
    }
}

impl JobTask {
    async fn drive(
        &mut self,
        inbox: &mut Inbox,
        exited: &mut mpsc::UnboundedReceiver<WorkerExit>,
        wake: &Notify,
        suspend: &CancellationToken,
    ) -> Flow {
        self.take_over().await?;
        self.refresh().await?;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut suspending = false;
        loop {
            if self.rests() {
                if self.release(false).await? {
                    return Ok(());
                }
                self.refresh().await?;
                if self.rests() {
                    // A savepoint is being deleted.
                    sleep(RECHECK).await;
                }
                continue;
            }
            if suspending && matches!(self.job.state, State::Suspended) {
                self.release(true).await?;
                return Ok(());
            }
            let due = self.due();
            tokio::select! {
                message = next(inbox) => self.receive(message).await?,
                Some(exit) = exited.recv() => self.receive(Message::Exit(exit)).await?,
                () = sleep_until(due) => self.tick().await?,
                () = wake.notified() => self.refresh().await?,
                _ = look.tick() => self.refresh().await?,
                () = suspend.cancelled(), if !suspending => {
                    suspending = true;
                    if !self.shared.config.suspend_on_shutdown {
                        self.release(true).await?;
                        return Ok(());
                    }
                    self.run_work(Work::Event(Event::Suspend)).await?;
                }
            }
        }
    }

    async fn load(
        shared: Arc<Shared>,
        lease: Lease,
        outbox: Outbox,
        exits: ExitSender,
    ) -> Flow<Self> {
        let driven = persist("load a job", || shared.store.load_job(&lease)).await?;
        let layout = Layout::new(shared.root.clone(), lease.tenant.clone(), lease.job);
        let live = shared.live.open(lease.job);
        let job = match driven.core {
            Some(job) => job,
            None => {
                let version = persist("load the job's spec", || {
                    shared.store.leased_version(&lease, driven.version)
                })
                .await?;
                Job::new(driven.version, super::desired::policy(&version.spec))
            }
        };
        let yard = Yard {
            shared: shared.clone(),
            lease: lease.clone(),
            layout: layout.clone(),
            live: live.clone(),
            outbox: outbox.clone(),
            exits,
            dismissed: Arc::default(),
        };
        Ok(JobTask {
            garbage: Garbage::new(shared.clone(), lease.clone(), layout.clone()),
            shared,
            lease,
            layout,
            live,
            job,
            step: driven.step,
            observed_revision: driven.observed_revision,
            observed_command: driven.observed_command,
            last_checkpoint: driven.last_checkpoint,
            outbox,
            yard,
            crew: Vec::new(),
            plan: None,
            coordinator: None,
            early: Vec::new(),
            parts: Parts::default(),
            manifests: BTreeMap::new(),
            crew_work: None,
            teardown: 0,
            teardown_work: None,
            adopted_statuses: BTreeMap::new(),
            suspicion: None,
            work: VecDeque::new(),
        })
    }

    /// Why the lease is lost: a deletion takes it away with the job's row, and a look at the row
    /// may come before the news of it.
    async fn fenced(&self) -> End {
        if matches!(self.job.state, State::Deleting { .. }) {
            let job = JobRef::Id(self.lease.job);
            let found = self.shared.store.get_job(&self.lease.tenant, &job).await;
            if matches!(found, Err(StoreError::JobNotFound { .. })) {
                self.shared.live.remove(self.lease.job);
                return End::Forgotten;
            }
        }
        End::Fenced
    }

    fn rests(&self) -> bool {
        self.job.is_resting() && self.suspicion.is_none()
    }

    /// Gives the lease up; false: there is something to do again.
    async fn release(&mut self, always: bool) -> Flow<bool> {
        if always {
            // The database may be gone already; the lease then expires.
            let released = self.shared.store.release_lease(&self.lease, true);
            match timeout(Duration::from_secs(2), released).await {
                Ok(Ok(_)) | Err(_) => return Ok(true),
                Ok(Err(error)) if error.is_unavailable() => return Ok(true),
                Ok(Err(error)) => return Err(error.into()),
            }
        }
        let released = persist("release a job", || {
            self.shared.store.release_lease(&self.lease, false)
        })
        .await?;
        Ok(released)
    }

    /// The suspension takes too long: end the workers as they are. The job goes on from its last
    /// checkpoint at the next start.
    async fn give_up(&mut self) -> Flow {
        tracing::warn!(job = %self.lease.job, "the job could not be suspended in order in time");
        self.crew_work = None;
        self.teardown_work = None;
        let handles: Vec<_> = self
            .crew
            .iter()
            .map(|member| member.handle(&self.lease))
            .collect();
        for handle in handles {
            self.shared.provisioner.stop(handle, Duration::ZERO).await;
        }
        self.release(true).await?;
        Ok(())
    }

    /// When something is due.
    fn due(&self) -> Instant {
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::next_wake);
        let cores = [self.job.next_wake(), coordinator];
        let at_ms = cores.into_iter().flatten().min();
        let due = ambient::instant_of(at_ms.unwrap_or(i64::MAX));
        match &self.suspicion {
            Some((at, _, _)) => due.min(*at),
            None => due,
        }
    }

    async fn tick(&mut self) -> Flow {
        if let Some((at, execution, failure)) = self.suspicion.take() {
            if at <= Instant::now() {
                self.run_work(Work::Event(Event::Failed { execution, failure }))
                    .await?;
            } else {
                self.suspicion = Some((at, execution, failure));
            }
        }
        let now_ms = ambient::now_ms();
        if self.job.next_wake().is_some_and(|at| at <= now_ms) {
            self.run_work(Work::Event(Event::Wake)).await?;
        }
        let due = self.coordinator.as_ref().and_then(Coordinator::next_wake);
        if due.is_some_and(|at| at <= now_ms) {
            self.run_work(Work::Input(Input::Tick)).await?;
        }
        Ok(())
    }

    /// Does something and all that follows from it at once.
    pub(super) async fn run_work(&mut self, first: Work) -> Flow {
        self.work.push_back(first);
        while let Some(work) = self.work.pop_front() {
            let follow = match work {
                Work::Event(event) => self.step(event).await?,
                Work::Action(action) => self.act(action).await?,
                Work::Input(input) => self.coordinate(input),
                Work::Output(output) => self.perform(output).await?,
            };
            // Before what was there, so that effects are performed in depth, in order.
            for work in follow.into_iter().rev() {
                self.work.push_front(work);
            }
        }
        Ok(())
    }

    /// Steps the lifecycle and commits it.
    async fn step(&mut self, event: Event) -> Flow<Vec<Work>> {
        tracing::debug!(job = %self.lease.job, ?event, "lifecycle event");
        let (next, effects) = self.job.clone().step(event, ambient::ambient());
        if next == self.job && effects.is_empty() {
            return Ok(Vec::new());
        }
        let mut writes = Vec::new();
        let mut actions = Vec::new();
        for effect in effects {
            match effect {
                Effect::Write(write) => writes.push(write),
                Effect::Do(action) => actions.push(Work::Action(action)),
            }
        }
        self.commit(next, &writes).await?;
        Ok(actions)
    }

    /// Stores the job with what a step writes.
    pub(super) async fn commit(&mut self, next: Job, writes: &[Write]) -> Flow {
        let parallelism = self.parallelism_of(writes).await?;
        let commit = Commit {
            job: &next,
            writes,
            step: self.step + 1,
            observed_revision: self.observed_revision,
            observed_command: self.observed_command,
            parallelism,
        };
        let committed = persist("store the job", || {
            self.shared.store.commit(&self.lease, commit)
        })
        .await?;
        for event in &committed.events {
            tracing::info!(job = %self.lease.job, kind = event.kind, severity = event.severity, "{}", event.message);
        }
        self.step += 1;
        if self.job.state != next.state {
            tracing::debug!(job = %self.lease.job, state = ?next.state, "lifecycle state");
        }
        self.job = next;
        if self.job.is_resting() {
            self.live.end_output();
        }
        Ok(())
    }

    /// The parallelism of the execution that a step begins, for its row.
    async fn parallelism_of(&self, writes: &[Write]) -> Flow<u32> {
        for write in writes {
            if let Write::OpenExecution { attempt, .. } = write {
                let version = persist("load the job's spec", || {
                    self.shared
                        .store
                        .leased_version(&self.lease, attempt.version)
                })
                .await?;
                return Ok(version.spec.parallelism);
            }
        }
        Ok(0)
    }
}
