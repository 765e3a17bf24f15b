//! The store on real Postgres: what its tests share.

mod driving;
mod jobs;
mod schema;
mod snapshots;

use std::time::Duration;

use millrace_coordination::{
    checkpoint::Barrier,
    lifecycle::{
        Ambient, Attempt, Effect, Event, ExecutionEnd, Failure, Job, Policy, Record, Restore,
        Severity, StartAt, Write,
    },
};
use millrace_types::{
    CheckpointId, CheckpointStatus, Condition, DesiredState, Epoch, ExecutionId, Fingerprint,
    JobId, JobName, JobSpec, JobState, SavepointId, SavepointStatus, StartFrom, StopMode,
    TenantName, VersionNumber, WorkerId,
};
use uuid::Uuid;

use super::{test_database::TestDatabase, *};

const LEASE: Duration = Duration::from_secs(10);

fn tenant() -> TenantName {
    TenantName::new("default").unwrap()
}

fn spec(name: &str) -> JobSpec {
    JobSpec::new(JobName::new(name).unwrap(), "INSERT INTO a SELECT 1")
}

fn new_job(name: &str) -> NewJob {
    NewJob {
        spec: spec(name),
        fingerprint: Fingerprint("f1".into()),
        start: true,
        idempotency: None,
    }
}

async fn create(store: &Store, name: &str) -> JobRecord {
    store.create_job(&tenant(), new_job(name)).await.unwrap().0
}

async fn acquire(store: &Store, owner: &str, incarnation: u128) -> Vec<Lease> {
    store
        .acquire_leases(owner, Uuid::from_u128(incarnation), LEASE, &[], 10)
        .await
        .unwrap()
}

fn core() -> Job {
    Job::new(
        VersionNumber(1),
        Policy {
            restart: Default::default(),
            upgrade: Default::default(),
            checkpoint_interval_ms: 10_000,
        },
    )
}

/// The job after `event`, and what the step writes.
fn step(job: &Job, event: Event, execution: u128) -> (Job, Vec<Write>) {
    let ambient = Ambient {
        now_ms: 0,
        jitter: 0.5,
        execution: ExecutionId(Uuid::from_u128(execution)),
    };
    let (job, effects) = job.clone().step(event, ambient);
    let writes = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Write(write) => Some(write),
            Effect::Do(_) => None,
        })
        .collect();
    (job, writes)
}

fn commit<'a>(job: &'a Job, writes: &'a [Write], step: u64) -> Commit<'a> {
    Commit {
        job,
        writes,
        step,
        observed_revision: 1,
        observed_command: 1,
        parallelism: 2,
    }
}

/// A job that runs version 1 in execution 1.
async fn running(store: &Store, name: &str) -> (Lease, Job) {
    let record = create(store, name).await;
    let lease = acquire(store, "a", 1)
        .await
        .into_iter()
        .find(|lease| lease.job == record.id)
        .unwrap();
    let execution = ExecutionId(Uuid::from_u128(1));
    let mut job = core();
    for (number, event) in [
        Event::Start {
            from: StartAt::Latest,
        },
        Event::WorkersReady { execution },
        Event::Deployed { execution },
        Event::Launched { execution },
    ]
    .into_iter()
    .enumerate()
    {
        let (next, writes) = step(&job, event, 1);
        store
            .commit(&lease, commit(&next, &writes, number as u64 + 1))
            .await
            .unwrap();
        job = next;
    }
    (lease, job)
}

fn done() -> CheckpointDone {
    CheckpointDone {
        manifest: "m".into(),
        full_bytes: 100,
        uploaded_bytes: 10,
        alignment_ms: 1,
        pause_ms: 2,
        async_ms: 3,
    }
}

fn barrier(checkpoint: u64) -> Barrier {
    Barrier {
        checkpoint: CheckpointId(checkpoint),
        savepoint: None,
        last: false,
    }
}
