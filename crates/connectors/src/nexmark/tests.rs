//! Whole batches: against a sample of the reference, across restores, with pruning.

use std::collections::BTreeMap;
use std::io::Read;

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMillisecondType};
use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::*;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// What the public generator emits with seeded random sources: 100,000 events at 100,000/s in
/// two splits, of which these are the first 400 events of one and the first 100 of the other.
const SAMPLE: &[u8] = include_bytes!("../../testdata/nexmark-sample.ndjson.gz");
const SAMPLE_OF_FIRST_SPLIT: usize = 400;

fn sample_config() -> NexmarkConfig {
    NexmarkConfig {
        first_event_rate: 100_000,
        events_num: Some(100_000),
        base_time: BaseTime::At(1_700_000_000_000),
        seed: 42,
        splits: Some(2),
        ..NexmarkConfig::default()
    }
}

fn generator(config: &NexmarkConfig, split: usize) -> Result<NexmarkGenerator, NexmarkError> {
    let split = config.make_splits(1, 0).remove(split);
    NexmarkGenerator::new(config, split, NexmarkProjection::all())
}

/// The sample's name for a field.
fn sample_name(kind: &str, field: &str) -> String {
    match (kind, field) {
        (_, "dateTime") => "ts",
        ("person", "emailAddress") => "email",
        ("person", "creditCard") => "cc",
        (_, field) => field,
    }
    .to_owned()
}

fn value(column: &dyn Array, row: usize) -> Value {
    match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        _ => column
            .as_primitive::<TimestampMillisecondType>()
            .value(row)
            .into(),
    }
}

/// A row in the sample's form; checks that exactly the row of its type is not null.
fn as_sample(batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let event_type = batch.column(0).as_primitive::<Int32Type>().value(row);
    let mut sample = Map::from_iter([("t".to_owned(), event_type.into())]);
    for (number, kind) in [(0, "person"), (1, "auction"), (2, "bid")] {
        let set: &StructArray = batch.column(number as usize + 1).as_struct();
        assert_eq!(
            set.is_valid(row),
            number == event_type,
            "{kind} in row {row}"
        );
        for (field, column) in set.fields().iter().zip(set.columns()) {
            assert_eq!(
                column.is_valid(row),
                number == event_type,
                "{kind}.{} in row {row}",
                field.name()
            );
            if number == event_type {
                sample.insert(sample_name(kind, field.name()), value(column, row));
            }
        }
    }
    sample
}

#[test]
fn rows_are_those_of_the_reference() -> TestResult {
    let mut text = String::new();
    GzDecoder::new(SAMPLE).read_to_string(&mut text)?;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 500);
    let (first, second) = lines.split_at(SAMPLE_OF_FIRST_SPLIT);
    for (split, lines) in [(0, first), (1, second)] {
        let batch = generator(&sample_config(), split)?.next_batch(lines.len())?;
        assert_eq!(batch.num_rows(), lines.len());
        for (row, line) in lines.iter().enumerate() {
            let expected: Map<String, Value> = serde_json::from_str(line)?;
            assert_eq!(
                as_sample(&batch, row),
                expected,
                "event {row} of split {split}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_stored_position_continues_with_the_same_rows() -> TestResult {
    let config = NexmarkConfig {
        events_num: Some(1000),
        person_proportion: 2,
        ..sample_config()
    };
    let whole = generator(&config, 0)?.next_batch(1000)?;
    assert_eq!(whole.num_rows(), 500);
    let mut split = config.make_splits(1, 0).remove(0);
    let mut parts = Vec::new();
    // Sizes that stop within every kind of run, and a batch without rows.
    for size in [1, 2, 47, 0, 3, 100, 1, 1000, 5] {
        let stored = serde_json::to_string(&split)?;
        let restored = serde_json::from_str(&stored)?;
        let mut generator = NexmarkGenerator::new(&config, restored, NexmarkProjection::all())?;
        parts.push(generator.next_batch(size)?);
        split = generator.split().clone();
    }
    assert_eq!(concat_batches(&nexmark_schema(), &parts)?, whole);
    assert!(split.is_finished());
    Ok(())
}

#[test]
fn pruning_leaves_the_other_columns_as_they_are() -> TestResult {
    let config = sample_config();
    let whole = generator(&config, 1)?.next_batch(300)?;
    let wanted = [
        "event_type",
        "bid.price",
        "bid.extra",
        "person.name",
        "auction.expires",
    ];
    let split = config.make_splits(1, 0).remove(1);
    let mut pruned = NexmarkGenerator::new(&config, split, NexmarkProjection::of(wanted)?)?;
    let pruned = concat_batches(
        &nexmark_schema(),
        &[pruned.next_batch(200)?, pruned.next_batch(100)?],
    )?;
    assert_eq!(pruned.schema(), whole.schema());
    assert_eq!(pruned.column(0), whole.column(0));
    for kind in ["person", "auction", "bid"] {
        let find = |batch: &RecordBatch| {
            batch
                .column_by_name(kind)
                .map(|set| set.as_struct().clone())
        };
        let (Some(pruned), Some(whole)) = (find(&pruned), find(&whole)) else {
            return Err(format!("no column {kind}").into());
        };
        assert_eq!(pruned.nulls(), whole.nulls());
        for (field, (left, right)) in pruned
            .fields()
            .iter()
            .zip(pruned.columns().iter().zip(whole.columns()))
        {
            if wanted.contains(&format!("{kind}.{}", field.name()).as_str()) {
                assert_eq!(left, right, "{kind}.{}", field.name());
            } else {
                assert_eq!(left.null_count(), 300, "{kind}.{}", field.name());
            }
        }
    }
    let unpruned = NexmarkConfig {
        prune: false,
        ..config
    };
    let split = unpruned.make_splits(1, 0).remove(1);
    let mut kept = NexmarkGenerator::new(&unpruned, split, NexmarkProjection::of([])?)?;
    assert_eq!(kept.next_batch(300)?, whole);
    Ok(())
}

#[test]
fn odd_parameters_generate_without_trouble() -> TestResult {
    for options in [
        &[
            ("person.proportion", "0"),
            ("auction.proportion", "0"),
            ("bid.proportion", "1"),
        ][..],
        &[("bid.proportion", "0"), ("auction.proportion", "0")],
        &[("person.proportion", "0"), ("bid.proportion", "0")],
        &[
            ("bid.avg-size", "10"),
            ("person.avg-size", "0"),
            ("auction.avg-size", "1"),
        ],
        &[("bid.avg-size", "20kb"), ("person.avg-size", "32")],
        &[
            ("first-event.rate", "1"),
            ("events.num", "1000000000000000000"),
            ("nexmark.splits", "32768"),
        ],
        &[
            ("bid.hot-ratio.auctions", "1"),
            ("bid.hot-ratio.bidders", "2147483647"),
        ],
        &[("first-event.rate", "2147483647")],
    ] {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let options: BTreeMap<String, String> = options.iter().map(owned).collect();
        let config = NexmarkConfig::from_options(&options)?;
        let splits = config.make_splits(3, 0);
        for split in splits.into_iter().rev().take(3) {
            let mut generator = NexmarkGenerator::new(&config, split, NexmarkProjection::all())?;
            let rows = generator.next_batch(usize::MAX)?.num_rows();
            assert_eq!(rows, MAX_BATCH_ROWS, "{options:?}");
        }
    }
    Ok(())
}

#[test]
fn paced_events_are_due_with_event_time() -> TestResult {
    // Two splits of 100,000 events/s together: 50 events per millisecond each.
    let generator = generator(&sample_config(), 0)?;
    assert_eq!(generator.due(0), 0);
    assert_eq!(generator.due(100), 5000);
    assert_eq!(generator.due(u64::MAX), 50_000);
    Ok(())
}
