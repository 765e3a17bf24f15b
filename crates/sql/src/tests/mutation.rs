//! Scripts with random mistakes: the compiler answers each with diagnostics, never with a
//! panic, and in time.

use super::options;
use crate::compile;

/// A small generator of numbers, the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const PIECES: &[&str] = &[
    "(",
    ")",
    ",",
    ";",
    "'",
    "`",
    "*",
    "=",
    "<",
    "||",
    ".",
    "[",
    "]",
    "NULL",
    "1",
    "0",
    "-",
    "1.5",
    "'x'",
    "CASE",
    "WHEN",
    "END",
    "SELECT",
    "FROM",
    "GROUP BY",
    "HAVING",
    "AS",
    "CAST",
    "INTERVAL '1' SECOND",
    "TABLE",
    "TUMBLE",
    "DESCRIPTOR(ts)",
    "COUNT(*)",
    "SUM",
    "DISTINCT",
    "UNION ALL",
    "ts",
    "b",
    "a",
    "WITH",
    "OVER ()",
    "ARRAY[1]",
    "ROW(1)",
    "window_start",
    "PROCTIME()",
    "IN",
    "BETWEEN",
    "AND",
    "NOT",
    "TIMESTAMP '2020-01-01'",
    "DATE",
    "MAP['a', 1]",
    "JSON_VALUE",
    "EXTRACT(DAY FROM ts)",
    "é",
    "\u{0}",
];

const SCRIPTS: &[&str] = &[
    "CREATE TABLE t (a BIGINT, b STRING, r ROW<x INT, y ARRAY<STRING>>, m MAP<STRING, INT>, ts TIMESTAMP(3),
        c AS UPPER(b), k STRING METADATA FROM 'key' VIRTUAL, WATERMARK FOR ts AS ts - INTERVAL '4' SECOND,
        PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'x', 'format' = 'json');
     CREATE VIEW v AS SELECT a, b AS d, r.x, ts FROM t WHERE a > 1 AND b LIKE 'x%';
     CREATE TABLE o (a BIGINT, n BIGINT, s TIMESTAMP(3)) WITH ('connector' = 'y');
     INSERT INTO o SELECT a, COUNT(DISTINCT b) FILTER (WHERE a > 3), window_start
        FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY a, window_start, window_end HAVING SUM(a) > 3;",
    "CREATE TABLE t (a BIGINT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'x');
     WITH q (x, y) AS (SELECT a, SUBSTRING(b FROM 2 FOR 3) FROM t)
     SELECT x, CASE y WHEN 'a' THEN 1 WHEN 'b' THEN CAST(y AS INT) ELSE x % 5 END, COALESCE(y, 'z'),
        JSON_VALUE(y, '$.a' RETURNING INT DEFAULT 3 ON ERROR), ARRAY[x, 2][1], MAP['k', y]['k'],
        DATE_FORMAT(CAST(y AS TIMESTAMP(3)), 'yyyy') FROM q WHERE x BETWEEN 1 AND 5 OR y IN ('a', 'b')
     UNION ALL SELECT 1, 2, 'c', 3, 4, 'd', 'e'",
    "CREATE TABLE t (a BIGINT, b STRING, p AS PROCTIME()) WITH ('connector' = 'x');
     SELECT b, a, GROUPING(a), SUM(a), FIRST_VALUE(b), LISTAGG(b, ';'), AVG(a * 0.5)
     FROM t GROUP BY ROLLUP (b, a); SET 'table.exec.state.ttl' = '1 h';
     EXPLAIN SELECT TUMBLE_START(p, INTERVAL '5' SECOND), MAX(a) FROM t GROUP BY TUMBLE(p, INTERVAL '5' SECOND);
     EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT DISTINCT a, b FROM t; END;",
];

/// Splits at blanks and around punctuation.
fn tokens(script: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    for c in script.chars() {
        if c.is_alphanumeric() || c == '_' || c == '\'' || c == '$' {
            tokens.last_mut().unwrap().push(c);
        } else {
            tokens.push(c.to_string());
            tokens.push(String::new());
        }
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

#[test]
fn mistakes_are_diagnosed() {
    // More by hand, as in MILLRACE_MUTATIONS=20000.
    let rounds: u64 = std::env::var("MILLRACE_MUTATIONS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(150);
    for script in SCRIPTS {
        super::compiled(script);
    }
    for round in 0..rounds {
        let mut numbers = Numbers(round);
        let mut mutated = tokens(SCRIPTS[numbers.below(SCRIPTS.len())]);
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(mutated.len());
            match numbers.below(4) {
                0 => {
                    mutated.remove(at);
                }
                1 => mutated.insert(at, format!(" {} ", PIECES[numbers.below(PIECES.len())])),
                2 => mutated[at] = format!(" {} ", PIECES[numbers.below(PIECES.len())]),
                _ => {
                    let other = numbers.below(mutated.len());
                    mutated.swap(at, other);
                }
            }
        }
        let script = mutated.concat();
        if let Err(diagnostics) = compile(&script, &options()) {
            assert!(!diagnostics.is_empty(), "{script}");
            for diagnostic in diagnostics {
                assert_ne!(
                    diagnostic.code, "internal",
                    "round {round}: {diagnostic}\n{script}"
                );
                assert!(
                    diagnostic.line > 0 && diagnostic.column > 0,
                    "{diagnostic:?}"
                );
            }
        }
    }
}
