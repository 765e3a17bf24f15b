//! Shapes of graphs, feature by feature.

use super::{compiled, options, plan_at};
use crate::{CompileOptions, compile};

const BIDS: &str = "CREATE TABLE bids (auction BIGINT, price BIGINT, item STRING, ts TIMESTAMP(3),
    pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'x');\n";

/// The plan without details, one node per line.
fn shape_at(script: &str, parallelism: u32) -> Vec<String> {
    plan_at(&format!("{BIDS}{script}"), parallelism)
        .lines()
        .filter(|line| line.trim_start().starts_with('[') || line.contains("← ["))
        .map(|line| {
            let line = line.trim();
            let (exchange, node) = match line.split_once(" ← ") {
                Some((exchange, node)) => (format!("{exchange} ← "), node),
                None => (String::new(), line),
            };
            let (_, name) = node.split_once("] ").unwrap_or(("", node));
            format!("{exchange}{name}")
        })
        .collect()
}

fn shape(script: &str) -> Vec<String> {
    shape_at(script, 1)
}

#[test]
fn a_windowed_aggregate_takes_its_window_in() {
    let text = plan_at(
        &format!(
            "{BIDS}CREATE TABLE counts (auction BIGINT, n BIGINT, s TIMESTAMP(3)) WITH ('connector' = 'y');
             INSERT INTO counts SELECT auction, COUNT(*), window_start
                FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                WHERE price > 100 GROUP BY auction, window_start, window_end;"
        ),
        1,
    );
    let expected = "\
[4] Sink: counts
    writes auction BIGINT, n BIGINT, s TIMESTAMP(3)
  [3] Calc: auction, n, s
      auction
      n = agg0
      s = window_start
    [2] TUMBLE 10 s: COUNT(*) by auction
        TUMBLE 10 s over ts
        agg0 = COUNT(*)
      hash(auction) ← [1] Calc: auction, ts where (price > CAST(100 AS BIGINT))
          where (price > CAST(100 AS BIGINT))
          auction
          ts
        [0] Source: bids
            reads auction BIGINT, price BIGINT, ts TIMESTAMP(3)
            watermark for ts: ADD_INTERVAL[-4000 ms](ts), idle after 60000 ms
";
    assert_eq!(text, expected);
}

#[test]
fn windows_in_their_syntaxes() {
    for (from, expected) in [
        (
            "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))",
            "TUMBLE 10 min",
        ),
        (
            "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
            "TUMBLE 10 min",
        ),
        (
            "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '8' HOUR))",
            "TUMBLE 1 d offset 8 h",
        ),
        (
            "TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '5' SECOND))",
            "TUMBLE 5 s",
        ),
        (
            "TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))",
            "HOP 10 s every 2 s",
        ),
        (
            "TABLE(HOP(SIZE => INTERVAL '10' SECOND, SLIDE => INTERVAL '2' SECOND,
                TIMECOL => DESCRIPTOR(ts), DATA => TABLE bids))",
            "HOP 10 s every 2 s",
        ),
        (
            "TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))",
            "CUMULATE 2 min up to 10 min",
        ),
        (
            "TABLE(SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
            "SESSION 5 min",
        ),
        (
            "(SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND))) AS x",
            "TUMBLE 5 s",
        ),
    ] {
        let lines = shape(&format!(
            "SELECT auction, COUNT(*), window_end FROM {from} GROUP BY auction, window_start, window_end"
        ));
        assert_eq!(
            lines[2],
            format!("{expected}: COUNT(*) by auction"),
            "{from}"
        );
    }
}

#[test]
fn group_windows() {
    for (window, start, expected) in [
        (
            "TUMBLE(ts, INTERVAL '5' SECOND)",
            "TUMBLE_START(ts, INTERVAL '5' SECOND)",
            "TUMBLE 5 s",
        ),
        (
            "HOP(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND)",
            "HOP_END(ts, INTERVAL '2' SECOND, INTERVAL '4' SECOND)",
            "HOP 4 s every 2 s",
        ),
    ] {
        let lines = shape(&format!(
            "SELECT auction, {start}, SUM(price) FROM bids GROUP BY auction, {window}"
        ));
        assert_eq!(
            lines[2],
            format!("{expected}: SUM(bids.price BIGINT) by auction")
        );
    }
    // Without other keys, and with the time attribute passed on to another window.
    let lines = shape(
        "SELECT window_start, SUM(n) FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(rt), INTERVAL '1' MINUTE))
         GROUP BY window_start, window_end"
            .replace(
                "SELECT window_start",
                "CREATE VIEW v AS SELECT TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND) AS rt, COUNT(*) AS n
                 FROM bids GROUP BY TUMBLE(ts, INTERVAL '5' SECOND); SELECT window_start",
            )
            .as_str(),
    );
    assert!(
        lines.iter().any(|line| line.contains("TUMBLE 1 min")),
        "{lines:?}"
    );
}

#[test]
fn windows_without_aggregates_are_columns() {
    let lines = shape(
        "SELECT auction, window_start FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND,
            INTERVAL '10' SECOND)) WHERE price > 5",
    );
    assert_eq!(
        lines,
        [
            "Sink: $result",
            "Calc: auction, window_start",
            "Windows: HOP 10 s every 2 s",
            "Calc: auction, ts where (price > CAST(5 AS BIGINT))",
            "Source: bids",
        ]
    );
}

#[test]
fn aggregating_a_window_again_keeps_the_window() {
    let lines = shape(
        "SELECT MAX(n), window_start, window_end FROM (
            SELECT auction, COUNT(*) AS n, window_start, window_end
            FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end) GROUP BY window_start, window_end",
    );
    assert_eq!(
        lines[2],
        "hash() ← same window: MAX(COUNT(*) BIGINT)".replace("hash() ← ", "")
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("HOP 10 s every 2 s")),
        "{lines:?}"
    );
}

#[test]
fn window_time_carries_on_to_the_next_window() {
    let lines = shape(
        "CREATE VIEW small AS SELECT auction, SUM(price) AS p, window_time AS wt
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND))
            GROUP BY auction, window_start, window_end, window_time;
         SELECT auction, SUM(p) FROM TABLE(TUMBLE(TABLE small, DESCRIPTOR(wt), INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end",
    );
    assert!(lines[2].starts_with("TUMBLE 10 s: SUM("), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("TUMBLE 5 s:")),
        "{lines:?}"
    );
}

#[test]
fn grouping_without_a_window_updates() {
    assert_eq!(
        shape("SELECT auction, COUNT(*) FROM bids GROUP BY auction"),
        [
            "Sink: $result {+I -U +U -D}",
            "Calc: auction, EXPR$1 {+I -U +U -D}",
            "GROUP: COUNT(*) by auction {+I -U +U -D}",
            "hash(auction) ← Calc: auction",
            "Source: bids",
        ]
    );
    assert_eq!(
        shape_at("SELECT auction, COUNT(*) FROM bids GROUP BY auction", 2)[2..5],
        [
            "Global GROUP: COUNT(*) by auction {+I -U +U -D}",
            "hash(auction) ← Local GROUP: COUNT(*) by auction",
            "Calc: auction",
        ]
    );
    let per_row = "SET 'table.exec.mini-batch.enabled' = 'false'; SELECT auction, COUNT(*) FROM bids GROUP BY auction";
    assert_eq!(
        shape_at(per_row, 2)[2],
        "GROUP: COUNT(*) by auction {+I -U +U -D}"
    );
    assert_eq!(
        shape("SELECT COUNT(*) FROM bids")[1..3],
        [
            "Calc: EXPR$0 {+I -U +U -D}",
            "GROUP: COUNT(*) {+I -U +U -D}"
        ]
    );
}

#[test]
fn having_distinct_and_aggregates_over_aggregates() {
    let lines =
        shape("SELECT auction FROM bids GROUP BY auction HAVING COUNT(*) > 3 AND auction > 7");
    assert_eq!(
        lines[1],
        "Calc: auction where ((agg0 > CAST(3 AS BIGINT)) AND (auction > CAST(7 AS BIGINT)… {+I -U +U -D}"
    );
    let lines = shape("SELECT DISTINCT auction, item FROM bids");
    assert_eq!(lines[1], "DISTINCT by auction, item {+I -U +U -D}");
    // The outer aggregate takes changes back, so it has no local phase.
    let lines = shape_at(
        "SELECT n, COUNT(*) FROM (SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction) GROUP BY n",
        2,
    );
    assert_eq!(lines[2], "GROUP: COUNT(*) by n {+I -U +U -D}");
}

#[test]
fn grouping_sets_expand() {
    let lines = shape(
        "SELECT auction, item, COUNT(*), GROUPING(auction), GROUPING_ID(auction, item)
         FROM bids GROUP BY ROLLUP (auction, item)",
    );
    assert_eq!(
        lines[2],
        "GROUP: COUNT(*) by auction, item, $grouping_id {+I -U +U -D}"
    );
    assert_eq!(
        lines[3],
        "hash(auction, item, $grouping_id) ← GROUPING SETS: 3"
    );
    let windowed = shape(
        "SELECT window_start, auction, item, COUNT(*)
         FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND))
         GROUP BY window_start, window_end, GROUPING SETS ((auction), (item), ())",
    );
    assert_eq!(
        windowed[2],
        "TUMBLE 5 s: COUNT(*) by auction, item, $grouping_id"
    );
    let cube = plan_at(
        &format!("{BIDS}SELECT COUNT(*) FROM bids GROUP BY CUBE (auction, item)"),
        1,
    );
    assert!(cube.contains("set 3: null for auction, item"), "{cube}");
}

#[test]
fn unions() {
    let lines = shape(
        "SELECT auction FROM bids WHERE price > 5 UNION ALL SELECT price FROM bids UNION ALL SELECT 1",
    );
    assert_eq!(lines[1], "UNION ALL of 3");
    let lines = shape("SELECT auction FROM bids UNION SELECT price FROM bids");
    assert_eq!(lines[1], "DISTINCT by auction {+I -U +U -D}");
}

#[test]
fn one_source_serves_all_queries() {
    let script = format!(
        "{BIDS}CREATE TABLE a (x BIGINT) WITH ('connector' = 'y');
         CREATE TABLE b (y BIGINT, s STRING) WITH ('connector' = 'y');
         EXECUTE STATEMENT SET BEGIN
            INSERT INTO a SELECT auction FROM bids;
            INSERT INTO b SELECT price, UPPER(item) FROM bids WHERE auction > 3;
         END;"
    );
    let dataflow = compiled(&script).dataflow;
    let sources = dataflow
        .nodes
        .iter()
        .filter(|node| node.name.starts_with("Source"))
        .count();
    assert_eq!(sources, 1);
    assert_eq!(dataflow.nodes.len(), 5);
}

#[test]
fn equal_queries_share_their_state() {
    let script = format!(
        "{BIDS}CREATE VIEW v AS SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction;
         CREATE TABLE a (x BIGINT, n BIGINT) WITH ('connector' = 'y');
         INSERT INTO a SELECT * FROM v WHERE n > 3;
         INSERT INTO a SELECT auction, n + 1 FROM v;"
    );
    let dataflow = compiled(&script).dataflow;
    let aggregates = dataflow
        .nodes
        .iter()
        .filter(|node| node.name.starts_with("GROUP"))
        .count();
    assert_eq!(aggregates, 1);
}

#[test]
fn state_ids_follow_meaning() {
    let id = |query: &str| {
        let dataflow = compiled(&format!("{BIDS}{query}")).dataflow;
        dataflow
            .nodes
            .iter()
            .find_map(|node| match &node.kind {
                millrace_dataflow::NodeKind::GroupAggregate(aggregate) => {
                    Some(aggregate.state_id.0.clone())
                }
                _ => None,
            })
            .expect("an aggregate")
    };
    let base = id("SELECT auction, COUNT(*) FROM bids GROUP BY auction");
    for same in [
        "SELECT COUNT(*) AS n, MAX(price), auction AS a FROM bids GROUP BY auction",
        "SELECT auction, COUNT(*) FROM bids GROUP BY auction HAVING COUNT(*) > 5",
        "SELECT x, COUNT(*) FROM (SELECT auction AS x, item FROM bids) GROUP BY x",
        "CREATE VIEW v AS SELECT * FROM bids; SELECT b.auction, COUNT(*) FROM v AS b GROUP BY b.auction",
        "CREATE TABLE z (a INT) WITH ('connector' = 'q'); SELECT auction, SUM(price) FROM bids GROUP BY auction",
    ] {
        assert_eq!(id(same), base, "{same}");
    }
    for other in [
        "SELECT price, COUNT(*) FROM bids GROUP BY price",
        "SELECT auction, COUNT(*) FROM bids WHERE price > 5 GROUP BY auction",
        "SELECT CAST(auction AS STRING), COUNT(*) FROM bids GROUP BY CAST(auction AS STRING)",
    ] {
        assert_ne!(id(other), base, "{other}");
    }
}

#[test]
fn compilation_is_deterministic() {
    let script = format!(
        "{}INSERT INTO s SELECT channel, COUNT(DISTINCT bidder), MAX(url) FROM bid GROUP BY channel",
        super::nexmark::TABLES.to_string()
            + "CREATE TABLE s (c STRING, n BIGINT, m STRING) WITH ('connector' = 'b');"
    );
    let first = compiled(&script).dataflow.fingerprint();
    for _ in 0..3 {
        assert_eq!(compiled(&script).dataflow.fingerprint(), first);
    }
    let wider = CompileOptions {
        parallelism: 2,
        ..options()
    };
    assert_ne!(
        compile(&script, &wider).unwrap().dataflow.fingerprint(),
        first
    );
}

#[test]
fn ctes_subqueries_and_column_lists() {
    let lines = shape(
        "CREATE TABLE o (a BIGINT, b STRING, c BIGINT) WITH ('connector' = 'y');
         INSERT INTO o (c, a) WITH x (p, q) AS (SELECT price, auction FROM bids)
            SELECT q, p FROM (SELECT * FROM x WHERE p > 1) AS t",
    );
    assert_eq!(
        lines,
        [
            "Sink: o",
            "Calc: a, b, c where (price > CAST(1 AS BIGINT))",
            "Source: bids"
        ]
    );
}

#[test]
fn metadata_and_computed_columns() {
    let text = plan_at(
        "CREATE TABLE k (`offset` BIGINT METADATA VIRTUAL, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
            v STRING, up AS UPPER(v), unused INT, WATERMARK FOR at AS at) WITH ('connector' = 'k');
         SELECT up, `offset` FROM k",
        1,
    );
    let expected = "\
[2] Sink: $result
    writes up STRING, offset BIGINT
  [1] Calc: up, offset
      up
      offset
    [0] Source: k
        reads v STRING
        metadata offset from 'offset', at from 'timestamp'
        up = UPPER(v)
        watermark for at: at, idle after 60000 ms
";
    assert_eq!(text, expected);
}

#[test]
fn a_view_computes_an_expensive_column_once() {
    let lines = shape(
        "CREATE VIEW v AS SELECT UPPER(item) AS u FROM bids;
         SELECT u, u || 'x' FROM v WHERE u <> 'A'",
    );
    assert_eq!(
        lines,
        [
            "Sink: $result",
            "Calc: u, EXPR$1 where (u != 'A')",
            "Calc: u",
            "Source: bids"
        ]
    );
}

#[test]
fn explain_statements_and_settings() {
    let compiled = compiled(&format!(
        "{BIDS}SET 'execution.checkpointing.interval' = '10 s';
         SET 'table.exec.state.ttl' = '1 h';
         EXPLAIN SELECT auction FROM bids;
         EXPLAIN PLAN FOR SELECT COUNT(*) FROM bids;"
    ));
    assert_eq!(compiled.explains.len(), 2);
    assert!(compiled.explains[1].text.contains("state kept 3600000 ms"));
    assert!(compiled.dataflow.nodes.is_empty());
    assert_eq!(
        compiled.settings["execution.checkpointing.interval"],
        "10 s"
    );
    assert_eq!(compiled.statements[0].description, "CREATE TABLE bids");
}

#[test]
fn expensive_expressions_are_computed_once() {
    let lines = shape(
        "SELECT UPPER(item), CASE WHEN auction > 1 THEN UPPER(item) END FROM bids
         WHERE 0.5 * price > 3 AND 0.5 * price < 9 AND auction > 2",
    );
    assert_eq!(
        lines,
        [
            "Sink: $result",
            "Calc: EXPR$0, EXPR$1",
            "Calc: auction, $shared1 where ((($shared0 > CAST(3.0 AS DECIMAL(21, 1))) AND ($shared0 < C…",
            "Calc: auction, item, $shared0",
            "Source: bids",
        ]
    );
    // A cast that only some rows need is not computed for all of them.
    let lines = shape(
        "SELECT CASE WHEN auction > 1 THEN CAST(item AS INT) END,
            CASE WHEN auction > 2 THEN CAST(item AS INT) END FROM bids",
    );
    assert_eq!(
        lines,
        ["Sink: $result", "Calc: EXPR$0, EXPR$1", "Source: bids"]
    );
}
