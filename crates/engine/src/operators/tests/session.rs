//! Session windows.

use millrace_dataflow::{TimeDomain, WindowKind, WindowSource};

use super::{
    harness::Step::{self, Clock, End, Rows, Watermark},
    nodes::{Phases, event_time, window_case},
};

const SESSION: WindowKind = WindowKind::Session { gap: 10 };
const INPUT: &str = "k:utf8 v:bigint t:ts";

fn check(calls: &[&str], steps: &[Step], expected: &[&str], late: u64) {
    let case = window_case(INPUT, &[0], calls, event_time(2, SESSION), Phases::One);
    assert_eq!(case.run(steps), expected);
    assert_eq!(case.late(steps).count, late);
}

#[test]
fn sessions_close_after_the_gap() {
    check(
        &["COUNT(*)", "SUM(1)"],
        &[
            Rows("a, 1, 0\na, 2, 9\nb, 4, 5"),
            Watermark(13),
            // The session of b is open until 14.
            Rows("b, 8, 14"),
            Watermark(14),
            Watermark(18),
            // Touches [5, 24): still one.
            Rows("b, 16, 24\nnull, 1, 20\na, 32, 19"),
            End,
        ],
        &[
            // a's session [0, 19) fires at 18; 19 starts the next.
            "+I a, 2, 3, 0, 19, 18",
            "+I a, 1, 32, 19, 29, 28",
            "+I null, 1, 1, 20, 30, 29",
            "+I b, 3, 28, 5, 34, 33",
        ],
        0,
    );
}

#[test]
fn out_of_order_rows_bridge_sessions() {
    check(
        &[
            "COUNT(*)",
            "MIN(1)",
            "MAX(1)",
            "DISTINCT COUNT(1)",
            "LISTAGG(0) utf8",
        ],
        &[
            Rows("a, 1, 0\na, 2, 30\na, 3, 50"),
            // 15 touches neither; 8 and 20 bridge the first two within one batch.
            Rows("a, 1, 15"),
            Rows("a, 9, 8\na, 2, 22"),
            Watermark(20),
            Rows("a, 7, 40"),
            End,
        ],
        &["+I a, 7, 1, 9, 5, a|a|a|a|a|a|a, 0, 60, 59"],
        0,
    );
}

#[test]
fn late_rows_are_those_without_a_live_session() {
    check(
        &["COUNT(*)"],
        &[
            Rows("a, 1, 0\nb, 1, 12"),
            Watermark(15),
            // a's session is gone; b's lives, and a row before it may join it.
            Rows("a, 1, 6\nb, 1, 5\nb, 1, 2\na, 1, 7"),
            End,
        ],
        &[
            "+I a, 1, 0, 10, 9",
            // [6, 16) is over at 15, [7, 17) is not.
            "+I a, 1, 7, 17, 16",
            "+I b, 3, 2, 22, 21",
        ],
        1,
    );
}

#[test]
fn processing_time_sessions() {
    let window = WindowSource::Time {
        column: 2,
        kind: SESSION,
        domain: TimeDomain::Processing,
        zone: None,
    };
    let case = window_case(INPUT, &[0], &["COUNT(*)"], window, Phases::One);
    assert_eq!(
        case.run(&[
            Clock(5),
            Rows("a, 1, null"),
            Clock(12),
            Rows("a, 1, null"),
            // A timer at the first end finds that the session has grown.
            Clock(15),
            Clock(22),
            Clock(23),
            Rows("a, 1, null"),
            End,
        ]),
        ["+I a, 2, 5, 22, 21", "+I a, 1, 23, 33, 32"]
    );
}

#[test]
fn many_keys_in_one_batch() {
    let case = window_case(
        "k:bigint v:bigint t:ts",
        &[0],
        &["SUM(1)"],
        event_time(2, SESSION),
        Phases::One,
    );
    assert_eq!(
        case.run(&[
            Rows("1, 1, 0\n2, 1, 1\n1, 1, 5\n2, 1, 30\n1, 1, 100\nnull, 1, 5\n1, 1, 95"),
            Watermark(20),
            Rows("2, 1, 21"),
            End
        ]),
        [
            "+I 2, 1, 1, 11, 10",
            "+I 1, 2, 0, 15, 14",
            "+I null, 1, 5, 15, 14",
            "+I 2, 2, 21, 40, 39",
            "+I 1, 2, 95, 110, 109"
        ]
    );
}
