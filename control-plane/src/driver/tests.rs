//! The driver on real Postgres and object storage, with workers that only pretend.

mod fleet;
mod outage;
mod rig;
mod savepoint_takeover;

use std::time::Duration;

use millrace_types::{
    CheckpointStatus, DesiredState, JobState, SavepointId, SavepointStatus, StartFrom, StopMode,
    UpgradeMode, VersionNumber,
};
use tonic::Status;

use self::rig::Rig;
use crate::store::StoreError;

#[tokio::test]
async fn a_job_runs_takes_checkpoints_and_survives_its_workers() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig
        .create("j", |spec| {
            spec.parallelism = 3;
            spec.resources.workers = 2;
        })
        .await;
    let running = rig.until_state(job, JobState::Running).await;
    let first = running.execution.unwrap();
    assert_eq!(rig.fleet.subtasks(), [vec![0, 1], vec![2]]);
    let newest = rig.until_checkpoint(job, 5).await;
    rig.until("no more than three checkpoints are kept", async || {
        let kept = rig.checkpoints(job).await.into_iter();
        kept.filter(|record| record.status == CheckpointStatus::Completed)
            .count()
            <= 3
    })
    .await;
    rig.until("old checkpoints are deleted", async || {
        !rig.object_exists(job, "chk-1/manifest.json")
    })
    .await;

    rig.fleet.kill_one("a worker was killed by signal 9");
    rig.until("another execution runs", async || {
        let record = rig.job(job).await;
        record.state == JobState::Running && record.execution != Some(first)
    })
    .await;
    let executions = rig.executions(job).await;
    assert_eq!(
        executions[1].failure.as_deref(),
        Some("a worker was killed by signal 9")
    );
    let restored = executions[0].restored_from.clone().unwrap();
    let id: u64 = restored
        .strip_prefix("checkpoint ")
        .unwrap()
        .parse()
        .unwrap();
    assert!(id >= newest, "{restored} after {newest}");
    let manifest = rig.fleet.last_restore();
    assert!(
        manifest.ends_with(&format!("chk-{id}/manifest.json")),
        "{manifest}"
    );
    let after = rig.until_checkpoint(job, id + 1).await;
    assert!(after > id);
    let kinds = rig.event_kinds(job).await;
    for kind in ["running", "execution-failed", "restart-scheduled"] {
        assert!(kinds.iter().any(|known| known == kind), "{kinds:?}");
    }
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_worker_that_is_silent_is_lost_and_ended() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_checkpoint(job, 1).await;
    let first = rig.job(job).await.execution;
    rig.fleet.hang_one();
    rig.until("another execution runs", async || {
        let record = rig.job(job).await;
        record.state == JobState::Running && record.execution != first
    })
    .await;
    let failure = rig.executions(job).await[1].failure.clone().unwrap();
    assert!(
        failure.contains("has not been heard of for 3 s"),
        "{failure}"
    );
    assert_eq!(rig.fleet.alive(), 1, "the silent one is gone");
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_job_stops_with_a_savepoint_and_starts_from_what_is_asked_for() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_state(job, JobState::Running).await;
    let asked = rig
        .store()
        .create_savepoint(&rig.tenant, job)
        .await
        .unwrap();
    driver.live.wake(job);
    rig.until("the savepoint is there", async || {
        rig.savepoint(job, asked.id).await.status == SavepointStatus::Completed
    })
    .await;
    rig.store()
        .stop_job(&rig.tenant, job, StopMode::Savepoint)
        .await
        .unwrap();
    rig.until_state(job, JobState::Stopped).await;
    assert_eq!(rig.fleet.alive(), 0, "workers end with their job");
    let stop = rig.savepoint(job, SavepointId(2)).await;
    assert_eq!(
        (stop.status, stop.origin.as_str()),
        (SavepointStatus::Completed, "stop")
    );
    assert!(rig.fleet.said("notify final"));

    for (from, manifest) in [
        (StartFrom::Latest, "savepoint-2/manifest.json"),
        (
            StartFrom::Savepoint(SavepointId(1)),
            "savepoint-1/manifest.json",
        ),
        (StartFrom::Empty, ""),
    ] {
        rig.store().start_job(&rig.tenant, job, from).await.unwrap();
        rig.until_state(job, JobState::Running).await;
        let restored = rig.fleet.last_restore();
        assert!(
            restored.ends_with(manifest) && restored.is_empty() == manifest.is_empty(),
            "{from:?}: {restored}"
        );
        rig.store()
            .stop_job(&rig.tenant, job, StopMode::Now)
            .await
            .unwrap();
        rig.until_state(job, JobState::Stopped).await;
    }
    assert!(rig.object_exists(job, "savepoint-1/manifest.json"));
    rig.store()
        .delete_savepoint(&rig.tenant, job, SavepointId(1))
        .await
        .unwrap();
    rig.until("its objects are deleted", async || {
        !rig.object_exists(job, "savepoint-1/manifest.json")
    })
    .await;
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_bounded_job_takes_its_last_checkpoint_and_finishes() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig
        .create("j", |spec| spec.checkpointing.interval.0 = 0)
        .await;
    rig.until_state(job, JobState::Running).await;
    let mut rows = driver.live.lossless_output(job);
    rig.fleet.end_inputs();
    let finished = rig.until_state(job, JobState::Finished).await;
    assert_eq!(finished.execution, None);
    let checkpoints = rig.checkpoints(job).await;
    assert_eq!(checkpoints.len(), 1);
    assert!(checkpoints[0].last);
    assert!(rows.recv().await.is_none(), "no more rows");
    // Drained on request, an endless job ends likewise, but stopped.
    rig.store()
        .start_job(&rig.tenant, job, StartFrom::Empty)
        .await
        .unwrap();
    rig.until_state(job, JobState::Running).await;
    rig.store()
        .stop_job(&rig.tenant, job, StopMode::Drain)
        .await
        .unwrap();
    rig.until_state(job, JobState::Stopped).await;
    assert!(rig.fleet.said("drain"));
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_crashed_driver_is_followed_by_one_that_adopts_the_running_job() {
    let Some(rig) = Rig::new().await else { return };
    let first = rig.start_driver("a");
    let job = rig.create("j", |spec| spec.parallelism = 2).await;
    rig.until_state(job, JobState::Running).await;
    let before = rig.until_checkpoint(job, 2).await;
    let execution = rig.job(job).await.execution;
    first.crash().await;
    let deployed = rig.fleet.count("deploy");
    // Under the same name at once, under another when the lease has expired.
    for (name, wait) in [("a", Duration::ZERO), ("b", Duration::from_secs(1))] {
        let epoch = rig.fleet.epoch();
        let begun = tokio::time::Instant::now();
        let next = rig.start_driver(name);
        rig.until("the next driver has attached", async || {
            rig.fleet.epoch() > epoch
        })
        .await;
        assert!(begun.elapsed() >= wait, "{name} came too soon");
        let id = rig.newest_checkpoint(job).await;
        rig.until_checkpoint(job, id + 2).await;
        let record = rig.job(job).await;
        assert_eq!(
            (record.state, record.execution),
            (JobState::Running, execution)
        );
        assert_eq!(
            rig.fleet.count("deploy"),
            deployed,
            "nothing is deployed again"
        );
        next.crash().await;
    }
    let ids: Vec<u64> = rig
        .checkpoints(job)
        .await
        .iter()
        .map(|record| record.id.0)
        .collect();
    let mut sorted = ids.clone();
    sorted.sort_by(|a, b| b.cmp(a));
    sorted.dedup();
    assert_eq!(ids, sorted, "ids only grow");
    assert!(ids[0] > before);
    rig.drop().await;
}

#[tokio::test]
async fn a_driver_without_its_database_goes_on_when_it_is_back() {
    let Some(rig) = Rig::new().await else { return };
    let proxy = outage::Proxy::start(&rig.database.options).await;
    let driver = rig.start_driver_on("a", proxy.store());
    let job = rig.create("j", |_| {}).await;
    rig.until_state(job, JobState::Running).await;
    let execution = rig.job(job).await.execution;
    rig.until_checkpoint(job, 1).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.fleet.alive(), 1, "workers go on");
    let id = rig.newest_checkpoint(job).await;
    proxy.mend();
    rig.until_checkpoint(job, id + 2).await;
    assert_eq!(rig.job(job).await.execution, execution);
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn what_fails_is_retried_degraded_or_given_up() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    rig.fleet
        .refuse_deployments(Some(Status::unavailable("disk 1 is full")));
    let job = rig
        .create("j", |spec| {
            spec.restart.initial_delay.0 = 10;
            spec.restart.max_delay.0 = 50;
            spec.restart.degraded_after = 3;
        })
        .await;
    rig.until("the job is degraded", async || {
        rig.job(job).await.condition == millrace_types::Condition::Degraded
    })
    .await;
    let degraded = rig.job(job).await;
    assert_eq!(degraded.reason.as_deref(), Some("disk 1 is full"));
    rig.fleet.refuse_deployments(None);
    rig.until_state(job, JobState::Running).await;
    rig.until("it recovers", async || {
        rig.job(job).await.condition == millrace_types::Condition::Healthy
    })
    .await;
    rig.fleet
        .refuse_deployments(Some(Status::failed_precondition("the fingerprints differ")));
    rig.fleet.kill_one("a worker was killed by signal 9");
    let failed = rig.until_state(job, JobState::Failed).await;
    assert_eq!(failed.reason.as_deref(), Some("the fingerprints differ"));
    assert_eq!(rig.fleet.alive(), 0);
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn an_upgrade_that_fails_is_rolled_back_with_its_version() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_checkpoint(job, 1).await;
    // First one that works, to another parallelism.
    let record = rig.job(job).await;
    let mut wider = record.spec.clone();
    wider.parallelism = 4;
    wider.resources.workers = 2;
    let fingerprint = record.fingerprint.clone();
    rig.store()
        .update_job(
            &rig.tenant,
            job,
            VersionNumber(1),
            wider.clone(),
            fingerprint.clone(),
        )
        .await
        .unwrap();
    rig.until("version 2 runs", async || {
        let record = rig.job(job).await;
        record.state == JobState::Running && record.running_version == Some(VersionNumber(2))
    })
    .await;
    assert!(
        rig.fleet
            .last_restore()
            .ends_with("savepoint-1/manifest.json")
    );
    assert_eq!(rig.fleet.subtasks(), [vec![0, 1], vec![2, 3]]);
    rig.until("it is proven", async || {
        rig.event_kinds(job)
            .await
            .iter()
            .any(|kind| kind == "version-healthy")
    })
    .await;
    // Then one that does not.
    let mut broken = wider.clone();
    broken.sql = broken.sql.replace("SELECT x", "SELECT x + 1");
    broken.upgrade = UpgradeMode::LastState;
    rig.fleet
        .refuse_version(3, Status::failed_precondition("no such file"));
    rig.store()
        .update_job(&rig.tenant, job, VersionNumber(2), broken, fingerprint)
        .await
        .unwrap();
    rig.until("version 2 runs again", async || {
        let rolled_back = rig
            .event_kinds(job)
            .await
            .iter()
            .any(|kind| kind == "rolled-back");
        let record = rig.job(job).await;
        rolled_back
            && record.state == JobState::Running
            && record.running_version == Some(VersionNumber(2))
    })
    .await;
    assert_eq!(rig.job(job).await.version, VersionNumber(2));
    let version = rig
        .store()
        .get_version(&rig.tenant, job, VersionNumber(3))
        .await
        .unwrap();
    assert_eq!(version.rolled_back_reason.as_deref(), Some("no such file"));
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_failed_stop_leaves_the_job_running_and_says_so() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_checkpoint(job, 1).await;
    rig.fleet.fail_savepoints(true);
    rig.store()
        .stop_job(&rig.tenant, job, StopMode::Savepoint)
        .await
        .unwrap();
    rig.until("the stop has failed", async || {
        rig.event_kinds(job)
            .await
            .iter()
            .any(|kind| kind == "stop-failed")
    })
    .await;
    let record = rig.job(job).await;
    assert_eq!(
        (record.state, record.desired),
        (JobState::Running, DesiredState::Running)
    );
    assert_eq!(
        rig.savepoint(job, SavepointId(1)).await.status,
        SavepointStatus::Failed
    );
    rig.fleet.fail_savepoints(false);
    rig.store()
        .stop_job(&rig.tenant, job, StopMode::Savepoint)
        .await
        .unwrap();
    rig.until_state(job, JobState::Stopped).await;
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_shutdown_suspends_jobs_and_the_next_start_resumes_them() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_checkpoint(job, 1).await;
    driver.stop().await;
    assert_eq!(rig.fleet.alive(), 0);
    let newest = rig.newest_checkpoint(job).await;
    let last = rig.checkpoints(job).await.remove(0);
    assert!(last.last, "a checkpoint was taken on the way down");
    let driver = rig.start_driver("b");
    let record = rig.until_state(job, JobState::Running).await;
    assert_eq!(record.failures, 0);
    let executions = rig.executions(job).await;
    assert_eq!(
        executions[0].restored_from.as_deref(),
        Some(format!("checkpoint {newest}").as_str())
    );
    assert_eq!(executions[1].state.as_str(), "suspended");
    driver.stop().await;
    rig.drop().await;
}

#[tokio::test]
async fn a_deleted_job_leaves_no_rows_objects_or_workers() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig.create("j", |_| {}).await;
    rig.until_checkpoint(job, 1).await;
    rig.store().delete_job(&rig.tenant, job).await.unwrap();
    rig.until("the job is gone", async || {
        let found = rig.store().list_events(&rig.tenant, job, 0, 1).await;
        matches!(found, Err(StoreError::JobNotFound { .. }))
    })
    .await;
    assert_eq!(rig.fleet.alive(), 0);
    assert!(!rig.object_exists(job, ""), "no object is left");
    driver.stop().await;
    rig.drop().await;
}

/// A worker that has said that its execution is over has nothing left that its job waits for,
/// however long its process takes.
#[tokio::test]
async fn a_job_does_not_wait_for_processes_of_workers_that_have_ended_it() {
    let Some(rig) = Rig::new().await else { return };
    let driver = rig.start_driver("a");
    let job = rig
        .create("j", |spec| {
            spec.parallelism = 2;
            spec.resources.workers = 2;
        })
        .await;
    rig.until_state(job, JobState::Running).await;
    rig.until_checkpoint(job, 1).await;
    rig.fleet.linger(true);
    let asked = std::time::Instant::now();
    let stop = rig.store().stop_job(&rig.tenant, job, StopMode::Now);
    stop.await.unwrap();
    driver.live.wake(job);
    rig.until_state(job, JobState::Stopped).await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!((rig.fleet.count("shutdown"), rig.fleet.alive()), (2, 0));
    rig.fleet.linger(false);
    driver.stop().await;
    rig.drop().await;
}
