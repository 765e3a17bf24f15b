//! Malformed records under every `on-error`.

use arrow::datatypes::{DataType, Field};

use crate::{BadRecord, DeadLetter, Position};

use super::*;

const INPUT: &str = "{\"a\":1,\"b\":\"one\"}\n{\"a\":2,\"b\":\nnot json\n{\"a\":\"x\",\"b\":\"y\"}\n\
                     {\"a\":5,\"b\":\"five\"}\n";

fn ab() -> SchemaRef {
    schema(&[("a", DataType::Int32), ("b", DataType::Utf8)])
}

#[test]
fn fail_names_line_byte_field_and_expectation() {
    let spec = spec(&[("format", "json")], &ab());
    let error = decode_whole(&spec, INPUT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 (byte 18, column 12), field `b`: expected a JSON value, found the end of the \
         record; set 'on-error' to 'skip' or 'dead-letter' to read on past such records"
    );
}

#[test]
fn after_a_failure_the_decoder_refuses_use() {
    let spec = spec(&[("format", "json")], &ab());
    let mut config = spec.decoder_config();
    config.max_rows = 1;
    let mut decoder = spec.decoder(&config).unwrap();
    let mut out = DecodedRows::default();
    assert!(decoder.decode(INPUT.as_bytes(), true, &mut out).is_err());
    // What came before the bad record is there.
    assert_eq!(all_shown(&out), ["1|one"]);
    assert_eq!(out.counters.bad_records, 1);
    let again = decoder.decode(b"{}\n", true, &mut out);
    assert!(matches!(again, Err(FormatError::Stopped)));
    assert!(matches!(decoder.flush(&mut out), Err(FormatError::Stopped)));
}

#[test]
fn skip_counts_and_goes_on() {
    let spec = spec(&[("format", "json"), ("on-error", "skip")], &ab());
    let rows = decode_whole(&spec, INPUT).unwrap();
    assert_eq!(all_shown(&rows), ["1|one", "5|five"]);
    assert_eq!((rows.counters.rows, rows.counters.bad_records), (2, 3));
    assert!(rows.dead_letters.is_empty());
    assert_eq!(rows.last_skipped.unwrap().line, 4);
}

#[test]
fn dead_letter_hands_out_the_record_and_the_reason() {
    let spec = spec(&[("format", "json"), ("on-error", "dead-letter")], &ab());
    let rows = decode_whole(&spec, INPUT).unwrap();
    assert_eq!(all_shown(&rows), ["1|one", "5|five"]);
    assert_eq!(rows.counters.bad_records, 3);
    let records: Vec<&[u8]> = rows
        .dead_letters
        .iter()
        .map(|l| l.record.as_slice())
        .collect();
    assert_eq!(
        records,
        [
            &b"{\"a\":2,\"b\":"[..],
            b"not json",
            b"{\"a\":\"x\",\"b\":\"y\"}"
        ]
    );
    assert_eq!(
        rows.dead_letters[2],
        DeadLetter {
            start: Position {
                offset: 39,
                line: 3
            },
            record: b"{\"a\":\"x\",\"b\":\"y\"}".to_vec(),
            error: BadRecord {
                line: 4,
                offset: 39,
                field: Some("a".to_owned()),
                column: Some(6),
                found: "\"x\"".to_owned(),
                expected: "INT".to_owned(),
            },
        }
    );
}

#[test]
fn records_that_are_no_json_objects() {
    for (record, expected) in [
        ("[]", "expected a JSON object, found []"),
        ("7", "expected a JSON object, found 7"),
        (
            "{\"a\":1}}",
            "expected one JSON object per line and nothing after it, found }",
        ),
        ("{\"a\":1} {\"a\":2}", "nothing after it, found {\"a\":2}"),
        ("{\"a\" 1}", "expected ':' after a member name, found 1}"),
        (
            "{\"a\":1 \"b\":2}",
            "expected ',' or '}' after a member, found \"b\":2}",
        ),
        (
            "{\"a\":1,}",
            "expected a member name in double quotes, found }",
        ),
        (
            "{a:1}",
            "expected a member name in double quotes, found a:1}",
        ),
        ("{\"z\":tru}", "expected a JSON value, found tru}"),
        ("{\"a\":01}", "expected a JSON value, found 01}"),
        (
            "{\"b\":\"x}",
            "expected a string with a closing quote, found \"x}",
        ),
        (
            "{\"b\":\"\u{1}\"}",
            "expected no control characters within a string, found \\u{1}\"}",
        ),
        (
            "{\"z\":\"\\q\"}",
            "expected an escape sequence of JSON, found \\q\"}",
        ),
    ] {
        let spec = spec(&[("format", "json")], &ab());
        let error = decode_whole(&spec, record).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
}

#[test]
fn long_values_are_cut_in_messages() {
    let spec = spec(&[("format", "json")], &ab());
    let record = format!("{{\"a\":\"{}\"}}", "é".repeat(500));
    let error = decode_whole(&spec, &record).unwrap_err().to_string();
    assert!(
        error.contains(&format!("found \"{}…\"", "é".repeat(80))),
        "{error}"
    );
    assert!(error.len() < 400, "{error}");
}

#[test]
fn text_that_is_not_utf8() {
    let spec = spec(&[("format", "json")], &ab());
    let config = spec.decoder_config();
    let error = decode(&spec, &config, b"{\"b\":\"a\xffz\"}", 5)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("column 8): expected UTF-8, found \"\u{fffd}z"),
        "{error}"
    );
}

#[test]
fn not_null_columns_refuse_nulls_and_keep_the_batch_whole() {
    let fields = vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("a", DataType::Int32, false),
    ];
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let spec = spec(&[("format", "json"), ("on-error", "dead-letter")], &schema);
    let input = "{\"s\":\"x\",\"a\":1}\n{\"s\":\"yy\",\"a\":null}\n{\"s\":\"zzz\"}\n\
                 {\"a\":2,\"s\":\"w\"}\n";
    let rows = decode_whole(&spec, input).unwrap();
    assert_eq!(all_shown(&rows), ["x|1", "w|2"]);
    let texts: Vec<String> = rows
        .dead_letters
        .iter()
        .map(|l| l.error.to_string())
        .collect();
    assert_eq!(
        texts,
        [
            "line 2 (byte 16, column 15), field `a`: expected INT NOT NULL, found null",
            "line 3 (byte 36), field `a`: expected INT NOT NULL, found no such member",
        ]
    );
}

#[test]
fn half_read_nested_values_are_taken_back() {
    let row = DataType::Struct(
        vec![
            Field::new("x", DataType::Int32, true),
            Field::new("l", list(DataType::Utf8), true),
        ]
        .into(),
    );
    let schema = schema(&[
        ("r", list(row)),
        ("b", DataType::Boolean),
        ("t", DataType::Utf8),
    ]);
    let spec = spec(&[("format", "json"), ("on-error", "skip")], &schema);
    let input = r#"
        {"t":"1","b":true,"r":[{"x":1,"l":["a"]}]}
        {"t":"bad","b":false,"r":[{"x":1,"l":["b"]},{"l":["c","d"],"x":{}}]}
        {"t":"bad","r":[{"x":1,"l":["b", 
        {"t":"2","r":[{"l":["e"],"x":null},{"x":2,"l":[]}]}
    "#;
    let rows = decode_whole(&spec, input).unwrap();
    assert_eq!(
        all_shown(&rows),
        [
            "[{x: 1, l: [a]}]|true|1",
            "[{x: , l: [e]}, {x: 2, l: []}]|∅|2"
        ]
    );
    assert_eq!(rows.counters.bad_records, 2);
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

#[test]
fn too_long_records_are_bounded_and_do_not_end_the_rest() {
    let long = format!("{{\"b\":\"{}\"}}", "x".repeat(1_000));
    let input = format!("{{\"a\":1}}\n{long}\n{{\"a\":2}}\n");
    let options = [
        ("format", "json"),
        ("json.max-record-bytes", "100"),
        ("on-error", "dead-letter"),
    ];
    let spec = spec(&options, &ab());
    for chunk in [1, 50, 101, 5_000] {
        let rows = decode(&spec, &spec.decoder_config(), input.as_bytes(), chunk).unwrap();
        assert_eq!(all_shown(&rows), ["1|∅", "2|∅"]);
        assert_eq!(rows.dead_letters.len(), 1);
        assert_eq!(rows.dead_letters[0].record, &long.as_bytes()[..100]);
        let text = rows.dead_letters[0].error.to_string();
        assert!(
            text.contains("expected a record of at most 100 bytes"),
            "{text}"
        );
    }
}

#[test]
fn deep_nesting_is_a_bad_record() {
    let spec = spec(&[("format", "json"), ("on-error", "skip")], &ab());
    let input = format!(
        "{{\"z\":{}\n{{\"b\":{}\n{{\"a\":1}}\n",
        "[".repeat(2_000_000),
        "[{\"a\":".repeat(100_000)
    );
    let rows = decode_whole(&spec, &input).unwrap();
    assert_eq!(all_shown(&rows), ["1|∅"]);
    assert_eq!(rows.counters.bad_records, 2);
}
