//! What is refused, where, and with which words.

use std::sync::Arc;

use super::{AppendOnly, errors, options};
use crate::{CompileOptions, compile};

const T: &str = "CREATE TABLE t (a BIGINT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'x');\n";

/// The single diagnostic of a statement on the second line.
fn error(statement: &str) -> String {
    let errors = errors(&format!("{T}{statement}"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].clone()
}

#[test]
fn clauses_that_are_not_there_yet_are_named() {
    for (statement, expected) in [
        (
            "SELECT * FROM t JOIN t AS u ON t.a = u.a",
            "2:22: JOIN is not supported yet",
        ),
        (
            "SELECT * FROM t LEFT JOIN t AS u ON t.a = u.a",
            "2:27: LEFT JOIN is not supported yet",
        ),
        (
            "SELECT * FROM t, t AS u",
            "2:18: a join by comma in FROM is not supported yet",
        ),
        (
            "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY ts) FROM t",
            "2:11: OVER is not supported yet",
        ),
        (
            "SELECT SUM(a) OVER (ORDER BY ts) FROM t",
            "2:8: OVER is not supported yet",
        ),
        (
            "SELECT a FROM t ORDER BY a",
            "2:26: ORDER BY is not supported yet; a stream has no end to sort up to; sort where the result is read",
        ),
        (
            "SELECT a FROM t LIMIT 3",
            "2:23: LIMIT is not supported yet",
        ),
        (
            "SELECT a FROM t WHERE a IN (SELECT a FROM t)",
            "2:23: IN with a subquery is not supported yet",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1)",
            "2:31: EXISTS is not supported yet",
        ),
        (
            "SELECT (SELECT 1) FROM t",
            "2:9: a scalar subquery is not supported yet",
        ),
        (
            "SELECT a FROM t INTERSECT SELECT a FROM t",
            "2:27: INTERSECT is not supported yet",
        ),
        (
            "SELECT UUID() FROM t",
            "2:8: the function UUID is not supported yet",
        ),
        ("DESCRIBE t", "2:1: DESCRIBE is not supported yet"),
        (
            "INSERT OVERWRITE t SELECT * FROM t",
            "2:8: INSERT OVERWRITE is not supported yet",
        ),
        ("CREATE TABLE u LIKE t", "2:16: LIKE is not supported yet"),
        (
            "CREATE DATABASE d",
            "2:8: CREATE DATABASE is not supported yet",
        ),
        (
            "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS x PATTERN (A) DEFINE A AS A.a > 1)",
            "2:15: MATCH_RECOGNIZE is not supported yet",
        ),
        (
            "SELECT a FROM t GROUP BY 1",
            "2:26: GROUP BY a constant or position is not supported yet; write the expression itself",
        ),
        (
            "SELECT CAST(a AS MULTISET<INT>) FROM t",
            "2:18: the type MULTISET is not supported yet",
        ),
        (
            "SELECT a::INT FROM t",
            "2:8: the cast operator :: is not supported yet; write CAST(value AS type)",
        ),
        (
            "SELECT /*+ STATE_TTL('t' = '1d') */ a FROM t",
            "2:8: a query hint is not supported yet",
        ),
    ] {
        assert_eq!(error(statement), expected, "{statement}");
    }
}

#[test]
fn names_and_types_are_checked() {
    for (statement, expected) in [
        (
            "SELECT A FROM t",
            "2:8: unknown column `A`; names are case-sensitive: did you mean `a`?",
        ),
        (
            "SELECT zzz FROM t",
            "2:8: unknown column `zzz`; there are a, b, ts",
        ),
        (
            "SELECT t.c FROM t",
            "2:10: unknown column `c`; there are a, b, ts",
        ),
        ("SELECT u.* FROM t", "2:8: no table in FROM is called `u`"),
        (
            "SELECT a FROM T",
            "2:15: unknown table or view `T`; names are case-sensitive: did you mean `t`?",
        ),
        (
            "SELECT UPER(b) FROM t",
            "2:8: unknown function UPER; did you mean `UPPER`?",
        ),
        (
            "SELECT UPPER(a) FROM t",
            "2:8: argument 1 of UPPER must be a STRING, not BIGINT",
        ),
        (
            "SELECT UPPER() FROM t",
            "2:8: UPPER takes 1 argument, not 0",
        ),
        (
            "SELECT a + b FROM t",
            "2:8: + takes numbers, not BIGINT and STRING",
        ),
        (
            "SELECT ts - ts FROM t",
            "2:8: - takes numbers, not TIMESTAMP(3) and TIMESTAMP(3); the distance of two times is TIMESTAMPDIFF(SECOND, a, b)",
        ),
        (
            "SELECT a FROM t WHERE b",
            "2:23: WHERE must be BOOLEAN, not STRING",
        ),
        (
            "SELECT CAST(b AS MAP<INT, INT>) FROM t",
            "2:8: cannot cast STRING to MAP<INT, INT>",
        ),
        (
            "SELECT CAST(a AS TIMESTAMP(3)) FROM t",
            "2:8: cannot cast BIGINT to TIMESTAMP(3); use TO_TIMESTAMP_LTZ(number, 0 for seconds or 3 for milliseconds)",
        ),
        (
            "SELECT CAST('x' AS INT) FROM t",
            "2:8: cannot cast to INT: 'x'; TRY_CAST gives NULL for such values",
        ),
        (
            "SELECT DATE '2020-13-01' FROM t",
            "2:13: '2020-13-01' is not a DATE of the form yyyy-MM-dd",
        ),
        (
            "SELECT INTERVAL 'x' SECOND FROM t",
            "2:17: 'x' is not an interval of SECOND",
        ),
        (
            "SELECT \"a\" FROM t",
            "2:8: \"a\" is not a string in this dialect; write strings in single quotes and names in backticks",
        ),
        (
            "SELECT REGEXP_EXTRACT(b, '(?=x)', 0) FROM t",
            "2:8: REGEXP_EXTRACT: the regular expression '(?=x)' cannot be used: look-around, including look-ahead and look-behind, is not supported",
        ),
        (
            "SELECT DATE_FORMAT(ts, 'yyyy-bb') FROM t",
            "2:8: DATE_FORMAT: the letter b means nothing in 'yyyy-bb'",
        ),
        (
            "SELECT JSON_VALUE(b, 'a.b') FROM t",
            "2:8: JSON_VALUE: 'a.b' is not a supported JSON path: it must start with $",
        ),
    ] {
        assert_eq!(error(statement), expected, "{statement}");
    }
}

#[test]
fn grouping_is_checked() {
    for (statement, expected) in [
        (
            "SELECT a, b, COUNT(*) FROM t GROUP BY a",
            "2:11: `b` is neither aggregated nor grouped (GROUP BY has a); add it to GROUP BY, or aggregate it, as in FIRST_VALUE(…)",
        ),
        (
            "SELECT a FROM t WHERE COUNT(*) > 1",
            "2:23: the aggregate COUNT cannot be used in WHERE",
        ),
        (
            "SELECT SUM(COUNT(*)) FROM t",
            "2:12: the aggregate COUNT is inside another one",
        ),
        (
            "SELECT SUM(b) FROM t",
            "2:12: SUM takes a number, not STRING",
        ),
        (
            "SELECT LISTAGG(b, b) FROM t",
            "2:8: the separator of LISTAGG must be a string literal",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY ARRAY[a]",
            "2:24: cannot group by `key0` of type ARRAY<BIGINT>; group by its fields, or CAST it to STRING",
        ),
    ] {
        assert_eq!(error(statement), expected, "{statement}");
    }
}

#[test]
fn windows_are_checked() {
    for (statement, expected) in [
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(x), INTERVAL '5' SECOND))",
            "2:83: a window needs a time attribute, but `x` is a plain TIMESTAMP(3); declare WATERMARK FOR it in CREATE TABLE, or use a column AS PROCTIME(); expressions over a time attribute are plain values",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 5))",
            "2:53: TUMBLE takes an INTERVAL such as INTERVAL '10' SECOND, not INT",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH))",
            "2:62: TUMBLE takes an interval of days or less: months differ in length",
        ),
        (
            "SELECT * FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND))",
            "2:21: the size of CUMULATE (10000 ms) must be a multiple of its step (3000 ms)",
        ),
        (
            "SELECT * FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND))",
            "2:21: a SESSION window that is not aggregated by its PARTITION BY keys, window_start and window_end is not supported yet; GROUP BY exactly the columns of PARTITION BY, window_start, window_end",
        ),
        (
            "SELECT * FROM TABLE(TUMBEL(TABLE t))",
            "2:21: unknown table function TUMBEL; did you mean `TUMBLE`?",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(x), INTERVAL '5' SECOND))",
            "2:48: unknown column `x`; there are a, b, ts",
        ),
    ] {
        let view = if statement.contains("TABLE v") {
            "CREATE VIEW v AS SELECT ts + INTERVAL '1' SECOND AS x FROM t; "
        } else {
            ""
        };
        assert_eq!(
            error(&format!("{view}{statement}")),
            expected,
            "{statement}"
        );
    }
    assert_eq!(
        error(
            "CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a; SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(n), INTERVAL '5' SECOND))"
        ),
        "2:81: a window needs a time attribute, but `n` is a plain BIGINT; declare WATERMARK FOR it in CREATE TABLE, or use a column AS PROCTIME(); expressions over a time attribute are plain values"
    );
    // A processing-time column may be put onto updating rows.
    assert_eq!(
        error(
            "CREATE VIEW v AS SELECT n, PROCTIME() AS p FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a); SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(p), INTERVAL '5' SECOND))"
        ),
        "2:114: a window needs rows that never change, but its input has GROUP BY without a window (line 2); apply the window first and group inside it"
    );
}

#[test]
fn sinks_are_checked() {
    let options = CompileOptions {
        catalog: Arc::new(AppendOnly),
        ..options()
    };
    let refused = |statement: &str| {
        let script = format!(
            "{T}CREATE TABLE o (a BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json');\n{statement}"
        );
        let diagnostics = compile(&script, &options).unwrap_err();
        assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
        diagnostics[0].to_string()
    };
    assert_eq!(
        refused("INSERT INTO o SELECT a, COUNT(*) FROM t GROUP BY a"),
        "3:41: GROUP BY without a window produces updates, which table `o` (connector 'filesystem', format 'json') cannot take; group by a window (window_start, window_end), or use format 'debezium-json'"
    );
    assert_eq!(
        refused("INSERT INTO o SELECT DISTINCT a, a FROM t"),
        "3:15: SELECT DISTINCT produces updates, which table `o` (connector 'filesystem', format 'json') cannot take; remove it, or use format 'debezium-json'"
    );
    for (statement, expected) in [
        (
            "CREATE TABLE o (x INT) WITH ('connector' = 'y'); INSERT INTO o SELECT a FROM t",
            "2:71: column `x` of `o` is INT, but the query's column `a` is BIGINT; CAST it to INT",
        ),
        (
            "CREATE TABLE o (x INT, y INT) WITH ('connector' = 'y'); INSERT INTO o SELECT a FROM t",
            "2:69: the query has 1 columns (a), but 2 of `o` are to be written (x, y)",
        ),
        (
            "CREATE TABLE o (x BIGINT, y INT NOT NULL) WITH ('connector' = 'y'); INSERT INTO o (x) SELECT a FROM t",
            "2:81: `y` is NOT NULL and must be written",
        ),
        (
            "CREATE TABLE o (x BIGINT) WITH ('connector' = 'y'); INSERT INTO o (z) SELECT a FROM t",
            "2:68: table `o` has no column `z`",
        ),
        (
            "CREATE TABLE o (x BIGINT, y INT METADATA) WITH ('connector' = 'y'); INSERT INTO o SELECT a FROM t",
            "2:27: writing a METADATA column is not supported yet; mark the column VIRTUAL if it is only read",
        ),
    ] {
        assert_eq!(error(statement), expected, "{statement}");
    }
}

#[test]
fn declarations_are_checked() {
    for (statement, expected) in [
        (
            "CREATE TABLE t (a INT) WITH ('connector' = 'x')",
            "2:14: `t` is already declared",
        ),
        (
            "CREATE TABLE u (a INT, a INT) WITH ('connector' = 'x')",
            "2:24: the column `a` is declared twice",
        ),
        (
            "CREATE TABLE u (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'x')",
            "2:37: PRIMARY KEY names `b`, which the table does not have",
        ),
        (
            "CREATE TABLE u (a INT, PRIMARY KEY (a)) WITH ('connector' = 'x')",
            "2:39: Expected: NOT, found: )",
        ),
        (
            "CREATE TABLE u (a TIMESTAMP(6), WATERMARK FOR a AS a) WITH ('connector' = 'x')",
            "2:47: event time has at most millisecond precision, but the column is TIMESTAMP(6); declare it as TIMESTAMP(3) or TIMESTAMP_LTZ(3), or add a computed column CAST(ts AS TIMESTAMP(3))",
        ),
        (
            "CREATE TABLE u (a STRING, WATERMARK FOR a AS a) WITH ('connector' = 'x')",
            "2:41: the event-time column must be TIMESTAMP(3) or TIMESTAMP_LTZ(3), not STRING; add a computed column such as TO_TIMESTAMP(text) or TO_TIMESTAMP_LTZ(millis, 3)",
        ),
        (
            "CREATE TABLE u (a INT, b AS a + 1, c AS b + 1) WITH ('connector' = 'x')",
            "2:41: unknown column `b`; `b` is itself computed; repeat its expression in b + 1, or use a view",
        ),
        (
            "CREATE TABLE u (a INTT) WITH ('connector' = 'x')",
            "2:19: Expected: a data type, found: INTT",
        ),
        (
            "CREATE TABLE u (a INT) WITH ('connector' = 'x', 'connector' = 'y')",
            "2:49: the option 'connector' is given twice",
        ),
        ("DROP TABLE u", "2:12: there is no TABLE `u` to drop"),
        (
            "SET 'table.exec.state.ttl' = 'soon'",
            "2:1: 'table.exec.state.ttl' takes a duration with its unit, such as '1 h' or '90 min', not 'soon'",
        ),
        ("END", "2:1: END without EXECUTE STATEMENT SET BEGIN"),
        (
            "INSERT INTO t SELECT a FROM",
            "2:28: Expected: identifier, found: end of statement",
        ),
    ] {
        let found = errors(&format!("{T}{statement}"));
        assert_eq!(found[0], expected, "{statement}");
    }
}

#[test]
fn a_partitioned_table_is_not_read() {
    let table = "CREATE TABLE q (id INT, k STRING) PARTITIONED BY (k) WITH ('connector' = 'x');\n";
    let refused = "`q` is PARTITIONED BY (k): the values of `k` are in the names of directories, which are not read yet; to read the other columns, declare the table again without its partition columns and without PARTITIONED BY";
    assert_eq!(
        errors(&format!("{table}SELECT id FROM q")),
        [format!("2:16: {refused}")]
    );
    let error = compile(&format!("{table}SELECT id FROM q"), &options()).unwrap_err();
    assert_eq!(error[0].code, "partitioned-source");
    // Writing it is what partitions are for.
    super::compiled(&format!("{table}INSERT INTO q SELECT 1, 'a'"));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    super::compiled("\u{feff}SELECT 1");
    super::compiled("SET 'table.local-time-zone' = 'UTC'; \u{feff}SELECT 1");
    assert!(errors("\u{feff}SELECT nope")[0].starts_with("1:8: unknown column"));
}

#[test]
fn clauses_are_pointed_at() {
    for (statement, expected) in [
        (
            "SELECT * FROM t FETCH FIRST 3 ROWS ONLY",
            "2:29: FETCH is not supported yet",
        ),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01 00:00:00'",
            "2:15: a temporal join (FOR SYSTEM_TIME AS OF) is not supported yet",
        ),
        (
            "SELECT * FROM t JOIN t FOR SYSTEM_TIME AS OF t.ts AS r ON t.a = r.a",
            "2:22: a temporal join (FOR SYSTEM_TIME AS OF) is not supported yet",
        ),
        (
            "SELECT JSON_ARRAY(a, INTERVAL '1' DAY) FROM t",
            "2:8: JSON_ARRAY: INTERVAL has no form in JSON",
        ),
        (
            "SELECT CAST(INTERVAL '1' DAY AS STRING) FROM t",
            "2:8: cannot cast INTERVAL to STRING; an interval can be added to a time; TIMESTAMPDIFF gives the length between two times as a number",
        ),
    ] {
        assert_eq!(error(statement), expected, "{statement}");
    }
}

#[test]
fn all_statements_report() {
    let found = errors(
        "CREATE TABLE t (a INT, b AS nope) WITH ('connector' = 'x');
         SELECT a FROM t;
         SELECT FROM;
         SELECT x FROM missing;",
    );
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("1:29: unknown column `nope`"),
        "{found:?}"
    );
    assert!(found[1].starts_with("3:"), "{found:?}");
    assert!(
        found[2].starts_with("4:24: unknown table or view `missing`"),
        "{found:?}"
    );
    assert_eq!(
        errors(""),
        [
            "1:1: the script has no query to run; add INSERT INTO … SELECT …, or a SELECT to see its rows"
        ]
    );
    assert_eq!(
        errors("SELECT 'open")[0],
        "1:8: Unterminated string literal"
    );
}

#[test]
#[allow(clippy::disallowed_methods)]
fn hostile_scripts_end_in_time() {
    let deep = |open: &str, close: &str, n: usize| {
        format!("SELECT {}1{}", open.repeat(n), close.repeat(n))
    };
    let scripts = vec![
        deep("(", ")", 10_000),
        deep("ABS(", ")", 10_000),
        deep("ABS(", ")", 40),
        deep("- ", "", 10_000),
        deep("NOT ", "", 10_000),
        deep("CASE WHEN TRUE THEN ", " END", 300),
        deep("COALESCE(1, ", ")", 45),
        format!("SELECT {}", vec!["1"; 50_000].join(" + ")),
        format!("SELECT {}", vec!["1"; 399].join(" + ")),
        format!("SELECT {}", vec!["TRUE"; 399].join(" AND ")),
        format!("SELECT * FROM {}t{}", "(".repeat(40), ")".repeat(40)),
        format!("SELECT * FROM {}SELECT 1 x y z{}", "((SELECT * FROM ".repeat(22), "))".repeat(22)),
        format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(5_000)),
        "CREATE VIEW a AS SELECT 1 AS x UNION ALL SELECT 2 AS x;".to_string()
            + &(0..25)
                .map(|i| {
                    let before = if i == 0 { "a".to_string() } else { format!("v{}", i - 1) };
                    format!("CREATE VIEW v{i} AS SELECT x FROM {before} UNION ALL SELECT x FROM {before};")
                })
                .collect::<String>()
            + "SELECT * FROM v24",
        "CREATE VIEW v0 AS SELECT 'x' AS x;".to_string()
            + &(1..30)
                .map(|i| format!("CREATE VIEW v{i} AS SELECT x || x AS x FROM v{};", i - 1))
                .collect::<String>()
            + "SELECT * FROM v29",
        "x".repeat(2 << 20),
        "\u{0}\u{1}é`''".to_string(),
        "SELECT `".to_string(),
        "((((((((".repeat(1000),
        "CREATE TABLE t (a ".to_string() + &"ARRAY<".repeat(5_000),
        "SELECT 1e999, 99999999999999999999999999999999999999999999".to_string(),
        "SELECT REPEAT('x', 2147483647)".to_string(),
        "SELECT CAST('x' AS CHAR(2147483646))".to_string(),
    ];
    for script in scripts {
        let started = std::time::Instant::now();
        let _ = compile(&script, &options());
        let head: String = script.chars().take(60).collect();
        assert!(
            started.elapsed().as_secs() < 20,
            "{head}: {:?}",
            started.elapsed()
        );
    }
}
