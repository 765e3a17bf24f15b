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
    channel::{BarrierInfo, SlotWaker},
    slot::SlotHandle,
    slot_builder::{SlotBuilder, SlotConfig},
    slot_event::{SlotCommand, SlotEvents, SlotFailure, SnapshotTimings},
};
use millrace_sql::CompileOptions;
use millrace_state::{
    FrozenSnapshot, KeyedSnapshot, Layout, OperatorStateItem, SlotStore, Spill, StateBudget,
    UploadedFiles,
};
use millrace_types::{CheckpointId, ExecutionId, JobId, SubtaskIndex, SubtaskMetrics, TenantName};

/// Longest time that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);

enum Told {
    Snapshot(u32, BarrierInfo, FrozenSnapshot, Vec<OperatorStateItem>),
    Drained(u32),
    Finished,
    Failed(SlotFailure),
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
    fn spilled(&self, _subtask: u32, spill: Spill, waker: SlotWaker) {
        std::thread::spawn(move || {
            spill.write().unwrap();
            waker.wake();
        });
    }
    fn committed(&self, _subtask: u32, _checkpoint: CheckpointId) {}
    fn drained(&self, subtask: u32) {
        let _ = self.0.send(Told::Drained(subtask));
    }
    fn finished(&self, _subtask: u32) {
        let _ = self.0.send(Told::Finished);
    }
    fn failed(&self, failure: SlotFailure) {
        let _ = self.0.send(Told::Failed(failure));
    }
    fn output_rows(&self, _: &str, _: u32, _: &RecordBatch, _: Option<&[RowKind]>) {}
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
pub(crate) struct Completed {
    checkpoint: CheckpointId,
    keyed: Vec<(KeyGroupRange, KeyedSnapshot)>,
    items: Vec<OperatorStateItem>,
}

/// A job, over all its attempts.
pub(crate) struct Job {
    sql: String,
    dir: PathBuf,
    attempts: u32,
    checkpoints: u64,
    runtime: tokio::runtime::Runtime,
}

/// Running slots. Dropped, they are killed: nothing more is committed.
pub(crate) struct Attempt<'a> {
    job: &'a mut Job,
    parallelism: u32,
    dataflow: Arc<Dataflow>,
    objects: Arc<dyn object_store::ObjectStore>,
    layout: Layout,
    execution: ExecutionId,
    told: mpsc::Receiver<Told>,
    handles: Vec<SlotHandle>,
    uploads: Vec<UploadedFiles>,
    pending: Option<Pending>,
    drained: BTreeSet<u32>,
    finished: u32,
    deadline: Instant,
}

struct Pending {
    checkpoint: CheckpointId,
    acks: BTreeMap<u32, (KeyedSnapshot, Vec<OperatorStateItem>)>,
}

impl Job {
    pub(crate) fn new(dir: &Path, sql: String) -> Self {
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
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                panic!("{}", errors.join("\n"))
            }
        }
    }

    /// Opens and starts slots from a checkpoint, or empty.
    #[expect(clippy::disallowed_methods, reason = "the test's clock")]
    pub(crate) fn start(&mut self, parallelism: u32, from: Option<&Completed>) -> Attempt<'_> {
        self.attempts += 1;
        let execution = ExecutionId(uuid_of(self.attempts));
        let job = JobId(uuid_of(1_000_000));
        let dataflow = self.compile(parallelism);
        let path = self.dir.join("objects");
        std::fs::create_dir_all(&path).unwrap();
        let objects: Arc<dyn object_store::ObjectStore> =
            Arc::new(object_store::local::LocalFileSystem::new_with_prefix(path).unwrap());
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
                let restore =
                    millrace_state::restore(objects.as_ref(), &layout, &from.keyed, range, &dir);
                self.runtime.block_on(restore).unwrap();
            }
            builders.push(SlotBuilder::new(SlotConfig {
                subtask,
                dataflow: dataflow.clone(),
                clock: clock.clone(),
                queue_bytes: 64 << 10,
                // So little that state leaves memory all the time.
                state_budget_bytes: 16 << 10,
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
            let own = builder.queues().iter();
            queues.extend(own.map(|(id, queue)| (*id, queue.clone())));
        }
        let mut slots = Vec::new();
        for builder in builders {
            let senders = builder.local_senders(&queues);
            match builder.build(senders) {
                Ok(slot) => slots.push(slot),
                Err(failure) => panic!("{}: {}", failure.operator, failure.reason),
            }
        }
        Attempt {
            parallelism,
            dataflow,
            objects,
            layout,
            execution,
            told,
            handles: slots
                .into_iter()
                .map(|slot| slot.start().unwrap())
                .collect(),
            uploads: (0..parallelism).map(|_| UploadedFiles::default()).collect(),
            pending: None,
            drained: BTreeSet::new(),
            finished: 0,
            deadline: Instant::now() + PATIENCE,
            job: self,
        }
    }

    /// Runs to the end, from a checkpoint or empty.
    pub(crate) fn finish(&mut self, parallelism: u32, from: Option<&Completed>) {
        self.start(parallelism, from).finish();
    }

    /// Runs until this many checkpoints are complete, the last of them not committed, then kills
    /// the slots. `None`: the job ended before.
    pub(crate) fn kill_after(
        &mut self,
        checkpoints: u32,
        parallelism: u32,
        from: Option<&Completed>,
    ) -> Option<Completed> {
        let mut attempt = self.start(parallelism, from);
        for number in 1..=checkpoints {
            let is_final = attempt.is_drained();
            let completed = attempt.checkpoint(false);
            if number == checkpoints {
                // The next attempt has to make up for the commit; what follows is lost.
                attempt.pass(Duration::from_millis(5));
                return Some(completed);
            }
            attempt.commit(&completed, is_final);
            if is_final {
                attempt.until(|attempt| attempt.finished == attempt.parallelism);
                return None;
            }
            attempt.pass(Duration::from_millis(20));
        }
        None
    }
}

impl Attempt<'_> {
    pub(crate) fn tell(&self, command: SlotCommand) {
        for handle in &self.handles {
            handle.command(command);
        }
    }

    /// Whether all sources have ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained.len() == self.parallelism as usize
    }

    /// Triggers a checkpoint and waits until all slots have it.
    pub(crate) fn checkpoint(&mut self, stop_after: bool) -> Completed {
        self.job.checkpoints += 1;
        let checkpoint = CheckpointId(self.job.checkpoints);
        self.pending = Some(Pending {
            checkpoint,
            acks: BTreeMap::new(),
        });
        self.tell(SlotCommand::TriggerCheckpoint(BarrierInfo {
            checkpoint,
            savepoint: None,
            stop_after,
        }));
        let all = self.parallelism as usize;
        self.until(|attempt| {
            attempt
                .pending
                .as_ref()
                .is_some_and(|pending| pending.acks.len() == all)
        });
        let mut done = Completed {
            checkpoint,
            keyed: Vec::new(),
            items: Vec::new(),
        };
        for (subtask, (keyed, items)) in self.pending.take().unwrap().acks {
            let max = self.dataflow.max_parallelism;
            let range = KeyGroupRange::of_subtask(subtask, self.parallelism, max);
            done.keyed.push((range, keyed));
            done.items.extend(items);
        }
        done
    }

    pub(crate) fn commit(&self, completed: &Completed, is_final: bool) {
        self.tell(SlotCommand::CheckpointCompleted {
            checkpoint: completed.checkpoint,
            is_final,
        });
    }

    pub(crate) fn abort(&self, completed: &Completed) {
        self.tell(SlotCommand::CheckpointAborted {
            checkpoint: completed.checkpoint,
        });
    }

    /// Takes and commits checkpoints until all sources have ended, then the final one. The
    /// metrics as they are then.
    pub(crate) fn finish(mut self) -> Vec<SubtaskMetrics> {
        loop {
            let is_final = self.is_drained();
            let completed = self.checkpoint(false);
            self.commit(&completed, is_final);
            if is_final {
                break;
            }
            self.pass(Duration::from_millis(20));
        }
        self.until(|attempt| attempt.finished == attempt.parallelism);
        self.metrics()
    }

    /// Takes and commits checkpoints until `done`.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(!self.is_late(), "the job does not get there");
            let completed = self.checkpoint(false);
            self.commit(&completed, false);
            self.pass(Duration::from_millis(20));
        }
    }

    /// Of all operators and subtasks.
    pub(crate) fn metrics(&self) -> Vec<SubtaskMetrics> {
        self.handles.iter().flat_map(SlotHandle::metrics).collect()
    }

    /// Handles what the slots tell for this long.
    #[expect(clippy::disallowed_methods, reason = "the test's clock")]
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            self.hear(left);
            if left.is_zero() {
                return;
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the test's clock")]
    fn is_late(&self) -> bool {
        Instant::now() > self.deadline
    }

    pub(crate) fn until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(
                !self.is_late(),
                "the job hangs: drained {:?}, pending {:?}",
                self.drained,
                self.pending.as_ref().map(|p| (p.checkpoint, p.acks.len()))
            );
            self.hear(Duration::from_millis(20));
        }
    }

    fn hear(&mut self, wait: Duration) {
        match self.told.recv_timeout(wait) {
            Ok(Told::Snapshot(subtask, barrier, frozen, items)) => {
                self.upload(subtask, barrier, frozen, items);
            }
            Ok(Told::Drained(subtask)) => {
                self.drained.insert(subtask);
            }
            Ok(Told::Finished) => self.finished += 1,
            Ok(Told::Failed(failure)) => panic!("{}: {}", failure.operator, failure.reason),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                assert_eq!(self.finished, self.parallelism, "all slots are gone");
            }
        }
    }

    fn upload(
        &mut self,
        subtask: u32,
        barrier: BarrierInfo,
        frozen: FrozenSnapshot,
        items: Vec<OperatorStateItem>,
    ) {
        let name = format!(
            "snapshot-{}-{subtask}-{}",
            self.job.attempts, barrier.checkpoint
        );
        let local = frozen.persist(&self.job.dir.join(name)).unwrap();
        let upload = millrace_state::upload_incremental(
            self.objects.as_ref(),
            &self.layout,
            local,
            &mut self.uploads[subtask as usize],
            barrier.checkpoint,
            self.execution,
            SubtaskIndex(subtask),
        );
        let keyed = self.job.runtime.block_on(upload).unwrap();
        if let Some(pending) = &mut self.pending
            && pending.checkpoint == barrier.checkpoint
        {
            pending.acks.insert(subtask, (keyed, items));
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.tell(SlotCommand::Cancel);
        self.handles.iter().for_each(SlotHandle::join);
    }
}

fn uuid_of(number: u32) -> uuid::Uuid {
    uuid::Uuid::from_u128(u128::from(number))
}
