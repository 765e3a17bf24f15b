//! Updating aggregates: their changelog, retraction, TTL, eviction.

use millrace_dataflow::ChangelogMode;

use super::{
    harness::Step::{self, Clock, Rows},
    nodes::{Phases, group_case},
};

const INPUT: &str = "k:utf8 v:bigint";

fn retracting(keys: &[usize], calls: &[&str], steps: &[Step], expected: &[&str]) {
    let case = group_case(INPUT, keys, calls, Phases::One, |node| {
        node.input_mode = ChangelogMode::Retract;
    });
    assert_eq!(case.run(steps), expected);
}

#[test]
fn one_change_per_key_and_batch_and_none_if_equal() {
    for phases in [Phases::One, Phases::Two] {
        let case = group_case(INPUT, &[0], &["COUNT(*)", "MAX(1)"], phases, |_| {});
        assert_eq!(
            case.run(&[
                Rows("a, 1\nb, 2\na, 3\nnull, 4"),
                Rows("a, 2\nb, 9\nb, 1"),
                Rows("c, null"),
            ]),
            [
                "+I a, 2, 3",
                "+I b, 1, 2",
                "+I null, 1, 4",
                "-U a, 2, 3",
                "+U a, 3, 3",
                "-U b, 1, 2",
                "+U b, 3, 9",
                "+I c, 1, null",
            ],
            "{phases:?}"
        );
        let case = group_case(INPUT, &[0], &["MAX(1)"], phases, |_| {});
        assert_eq!(
            case.run(&[Rows("a, 5"), Rows("a, 3\na, 5"), Rows("a, 6")]),
            ["+I a, 5", "-U a, 5", "+U a, 6"],
            "{phases:?}"
        );
    }
}

#[test]
fn per_row_changes_when_asked_for() {
    let case = group_case(INPUT, &[0], &["SUM(1)"], Phases::One, |node| {
        node.per_row = true
    });
    assert_eq!(
        case.run(&[Rows("a, 1\na, 2\nb, 5\na, 0\na, 4")]),
        [
            "+I a, 1", "-U a, 1", "+U a, 3", "+I b, 5", "-U a, 3", "+U a, 7"
        ]
    );
}

#[test]
fn without_keys_there_is_one_group() {
    for phases in [Phases::One, Phases::Two] {
        let case = group_case(INPUT, &[], &["COUNT(*)", "AVG(1)"], phases, |_| {});
        assert_eq!(
            case.run(&[Rows("a, -7\nb, 2"), Rows("c, 1")]),
            // −5 / 2 truncates toward zero; −4 / 3 too.
            ["+I 2, -2", "-U 2, -2", "+U 3, -1"],
            "{phases:?}"
        );
    }
    // Taken back to nothing, the result is deleted, as in Flink.
    retracting(
        &[],
        &["COUNT(*)"],
        &[Rows("+I a, 1"), Rows("-D a, 1"), Rows("+I b, 1")],
        &["+I 1", "-D 1", "+I 1"],
    );
}

#[test]
fn retraction_is_exact() {
    retracting(
        &[0],
        &[
            "COUNT(*)",
            "SUM(1)",
            "MIN(1)",
            "MAX(1)",
            "DISTINCT COUNT(1)",
            "FIRST(1)",
            "LAST(1)",
            "DISTINCT SUM(1)",
        ],
        &[
            Rows("+I a, 5\n+I a, 7\n+I a, 5\n+I a, 9"),
            Rows("-U a, 9\n+U a, 6"),
            Rows("-D a, 5"),
            Rows("-D a, 5"),
            Rows("-D a, 7\n-D a, 6"),
            Rows("+I a, null"),
        ],
        &[
            "+I a, 4, 26, 5, 9, 3, 5, 9, 21",
            "-U a, 4, 26, 5, 9, 3, 5, 9, 21",
            "+U a, 4, 23, 5, 7, 3, 5, 6, 18",
            "-U a, 4, 23, 5, 7, 3, 5, 6, 18",
            // The older 5 goes: 7, 5, 6 are left.
            "+U a, 3, 18, 5, 7, 3, 7, 6, 18",
            "-U a, 3, 18, 5, 7, 3, 7, 6, 18",
            "+U a, 2, 13, 6, 7, 2, 7, 6, 13",
            "-D a, 2, 13, 6, 7, 2, 7, 6, 13",
            "+I a, 1, null, null, null, 0, null, null, null",
        ],
    );
}

#[test]
fn retractions_of_unknown_rows_are_ignored() {
    retracting(
        &[0],
        &["COUNT(*)", "SUM(1)"],
        &[
            Rows("-U a, 5\n+U a, 7"),
            Rows("-D b, 1"),
            // Comes and goes within a batch.
            Rows("+I c, 1\n-D c, 1"),
            Rows("+I b, 2"),
        ],
        &["+I a, 1, 7", "+I b, 1, 2"],
    );
}

#[test]
fn variance_and_lists_take_back() {
    retracting(
        &[0],
        &["VAR_POP(1) double", "LISTAGG(0) utf8"],
        &[
            Rows("+I a, 1\n+I a, 3\n+I a, 8"),
            Rows("-D a, 8"),
            Rows("-D a, 1"),
        ],
        &[
            // Mean 4: (9 + 1 + 16) / 3.
            "+I a, 8.666666666666666, a|a|a",
            "-U a, 8.666666666666666, a|a|a",
            "+U a, 1.0, a|a",
            "-U a, 1.0, a|a",
            "+U a, 0.0, a",
        ],
    );
}

#[test]
fn select_distinct_emits_each_row_once() {
    for input_mode in [ChangelogMode::Append, ChangelogMode::Retract] {
        let case = group_case(INPUT, &[0, 1], &[], Phases::One, |node| {
            node.input_mode = input_mode;
        });
        assert_eq!(
            case.run(&[
                Rows("a, 1\nb, 1\na, 1\nnull, null"),
                Rows("b, 1\na, 2\nnull, null"),
            ]),
            ["+I a, 1", "+I b, 1", "+I null, null", "+I a, 2"]
        );
    }
    retracting(
        &[0],
        &[],
        &[
            Rows("+I a, 1\n+I a, 2"),
            Rows("-D a, 1"),
            Rows("-D a, 2"),
            Rows("+I a, 1"),
        ],
        &["+I a", "-D a", "+I a"],
    );
}

#[test]
fn sums_overflow_as_flinks_do() {
    // BIGINT and INT wrap.
    let case = group_case("k:utf8 v:bigint", &[0], &["SUM(1)"], Phases::One, |_| {});
    assert_eq!(
        case.run(&[Rows("a, 9223372036854775807\na, 1")]),
        ["+I a, -9223372036854775808"]
    );
    let case = group_case(
        "k:utf8 v:int",
        &[0],
        &["SUM(1) int", "AVG(1) int"],
        Phases::Two,
        |_| {},
    );
    assert_eq!(
        case.run(&[Rows("a, 2147483647\na, 2")]),
        ["+I a, -2147483647, 1073741824"]
    );
    // DECIMAL averages round half up at the result's scale; 0.05 / 3 and −0.05 / 2.
    let calls = ["SUM(1) dec38", "AVG(1) dec38.6"];
    let case = group_case("k:utf8 v:dec", &[0], &calls, Phases::Two, |_| {});
    assert_eq!(
        case.run(&[Rows("a, 0.02\na, 0.02\na, 0.01\nb, -0.05\nb, 0.00")]),
        ["+I a, 0.05, 0.016667", "+I b, -0.05, -0.025000"]
    );
}

#[test]
fn groups_end_with_their_ttl() {
    let case = group_case(
        INPUT,
        &[0],
        &["COUNT(*)", "DISTINCT COUNT(1)"],
        Phases::One,
        |node| {
            node.ttl_ms = 100;
        },
    );
    assert_eq!(
        case.run(&[
            Clock(1_000),
            Rows("a, 1\nb, 1"),
            Clock(1_050),
            Rows("a, 1"),
            Clock(1_120),
            // b is gone, a was written 70 ms ago.
            Rows("a, 1\nb, 1"),
            Clock(1_300),
            Rows("a, 1"),
        ]),
        [
            "+I a, 1, 1",
            "+I b, 1, 1",
            "-U a, 1, 1",
            "+U a, 2, 1",
            "-U a, 2, 1",
            "+U a, 3, 1",
            "+I b, 1, 1",
            "+I a, 1, 1",
        ]
    );
    // Of distinct values each has its own: 1 was not seen for 120 ms and counts as new, as in
    // Flink; 2 was.
    let case = group_case(INPUT, &[0], &["DISTINCT COUNT(1)"], Phases::One, |node| {
        node.ttl_ms = 100;
    });
    assert_eq!(
        case.run(&[
            Clock(1_000),
            Rows("a, 1\na, 2"),
            Clock(1_080),
            Rows("a, 2"),
            Clock(1_120),
            Rows("a, 1\na, 2"),
        ]),
        ["+I a, 2", "-U a, 2", "+U a, 2", "-U a, 2", "+U a, 3"]
    );
    // With a TTL an equal result is emitted again, as in Flink.
    let case = group_case(INPUT, &[0], &["MAX(1)"], Phases::One, |node| {
        node.ttl_ms = 100
    });
    assert_eq!(
        case.run(&[Clock(1_000), Rows("a, 5"), Rows("a, 3")]),
        ["+I a, 5", "-U a, 5", "+U a, 5"]
    );
}

#[test]
fn evicted_groups_come_back() {
    let case = group_case(
        INPUT,
        &[0],
        &["COUNT(*)", "DISTINCT COUNT(1)", "MAX(1)"],
        Phases::One,
        |node| node.input_mode = ChangelogMode::Retract,
    );
    assert_eq!(
        case.run(&[
            Rows("+I a, 1\n+I b, 2\n+I a, 1"),
            Rows("+I c, 1"),
            Rows("+I c, 2"),
            // Clean runs have had a barrier after steps 2 and 5.
            Rows("+I c, 3"),
            Rows("+I c, 4"),
            Rows("+I c, 5"),
            Rows("+I a, 1\n+I a, 2\n-D a, 1\n+I b, 1"),
        ]),
        [
            "+I a, 2, 1, 1",
            "+I b, 1, 1, 2",
            "+I c, 1, 1, 1",
            "-U c, 1, 1, 1",
            "+U c, 2, 2, 2",
            "-U c, 2, 2, 2",
            "+U c, 3, 3, 3",
            "-U c, 3, 3, 3",
            "+U c, 4, 4, 4",
            "-U c, 4, 4, 4",
            "+U c, 5, 5, 5",
            "-U a, 2, 1, 1",
            "+U a, 3, 2, 2",
            "-U b, 1, 1, 2",
            "+U b, 2, 2, 2",
        ]
    );
}

#[test]
fn filtered_distinct_counts_of_one_key() {
    for phases in [Phases::One, Phases::Two] {
        let calls = [
            "COUNT(*)",
            "COUNT(*) IF 2",
            "DISTINCT COUNT(1)",
            "DISTINCT COUNT(1) IF 2",
            "DISTINCT COUNT(1) IF 3",
        ];
        let case = group_case(
            "k:utf8 v:bigint p:bool q:bool",
            &[0],
            &calls,
            phases,
            |_| {},
        );
        assert_eq!(
            case.run(&[
                Rows("d, 1, true, false\nd, 2, false, true\nd, 1, true, false"),
                Rows("d, 2, true, null\nd, 2, false, true"),
            ]),
            [
                "+I d, 3, 2, 2, 1, 1",
                "-U d, 3, 2, 2, 1, 1",
                "+U d, 5, 3, 2, 2, 1"
            ],
            "{phases:?}"
        );
    }
}
