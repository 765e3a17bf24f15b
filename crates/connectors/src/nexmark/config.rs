//! Nexmark's parameters, and reading them from a table's `WITH` options.
//!
//! Names and defaults are those of the public Flink connector; the options that start with
//! `nexmark.` are Millrace's own. Without further options a stream is the same in every run:
//! seed and base time have fixed defaults, where the reference takes them from the clock.

use std::collections::BTreeMap;

use crate::generator_options::{OptionError, Options, belongs_to_every_source, parse_time_ms};

/// Seed of a stream whose table names none.
pub const DEFAULT_SEED: u64 = 42;
/// Event time of the first event if the table names none: 2023-11-14 22:13:20 UTC.
pub const DEFAULT_BASE_TIME_MS: i64 = 1_700_000_000_000;
/// Largest mean size of a row, bytes. A batch of the largest rows still fits the 32-bit
/// offsets of its columns.
const MAX_MEAN_BYTES: u32 = 65_536;
/// Bound of the three proportions, so that ids keep well clear of 64 bits.
const MAX_PROPORTION: i64 = 1_000_000;
const MAX_SPLITS: i64 = 32_768;
/// Bound of the events of a stream: a thousand times what a year of 30 M/s brings, and ids and
/// times still keep clear of the ends of 64 bits.
pub(crate) const MAX_EVENTS: i64 = 1_000_000_000_000_000_000;

const CONNECTOR: &str = "nexmark";
/// Every option, for the check of names.
pub(crate) const OPTIONS: [&str; 23] = [
    "rate.shape",
    "rate.period",
    "rate.limited",
    "first-event.rate",
    "next-event.rate",
    "person.avg-size",
    "auction.avg-size",
    "bid.avg-size",
    "person.proportion",
    "auction.proportion",
    "bid.proportion",
    "bid.hot-ratio.auctions",
    "bid.hot-ratio.bidders",
    "auction.hot-ratio.sellers",
    "events.num",
    "keep-alive",
    "stop-at",
    "max-emit-speed",
    "nexmark.seed",
    "nexmark.base-time",
    "nexmark.splits",
    "nexmark.prune",
    "nexmark.batch-rows",
];

/// Where event time starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseTime {
    /// Milliseconds since the epoch.
    At(i64),
    /// The clock at the time the splits are made; kept in the splits from then on.
    Now,
}

/// The parameters of a Nexmark stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NexmarkConfig {
    /// Events per second of event time, over all splits (`first-event.rate`, 10,000).
    pub first_event_rate: u32,
    /// Events to generate over all splits (`events.num`); `None` is unbounded.
    pub events_num: Option<u64>,
    /// Stop after this many events although the ids are laid out for more (`stop-at`).
    pub stop_at: Option<u64>,
    /// At the end stay idle instead of ending the input (`keep-alive`, false).
    pub keep_alive: bool,
    /// Emit as fast as the job takes it (`max-emit-speed`, true); otherwise the caller
    /// paces by [`super::NexmarkGenerator::due`].
    pub max_emit_speed: bool,
    /// Event time of the first event (`nexmark.base-time`).
    pub base_time: BaseTime,
    /// A split draws from a source seeded with this plus its first event id (`nexmark.seed`).
    pub seed: u64,
    /// Number of splits (`nexmark.splits`); `None`: the job's parallelism at its first start.
    pub splits: Option<u32>,
    /// Of every `person + auction + bid` events the first are persons (`person.proportion`, 1),
    pub person_proportion: u32,
    /// the next auctions (`auction.proportion`, 3),
    pub auction_proportion: u32,
    /// the rest bids (`bid.proportion`, 46).
    pub bid_proportion: u32,
    /// All but one in this many bids go to a hot auction (`bid.hot-ratio.auctions`, 2).
    pub hot_auction_ratio: u32,
    /// All but one in this many bids come from a hot bidder (`bid.hot-ratio.bidders`, 4).
    pub hot_bidder_ratio: u32,
    /// All but one in this many auctions are a hot seller's (`auction.hot-ratio.sellers`, 4).
    pub hot_seller_ratio: u32,
    /// Mean size of a person, bytes (`person.avg-size`, 200).
    pub person_bytes: u32,
    /// Mean size of an auction, bytes (`auction.avg-size`, 500).
    pub auction_bytes: u32,
    /// Mean size of a bid, bytes (`bid.avg-size`, 100).
    pub bid_bytes: u32,
    /// Leave columns that the query does not read null (`nexmark.prune`, true). Values of the
    /// other columns do not depend on it.
    pub prune: bool,
    /// Rows per batch (`nexmark.batch-rows`, 4,096): small enough for a batch to stay in the
    /// cache between generator and query.
    pub batch_rows: u32,
}

impl Default for NexmarkConfig {
    fn default() -> Self {
        Self {
            first_event_rate: 10_000,
            events_num: None,
            stop_at: None,
            keep_alive: false,
            max_emit_speed: true,
            base_time: BaseTime::At(DEFAULT_BASE_TIME_MS),
            seed: DEFAULT_SEED,
            splits: None,
            person_proportion: 1,
            auction_proportion: 3,
            bid_proportion: 46,
            hot_auction_ratio: 2,
            hot_bidder_ratio: 4,
            hot_seller_ratio: 4,
            person_bytes: 200,
            auction_bytes: 500,
            bid_bytes: 100,
            prune: true,
            batch_rows: 4096,
        }
    }
}

impl NexmarkConfig {
    /// Reads the options of a table. Options that the reference declares but its generator
    /// does not use (`next-event.rate`, `rate.*`) are checked and change nothing, as there.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self, OptionError> {
        for key in options.keys() {
            if !belongs_to_every_source(key) && !OPTIONS.contains(&key.as_str()) {
                return Err(OptionError::unknown(CONNECTOR, key, OPTIONS));
            }
        }
        let options = Options(options);
        let mut config = Self::default();
        let natural = |key, from, to, into: &mut u32| -> Result<(), OptionError> {
            if let Some(number) = options.integer(key, from..=to)? {
                *into = number as u32;
            }
            Ok(())
        };
        let most = i64::from(i32::MAX);
        natural("first-event.rate", 1, most, &mut config.first_event_rate)?;
        natural(
            "person.proportion",
            0,
            MAX_PROPORTION,
            &mut config.person_proportion,
        )?;
        natural(
            "auction.proportion",
            0,
            MAX_PROPORTION,
            &mut config.auction_proportion,
        )?;
        natural(
            "bid.proportion",
            0,
            MAX_PROPORTION,
            &mut config.bid_proportion,
        )?;
        natural(
            "bid.hot-ratio.auctions",
            1,
            most,
            &mut config.hot_auction_ratio,
        )?;
        natural(
            "bid.hot-ratio.bidders",
            1,
            most,
            &mut config.hot_bidder_ratio,
        )?;
        natural(
            "auction.hot-ratio.sellers",
            1,
            most,
            &mut config.hot_seller_ratio,
        )?;
        let max_rows = super::MAX_BATCH_ROWS as i64;
        natural("nexmark.batch-rows", 1, max_rows, &mut config.batch_rows)?;
        if config.person_proportion + config.auction_proportion + config.bid_proportion == 0 {
            let problem =
                "the proportions of persons, auctions and bids are all 0; give one of them";
            return Err(OptionError::conflict("bid.proportion", problem));
        }
        for (key, into) in [
            ("person.avg-size", &mut config.person_bytes),
            ("auction.avg-size", &mut config.auction_bytes),
            ("bid.avg-size", &mut config.bid_bytes),
        ] {
            if let Some(bytes) = options.byte_size(key, MAX_MEAN_BYTES)? {
                *into = bytes;
            }
        }
        for (key, into) in [
            ("keep-alive", &mut config.keep_alive),
            ("max-emit-speed", &mut config.max_emit_speed),
            ("nexmark.prune", &mut config.prune),
        ] {
            if let Some(flag) = options.boolean(key)? {
                *into = flag;
            }
        }
        // 0 and -1 are the reference's ways to say "no bound".
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        config.events_num = options
            .integer("events.num", 0..=MAX_EVENTS)?
            .and_then(positive);
        config.stop_at = match options.integer("stop-at", -1..=MAX_EVENTS)? {
            None | Some(-1) => None,
            Some(number) => Some(number.unsigned_abs()),
        };
        if let Some(seed) = options.integer("nexmark.seed", i64::MIN..=i64::MAX)? {
            config.seed = seed as u64;
        }
        config.splits = options
            .integer("nexmark.splits", 1..=MAX_SPLITS)?
            .map(|number| number as u32);
        if let Some(text) = options.text("nexmark.base-time") {
            config.base_time = read_base_time(text)?;
        }
        check_unused(options)?;
        Ok(config)
    }

    /// Events per cycle of persons, auctions and bids; at least 1.
    pub(crate) fn cycle(&self) -> i64 {
        let cycle = i64::from(self.person_proportion)
            + i64::from(self.auction_proportion)
            + i64::from(self.bid_proportion);
        cycle.max(1)
    }
}

fn read_base_time(text: &str) -> Result<BaseTime, OptionError> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(BaseTime::Now);
    }
    // A century or two around today: far from where adding a stream's length overflows.
    const RANGE_MS: std::ops::RangeInclusive<i64> = -100_000_000_000_000..=100_000_000_000_000;
    parse_time_ms(text)
        .filter(|ms| RANGE_MS.contains(ms))
        .map(BaseTime::At)
        .ok_or_else(|| {
            let expected = "'now', milliseconds since the epoch, or a timestamp \
                            such as '2024-01-31 12:00:00' between the years -1200 and 5138";
            OptionError::value("nexmark.base-time", text, expected)
        })
}

fn check_unused(options: Options<'_>) -> Result<(), OptionError> {
    options.integer("next-event.rate", 1..=i64::from(i32::MAX))?;
    options.boolean("rate.limited")?;
    if let Some(shape) = options.text("rate.shape")
        && !["SQUARE", "SINE"].contains(&shape.to_ascii_uppercase().as_str())
    {
        return Err(OptionError::value("rate.shape", shape, "SQUARE or SINE"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<NexmarkConfig, OptionError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        NexmarkConfig::from_options(&options.iter().map(owned).collect())
    }

    #[test]
    fn the_usual_table_is_read() {
        let config = read(&[
            ("connector", "nexmark"),
            ("scan.watermark.idle-timeout", "10 s"),
            ("first-event.rate", "100000"),
            ("next-event.rate", "100000"),
            ("events.num", "5000000"),
            ("person.proportion", "2"),
            ("bid.avg-size", "1kb"),
            ("nexmark.base-time", "2024-01-01 00:00:00"),
            ("nexmark.splits", "4"),
            ("nexmark.prune", "false"),
        ]);
        let expected = NexmarkConfig {
            first_event_rate: 100_000,
            events_num: Some(5_000_000),
            person_proportion: 2,
            bid_bytes: 1024,
            base_time: BaseTime::At(1_704_067_200_000),
            splits: Some(4),
            prune: false,
            ..NexmarkConfig::default()
        };
        assert_eq!(read(&[]), Ok(NexmarkConfig::default()));
        assert_eq!(config, Ok(expected));
    }

    #[test]
    fn bad_options_are_refused_with_the_way_out() {
        for (key, value, message) in [
            (
                "event.num",
                "5",
                "no option 'event.num'; did you mean 'events.num'?",
            ),
            (
                "first-event.rate",
                "0",
                "a whole number from 1 to 2147483647",
            ),
            ("events.num", "many", "a whole number from 0 to"),
            ("bid.avg-size", "1gb", "of at most 65536 bytes"),
            (
                "nexmark.base-time",
                "soon",
                "'now', milliseconds since the epoch",
            ),
            (
                "nexmark.base-time",
                "9223372036854775807",
                "between the years",
            ),
            ("nexmark.prune", "maybe", "true or false"),
            ("rate.shape", "ROUND", "SQUARE or SINE"),
            ("nexmark.splits", "0", "from 1 to 32768"),
        ] {
            let error = read(&[(key, value)]).map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|text| text.contains(message)),
                "{key} = {value}: {error:?}"
            );
        }
        let none = [
            ("person.proportion", "0"),
            ("auction.proportion", "0"),
            ("bid.proportion", "0"),
        ];
        assert!(read(&none).is_err_and(|error| error.to_string().contains("all 0")));
    }
}
