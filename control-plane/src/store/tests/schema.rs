//! The schema against the types, and the absence of the database.

use std::collections::BTreeSet;

use super::*;

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
