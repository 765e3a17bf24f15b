//! Windows whose state leaves memory: the same rows come out, whatever is pushed out when, and
//! nothing stays behind.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::DataType,
};
use millrace_dataflow::{KeyEncoder, KeyGroupRange, StateId, WindowKind, WindowSource};
use millrace_state::{FrozenSnapshot, SlotStore, StateBudget, Table};
use millrace_types::CheckpointId;
use tempfile::TempDir;

use super::{
    harness::{Case, TestClock},
    nodes::{Phases, event_time, window_case},
    text,
};
use crate::{
    Batch, Event, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot, Output,
    RestoredState, operators::build, partition::Partitioner,
};

const MAX_PARALLELISM: u32 = 12;

/// Small numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
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
struct Subtask {
    operator: Box<dyn Operator>,
    store: SlotStore,
    tables: Tables,
    /// Snapshots that are still to be persisted or given up.
    frozen: Option<FrozenSnapshot>,
    dir: TempDir,
}

impl Subtask {
    /// Number of entries in all tables.
    fn entries(&self) -> usize {
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

    fn relieve(&mut self, bytes: u64, written: bool) {
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

struct Run<'a> {
    case: &'a Case,
    budget: StateBudget,
    subtasks: Vec<Subtask>,
    local: Option<Box<dyn Operator>>,
    checkpoint: u64,
    results: Vec<String>,
    /// When set, outputs are full from the start and state is pushed out at random.
    pressure: Option<Random>,
    late: u64,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, pressure: Option<Random>) -> Self {
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

    fn start(&mut self, parallelism: u32, restored: &RestoredState, former: &[Subtask]) {
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

    fn rows(&mut self, batch: Batch) {
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

    fn watermark(&mut self, watermark: i64) {
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

    fn barrier(&mut self) -> RestoredState {
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

    fn restart(&mut self, parallelism: u32) {
        let restored = self.barrier();
        self.count_late();
        let former = std::mem::take(&mut self.subtasks);
        self.start(parallelism, &restored, &former);
    }

    /// What may happen between two events.
    fn interlude(&mut self) {
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
    fn end(&mut self) -> (Vec<String>, u64) {
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
fn filler() -> Batch {
    let numbers = Int64Array::from(vec![0; 1 << 18]);
    let rows = RecordBatch::try_from_iter([("filler", Arc::new(numbers) as _)]).unwrap();
    Batch::inserts(rows)
}

#[derive(Debug)]
enum Step {
    Rows(String),
    Watermark(i64),
}

/// Rows `key, number, value, time` and watermarks. Some are late for some windows or all.
fn steps(random: &mut Random, attached: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..8 {
        let mut lines = Vec::new();
        for _ in 0..1 + random.below(25) {
            let key = ["a", "b", "c", "d\u{e9}", "null"][random.below(5) as usize];
            let number = ["1", "2", "null"][random.below(3) as usize];
            let value = match random.below(6) {
                5 => "null".to_owned(),
                value => value.to_string(),
            };
            let time = round * 12 + random.below(60) - 40;
            lines.push(if attached {
                let end = time.div_euclid(10) * 10 + 10;
                let start = end - 10 * (1 + random.below(2));
                format!("{key}, {number}, {value}, {start}, {end}")
            } else {
                format!("{key}, {number}, {value}, {time}")
            });
        }
        steps.push(Step::Rows(lines.join("\n")));
        if random.below(3) > 0 {
            steps.push(Step::Watermark(round * 12 + random.below(6) - 12));
        }
    }
    steps
}

fn run(case: &Case, steps: &[Step], pressure: Option<Random>) -> (Vec<String>, u64) {
    let mut run = Run::new(case, pressure);
    for step in steps {
        match step {
            Step::Rows(rows) => run.rows(text::batch(&case.input, rows)),
            Step::Watermark(watermark) => run.watermark(*watermark),
        }
        run.interlude();
    }
    run.end()
}

const INPUT: &str = "k:utf8 n:int v:bigint t:ts";
const TUMBLE: WindowKind = WindowKind::Tumble {
    size: 10,
    offset: 3,
};
const HOP: WindowKind = WindowKind::Hop {
    size: 30,
    slide: 10,
    offset: 0,
};
const CUMULATE: WindowKind = WindowKind::Cumulate {
    size: 40,
    step: 10,
    offset: 0,
};
const SIMPLE: &[&str] = &[
    "COUNT(*)",
    "SUM(2)",
    "MIN(2)",
    "AVG(2)",
    "MAX(0) utf8",
];
const DISTINCT: &[&str] = &[
    "COUNT(*)",
    "DISTINCT COUNT(2)",
    "DISTINCT SUM(2)",
    "DISTINCT COUNT(0)",
    "DISTINCT COUNT(1)",
];
const ORDERED: &[&str] = &[
    "FIRST(2)",
    "LAST(2)",
    "LISTAGG(0) utf8",
    "FIRST(0) utf8",
    "LAST(0) utf8",
    "DISTINCT LISTAGG(0) utf8",
];

/// Holds a window aggregate to what it gives when all stays in memory.
fn check(name: &str, case: &Case, attached: bool, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed * 0x9E37_79B9 + 77);
        let steps = steps(&mut random, attached);
        let expected = run(case, &steps, None);
        assert!(
            expected.0.len() > 5,
            "too few results to tell: {expected:?}"
        );
        let found = run(case, &steps, Some(random));
        assert_eq!(found, expected, "{name}, seed {seed}: {steps:?}");
    }
}

fn check_kind(kind: WindowKind, keys: &[usize], calls: &[&str], seeds: std::ops::Range<u64>) {
    for phases in [Phases::One, Phases::Two] {
        let case = window_case(INPUT, keys, calls, event_time(3, kind), phases);
        let name = format!("{kind:?} by {keys:?} {phases:?}");
        check(&name, &case, false, seeds.clone());
    }
}

#[test]
fn tumbling_windows_are_the_same_under_pressure() {
    check_kind(TUMBLE, &[0, 1], SIMPLE, 0..4);
    check_kind(TUMBLE, &[1], DISTINCT, 4..8);
    check_kind(TUMBLE, &[0], ORDERED, 8..12);
    check_kind(TUMBLE, &[], DISTINCT, 12..14);
}

#[test]
fn hopping_windows_are_the_same_under_pressure() {
    check_kind(HOP, &[1], SIMPLE, 20..24);
    check_kind(HOP, &[0, 1], DISTINCT, 24..28);
    check_kind(HOP, &[1], ORDERED, 28..32);
}

#[test]
fn cumulating_windows_are_the_same_under_pressure() {
    // Slices that are merged for good and those that are not differ in the order of late rows.
    check_kind(CUMULATE, &[0, 1], SIMPLE, 40..44);
    check_kind(CUMULATE, &[1], DISTINCT, 44..48);
}

#[test]
fn windows_brought_along_are_the_same_under_pressure() {
    let window = WindowSource::Attached {
        start: 3,
        end: 4,
        zone: None,
    };
    for (calls, seeds) in [(DISTINCT, 60..63), (ORDERED, 63..66)] {
        let input = "k:utf8 n:int v:bigint s:ts e:ts";
        let case = window_case(input, &[0], calls, window.clone(), Phases::One);
        check("attached", &case, true, seeds);
    }
}

/// `keys` rows, one per key, at this time.
fn many(keys: i64, time: i64) -> String {
    let lines: Vec<String> = (0..keys).map(|n| format!("a, {n}, {n}, {time}")).collect();
    lines.join("\n")
}

#[test]
fn a_large_window_comes_out_in_pieces() {
    const KEYS: i64 = 20_000;
    for cold in [false, true] {
        let case = window_case(
            INPUT,
            &[1],
            &["COUNT(*)", "DISTINCT COUNT(2)"],
            event_time(3, HOP),
            Phases::One,
        );
        let mut run = Run::new(&case, None);
        run.rows(text::batch(&case.input, &many(KEYS, 5)));
        if cold {
            run.subtasks[0].relieve(u64::MAX, true);
        }
        run.rows(text::batch(&case.input, &many(KEYS, 15)));
        let subtask = &mut run.subtasks[0];
        let mut out = Output::default();
        out.emit(filler());
        // The window [-20, 10) first, then [-10, 20), which has two slices.
        subtask.operator.watermark(19, &mut out).unwrap();
        let mut pieces = vec![out.take()];
        while subtask.operator.has_more() {
            // What is being fired stays; what it leaves to delete goes.
            let refused = &mut OperatorSnapshot::default();
            assert!(subtask.operator.snapshot(CheckpointId(1), refused).is_err());
            subtask.relieve(u64::MAX, false);
            let mut out = Output::default();
            out.emit(filler());
            subtask.operator.resume(&mut out).unwrap();
            pieces.push(out.take());
        }
        let mut rows = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let mut of_piece = 0;
            for event in &piece[1..] {
                match event {
                    Event::Batch(batch) => {
                        of_piece += batch.len();
                        rows.extend(text::lines(batch, false));
                    }
                    Event::Watermark(19) if number == pieces.len() - 1 => {}
                    other => panic!("{other:?} in piece {number} of {}", pieces.len()),
                }
            }
            assert!(of_piece <= 8_192, "{of_piece} rows at once");
        }
        assert!(pieces.len() >= 6, "{} pieces", pieces.len());
        rows.sort();
        let mut expected: Vec<String> = (0..KEYS)
            .flat_map(|n| {
                [
                    format!("{n}, 1, 1, -20, 10, 9"),
                    format!("{n}, 2, 1, -10, 20, 19"),
                ]
            })
            .collect();
        expected.sort();
        assert!(rows == expected, "{} rows, cold: {cold}", rows.len());
        let (rest, late) = run.end();
        // [0, 30) and [10, 40).
        assert_eq!((rest.len() as i64, late), (2 * KEYS, 0));
    }
}

#[test]
fn relief_lets_go_of_the_least_recently_used_and_of_no_more_than_asked() {
    let case = window_case(
        INPUT,
        &[1],
        &["COUNT(*)"],
        event_time(3, TUMBLE),
        Phases::One,
    );
    let mut run = Run::new(&case, None);
    run.rows(text::batch(&case.input, &many(1_000, 25)));
    run.rows(text::batch(&case.input, &many(2_000, 5)));
    run.rows(text::batch(&case.input, &many(10, 35)));
    // The slice of 25 is used again.
    run.rows(text::batch(&case.input, "a, 1, 1, 25"));
    let size = |run: &Run<'_>| run.subtasks[0].operator.state_size();
    let before = size(&run);
    assert_eq!(before.entries, 3_010);
    run.subtasks[0].relieve(1, true);
    let after = size(&run);
    assert_eq!(after.entries, 3_010);
    assert_eq!(run.subtasks[0].entries(), 2_000, "the slice of 5 is out");
    assert!(after.bytes < before.bytes, "{before:?} {after:?}");
    run.subtasks[0].relieve(u64::MAX, true);
    assert_eq!(run.subtasks[0].entries(), 3_010);
    assert_eq!(size(&run).bytes, 0);
    // Nothing is left to let go of; nothing changes.
    run.subtasks[0].relieve(u64::MAX, true);
    assert_eq!(run.subtasks[0].entries(), 3_010);
    // A restore reads no entries, and knows how many there are.
    run.restart(2);
    let sizes: Vec<_> = (run.subtasks.iter())
        .map(|subtask| subtask.operator.state_size())
        .collect();
    assert!(sizes.iter().all(|size| size.bytes == 0), "{sizes:?}");
    let entries: u64 = sizes.iter().map(|size| size.entries).sum();
    assert!((3_000..=3_010).contains(&entries), "{sizes:?}");
    assert_eq!(run.end().0.len(), 3_010);
}

#[test]
fn state_from_before_there_were_runs_is_found() {
    let case = window_case(INPUT, &[0], DISTINCT, event_time(3, HOP), Phases::One);
    let rows = "a, 1, 1, 5\na, 1, 2, 15\nnull, 2, 2, 15\nb, 1, 1, 25";
    let more = "a, 1, 2, 16\nb, 1, 7, 26";
    let mut clean = Run::new(&case, None);
    clean.rows(text::batch(&case.input, rows));
    clean.watermark(9);
    clean.rows(text::batch(&case.input, more));
    let expected = clean.end();

    let mut run = Run::new(&case, None);
    run.rows(text::batch(&case.input, rows));
    run.watermark(9);
    let mut restored = run.barrier();
    restored.items.retain(|item| item.name != "runs");
    let former = std::mem::take(&mut run.subtasks);
    run.start(2, &restored, &former);
    run.rows(text::batch(&case.input, more));
    assert_eq!(run.end(), expected);
}

#[test]
fn local_aggregates_send_what_they_hold_before_it_is_much() {
    let case = window_case(
        INPUT,
        &[0],
        &["DISTINCT COUNT(2)"],
        event_time(3, TUMBLE),
        Phases::Two,
    );
    let node = case.local.as_ref().unwrap();
    let mut local = build(node, std::slice::from_ref(&case.input)).unwrap();
    let (mut sent, mut most) = (0, 0);
    for round in 0..200 {
        // One group, with ever more distinct values.
        let rows: Vec<String> = (0..5_000)
            .map(|n| format!("a, 1, {}, 5", round * 5_000 + n))
            .collect();
        let mut out = Output::default();
        let batch = text::batch(&case.input, &rows.join("\n"));
        local.process(0, batch, &mut out).unwrap();
        sent += out.take().len();
        most = most.max(local.state_size().bytes);
    }
    assert!(sent > 0, "nothing was sent early");
    assert!(most <= 12 << 20, "{most} bytes were held");
}
