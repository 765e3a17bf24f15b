//! What the API does with jobs.

use super::*;

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
async fn a_drained_job_does_not_go_on_where_its_windows_are_closed() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let stop = async || {
        store
            .stop_job(&tenant(), lease.job, StopMode::Drain)
            .await
            .unwrap()
    };
    let start = async |from| store.start_job(&tenant(), lease.job, from).await;
    // No driver has taken it in: nothing is drained yet.
    stop().await;
    start(StartFrom::Latest).await.unwrap();
    stop().await;
    let driven = store.load_job(&lease).await.unwrap();
    let event = Event::Stop {
        mode: StopMode::Drain,
        savepoint: SavepointId(1),
    };
    let (draining, writes) = step(&job, event, 1);
    let mut observed = commit(&draining, &writes, 5);
    observed.observed_command = driven.command;
    observed.observed_revision = driven.revision;
    store.commit(&lease, observed).await.unwrap();
    let refused = start(StartFrom::Latest).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Drained {
                state: JobState::Stopping
            })
        ),
        "{refused:?}"
    );
    // A start from elsewhere is the owner's choice, and makes the next one an ordinary one.
    start(StartFrom::Empty).await.unwrap();
    start(StartFrom::Latest).await.unwrap();
    database.drop().await;
}

#[tokio::test]
async fn a_change_is_noted_in_the_history_under_its_number() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let job = create(store, "j").await;
    store
        .change_job(
            &tenant(),
            job.id,
            VersionNumber(1),
            spec("j"),
            Fingerprint("f2".into()),
            |version| {
                Some(NewEvent {
                    severity: "warning",
                    kind: "state-diff".into(),
                    message: format!("version {version}"),
                })
            },
        )
        .await
        .unwrap();
    let events = store.list_events(&tenant(), job.id, 0, 10).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.kind.as_str(), event.message.as_str()))
        .collect();
    assert_eq!(told, [("state-diff", "version 2")]);
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
