//! The slot: one thread that runs its share of every operator of the job.
//!
//! The loop takes a ready input, processes one message to completion through its chain, and
//! repeats, consumers before producers so that queues drain before they fill. When nothing is
//! ready the slot parks until a channel, a connector, a command or a timer wakes it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use millrace_types::{CheckpointId, SubtaskMetrics};
use parking_lot::Mutex;

use crate::{
    Clock, OperatorError,
    chain::{Chain, TaskError},
    channel::SlotWaker,
    slot_event::{SlotCommand, SlotEvents, SlotFailure},
    slot_memory::{Holding, Measures, SlotMemory},
    slot_snapshot::SlotSnapshots,
    source_task::SourceTask,
    task::{ChannelTask, Step},
};
use millrace_state::{Delta, SlotStore};

/// Longest park: an upper bound on how late a lost wake or a coarse timer can be noticed.
const MAX_PARK_MS: i64 = 100;
/// Messages that a task processes before the loop looks elsewhere.
const STEPS_PER_TURN: usize = 4;
const METRICS_INTERVAL_MS: i64 = 200;

/// A task of either kind.
pub(crate) enum Task {
    Source(Box<SourceTask>),
    Channels(Box<ChannelTask>),
}

impl Task {
    fn chain(&self) -> &Chain {
        match self {
            Task::Source(task) => &task.chain,
            Task::Channels(task) => &task.chain,
        }
    }

    fn chain_mut(&mut self) -> &mut Chain {
        match self {
            Task::Source(task) => &mut task.chain,
            Task::Channels(task) => &mut task.chain,
        }
    }

    fn is_ended(&self) -> bool {
        match self {
            Task::Source(task) => task.is_ended(),
            Task::Channels(task) => task.is_ended(),
        }
    }
}

/// A slot whose operators are open and restored.
pub struct Slot {
    pub(crate) subtask: u32,
    /// Producers before consumers.
    pub(crate) tasks: Vec<Task>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) waker: SlotWaker,
    pub(crate) events: Arc<dyn SlotEvents>,
    pub(crate) snapshots: SlotSnapshots,
    pub(crate) store: SlotStore,
    pub(crate) memory: SlotMemory,
}

/// Controls a running slot.
pub struct SlotHandle {
    pub subtask: u32,
    commands: mpsc::Sender<SlotCommand>,
    waker: SlotWaker,
    metrics: Arc<Mutex<Vec<SubtaskMetrics>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl SlotHandle {
    /// Queues a command; ignored when the slot has ended.
    pub fn command(&self, command: SlotCommand) {
        if command == SlotCommand::Cancel {
            self.waker.cancel();
        }
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }

    pub fn waker(&self) -> SlotWaker {
        self.waker.clone()
    }

    /// The operators' metrics, at most a fraction of a second old.
    pub fn metrics(&self) -> Vec<SubtaskMetrics> {
        self.metrics.lock().clone()
    }

    /// Waits for the thread to end (after `Cancel`, the final checkpoint or a failure).
    pub fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!(
                subtask = self.subtask,
                "slot thread ended by a panic outside of its loop"
            );
        }
    }
}

enum LoopEnd {
    Finished,
    Canceled,
}

impl Slot {
    /// Starts the slot's thread.
    pub fn start(self) -> std::io::Result<SlotHandle> {
        let (commands, receiver) = mpsc::channel();
        let metrics = Arc::new(Mutex::new(Vec::new()));
        let (subtask, waker, shared) = (self.subtask, self.waker.clone(), metrics.clone());
        let thread = thread::Builder::new()
            .name(format!("slot-{subtask}"))
            .spawn(move || self.run(receiver, shared))?;
        Ok(SlotHandle {
            subtask,
            commands,
            waker,
            metrics,
            thread: Mutex::new(Some(thread)),
        })
    }

    fn run(self, commands: mpsc::Receiver<SlotCommand>, metrics: Arc<Mutex<Vec<SubtaskMetrics>>>) {
        let (subtask, events) = (self.subtask, self.events.clone());
        let waker = self.waker.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut running = RunningSlot {
                slot: self,
                metrics,
                next_metrics: i64::MIN,
                drained: false,
            };
            let end = running.run_loop(&commands);
            running.publish_metrics();
            end
        }));
        match outcome {
            Ok(Ok(LoopEnd::Finished)) => events.finished(subtask),
            Ok(Ok(LoopEnd::Canceled)) => {}
            // It gave up what it was waiting for.
            Ok(Err(_)) if waker.is_canceled() => {}
            Ok(Err(error)) => events.failed(failure(subtask, error)),
            Err(panic) => events.failed(SlotFailure {
                subtask,
                operator: String::new(),
                reason: format!("internal fault: {}: please report it", panic_text(&*panic)),
                retryable: true,
            }),
        }
    }
}

fn failure(subtask: u32, error: TaskError) -> SlotFailure {
    // Even a malformed record may be gone at the next attempt (a file replaced), so only the
    // restart policy decides when to give up.
    SlotFailure {
        subtask,
        operator: error.operator,
        reason: error.error.to_string(),
        retryable: true,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

struct RunningSlot {
    slot: Slot,
    metrics: Arc<Mutex<Vec<SubtaskMetrics>>>,
    next_metrics: i64,
    drained: bool,
}

impl RunningSlot {
    fn run_loop(&mut self, commands: &mpsc::Receiver<SlotCommand>) -> Result<LoopEnd, TaskError> {
        loop {
            for command in commands.try_iter() {
                if let Some(end) = self.command(command)? {
                    return Ok(end);
                }
            }
            let now = self.slot.clock.now_ms();
            if now >= self.next_metrics {
                self.slot.store.set_now_ms(now);
                self.publish_metrics();
                self.next_metrics = now + METRICS_INTERVAL_MS;
            }
            let memory = self.keep_within_memory()?;
            let worked = !memory.wait && self.turn(now, memory.hold)?;
            if !self.drained && self.slot.tasks.iter().all(Task::is_ended) {
                self.drained = true;
                self.publish_metrics();
                self.slot.events.drained(self.slot.subtask);
            }
            if !worked {
                self.park(now, memory.wait || memory.hold);
            }
        }
    }

    /// Has operators let go of state when the slot is over its budget, and says what input must
    /// wait for that.
    fn keep_within_memory(&mut self) -> Result<Measures, TaskError> {
        let unwritten = self.slot.store.unwritten_bytes();
        let mut measures = self.slot.memory.judge(&self.holdings(), unwritten);
        if !measures.reliefs.is_empty() {
            let mut deltas = self.slot.snapshots.take_left_over();
            for relief in std::mem::take(&mut measures.reliefs) {
                let chain = self.slot.tasks[relief.task].chain_mut();
                chain.relieve(relief.position, relief.bytes, &mut deltas)?;
            }
            self.spill(deltas);
            let held = self.holdings().iter().map(|holding| holding.bytes).sum();
            self.slot.memory.relieved(held);
        }
        Ok(measures)
    }

    fn holdings(&self) -> Vec<Holding> {
        let tasks = self.slot.tasks.iter().enumerate();
        tasks
            .flat_map(|(task, of_task)| {
                let held_back = self.slot.snapshots.holds_back(task);
                let nodes = of_task.chain().relievable_bytes().enumerate();
                nodes.map(move |(position, bytes)| Holding {
                    task,
                    position,
                    bytes,
                    held_back,
                })
            })
            .collect()
    }

    /// Makes deltas readable from the tables and has them written.
    fn spill(&self, deltas: Vec<Delta>) {
        if deltas.iter().all(Delta::is_empty) {
            return;
        }
        let spill = self.slot.store.spill(deltas);
        let waker = self.slot.waker.clone();
        self.slot.events.spilled(self.slot.subtask, spill, waker);
    }

    /// One round over all tasks, consumers first; true when any did something. `hold`: without
    /// those whose part of a snapshot waits for the others.
    fn turn(&mut self, now: i64, hold: bool) -> Result<bool, TaskError> {
        let mut worked = false;
        for index in (0..self.slot.tasks.len()).rev() {
            if hold && self.slot.snapshots.holds_back(index) {
                continue;
            }
            for _ in 0..STEPS_PER_TURN {
                let started = self.slot.clock.monotonic_nanos();
                match self.step(index, now)? {
                    Step::Idle => break,
                    Step::Worked => worked = true,
                    Step::Barrier(barrier, part) => {
                        worked = true;
                        let now_nanos = self.slot.clock.monotonic_nanos();
                        let pause = now_nanos.saturating_sub(started);
                        let whole = self
                            .slot
                            .snapshots
                            .add(index, barrier, part, now_nanos, pause);
                        if let Some(done) = whole {
                            let frozen = self.slot.store.freeze(barrier.checkpoint, done.deltas);
                            let timings = done.timings;
                            self.slot.events.snapshot_taken(
                                self.slot.subtask,
                                barrier,
                                frozen,
                                done.items,
                                timings,
                            );
                        }
                    }
                }
            }
        }
        Ok(worked)
    }

    fn step(&mut self, index: usize, now: i64) -> Result<Step, TaskError> {
        let task = &mut self.slot.tasks[index];
        let room = task.chain().has_room();
        let settled = !task.chain().has_more();
        if room && settled && task.chain().next_tick().is_some_and(|at| at <= now) {
            task.chain_mut().tick(now)?;
            return Ok(Step::Worked);
        }
        match task {
            Task::Source(source) => source.step(now, room),
            Task::Channels(_) if !room => Ok(Step::Idle),
            Task::Channels(channels) => channels.step(),
        }
    }

    fn command(&mut self, command: SlotCommand) -> Result<Option<LoopEnd>, TaskError> {
        match command {
            SlotCommand::Cancel => return Ok(Some(LoopEnd::Canceled)),
            SlotCommand::TriggerCheckpoint(barrier) => {
                self.slot
                    .snapshots
                    .triggered(barrier.checkpoint, self.slot.clock.monotonic_nanos());
                self.for_sources(|source| source.trigger(barrier));
            }
            SlotCommand::CheckpointAborted { checkpoint } => {
                let deltas = self.slot.snapshots.give_up(checkpoint);
                self.spill(deltas);
                self.for_sources(|source| source.aborted(checkpoint))
            }
            SlotCommand::Drain => self.for_sources(SourceTask::drain),
            SlotCommand::CheckpointCompleted {
                checkpoint,
                is_final,
            } => {
                self.commit(checkpoint)?;
                self.slot.events.committed(self.slot.subtask, checkpoint);
                if is_final {
                    return Ok(Some(LoopEnd::Finished));
                }
            }
        }
        Ok(None)
    }

    fn commit(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        for task in &mut self.slot.tasks {
            match task {
                Task::Source(source) => source.checkpoint_complete(checkpoint)?,
                Task::Channels(channels) => channels.chain.checkpoint_complete(checkpoint)?,
            }
        }
        Ok(())
    }

    fn for_sources(&mut self, mut act: impl FnMut(&mut SourceTask)) {
        for task in &mut self.slot.tasks {
            if let Task::Source(source) = task {
                act(source);
            }
        }
    }

    /// Waits for a wake or the next timer, and books the time as idle or backpressured: `held_up`
    /// by state that waits to be written, or by outputs without room.
    fn park(&mut self, now: i64, held_up: bool) {
        let next = self
            .slot
            .tasks
            .iter()
            .flat_map(|task| {
                let poll = match task {
                    Task::Source(source) => source.next_poll(),
                    Task::Channels(_) => None,
                };
                poll.into_iter().chain(task.chain().next_tick())
            })
            .min();
        let wait = next
            .map_or(MAX_PARK_MS, |at| at.saturating_sub(now))
            .clamp(0, MAX_PARK_MS);
        let started = self.slot.clock.monotonic_nanos();
        if wait > 0 {
            self.slot.waker.park(Duration::from_millis(wait as u64));
        }
        let waited = self.slot.clock.monotonic_nanos().saturating_sub(started);
        for task in &mut self.slot.tasks {
            let blocked = (held_up || !task.chain().has_room())
                && match task {
                    Task::Source(source) => !source.is_ended(),
                    Task::Channels(channels) => channels.has_input(),
                };
            for node in task.chain_mut().nodes_mut() {
                if blocked {
                    node.metrics.backpressured_nanos += waited;
                } else {
                    node.metrics.idle_nanos += waited;
                }
            }
        }
    }

    fn publish_metrics(&self) {
        let mut collected = Vec::new();
        for task in &self.slot.tasks {
            task.chain().collect_metrics(&mut collected);
        }
        *self.metrics.lock() = collected;
    }
}

/// An error at opening, before any operator ran.
pub(crate) fn open_failure(subtask: u32, operator: &str, error: &OperatorError) -> SlotFailure {
    SlotFailure {
        subtask,
        operator: operator.to_owned(),
        reason: error.to_string(),
        retryable: true,
    }
}
