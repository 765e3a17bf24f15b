//! Result types of expressions and of aggregates.

use super::compiled;
use crate::type_name;

/// The type of an expression over `t (i INT, l BIGINT, s STRING, d DECIMAL(10, 2), f DOUBLE,
/// r FLOAT, ts TIMESTAMP(3))`.
fn type_of(expression: &str) -> String {
    let script = format!(
        "CREATE TABLE t (i INT, l BIGINT, s STRING, d DECIMAL(10, 2), f DOUBLE, r FLOAT,
            ts TIMESTAMP(3)) WITH ('connector' = 'x');
         SELECT {expression} FROM t"
    );
    let dataflow = compiled(&script).dataflow;
    let sink = dataflow.nodes.last().unwrap();
    type_name(sink.schema.field(0).data_type())
}

#[test]
fn expressions() {
    for (expression, expected) in [
        ("i + 1", "INT"),
        ("i + l", "BIGINT"),
        ("l % 123", "INT"),
        ("i / 2", "INT"),
        ("0.908 * l", "DECIMAL(23, 3)"),
        ("d + i", "DECIMAL(13, 2)"),
        ("d / i", "DECIMAL(21, 13)"),
        ("d * f", "DOUBLE"),
        ("r + i", "FLOAT"),
        ("r * d", "DOUBLE"),
        ("CASE WHEN i > 0 THEN i ELSE l END", "BIGINT"),
        ("CASE WHEN i > 0 THEN s ELSE i END", "STRING"),
        ("CASE WHEN i > 0 THEN 'a' END", "STRING"),
        ("COALESCE(i, d)", "DECIMAL(12, 2)"),
        ("ts + INTERVAL '1' DAY", "TIMESTAMP(3)"),
        ("HOUR(ts)", "BIGINT"),
        ("CHAR_LENGTH(s)", "INT"),
        ("ARRAY[i, l]", "ARRAY<BIGINT>"),
        ("MAP['a', i]", "MAP<STRING, INT>"),
        ("ROW(i, s)", "ROW<EXPR$0 INT, EXPR$1 STRING>"),
        ("NOW()", "TIMESTAMP_LTZ(3)"),
        ("ROUND(d, 1)", "DECIMAL(10, 1)"),
        ("CAST(s AS TIMESTAMP(9))", "TIMESTAMP(9)"),
        ("MOD(l, i)", "INT"),
    ] {
        assert_eq!(type_of(expression), expected, "{expression}");
    }
}

#[test]
fn aggregates() {
    for (expression, expected) in [
        ("COUNT(*)", "BIGINT"),
        ("COUNT(DISTINCT s)", "BIGINT"),
        ("SUM(i)", "INT"),
        ("SUM(l)", "BIGINT"),
        ("SUM(d)", "DECIMAL(38, 2)"),
        ("SUM(r)", "FLOAT"),
        ("AVG(i)", "INT"),
        ("AVG(d)", "DECIMAL(38, 6)"),
        ("AVG(f)", "DOUBLE"),
        ("MIN(s)", "STRING"),
        ("MAX(ts)", "TIMESTAMP(3)"),
        ("FIRST_VALUE(d)", "DECIMAL(10, 2)"),
        ("STDDEV_POP(i)", "DOUBLE"),
        ("VARIANCE(d)", "DOUBLE"),
        ("ARRAY_AGG(i)", "ARRAY<INT>"),
        ("LISTAGG(s)", "STRING"),
        ("LISTAGG(s, ';')", "STRING"),
        ("SUM(i) FILTER (WHERE s = 'x') + 1", "INT"),
    ] {
        assert_eq!(type_of(expression), expected, "{expression}");
    }
}
