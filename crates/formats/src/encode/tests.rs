//! Tests of the encoders, and that what they write reads back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
    Time32MillisecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use proptest::prelude::*;

use millrace_dataflow::RowKind;

use crate::{DecodedRows, FormatError, FormatSpec};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn spec(options: &[(&str, &str)], batch: &RecordBatch) -> FormatSpec {
    let options: BTreeMap<String, String> = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    FormatSpec::from_options(&options, &batch.schema()).unwrap()
}

fn encode(
    options: &[(&str, &str)],
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
) -> Result<String, FormatError> {
    let mut encoder = spec(options, batch).encoder()?;
    let mut out = Vec::new();
    encoder.begin(&mut out);
    encoder.encode(batch, kinds, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn json(batch: &RecordBatch) -> String {
    encode(&[("format", "json")], batch, None).unwrap()
}

fn csv(batch: &RecordBatch) -> String {
    encode(&[("format", "csv")], batch, None).unwrap()
}

fn decoded(options: &[(&str, &str)], batch: &RecordBatch, text: &[u8]) -> RecordBatch {
    let spec = spec(options, batch);
    let mut decoder = spec.decoder(&spec.decoder_config()).unwrap();
    let mut out = DecodedRows::default();
    decoder.decode(text, true, &mut out).unwrap();
    assert_eq!(out.batches.len(), 1);
    out.batches.remove(0).batch
}

/// A column of each scalar type, a null in the last row of each.
fn scalars() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(1_230), Some(-5), None]);
    batch(vec![
        (
            "bool",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        (
            "tiny",
            Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None])),
        ),
        (
            "int",
            Arc::new(Int32Array::from(vec![Some(0), Some(-7), None])),
        ),
        (
            "big",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None])),
        ),
        (
            "f",
            Arc::new(Float32Array::from(vec![
                Some(0.1),
                Some(f32::INFINITY),
                None,
            ])),
        ),
        (
            "d",
            Arc::new(Float64Array::from(vec![Some(1.0), Some(f64::NAN), None])),
        ),
        (
            "dec",
            Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a,\"b\"\n"), Some(""), None])),
        ),
        (
            "b",
            Arc::new(BinaryArray::from_opt_vec(vec![
                Some(b"\x00\xff"),
                Some(b""),
                None,
            ])),
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(18_626), Some(-1), None])),
        ),
        (
            "t",
            Arc::new(Time32MillisecondArray::from(vec![
                Some(43_994_120),
                Some(0),
                None,
            ])),
        ),
        (
            "tn",
            Arc::new(Time64NanosecondArray::from(vec![Some(1), Some(0), None])),
        ),
        (
            "ts",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(1_609_330_394_000),
                Some(-1),
                None,
            ])),
        ),
        (
            "us",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(1),
                Some(0),
                None,
            ])),
        ),
        (
            "ltz",
            Arc::new(
                TimestampNanosecondArray::from(vec![Some(1), Some(0), None]).with_timezone("UTC"),
            ),
        ),
    ])
}

#[test]
fn json_of_every_scalar() {
    assert_eq!(
        json(&scalars()),
        concat!(
            r#"{"bool":true,"tiny":-128,"int":0,"big":-9223372036854775808,"f":0.1,"d":1.0,"#,
            r#""dec":12.30,"s":"a,\"b\"\n","b":"AP8=","day":"2020-12-30","t":"12:13:14.120","#,
            r#""tn":"00:00:00.000000001","ts":"2020-12-30 12:13:14.000","#,
            r#""us":"1970-01-01 00:00:00.000001","ltz":"1970-01-01 00:00:00.000000001Z"}"#,
            "\n",
            r#"{"bool":false,"tiny":127,"int":-7,"big":9223372036854775807,"f":"Infinity","#,
            r#""d":"NaN","dec":-0.05,"s":"","b":"","day":"1969-12-31","t":"00:00:00","#,
            r#""tn":"00:00:00","ts":"1969-12-31 23:59:59.999","us":"1970-01-01 00:00:00.000000","#,
            r#""ltz":"1970-01-01 00:00:00.000000000Z"}"#,
            "\n",
            r#"{"bool":null,"tiny":null,"int":null,"big":null,"f":null,"d":null,"dec":null,"#,
            r#""s":null,"b":null,"day":null,"t":null,"tn":null,"ts":null,"us":null,"ltz":null}"#,
            "\n",
        )
    );
}

#[test]
fn csv_of_every_scalar() {
    assert_eq!(
        csv(&scalars()),
        concat!(
            "bool,tiny,int,big,f,d,dec,s,b,day,t,tn,ts,us,ltz\n",
            "true,-128,0,-9223372036854775808,0.1,1.0,12.30,\"a,\"\"b\"\"\n\",AP8=,2020-12-30,",
            "12:13:14.120,00:00:00.000000001,2020-12-30 12:13:14.000,1970-01-01 00:00:00.000001,",
            "1970-01-01 00:00:00.000000001Z\n",
            "false,127,-7,9223372036854775807,Infinity,NaN,-0.05,\"\",\"\",1969-12-31,00:00:00,",
            "00:00:00,1969-12-31 23:59:59.999,1970-01-01 00:00:00.000000,",
            "1970-01-01 00:00:00.000000000Z\n",
            ",,,,,,,,,,,,,,\n",
        )
    );
}

#[test]
fn scalars_read_back_the_same_from_every_format() {
    let batch = scalars();
    for options in [
        &[("format", "json")][..],
        &[
            ("format", "json"),
            ("json.timestamp-format.standard", "ISO-8601"),
        ],
        &[
            ("format", "json"),
            ("json.encode.ignore-null-fields", "true"),
        ],
        &[("format", "csv")],
        &[
            ("format", "csv"),
            ("csv.null-literal", "NULL"),
            ("csv.field-delimiter", "|"),
        ],
        // Delimiters that occur in numbers and times.
        &[
            ("format", "csv"),
            ("csv.field-delimiter", "-"),
            ("csv.quote-character", "0"),
        ],
        &[
            ("format", "csv"),
            ("csv.escape-character", "\\"),
            ("csv.header", "false"),
        ],
    ] {
        let text = encode(options, &batch, None).unwrap();
        let back = decoded(options, &batch, text.as_bytes());
        // NaN is not equal to itself; as text it is.
        assert_eq!(json(&back), json(&batch), "{options:?}\n{text}");
    }
}

fn nested() -> RecordBatch {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![]),
        None,
    ]);
    let fields = Fields::from(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("quo\"te", DataType::Utf8, true),
    ]);
    let row = StructArray::new(
        fields,
        vec![
            Arc::new(Int32Array::from(vec![Some(1), None, Some(9)])),
            Arc::new(StringArray::from(vec![Some("x"), None, Some("y")])),
        ],
        Some(NullBuffer::from(vec![true, true, false])),
    );
    let entry_fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Float64, true),
    ]);
    let entries = StructArray::new(
        entry_fields.clone(),
        vec![
            Arc::new(StringArray::from(vec!["a", "\n"])),
            Arc::new(Float64Array::from(vec![Some(0.5), None])),
        ],
        None,
    );
    let map = MapArray::new(
        Arc::new(Field::new("entries", DataType::Struct(entry_fields), false)),
        OffsetBuffer::new(vec![0, 2, 2, 2].into()),
        entries,
        Some(NullBuffer::from(vec![true, true, false])),
        false,
    );
    batch(vec![
        ("l", Arc::new(list)),
        ("r", Arc::new(row)),
        ("m", Arc::new(map)),
    ])
}

#[test]
fn json_of_nested_values() {
    assert_eq!(
        json(&nested()),
        concat!(
            r#"{"l":[1,null],"r":{"n":1,"quo\"te":"x"},"m":{"a":0.5,"\n":null}}"#,
            "\n",
            r#"{"l":[],"r":{"n":null,"quo\"te":null},"m":{}}"#,
            "\n",
            r#"{"l":null,"r":null,"m":null}"#,
            "\n",
        )
    );
    let back = decoded(&[("format", "json")], &nested(), json(&nested()).as_bytes());
    assert_eq!(back, nested());
    // A part of a batch starts at its own first row.
    assert_eq!(
        json(&nested().slice(1, 1)),
        "{\"l\":[],\"r\":{\"n\":null,\"quo\\\"te\":null},\"m\":{}}\n"
    );
}

#[test]
fn iso_style_and_left_out_nulls() {
    let batch = batch(vec![
        (
            "t",
            Arc::new(TimestampMillisecondArray::from(vec![Some(5), None])),
        ),
        ("n", Arc::new(Int32Array::from(vec![None, Some(1)]))),
    ]);
    let options = [
        ("format", "json"),
        ("json.timestamp-format.standard", "ISO-8601"),
        ("json.encode.ignore-null-fields", "true"),
    ];
    assert_eq!(
        encode(&options, &batch, None).unwrap(),
        "{\"t\":\"1970-01-01T00:00:00.005\"}\n{\"n\":1}\n"
    );
}

#[test]
fn strings_are_escaped_as_json_asks() {
    let all: String = (0u32..0x250)
        .filter_map(char::from_u32)
        .chain("😀\u{ffff}".chars())
        .collect();
    let batch = batch(vec![("s", Arc::new(StringArray::from(vec![all.as_str()])))]);
    let text = json(&batch);
    assert!(
        text.starts_with(
            r#"{"s":"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r"#
        )
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["s"].as_str(), Some(all.as_str()));
}

#[test]
fn debezium_says_what_each_row_does() {
    let batch = batch(vec![("n", Arc::new(Int32Array::from(vec![1, 2, 3, 4])))]);
    let kinds = [
        RowKind::Insert,
        RowKind::UpdateBefore,
        RowKind::UpdateAfter,
        RowKind::Delete,
    ];
    assert_eq!(
        encode(&[("format", "debezium-json")], &batch, Some(&kinds)).unwrap(),
        concat!(
            "{\"before\":null,\"after\":{\"n\":1},\"op\":\"c\"}\n",
            "{\"before\":{\"n\":2},\"after\":null,\"op\":\"d\"}\n",
            "{\"before\":null,\"after\":{\"n\":3},\"op\":\"c\"}\n",
            "{\"before\":{\"n\":4},\"after\":null,\"op\":\"d\"}\n",
        )
    );
    assert_eq!(
        encode(&[("format", "debezium-json")], &batch.slice(0, 1), None).unwrap(),
        "{\"before\":null,\"after\":{\"n\":1},\"op\":\"c\"}\n"
    );
}

#[test]
fn insert_only_formats_refuse_other_kinds() {
    let batch = batch(vec![("s", Arc::new(StringArray::from(vec!["a", "b"])))]);
    for format in ["json", "csv", "raw"] {
        let options = [("format", format)];
        let insert = [RowKind::Insert; 2];
        assert!(encode(&options, &batch, Some(&insert)).is_ok());
        let delete = [RowKind::Insert, RowKind::Delete];
        let error = encode(&options, &batch, Some(&delete))
            .unwrap_err()
            .to_string();
        assert!(error.contains("row 1 of the batch is -D"), "{error}");
        let error = encode(&options, &batch, Some(&insert[..1])).unwrap_err();
        assert!(matches!(
            error,
            FormatError::KindCount { rows: 2, kinds: 1 }
        ));
    }
}

#[test]
fn batches_of_another_schema_are_refused() {
    let made_for = batch(vec![("a", Arc::new(Int32Array::from(vec![1])))]);
    let other = batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]);
    let wider = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("b", Arc::new(Int32Array::from(vec![1]))),
    ]);
    let mut encoder = spec(&[("format", "json")], &made_for).encoder().unwrap();
    let mut out = Vec::new();
    for (batch, expected) in [
        (
            &other,
            "column 0 of the batch to write is `a` BIGINT, the table says `a` INT",
        ),
        (
            &wider,
            "column 1 of the batch to write is `b` INT, the table says no such column",
        ),
        (
            &wider.project(&[]).unwrap(),
            "column 0 of the batch to write is missing",
        ),
    ] {
        let error = encoder
            .encode(batch, None, &mut out)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(out.is_empty());
}

#[test]
fn csv_quotes_what_would_read_as_something_else() {
    let batch = batch(vec![
        (
            "#a",
            Arc::new(StringArray::from(vec![
                Some("#x"),
                Some("NA"),
                None,
                Some("\u{feff}"),
                Some(" "),
            ])) as ArrayRef,
        ),
        (
            "b,c",
            Arc::new(StringArray::from(vec![
                Some("#x"),
                Some("\r"),
                Some(""),
                None,
                None,
            ])),
        ),
    ]);
    let options = [
        ("format", "csv"),
        ("csv.null-literal", "NA"),
        ("csv.allow-comments", "true"),
    ];
    let text = encode(&options, &batch, None).unwrap();
    assert_eq!(
        text,
        "\"#a\",\"b,c\"\n\"#x\",#x\n\"NA\",\"\r\"\nNA,\"\"\n\"\u{feff}\",NA\n ,NA\n"
    );
    assert_eq!(decoded(&options, &batch, text.as_bytes()), batch);
}

#[test]
fn csv_without_quotes_refuses_what_needs_them() {
    let options = [("format", "csv"), ("csv.disable-quote-character", "true")];
    for (text, fits) in [
        ("a \"b\"", true),
        ("", true),
        ("a,b", false),
        ("a\nb", false),
    ] {
        let batch = batch(vec![("s", Arc::new(StringArray::from(vec![text])))]);
        match encode(&options, &batch, None) {
            Ok(_) => assert!(fits, "{text}"),
            Err(error) => {
                assert!(!fits, "{text}");
                assert!(error.to_string().contains("row 0, column `s`"), "{error}");
            }
        }
    }
}

#[test]
fn a_single_null_is_not_a_blank_line() {
    let batch = batch(vec![("n", Arc::new(Int32Array::from(vec![Some(1), None])))]);
    assert_eq!(csv(&batch), "n\n1\n\"\"\n");
    assert_eq!(
        decoded(&[("format", "csv")], &batch, csv(&batch).as_bytes()),
        batch
    );
}

#[test]
fn raw_writes_values_as_lines() {
    let lines = batch(vec![(
        "s",
        Arc::new(StringArray::from(vec![Some("a,b"), None, Some("é")])),
    )]);
    assert_eq!(
        encode(&[("format", "raw")], &lines, None).unwrap(),
        "a,b\n\né\n"
    );
    let cut = batch(vec![("s", Arc::new(StringArray::from(vec!["a\nb"])))]);
    let error = encode(&[("format", "raw")], &cut, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the value has a line end"), "{error}");
}

/// Any batch of four columns.
fn any_batch() -> impl Strategy<Value = RecordBatch> {
    let value = (
        prop::option::of(any::<String>()),
        prop::option::of(any::<f64>()),
        prop::option::of(any::<i64>()),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..6)),
        prop::option::of(-10i128.pow(38) + 1..10i128.pow(38)),
    );
    prop::collection::vec(value, 1..10).prop_map(|rows| {
        let strings: Vec<_> = rows.iter().map(|row| row.0.as_deref()).collect();
        let floats: Vec<_> = rows.iter().map(|row| row.1).collect();
        let integers: Vec<_> = rows.iter().map(|row| row.2).collect();
        let bytes: Vec<_> = rows.iter().map(|row| row.3.as_deref()).collect();
        let decimals: Decimal128Array = rows.iter().map(|row| row.4).collect();
        batch(vec![
            ("s", Arc::new(StringArray::from(strings))),
            ("f", Arc::new(Float64Array::from(floats))),
            ("i", Arc::new(Int64Array::from(integers.clone()))),
            (
                "t",
                Arc::new(TimestampMicrosecondArray::from(integers).with_timezone("UTC")),
            ),
            ("b", Arc::new(BinaryArray::from_opt_vec(bytes))),
            (
                "d",
                Arc::new(decimals.with_precision_and_scale(38, 10).unwrap()),
            ),
        ])
    })
}

proptest! {
    #[test]
    fn any_rows_read_back_the_same(batch in any_batch()) {
        for options in [
            &[("format", "json")][..],
            &[("format", "csv")],
            &[("format", "csv"), ("csv.header", "false"), ("csv.null-literal", "a")],
        ] {
            let text = encode(options, &batch, None).unwrap();
            let back = decoded(options, &batch, text.as_bytes());
            prop_assert_eq!(&back, &batch, "{:?}\n{}", options, text);
        }
    }

    /// What is written is JSON to another reader, with the same strings and numbers.
    #[test]
    fn another_reader_reads_the_same(batch in any_batch()) {
        let text = json(&batch);
        let strings = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
        let floats = batch.column(1).as_any().downcast_ref::<Float64Array>().unwrap();
        for ((line, string), float) in text.lines().zip(strings).zip(floats) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            prop_assert_eq!(value["s"].as_str(), string);
            // serde_json may miss a double by its last bit; the standard library does not.
            let number = line.split_once(",\"f\":").unwrap().1.split_once(',').unwrap().0;
            prop_assert_eq!(number.parse().ok().map(f64::to_bits), float.map(f64::to_bits));
        }
    }
}

/// The schema is only compared by type: names of list items differ between writers.
#[test]
fn names_of_list_items_do_not_matter() {
    let item = Arc::new(Field::new("element", DataType::Int32, true));
    let fields = vec![Field::new("l", DataType::List(item), true)];
    let schema = Arc::new(Schema::new(fields));
    let options = BTreeMap::from([("format".to_owned(), "json".to_owned())]);
    let mut encoder = FormatSpec::from_options(&options, &schema)
        .unwrap()
        .encoder()
        .unwrap();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let batch = batch(vec![("l", Arc::new(list))]);
    let mut out = Vec::new();
    encoder.encode(&batch, None, &mut out).unwrap();
    assert_eq!(out, b"{\"l\":[1]}\n");
}
