//! The control plane is killed while a savepoint is in flight, and another driver follows.

use millrace_types::{
    CheckpointStatus, JobId, JobState, SavepointId, SavepointStatus, StartFrom, StopMode,
    UpgradeMode, VersionNumber,
};

use super::rig::Rig;

const SAVEPOINT: SavepointId = SavepointId(1);

/// What wants the savepoint.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Request,
    Stop,
    Upgrade,
}

impl Rig {
    /// Has savepoint 1 taken and kills the driver when its barrier has reached the worker.
    async fn killed_while_taken(&self, wanted: Wanted) -> JobId {
        let driver = self.start_driver("a");
        let job = self.create("j", |_| {}).await;
        self.until_checkpoint(job, 1).await;
        self.fleet.hold_savepoints(true);
        match wanted {
            Wanted::Request => {
                let asked = self.store().create_savepoint(&self.tenant, job).await;
                assert_eq!(asked.unwrap().id, SAVEPOINT);
            }
            Wanted::Stop => {
                let stop = self
                    .store()
                    .stop_job(&self.tenant, job, StopMode::Savepoint);
                stop.await.unwrap();
            }
            Wanted::Upgrade => {
                let record = self.job(job).await;
                let mut spec = record.spec.clone();
                spec.sql = spec.sql.replace("SELECT x", "SELECT x + 1");
                spec.upgrade = UpgradeMode::Savepoint;
                self.store()
                    .update_job(
                        &self.tenant,
                        job,
                        VersionNumber(1),
                        spec,
                        record.fingerprint,
                    )
                    .await
                    .unwrap();
            }
        }
        self.until("the barrier is on its way", async || {
            self.fleet.said("savepoint 1")
        })
        .await;
        driver.crash().await;
        let savepoint = self.savepoint(job, SAVEPOINT).await;
        assert_eq!(savepoint.status, SavepointStatus::InProgress, "{wanted:?}");
        self.fleet.hold_savepoints(false);
        job
    }

    async fn assert_completed(&self, job: JobId) {
        let savepoint = self.savepoint(job, SAVEPOINT).await;
        assert_eq!(
            (savepoint.status, savepoint.failure),
            (SavepointStatus::Completed, None)
        );
        let checkpoints = self.checkpoints(job).await;
        let written = checkpoints
            .iter()
            .find(|record| Some(record.id) == savepoint.checkpoint)
            .expect("the checkpoint that wrote it");
        assert_eq!(
            (written.status, written.savepoint, &written.manifest),
            (
                CheckpointStatus::Completed,
                Some(SAVEPOINT),
                &savepoint.manifest
            )
        );
    }

    async fn assert_starts_from_it(&self, job: JobId) {
        let start = self
            .store()
            .start_job(&self.tenant, job, StartFrom::Savepoint(SAVEPOINT));
        start.await.unwrap();
        self.until_state(job, JobState::Running).await;
        let restored = self.fleet.last_restore();
        assert!(
            restored.ends_with("savepoint-1/manifest.json"),
            "{restored}"
        );
    }
}

#[tokio::test]
async fn a_savepoint_in_flight_is_taken_again_and_completes() {
    for wanted in [Wanted::Request, Wanted::Stop, Wanted::Upgrade] {
        let Some(rig) = Rig::new().await else { return };
        let job = rig.killed_while_taken(wanted).await;
        let driver = rig.start_driver("a");
        rig.until(&format!("{wanted:?} is done"), async || {
            let record = rig.job(job).await;
            match wanted {
                Wanted::Request => {
                    rig.savepoint(job, SAVEPOINT).await.status != SavepointStatus::InProgress
                }
                Wanted::Stop => record.state == JobState::Stopped,
                Wanted::Upgrade => {
                    record.state == JobState::Running
                        && record.running_version == Some(VersionNumber(2))
                }
            }
        })
        .await;
        rig.assert_completed(job).await;
        assert_eq!(rig.fleet.count("savepoint 1"), 2, "{wanted:?}");
        if wanted != Wanted::Stop {
            let stop = rig.store().stop_job(&rig.tenant, job, StopMode::Now);
            stop.await.unwrap();
            rig.until_state(job, JobState::Stopped).await;
        }
        rig.assert_starts_from_it(job).await;
        driver.stop().await;
        rig.drop().await;
    }
}

#[tokio::test]
async fn a_savepoint_whose_manifest_is_written_is_complete() {
    let Some(rig) = Rig::new().await else { return };
    let job = rig.killed_while_taken(Wanted::Stop).await;
    let in_flight = rig.checkpoints(job).await.remove(0);
    assert_eq!(in_flight.savepoint, Some(SAVEPOINT));
    rig.write_manifest(job, &in_flight).await;
    let driver = rig.start_driver("a");
    rig.until_state(job, JobState::Stopped).await;
    rig.assert_completed(job).await;
    let savepoint = rig.savepoint(job, SAVEPOINT).await;
    assert_eq!(savepoint.checkpoint, Some(in_flight.id));
    assert_eq!(rig.fleet.count("savepoint 1"), 1, "not taken again");
    rig.assert_starts_from_it(job).await;
    driver.stop().await;
    rig.drop().await;
}
