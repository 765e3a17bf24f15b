//! What drivers do under a lease.

use super::*;

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
        store
            .fail_checkpoint(&second, CheckpointId(1), None, "x")
            .await,
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
