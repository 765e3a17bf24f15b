//! Runs a window operator with state that is pushed out of memory at random, or not at all.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::DataType,
};
use millrace_dataflow::{KeyEncoder, KeyGroupRange, StateId};
use millrace_state::{FrozenSnapshot, SlotStore, StateBudget, Table};
use millrace_types::CheckpointId;
use tempfile::TempDir;

use crate::{
    Batch, Event, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot, Output,
    RestoredState,
    operators::{
        build,
        tests::{
            harness::{Case, TestClock},
            text,
        },
    },
    partition::Partitioner,
};

const MAX_PARALLELISM: u32 = 12;

/// Small numbers that look random and are the same every time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as i64 % bound as i64
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

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
        let mut opened = self.1.0.borrow_mut();
        opened.insert((state_id.clone(), name), table.clone());
        Ok(table)
    }
}

/// A subtask of the operator under test.
pub(super) struct Subtask {
    pub(super) operator: Box<dyn Operator>,
    store: SlotStore,
    tables: Tables,
    /// Snapshots that are still to be persisted or given up.
    frozen: Option<FrozenSnapshot>,
    dir: TempDir,
}

impl Subtask {
    /// Number of entries in all tables.
    pub(super) fn entries(&self) -> usize {
        let mut entries = 0;
        for table in self.tables.0.borrow().values() {
            table
                .scan(&mut |_, _, _| {
                    entries += 1;
                    Ok(())
                })
                .unwrap();
        }
        entries
    }

    pub(super) fn relieve(&mut self, bytes: u64, written: bool) {
        let mut deltas = Vec::new();
        self.operator.relieve(bytes, &mut deltas).unwrap();
        let spill = self.store.spill(deltas);
        if written {
            spill.write().unwrap();
        }
    }

    fn snapshot(&mut self, checkpoint: u64) -> OperatorSnapshot {
        let mut snapshot = OperatorSnapshot::default();
        self.operator
            .snapshot(CheckpointId(checkpoint), &mut snapshot)
            .unwrap();
        let deltas = std::mem::take(&mut snapshot.deltas);
        self.frozen = Some(self.store.freeze(CheckpointId(checkpoint), deltas));
        snapshot
    }

    fn persist(&mut self, checkpoint: u64) {
        if let Some(frozen) = self.frozen.take() {
            let dir = self.dir.path().join(format!("cut-{checkpoint}"));
            drop(frozen.persist(&dir).unwrap());
        }
    }
}

pub(super) struct Run<'a> {
    case: &'a Case,
    budget: StateBudget,
    pub(super) subtasks: Vec<Subtask>,
    local: Option<Box<dyn Operator>>,
    checkpoint: u64,
    results: Vec<String>,
    /// When set, outputs are full from the start and state is pushed out at random.
    pressure: Option<Random>,
    late: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(case: &'a Case, pressure: Option<Random>) -> Self {
        let local = case.local.as_ref();
        let mut run = Run {
            case,
            budget: StateBudget::new(16 << 20),
            subtasks: Vec::new(),
            local: local.map(|node| build(node, std::slice::from_ref(&case.input)).unwrap()),
            checkpoint: 0,
            results: Vec::new(),
            pressure,
            late: 0,
        };
        run.start(1, &RestoredState::default(), &[]);
        run
    }

    pub(super) fn start(&mut self, parallelism: u32, restored: &RestoredState, former: &[Subtask]) {
        self.subtasks = (0..parallelism)
            .map(|subtask| {
                let dir = TempDir::new().unwrap();
                let store = SlotStore::create(dir.path(), &self.budget).unwrap();
                let key_groups = KeyGroupRange::of_subtask(subtask, parallelism, MAX_PARALLELISM);
                copy_state(former, &store, key_groups);
                let input = match &self.case.local {
                    Some(local) => &local.schema,
                    None => &self.case.input,
                };
                let mut operator = build(&self.case.node, std::slice::from_ref(input)).unwrap();
                let tables = Tables::default();
                operator
                    .open(&mut OpenContext {
                        subtask,
                        parallelism,
                        max_parallelism: MAX_PARALLELISM,
                        key_groups,
                        clock: Arc::new(TestClock::default()),
                        restored,
                        tables: &mut Opener(&store, &tables),
                    })
                    .unwrap();
                Subtask {
                    operator,
                    store,
                    tables,
                    frozen: None,
                    dir,
                }
            })
            .collect();
    }

    pub(super) fn rows(&mut self, batch: Batch) {
        let batches = match &mut self.local {
            Some(local) => {
                let mut out = Output::default();
                local.process(0, batch, &mut out).unwrap();
                local.before_barrier(&mut out).unwrap();
                out.take()
            }
            None => vec![Event::Batch(batch)],
        };
        for event in batches {
            let Event::Batch(batch) = event else { continue };
            for (subtask, part) in self.split(batch) {
                self.call(subtask as usize, |operator, out| {
                    operator.process(0, part, out)
                });
            }
        }
    }

    pub(super) fn watermark(&mut self, watermark: i64) {
        for subtask in 0..self.subtasks.len() {
            self.call(subtask, |operator, out| operator.watermark(watermark, out));
        }
    }

    fn split(&self, batch: Batch) -> Vec<(u32, Batch)> {
        let schema = batch.rows.schema();
        let types: Vec<DataType> = (self.case.keys.iter())
            .map(|key| schema.field(*key).data_type().clone())
            .collect();
        let encoder = KeyEncoder::new(types).unwrap();
        let parallelism = self.subtasks.len() as u32;
        Partitioner::new(
            self.case.keys.clone(),
            encoder,
            parallelism,
            MAX_PARALLELISM,
        )
        .split(batch)
        .unwrap()
    }

    /// Calls an operator and lets it go on until it has no more, with relief in between.
    fn call(
        &mut self,
        subtask: usize,
        work: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<(), OperatorError>,
    ) {
        let mut out = self.output();
        work(self.subtasks[subtask].operator.as_mut(), &mut out).unwrap();
        self.collect(out);
        while self.subtasks[subtask].operator.has_more() {
            self.maybe_relieve(subtask);
            let mut out = self.output();
            let operator = &mut self.subtasks[subtask].operator;
            operator.resume(&mut out).unwrap();
            self.collect(out);
        }
    }

    /// An output that takes one batch at a time if under pressure.
    fn output(&self) -> Output {
        let mut out = Output::default();
        if self.pressure.is_some() {
            out.emit(filler());
            assert!(out.is_full());
        }
        out
    }

    fn collect(&mut self, mut out: Output) {
        for event in out.take() {
            if let Event::Batch(batch) = event
                && batch.rows.schema() != filler().rows.schema()
            {
                self.results.extend(text::lines(&batch, false));
            }
        }
    }

    fn maybe_relieve(&mut self, subtask: usize) {
        let Some(random) = &mut self.pressure else {
            return;
        };
        if random.one_in(2) {
            let bytes = [u64::MAX, 1, 2_000][random.below(3) as usize];
            let written = random.one_in(2);
            self.subtasks[subtask].relieve(bytes, written);
        }
    }

    pub(super) fn barrier(&mut self) -> RestoredState {
        self.checkpoint += 1;
        let mut restored = RestoredState {
            restored: true,
            items: Vec::new(),
        };
        for subtask in 0..self.subtasks.len() {
            self.call(subtask, |operator, out| operator.before_barrier(out));
            let snapshot = self.subtasks[subtask].snapshot(self.checkpoint);
            restored.items.extend(snapshot.items);
        }
        restored
    }

    pub(super) fn restart(&mut self, parallelism: u32) {
        let restored = self.barrier();
        self.count_late();
        let former = std::mem::take(&mut self.subtasks);
        self.start(parallelism, &restored, &former);
    }

    /// What may happen between two events.
    pub(super) fn interlude(&mut self) {
        let Some(mut random) = self.pressure.take() else {
            return;
        };
        let choice = random.below(10);
        let parallelism = 1 + random.below(3) as u32;
        self.pressure = Some(random);
        match choice {
            0..4 => (0..self.subtasks.len()).for_each(|subtask| self.maybe_relieve(subtask)),
            4 => drop(self.barrier()),
            // As the checkpoint goes on while rows come.
            5 => {
                for subtask in &mut self.subtasks {
                    subtask.persist(self.checkpoint);
                }
            }
            6 => self.restart(parallelism),
            7 => {
                (0..self.subtasks.len()).for_each(|subtask| self.maybe_relieve(subtask));
                self.restart(parallelism);
            }
            _ => {}
        }
    }

    fn count_late(&mut self) {
        let late = self.subtasks.iter();
        self.late += late
            .map(|subtask| subtask.operator.late_rows().count)
            .sum::<u64>();
    }

    /// Ends the input; all state must be gone.
    pub(super) fn end(&mut self) -> (Vec<String>, u64) {
        self.watermark(i64::MAX);
        self.barrier();
        self.count_late();
        for subtask in &self.subtasks {
            assert_eq!(subtask.entries(), 0, "entries of windows that have fired");
            assert_eq!(subtask.operator.state_size(), Default::default());
        }
        let mut results = std::mem::take(&mut self.results);
        results.sort();
        (results, self.late)
    }
}

fn copy_state(former: &[Subtask], store: &SlotStore, key_groups: KeyGroupRange) {
    let mut deltas = Vec::new();
    for subtask in former {
        for ((state_id, name), table) in subtask.tables.0.borrow().iter() {
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
    store.spill(deltas).write().unwrap();
}

/// Enough bytes to fill an output.
pub(super) fn filler() -> Batch {
    let numbers = Int64Array::from(vec![0; 1 << 18]);
    let rows = RecordBatch::try_from_iter([("filler", Arc::new(numbers) as _)]).unwrap();
    Batch::inserts(rows)
}
