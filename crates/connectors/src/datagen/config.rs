//! Datagen's parameters, and reading them from a table's `WITH` options and columns.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use super::field::{FIELD_OPTIONS, Field};
use crate::generator_options::{OptionError, Options, belongs_to_every_source, parse_time_ms};

/// Seed of a table that names none.
pub const DEFAULT_SEED: u64 = 42;
/// Bound of rows and of rows per second: far from where sums overflow.
pub(crate) const MAX_ROWS: i64 = 1_000_000_000_000_000;
const MAX_SPLITS: i64 = 32_768;

const CONNECTOR: &str = "datagen";
pub(crate) const TABLE_OPTIONS: [&str; 5] = [
    "rows-per-second",
    "number-of-rows",
    "seed",
    "base-time",
    "splits",
];

/// A table of generated rows.
#[derive(Debug, Clone, PartialEq)]
pub struct DatagenConfig {
    /// Rows per second over all splits (`rows-per-second`, 10,000): also how fast the times
    /// of time columns advance.
    pub rows_per_second: u64,
    /// Rows over all splits (`number-of-rows`); `None` is unbounded, unless a column counts
    /// up to an end.
    pub number_of_rows: Option<u64>,
    /// What all random values follow from (`seed`, 42).
    pub seed: u64,
    /// Time of the first row, ms since the epoch (`base-time`); `None`: the clock when the
    /// splits are first made.
    pub base_time_ms: Option<i64>,
    /// Number of splits (`splits`); `None`: the job's parallelism at its first start.
    pub splits: Option<u32>,
    pub(crate) schema: SchemaRef,
    pub(crate) fields: Vec<Field>,
}

impl DatagenConfig {
    /// Reads the options of a table with these physical columns.
    pub fn from_options(
        options: &BTreeMap<String, String>,
        schema: SchemaRef,
    ) -> Result<Self, OptionError> {
        for key in options.keys() {
            check_name(key, &schema)?;
        }
        let options = Options(options);
        let base_time_ms = match options.text("base-time") {
            None => None,
            Some(text) if text.eq_ignore_ascii_case("now") => None,
            Some(text) => Some(read_base_time(text)?),
        };
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .map(|field| Field::from_options(options, field))
            .collect::<Result<_, _>>()?;
        let natural = |number: i64| number.unsigned_abs();
        Ok(Self {
            rows_per_second: options
                .integer("rows-per-second", 1..=MAX_ROWS)?
                .map_or(10_000, natural),
            number_of_rows: options
                .integer("number-of-rows", 0..=MAX_ROWS)?
                .map(natural),
            seed: options
                .integer("seed", i64::MIN..=i64::MAX)?
                .map_or(DEFAULT_SEED, |seed| seed as u64),
            base_time_ms,
            splits: options
                .integer("splits", 1..=MAX_SPLITS)?
                .map(|number| number as u32),
            schema,
            fields,
        })
    }

    /// The columns of the table.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Whether the rows come to an end.
    pub fn is_bounded(&self) -> bool {
        self.number_of_rows.is_some() || self.fields.iter().any(|field| field.counted().is_some())
    }
}

/// The column and the option that `fields.COLUMN.OPTION` names. Columns may hold dots.
fn split_field_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("fields.")?.rsplit_once('.')
}

fn check_name(key: &str, schema: &SchemaRef) -> Result<(), OptionError> {
    let known_field = split_field_key(key).is_some_and(|(column, option)| {
        schema.fields().iter().any(|field| field.name() == column)
            && FIELD_OPTIONS.contains(&option)
    });
    if known_field || belongs_to_every_source(key) || TABLE_OPTIONS.contains(&key) {
        return Ok(());
    }
    let columns = schema.fields().iter().flat_map(|field| {
        FIELD_OPTIONS
            .iter()
            .map(|option| format!("fields.{}.{option}", field.name()))
    });
    let known: Vec<String> = TABLE_OPTIONS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(columns)
        .collect();
    Err(OptionError::unknown(
        CONNECTOR,
        key,
        known.iter().map(String::as_str),
    ))
}

fn read_base_time(text: &str) -> Result<i64, OptionError> {
    // Year 1 to 9999: what times of every precision can hold is checked with the columns.
    const RANGE_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;
    parse_time_ms(text)
        .filter(|ms| RANGE_MS.contains(ms))
        .ok_or_else(|| {
            let expected = "'now', milliseconds since the epoch, or a timestamp \
                            such as '2024-01-31 12:00:00'";
            OptionError::value("base-time", text, expected)
        })
}
