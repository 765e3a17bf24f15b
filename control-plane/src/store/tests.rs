//! The store on real Postgres.

use std::{collections::BTreeSet, time::Duration};

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

/// The texts that a CHECK constraint lists.
async fn listed(store: &Store, constraint: &str) -> BTreeSet<String> {
    let (definition,): (String,) =
        sqlx::query_as("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1")
            .bind(constraint)
            .fetch_one(store.pool())
            .await
            .unwrap();
    definition
        .split('\'')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn texts<T: Copy>(all: &[T], text: fn(T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|one| text(*one).to_owned()).collect()
}

#[tokio::test]
async fn the_schema_knows_exactly_the_states_of_the_types() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    for (constraint, states) in [
        ("jobs_state_known", texts(JobState::ALL, JobState::as_str)),
        (
            "jobs_condition_known",
            texts(Condition::ALL, Condition::as_str),
        ),
        (
            "jobs_desired_state_known",
            texts(DesiredState::ALL, DesiredState::as_str),
        ),
        (
            "jobs_stop_mode_known",
            texts(
                &[StopMode::Savepoint, StopMode::Drain, StopMode::Now],
                desired::stop_mode_text,
            ),
        ),
        (
            "checkpoints_status_known",
            texts(CheckpointStatus::ALL, CheckpointStatus::as_str),
        ),
        (
            "savepoints_status_known",
            texts(SavepointStatus::ALL, SavepointStatus::as_str),
        ),
        (
            "executions_end_reason_known",
            texts(ExecutionState::ENDS, ExecutionState::as_str),
        ),
        (
            "workers_state_known",
            texts(WorkerRowState::ALL, WorkerRowState::as_str),
        ),
    ] {
        assert_eq!(listed(store, constraint).await, states, "{constraint}");
    }
    // The states in which a job needs no driver are those that are not active.
    let record = create(store, "j").await;
    for state in JobState::ALL {
        let (needs_driver,): (bool,) = sqlx::query_as(
            "UPDATE jobs SET state = $2, observed_revision = revision, observed_command = command
             WHERE id = $1 RETURNING needs_driver",
        )
        .bind(record.id.0)
        .bind(state.as_str())
        .fetch_one(store.pool())
        .await
        .unwrap();
        assert_eq!(needs_driver, state.is_active(), "{state}");
    }
    database.drop().await;
}

#[tokio::test]
async fn jobs_are_created_once_found_and_listed() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let nobody = TenantName::new("nobody").unwrap();
    assert!(matches!(
        store.create_job(&nobody, new_job("j")).await,
        Err(StoreError::TenantNotFound { .. })
    ));
    let with_key = |name: &str, digest: &str| NewJob {
        idempotency: Some(("key".into(), digest.into())),
        ..new_job(name)
    };
    let (first, created) = store
        .create_job(&tenant(), with_key("j", "d1"))
        .await
        .unwrap();
    assert!(created);
    assert_eq!(
        (first.state, first.version, first.desired),
        (JobState::Starting, VersionNumber(1), DesiredState::Running)
    );
    let (again, created) = store
        .create_job(&tenant(), with_key("j", "d1"))
        .await
        .unwrap();
    assert_eq!((again.id, created), (first.id, false));
    assert!(matches!(
        store.create_job(&tenant(), with_key("j", "d2")).await,
        Err(StoreError::IdempotencyMismatch { .. })
    ));
    assert!(matches!(
        store.create_job(&tenant(), new_job("j")).await,
        Err(StoreError::NameTaken { .. })
    ));
    let mut idle = new_job("k");
    idle.start = false;
    let (idle, _) = store.create_job(&tenant(), idle).await.unwrap();
    assert_eq!(idle.state, JobState::Created);
    let by_name = JobRef::Name(JobName::new("k").unwrap());
    assert_eq!(store.get_job(&tenant(), &by_name).await.unwrap(), idle);
    let missing = JobRef::Id(JobId(Uuid::from_u128(7)));
    assert!(matches!(
        store.get_job(&tenant(), &missing).await,
        Err(StoreError::JobNotFound { .. })
    ));

    let list = async |filter: JobFilter, after, limit| -> Vec<String> {
        let jobs = store
            .list_jobs(&tenant(), &filter, after, limit)
            .await
            .unwrap();
        jobs.into_iter().map(|job| job.name.to_string()).collect()
    };
    assert_eq!(list(JobFilter::default(), None, 10).await, ["j", "k"]);
    assert_eq!(list(JobFilter::default(), None, 1).await, ["j"]);
    assert_eq!(list(JobFilter::default(), Some(first.id), 10).await, ["k"]);
    let created = JobFilter {
        state: Some(JobState::Created),
        name_prefix: None,
    };
    assert_eq!(list(created, None, 10).await, ["k"]);
    let prefix = JobFilter {
        state: None,
        name_prefix: Some("%".into()),
    };
    assert!(list(prefix, None, 10).await.is_empty());
    database.drop().await;
}

#[tokio::test]
async fn a_spec_is_only_changed_from_the_version_it_is_based_on() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let job = create(store, "j").await;
    let mut wider = spec("j");
    wider.parallelism = 4;
    let update = async |expected| {
        store
            .update_job(
                &tenant(),
                job.id,
                VersionNumber(expected),
                wider.clone(),
                Fingerprint("f2".into()),
            )
            .await
    };
    let updated = update(1).await.unwrap();
    assert_eq!(
        (updated.version, updated.spec.parallelism),
        (VersionNumber(2), 4)
    );
    let stale = update(1).await;
    assert!(matches!(
        stale,
        Err(StoreError::VersionMismatch {
            current: VersionNumber(2),
            ..
        })
    ));
    let versions = store
        .list_versions(&tenant(), job.id, None, 10)
        .await
        .unwrap();
    let numbers: Vec<u32> = versions.iter().map(|version| version.number.0).collect();
    assert_eq!(numbers, [2, 1]);
    // A version that is given up makes room for the old one; the next gets a new number.
    let lease = acquire(store, "a", 1).await.remove(0);
    let abandon = [Write::AbandonVersion {
        version: VersionNumber(2),
        back_to: VersionNumber(1),
        reason: "sick".into(),
    }];
    store
        .commit(&lease, commit(&core(), &abandon, 1))
        .await
        .unwrap();
    let record = store.get_job(&tenant(), &JobRef::Id(job.id)).await.unwrap();
    assert_eq!(record.version, VersionNumber(1));
    assert_eq!(update(1).await.unwrap().version, VersionNumber(3));
    let abandoned = store
        .get_version(&tenant(), job.id, VersionNumber(2))
        .await
        .unwrap();
    assert_eq!(abandoned.rolled_back_reason.as_deref(), Some("sick"));
    database.drop().await;
}

#[tokio::test]
async fn requests_show_at_once_and_reach_the_driver() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let record = store
        .get_job(&tenant(), &JobRef::Id(lease.job))
        .await
        .unwrap();
    assert_eq!(record.state, JobState::Running);
    let mut changes = store.changes().await.unwrap();
    let stopping = store
        .stop_job(&tenant(), lease.job, StopMode::Drain)
        .await
        .unwrap();
    assert_eq!(stopping.state, JobState::Stopping);
    assert_eq!(changes.next().await.unwrap(), Some(lease.job));
    // It holds a connection, which the end of the test would wait for.
    drop(changes);
    let driven = store.load_job(&lease).await.unwrap();
    assert_eq!(
        (driven.command, driven.observed_command, driven.stop_mode),
        (2, 1, StopMode::Drain)
    );
    assert_eq!(driven.core.as_ref(), Some(&job));
    // The stop fails: what is desired is to run again, unless there is a newer request.
    let mut observed = commit(&job, &[Write::DesireRunning], 5);
    observed.observed_command = 2;
    observed.observed_revision = driven.revision;
    store.commit(&lease, observed).await.unwrap();
    let record = store
        .get_job(&tenant(), &JobRef::Id(lease.job))
        .await
        .unwrap();
    assert_eq!(
        (record.state, record.desired),
        (JobState::Running, DesiredState::Running)
    );
    let refused = store
        .start_job(&tenant(), lease.job, StartFrom::Savepoint(SavepointId(9)))
        .await;
    assert!(matches!(refused, Err(StoreError::InvalidState { .. })));
    database.drop().await;
}

#[tokio::test]
async fn a_lease_has_one_holder_and_fences_the_one_before() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let record = create(store, "j").await;
    let first = acquire(store, "a", 1).await.remove(0);
    assert_eq!((first.job, first.epoch), (record.id, Epoch(1)));
    assert!(acquire(store, "b", 2).await.is_empty(), "it is held");
    let renewed = store
        .renew_leases(&[(first.job, first.epoch)], LEASE)
        .await
        .unwrap();
    assert_eq!(renewed, [first.job]);
    // The same replica after a restart need not wait.
    let second = acquire(store, "a", 2).await.remove(0);
    assert_eq!(second.epoch, Epoch(2));
    let renewed = store
        .renew_leases(&[(first.job, first.epoch)], LEASE)
        .await
        .unwrap();
    assert!(renewed.is_empty());
    // Another one must, until the lease has expired.
    sqlx::query("UPDATE jobs SET lease_expires_at = now() - interval '1 second'")
        .execute(store.pool())
        .await
        .unwrap();
    let renewed = store
        .renew_leases(&[(second.job, second.epoch)], Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(renewed, [second.job], "expired, but nobody has taken it");
    let third = acquire(store, "b", 3).await.remove(0);
    assert_eq!(third.epoch, Epoch(3));

    let worker = NewWorker {
        id: WorkerId(Uuid::from_u128(1)),
        slots: 1,
        memory_mib: 128,
    };
    let job = core();
    let event = NewEvent {
        severity: "info",
        kind: "k".into(),
        message: "m".into(),
    };
    let execution = ExecutionId(Uuid::from_u128(1));
    let fenced = [
        store.load_job(&second).await.map(|_| ()),
        store
            .commit(&second, commit(&job, &[], 1))
            .await
            .map(|_| ()),
        store.record_event(&second, &event).await,
        store.add_worker(&second, &worker).await,
        store
            .begin_checkpoint(&second, execution, VersionNumber(1), &barrier(1))
            .await,
        store
            .complete_checkpoint(&second, &barrier(1), &done())
            .await
            .map(|_| ()),
        store.fail_checkpoint(&second, &barrier(1), "x").await,
        store.delete_checkpoint(&second, CheckpointId(1)).await,
        store.next_savepoint(&second).await.map(|_| ()),
        store.place_execution(&second, execution, &[]).await,
        store.forget_job(&second).await,
        store.prune(&second).await,
    ];
    for (number, answer) in fenced.into_iter().enumerate() {
        assert!(
            matches!(answer, Err(StoreError::Fenced { .. })),
            "{number}: {answer:?}"
        );
    }
    assert!(!store.release_lease(&second, true).await.unwrap());
    assert!(
        !store.release_lease(&third, false).await.unwrap(),
        "there is work"
    );
    assert!(store.release_lease(&third, true).await.unwrap());
    assert_eq!(acquire(store, "c", 4).await.len(), 1);
    database.drop().await;
}

#[tokio::test]
async fn a_step_is_committed_once_with_all_it_writes() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let execution = job.execution().unwrap();
    let executions = store
        .list_executions(&tenant(), lease.job, None, 10)
        .await
        .unwrap();
    assert_eq!(executions.len(), 1);
    assert_eq!(executions[0].state, ExecutionState::Running);
    assert_eq!(executions[0].restored_from, None);
    store
        .begin_checkpoint(&lease, execution, VersionNumber(1), &barrier(1))
        .await
        .unwrap();

    let (failed, writes) = step(
        &job,
        Event::Failed {
            execution,
            failure: Failure::retryable("no\0 space"),
        },
        2,
    );
    let events = store
        .commit(&lease, commit(&failed, &writes, 5))
        .await
        .unwrap()
        .events;
    assert_eq!(events.len(), 2, "{events:?}");
    let repeated = store
        .commit(&lease, commit(&failed, &writes, 5))
        .await
        .unwrap();
    assert!(
        repeated.events.is_empty(),
        "the answer was lost, not the step"
    );
    assert!(matches!(
        store.commit(&lease, commit(&failed, &writes, 7)).await,
        Err(StoreError::Corrupt { .. })
    ));
    let record = store
        .get_job(&tenant(), &JobRef::Id(lease.job))
        .await
        .unwrap();
    assert_eq!(record.state, JobState::Restarting);
    assert_eq!(record.reason.as_deref(), Some("no space"));
    assert_eq!(record.failures, 1);
    let closed = store
        .get_execution(&tenant(), lease.job, execution)
        .await
        .unwrap();
    assert_eq!(closed.state, ExecutionState::Failed);
    // Its checkpoint went with it, and cannot be completed any more.
    let completed = store
        .complete_checkpoint(&lease, &barrier(1), &done())
        .await;
    assert!(!completed.unwrap());
    let checkpoints = store
        .list_checkpoints(&tenant(), lease.job, None, 10)
        .await
        .unwrap();
    assert_eq!(checkpoints[0].status, CheckpointStatus::Failed);

    let history = store
        .list_events(&tenant(), lease.job, 0, 100)
        .await
        .unwrap();
    let numbers: Vec<u64> = history.iter().map(|event| event.sequence).collect();
    let expected: Vec<u64> = (1..=history.len() as u64).collect();
    assert_eq!(numbers, expected);
    let after = store
        .list_events(&tenant(), lease.job, 2, 100)
        .await
        .unwrap();
    assert_eq!(after[..], history[2..]);
    database.drop().await;
}

#[tokio::test]
async fn checkpoints_are_completed_kept_and_deleted() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let execution = job.execution().unwrap();
    for id in 1..=3 {
        for _ in 0..2 {
            store
                .begin_checkpoint(&lease, execution, VersionNumber(1), &barrier(id))
                .await
                .unwrap();
        }
        let completed = store
            .complete_checkpoint(&lease, &barrier(id), &done())
            .await;
        assert!(completed.unwrap());
    }
    let again = store
        .complete_checkpoint(&lease, &barrier(3), &done())
        .await;
    assert!(again.unwrap(), "a repetition");
    store
        .delete_checkpoint(&lease, CheckpointId(1))
        .await
        .unwrap();
    let live: Vec<u64> = store
        .live_checkpoints(&lease)
        .await
        .unwrap()
        .iter()
        .map(|record| record.id.0)
        .collect();
    assert_eq!(live, [2, 3]);
    let one = store
        .get_checkpoint(&tenant(), lease.job, CheckpointId(1))
        .await
        .unwrap();
    assert_eq!(one.status, CheckpointStatus::Deleted);
    let driven = store.load_job(&lease).await.unwrap();
    assert_eq!(driven.last_checkpoint, CheckpointId(3));
    let page = store
        .list_checkpoints(&tenant(), lease.job, Some(CheckpointId(3)), 1)
        .await
        .unwrap();
    assert_eq!(page[0].id, CheckpointId(2));
    database.drop().await;
}

#[tokio::test]
async fn savepoints_are_taken_on_request_and_kept_while_needed() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let idle = create(store, "idle").await;
    let refused = store.create_savepoint(&tenant(), idle.id).await;
    assert!(matches!(refused, Err(StoreError::InvalidState { .. })));
    let (lease, job) = running(store, "j").await;
    let execution = job.execution().unwrap();
    let asked = store.create_savepoint(&tenant(), lease.job).await.unwrap();
    assert_eq!(
        (asked.id, asked.status),
        (SavepointId(1), SavepointStatus::InProgress)
    );
    assert!(store.load_job(&lease).await.unwrap().errands);
    assert_eq!(
        store.savepoint_errands(&lease).await.unwrap(),
        [SavepointErrand::Take(SavepointId(1))]
    );
    let with_savepoint = Barrier {
        savepoint: Some(SavepointId(1)),
        ..barrier(1)
    };
    store
        .begin_checkpoint(&lease, execution, VersionNumber(1), &with_savepoint)
        .await
        .unwrap();
    store
        .complete_checkpoint(&lease, &with_savepoint, &done())
        .await
        .unwrap();
    let taken = store
        .get_savepoint(&tenant(), lease.job, SavepointId(1))
        .await
        .unwrap();
    assert_eq!(taken.status, SavepointStatus::Completed);
    assert_eq!(taken.checkpoint, Some(CheckpointId(1)));
    store.clear_errands(&lease).await.unwrap();
    assert!(!store.load_job(&lease).await.unwrap().errands);

    let (job, writes) = step(
        &job,
        Event::CheckpointCompleted {
            execution,
            checkpoint: CheckpointId(1),
            savepoint: Some(SavepointId(1)),
        },
        2,
    );
    store
        .commit(&lease, commit(&job, &writes, 5))
        .await
        .unwrap();
    let needed = store
        .delete_savepoint(&tenant(), lease.job, SavepointId(1))
        .await;
    assert!(matches!(needed, Err(StoreError::InvalidState { .. })));
    let (job, writes) = step(
        &job,
        Event::CheckpointCompleted {
            execution,
            checkpoint: CheckpointId(2),
            savepoint: None,
        },
        2,
    );
    store
        .commit(&lease, commit(&job, &writes, 6))
        .await
        .unwrap();
    store
        .delete_savepoint(&tenant(), lease.job, SavepointId(1))
        .await
        .unwrap();
    assert_eq!(
        store.savepoint_errands(&lease).await.unwrap(),
        [SavepointErrand::Purge(SavepointId(1))]
    );
    store
        .savepoint_purged(&lease, SavepointId(1))
        .await
        .unwrap();
    store.clear_errands(&lease).await.unwrap();
    assert!(!store.load_job(&lease).await.unwrap().errands);
    let from_deleted = store
        .start_job(&tenant(), idle.id, StartFrom::Savepoint(SavepointId(1)))
        .await;
    assert!(from_deleted.is_err());
    database.drop().await;
}

#[tokio::test]
async fn only_workers_that_are_wanted_can_register() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, _) = running(store, "j").await;
    let worker = WorkerId(Uuid::from_u128(1));
    let registration = Registration {
        worker,
        job: lease.job,
        address: "127.0.0.1:1".into(),
        slots: 2,
        pid: 42,
        version: "0.1.0".into(),
        execution: None,
    };
    assert!(!store.register_worker(&registration).await.unwrap());
    let new = NewWorker {
        id: worker,
        slots: 2,
        memory_mib: 128,
    };
    store.add_worker(&lease, &new).await.unwrap();
    let other_job = Registration {
        job: JobId(Uuid::from_u128(9)),
        ..registration.clone()
    };
    assert!(!store.register_worker(&other_job).await.unwrap());
    for _ in 0..2 {
        assert!(store.register_worker(&registration).await.unwrap());
    }
    let rows = store.workers_of(&lease).await.unwrap();
    assert_eq!(rows[0].state, WorkerRowState::Registered);
    assert_eq!(
        (rows[0].pid, rows[0].address.as_deref()),
        (Some(42), Some("127.0.0.1:1"))
    );
    store.worker_gone(&lease, worker, "killed").await.unwrap();
    assert!(!store.register_worker(&registration).await.unwrap());
    assert!(
        store
            .list_workers(Some(lease.job), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    database.drop().await;
}

#[tokio::test]
async fn a_deleted_job_leaves_nothing() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let deleting = store.delete_job(&tenant(), lease.job).await.unwrap();
    assert_eq!(deleting.state, JobState::Stopping);
    let refused = store
        .start_job(&tenant(), lease.job, StartFrom::Latest)
        .await;
    assert!(matches!(refused, Err(StoreError::InvalidState { .. })));
    store
        .begin_checkpoint(
            &lease,
            job.execution().unwrap(),
            VersionNumber(1),
            &barrier(1),
        )
        .await
        .unwrap();
    store.forget_job(&lease).await.unwrap();
    assert!(matches!(
        store.list_events(&tenant(), lease.job, 0, 10).await,
        Err(StoreError::JobNotFound { .. })
    ));
    for table in [
        "jobs",
        "job_versions",
        "executions",
        "workers",
        "checkpoints",
        "savepoints",
        "events",
        "idempotency_keys",
    ] {
        let count = format!("SELECT count(*) FROM {table}");
        let (rows,): (i64,) = sqlx::query_as(sqlx::AssertSqlSafe(count))
            .fetch_one(store.pool())
            .await
            .unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    // Its name is free again.
    create(store, "j").await;
    database.drop().await;
}

#[tokio::test]
async fn old_history_is_pruned() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let records: Vec<Write> = (0..1_100)
        .map(|number| {
            Write::Record(Record {
                severity: Severity::Info,
                kind: "k",
                message: number.to_string(),
            })
        })
        .collect();
    store
        .commit(&lease, commit(&job, &records, 5))
        .await
        .unwrap();
    let attempts: Vec<Write> = (100..1_200)
        .flat_map(|number| {
            let execution = ExecutionId(Uuid::from_u128(number));
            [
                Write::OpenExecution {
                    attempt: Attempt {
                        execution,
                        version: VersionNumber(1),
                    },
                    restore: Restore::Empty,
                },
                Write::CloseExecution {
                    execution,
                    end: ExecutionEnd::Stopped,
                },
            ]
        })
        .collect();
    store
        .commit(&lease, commit(&job, &attempts, 6))
        .await
        .unwrap();
    store.prune(&lease).await.unwrap();
    let count = async |query: &'static str| -> i64 {
        let (rows,): (i64,) = sqlx::query_as(query).fetch_one(store.pool()).await.unwrap();
        rows
    };
    assert_eq!(count("SELECT count(*) FROM events").await, 1_000);
    assert_eq!(
        count("SELECT count(*) FROM executions").await,
        1_001,
        "and the running one"
    );
    database.drop().await;
}

#[tokio::test]
async fn an_absent_database_is_told_from_a_fault() {
    let store = Store::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(store.migrate().await.unwrap_err().is_unavailable());
    assert!(matches!(
        Store::connect_lazy("not a url"),
        Err(StoreError::Url { .. })
    ));
}
