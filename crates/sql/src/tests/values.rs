//! JSON, collections and casts; what holds for all functions.

use super::evaluate::check;

#[test]
fn json() {
    let document = r#"'{"a": true, "b": {"c": [10, 20]}, "s": "x\"y", "n": null, "f": 1.50}'"#;
    for (expression, arguments, expected) in [
        ("a IS JSON", "'{}'", "TRUE"),
        ("a IS JSON ARRAY", "'{}'", "FALSE"),
        ("a IS JSON", "CAST(NULL AS STRING)", "FALSE"),
        ("a IS NOT JSON SCALAR", "'[1]'", "TRUE"),
        ("JSON_EXISTS(a, '$.a')", document, "TRUE"),
        ("JSON_EXISTS(a, '$.z')", document, "FALSE"),
        (
            "JSON_EXISTS(a, 'strict $.z' TRUE ON ERROR)",
            document,
            "TRUE",
        ),
        ("JSON_VALUE(a, '$.a')", document, "true"),
        ("JSON_VALUE(a, '$.a' RETURNING BOOLEAN)", document, "TRUE"),
        (
            "JSON_VALUE(a, '$.b.c[1]' RETURNING INTEGER)",
            document,
            "20",
        ),
        ("JSON_VALUE(a, '$.f' RETURNING DOUBLE)", document, "1.5"),
        ("JSON_VALUE(a, '$.s')", document, "x\"y"),
        ("JSON_VALUE(a, '$.n')", document, "NULL"),
        ("JSON_VALUE(a, '$.b')", document, "NULL"),
        (
            "JSON_VALUE(a, 'lax $.z' DEFAULT 'none' ON EMPTY)",
            document,
            "none",
        ),
        (
            "JSON_VALUE(a, 'strict $.z' NULL ON EMPTY DEFAULT 'bad' ON ERROR)",
            document,
            "bad",
        ),
        (
            "JSON_VALUE(a, '$.x' DEFAULT 'bad' ON ERROR)",
            "'no json'",
            "bad",
        ),
        ("JSON_QUERY(a, '$.b')", document, "{\"c\":[10,20]}"),
        ("JSON_QUERY(a, '$.a')", document, "NULL"),
        (
            "JSON_QUERY(a, '$.a' WITH UNCONDITIONAL WRAPPER)",
            document,
            "[true]",
        ),
        (
            "JSON_QUERY(a, '$.b.c' WITH CONDITIONAL ARRAY WRAPPER)",
            document,
            "[10,20]",
        ),
        (
            "JSON_QUERY(a, 'lax $.z' EMPTY ARRAY ON EMPTY)",
            document,
            "[]",
        ),
        (
            "JSON_QUERY(a, '$.b.c' RETURNING ARRAY<STRING>)",
            document,
            "[10, 20]",
        ),
        ("JSON_STRING(a)", "'x\"y'", "\"x\\\"y\""),
        ("JSON_STRING(a)", "1.5", "1.5"),
        ("JSON_STRING(NULL)", "1", "NULL"),
        ("JSON_ARRAY(a, NULL NULL ON NULL)", "1", "[1,null]"),
        ("JSON_ARRAY(a, NULL)", "1", "[1]"),
        ("JSON_OBJECT('n' VALUE NULL ABSENT ON NULL)", "1", "{}"),
        (
            "JSON_OBJECT('n' VALUE NULL, 'a' VALUE a)",
            "1",
            "{\"n\":null,\"a\":1}",
        ),
        ("UPPER(NULL)", "1", "NULL"),
        ("JSON_QUOTE(NULL)", "1", "NULL"),
        ("CONCAT(NULL, 'x')", "1", "NULL"),
        ("COALESCE(NULL, a)", "1", "1"),
        ("HEX(NULL)", "1", "NULL"),
        ("ABS(NULL)", "1", "NULL"),
        ("TYPEOF(NULL)", "1", "NULL"),
        (
            "JSON_OBJECT('k' VALUE a, KEY 'n' VALUE b)",
            "1, CAST(NULL AS INT)",
            "{\"k\":1,\"n\":null}",
        ),
        (
            "JSON_OBJECT('k' VALUE a ABSENT ON NULL)",
            "CAST(NULL AS INT)",
            "{}",
        ),
        (
            "JSON_OBJECT('o' VALUE JSON_ARRAY(a, 'x'))",
            "1",
            "{\"o\":[1,\"x\"]}",
        ),
        ("JSON_QUOTE(a)", "'a\"b'", "\"a\\\"b\""),
        ("JSON_UNQUOTE(a)", "'\"a\\nb\"'", "a\nb"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn collections() {
    for (expression, arguments, expected) in [
        ("ARRAY[a, b]", "1, 2", "[1, 2]"),
        ("CARDINALITY(a)", "ARRAY[1, 2, 3]", "3"),
        ("a[2]", "ARRAY['x', 'y']", "y"),
        ("a[3]", "ARRAY['x', 'y']", "NULL"),
        ("ELEMENT(a)", "ARRAY[7]", "7"),
        ("ARRAY_CONTAINS(a, b)", "ARRAY[1, 2], 2", "TRUE"),
        ("ARRAY_POSITION(a, b)", "ARRAY[1, 2], 3", "0"),
        ("ARRAY_APPEND(a, b)", "ARRAY[1, 2], 3", "[1, 2, 3]"),
        ("ARRAY_PREPEND(a, b)", "ARRAY[1, 2], 3", "[3, 1, 2]"),
        ("ARRAY_REMOVE(a, b)", "ARRAY[1, 2, 1], 1", "[2]"),
        ("ARRAY_REVERSE(a)", "ARRAY[1, 2]", "[2, 1]"),
        ("ARRAY_DISTINCT(a)", "ARRAY[2, 1, 2]", "[2, 1]"),
        (
            "ARRAY_SORT(a)",
            "ARRAY[2, CAST(NULL AS INT), 1]",
            "[NULL, 1, 2]",
        ),
        (
            "ARRAY_SORT(a, FALSE)",
            "ARRAY[2, CAST(NULL AS INT), 3]",
            "[3, 2, NULL]",
        ),
        ("ARRAY_SLICE(a, 2, 3)", "ARRAY[1, 2, 3, 4]", "[2, 3]"),
        ("ARRAY_SLICE(a, -2)", "ARRAY[1, 2, 3, 4]", "[3, 4]"),
        ("ARRAY_CONCAT(a, b)", "ARRAY[1], ARRAY[2]", "[1, 2]"),
        ("ARRAY_UNION(a, b)", "ARRAY[1, 2], ARRAY[2, 3]", "[1, 2, 3]"),
        ("ARRAY_INTERSECT(a, b)", "ARRAY[1, 2], ARRAY[2, 3]", "[2]"),
        ("ARRAY_EXCEPT(a, b)", "ARRAY[1, 2], ARRAY[2, 3]", "[1]"),
        ("ARRAY_MAX(a)", "ARRAY[1, 3, 2]", "3"),
        ("ARRAY_MIN(a)", "ARRAY['b', 'a']", "a"),
        ("ARRAY_JOIN(a, b)", "ARRAY['x', 'y'], '-'", "x-y"),
        ("MAP['k', a]['k']", "5", "5"),
        ("MAP['k', a]['z']", "5", "NULL"),
        ("MAP_KEYS(MAP['k', a])", "5", "[k]"),
        ("MAP_VALUES(MAP['k', a])", "5", "[5]"),
        ("MAP_ENTRIES(MAP['k', a])", "5", "[(k, 5)]"),
        (
            "MAP_FROM_ARRAYS(a, b)",
            "ARRAY['x', 'y'], ARRAY[1, 2]",
            "{x=1, y=2}",
        ),
        (
            "MAP_UNION(MAP['k', a], MAP['k', b, 'l', c])",
            "1, 2, 3",
            "{k=2, l=3}",
        ),
        ("ROW(a, b)", "1, 'x'", "(1, x)"),
        ("ROW(a, b).EXPR$1", "1, 'x'", "x"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn casts() {
    for (expression, arguments, expected) in [
        ("CAST(a AS INT)", "' 12 '", "12"),
        ("TRY_CAST(a AS INT)", "'twelve'", "NULL"),
        ("CAST(a AS TINYINT)", "300", "44"),
        ("CAST(a AS INT)", "1.9", "1"),
        ("CAST(a AS INT)", "1e20", "2147483647"),
        ("CAST(a AS DECIMAL(5, 2))", "1.235", "1.24"),
        ("CAST(a AS DECIMAL(3, 2))", "123.5", "NULL"),
        ("CAST(a AS STRING)", "TRUE", "TRUE"),
        ("CAST(a AS STRING)", "1.50", "1.50"),
        ("CAST(a AS STRING)", "1e10", "1.0E10"),
        (
            "CAST(a AS STRING)",
            "TIMESTAMP '2020-02-29 13:04:05.6'",
            "2020-02-29 13:04:05.600",
        ),
        ("CAST(a AS STRING)", "ARRAY[1, 2]", "[1, 2]"),
        ("CAST(a AS VARCHAR(3))", "'abcdef'", "abc"),
        ("CAST(a AS CHAR(5)) || '|'", "'ab'", "ab   |"),
        (
            "CAST(a AS DATE)",
            "TIMESTAMP '2020-02-29 13:04:05'",
            "2020-02-29",
        ),
        (
            "CAST(a AS TIMESTAMP(3))",
            "DATE '2020-02-29'",
            "2020-02-29 00:00:00.000",
        ),
        ("CAST(a AS TIME)", "'13:04:05'", "13:04:05"),
        ("CAST(a AS BOOLEAN)", "'yes'", "TRUE"),
        ("CAST(a AS DOUBLE)", "0.1", "0.1"),
        ("CAST(a AS BIGINT)", "TRUE", "1"),
        ("CAST(a AS ARRAY<BIGINT>)", "ARRAY['1', '2']", "[1, 2]"),
        ("CAST(CAST(a AS BYTES) AS STRING)", "'grün'", "grün"),
    ] {
        check(expression, arguments, expected);
    }
    let error = super::evaluate::run("SELECT CAST(a AS INT) FROM (VALUES ('12'), ('x7')) AS t (a)");
    assert_eq!(
        error.unwrap_err(),
        "Execution error: cannot cast to INT: 'x7'; TRY_CAST gives NULL for such values"
    );
}

#[test]
fn the_session_zone_is_honoured() {
    let run = |expression: &str| {
        let script = format!("SET 'table.local-time-zone' = 'Asia/Shanghai'; SELECT {expression}");
        super::evaluate::run(&script).unwrap()[0][0].clone()
    };
    assert_eq!(
        run("CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)"),
        "1970-01-01 08:00:00.000"
    );
    assert_eq!(
        run("CAST(TO_TIMESTAMP_LTZ(0, 3) AS TIMESTAMP(3))"),
        "1970-01-01 08:00:00.000"
    );
    assert_eq!(run("UNIX_TIMESTAMP('1970-01-01 08:00:44')"), "44");
    assert_eq!(run("FROM_UNIXTIME(0)"), "1970-01-01 08:00:00");
    assert_eq!(run("HOUR(TO_TIMESTAMP_LTZ(0, 3))"), "8");
    assert_eq!(run("DATE_FORMAT(TO_TIMESTAMP_LTZ(0, 3), 'HH:mm')"), "08:00");
    assert_eq!(run("LOCALTIMESTAMP"), "2024-05-06 15:08:09.123");
}

#[test]
fn guards_protect_what_can_fail() {
    let rows = super::evaluate::run(
        "SELECT x, CASE WHEN y <> 0 AND x / y > 1 THEN 'big' ELSE 'small' END
         FROM (VALUES (10, 0), (10, 2), (10, 9)) AS t (x, y)
         WHERE y = 0 OR x / y >= 1",
    );
    // OR evaluates both sides, as SQL allows.
    assert!(rows.is_err());
    let rows = super::evaluate::run(
        "SELECT y, CASE WHEN x / y > 1 AND y <> 0 THEN 'big' ELSE 'small' END
         FROM (VALUES (10, 0), (10, 2), (10, 9)) AS t (x, y)",
    );
    let expected = [["0", "small"], ["2", "big"], ["9", "small"]];
    assert_eq!(rows.unwrap(), expected);
    let rows = super::evaluate::run(
        "SELECT y FROM (VALUES (10, 0), (10, 2), (10, 9)) AS t (x, y) WHERE x / y > 1 AND y <> 0",
    );
    assert_eq!(rows.unwrap(), [["2"]]);
}

#[test]
fn the_documentation_lists_all_functions() {
    let page = include_str!("../../../../docs/sql-functions.md");
    let (there, planned) = page.split_once("## Not there yet").unwrap();
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map(str::to_string)
            .collect()
    };
    let documented = words(there);
    for name in crate::bind::function_names().filter(|name| *name != "||") {
        assert!(
            documented.contains(name),
            "{name} is missing in docs/sql-functions.md"
        );
    }
    let documented = words(planned);
    for name in crate::functions::PLANNED {
        assert!(
            documented.contains(*name),
            "{name} is missing among the planned functions"
        );
    }
    // What the page names in code by itself exists.
    let forms = [
        "TRIM",
        "IF",
        "MOD",
        "POSITION",
        "EXTRACT",
        "GROUPING",
        "GROUPING_ID",
    ];
    for (at, _) in there.match_indices('`').step_by(2) {
        let name: String = there[at + 1..].chars().take_while(|c| *c != '`').collect();
        let is_function = name.len() > 1
            && there[..at].contains("## Strings")
            && !there[..at].contains("## Aggregates")
            && name
                .chars()
                .all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit());
        let clauses = ["WHERE", "AND", "OR", "RETURNING", "TIMESTAMP_LTZ"];
        if is_function
            && !clauses.contains(&name.as_str())
            && !forms.contains(&name.as_str())
            && !name.starts_with("JSON_")
        {
            assert!(
                crate::functions::lookup(&name).is_some(),
                "{name} is documented but missing"
            );
        }
    }
}
