//! Checkpoints and savepoints.

use super::*;

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
async fn a_savepoint_follows_the_barrier_that_wrote_it() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let store = &database.store;
    let (lease, job) = running(store, "j").await;
    let execution = job.execution().unwrap();
    let savepoint = store
        .create_savepoint(&tenant(), lease.job)
        .await
        .unwrap()
        .id;
    // Two barriers are given up, the second with the savepoint, and a third writes it.
    for (id, failed, expected) in [
        (1, None, SavepointStatus::InProgress),
        (2, Some(savepoint), SavepointStatus::Failed),
        (3, None, SavepointStatus::Completed),
    ] {
        let with_savepoint = Barrier {
            savepoint: Some(savepoint),
            ..barrier(id)
        };
        store
            .begin_checkpoint(&lease, execution, VersionNumber(1), &with_savepoint)
            .await
            .unwrap();
        if id == 3 {
            let completed = store
                .complete_checkpoint(&lease, &with_savepoint, &done())
                .await;
            assert!(completed.unwrap());
        } else {
            store
                .fail_checkpoint(&lease, CheckpointId(id), failed, "lost")
                .await
                .unwrap();
        }
        let row = store
            .get_savepoint(&tenant(), lease.job, savepoint)
            .await
            .unwrap();
        assert_eq!(row.status, expected, "after barrier {id}");
        assert_eq!(row.failure.is_some(), id == 2);
        assert_eq!(row.checkpoint, (id == 3).then_some(CheckpointId(3)));
    }
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
