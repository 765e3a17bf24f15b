//! The loop of one replica: renews leases, takes jobs that need a driver, wakes their tasks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use millrace_types::{Epoch, JobId};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{Shared, job_task};
use crate::{problem::chain, store::Lease};

/// Jobs taken in one go, so that several replicas share.
const BATCH: u32 = 32;
/// How often old idempotency keys are forgotten.
const PRUNE: Duration = Duration::from_secs(600);

/// The task of one job, as the replica sees it.
struct Driven {
    epoch: Epoch,
    wake: Arc<Notify>,
    /// Asks the task to suspend its job and end.
    suspend: CancellationToken,
    abort: AbortHandle,
}

struct Replica {
    shared: Arc<Shared>,
    name: String,
    jobs: HashMap<JobId, Driven>,
    tasks: JoinSet<JobId>,
    task_jobs: HashMap<tokio::task::Id, JobId>,
    /// Whether the last call of the database failed: said once.
    away: bool,
}

/// Runs until the shutdown.
pub(super) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let _listener = AbortOnDropHandle::new(tokio::spawn(listen(shared.clone())));
    let mut replica = Replica {
        shared: shared.clone(),
        name: shared.config.replica_name(),
        jobs: HashMap::new(),
        tasks: JoinSet::new(),
        task_jobs: HashMap::new(),
        away: false,
    };
    let ticker = |period| {
        let mut ticker = interval(period);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticker
    };
    let mut renew = ticker(shared.config.lease_renewal);
    let mut poll = ticker(shared.config.poll_interval);
    let mut prune = ticker(PRUNE);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = renew.tick() => replica.renew().await,
            _ = poll.tick() => replica.acquire().await,
            woken = shared.live.woken() => replica.wake(woken).await,
            Some(ended) = replica.tasks.join_next_with_id(), if !replica.tasks.is_empty() => {
                replica.ended(ended);
            }
            _ = prune.tick() => {
                if let Err(error) = shared.store.prune_keys().await {
                    tracing::debug!(error = chain(&error), "idempotency keys could not be pruned");
                }
            }
        }
    }
    replica.shut_down().await;
}

impl Replica {
    async fn renew(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let held: Vec<(JobId, Epoch)> = self
            .jobs
            .iter()
            .map(|(job, driven)| (*job, driven.epoch))
            .collect();
        let renewed = self
            .shared
            .store
            .renew_leases(&held, self.shared.config.lease_duration)
            .await;
        match renewed {
            Ok(renewed) => {
                self.reachable();
                let renewed: HashSet<JobId> = renewed.into_iter().collect();
                for (job, _) in held {
                    if !renewed.contains(&job)
                        && let Some(lost) = self.jobs.remove(&job)
                    {
                        tracing::warn!(%job, "the job's lease is lost, another replica drives it");
                        lost.abort.abort();
                    }
                }
            }
            Err(error) => self.unreachable(&error),
        }
    }

    async fn acquire(&mut self) {
        let room = self
            .shared
            .config
            .max_jobs
            .saturating_sub(self.jobs.len() as u32);
        if room == 0 {
            return;
        }
        let held: Vec<JobId> = self.jobs.keys().copied().collect();
        let config = &self.shared.config;
        let acquired = self
            .shared
            .store
            .acquire_leases(
                &self.name,
                self.shared.incarnation,
                config.lease_duration,
                &held,
                room.min(BATCH),
            )
            .await;
        match acquired {
            Ok(leases) => {
                self.reachable();
                for lease in leases {
                    self.drive(lease);
                }
            }
            Err(error) => self.unreachable(&error),
        }
    }

    fn drive(&mut self, lease: Lease) {
        let wake = Arc::new(Notify::new());
        let suspend = CancellationToken::new();
        let (job, epoch) = (lease.job, lease.epoch);
        let abort = self.tasks.spawn({
            let (shared, wake, suspend) = (self.shared.clone(), wake.clone(), suspend.clone());
            async move {
                job_task::run(shared, lease, wake, suspend).await;
                job
            }
        });
        self.task_jobs.insert(abort.id(), job);
        self.jobs.insert(
            job,
            Driven {
                epoch,
                wake,
                suspend,
                abort,
            },
        );
    }

    async fn wake(&mut self, woken: HashSet<JobId>) {
        let mut unknown = false;
        for job in woken {
            match self.jobs.get(&job) {
                Some(driven) => driven.wake.notify_one(),
                None => unknown = true,
            }
        }
        if unknown {
            self.acquire().await;
        }
    }

    fn ended(
        &mut self,
        ended: std::result::Result<(tokio::task::Id, JobId), tokio::task::JoinError>,
    ) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => {
                if !error.is_cancelled() {
                    tracing::error!(%error, "the task of a job broke; it is taken up again when its lease has expired");
                }
                error.id()
            }
        };
        if let Some(job) = self.task_jobs.remove(&id)
            && self
                .jobs
                .get(&job)
                .is_some_and(|driven| driven.abort.id() == id)
        {
            self.jobs.remove(&job);
        }
    }

    async fn shut_down(mut self) {
        for driven in self.jobs.values() {
            driven.suspend.cancel();
        }
        let config = &self.shared.config;
        // The tasks keep to the patience by themselves; this is for one that hangs.
        let patience = config.suspend_patience + Duration::from_secs(10);
        let deadline = Instant::now() + patience;
        let mut renew = interval(config.lease_renewal);
        while !self.tasks.is_empty() {
            tokio::select! {
                ended = self.tasks.join_next_with_id() => {
                    if let Some(ended) = ended {
                        self.ended(ended);
                    }
                }
                _ = renew.tick() => {
                    // Bounded, since the database may be gone before the service.
                    let _ = timeout(Duration::from_secs(1), self.renew()).await;
                    if Instant::now() > deadline {
                        tracing::error!(jobs = self.jobs.len(), "jobs could not be suspended in time");
                        self.tasks.abort_all();
                    }
                }
            }
        }
    }

    fn reachable(&mut self) {
        if self.away {
            self.away = false;
            tracing::info!("the database is back");
        }
    }

    fn unreachable(&mut self, error: &crate::store::StoreError) {
        if !self.away {
            self.away = true;
            tracing::warn!(
                error = chain(error),
                "the database is away; workers go on meanwhile"
            );
        }
    }
}

/// Wakes jobs that any replica's API has changed.
async fn listen(shared: Arc<Shared>) {
    loop {
        match shared.store.changes().await {
            Ok(mut changes) => loop {
                match changes.next().await {
                    Ok(Some(job)) => shared.live.wake(job),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(error = chain(&error), "not told of changes any more");
                        break;
                    }
                }
            },
            Err(error) => tracing::debug!(error = chain(&error), "not told of changes"),
        }
        sleep(Duration::from_secs(1)).await;
    }
}
