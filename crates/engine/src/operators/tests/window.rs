//! TUMBLE, HOP and CUMULATE, windows that rows bring along, event and processing time, one
//! phase and two.

use millrace_dataflow::{TimeDomain, WindowKind, WindowSource};

use super::{
    harness::Step::{self, Clock, End, Rows, Watermark},
    nodes::{Phases, event_time, window_case},
};

const TUMBLE: WindowKind = WindowKind::Tumble {
    size: 10,
    offset: 0,
};
const INPUT: &str = "k:utf8 v:bigint t:ts";

fn both(keys: &[usize], calls: &[&str], kind: WindowKind, steps: &[Step], expected: &[&str]) {
    for phases in [Phases::One, Phases::Two] {
        let case = window_case(INPUT, keys, calls, event_time(2, kind), phases);
        assert_eq!(case.run(steps), expected, "{phases:?}");
    }
}

#[test]
fn tumble_fires_in_order_and_drops_late_rows() {
    let steps = [
        Rows("a, 1, 1\nb, 2, 12\na, 3, 9\nnull, 4, 5"),
        Watermark(8),
        // Not late: the window is open until 9.
        Rows("a, 10, 0"),
        Watermark(9),
        // Late now, also after a restore; the other window is open.
        Rows("a, 100, 9\nb, 20, 10"),
        Watermark(18),
        Watermark(19),
        Rows("c, 1, 19\nc, 1, 35"),
        End,
    ];
    let expected = [
        "+I a, 3, 14, 0, 10, 9",
        "+I null, 1, 4, 0, 10, 9",
        "+I b, 2, 22, 10, 20, 19",
        "+I c, 1, 1, 30, 40, 39",
    ];
    both(&[0], &["COUNT(*)", "SUM(1)"], TUMBLE, &steps, &expected);
    for phases in [Phases::One, Phases::Two] {
        let case = window_case(INPUT, &[0], &["COUNT(*)"], event_time(2, TUMBLE), phases);
        let late = case.late(&steps);
        assert_eq!(late.count, 2, "{phases:?}");
        assert_eq!(late.samples.len(), 2, "{phases:?}");
        if phases == Phases::One {
            assert!(late.samples[0].contains(r#""k":"a""#), "{:?}", late.samples);
        }
    }
}

#[test]
fn tumble_with_offset_negative_times_and_no_keys() {
    let kind = WindowKind::Tumble {
        size: 10,
        offset: 3,
    };
    both(
        &[],
        &["COUNT(*)"],
        kind,
        &[Rows("a, 1, -8\na, 1, -7\na, 1, 2\na, 1, 3"), End],
        &["+I 1, -17, -7, -8", "+I 2, -7, 3, 2", "+I 1, 3, 13, 12"],
    );
}

#[test]
fn empty_input_and_empty_windows_emit_nothing() {
    both(&[0], &["COUNT(*)"], TUMBLE, &[End], &[]);
    both(
        &[0],
        &["COUNT(*)"],
        TUMBLE,
        &[Watermark(100), Rows("a, 1, 200"), Watermark(500), End],
        &["+I a, 1, 200, 210, 209"],
    );
}

#[test]
fn hop_counts_a_row_in_every_window_that_is_still_open() {
    let kind = WindowKind::Hop {
        size: 10,
        slide: 5,
        offset: 0,
    };
    both(
        &[0],
        &["COUNT(*)", "MAX(1)"],
        kind,
        &[
            Rows("a, 1, 3\na, 7, 6\nb, 5, 12"),
            // [-5, 5)
            Watermark(4),
            // Late for [-5, 5), counts in [0, 10). Fired windows do not fire again.
            Rows("a, 9, 4"),
            Watermark(9),
            // Late for all its windows.
            Rows("a, 50, 2\nb, 1, 8"),
            Watermark(14),
            End,
        ],
        &[
            "+I a, 1, 1, -5, 5, 4",
            "+I a, 3, 9, 0, 10, 9",
            "+I a, 1, 7, 5, 15, 14",
            "+I b, 2, 5, 5, 15, 14",
            "+I b, 1, 5, 10, 20, 19",
        ],
    );
}

#[test]
fn hop_whose_slide_does_not_divide_its_size() {
    // Windows [-6, 1) [-3, 4) [0, 7) [3, 10) [6, 13) …
    both(
        &[],
        &["COUNT(*)"],
        WindowKind::Hop {
            size: 7,
            slide: 3,
            offset: 0,
        },
        &[Rows("a, 1, 0\na, 1, 5\na, 1, 6"), End],
        &[
            "+I 1, -6, 1, 0",
            "+I 1, -3, 4, 3",
            "+I 3, 0, 7, 6",
            "+I 2, 3, 10, 9",
            "+I 1, 6, 13, 12",
        ],
    );
    // Rows between windows belong to none and are not late.
    let case = window_case(
        INPUT,
        &[],
        &["COUNT(*)"],
        event_time(
            2,
            WindowKind::Hop {
                size: 2,
                slide: 5,
                offset: 0,
            },
        ),
        Phases::One,
    );
    let steps = [
        Rows("a, 1, 1\na, 1, 3"),
        Watermark(4),
        Rows("a, 1, 2\na, 1, 6"),
        End,
    ];
    assert_eq!(case.run(&steps), ["+I 1, 0, 2, 1", "+I 1, 5, 7, 6"]);
    assert_eq!(case.late(&steps).count, 0);
}

#[test]
fn hop_with_very_many_windows_per_row_makes_them_one_by_one() {
    // A million windows per row; only those up to the watermark are ever looked at.
    both(
        &[],
        &["COUNT(*)"],
        WindowKind::Hop {
            size: 1_000_000,
            slide: 1,
            offset: 0,
        },
        &[Rows("a, 1, 0"), Watermark(0), Rows("a, 1, 2"), Watermark(2)],
        &[
            "+I 1, -999999, 1, 0",
            "+I 1, -999998, 2, 1",
            "+I 2, -999997, 3, 2",
        ],
    );
}

#[test]
fn watermarks_may_start_anew_after_a_restore() {
    let case = window_case(
        INPUT,
        &[],
        &["COUNT(*)"],
        event_time(2, TUMBLE),
        Phases::One,
    );
    // Sources make their watermarks anew; what was late stays late.
    let steps = [
        Rows("a, 1, 5"),
        Watermark(9),
        Watermark(3),
        Rows("a, 1, 6\na, 1, 16"),
        End,
    ];
    assert_eq!(case.run(&steps), ["+I 1, 0, 10, 9", "+I 1, 10, 20, 19"]);
    assert_eq!(case.late(&steps).count, 1);
}

#[test]
fn cumulate_grows_by_steps() {
    both(
        &[0],
        &["COUNT(*)", "SUM(1)"],
        WindowKind::Cumulate {
            size: 6,
            step: 2,
            offset: 0,
        },
        &[
            Rows("a, 1, 0\na, 2, 3"),
            Watermark(1),
            // Late for [0, 2) only.
            Rows("a, 4, 1\nb, 8, 2"),
            Watermark(3),
            Rows("b, 16, 5"),
            Watermark(5),
            Rows("b, 32, 5\nb, 64, 6"),
            End,
        ],
        &[
            "+I a, 1, 1, 0, 2, 1",
            "+I a, 3, 7, 0, 4, 3",
            "+I b, 1, 8, 0, 4, 3",
            "+I a, 3, 7, 0, 6, 5",
            "+I b, 2, 24, 0, 6, 5",
            "+I b, 1, 64, 6, 8, 7",
            "+I b, 1, 64, 6, 10, 9",
            "+I b, 1, 64, 6, 12, 11",
        ],
    );
}

#[test]
fn distinct_values_merge_over_slices_and_survive_restores() {
    both(
        &[0],
        &["DISTINCT COUNT(1)", "DISTINCT SUM(1)", "COUNT(1)"],
        WindowKind::Hop {
            size: 10,
            slide: 5,
            offset: 0,
        },
        &[
            Rows("a, 1, 1\na, 1, 2\na, 2, 6"),
            Rows("a, 1, 7\na, null, 8\nb, 1, 8"),
            Watermark(4),
            Rows("a, 3, 7"),
            End,
        ],
        &[
            "+I a, 1, 1, 2, -5, 5, 4",
            "+I a, 3, 6, 5, 0, 10, 9",
            "+I b, 1, 1, 1, 0, 10, 9",
            "+I a, 3, 6, 3, 5, 15, 14",
            "+I b, 1, 1, 1, 5, 15, 14",
        ],
    );
}

#[test]
fn every_function_survives_exchange_and_restore() {
    let calls = [
        "COUNT(1)",
        "SUM(1)",
        "AVG(1)",
        "MIN(1)",
        "MAX(0) utf8",
        "FIRST(1)",
        "LAST(0) utf8",
        "VAR_POP(1) double",
        "STDDEV_SAMP(1) double",
        "LISTAGG(0) utf8",
        "ARRAY_AGG(0) list",
        "DISTINCT LISTAGG(0) utf8",
    ];
    both(
        &[],
        &calls,
        TUMBLE,
        &[
            Rows("a, 2, 1\nb, 4, 2"),
            Rows("null, null, 3\na, 9, 4"),
            End,
        ],
        // Mean 5; squared deviations 9 + 1 + 16 = 26; 26 / 3, √(26 / 2).
        &[
            "+I 3, 15, 5, 2, b, 2, a, 8.666666666666666, 3.605551275463989, a|b|a, [a, b, null, a], a|b, 0, 10, 9",
        ],
    );
    // Nothing but nulls.
    both(
        &[],
        &calls,
        TUMBLE,
        &[Rows("null, null, 1"), End],
        &["+I 0, null, null, null, null, null, null, null, null, null, [null], null, 0, 10, 9"],
    );
}

#[test]
fn filters_apply_per_call() {
    for phases in [Phases::One, Phases::Two] {
        let case = window_case(
            "k:utf8 v:bigint t:ts f:bool g:bool",
            &[0],
            &[
                "COUNT(*)",
                "COUNT(*) IF 3",
                "SUM(1) IF 4",
                "DISTINCT COUNT(1) IF 3",
            ],
            event_time(2, TUMBLE),
            phases,
        );
        let steps = [
            Rows(
                "a, 1, 1, true, false\na, 1, 2, true, null\na, 2, 3, null, true\nb, 5, 4, false, false",
            ),
            // Spread over two windows, so that positions and filters combine.
            Rows("a, 7, 5, true, true\nb, 8, 15, true, true\na, 9, 6, false, true"),
            End,
        ];
        assert_eq!(
            case.run(&steps),
            [
                "+I a, 5, 3, 18, 2, 0, 10, 9",
                "+I b, 1, 0, null, 0, 0, 10, 9",
                "+I b, 1, 1, 8, 1, 10, 20, 19"
            ],
            "{phases:?}"
        );
    }
}

#[test]
fn windows_that_rows_bring_along() {
    let case = window_case(
        "k:utf8 s:ts e:ts",
        &[0],
        &["COUNT(*)"],
        WindowSource::Attached {
            start: 1,
            end: 2,
            zone: None,
        },
        Phases::One,
    );
    let steps = [
        // Same end, two starts.
        Rows("a, 0, 10\na, 5, 10\na, 0, 10\nb, 0, 20"),
        Watermark(8),
        Rows("a, 5, 10"),
        Watermark(9),
        Rows("a, 0, 10\nb, 0, 20"),
        End,
    ];
    assert_eq!(
        case.run(&steps),
        [
            "+I a, 2, 0, 10, 9",
            "+I a, 2, 5, 10, 9",
            "+I b, 2, 0, 20, 19"
        ]
    );
    assert_eq!(case.late(&steps).count, 1);
}

#[test]
fn windows_brought_along_by_local_time() {
    let case = window_case(
        "s:ts e:ts",
        &[],
        &["COUNT(*)"],
        WindowSource::Attached {
            start: 0,
            end: 1,
            zone: Some("Etc/GMT-1".into()),
        },
        Phases::One,
    );
    // One hour east of UTC: the window that ends at 01:00 local is complete at 00:00 UTC.
    let steps = [
        Rows("0, 3600000"),
        Watermark(-2),
        Rows("0, 3600000"),
        Watermark(-1),
        Rows("0, 3600000"),
        End,
    ];
    assert_eq!(case.run(&steps), ["+I 2, 0, 3600000, -1"]);
    assert_eq!(case.late(&steps).count, 1);
}

#[test]
fn processing_time_windows_follow_the_clock() {
    let window = WindowSource::Time {
        column: 2,
        kind: TUMBLE,
        domain: TimeDomain::Processing,
        zone: None,
    };
    let case = window_case(INPUT, &[0], &["COUNT(*)"], window, Phases::One);
    assert_eq!(
        case.run(&[
            Clock(3),
            Rows("a, 1, null\na, 1, null"),
            // Event time does not matter.
            Watermark(1000),
            Clock(9),
            Rows("b, 1, null"),
            Clock(10),
            Rows("a, 1, null"),
            Clock(12),
            // What is left at the end of the input fires.
            End,
        ]),
        [
            "+I a, 2, 0, 10, 9",
            "+I b, 1, 0, 10, 9",
            "+I a, 1, 10, 20, 19"
        ]
    );
}

#[test]
fn days_of_a_zone_follow_daylight_saving() {
    let (day, hour) = (86_400_000, 3_600_000i64);
    let window = WindowSource::Time {
        column: 2,
        kind: WindowKind::Tumble {
            size: day,
            offset: 0,
        },
        domain: TimeDomain::Event,
        zone: Some("America/New_York".into()),
    };
    // 2021-03-14 begins at 05:00Z and, an hour short, ends at 2021-03-15T04:00Z.
    let first = 18_700 * day;
    assert_eq!(first, 1_615_680_000_000);
    for phases in [Phases::One, Phases::Two] {
        let case = window_case(
            "k:utf8 v:bigint t:ltz",
            &[0],
            &["COUNT(*)"],
            window.clone(),
            phases,
        );
        let results = case.run(&[
            Rows("a, 1, 1615698000000\na, 1, 1615780799999\na, 1, 1615780800000"),
            Watermark(first + day + 4 * hour - 2),
            Watermark(first + day + 4 * hour - 1),
            // 2021-03-14 is over.
            Rows("a, 1, 1615780799999"),
            End,
        ]);
        let (second, third) = (first + day, first + 2 * day);
        assert_eq!(
            results,
            [
                format!("+I a, 2, {first}, {second}, {}", second + 4 * hour - 1),
                format!("+I a, 1, {second}, {third}, {}", third + 4 * hour - 1),
            ],
            "{phases:?}"
        );
    }
}

#[test]
fn rows_without_a_possible_time_are_refused() {
    use super::{harness::failure, text};
    let case = window_case(
        INPUT,
        &[0],
        &["COUNT(*)"],
        event_time(2, TUMBLE),
        Phases::One,
    );
    let error = failure(&case, text::batch(&case.input, "a, 1, 1\na, 1, null"));
    assert!(error.contains("row 1") && error.contains("NULL"), "{error}");
    // Microseconds taken for milliseconds, or worse.
    for time in ["9000000000000000000", "-9223372036854775808"] {
        let rows = format!("a, 1, 1\na, 1, {time}");
        let error = failure(&case, text::batch(&case.input, &rows));
        assert!(error.contains(time), "{error}");
    }
}
