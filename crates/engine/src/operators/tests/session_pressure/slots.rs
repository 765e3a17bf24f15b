//! Session aggregates with their stores, treated as slots treat them.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use millrace_dataflow::{KeyEncoder, KeyGroupRange, NodeKind, StateId, WindowKind};
use millrace_state::{Delta, SlotStore, StateBudget, Table};
use millrace_types::CheckpointId;
use tempfile::TempDir;

use super::super::{
    harness::{Case, TestClock},
    nodes::{Phases, event_time, window_case},
    text,
};
use crate::{
    Batch, Event, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot, Output,
    RestoredState,
    operators::{session_aggregate::SessionAggregate, session_persistence::Pieces},
    partition::Partitioner,
};

const GAP: i64 = 1_000;
pub(super) const MAX_PARALLELISM: u32 = 12;
const TABLES: [&str; 3] = ["sessions", "cold", "due"];
pub(super) const TINY: Pieces = Pieces {
    bytes: 1,
    keys: 2,
    result_bytes: 1,
};

fn case() -> Case {
    window_case(
        "k:bigint v:bigint s:utf8 t:ts",
        &[0],
        &[
            "COUNT(*)",
            "SUM(1)",
            "DISTINCT COUNT(1)",
            "ARRAY_AGG(2) list",
        ],
        event_time(3, WindowKind::Session { gap: GAP }),
        Phases::One,
    )
}

pub(super) fn operator(case: &Case, pieces: Option<Pieces>) -> SessionAggregate {
    let NodeKind::WindowAggregate(node) = &case.node.kind else {
        panic!("{:?}", case.node.kind);
    };
    let schema = Arc::clone(&case.node.schema);
    let operator = SessionAggregate::new(Arc::clone(node), schema).unwrap();
    match pieces {
        Some(pieces) => operator.in_pieces(pieces),
        None => operator,
    }
}

pub(super) struct Opener<'a>(pub(super) &'a SlotStore);

impl OpenTable for Opener<'_> {
    fn open_table(
        &mut self,
        state_id: &StateId,
        name: &'static str,
        ttl_ms: u64,
    ) -> Result<Table, OperatorError> {
        Ok(self.0.table(state_id, name, ttl_ms)?)
    }
}

/// An operator with its store, treated as a slot treats it.
pub(super) struct Subtask {
    pub(super) operator: SessionAggregate,
    pub(super) store: SlotStore,
    /// Of snapshots that were given up.
    left_over: Vec<Delta>,
    dir: TempDir,
}

/// What a slot does between two calls while an operator has more to emit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Between {
    Nothing,
    Relieve(u64),
}

pub(super) struct Slots {
    pub(super) case: Case,
    pieces: Option<Pieces>,
    budget: StateBudget,
    pub(super) subtasks: Vec<Subtask>,
    checkpoint: u64,
    late: u64,
}

impl Slots {
    pub(super) fn new(pieces: Option<Pieces>) -> Self {
        let mut slots = Slots {
            case: case(),
            pieces,
            budget: StateBudget::new(16 << 20),
            subtasks: Vec::new(),
            checkpoint: 0,
            late: 0,
        };
        slots.start(1, &RestoredState::default(), Vec::new());
        slots
    }

    pub(super) fn start(
        &mut self,
        parallelism: u32,
        restored: &RestoredState,
        former: Vec<Subtask>,
    ) {
        self.subtasks = (0..parallelism)
            .map(|subtask| {
                let dir = TempDir::new().unwrap();
                let store = SlotStore::create(dir.path(), &self.budget).unwrap();
                let key_groups = KeyGroupRange::of_subtask(subtask, parallelism, MAX_PARALLELISM);
                copy_state(&former, &store, key_groups);
                let mut operator = operator(&self.case, self.pieces);
                operator
                    .open(&mut OpenContext {
                        subtask,
                        parallelism,
                        max_parallelism: MAX_PARALLELISM,
                        key_groups,
                        clock: Arc::new(TestClock::default()),
                        restored,
                        tables: &mut Opener(&store),
                    })
                    .unwrap();
                Subtask {
                    operator,
                    store,
                    left_over: Vec::new(),
                    dir,
                }
            })
            .collect();
        for subtask in &mut self.subtasks {
            subtask.finish(Between::Nothing, false);
        }
    }

    pub(super) fn rows(&mut self, rows: &str) {
        let batch = text::batch(&self.case.input, rows);
        let key = self.case.input.field(0).data_type().clone();
        let parts = Partitioner::new(
            vec![0],
            KeyEncoder::new(vec![key]).unwrap(),
            self.subtasks.len() as u32,
            MAX_PARALLELISM,
        )
        .split(batch)
        .unwrap();
        for (subtask, batch) in parts {
            let operator = &mut self.subtasks[subtask as usize].operator;
            operator.process(0, batch, &mut Output::default()).unwrap();
        }
    }

    /// Emitted rows, and per subtask the ends in order.
    pub(super) fn watermark(
        &mut self,
        watermark: i64,
        between: Between,
        full: bool,
    ) -> (Vec<String>, Vec<Vec<i64>>) {
        let (mut lines, mut ends) = (Vec::new(), Vec::new());
        for subtask in &mut self.subtasks {
            let mut out = output(full);
            subtask.operator.watermark(watermark, &mut out).unwrap();
            let mut events = taken(&mut out, full);
            events.extend(subtask.finish(between, full));
            // The watermark comes once, behind everything else.
            let last = events.pop();
            assert!(matches!(last, Some(Event::Watermark(at)) if at == watermark));
            let mut of_subtask = Vec::new();
            for event in events {
                let Event::Batch(batch) = event else {
                    panic!("{event:?} between the rows");
                };
                for line in text::lines(&batch, true) {
                    let end = line.rsplit(", ").nth(1).unwrap();
                    of_subtask.push(end.parse().unwrap());
                    lines.push(line);
                }
            }
            ends.push(of_subtask);
        }
        lines.sort();
        (lines, ends)
    }

    pub(super) fn relieve(&mut self, bytes: u64, is_written: bool) {
        for subtask in &mut self.subtasks {
            subtask.relieve(bytes, is_written);
        }
    }

    /// A barrier; `is_whole`: all tasks of the slot got to it.
    pub(super) fn barrier(&mut self, is_whole: bool) -> RestoredState {
        self.checkpoint += 1;
        let checkpoint = CheckpointId(self.checkpoint);
        let mut restored = RestoredState {
            restored: true,
            items: Vec::new(),
        };
        for subtask in &mut self.subtasks {
            let mut snapshot = OperatorSnapshot::default();
            let operator = &mut subtask.operator;
            operator.snapshot(checkpoint, &mut snapshot).unwrap();
            subtask.left_over.extend(snapshot.deltas);
            if is_whole {
                let deltas = std::mem::take(&mut subtask.left_over);
                let frozen = subtask.store.freeze(checkpoint, deltas);
                let cut = subtask.dir.path().join(format!("cut-{checkpoint}"));
                drop(frozen.persist(&cut).unwrap());
                operator.checkpoint_complete(checkpoint).unwrap();
            }
            restored.items.extend(snapshot.items);
        }
        restored
    }

    pub(super) fn restart(&mut self, parallelism: u32) {
        let restored = self.barrier(true);
        self.late = self.late();
        let former = std::mem::take(&mut self.subtasks);
        self.start(parallelism, &restored, former);
    }

    pub(super) fn late(&self) -> u64 {
        let late = self.subtasks.iter();
        let late: u64 = late.map(|subtask| subtask.operator.late_rows().count).sum();
        self.late + late
    }
}

impl Subtask {
    /// Resumes until there is no more.
    pub(super) fn finish(&mut self, between: Between, full: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut turns = 0;
        while self.operator.has_more() {
            if let Between::Relieve(bytes) = between {
                self.relieve(bytes, false);
            }
            let mut out = output(full);
            self.operator.resume(&mut out).unwrap();
            events.extend(taken(&mut out, full));
            turns += 1;
            assert!(turns < 10_000, "it never ends");
        }
        events
    }

    pub(super) fn relieve(&mut self, bytes: u64, is_written: bool) {
        let before = self.operator.state_size();
        let mut deltas = std::mem::take(&mut self.left_over);
        self.operator.relieve(bytes, &mut deltas).unwrap();
        let after = self.operator.state_size();
        if before.entries > 0 && bytes > 0 {
            let less = after.entries < before.entries || after.bytes < before.bytes;
            assert!(less, "{before:?} {after:?}");
        }
        if bytes == u64::MAX {
            assert_eq!(after.entries, 0);
        }
        let spill = self.store.spill(deltas);
        if is_written {
            spill.write().unwrap();
        }
    }
}

fn copy_state(former: &[Subtask], store: &SlotStore, key_groups: KeyGroupRange) {
    let id = StateId("window-aggregate-1".into());
    let mut deltas = Vec::new();
    for subtask in former {
        for name in TABLES {
            let mut delta = store.table(&id, name, 0).unwrap().delta();
            let table = subtask.store.table(&id, name, 0).unwrap();
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
    drop(store.spill(deltas));
}

/// `full`: so full that the next batch is the last.
fn output(full: bool) -> Output {
    let mut out = Output::default();
    if full {
        let values = Int64Array::from(vec![0; (2 << 17) - 1]);
        let rows = RecordBatch::try_from_iter([("filling", Arc::new(values) as _)]).unwrap();
        out.emit(Batch::inserts(rows));
    }
    out
}

fn taken(out: &mut Output, full: bool) -> Vec<Event> {
    let mut events = out.take();
    events.drain(..usize::from(full));
    events
}
