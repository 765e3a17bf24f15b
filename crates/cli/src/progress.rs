//! Progress of a run on stderr: one line that is rewritten on a terminal, one line every ten
//! seconds elsewhere.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use chrono::DateTime;
use millrace_control_plane::api::view::JobMetricsView;

/// Between two lines where they cannot be rewritten.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows progress, if anybody wants it.
pub(crate) struct Progress {
    enabled: bool,
    terminal: bool,
    /// Whether a line stands on the terminal that the next output must erase.
    shown: bool,
    last: Instant,
    started: Instant,
    /// Nodes whose output is the job's input.
    sources: BTreeSet<u32>,
}

impl Progress {
    pub(crate) fn new(enabled: bool, sources: BTreeSet<u32>) -> Self {
        let now = Instant::now();
        Progress {
            enabled,
            terminal: std::io::stderr().is_terminal(),
            shown: false,
            last: now,
            started: now,
            sources,
        }
    }

    /// Shows the latest metrics.
    pub(crate) fn update(&mut self, metrics: &JobMetricsView, printed: u64) {
        if !self.enabled || (!self.terminal && self.last.elapsed() < LINE_INTERVAL) {
            return;
        }
        self.last = Instant::now();
        let line = summary(metrics, &self.sources, printed, self.started.elapsed());
        self.write(&line);
    }

    /// Shows a phase, such as the start of Postgres.
    pub(crate) fn phase(&mut self, text: &str) {
        if self.enabled && self.terminal {
            self.write(text);
        }
    }

    fn write(&mut self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to fail.
        let _ = if self.terminal {
            write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{line}")
        };
        self.shown = self.terminal;
    }

    /// Removes the line, so that something else can be written.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
            self.shown = false;
        }
    }

    /// Writes a line that stays.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }
}

fn summary(
    metrics: &JobMetricsView,
    sources: &BTreeSet<u32>,
    printed: u64,
    elapsed: Duration,
) -> String {
    let inputs = || {
        metrics
            .operators
            .iter()
            .filter(|operator| sources.contains(&operator.node))
    };
    let rows: u64 = inputs().map(|operator| operator.rows_out).sum();
    let rate: f64 = inputs().map(|operator| operator.rows_out_per_second).sum();
    // The job is as far as the operator that is furthest behind.
    let watermark = metrics
        .operators
        .iter()
        .filter_map(|operator| operator.watermark)
        .min();
    let late: u64 = metrics
        .operators
        .iter()
        .map(|operator| operator.late_rows)
        .sum();
    let bad: u64 = metrics
        .operators
        .iter()
        .map(|operator| operator.bad_records)
        .sum();
    let mut line = format!(
        "{} s · {} rows read, {}/s · {} printed",
        elapsed.as_secs(),
        grouped(rows),
        grouped(rate as u64),
        grouped(printed)
    );
    if let Some(watermark) = watermark {
        line.push_str(&format!(" · watermark {}", time(watermark)));
    }
    for (count, what) in [(late, "late"), (bad, "malformed")] {
        if count > 0 {
            line.push_str(&format!(" · {} {what}", grouped(count)));
        }
    }
    line
}

/// An event time for people; `end` is the end of all inputs.
pub(crate) fn time(millis: i64) -> String {
    if millis == i64::MAX {
        return "end".to_owned();
    }
    match DateTime::from_timestamp_millis(millis) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        None => millis.to_string(),
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use millrace_types::OperatorMetrics;

    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_line_counts_sources_and_the_least_watermark() {
        let operator = |node, rows_out, watermark| OperatorMetrics {
            node,
            rows_out,
            rows_out_per_second: 10.0,
            watermark,
            late_rows: 1,
            ..OperatorMetrics::default()
        };
        let metrics = JobMetricsView {
            execution: None,
            at: None,
            operators: vec![
                operator(0, 1_500, Some(60_000)),
                operator(1, 7, Some(1_000)),
            ],
        };
        assert_eq!(
            summary(&metrics, &BTreeSet::from([0]), 7, Duration::from_secs(3)),
            "3 s · 1,500 rows read, 10/s · 7 printed · watermark 1970-01-01 00:00:01.000 · 2 late"
        );
    }
}
