//! Session windows whose keys leave memory and come back, against ones that stay in memory.

mod slots;

use std::sync::Arc;

use millrace_dataflow::KeyGroupRange;

use self::slots::{Between, MAX_PARALLELISM, Opener, Slots, TINY, operator};
use super::{harness::TestClock, text};
use crate::{Event, OpenContext, Operator, Output, operators::session_persistence::Pieces};

#[derive(Debug, Clone)]
enum Act {
    /// Key or null, value, time before or after the watermark.
    Rows(Vec<(Option<i64>, i64, i64)>),
    /// By how much it advances.
    Watermark(i64, Option<u64>, bool),
    Relieve(u64, bool),
    Barrier(bool),
    Restart(u32),
}

/// Small numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as i64 % bound as i64
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn bytes(&mut self) -> u64 {
        match self.below(3) {
            0 => u64::MAX,
            1 => 1,
            _ => self.below(4_000) as u64 + 1,
        }
    }

    fn act(&mut self) -> Act {
        match self.below(14) {
            0..5 => {
                let rows = (0..1 + self.below(11)).map(|_| {
                    let key = (!self.chance(10)).then(|| self.below(8));
                    let time = if self.chance(8) {
                        4_000 + self.below(200_000)
                    } else {
                        self.below(5_500) - 1_500
                    };
                    (key, self.below(4), time)
                });
                Act::Rows(rows.collect())
            }
            5..8 => {
                let relieve = self.chance(2).then(|| self.bytes());
                Act::Watermark(self.below(2_500), relieve, self.chance(2))
            }
            8..11 => Act::Relieve(self.bytes(), self.chance(2)),
            11..13 => Act::Barrier(self.chance(2)),
            _ => Act::Restart(1 + self.below(2) as u32),
        }
    }
}

/// Acts as in `seed`, upon an operator with a store and one that never lets go of anything.
fn check(seed: u64) {
    let mut random = Random(seed * 0x9E37_79B9 + 1);
    (0..5).for_each(|_| _ = random.below(2));
    let is_tiny = random.chance(2);
    let mut slots = Slots::new(is_tiny.then_some(TINY));
    // Never opened: it has nowhere to put anything.
    let mut model = operator(&slots.case, None);
    let mut now = 0;
    if random.chance(2) {
        slots.watermark(now, Between::Nothing, false);
        model.watermark(now, &mut Output::default()).unwrap();
    }
    let mut acts: Vec<Act> = (0..1 + random.below(40)).map(|_| random.act()).collect();
    acts.push(Act::Watermark(i64::MAX, Some(u64::MAX), true));
    for (number, act) in acts.iter().enumerate() {
        let place = format!("seed {seed}, act {number} of {acts:?}");
        match act {
            Act::Rows(rows) => {
                let lines: Vec<String> = rows
                    .iter()
                    .map(|(key, value, time)| {
                        let key = key.map_or("null".to_owned(), |key| key.to_string());
                        format!("{key}, {value}, s{value}-{time}, {}", now + time)
                    })
                    .collect();
                let lines = lines.join("\n");
                slots.rows(&lines);
                let batch = text::batch(&slots.case.input, &lines);
                model.process(0, batch, &mut Output::default()).unwrap();
            }
            Act::Watermark(by, relieve, full) => {
                now = now.saturating_add(*by);
                let between = relieve.map_or(Between::Nothing, Between::Relieve);
                let (lines, ends) = slots.watermark(now, between, *full);
                let mut out = Output::default();
                model.watermark(now, &mut out).unwrap();
                let mut expected: Vec<String> = Vec::new();
                for event in out.take() {
                    if let Event::Batch(batch) = event {
                        expected.extend(text::lines(&batch, true));
                    }
                }
                expected.sort();
                assert_eq!(lines, expected, "{place}");
                for ends in ends {
                    // In tiny pieces, a bucket fires in parts.
                    assert!(is_tiny || ends.is_sorted(), "{ends:?}, {place}");
                }
            }
            Act::Relieve(bytes, written) => slots.relieve(*bytes, *written),
            Act::Barrier(whole) => drop(slots.barrier(*whole)),
            Act::Restart(parallelism) => slots.restart(*parallelism),
        }
        assert_eq!(slots.late(), model.late_rows().count, "{place}");
    }
}

#[test]
fn memory_makes_no_difference() {
    (0..48).for_each(check);
}

/// Rows of many keys, one per key, `every` ms apart.
fn many(keys: std::ops::Range<i64>, every: i64) -> String {
    let lines: Vec<String> = keys
        .map(|key| format!("{key}, 1, some text, {}", key * every))
        .collect();
    lines.join("\n")
}

#[test]
fn a_burst_of_due_sessions_does_not_come_back_at_once() {
    let mut slots = Slots::new(Some(Pieces {
        bytes: 4_000,
        keys: 20,
        result_bytes: 1 << 20,
    }));
    for first in (0..5_000).step_by(500) {
        slots.rows(&many(first..first + 500, 1));
        slots.relieve(u64::MAX, true);
    }
    let subtask = &mut slots.subtasks[0];
    let cold = subtask.operator.state_size();
    assert!(cold.bytes < 100_000, "{cold:?}");
    let mut out = Output::default();
    subtask.operator.watermark(i64::MAX, &mut out).unwrap();
    let (mut fired, mut peak) = (0, 0);
    loop {
        for event in out.take() {
            if let Event::Batch(batch) = event {
                fired += batch.len();
            }
        }
        peak = peak.max(subtask.operator.state_size().bytes);
        if !subtask.operator.has_more() {
            break;
        }
        if subtask.operator.state_size().bytes > 150_000 {
            subtask.relieve(u64::MAX, false);
        }
        subtask.operator.resume(&mut out).unwrap();
    }
    assert_eq!(fired, 5_000);
    assert!(peak < 250_000, "{peak}");
}

#[test]
fn the_least_recently_used_leave_first() {
    let mut slots = Slots::new(None);
    slots.rows(&many(0..100, 1));
    slots.rows(&many(100..200, 1));
    slots.rows(&many(0..50, 1));
    let size = slots.subtasks[0].operator.state_size();
    slots.relieve(size.bytes / 4, false);
    let rest = slots.subtasks[0].operator.state_size();
    assert!(
        rest.bytes <= size.bytes - size.bytes / 4,
        "{size:?} {rest:?}"
    );
    assert!((100..=150).contains(&rest.entries), "{rest:?}");
    // Keys 50 to 99 have left, as two thirds of what comes back show.
    slots.rows(&many(0..50, 1));
    assert_eq!(
        slots.subtasks[0].operator.state_size().entries,
        rest.entries
    );
    slots.rows(&many(50..100, 1));
    assert_eq!(
        slots.subtasks[0].operator.state_size().entries,
        rest.entries + 50
    );
}

#[test]
fn what_fired_does_not_come_back_while_its_deletion_is_on_the_way() {
    let mut slots = Slots::new(None);
    slots.rows("1, 1, a, 0\n2, 1, z, 90000");
    slots.relieve(u64::MAX, true);
    // Comes back, and fires; its deletion goes with a snapshot that is given up.
    slots.rows("1, 2, b, 10");
    let (lines, _) = slots.watermark(1_009, Between::Nothing, false);
    assert_eq!(lines, ["+I 1, 2, 3, 2, [a, b], 0, 1010, 1009"]);
    slots.barrier(false);
    slots.rows("1, 5, c, 1100");
    let (lines, _) = slots.watermark(i64::MAX, Between::Nothing, false);
    assert_eq!(
        lines,
        [
            "+I 1, 1, 5, 1, [c], 1100, 2100, 2099",
            "+I 2, 1, 1, 1, [z], 90000, 91000, 90999"
        ]
    );
}

#[test]
fn a_restore_takes_pieces() {
    let mut slots = Slots::new(Some(TINY));
    slots.rows(&many(0..40, 100));
    slots.rows("1, 1, later, 50000\n1, 1, latest, 90000");
    let restored = slots.barrier(true);
    let former = std::mem::take(&mut slots.subtasks);
    let store = &former[0].store;
    let mut operator = operator(&slots.case, Some(TINY));
    let mut context = OpenContext {
        subtask: 0,
        parallelism: 1,
        max_parallelism: MAX_PARALLELISM,
        key_groups: KeyGroupRange::of_subtask(0, 1, MAX_PARALLELISM),
        clock: Arc::new(TestClock::default()),
        restored: &restored,
        tables: &mut Opener(store),
    };
    operator.open(&mut context).unwrap();
    assert!(operator.has_more());
    assert!(operator.state_size().entries < 40);
    while operator.has_more() {
        operator.resume(&mut Output::default()).unwrap();
    }
    assert_eq!(operator.state_size().entries, 42);
}
