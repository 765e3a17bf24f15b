//! Files written and read back, from any row, into the same and into other schemas.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Field, Fields, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit,
};
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use proptest::prelude::*;

use crate::FormatError;

use super::*;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn file(batches: &[RecordBatch]) -> Bytes {
    let schema = batches[0].schema();
    let mut writer =
        ParquetFileWriter::new(Vec::new(), schema, ParquetCompression::default()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    Bytes::from(writer.finish().unwrap())
}

fn read(
    file: &Bytes,
    schema: &SchemaRef,
    start_row: u64,
    max_rows: usize,
) -> Result<Vec<ParquetBatch>, FormatError> {
    ParquetReader::open(file.clone(), Arc::clone(schema), start_row, max_rows)?.collect()
}

fn all_types() -> RecordBatch {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let row = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
    )]);
    let decimals = Decimal128Array::from(vec![Some(1), None, Some(-10i128.pow(37))]);
    batch(vec![
        (
            "bool",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            "i8",
            Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)])),
        ),
        (
            "i16",
            Arc::new(Int16Array::from(vec![Some(-1), None, Some(1)])),
        ),
        (
            "i64",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        ),
        (
            "f32",
            Arc::new(Float32Array::from(vec![Some(0.1), None, Some(-0.0)])),
        ),
        (
            "f64",
            Arc::new(Float64Array::from(vec![Some(0.1), None, Some(1e300)])),
        ),
        (
            "dec",
            Arc::new(decimals.with_precision_and_scale(38, 10).unwrap()),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("é"), None, Some("")])),
        ),
        (
            "b",
            Arc::new(BinaryArray::from_opt_vec(vec![
                Some(b"\xff"),
                None,
                Some(b""),
            ])),
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(1)])),
        ),
        (
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![Some(1), None, Some(0)])),
        ),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(-1),
                None,
                Some(1),
            ])),
        ),
        (
            "us",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(-1),
                None,
                Some(1),
            ])),
        ),
        (
            "ltz",
            Arc::new(
                TimestampNanosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC"),
            ),
        ),
        ("l", Arc::new(list)),
        ("r", Arc::new(row)),
    ])
}

#[test]
fn every_type_reads_back_the_same_under_every_compression() {
    let rows = all_types();
    for compression in [
        ParquetCompression::None,
        ParquetCompression::Snappy,
        ParquetCompression::Zstd,
        ParquetCompression::Lz4,
    ] {
        let mut writer = ParquetFileWriter::new(Vec::new(), rows.schema(), compression).unwrap();
        writer.write(&rows).unwrap();
        assert!(writer.bytes_so_far() > 0);
        assert_eq!(writer.rows(), 3);
        let file = Bytes::from(writer.finish().unwrap());
        let back = read(&file, &rows.schema(), 0, 100).unwrap();
        assert_eq!(back.len(), 1);
        assert_eq!(back[0].batch, rows, "{compression:?}");
    }
}

#[test]
fn reading_starts_at_any_row() {
    let numbers = |range: std::ops::Range<i32>| {
        batch(vec![("n", Arc::new(Int32Array::from_iter_values(range)))])
    };
    let mut writer =
        ParquetFileWriter::new(Vec::new(), numbers(0..1).schema(), ParquetCompression::None)
            .unwrap();
    let mut bytes = Vec::new();
    for range in [0..7, 7..8, 8..20] {
        writer.write(&numbers(range)).unwrap();
        // Handing out what is written must leave the file the same.
        bytes.extend(writer.drain().unwrap());
    }
    bytes.extend(writer.finish().unwrap());
    let file = Bytes::from(bytes);
    for start in 0..=20u64 {
        let batches = read(&file, &numbers(0..1).schema(), start, 6).unwrap();
        let mut row = start;
        for ParquetBatch { batch, end_row } in &batches {
            assert!((1..=6).contains(&batch.num_rows()));
            for index in 0..batch.num_rows() {
                let shown = array_value_to_string(batch.column(0), index).unwrap();
                assert_eq!(shown, row.to_string());
                row += 1;
            }
            assert_eq!(row, *end_row);
        }
        assert_eq!(row, 20);
    }
    let error = read(&file, &numbers(0..1).schema(), 21, 6).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Parquet: cannot resume at row 21 of a file of 20 rows"
    );
}

#[test]
fn row_groups_before_the_start_are_left_out() {
    let rows = 300 * 1024;
    let numbers = batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..rows)))]);
    let file = file(std::slice::from_ref(&numbers));
    let batches = read(&file, &numbers.schema(), 290_000, 8192).unwrap();
    let first = array_value_to_string(batches[0].batch.column(0), 0).unwrap();
    assert_eq!(first, "290000");
    assert_eq!(batches.last().unwrap().end_row, rows as u64);
    let sum: usize = batches.iter().map(|batch| batch.batch.num_rows()).sum();
    assert_eq!(sum as i64, rows - 290_000);
}

/// Reads column `v` of a file with `array` as another type.
fn convert(array: ArrayRef, wanted: Field) -> Result<Vec<String>, String> {
    let file = file(&[batch(vec![("v", array)])]);
    let schema: SchemaRef = Arc::new(Schema::new(vec![wanted.with_name("v")]));
    let batches = read(&file, &schema, 0, 100).map_err(|error| error.to_string())?;
    let column = batches[0].batch.column(0);
    assert_eq!(column.data_type(), schema.field(0).data_type());
    Ok((0..column.len())
        .map(|row| array_value_to_string(column, row).unwrap())
        .collect())
}

fn nullable(data_type: DataType) -> Field {
    Field::new("v", data_type, true)
}

#[test]
fn other_types_are_converted_where_no_value_changes() {
    let micros = || Arc::new(TimestampMicrosecondArray::from(vec![1_000, -2_000])) as ArrayRef;
    let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
    let ltz = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let cases: Vec<(ArrayRef, DataType, [&str; 2])> = vec![
        (
            Arc::new(Int32Array::from(vec![1, -1])),
            DataType::Int64,
            ["1", "-1"],
        ),
        (
            Arc::new(Int64Array::from(vec![127, -128])),
            DataType::Int8,
            ["127", "-128"],
        ),
        (
            Arc::new(Int32Array::from(vec![1, -1])),
            DataType::Float64,
            ["1.0", "-1.0"],
        ),
        (
            Arc::new(Int32Array::from(vec![1, -1])),
            DataType::Decimal128(12, 2),
            ["1.00", "-1.00"],
        ),
        (
            Arc::new(Float32Array::from(vec![0.5, 2.0])),
            DataType::Float64,
            ["0.5", "2.0"],
        ),
        (
            Arc::new(LargeStringArray::from(vec!["a", "b"])),
            DataType::Utf8,
            ["a", "b"],
        ),
        (
            Arc::new(BinaryArray::from(vec![&b"a"[..], b"b"])),
            DataType::Utf8,
            ["a", "b"],
        ),
        (
            micros(),
            millis,
            ["1970-01-01T00:00:00.001", "1969-12-31T23:59:59.998"],
        ),
        (
            micros(),
            ltz,
            ["1970-01-01T00:00:00.001Z", "1969-12-31T23:59:59.998Z"],
        ),
        (
            Arc::new(
                Decimal128Array::from(vec![150, -5])
                    .with_precision_and_scale(5, 1)
                    .unwrap(),
            ),
            DataType::Decimal128(10, 3),
            ["15.000", "-0.500"],
        ),
    ];
    for (array, wanted, expected) in cases {
        let label = format!("{} to {wanted}", array.data_type());
        assert_eq!(
            convert(array, nullable(wanted)).as_deref(),
            Ok(&expected.map(String::from)[..]),
            "{label}"
        );
    }
}

#[test]
fn conversions_that_could_change_values_are_refused() {
    let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
    let cases: Vec<(ArrayRef, Field, &str)> = vec![
        (
            Arc::new(Int64Array::from(vec![1, 300])),
            nullable(DataType::Int8),
            "Parquet column `v` is BIGINT in the file, the table wants TINYINT:",
        ),
        (
            Arc::new(Float64Array::from(vec![0.5])),
            nullable(DataType::Int64),
            "Parquet column `v` is DOUBLE in the file, the table wants BIGINT: this conversion \
             could change values; declare the column as the file has it and CAST it in the query",
        ),
        (
            Arc::new(Int64Array::from(vec![1])),
            nullable(DataType::Utf8),
            "wants STRING: this",
        ),
        (
            Arc::new(Float64Array::from(vec![0.5])),
            nullable(DataType::Float32),
            "wants FLOAT: this",
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1_000, 1_001])),
            nullable(millis),
            "is TIMESTAMP(6) in the file, the table wants TIMESTAMP(3): the value of row 1",
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX])),
            nullable(DataType::Timestamp(TimeUnit::Nanosecond, None)),
            "the value of row 0",
        ),
        (
            Arc::new(
                Decimal128Array::from(vec![99_999])
                    .with_precision_and_scale(5, 0)
                    .unwrap(),
            ),
            nullable(DataType::Decimal128(5, 2)),
            "is DECIMAL(5, 0) in the file, the table wants DECIMAL(5, 2):",
        ),
        (
            Arc::new(Int32Array::from(vec![Some(1), None])),
            Field::new("v", DataType::Int32, false),
            "the table wants INT NOT NULL: row 1 (counted from 0) is null",
        ),
        (
            Arc::new(BinaryArray::from(vec![&b"\xff"[..]])),
            nullable(DataType::Utf8),
            "is BYTES in the file, the table wants STRING",
        ),
    ];
    for (array, wanted, expected) in cases {
        let error = convert(array, wanted).unwrap_err();
        assert!(error.contains(expected), "{error}\nlacks {expected}");
    }
}

#[test]
fn columns_are_found_by_name_and_missing_ones_are_null() {
    let rows = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec!["x", "y"]))),
        ("c", Arc::new(Int32Array::from(vec![5, 6]))),
    ]);
    let file = file(&[rows]);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("c", DataType::Int64, false),
        Field::new("none", DataType::Utf8, true),
        Field::new("a", DataType::Int32, true),
    ]));
    let back = read(&file, &schema, 1, 10).unwrap();
    assert_eq!(back[0].batch.num_rows(), 1);
    let shown: Vec<String> = back[0]
        .batch
        .columns()
        .iter()
        .map(|column| array_value_to_string(column, 0).unwrap())
        .collect();
    assert_eq!(shown, ["6", "", "2"]);

    let strict: SchemaRef = Arc::new(Schema::new(vec![Field::new("none", DataType::Utf8, false)]));
    let error = read(&file, &strict, 0, 10).unwrap_err().to_string();
    assert_eq!(
        error,
        "Parquet column `none` is absent in the file, the table wants STRING NOT NULL: \
         the file has a, b, c"
    );
    // A table without columns of the file still has its rows.
    let empty: SchemaRef = Arc::new(Schema::empty());
    let rows: usize = read(&file, &empty, 0, 10)
        .unwrap()
        .iter()
        .map(|b| b.batch.num_rows())
        .sum();
    assert_eq!(rows, 2);
}

#[test]
fn nested_fields_are_matched_and_converted() {
    let row = StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("y", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["p", "q"])) as ArrayRef,
        ),
    ]);
    let wanted = DataType::Struct(Fields::from(vec![
        Field::new("y", DataType::Utf8, true),
        Field::new("x", DataType::Int64, true),
        Field::new("z", DataType::Boolean, true),
    ]));
    assert_eq!(
        convert(Arc::new(row), nullable(wanted)).unwrap(),
        ["{y: p, x: 1, z: }", "{y: q, x: , z: }"]
    );
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let wanted = DataType::List(Arc::new(Field::new("element", DataType::Int32, true)));
    assert_eq!(
        convert(Arc::new(list), nullable(wanted)).unwrap(),
        ["[1, ]", ""]
    );
}

#[test]
fn what_is_no_parquet_file_is_an_error() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
    let good = file(&[batch(vec![("a", Arc::new(Int32Array::from(vec![1])))])]);
    for bytes in [
        Bytes::new(),
        Bytes::from_static(b"not parquet, but long enough"),
        good.slice(..good.len() - 3),
        good.slice(20..),
    ] {
        let error = read(&bytes, &schema, 0, 10).unwrap_err().to_string();
        assert!(error.starts_with("Parquet: cannot"), "{error}");
    }
}

proptest! {
    /// Damage anywhere in a file is an error or goes unnoticed, never a panic.
    #[test]
    fn damaged_files_do_not_panic(place in 0usize..2_000, byte in any::<u8>(), length in 1usize..8) {
        static FILE: std::sync::LazyLock<Bytes> = std::sync::LazyLock::new(|| file(&[all_types()]));
        let mut damaged = FILE.to_vec();
        let place = place % damaged.len();
        let end = (place + length).min(damaged.len());
        damaged[place..end].fill(byte);
        let _ = read(&Bytes::from(damaged), &all_types().schema(), 0, 10);
    }
}
