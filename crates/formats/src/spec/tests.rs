//! Options that are refused, and what the rest of the system asks of a specification.

use std::sync::Arc;

use arrow::datatypes::{Field, Fields, Schema};

use super::*;

fn table(data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("v", data_type, true)]))
}

fn from(options: &[(&str, &str)], schema: &SchemaRef) -> Result<FormatSpec, FormatError> {
    let options = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    FormatSpec::from_options(&options, schema)
}

#[test]
fn bad_options_are_refused_naming_what_is_valid() {
    let schema = table(DataType::Utf8);
    for (options, expected) in [
        (
            &[][..],
            "option 'format' is missing; give one of 'json', 'csv'",
        ),
        (
            &[("format", "jsn")],
            "unknown format 'jsn'; did you mean 'json'? Valid are 'json', 'csv'",
        ),
        (
            &[("format", "avro")],
            "unknown format 'avro'; valid are 'json'",
        ),
        (
            &[("format", "json"), ("json.timestamp-format", "SQL")],
            "unknown option 'json.timestamp-format' of format 'json'; did you mean \
             'json.timestamp-format.standard'?",
        ),
        (
            &[("format", "csv"), ("csv.delimiter", ";")],
            "unknown option 'csv.delimiter' of format 'csv'; did you mean 'csv.field-delimiter'?",
        ),
        (
            &[("format", "csv"), ("csv.trailing-whitespace", "x")],
            "unknown option 'csv.trailing-whitespace' of format 'csv'; valid are 'csv.header',",
        ),
        (
            &[("format", "json"), ("csv.header", "true")],
            "unknown option 'csv.header' of format 'json'; it belongs to format 'csv'",
        ),
        (
            &[
                ("format", "json"),
                ("json.timestamp-format.standard", "unix"),
            ],
            "option 'json.timestamp-format.standard' = 'unix': expected one of 'SQL', 'ISO-8601'",
        ),
        (
            &[("format", "json"), ("json.fail-on-missing-field", "yes")],
            "'json.fail-on-missing-field' = 'yes': expected 'true' or 'false'",
        ),
        (
            &[("format", "json"), ("json.ignore-parse-errors", "true")],
            "expected 'on-error' = 'skip' or 'dead-letter' instead",
        ),
        (
            &[
                ("format", "json"),
                ("json.encode.decimal-as-plain-number", "false"),
            ],
            "expected 'true'",
        ),
        (
            &[("format", "json"), ("json.max-record-bytes", "0")],
            "expected a whole number from 1 to 1073741824",
        ),
        (
            &[("format", "json"), ("on-error", "ignore")],
            "expected one of 'fail', 'skip', 'dead-letter'",
        ),
        (
            &[("format", "csv"), ("csv.field-delimiter", "||")],
            "expected one ASCII character",
        ),
        (
            &[("format", "csv"), ("csv.field-delimiter", "é")],
            "expected one ASCII character",
        ),
        (
            &[("format", "csv"), ("csv.field-delimiter", "\"")],
            "expected a character that is not",
        ),
        (
            &[("format", "csv"), ("csv.escape-character", "\"")],
            "expected a character that is not",
        ),
        (
            &[("format", "csv"), ("csv.null-literal", "a,b")],
            "expected text without the delimiter",
        ),
        (
            &[
                ("format", "csv"),
                ("csv.null-literal", "#"),
                ("csv.allow-comments", "true"),
            ],
            "expected text that does not begin with '#'",
        ),
        (
            &[
                ("format", "csv"),
                ("csv.disable-quote-character", "true"),
                ("csv.quote-character", "'"),
            ],
            "expected no such option beside 'csv.disable-quote-character' = 'true'",
        ),
        (
            &[("format", "parquet"), ("parquet.compression", "gzip")],
            "one of 'snappy', 'zstd'",
        ),
    ] {
        let error = from(options, &schema).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
}

#[test]
fn options_of_the_connector_are_left_alone() {
    let options = [
        ("format", "json"),
        ("connector", "filesystem"),
        ("path", "/x"),
        ("sink.x", "y"),
    ];
    assert!(from(&options, &table(DataType::Utf8)).is_ok());
    for (key, owned) in [
        ("format", true),
        ("on-error", true),
        ("json.anything", true),
        ("debezium-json.x", true),
        ("parquet.compression", true),
        ("connector", false),
        ("jsonpath", false),
        ("path", false),
    ] {
        assert_eq!(FormatSpec::owns_option(key), owned, "{key}");
    }
}

#[test]
fn columns_that_a_format_cannot_hold() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    let row = DataType::Struct(Fields::from(vec![Field::new("x", DataType::UInt8, true)]));
    let paris = DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Paris".into()));
    for (format, data_type, expected) in [
        (
            "csv",
            list.clone(),
            "format 'csv' cannot hold column `v` of type ARRAY<INT>; CSV has no",
        ),
        (
            "json",
            row.clone(),
            "format 'json' cannot hold column `v.x` of type UInt8",
        ),
        (
            "json",
            paris,
            "cannot hold column `v` of type TIMESTAMP_LTZ(3)",
        ),
        (
            "raw",
            DataType::Int32,
            "declare one column of type STRING or BYTES",
        ),
        (
            "parquet",
            DataType::Timestamp(TimeUnit::Second, None),
            "cannot hold column `v` of type TIMESTAMP(0); declare it with precision 3, 6 or 9",
        ),
    ] {
        let error = from(&[("format", format)], &table(data_type))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
    let two = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Utf8, true),
        Field::new("b", DataType::Utf8, true),
    ]));
    let error = from(&[("format", "raw")], &two).unwrap_err().to_string();
    assert!(error.contains("exactly one physical column"), "{error}");
}

#[test]
fn what_each_format_can_do() {
    let schema = table(DataType::Utf8);
    for (format, columnar, changelog, header, decoder, encoder, extension) in [
        ("json", false, false, false, true, true, "json"),
        ("csv", false, false, true, true, true, "csv"),
        ("raw", false, false, false, true, true, "txt"),
        ("debezium-json", false, true, false, false, true, "json"),
        ("parquet", true, false, false, false, false, "parquet"),
    ] {
        let spec = from(&[("format", format)], &schema).unwrap();
        assert_eq!(spec.kind().name(), format);
        assert_eq!(spec.is_columnar_file(), columnar, "{format}");
        assert_eq!(spec.accepts_changelog(), changelog, "{format}");
        assert_eq!(spec.has_header(), header, "{format}");
        assert_eq!(
            spec.decoder(&spec.decoder_config()).is_ok(),
            decoder,
            "{format}"
        );
        assert_eq!(spec.encoder().is_ok(), encoder, "{format}");
        assert_eq!(spec.file_extension(), extension, "{format}");
        assert_eq!(spec.parquet_compression().is_some(), columnar, "{format}");
    }
}

#[test]
fn options_reach_the_decoder() {
    let options = [
        ("format", "csv"),
        ("on-error", "dead-letter"),
        ("csv.max-record-bytes", "123"),
        ("csv.header", "FALSE"),
    ];
    let spec = from(&options, &table(DataType::Utf8)).unwrap();
    let config = spec.decoder_config();
    assert_eq!(config.max_record_bytes, 123);
    assert_eq!(config.on_error, OnError::DeadLetter);
    assert!(!spec.has_header());
}
