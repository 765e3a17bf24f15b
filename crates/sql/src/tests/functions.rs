//! Every family of functions, with expected values from Flink's documentation or by hand.

use super::evaluate::check;

#[test]
fn strings() {
    for (expression, arguments, expected) in [
        ("UPPER(a)", "'aäB'", "AÄB"),
        ("lower(a)", "'ABC'", "abc"),
        ("INITCAP(a)", "'hELLO wORLD-wide'", "Hello World-Wide"),
        ("CHAR_LENGTH(a)", "'äöü'", "3"),
        ("a || b", "'x', 'y'", "xy"),
        ("CONCAT(a, b, c)", "'AA', 'BB', 'CC'", "AABBCC"),
        ("CONCAT(a, b)", "'AA', CAST(NULL AS STRING)", "NULL"),
        (
            "CONCAT_WS(a, b, c, d)",
            "'~', 'AA', CAST(NULL AS STRING), 'BB'",
            "AA~BB",
        ),
        ("TRIM(a)", "'  x '", "x"),
        ("TRIM(BOTH b FROM a)", "'xxayx', 'x'", "ay"),
        ("TRIM(LEADING b FROM a)", "'xxayx', 'x'", "ayx"),
        (
            "LTRIM(a)",
            "' This is a test String.'",
            "This is a test String.",
        ),
        ("RTRIM(a)", "'x  '", "x"),
        ("BTRIM(a, b)", "'zzxzz', 'z'", "x"),
        (
            "REPEAT(a, b)",
            "'This is a test String.', 2",
            "This is a test String.This is a test String.",
        ),
        (
            "REPLACE(a, b, c)",
            "'hello world', 'world', 'flink'",
            "hello flink",
        ),
        ("REPLACE(a, b, c)", "'ababab', 'abab', 'z'", "zab"),
        ("REVERSE(a)", "'äbc'", "cbä"),
        ("LEFT(a, b)", "'abc', 2", "ab"),
        ("LEFT(a, b)", "'abc', -1", ""),
        ("RIGHT(a, b)", "'äbc', 2", "bc"),
        ("LPAD(a, b, c)", "'hi', 4, '??'", "??hi"),
        ("LPAD(a, b, c)", "'hi', 1, '??'", "h"),
        ("RPAD(a, b, c)", "'hi', 5, 'xy'", "hixyx"),
        ("LPAD(a, b, c)", "'hi', -1, 'x'", "NULL"),
        ("LPAD(a, b, c)", "'a😀b', 5, '*-'", "*a😀b"),
        ("SUBSTRING(a FROM b)", "'hello', 2", "ello"),
        ("SUBSTRING(a FROM b FOR c)", "'hello', 2, 2", "el"),
        ("SUBSTR(a, b, c)", "'hello', -3, 2", "ll"),
        ("SUBSTRING(a, b)", "'hello', 9", ""),
        ("SUBSTRING(a, b, c)", "'hello', 1, -1", "NULL"),
        (
            "OVERLAY(a PLACING b FROM c FOR d)",
            "'xxxxxtest', 'xxxx', 6, 4",
            "xxxxxxxxx",
        ),
        (
            "OVERLAY(a PLACING b FROM c FOR d)",
            "'xxxxxtest', 'xxxx', 6, 2",
            "xxxxxxxxxst",
        ),
        (
            "TRANSLATE(a, b, c)",
            "'translate', 'rnlt', '123'",
            "1a2s3ae",
        ),
        ("POSITION(a IN b)", "'lo', 'hello'", "4"),
        ("LOCATE(a, b)", "'x', 'hello'", "0"),
        ("LOCATE(a, b, c)", "'l', 'hello', 4", "4"),
        ("INSTR(a, b)", "'hello', 'l'", "3"),
        ("STARTSWITH(a, b)", "'hello', 'he'", "TRUE"),
        ("ENDSWITH(a, b)", "'hello', 'he'", "FALSE"),
        ("SPLIT_INDEX(a, b, c)", "'a/b/c', '/', 1", "b"),
        ("SPLIT_INDEX(a, b, c)", "'a/b/c', 47, 2", "c"),
        ("SPLIT_INDEX(a, b, c)", "'a/b/c', '/', 3", "NULL"),
        ("SPLIT(a, b)", "'a,b,,c', ','", "[a, b, , c]"),
        ("STR_TO_MAP(a)", "'k1=v1,k2=v2'", "{k1=v1, k2=v2}"),
        (
            "STR_TO_MAP(a, b, c)",
            "'k1:v1;k2:v2', ';', ':'",
            "{k1=v1, k2=v2}",
        ),
        ("ELT(a, b, c)", "2, 'x', 'y'", "y"),
        ("ELT(a, b, c)", "3, 'x', 'y'", "NULL"),
        ("ASCII(a)", "'abc'", "97"),
        ("CHR(a)", "353", "a"),
        ("IS_ALPHA(a)", "'abc1'", "FALSE"),
        ("IS_DIGIT(a)", "'123'", "TRUE"),
        ("IS_DECIMAL(a)", "'-1.5'", "TRUE"),
        ("IS_DECIMAL(a)", "CAST(NULL AS STRING)", "FALSE"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn regular_expressions_and_patterns() {
    for (expression, arguments, expected) in [
        ("REGEXP(a, b)", "'hello', 'l+'", "TRUE"),
        ("REGEXP(a, b)", "'hello', ''", "FALSE"),
        (
            "REGEXP_EXTRACT(a, b, c)",
            "'foothebar', 'foo(.*?)(bar)', 2",
            "bar",
        ),
        ("REGEXP_EXTRACT(a, b)", "'foothebar', 'the'", "the"),
        ("REGEXP_EXTRACT(a, b, c)", "'abc', 'x', 0", "NULL"),
        (
            "REGEXP_EXTRACT(a, '(&|^)channel_id=([^&]*)', 2)",
            "'https://x/item.htm?query=1&channel_id=42'",
            "42",
        ),
        (
            "REGEXP_EXTRACT_ALL(a, b)",
            "'100-200, 300-400', '(\\d+)-(\\d+)'",
            "[100, 300]",
        ),
        ("REGEXP_REPLACE(a, b, c)", "'foobar', 'oo|ar', ''", "fb"),
        (
            "REGEXP_REPLACE(a, b, c)",
            "'john smith', '(\\w+) (\\w+)', '$2 $1'",
            "smith john",
        ),
        ("REGEXP_COUNT(a, b)", "'hello world', 'o'", "2"),
        ("REGEXP_INSTR(a, b)", "'hello world', 'wor'", "7"),
        ("REGEXP_SUBSTR(a, b)", "'hello world', 'w.r'", "wor"),
        ("a LIKE b", "'TestABC', 'Test%'", "TRUE"),
        ("a LIKE b", "'Test', 'T_st'", "TRUE"),
        ("a NOT LIKE b", "'Test', 'x%'", "TRUE"),
        ("a LIKE '10~%' ESCAPE '~'", "'10%'", "TRUE"),
        ("a LIKE '10~%' ESCAPE '~'", "'100'", "FALSE"),
        ("a SIMILAR TO b", "'abc', '(a|x)%'", "TRUE"),
        ("a NOT SIMILAR TO b", "'abc', 'b%'", "TRUE"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn encodings_and_digests() {
    for (expression, arguments, expected) in [
        ("TO_BASE64(a)", "'hello world'", "aGVsbG8gd29ybGQ="),
        ("FROM_BASE64(a)", "'aGVsbG8gd29ybGQ='", "hello world"),
        ("HEX(a)", "20", "14"),
        ("HEX(a)", "'hello,world'", "68656C6C6F2C776F726C64"),
        ("CAST(UNHEX(a) AS STRING)", "'466C696E6B'", "Flink"),
        ("BIN(a)", "12", "1100"),
        ("DECODE(ENCODE(a, b), b)", "'grün', 'UTF-16LE'", "grün"),
        (
            "URL_ENCODE(a)",
            "'https://flink.apache.org/ x'",
            "https%3A%2F%2Fflink.apache.org%2F+x",
        ),
        ("URL_DECODE(a)", "'a%20b%2Fc'", "a b/c"),
        (
            "PARSE_URL(a, b)",
            "'http://facebook.com/path1/p.php?k1=v1&k2=v2#Ref1', 'QUERY'",
            "k1=v1&k2=v2",
        ),
        (
            "PARSE_URL(a, b, c)",
            "'http://facebook.com/path1/p.php?k1=v1&k2=v2#Ref1', 'QUERY', 'k2'",
            "v2",
        ),
        ("MD5(a)", "''", "d41d8cd98f00b204e9800998ecf8427e"),
        (
            "SHA1(a)",
            "'abc'",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        (
            "SHA2(a, b)",
            "'abc', 256",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn numbers() {
    for (expression, arguments, expected) in [
        ("a + b", "1, 2", "3"),
        ("a / b", "7, 2", "3"),
        ("a / b", "-7, 2", "-3"),
        ("a % b", "7, 3", "1"),
        ("MOD(a, b)", "-7, 3", "-1"),
        ("a * b", "1.5, 2.25", "3.375"),
        ("a / b", "1.00, 3.0", "0.333333"),
        ("a + b", "0.1, 2", "2.1"),
        ("a / b", "1e0, 4", "0.25"),
        ("-a", "5", "-5"),
        ("ABS(a)", "-2.5", "2.5"),
        ("SIGN(a)", "-7", "-1"),
        ("CEIL(a)", "1.2", "2"),
        ("FLOOR(a)", "-1.2", "-2"),
        ("CEIL(a)", "1.2e0", "2.0"),
        ("ROUND(a, 1)", "2.55", "2.6"),
        ("ROUND(a)", "2.5e0", "3.0"),
        ("ROUND(a, b)", "1234, -2", "1200"),
        ("TRUNCATE(a, 2)", "42.345", "42.340"),
        ("POWER(a, b)", "2, 10", "1024.0"),
        ("SQRT(a)", "16", "4.0"),
        ("LOG10(a)", "1000", "3.0"),
        ("LOG2(a)", "8", "3.0"),
        ("LN(a)", "1", "0.0"),
        ("EXP(a)", "0", "1.0"),
        ("DEGREES(a)", "0", "0.0"),
        ("ATAN2(a, b)", "0, 1", "0.0"),
        ("GREATEST(a, b, c)", "1, 3, 2", "3"),
        ("GREATEST(a, b)", "1, CAST(NULL AS INT)", "NULL"),
        ("LEAST(a, b)", "'b', 'a'", "a"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn conditions() {
    for (expression, arguments, expected) in [
        ("COALESCE(a, b, c)", "CAST(NULL AS INT), 2, 3", "2"),
        ("IFNULL(a, b)", "CAST(NULL AS STRING), 'x'", "x"),
        ("NULLIF(a, b)", "5, 5", "NULL"),
        ("NULLIF(a, b)", "5, 0", "5"),
        ("IF(a > b, 'more', 'less')", "5, 3", "more"),
        ("CASE WHEN a > 3 THEN 'x' WHEN a > 1 THEN 'y' END", "2", "y"),
        ("CASE a WHEN 1 THEN 'one' ELSE 'other' END", "1", "one"),
        ("CASE WHEN a THEN 1 ELSE 2.5 END", "TRUE", "1.0"),
        ("a BETWEEN 1 AND 3", "2", "TRUE"),
        ("a NOT BETWEEN 1 AND 3", "2", "FALSE"),
        ("a BETWEEN SYMMETRIC 3 AND 1", "2", "TRUE"),
        ("a BETWEEN ASYMMETRIC 3 AND 1", "2", "FALSE"),
        ("a IN (1, 2, 3)", "2", "TRUE"),
        ("a NOT IN ('x', 'y')", "'z'", "TRUE"),
        ("a IS NULL", "CAST(NULL AS INT)", "TRUE"),
        ("a IS DISTINCT FROM b", "1, CAST(NULL AS INT)", "TRUE"),
        ("a IS NOT TRUE", "CAST(NULL AS BOOLEAN)", "TRUE"),
        ("a IS UNKNOWN", "CAST(NULL AS BOOLEAN)", "TRUE"),
        ("a AND b", "CAST(NULL AS BOOLEAN), FALSE", "FALSE"),
        ("a OR b", "CAST(NULL AS BOOLEAN), TRUE", "TRUE"),
        ("a = b", "1, '1'", "TRUE"),
        ("TYPEOF(a)", "1.50", "DECIMAL(3, 2)"),
        ("a > b", "DATE '2024-01-02', '2024-01-01'", "TRUE"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn times() {
    for (expression, arguments, expected) in [
        (
            "DATE_FORMAT(a, 'yyyy-MM-dd')",
            "TIMESTAMP '2020-02-29 13:04:05.678'",
            "2020-02-29",
        ),
        (
            "DATE_FORMAT(a, b)",
            "TIMESTAMP '2020-02-29 13:04:05.678', 'HH:mm'",
            "13:04",
        ),
        ("DATE_FORMAT(a, 'yyyy')", "'2020-02-29 13:04:05'", "2020"),
        (
            "TO_TIMESTAMP(a)",
            "'2020-02-29 13:04:05'",
            "2020-02-29 13:04:05.000",
        ),
        (
            "TO_TIMESTAMP(a, 'dd/MM/yyyy HH:mm')",
            "'29/02/2020 13:04'",
            "2020-02-29 13:04:00.000",
        ),
        ("TO_TIMESTAMP(a)", "'nonsense'", "NULL"),
        ("TO_TIMESTAMP_LTZ(a, 3)", "4001", "1970-01-01 00:00:04.001"),
        ("TO_TIMESTAMP_LTZ(a, 0)", "4001", "1970-01-01 01:06:41.000"),
        (
            "TO_TIMESTAMP_LTZ(a, 'yyyy-MM-dd HH:mm:ss', 'Asia/Shanghai')",
            "'2023-01-01 08:00:00'",
            "2023-01-01 00:00:00.000",
        ),
        ("TO_DATE(a)", "'2020-02-29'", "2020-02-29"),
        ("TO_DATE(a, 'yyyyMMdd')", "'20200229'", "2020-02-29"),
        ("FROM_UNIXTIME(a)", "44", "1970-01-01 00:00:44"),
        ("UNIX_TIMESTAMP(a)", "'1970-01-01 00:00:44'", "44"),
        (
            "CONVERT_TZ(a, b, c)",
            "'1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles'",
            "1969-12-31 16:00:00",
        ),
        ("YEAR(a)", "DATE '1994-09-27'", "1994"),
        ("QUARTER(a)", "DATE '1994-09-27'", "3"),
        ("MONTH(a)", "DATE '1994-09-27'", "9"),
        ("WEEK(a)", "DATE '1994-09-27'", "39"),
        ("DAYOFYEAR(a)", "DATE '1994-09-27'", "270"),
        ("DAYOFMONTH(a)", "DATE '1994-09-27'", "27"),
        ("DAYOFWEEK(a)", "DATE '1994-09-27'", "3"),
        ("HOUR(a)", "TIMESTAMP '1994-09-27 13:14:15'", "13"),
        ("MINUTE(a)", "TIMESTAMP '1994-09-27 13:14:15'", "14"),
        ("SECOND(a)", "TIMESTAMP '1969-12-31 23:59:58'", "58"),
        ("EXTRACT(DAY FROM a)", "DATE '2006-06-05'", "5"),
        (
            "EXTRACT(MILLISECOND FROM a)",
            "TIMESTAMP '2006-06-05 00:00:01.234'",
            "1234",
        ),
        (
            "FLOOR(a TO MINUTE)",
            "TIMESTAMP '2020-02-29 12:44:31'",
            "2020-02-29 12:44:00.000",
        ),
        (
            "CEIL(a TO DAY)",
            "TIMESTAMP '2020-02-29 12:44:31'",
            "2020-03-01 00:00:00.000",
        ),
        (
            "CEIL(a TO DAY)",
            "TIMESTAMP '2020-02-29 00:00:00'",
            "2020-02-29 00:00:00.000",
        ),
        ("FLOOR(a TO MONTH)", "DATE '2020-02-29'", "2020-02-01"),
        (
            "TIMESTAMPADD(DAY, a, b)",
            "3, TIMESTAMP '2003-01-02 10:00:00'",
            "2003-01-05 10:00:00.000",
        ),
        (
            "TIMESTAMPADD(MONTH, a, b)",
            "1, DATE '2020-01-31'",
            "2020-02-29",
        ),
        (
            "TIMESTAMPDIFF(DAY, a, b)",
            "TIMESTAMP '2003-01-02 10:00:00', TIMESTAMP '2003-01-03 10:00:00'",
            "1",
        ),
        (
            "TIMESTAMPDIFF(MONTH, a, b)",
            "DATE '2020-01-31', DATE '2020-02-29'",
            "0",
        ),
        ("a + INTERVAL '1' MONTH", "DATE '2020-01-31'", "2020-02-29"),
        (
            "a - INTERVAL '1 01:00' DAY TO MINUTE",
            "TIMESTAMP '2020-01-03 10:00:00'",
            "2020-01-02 09:00:00.000",
        ),
        (
            "a + 2 * INTERVAL '30' SECOND",
            "TIMESTAMP '2020-01-03 10:00:00'",
            "2020-01-03 10:01:00.000",
        ),
        ("CURRENT_TIMESTAMP", "", "2024-05-06 07:08:09.123"),
        ("CURRENT_DATE", "", "2024-05-06"),
        ("LOCALTIME", "", "07:08:09.123"),
        ("UNIX_TIMESTAMP()", "", "1714979289"),
    ] {
        check(expression, arguments, expected);
    }
}

#[test]
fn times_that_are_written_alike_are_told_apart() {
    let rows = super::evaluate::run(
        "SELECT DATE_FORMAT(t, 'HH:mm'), DATE_FORMAT(t, 'yyyy-MM-dd'), DATE_FORMAT(t, 'ss.SSS')
         FROM (VALUES (TIMESTAMP '2020-01-01 23:59:59.998'), (TIMESTAMP '2020-01-01 23:59:59.999'),
            (TIMESTAMP '2020-01-02 00:00:00'), (CAST(NULL AS TIMESTAMP(3))),
            (TIMESTAMP '1969-12-31 23:59:59.999')) AS v (t)",
    );
    assert_eq!(
        rows.unwrap(),
        [
            ["23:59", "2020-01-01", "59.998"],
            ["23:59", "2020-01-01", "59.999"],
            ["00:00", "2020-01-02", "00.000"],
            ["NULL", "NULL", "NULL"],
            ["23:59", "1969-12-31", "59.999"],
        ]
    );
}

/// Every function over nothing but untyped NULLs, wherever it takes them.
#[test]
fn functions_of_untyped_nulls_are_null() {
    // In Flink the tests of characters are false for NULL; TYPEOF and ROW are tested elsewhere.
    let exempt = ["IS_ALPHA", "IS_DECIMAL", "IS_DIGIT", "ROW", "TYPEOF"];
    let (mut seen, mut wrong) = (0, vec![]);
    for name in crate::functions::names() {
        if exempt.contains(&name) {
            continue;
        }
        for count in 1..=4 {
            let nulls = vec!["NULL"; count].join(", ");
            let script = format!("SELECT {name}({nulls})");
            if crate::compile(&script, &super::options()).is_err() {
                continue;
            }
            let rows = super::evaluate::run(&script);
            if rows != Ok(vec![vec!["NULL".to_string()]]) {
                wrong.push(format!("{script}: {rows:?}"));
            }
            seen += 1;
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen > 80, "{seen}");
}
