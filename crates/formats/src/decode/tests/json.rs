//! Every type from JSON, and how members find their columns.

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

use super::*;

const MILLIS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

fn ltz(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// The value of a single column read from `{"v":VALUE}`, or the error's text.
fn read(data_type: &DataType, value: &str) -> Result<String, String> {
    let spec = spec(&[("format", "json")], &schema(&[("v", data_type.clone())]));
    let rows = decode_whole(&spec, &format!("{{\"v\":{value}}}\n"));
    rows.map(|rows| all_shown(&rows).remove(0))
        .map_err(|error| error.to_string())
}

fn check(data_type: DataType, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        assert_eq!(
            read(&data_type, value).as_deref(),
            Ok(*expected),
            "{value} as {data_type}"
        );
    }
}

fn refuse(data_type: DataType, cases: &[&str]) {
    for value in cases {
        let error = read(&data_type, value).expect_err(value);
        assert!(error.contains("field `v`"), "{error}");
    }
}

#[test]
fn booleans() {
    check(
        DataType::Boolean,
        &[
            ("true", "true"),
            (" false ", "false"),
            ("\"TRUE\"", "true"),
            ("null", "∅"),
        ],
    );
    refuse(DataType::Boolean, &["1", "\"yes\"", "\"\"", "[]", "{}"]);
}

#[test]
fn integers() {
    check(
        DataType::Int8,
        &[
            ("127", "127"),
            ("-128", "-128"),
            ("\"7\"", "7"),
            ("1.0", "1"),
            ("1e2", "100"),
        ],
    );
    refuse(
        DataType::Int8,
        &["128", "-129", "1.5", "\"\"", "\"x\"", "true", "[1]"],
    );
    check(DataType::Int16, &[("32767", "32767"), ("-32768", "-32768")]);
    refuse(DataType::Int16, &["32768"]);
    check(
        DataType::Int32,
        &[("2147483647", "2147483647"), ("-2147483648", "-2147483648")],
    );
    refuse(DataType::Int32, &["2147483648", "1e10"]);
    check(
        DataType::Int64,
        &[
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("\" 12 \"", "12"),
        ],
    );
    refuse(DataType::Int64, &["9223372036854775808", "0.5", "1e400"]);
}

#[test]
fn floats() {
    check(
        DataType::Float64,
        &[
            ("0.1", "0.1"),
            ("1", "1.0"),
            ("\"NaN\"", "NaN"),
            ("\"-Infinity\"", "-inf"),
            ("1.7976931348623157e308", "1.7976931348623157e308"),
            ("5e-324", "5e-324"),
            ("9007199254740993", "9007199254740992.0"),
        ],
    );
    refuse(
        DataType::Float64,
        &["1e309", "\"1e309\"", "\"abc\"", "true"],
    );
    check(
        DataType::Float32,
        &[("0.1", "0.1"), ("16777217", "16777216.0")],
    );
    refuse(DataType::Float32, &["1e39"]);
}

#[test]
fn decimals() {
    check(
        DataType::Decimal128(10, 2),
        &[
            ("1.5", "1.50"),
            ("\"1.5\"", "1.50"),
            ("-0.005", "-0.01"),
            ("12345678", "12345678.00"),
            ("1e3", "1000.00"),
        ],
    );
    refuse(
        DataType::Decimal128(10, 2),
        &["123456789", "\"1,5\"", "\"\"", "false"],
    );
    check(
        DataType::Decimal128(38, 18),
        &[(
            "99999999999999999999.999999999999999999",
            "99999999999999999999.999999999999999999",
        )],
    );
}

#[test]
fn strings_take_any_value_as_text() {
    check(
        DataType::Utf8,
        &[
            (r#""""#, ""),
            (r#""a\"b\\\n\t\u00e9\ud83d\ude00""#, "a\"b\\\n\té😀"),
            ("\"żółć 日本語\"", "żółć 日本語"),
            ("1.50", "1.50"),
            ("true", "true"),
            (r#"{"a": [1, "}"]}"#, r#"{"a": [1, "}"]}"#),
            ("[ 1,2 ]", "[ 1,2 ]"),
            ("null", "∅"),
        ],
    );
    refuse(DataType::Utf8, &[r#""\ud800""#, r#""\udc00\ud800""#]);
}

#[test]
fn bytes_are_base64() {
    // Arrow shows byte strings in hexadecimal.
    check(DataType::Binary, &[("\"AP8Q\"", "00ff10"), ("\"\"", "")]);
    refuse(DataType::Binary, &["\"A\"", "\"é\"", "1"]);
}

#[test]
fn dates_and_times() {
    check(
        DataType::Date32,
        &[
            ("\"2020-12-30\"", "2020-12-30"),
            ("\"0001-01-01\"", "0001-01-01"),
        ],
    );
    refuse(
        DataType::Date32,
        &["\"2020-02-30\"", "\"2020-12-30 00:00:00\"", "18626"],
    );
    let cases = [("\"12:13:14\"", "12:13:14"), ("\"23:59\"", "23:59:00")];
    check(DataType::Time32(TimeUnit::Second), &cases);
    check(
        DataType::Time32(TimeUnit::Millisecond),
        &[("\"12:13:14.1239\"", "12:13:14.123")],
    );
    check(
        DataType::Time64(TimeUnit::Microsecond),
        &[("\"12:13:14.5\"", "12:13:14.500")],
    );
    check(
        DataType::Time64(TimeUnit::Nanosecond),
        &[("\"23:59:59.999999999\"", "23:59:59.999999999")],
    );
    refuse(
        DataType::Time32(TimeUnit::Second),
        &["\"24:00:00\"", "\"12\"", "5"],
    );
}

#[test]
fn timestamps_in_both_standards_and_as_millis() {
    check(
        MILLIS,
        &[
            ("\"2020-12-30 12:13:14.123\"", "2020-12-30T12:13:14.123"),
            ("\"2020-12-30T12:13:14.123\"", "2020-12-30T12:13:14.123"),
            ("\"2020-12-30T12:13:14.123Z\"", "2020-12-30T12:13:14.123"),
            ("\"2020-12-30 12:13:14\"", "2020-12-30T12:13:14"),
            ("\"2020-12-30\"", "2020-12-30T00:00:00"),
            ("1609330394123", "2020-12-30T12:13:14.123"),
            ("-1", "1969-12-31T23:59:59.999"),
            ("\"2020-12-30 12:13:14.123999\"", "2020-12-30T12:13:14.123"),
        ],
    );
    refuse(
        MILLIS,
        &[
            "\"2020-12-30T12:13:14+01:00\"",
            "\"12:13:14\"",
            "\"1609330394123\"",
            "1.5",
            "true",
        ],
    );
    check(
        DataType::Timestamp(TimeUnit::Microsecond, None),
        &[
            ("1609330394123", "2020-12-30T12:13:14.123"),
            (
                "\"2020-12-30 12:13:14.000001\"",
                "2020-12-30T12:13:14.000001",
            ),
        ],
    );
    check(
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        &[(
            "\"2020-12-30 12:13:14.000000001\"",
            "2020-12-30T12:13:14.000000001",
        )],
    );
    refuse(
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        &["9223372036854775", "\"2300-01-01 00:00:00\""],
    );
    check(
        ltz(TimeUnit::Millisecond),
        &[
            ("\"2020-12-30 12:13:14.123Z\"", "2020-12-30T12:13:14.123Z"),
            ("\"2020-12-30T12:13:14.123Z\"", "2020-12-30T12:13:14.123Z"),
            ("\"2020-12-30T12:13:14+02:00\"", "2020-12-30T10:13:14Z"),
            ("\"2020-12-30 12:13:14\"", "2020-12-30T12:13:14Z"),
            ("0", "1970-01-01T00:00:00Z"),
        ],
    );
}

fn row_type() -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("s", DataType::Utf8, false),
    ]))
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn map_of(value: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", value, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

/// A table with a column of every kind of nesting.
pub(super) fn nested_schema() -> SchemaRef {
    schema(&[
        ("a", DataType::Int32),
        ("b", DataType::Utf8),
        ("l", list_of(row_type())),
        ("m", map_of(DataType::Int64)),
        ("t", MILLIS),
    ])
}

#[test]
fn nested_types() {
    check(
        list_of(DataType::Int32),
        &[("[1, null,3]", "[1, , 3]"), ("[]", "[]"), ("null", "∅")],
    );
    refuse(list_of(DataType::Int32), &["{}", "1", "\"[1]\""]);
    check(
        row_type(),
        &[
            (r#"{"s":"a","n":1}"#, "{n: 1, s: a}"),
            (r#"{"x":[{}],"s":"a"}"#, "{n: , s: a}"),
            (r#"{"s":"a","n":1,"n":2,"\u0073":"b"}"#, "{n: 2, s: b}"),
            ("null", "∅"),
        ],
    );
    check(
        list_of(row_type()),
        &[(
            r#"[{"s":"a"},null,{"n":2,"s":"b"}]"#,
            "[{n: , s: a}, , {n: 2, s: b}]",
        )],
    );
    check(
        map_of(list_of(DataType::Int64)),
        &[
            (r#"{"a":[1],"":[],"\u00e9":null}"#, "{a: [1], : [], é: }"),
            ("{}", "{}"),
        ],
    );
}

#[test]
fn a_map_has_every_key_once() {
    let many = |last: &str| {
        let members: Vec<String> = (0..30).map(|key| format!("\"k{key}\":1")).collect();
        format!("{{{},\"{last}\":1}}", members.join(","))
    };
    let map = map_of(DataType::Int64);
    for value in [r#"{"a":1,"b":2,"\u0061":3}"#, &many("k17")] {
        let error = read(&map, value).unwrap_err();
        assert!(
            error.contains("field `v`: expected every key of a MAP once"),
            "{error}"
        );
    }
    assert!(read(&map, &many("k30")).is_ok());
}

#[test]
fn errors_name_the_path_within_nested_values() {
    for (data_type, value, expected) in [
        (
            list_of(DataType::Int32),
            "[1,2,\"x\"]",
            "field `v[2]`: expected INT, found \"x\"",
        ),
        (
            row_type(),
            r#"{"n":"x","s":""}"#,
            "field `v.n`: expected INT, found \"x\"",
        ),
        (
            row_type(),
            r#"{"n":1}"#,
            "field `v.s`: expected STRING NOT NULL, found no such member",
        ),
        (
            row_type(),
            r#"{"s":null}"#,
            "field `v.s`: expected STRING NOT NULL, found null",
        ),
        (
            list_of(row_type()),
            r#"[{"s":"a"},{"n":1e99,"s":"b"}]"#,
            "field `v[1].n`: expected INT, found 1e99",
        ),
        (
            map_of(DataType::Boolean),
            r#"{"k":3}"#,
            "field `v.k`: expected BOOLEAN, found 3",
        ),
        (
            row_type(),
            "[1,2]",
            "field `v`: expected ROW<n INT, s STRING>, found [1,2]",
        ),
    ] {
        let error = read(&data_type, value).unwrap_err();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
}

#[test]
fn members_in_any_order_unknown_repeated_and_missing() {
    let schema = schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]);
    let spec = spec(&[("format", "json")], &schema);
    let input = r#"
        {"a":1,"b":"x"}
        {"b":"y","a":2}
        {"c":{"a":[9]},"a":3,"d":"}","b":null}
        {"a":4}
        {}
        {"a":5,"b":"p","a":6}
        {"\u0061":7,"b":"q"}
        { "a" : 8 , "b" : "r" }
    "#;
    let rows = decode_whole(&spec, input).unwrap();
    assert_eq!(
        all_shown(&rows),
        ["1|x", "2|y", "3|∅", "4|∅", "∅|∅", "6|p", "7|q", "8|r"]
    );
    assert_eq!(rows.counters.rows, 8);
}

#[test]
fn missing_members_may_be_refused() {
    let schema = schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]);
    let options = [("format", "json"), ("json.fail-on-missing-field", "true")];
    let spec = spec(&options, &schema);
    let rows = decode_whole(&spec, "{\"a\":null,\"b\":null}").unwrap();
    assert_eq!(all_shown(&rows), ["∅|∅"]);
    let error = decode_whole(&spec, "{\"a\":1}").unwrap_err().to_string();
    assert!(
        error.contains("field `b`: expected STRING, found no such member"),
        "{error}"
    );
}

#[test]
fn a_table_without_columns_counts_rows() {
    let spec = spec(&[("format", "json")], &schema(&[]));
    let rows = decode_whole(&spec, "{\"a\":1}\n{}\n").unwrap();
    assert_eq!(rows.batches[0].batch.num_rows(), 2);
}
