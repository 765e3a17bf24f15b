//! Whole scripts through the compiler.

use std::sync::Arc;

use crate::{AnyConnector, CompileOptions, explain};

fn options() -> CompileOptions {
    CompileOptions::new(Arc::new(AnyConnector))
}

const BIDS: &str = "CREATE TABLE bids (auction BIGINT, price BIGINT, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'x');\n";

fn plan(script: &str) -> String {
    match explain(&format!("{BIDS}{script}"), &options()) {
        Ok(plan) => plan.text,
        Err(diagnostics) => {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"))
        }
    }
}

#[test]
fn a_windowed_aggregate_takes_its_window_in() {
    let text = plan(
        "CREATE TABLE counts (auction BIGINT, n BIGINT, s TIMESTAMP(3)) WITH ('connector' = 'y');
         INSERT INTO counts SELECT auction, COUNT(*), window_start
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
            WHERE price > 100 GROUP BY auction, window_start, window_end;",
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
