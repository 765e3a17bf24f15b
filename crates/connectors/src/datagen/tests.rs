//! Options, values and positions, on whole tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{concat_batches, max, min};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float64Type, Int8Type, Int64Type, Schema,
    SchemaRef, TimeUnit, TimestampMillisecondType,
};

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

const MS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn config(
    columns: &[(&str, DataType)],
    options: &[(&str, &str)],
) -> Result<DatagenConfig, OptionError> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let options: BTreeMap<String, String> = options.iter().map(owned).collect();
    DatagenConfig::from_options(&options, schema(columns))
}

/// All rows of one split, in batches of `size`.
fn rows(
    config: &DatagenConfig,
    split: DatagenSplit,
    size: usize,
) -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let mut generator = DatagenGenerator::new(config.clone(), split)?;
    let mut batches = vec![];
    while !generator.is_finished() {
        batches.push(generator.next_batch(size)?);
    }
    Ok(concat_batches(&config.schema(), &batches)?)
}

#[test]
fn sequences_are_counted_once_over_all_splits() -> TestResult {
    let columns = [
        ("id", DataType::Int64),
        ("small", DataType::Int8),
        ("name", DataType::Utf8),
        ("price", DataType::Decimal128(10, 2)),
    ];
    let options = [
        ("fields.id.kind", "sequence"),
        ("fields.id.start", "-3"),
        ("fields.id.end", "6"),
        ("fields.small.kind", "sequence"),
        ("fields.small.start", "100"),
        ("fields.small.end", "127"),
        ("fields.name.kind", "sequence"),
        ("fields.name.start", "1"),
        ("fields.name.end", "1000"),
        ("fields.price.kind", "sequence"),
        ("fields.price.start", "5"),
        ("fields.price.end", "50"),
    ];
    let config = config(&columns, &options)?;
    assert!(config.is_bounded());
    // Ten ids over three splits: -3, 0, 3, 6 and -2, 1, 4 and -1, 2, 5.
    let expected: [&[i64]; 3] = [&[-3, 0, 3, 6], &[-2, 1, 4], &[-1, 2, 5]];
    for (split, expected) in config.make_splits(3, 0).into_iter().zip(expected) {
        let rows = rows(&config, split, 2)?;
        assert_eq!(
            rows.column(0).as_primitive::<Int64Type>().values(),
            expected
        );
        for (row, id) in expected.iter().enumerate() {
            let offset = id + 3;
            assert_eq!(
                i64::from(rows.column(1).as_primitive::<Int8Type>().value(row)),
                100 + offset
            );
            assert_eq!(
                rows.column(2).as_string::<i32>().value(row),
                (1 + offset).to_string()
            );
            let price = rows.column(3).as_primitive::<Decimal128Type>().value(row);
            assert_eq!(price, i128::from(5 + offset) * 100);
        }
    }
    Ok(())
}

#[test]
fn random_values_keep_to_their_bounds_and_fill_them() -> TestResult {
    let columns = [
        ("whole", DataType::Int8),
        ("real", DataType::Float64),
        ("money", DataType::Decimal128(5, 2)),
        ("text", DataType::Utf8),
        ("bytes", DataType::Binary),
        ("flag", DataType::Boolean),
    ];
    let options = [
        ("number-of-rows", "5000"),
        ("fields.whole.min", "-2"),
        ("fields.whole.max", "2"),
        ("fields.real.min", "-1.5"),
        ("fields.real.max", "1.5"),
        ("fields.money.min", "-0.05"),
        ("fields.money.max", "0.1"),
        ("fields.text.length", "7"),
        ("fields.bytes.length", "4"),
        ("fields.bytes.var-len", "true"),
        ("fields.flag.null-rate", "0.25"),
    ];
    let config = config(&columns, &options)?;
    let rows = rows(&config, config.make_splits(1, 0).remove(0), 1000)?;
    assert_eq!(rows.num_rows(), 5000);
    let whole: BTreeSet<i8> = rows
        .column(0)
        .as_primitive::<Int8Type>()
        .values()
        .iter()
        .copied()
        .collect();
    assert_eq!(whole.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
    let real = rows.column(1).as_primitive::<Float64Type>();
    assert!(min(real).is_some_and(|least| (-1.5..-1.4).contains(&least)));
    assert!(max(real).is_some_and(|most| (1.4..=1.5).contains(&most)));
    let money = rows.column(2).as_primitive::<Decimal128Type>();
    assert_eq!((min(money), max(money)), (Some(-5), Some(10)));
    for text in rows.column(3).as_string::<i32>().iter().flatten() {
        assert!(
            text.len() == 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{text}"
        );
    }
    let lengths: BTreeSet<usize> = rows
        .column(4)
        .as_binary::<i32>()
        .iter()
        .flatten()
        .map(<[u8]>::len)
        .collect();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    // A quarter of 5,000, give or take five standard deviations (30.6 each).
    assert!(
        (1097..=1403).contains(&rows.column(5).null_count()),
        "{}",
        rows.column(5).null_count()
    );
    Ok(())
}

#[test]
fn defaults_cover_every_scalar_type() -> TestResult {
    let zoned = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 10),
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        MS,
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        zoned(TimeUnit::Millisecond),
        zoned(TimeUnit::Microsecond),
    ];
    let names: Vec<String> = (0..types.len())
        .map(|number| format!("c.{number}"))
        .collect();
    let columns: Vec<(&str, DataType)> = names.iter().map(String::as_str).zip(types).collect();
    let config = config(
        &columns,
        &[("fields.c.4.max", "10"), ("fields.c.4.min", "1")],
    )?;
    assert!(!config.is_bounded());
    let split = config.make_splits(1, 1_700_000_000_000).remove(0);
    let batch = DatagenGenerator::new(config, split)?.next_batch(100)?;
    assert_eq!(batch.num_rows(), 100);
    assert!(
        batch
            .columns()
            .iter()
            .all(|column| column.null_count() == 0)
    );
    let texts = batch.column(8).as_string::<i32>();
    assert!(texts.iter().flatten().all(|text| text.len() == 100));
    assert!(
        batch
            .column(4)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .all(|value| (1..=10).contains(value))
    );
    Ok(())
}

#[test]
fn times_advance_at_the_table_s_rate() -> TestResult {
    let columns = [("at", MS), ("past", MS), ("day", DataType::Date32)];
    let options = [
        ("rows-per-second", "100"),
        ("number-of-rows", "200"),
        ("base-time", "2024-02-29 23:59:59"),
        ("fields.past.max-past", "1 min"),
    ];
    let config = config(&columns, &options)?;
    let rows = rows(&config, config.make_splits(2, 0).remove(1), 64)?;
    let at = rows.column(0).as_primitive::<TimestampMillisecondType>();
    let past = rows.column(1).as_primitive::<TimestampMillisecondType>();
    let day = rows.column(2).as_primitive::<Date32Type>();
    // 2024-02-29 23:59:59 UTC; the second of two splits has every other hundredth second.
    let base = 1_709_251_199_000;
    assert_eq!(rows.num_rows(), 100);
    for row in 0..100 {
        assert_eq!(at.value(row), base + 10 + 20 * row as i64);
        assert!(
            (0..=60_000).contains(&(at.value(row) - past.value(row))),
            "row {row}"
        );
        // 2024-02-29 is day 19,782; row 50 is the first after midnight.
        assert_eq!(day.value(row), 19_782 + i32::from(row >= 50), "row {row}");
    }
    let generator = DatagenGenerator::new(config.clone(), config.make_splits(2, 0).remove(1))?;
    assert_eq!(
        [0, 10, 20, 1000, 60_000].map(|elapsed| generator.due(elapsed)),
        [0, 0, 1, 50, 100]
    );
    Ok(())
}

#[test]
fn any_position_continues_with_the_same_rows() -> TestResult {
    let columns = [("n", DataType::Int64), ("text", DataType::Utf8), ("at", MS)];
    let options = [
        ("number-of-rows", "300"),
        ("fields.n.null-rate", "0.5"),
        ("fields.text.var-len", "true"),
        ("fields.at.max-past", "1 d"),
    ];
    let config = config(&columns, &options)?;
    let split = config.make_splits(2, 1_700_000_000_000).remove(1);
    let whole = rows(&config, split.clone(), 8192)?;
    assert_eq!(whole.num_rows(), 150);
    assert_eq!(rows(&config, split.clone(), 7)?, whole);
    let stored = serde_json::to_string(&DatagenSplit {
        next: 40,
        ..split.clone()
    })?;
    let restored = rows(&config, serde_json::from_str(&stored)?, 100)?;
    assert_eq!(restored, whole.slice(40, 110));
    let other = rows(
        &config,
        config.make_splits(2, 1_700_000_000_000).remove(0),
        8192,
    )?;
    assert_ne!(other.column(1), whole.column(1));
    Ok(())
}

#[test]
fn bad_options_are_refused_with_the_way_out() {
    let columns = [("id", DataType::Int8), ("name", DataType::Utf8), ("at", MS)];
    for (options, message) in [
        (
            &[("rows-per-seconds", "5")][..],
            "did you mean 'rows-per-second'?",
        ),
        (
            &[("fields.nme.length", "5")],
            "did you mean 'fields.name.length'?",
        ),
        (
            &[("fields.id.minimum", "5")],
            "did you mean 'fields.id.min'?",
        ),
        (
            &[("fields.id.min", "-200")],
            "expected a value of type TINYINT",
        ),
        (
            &[("fields.id.min", "1.5")],
            "expected a value of type TINYINT",
        ),
        (
            &[("fields.id.min", "9"), ("fields.id.max", "1")],
            "min is above max",
        ),
        (
            &[("fields.id.length", "9")],
            "it takes min, max, kind, null-rate",
        ),
        (
            &[("fields.id.kind", "counter")],
            "expected random or sequence",
        ),
        (
            &[("fields.id.kind", "sequence")],
            "a sequence needs a start and an end",
        ),
        (
            &[
                ("fields.id.kind", "sequence"),
                ("fields.id.start", "0"),
                ("fields.id.end", "128"),
            ],
            "a whole number that TINYINT can hold",
        ),
        (
            &[
                ("fields.name.kind", "sequence"),
                ("fields.name.start", "0"),
                ("fields.name.end", "9223372036854775807"),
            ],
            "at most 1000000000000000 values",
        ),
        (&[("fields.at.kind", "sequence")], "cannot count"),
        (&[("fields.at.max-past", "soon")], "a duration such as"),
        (
            &[("fields.name.length", "0")],
            "a whole number from 1 to 1000000",
        ),
        (&[("fields.name.null-rate", "1.5")], "a share from 0 to 1"),
        (
            &[("base-time", "tomorrow")],
            "'now', milliseconds since the epoch",
        ),
    ] {
        let error = config(&columns, options).map_err(|error| error.to_string());
        assert!(
            error.as_ref().is_err_and(|text| text.contains(message)),
            "{options:?}: {error:?}"
        );
    }
    let nested = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    let error = config(&[("list", nested)], &[]).map_err(|error| error.to_string());
    assert!(error.is_err_and(|text| text.contains("no values of type ARRAY<INT>")));
}

#[test]
fn wide_and_empty_tables_make_small_batches() -> TestResult {
    let wide = config(
        &[("text", DataType::Utf8)],
        &[("fields.text.length", "1000000")],
    )?;
    let split = wide.make_splits(1, 0).remove(0);
    assert_eq!(
        DatagenGenerator::new(wide, split)?
            .next_batch(usize::MAX)?
            .num_rows(),
        33
    );
    let empty = config(&[("n", DataType::Int32)], &[("number-of-rows", "0")])?;
    let split = empty.make_splits(1, 0).remove(0);
    let mut generator = DatagenGenerator::new(empty, split)?;
    assert!(generator.is_finished());
    assert_eq!(generator.next_batch(10)?.num_rows(), 0);
    Ok(())
}
