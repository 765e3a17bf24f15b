//! Windows whose state leaves memory: the same rows come out, whatever is pushed out when, and
//! nothing stays behind.

mod run;

use millrace_dataflow::{WindowKind, WindowSource};
use millrace_types::CheckpointId;

use self::run::{Random, Run, filler};
use super::{
    harness::Case,
    nodes::{Phases, event_time, window_case},
    text,
};
use crate::{Event, OperatorSnapshot, Output, operators::build};

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

fn run_steps(case: &Case, steps: &[Step], pressure: Option<Random>) -> (Vec<String>, u64) {
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
const SIMPLE: &[&str] = &["COUNT(*)", "SUM(2)", "MIN(2)", "AVG(2)", "MAX(0) utf8"];
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
        let expected = run_steps(case, &steps, None);
        assert!(
            expected.0.len() > 5,
            "too few results to tell: {expected:?}"
        );
        let found = run_steps(case, &steps, Some(random));
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
    check_kind(TUMBLE, &[0, 1], SIMPLE, 0..3);
    check_kind(TUMBLE, &[1], DISTINCT, 4..7);
    check_kind(TUMBLE, &[0], ORDERED, 8..11);
    check_kind(TUMBLE, &[], DISTINCT, 12..14);
}

#[test]
fn hopping_windows_are_the_same_under_pressure() {
    check_kind(HOP, &[1], SIMPLE, 20..23);
    check_kind(HOP, &[0, 1], DISTINCT, 24..27);
    check_kind(HOP, &[1], ORDERED, 28..31);
}

#[test]
fn cumulating_windows_are_the_same_under_pressure() {
    // Slices that are merged for good and those that are not differ in the order of late rows.
    check_kind(CUMULATE, &[0, 1], SIMPLE, 40..43);
    check_kind(CUMULATE, &[1], DISTINCT, 44..47);
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
fn a_slice_that_was_merged_away_comes_back_as_a_new_one() {
    let case = window_case(
        INPUT,
        &[0],
        &["COUNT(*)", "DISTINCT COUNT(2)"],
        event_time(3, CUMULATE),
        Phases::One,
    );
    let mut run = Run::new(&case, None);
    run.rows(text::batch(&case.input, "a, 1, 1, 5\na, 1, 2, 15"));
    run.barrier();
    // [0, 20) merges its slices: what the table has of the second is to go.
    run.watermark(19);
    run.rows(text::batch(&case.input, "a, 1, 3, 15"));
    run.subtasks[0].relieve(u64::MAX, true);
    let (results, late) = run.end();
    assert_eq!(
        results,
        [
            "a, 1, 1, 0, 10, 9",
            "a, 2, 2, 0, 20, 19",
            "a, 3, 3, 0, 30, 29",
            "a, 3, 3, 0, 40, 39",
        ]
    );
    assert_eq!(late, 0);
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
