//! The figures of a run, as a table and as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::{process::Usage, query::Query};

/// What one query cost.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Measurement {
    query: &'static str,
    events_per_second: f64,
    cpu_seconds_per_million: f64,
    peak_rss_mib: u64,
    wall_seconds: f64,
    flink_heap: f64,
    flink_rocksdb: Option<f64>,
    /// A quarter of Flink's heap figure, and a tenth of its RocksDB figure: the lower of both.
    aim: f64,
}

impl Measurement {
    pub(crate) fn new(query: &Query, events: u64, wall: Duration, usage: &Usage) -> Self {
        let millions = events as f64 / 1e6;
        let aim = (query.flink_heap / 4.0).min(
            query
                .flink_rocksdb
                .map_or(f64::INFINITY, |figure| figure / 10.0),
        );
        Measurement {
            query: query.name,
            events_per_second: events as f64 / usage.worker_seconds,
            cpu_seconds_per_million: usage.cpu_seconds / millions,
            peak_rss_mib: usage.peak_rss_bytes >> 20,
            wall_seconds: wall.as_secs_f64(),
            flink_heap: query.flink_heap,
            flink_rocksdb: query.flink_rocksdb,
            aim,
        }
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    events: u64,
    parallelism: u32,
    queries: Vec<Measurement>,
}

impl Report {
    pub(crate) fn new(events: u64, parallelism: u32) -> Self {
        Report {
            events,
            parallelism,
            queries: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, measurement: Measurement) {
        self.queries.push(measurement);
    }

    pub(crate) fn header() -> String {
        format!(
            "{:<7} {:>12} {:>12} {:>8} {:>8} {:>11} {:>13} {:>9}",
            "query",
            "events/s",
            "CPU-s per M",
            "aim",
            "met",
            "Flink heap",
            "Flink RocksDB",
            "RSS MiB"
        )
    }

    pub(crate) fn line(m: &Measurement) -> String {
        let rocksdb = m
            .flink_rocksdb
            .map_or("-".to_owned(), |figure| format!("{figure:.2}"));
        let met = if m.cpu_seconds_per_million <= m.aim {
            "yes"
        } else {
            "no"
        };
        format!(
            "{:<7} {:>12.0} {:>12.3} {:>8.3} {:>8} {:>11.2} {:>13} {:>9}",
            m.query,
            m.events_per_second,
            m.cpu_seconds_per_million,
            m.aim,
            met,
            m.flink_heap,
            rocksdb,
            m.peak_rss_mib
        )
    }
}
