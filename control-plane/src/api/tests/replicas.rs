//! What a replica answers about jobs that another one drives: never that there is nothing.

use std::time::Duration;

use axum::{body::Body, http::StatusCode};
use millrace_types::{Fingerprint, JobId, JobName, JobSpec, TenantName};
use uuid::Uuid;

use super::{Readiness, call, request, router, state_over};
use crate::store::{NewJob, test_database::TestDatabase};

const JOB: &str = "/api/v1/tenants/default/jobs/j";
const LEASE: Duration = Duration::from_secs(30);

async fn create(database: &TestDatabase) -> JobId {
    let new = NewJob {
        spec: JobSpec::new(JobName::new("j").unwrap(), "INSERT INTO t SELECT 1"),
        fingerprint: Fingerprint("f".into()),
        start: true,
        idempotency: None,
    };
    let tenant = TenantName::new("default").unwrap();
    database.store.create_job(&tenant, new).await.unwrap().0.id
}

async fn lease(database: &TestDatabase, replica: &str) {
    let store = &database.store;
    let leases = store.acquire_leases(replica, Uuid::now_v7(), LEASE, &[], 1);
    assert_eq!(leases.await.unwrap().len(), 1, "{replica}");
}

async fn get(database: &TestDatabase, path: &str) -> (StatusCode, serde_json::Value) {
    let state = state_over(database.another_store(), Readiness::Ready);
    let api = router(state, ([127, 0, 0, 1], 7090).into()).unwrap();
    call(api, request("GET", path, None, Body::empty())).await
}

#[tokio::test]
async fn only_the_driving_replica_shows_what_is_live() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    create(&database).await;
    // Nobody has taken it up yet, so nothing was measured.
    let (status, metrics) = get(&database, &format!("{JOB}/metrics")).await;
    assert_eq!(
        (status, &metrics["operators"]),
        (StatusCode::OK, &serde_json::json!([]))
    );

    lease(&database, "there").await;
    for path in ["metrics", "output"] {
        let (status, problem) = get(&database, &format!("{JOB}/{path}")).await;
        assert_eq!(
            (status, problem["code"].as_str()),
            (StatusCode::CONFLICT, Some("driven-elsewhere")),
            "{path}: {problem}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("replica `there`"), "{detail}");
    }
    database.drop().await;
}

#[tokio::test]
async fn a_job_that_runs_without_a_driver_is_not_shown_as_idle() {
    let Some(database) = TestDatabase::create().await else {
        return;
    };
    let job = create(&database).await;
    sqlx::query("UPDATE jobs SET state = 'running', observed_command = command, execution = $2 WHERE id = $1")
        .bind(job.0)
        .bind(Uuid::now_v7())
        .execute(database.store.pool())
        .await
        .unwrap();
    let (status, problem) = get(&database, &format!("{JOB}/metrics")).await;
    assert_eq!(
        (status, problem["code"].as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, Some("no-driver")),
        "{problem}"
    );
    lease(&database, "here").await;
    let (status, _) = get(&database, &format!("{JOB}/metrics")).await;
    assert_eq!(status, StatusCode::OK);
    database.drop().await;
}
