//! CSV: headers, quoting, nulls, and agreement with another reader.

use arrow::datatypes::{DataType, TimeUnit};
use proptest::prelude::*;

use crate::Position;

use super::*;

fn abc() -> SchemaRef {
    schema(&[
        ("a", DataType::Int32),
        ("b", DataType::Utf8),
        ("c", DataType::Float64),
    ])
}

fn rows(options: &[(&str, &str)], schema: &SchemaRef, input: &str) -> Vec<String> {
    let spec = spec(options, schema);
    all_shown(&decode_whole(&spec, input).unwrap())
}

#[test]
fn columns_are_found_by_the_names_in_the_header() {
    assert_eq!(
        rows(
            &[("format", "csv")],
            &abc(),
            "c,x, a ,b\n1.5,skipped,1,one\r\n2.5,,2,\"t,w\"\"o\"\n"
        ),
        ["1|one|1.5", "2|t,w\"o|2.5"]
    );
}

#[test]
fn without_a_header_columns_go_by_position() {
    assert_eq!(
        rows(
            &[
                ("format", "csv"),
                ("csv.header", "false"),
                ("csv.field-delimiter", "\\t")
            ],
            &abc(),
            "1\tone\t1.5\n2\t,\t\n"
        ),
        ["1|one|1.5", "2|,|∅"]
    );
}

#[test]
fn nulls_and_empty_strings() {
    assert_eq!(
        rows(
            &[("format", "csv")],
            &abc(),
            "a,b,c\n,,\n\"\",\"\",\"\"\n 7 , x ,  \n"
        ),
        ["∅|∅|∅", "∅||∅", "7| x |∅"]
    );
    assert_eq!(
        rows(
            &[("format", "csv"), ("csv.null-literal", "NA")],
            &abc(),
            "a,b,c\nNA,NA,NA\n1,,\n2,\"NA\",3\n"
        ),
        ["∅|∅|∅", "1||∅", "2|NA|3.0"]
    );
}

#[test]
fn line_ends_in_quotes_comments_and_blank_lines() {
    let options = [("format", "csv"), ("csv.allow-comments", "true")];
    let spec = spec(&options, &abc());
    let input = "# say \"what\na,b,c\n\n1,\"x\n#y\r\nz\",1\n# 2,no,2\n3,\"\"\"\",3";
    let decoded = decode_whole(&spec, input).unwrap();
    assert_eq!(all_shown(&decoded), ["1|x\n#y\r\nz|1.0", "3|\"|3.0"]);
    assert_eq!(decoded.batches[0].first_line, 4);
    assert_eq!(
        decoded.batches[0].end,
        Position {
            offset: input.len() as u64,
            line: 8
        }
    );
}

#[test]
fn quotes_within_unquoted_fields_are_text() {
    assert_eq!(
        rows(&[("format", "csv")], &abc(), "a,b,c\n1,5\" pipe,2\n"),
        ["1|5\" pipe|2.0"]
    );
    let options = [("format", "csv"), ("csv.disable-quote-character", "true")];
    assert_eq!(
        rows(&options, &abc(), "a,b,c\n1,\"x\"\"\",2\n"),
        ["1|\"x\"\"\"|2.0"]
    );
    let options = [
        ("format", "csv"),
        ("csv.escape-character", "\\"),
        ("csv.quote-character", "'"),
    ];
    assert_eq!(
        rows(&options, &abc(), "a,b,c\n1,'it\\'s \\\\',2\n"),
        ["1|it's \\|2.0"]
    );
}

#[test]
fn times_read_as_in_json() {
    let schema = schema(&[
        ("t", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("d", DataType::Date32),
        ("m", DataType::Decimal128(6, 2)),
        ("y", DataType::Binary),
        ("o", DataType::Boolean),
    ]);
    assert_eq!(
        rows(
            &[("format", "csv")],
            &schema,
            "t,d,m,y,o\n2013-01-01T10:00:00Z,2013-01-01,1.005,AP8=,True\n1357034400000,,-2,,false\n"
        ),
        [
            "2013-01-01T10:00:00|2013-01-01|1.01|00ff|true",
            "2013-01-01T10:00:00|∅|-2.00|∅|false"
        ]
    );
}

#[test]
fn headers_that_do_not_fit() {
    for (header, expected) in [
        (
            "a,c",
            "CSV header on line 1: no column `b`; the header has \"a\", \"c\". If the first",
        ),
        ("a,b,c,b", "column `b` is there more than once"),
        (
            "a,\"b\"x,c",
            "expected ',' or the end of the record after a closing quote",
        ),
    ] {
        let spec = spec(&[("format", "csv"), ("on-error", "skip")], &abc());
        let error = decode_whole(&spec, &format!("{header}\n1,2,3\n")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn records_that_do_not_fit() {
    for (record, expected) in [
        (
            "1,2",
            "line 2 (byte 6): expected a record of 3 fields, found 2 in \"1,2\"",
        ),
        ("1,2,3,4", "expected a record of 3 fields, found 4"),
        (
            "x,2,3",
            "line 2 (byte 6, column 1), field `a`: expected INT, found \"x\"",
        ),
        (
            "1,2,3 4",
            "(byte 6, column 5), field `c`: expected DOUBLE, found \"3 4\"",
        ),
        (
            "1,\"2\" ,3",
            "column 6): expected ',' or the end of the record after a closing quote",
        ),
        (
            "1,\"2,3\n4,5,6",
            "expected a closing quote, found the end of the input",
        ),
        ("99999999999,2,3", "found \"99999999999\""),
    ] {
        let spec = spec(&[("format", "csv")], &abc());
        let error = decode_whole(&spec, &format!("a,b,c\n{record}\n")).unwrap_err();
        assert!(
            error.to_string().contains(expected),
            "{error}\nlacks {expected}"
        );
    }
}

#[test]
fn resuming_needs_the_header() {
    let spec = spec(&[("format", "csv")], &abc());
    let mut config = spec.decoder_config();
    config.start = Position { offset: 6, line: 1 };
    let error = spec.decoder(&config).err().unwrap().to_string();
    assert!(error.contains("its header was not given"), "{error}");
    config.header = Some(b"c,b,a".to_vec());
    let rows = decode(&spec, &config, b"1,x,2\n", 3).unwrap();
    assert_eq!(all_shown(&rows), ["2|x|1.0"]);
}

proptest! {
    /// What the `csv` crate writes for any strings reads back the same.
    #[test]
    fn reads_what_another_writer_wrote(
        table in prop::collection::vec(prop::array::uniform3("[a\",#\n\r\\\\é ]{0,6}"), 1..8),
        chunk in 1usize..20,
    ) {
        let mut writer = ::csv::WriterBuilder::new()
            .quote_style(::csv::QuoteStyle::NonNumeric)
            .from_writer(Vec::new());
        for record in &table {
            writer.write_record(record).unwrap();
        }
        let bytes = writer.into_inner().unwrap();
        let strings = schema(&[
            ("a", DataType::Utf8), ("b", DataType::Utf8), ("c", DataType::Utf8),
        ]);
        let spec = spec(&[("format", "csv"), ("csv.header", "false")], &strings);
        let rows = decode(&spec, &spec.decoder_config(), &bytes, chunk).unwrap();
        let expected: Vec<String> = table.iter().map(|record| record.join("|")).collect();
        prop_assert_eq!(all_shown(&rows), expected);
    }

    /// Records that the `csv` crate finds in any text are those found here, if every record
    /// is well formed.
    #[test]
    fn agrees_with_another_reader(text in "[a\",\n]{0,30}", chunk in 1usize..8) {
        let strings = schema(&[("a", DataType::Utf8), ("b", DataType::Utf8)]);
        let spec = spec(&[("format", "csv"), ("csv.header", "false")], &strings);
        let ours = decode(&spec, &spec.decoder_config(), text.as_bytes(), chunk);
        let theirs: Vec<String> = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes())
            .records()
            .map(|record| record.unwrap().iter().collect::<Vec<_>>().join("|"))
            .collect();
        if let Ok(ours) = ours {
            // The other reader does not know null.
            let ours: Vec<String> =
                all_shown(&ours).iter().map(|row| row.replace('∅', "")).collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
