//! A database, a storage directory, a fleet of pretended workers, and drivers over them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use millrace_dataflow::{ENCODING_VERSION, KeyGroupRange};
use millrace_sql::AnyConnector;
use millrace_state::{
    KeyedSnapshot, Layout, SlotSnapshot, SnapshotKind, SnapshotManifest,
    manifest::{self, MANIFEST_FORMAT},
    storage,
};
use millrace_types::{
    CheckpointStatus, Fingerprint, JobId, JobName, JobSpec, JobState, Millis, SavepointId,
    SubtaskIndex, TenantName,
};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use crate::{
    config::ControlPlaneConfig,
    driver::{self, Parts},
    live::LiveJobs,
    sql::Compiler,
    store::{
        CheckpointRecord, ExecutionRecord, JobRecord, JobRef, NewJob, SavepointRecord, Store,
        test_database::{SOON, TestDatabase},
    },
};

const SCRIPT: &str = "
    CREATE TABLE s (x INT) WITH ('connector' = 'datagen');
    CREATE TABLE t (x INT) WITH ('connector' = 'blackhole');
    INSERT INTO t SELECT x FROM s;";

pub(super) struct Rig {
    pub(super) database: TestDatabase,
    pub(super) fleet: Fleet,
    pub(super) tenant: TenantName,
    storage: TempDir,
}

/// A driver under test.
pub(super) struct Driver {
    pub(super) live: LiveJobs,
    shutdown: CancellationToken,
    handle: JoinHandle<()>,
}

impl Driver {
    /// As a process that is told to end.
    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(SOON, self.handle)
            .await
            .expect("the driver ends in time")
            .expect("the driver ends well");
    }

    /// As a process that is killed.
    pub(super) async fn crash(self) {
        self.handle.abort();
        let _ = self.handle.await;
    }
}

impl Rig {
    /// Absent where there is no database server.
    pub(super) async fn new() -> Option<Self> {
        let database = TestDatabase::create().await?;
        let fleet = Fleet::new(database.another_store());
        Some(Rig {
            database,
            fleet,
            tenant: TenantName::new("default").expect("a name"),
            storage: tempfile::tempdir().expect("a directory"),
        })
    }

    pub(super) fn store(&self) -> &Store {
        &self.database.store
    }

    pub(super) fn start_driver(&self, name: &str) -> Driver {
        self.start_driver_on(name, self.database.another_store())
    }

    pub(super) fn start_driver_on(&self, name: &str, store: Store) -> Driver {
        let mut config = ControlPlaneConfig::new("postgres://unused");
        config.storage_url = format!("file://{}", self.storage.path().display());
        config.replica = Some(name.to_owned());
        config.lease_duration = Duration::from_secs(2);
        config.lease_renewal = Duration::from_millis(300);
        config.poll_interval = Duration::from_millis(100);
        config.worker_silence = Duration::from_secs(3);
        let live = LiveJobs::default();
        let compiler = Compiler::new(Arc::new(AnyConnector));
        let parts = Parts::new(store, live.clone(), self.fleet.clone(), compiler, config)
            .expect("usable storage");
        let shutdown = CancellationToken::new();
        let handle = driver::spawn(parts, shutdown.clone());
        Driver {
            live,
            shutdown,
            handle,
        }
    }

    /// Creates and starts a job with a checkpoint every 100 ms.
    pub(super) async fn create(&self, name: &str, change: impl FnOnce(&mut JobSpec)) -> JobId {
        let mut spec = JobSpec::new(JobName::new(name).expect("a name"), SCRIPT);
        spec.checkpointing.interval = Millis(100);
        spec.restart.initial_delay = Millis(50);
        change(&mut spec);
        let new = NewJob {
            spec,
            fingerprint: Fingerprint("f".into()),
            start: true,
            idempotency: None,
        };
        let created = self.store().create_job(&self.tenant, new).await;
        created.expect("a new job").0.id
    }

    pub(super) async fn job(&self, job: JobId) -> JobRecord {
        self.store()
            .get_job(&self.tenant, &JobRef::Id(job))
            .await
            .expect("the job")
    }

    pub(super) async fn executions(&self, job: JobId) -> Vec<ExecutionRecord> {
        self.store()
            .list_executions(&self.tenant, job, None, 100)
            .await
            .expect("executions")
    }

    /// Newest first.
    pub(super) async fn checkpoints(&self, job: JobId) -> Vec<CheckpointRecord> {
        self.store()
            .list_checkpoints(&self.tenant, job, None, 500)
            .await
            .expect("checkpoints")
    }

    pub(super) async fn savepoint(&self, job: JobId, savepoint: SavepointId) -> SavepointRecord {
        self.store()
            .get_savepoint(&self.tenant, job, savepoint)
            .await
            .expect("the savepoint")
    }

    pub(super) async fn event_kinds(&self, job: JobId) -> Vec<String> {
        self.store()
            .list_events(&self.tenant, job, 0, 1_000)
            .await
            .expect("events")
            .into_iter()
            .map(|event| event.kind)
            .collect()
    }

    /// The newest completed one, 0 if none.
    pub(super) async fn newest_checkpoint(&self, job: JobId) -> u64 {
        self.checkpoints(job)
            .await
            .iter()
            .find(|record| record.status == CheckpointStatus::Completed)
            .map_or(0, |record| record.id.0)
    }

    /// Waits until checkpoint `id` or a later one is complete.
    pub(super) async fn until_checkpoint(&self, job: JobId, id: u64) -> u64 {
        self.until(&format!("checkpoint {id} is complete"), async || {
            self.newest_checkpoint(job).await >= id
        })
        .await;
        self.newest_checkpoint(job).await
    }

    pub(super) async fn until_state(&self, job: JobId, state: JobState) -> JobRecord {
        self.until(&format!("the job is {state}"), async || {
            self.job(job).await.state == state
        })
        .await;
        self.job(job).await
    }

    /// Waits for something, and tells the story if it does not come.
    pub(super) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let deadline = tokio::time::Instant::now() + SOON;
        while !is_so().await {
            if tokio::time::Instant::now() > deadline {
                panic!("{what}: not within {SOON:?}\n{}", self.story().await);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn story(&self) -> String {
        let mut story = format!("calls: {:#?}\n", self.fleet.calls());
        let jobs = self
            .store()
            .list_jobs(&self.tenant, &Default::default(), None, 10)
            .await;
        for job in jobs.unwrap_or_default() {
            story += &format!("{job:#?}\n");
            let events = self.store().list_events(&self.tenant, job.id, 0, 200).await;
            for event in events.unwrap_or_default() {
                story += &format!("{} {}: {}\n", event.at, event.kind, event.message);
            }
        }
        story
    }

    /// Whether an object (or, for an empty path, any) of the job exists.
    pub(super) fn object_exists(&self, job: JobId, path: &str) -> bool {
        let dir: PathBuf = self
            .storage
            .path()
            .join(self.tenant.as_str())
            .join(job.to_string());
        if path.is_empty() {
            return dir.is_dir() && holds_files(&dir);
        }
        dir.join(path).exists()
    }

    /// Writes the manifest of a savepoint of a stateless job, as a driver does before the rows.
    pub(super) async fn write_manifest(&self, job: JobId, record: &CheckpointRecord) {
        let url = format!("file://{}", self.storage.path().display());
        let (storage, root) = storage::open(&url).expect("usable storage");
        let layout = Layout::new(root, self.tenant.clone(), job);
        let spec = self.job(job).await.spec;
        let slot = SlotSnapshot {
            subtask: SubtaskIndex(0),
            key_groups: KeyGroupRange::of_subtask(0, 1, spec.max_parallelism),
            keyed: KeyedSnapshot::Empty,
            operator_state: Vec::new(),
        };
        let manifest = SnapshotManifest {
            format: MANIFEST_FORMAT,
            tenant: self.tenant.clone(),
            job,
            checkpoint: record.id,
            kind: SnapshotKind::Savepoint(record.savepoint.expect("a savepoint")),
            created_at_ms: 1,
            execution: record.execution,
            fingerprint: Fingerprint("f".into()),
            parallelism: 1,
            max_parallelism: spec.max_parallelism,
            key_encoding: ENCODING_VERSION,
            slots: vec![slot],
        };
        manifest::write(&*storage, &layout, &manifest)
            .await
            .expect("a written manifest");
    }

    pub(super) async fn drop(self) {
        self.fleet.end();
        self.database.drop().await;
    }
}

fn holds_files(dir: &std::path::Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.is_file() || holds_files(&path))
}
