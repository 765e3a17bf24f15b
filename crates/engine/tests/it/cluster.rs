//! Runs a script's slots and plays the coordinator.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime},
};

use arrow::array::RecordBatch;
use millrace_connectors::catalog::Connectors;
use millrace_dataflow::{Dataflow, KeyGroupRange, RowKind};
use millrace_engine::{
    Clock, RestoredState,
    channel::BarrierInfo,
    slot::SlotHandle,
    slot_builder::{SlotBuilder, SlotConfig},
    slot_event::{SlotCommand, SlotEvents, SlotFailure, SnapshotTimings},
};
use millrace_sql::CompileOptions;
use millrace_state::{
    FrozenSnapshot, KeyedSnapshot, Layout, OperatorStateItem, SlotStore, StateBudget, UploadedFiles,
};
use millrace_types::{CheckpointId, ExecutionId, JobId, SubtaskIndex, TenantName};

enum Told {
    Snapshot(u32, BarrierInfo, FrozenSnapshot, Vec<OperatorStateItem>),
    Drained(u32),
    Finished(u32),
    Failed(SlotFailure),
    Rows(String),
}

struct Events(mpsc::Sender<Told>);

impl SlotEvents for Events {
    fn snapshot_taken(
        &self,
        subtask: u32,
        barrier: BarrierInfo,
        keyed: FrozenSnapshot,
        operator_state: Vec<OperatorStateItem>,
        _timings: SnapshotTimings,
    ) {
        let _ = self
            .0
            .send(Told::Snapshot(subtask, barrier, keyed, operator_state));
    }
    fn committed(&self, _subtask: u32, _checkpoint: CheckpointId) {}
    fn drained(&self, subtask: u32) {
        let _ = self.0.send(Told::Drained(subtask));
    }
    fn finished(&self, subtask: u32) {
        let _ = self.0.send(Told::Finished(subtask));
    }
    fn failed(&self, failure: SlotFailure) {
        let _ = self.0.send(Told::Failed(failure));
    }
    fn output_rows(
        &self,
        table: &str,
        _subtask: u32,
        rows: &RecordBatch,
        _kinds: Option<&[RowKind]>,
    ) {
        let _ = self
            .0
            .send(Told::Rows(format!("{table}: {} rows", rows.num_rows())));
    }
}

struct WallClock(Instant);

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the test's clock")]
    fn now_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_millis() as i64
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A complete checkpoint.
#[derive(Clone)]
pub struct Completed {
    pub checkpoint: CheckpointId,
    keyed: Vec<(KeyGroupRange, KeyedSnapshot)>,
    items: Vec<OperatorStateItem>,
}

/// How an attempt ended.
pub enum End {
    Finished,
    /// Dropped on purpose after this many checkpoints; the last one.
    Killed(Option<Completed>),
}

pub struct Job {
    pub sql: String,
    dir: PathBuf,
    attempts: u32,
    checkpoints: u64,
    runtime: tokio::runtime::Runtime,
}

impl Job {
    pub fn new(dir: &Path, sql: String) -> Self {
        Job {
            sql,
            dir: dir.to_owned(),
            attempts: 0,
            checkpoints: 0,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    fn compile(&self, parallelism: u32) -> Arc<Dataflow> {
        let mut options = CompileOptions::new(Connectors::shared());
        options.parallelism = parallelism;
        match millrace_sql::compile(&self.sql, &options) {
            Ok(compiled) => Arc::new(compiled.dataflow),
            Err(errors) => panic!(
                "{}",
                errors
                    .iter()
                    .map(|e| e.to_string())
                    .collect::<Vec<_>>()
                    .join("\n")
            ),
        }
    }

    /// Runs from a checkpoint (or empty) to the end, or until `kill_after` checkpoints are complete
    /// and a little more was processed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test paces checkpoints by the wall clock"
    )]
    pub fn run(
        &mut self,
        parallelism: u32,
        from: Option<&Completed>,
        kill_after: Option<u32>,
    ) -> End {
        self.attempts += 1;
        let execution = ExecutionId(uuid_of(self.attempts));
        let job = JobId(uuid_of(1_000_000));
        let dataflow = self.compile(parallelism);
        let objects: Arc<dyn object_store::ObjectStore> = Arc::new(
            object_store::local::LocalFileSystem::new_with_prefix({
                let path = self.dir.join("objects");
                std::fs::create_dir_all(&path).unwrap();
                path
            })
            .unwrap(),
        );
        let layout = Layout::new(
            object_store::path::Path::from("root"),
            TenantName::new("default").unwrap(),
            job,
        );
        let (told_sender, told) = mpsc::channel();
        let events: Arc<dyn SlotEvents> = Arc::new(Events(told_sender));
        let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
        let budget = StateBudget::new(64 << 20);
        let restored = Arc::new(RestoredState {
            restored: from.is_some(),
            items: from.map(|from| from.items.clone()).unwrap_or_default(),
        });
        let mut builders = Vec::new();
        for subtask in 0..parallelism {
            let dir = self
                .dir
                .join(format!("attempt-{}-slot-{subtask}", self.attempts));
            let range = KeyGroupRange::of_subtask(subtask, parallelism, dataflow.max_parallelism);
            if let Some(from) = from {
                self.runtime
                    .block_on(millrace_state::restore(
                        objects.as_ref(),
                        &layout,
                        &from.keyed,
                        range,
                        &dir,
                    ))
                    .unwrap();
            }
            builders.push(SlotBuilder::new(SlotConfig {
                subtask,
                dataflow: dataflow.clone(),
                clock: clock.clone(),
                queue_bytes: 64 << 10,
                state_budget_bytes: 1 << 20,
                job: job.to_string(),
                execution: execution.to_string(),
                restored: restored.clone(),
                store: SlotStore::create(&dir, &budget).unwrap(),
                align: true,
                events: events.clone(),
            }));
        }
        let mut queues = BTreeMap::new();
        for builder in &builders {
            queues.extend(
                builder
                    .queues()
                    .iter()
                    .map(|(id, queue)| (*id, queue.clone())),
            );
        }
        let mut slots = Vec::new();
        for builder in builders {
            let senders = builder.local_senders(&queues);
            match builder.build(senders) {
                Ok(slot) => slots.push(slot),
                Err(failure) => panic!("{}: {}", failure.operator, failure.reason),
            }
        }
        let handles: Vec<SlotHandle> = slots
            .into_iter()
            .map(|slot| slot.start().unwrap())
            .collect();
        let mut uploads: Vec<UploadedFiles> =
            (0..parallelism).map(|_| UploadedFiles::default()).collect();
        let mut drained = BTreeSet::new();
        let mut finished = 0;
        let mut latest: Option<Completed> = None;
        let mut pending: Option<(
            CheckpointId,
            BTreeMap<u32, (KeyedSnapshot, Vec<OperatorStateItem>)>,
        )> = None;
        let mut completed = 0;
        let mut is_final = false;
        let deadline = Instant::now() + Duration::from_secs(120);
        let tell = |command: SlotCommand| handles.iter().for_each(|handle| handle.command(command));
        let end = loop {
            assert!(
                Instant::now() < deadline,
                "the job hangs: drained {drained:?}, pending {:?}",
                pending.as_ref().map(|p| p.0)
            );
            if pending.is_none() && !is_final {
                self.checkpoints += 1;
                let checkpoint = CheckpointId(self.checkpoints);
                is_final = drained.len() == parallelism as usize;
                pending = Some((checkpoint, BTreeMap::new()));
                tell(SlotCommand::TriggerCheckpoint(BarrierInfo {
                    checkpoint,
                    savepoint: None,
                    stop_after: false,
                }));
            }
            match told.recv_timeout(Duration::from_millis(20)) {
                Ok(Told::Snapshot(subtask, barrier, frozen, items)) => {
                    let dir = self.dir.join(format!(
                        "snapshot-{}-{subtask}-{}",
                        self.attempts, barrier.checkpoint
                    ));
                    let local = frozen.persist(&dir).unwrap();
                    let keyed = self
                        .runtime
                        .block_on(millrace_state::upload_incremental(
                            objects.as_ref(),
                            &layout,
                            local,
                            &mut uploads[subtask as usize],
                            barrier.checkpoint,
                            execution,
                            SubtaskIndex(subtask),
                        ))
                        .unwrap();
                    let Some((checkpoint, acks)) = &mut pending else {
                        panic!("unasked snapshot")
                    };
                    assert_eq!(*checkpoint, barrier.checkpoint);
                    acks.insert(subtask, (keyed, items));
                    if acks.len() == parallelism as usize {
                        let (checkpoint, acks) = pending.take().unwrap();
                        let mut done = Completed {
                            checkpoint,
                            keyed: Vec::new(),
                            items: Vec::new(),
                        };
                        for (subtask, (keyed, items)) in acks {
                            let range = KeyGroupRange::of_subtask(
                                subtask,
                                parallelism,
                                dataflow.max_parallelism,
                            );
                            done.keyed.push((range, keyed));
                            done.items.extend(items);
                        }
                        completed += 1;
                        latest = Some(done);
                        if kill_after == Some(completed) {
                            // Before the commit: the next attempt has to make up for it.
                            std::thread::sleep(Duration::from_millis(5));
                            break End::Killed(latest.take());
                        }
                        tell(SlotCommand::CheckpointCompleted {
                            checkpoint,
                            is_final,
                        });
                    }
                }
                Ok(Told::Drained(subtask)) => {
                    drained.insert(subtask);
                }
                Ok(Told::Finished(_)) => {
                    finished += 1;
                    if finished == parallelism {
                        break End::Finished;
                    }
                }
                Ok(Told::Failed(failure)) => panic!("{}: {}", failure.operator, failure.reason),
                Ok(Told::Rows(_)) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => panic!("all slots are gone"),
            }
        };
        tell(SlotCommand::Cancel);
        handles.iter().for_each(SlotHandle::join);
        end
    }
}

fn uuid_of(number: u32) -> uuid::Uuid {
    uuid::Uuid::from_u128(u128::from(number))
}

/// All lines of the published files of a sink, sorted.
pub fn published(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            lines.extend(
                std::fs::read_to_string(&path)
                    .unwrap()
                    .lines()
                    .map(str::to_owned),
            );
        }
    }
    lines.sort();
    lines
}
