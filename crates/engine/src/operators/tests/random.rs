//! Random rows against plain models: a list of windows, a list of sessions, a bag of rows.

use std::collections::{BTreeMap, BTreeSet};

use millrace_dataflow::{ChangelogMode, WindowKind};

use super::{
    harness::Step::{self, End, Rows, Watermark},
    nodes::{Phases, event_time, group_case, window_case},
};

/// Small numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as i64 % bound as i64
    }
}

#[derive(Debug, Clone, Copy)]
struct Row {
    key: i64,
    value: i64,
    time: i64,
}

enum Event {
    Rows(Vec<Row>),
    Watermark(i64),
}

fn events(seed: u64) -> Vec<Event> {
    let mut random = Random(seed);
    let mut events = Vec::new();
    for round in 0..6 {
        let rows = (0..1 + random.below(25)).map(|_| Row {
            key: random.below(4),
            value: random.below(5) - 2,
            time: round * 12 + random.below(60) - 40,
        });
        events.push(Event::Rows(rows.collect()));
        if random.below(3) > 0 {
            events.push(Event::Watermark(round * 12 + random.below(6) - 12));
        }
    }
    events
}

fn steps(events: &[Event]) -> Vec<Step> {
    let mut steps: Vec<Step> = events
        .iter()
        .map(|event| match event {
            Event::Rows(rows) => {
                let lines: Vec<String> = rows
                    .iter()
                    .map(|row| format!("{}, {}, {}", row.key, row.value, row.time))
                    .collect();
                Rows(lines.join("\n").leak())
            }
            Event::Watermark(watermark) => Watermark(*watermark),
        })
        .collect();
    steps.push(End);
    steps
}

/// Windows that contain a time, by trying every start.
fn windows_of(kind: WindowKind, time: i64) -> Vec<(i64, i64)> {
    let mut windows = Vec::new();
    for start in time - 70..=time {
        let (step, offset, ends) = match kind {
            WindowKind::Tumble { size, offset } => (size, offset, vec![start + size]),
            WindowKind::Hop {
                size,
                slide,
                offset,
            } => (slide, offset, vec![start + size]),
            WindowKind::Cumulate { size, step, offset } => (
                size,
                offset,
                (1..=size / step).map(|i| start + i * step).collect(),
            ),
            WindowKind::Session { .. } => unreachable!(),
        };
        if (start - offset).rem_euclid(step) == 0 {
            windows.extend(
                ends.into_iter()
                    .filter(|end| time < *end)
                    .map(|end| (start, end)),
            );
        }
    }
    windows
}

const INPUT: &str = "k:bigint v:bigint t:ts";
const CALLS: [&str; 4] = ["COUNT(*)", "SUM(1)", "MIN(1)", "DISTINCT COUNT(1)"];

fn summary(rows: &[Row]) -> String {
    let sum: i64 = rows.iter().map(|row| row.value).sum();
    let least = rows.iter().map(|row| row.value).min().unwrap();
    let distinct: BTreeSet<i64> = rows.iter().map(|row| row.value).collect();
    format!("{}, {sum}, {least}, {}", rows.len(), distinct.len())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn sliced_windows_equal_a_list_of_windows() {
    let kinds = [
        WindowKind::Tumble { size: 7, offset: 2 },
        WindowKind::Hop {
            size: 12,
            slide: 4,
            offset: 0,
        },
        WindowKind::Hop {
            size: 10,
            slide: 4,
            offset: -1,
        },
        WindowKind::Hop {
            size: 3,
            slide: 7,
            offset: 0,
        },
        WindowKind::Cumulate {
            size: 15,
            step: 5,
            offset: 1,
        },
    ];
    for (seed, kind) in kinds.into_iter().enumerate() {
        let events = events(seed as u64 + 11);
        let mut model: BTreeMap<(i64, i64, i64), Vec<Row>> = BTreeMap::new();
        let (mut watermark, mut late) = (i64::MIN, 0);
        for event in &events {
            match event {
                Event::Watermark(now) => watermark = watermark.max(*now),
                Event::Rows(rows) => {
                    for row in rows {
                        let windows = windows_of(kind, row.time);
                        let open = windows.iter().filter(|(_, end)| end - 1 > watermark);
                        late += u64::from(!windows.is_empty() && open.clone().count() == 0);
                        for (start, end) in open {
                            model.entry((*end, *start, row.key)).or_default().push(*row);
                        }
                    }
                }
            }
        }
        let expected = model.iter().map(|((end, start, key), rows)| {
            format!("+I {key}, {}, {start}, {end}, {}", summary(rows), end - 1)
        });
        let expected = sorted(expected.collect());
        for phases in [Phases::One, Phases::Two] {
            let case = window_case(INPUT, &[0], &CALLS, event_time(2, kind), phases);
            let steps = steps(&events);
            assert_eq!(sorted(case.run(&steps)), expected, "{kind:?} {phases:?}");
            assert_eq!(case.late(&steps).count, late, "{kind:?} {phases:?}");
        }
    }
}

#[test]
fn sessions_equal_a_list_of_sessions() {
    for (seed, gap) in [(21, 3), (22, 8)] {
        let events = events(seed);
        // Per key: start, end, rows.
        let mut live: Vec<(i64, i64, i64, Vec<Row>)> = Vec::new();
        let mut fired = Vec::new();
        let mut late = 0;
        let mut watermark = i64::MIN;
        let close =
            |live: &mut Vec<(i64, i64, i64, Vec<Row>)>, watermark: i64, fired: &mut Vec<String>| {
                live.retain(|(key, start, end, rows)| {
                    if end - 1 <= watermark {
                        fired.push(format!(
                            "+I {key}, {}, {start}, {end}, {}",
                            summary(rows),
                            end - 1
                        ));
                    }
                    end - 1 > watermark
                });
            };
        for event in &events {
            match event {
                Event::Watermark(now) => {
                    watermark = watermark.max(*now);
                    close(&mut live, watermark, &mut fired);
                }
                Event::Rows(rows) => {
                    for row in rows {
                        let mut merged = (row.key, row.time, row.time + gap, vec![*row]);
                        let mut alone = true;
                        live.retain(|(key, start, end, rows)| {
                            let touches =
                                *key == row.key && *start <= row.time + gap && row.time <= *end;
                            if touches {
                                alone = false;
                                merged.1 = merged.1.min(*start);
                                merged.2 = merged.2.max(*end);
                                merged.3.extend(rows);
                            }
                            !touches
                        });
                        if alone && merged.2 - 1 <= watermark {
                            late += 1;
                        } else {
                            live.push(merged);
                        }
                    }
                }
            }
        }
        close(&mut live, i64::MAX, &mut fired);
        let window = event_time(2, WindowKind::Session { gap });
        let case = window_case(INPUT, &[0], &CALLS, window, Phases::One);
        let steps = steps(&events);
        assert_eq!(sorted(case.run(&steps)), sorted(fired), "gap {gap}");
        assert_eq!(case.late(&steps).count, late, "gap {gap}");
    }
}

#[test]
fn changelogs_add_up_to_a_bag_of_rows() {
    let mut random = Random(31);
    let mut rows: Vec<(i64, i64)> = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..8 {
        let mut lines = Vec::new();
        for _ in 0..1 + random.below(20) {
            if random.below(5) < 2 && !rows.is_empty() {
                let (key, value) = rows.swap_remove(random.below(rows.len() as u64) as usize);
                lines.push(format!("-D {key}, {value}"));
            } else {
                let row = (random.below(4), random.below(6));
                rows.push(row);
                lines.push(format!("+I {}, {}", row.0, row.1));
            }
        }
        steps.push(Rows(lines.join("\n").leak()));
    }
    let calls = [
        "COUNT(*)",
        "SUM(1)",
        "MIN(1)",
        "MAX(1)",
        "DISTINCT COUNT(1)",
        "DISTINCT SUM(1)",
    ];
    let case = group_case("k:bigint v:bigint", &[0], &calls, Phases::One, |node| {
        node.input_mode = ChangelogMode::Retract;
    });
    let mut state: BTreeMap<String, String> = BTreeMap::new();
    for line in case.run(&steps) {
        let (kind, row) = line.split_once(' ').unwrap();
        let (key, result) = row.split_once(", ").unwrap();
        let former = match kind {
            "+I" | "+U" => state.insert(key.into(), result.into()),
            _ => state.remove(key).filter(|former| former != result),
        };
        assert_eq!(former, None, "{line}");
    }
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    for key in 0..4 {
        let mut values: Vec<i64> = rows.iter().filter(|r| r.0 == key).map(|r| r.1).collect();
        if values.is_empty() {
            continue;
        }
        let (count, sum) = (values.len(), values.iter().sum::<i64>());
        values.sort_unstable();
        values.dedup();
        let (least, most) = (values[0], values[values.len() - 1]);
        let distinct_sum: i64 = values.iter().sum();
        expected.insert(
            key.to_string(),
            format!(
                "{count}, {sum}, {least}, {most}, {}, {distinct_sum}",
                values.len()
            ),
        );
    }
    assert_eq!(state, expected);
}
