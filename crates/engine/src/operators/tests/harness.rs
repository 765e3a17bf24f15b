//! Runs an operator over steps, with real state in RocksDB, through restores and rescales.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use arrow::datatypes::{DataType, SchemaRef};
use millrace_dataflow::{KeyEncoder, KeyGroupRange, Node, StateId};
use millrace_state::{SlotStore, StateBudget, Table};
use millrace_types::CheckpointId;
use tempfile::TempDir;

use super::text;
use crate::{
    Batch, Clock, Event, LateRows, OpenContext, OpenTable, Operator, OperatorError,
    OperatorSnapshot, Output, RestoredState, operators::build, partition::Partitioner,
};

const MAX_PARALLELISM: u32 = 12;

/// What happens to an operator.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Rows(&'static str),
    Watermark(i64),
    /// Processing time moves to this.
    Clock(i64),
    /// All inputs end.
    End,
}

#[derive(Debug, Default)]
pub(super) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

/// What is run: a local operator in front (or none), the exchange, and the operator under test.
pub(super) struct Case {
    pub(super) input: SchemaRef,
    pub(super) local: Option<Node>,
    pub(super) node: Node,
    /// Key columns of the operator's input.
    pub(super) keys: Vec<usize>,
}

struct Subtask {
    operator: Box<dyn Operator>,
    store: SlotStore,
    opened: Tables,
    _dir: TempDir,
}

/// Tables by state id and name, as an operator opened them.
#[derive(Default)]
struct Tables(RefCell<BTreeMap<(StateId, &'static str), Table>>);

struct Opener<'a>(&'a SlotStore, &'a Tables);

impl OpenTable for Opener<'_> {
    fn open_table(
        &mut self,
        state_id: &StateId,
        name: &'static str,
        ttl_ms: u64,
    ) -> Result<Table, OperatorError> {
        let table = self.0.table(state_id, name, ttl_ms)?;
        let opened = &mut self.1.0.borrow_mut();
        opened.insert((state_id.clone(), name), table.clone());
        Ok(table)
    }
}

/// How state travels between steps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Travel {
    /// Never: one operator from start to end, with a barrier now and then.
    Clean,
    /// Restored after every step.
    Restored,
    /// Restored after every step with the next parallelism of 1, 2, 3, 1, ….
    Rescaled,
    /// Like `Clean`, but all state is pushed out of memory after every step.
    Relieved,
    /// Pushed out after every step and rescaled after every other one.
    RelievedAndRescaled,
}

impl Case {
    /// Rows of every step of a clean run, in order of emission; kinds if the output has them.
    /// Asserts that restored and rescaled runs give the same.
    pub(super) fn run(&self, steps: &[Step]) -> Vec<String> {
        let (clean, late) = self.run_as(steps, Travel::Clean);
        for travel in [
            Travel::Restored,
            Travel::Rescaled,
            Travel::Relieved,
            Travel::RelievedAndRescaled,
        ] {
            let (other, other_late) = self.run_as(steps, travel);
            for (step, (clean, other)) in clean.iter().zip(&other).enumerate() {
                assert_eq!(
                    sorted(clean),
                    sorted(other),
                    "{travel:?} differs from clean after step {step}, {:?}",
                    steps[step]
                );
            }
            assert_eq!(late.count, other_late.count, "late rows when {travel:?}");
        }
        clean.into_iter().flatten().collect()
    }

    /// Late rows of a clean run.
    pub(super) fn late(&self, steps: &[Step]) -> LateRows {
        self.run_as(steps, Travel::Clean).1
    }

    fn run_as(&self, steps: &[Step], travel: Travel) -> (Vec<Vec<String>>, LateRows) {
        let budget = StateBudget::new(16 << 20);
        let clock = Arc::new(TestClock::default());
        let mut run = Run {
            case: self,
            budget,
            clock,
            subtasks: Vec::new(),
            local: self.local.as_ref().map(|node| self.make(node)),
            checkpoint: 0,
            late: 0,
        };
        run.start(1, None);
        let mut results = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            results.push(run.step(step));
            if matches!(travel, Travel::Relieved | Travel::RelievedAndRescaled) {
                run.relieve(number % 2 == 0);
            }
            let parallelism = match travel {
                Travel::Clean | Travel::Relieved => {
                    if number % 3 == 2 {
                        run.barrier();
                    }
                    continue;
                }
                Travel::Restored => 1,
                Travel::Rescaled => [2, 3, 1][number % 3],
                Travel::RelievedAndRescaled if number % 2 == 0 => continue,
                Travel::RelievedAndRescaled => [2, 3, 1][number / 2 % 3],
            };
            // What a barrier flushes belongs to the step before.
            let flushed = run.restart(parallelism);
            if let Some(last) = results.last_mut() {
                last.extend(flushed);
            }
        }
        run.count_late();
        let samples = match run.subtasks.first() {
            Some(subtask) => subtask.operator.late_rows().samples,
            None => Vec::new(),
        };
        let late = LateRows {
            count: run.late,
            samples,
        };
        (results, late)
    }

    fn make(&self, node: &Node) -> Box<dyn Operator> {
        build(node, std::slice::from_ref(&self.input)).unwrap()
    }
}

struct Run<'a> {
    case: &'a Case,
    budget: StateBudget,
    clock: Arc<TestClock>,
    subtasks: Vec<Subtask>,
    local: Option<Box<dyn Operator>>,
    checkpoint: u64,
    late: u64,
}

impl Run<'_> {
    fn start(&mut self, parallelism: u32, from: Option<(RestoredState, Vec<Subtask>)>) {
        let (restored, former) = from.unwrap_or_default();
        self.subtasks = (0..parallelism)
            .map(|subtask| {
                let dir = TempDir::new().unwrap();
                let store = SlotStore::create(dir.path(), &self.budget).unwrap();
                store.set_now_ms(self.clock.now_ms());
                let key_groups = KeyGroupRange::of_subtask(subtask, parallelism, MAX_PARALLELISM);
                copy_state(&former, &store, key_groups, self.checkpoint, dir.path());
                let mut operator = match &self.case.local {
                    Some(local) => {
                        build(&self.case.node, std::slice::from_ref(&local.schema)).unwrap()
                    }
                    None => self.case.make(&self.case.node),
                };
                let opened = Tables::default();
                let mut opener = Opener(&store, &opened);
                operator
                    .open(&mut OpenContext {
                        subtask,
                        parallelism,
                        max_parallelism: MAX_PARALLELISM,
                        key_groups,
                        clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
                        restored: &restored,
                        tables: &mut opener,
                    })
                    .unwrap();
                Subtask {
                    operator,
                    store,
                    opened,
                    _dir: dir,
                }
            })
            .collect();
    }

    fn step(&mut self, step: &Step) -> Vec<String> {
        let mut results = Vec::new();
        match step {
            Step::Rows(text) => {
                let batch = text::batch(&self.case.input, text);
                let events = match &mut self.local {
                    Some(local) => {
                        let mut out = Output::default();
                        local.process(0, batch, &mut out).unwrap();
                        out.take()
                    }
                    None => vec![Event::Batch(batch)],
                };
                self.exchange(events, &mut results);
            }
            Step::Watermark(watermark) => self.watermark(*watermark, &mut results),
            Step::Clock(now) => {
                self.clock.0.store(*now, Ordering::Relaxed);
                for subtask in &mut self.subtasks {
                    subtask.store.set_now_ms(*now);
                    let due = subtask
                        .operator
                        .next_tick()
                        .is_some_and(|tick| tick <= *now);
                    if due {
                        call(&mut subtask.operator, &mut results, |operator, out| {
                            operator.tick(*now, out)
                        });
                    }
                }
            }
            Step::End => self.watermark(i64::MAX, &mut results),
        }
        results
    }

    fn watermark(&mut self, watermark: i64, results: &mut Vec<String>) {
        let events = match &mut self.local {
            Some(local) => {
                let mut out = Output::default();
                local.watermark(watermark, &mut out).unwrap();
                out.take()
            }
            None => vec![Event::Watermark(watermark)],
        };
        self.exchange(events, results);
    }

    fn exchange(&mut self, events: Vec<Event>, results: &mut Vec<String>) {
        for event in events {
            match event {
                Event::Batch(batch) => {
                    for (subtask, batch) in self.split(batch) {
                        let operator = &mut self.subtasks[subtask as usize].operator;
                        call(operator, results, |operator, out| {
                            operator.process(0, batch, out)
                        });
                    }
                }
                Event::Watermark(watermark) => {
                    for subtask in &mut self.subtasks {
                        call(&mut subtask.operator, results, |operator, out| {
                            operator.watermark(watermark, out)
                        });
                    }
                }
                Event::Idle => {}
            }
        }
    }

    fn split(&self, batch: Batch) -> Vec<(u32, Batch)> {
        let types: Vec<DataType> = (self.case.keys.iter())
            .map(|key| batch.rows.schema().field(*key).data_type().clone())
            .collect();
        Partitioner::new(
            self.case.keys.clone(),
            KeyEncoder::new(types).unwrap(),
            self.subtasks.len() as u32,
            MAX_PARALLELISM,
        )
        .split(batch)
        .unwrap()
    }

    /// A barrier through local operator and subtasks: what it flushes, and what is kept.
    fn barrier(&mut self) -> (RestoredState, Vec<String>) {
        let mut results = Vec::new();
        if let Some(local) = &mut self.local {
            let mut out = Output::default();
            local.before_barrier(&mut out).unwrap();
            let events = out.take();
            self.exchange(events, &mut results);
        }
        self.checkpoint += 1;
        let checkpoint = CheckpointId(self.checkpoint);
        let mut restored = RestoredState {
            restored: true,
            items: Vec::new(),
        };
        for subtask in &mut self.subtasks {
            let mut out = Output::default();
            subtask.operator.before_barrier(&mut out).unwrap();
            collect(&mut out, &mut results);
            let mut snapshot = OperatorSnapshot::default();
            subtask
                .operator
                .snapshot(checkpoint, &mut snapshot)
                .unwrap();
            restored.items.extend(snapshot.items);
            // Kept readable in memory; persisting is the state crate's business.
            let frozen = subtask.store.freeze(checkpoint, snapshot.deltas);
            let dir = subtask._dir.path().join(format!("cut-{checkpoint}"));
            drop(frozen.persist(&dir).unwrap());
            subtask.operator.checkpoint_complete(checkpoint).unwrap();
        }
        (restored, results)
    }

    /// Pushes everything out of memory, into RocksDB or only into frozen deltas.
    fn relieve(&mut self, written: bool) {
        for subtask in &mut self.subtasks {
            let mut deltas = Vec::new();
            subtask.operator.relieve(u64::MAX, &mut deltas).unwrap();
            let spill = subtask.store.spill(deltas);
            if written {
                spill.write().unwrap();
            }
        }
    }

    fn restart(&mut self, parallelism: u32) -> Vec<String> {
        let (restored, results) = self.barrier();
        self.count_late();
        let former = std::mem::take(&mut self.subtasks);
        self.start(parallelism, Some((restored, former)));
        if let Some(local) = &self.case.local {
            self.local = Some(self.case.make(local));
        }
        results
    }

    fn count_late(&mut self) {
        let late = self.subtasks.iter();
        self.late += late
            .map(|subtask| subtask.operator.late_rows().count)
            .sum::<u64>();
    }
}

/// Copies the entries of these key groups into a fresh store.
fn copy_state(
    former: &[Subtask],
    store: &SlotStore,
    key_groups: KeyGroupRange,
    checkpoint: u64,
    dir: &std::path::Path,
) {
    let mut deltas = Vec::new();
    for subtask in former {
        for ((state_id, name), table) in subtask.opened.0.borrow().iter() {
            let mut delta = store.table(state_id, name, 0).unwrap().delta();
            table
                .scan(&mut |group, key, value| {
                    if key_groups.contains(group) {
                        delta.put(group, key, value.written_at_ms, &value.payload);
                    }
                    Ok(())
                })
                .unwrap();
            deltas.push(delta);
        }
    }
    let frozen = store.freeze(CheckpointId(checkpoint), deltas);
    drop(frozen.persist(&dir.join("copied")).unwrap());
}

/// Calls an operator as a chain does: what it has more to emit comes before anything else.
fn call(
    operator: &mut Box<dyn Operator>,
    results: &mut Vec<String>,
    work: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<(), OperatorError>,
) {
    let mut out = Output::default();
    work(operator.as_mut(), &mut out).unwrap();
    collect(&mut out, results);
    while operator.has_more() {
        operator.resume(&mut out).unwrap();
        collect(&mut out, results);
    }
}

fn collect(out: &mut Output, results: &mut Vec<String>) {
    for event in out.take() {
        if let Event::Batch(batch) = event {
            results.extend(text::lines(&batch, true));
        }
    }
}

fn sorted(lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    lines.sort();
    lines
}

/// The error that a batch ends in.
pub(super) fn failure(case: &Case, batch: Batch) -> String {
    let mut operator = case.make(&case.node);
    let result = operator.process(0, batch, &mut Output::default());
    result.unwrap_err().to_string()
}
