//! `SET`: the settings that change what a script compiles to. Others are kept for the
//! service (checkpointing, restart, …), unless they are misspelt ones of ours.

use std::collections::BTreeMap;

use chrono_tz::Tz;
use datafusion_expr::sqlparser::tokenizer::Span;

use crate::diagnostic::{Diagnostic, Outcome, did_you_mean};

/// Default of `table.exec.source.idle-timeout`. Flink's is 0, which lets one silent
/// partition stop all windows.
const DEFAULT_IDLE_TIMEOUT_MS: u64 = 60_000;

/// The settings known here, each of which is checked when it is set.
const KNOWN: &[&str] = &[
    "table.exec.mini-batch.enabled",
    "table.exec.source.idle-timeout",
    "table.exec.state.ttl",
    "table.local-time-zone",
    "table.optimizer.agg-phase-strategy",
];

/// What the settings amount to.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) zone: Tz,
    pub(crate) state_ttl_ms: u64,
    pub(crate) idle_timeout_ms: u64,
    /// One change per row rather than per batch and key.
    pub(crate) per_row: bool,
    pub(crate) two_phase: bool,
    default_ttl_ms: u64,
}

impl Settings {
    pub(crate) fn new(default_ttl_ms: u64) -> Self {
        Settings {
            values: BTreeMap::new(),
            zone: Tz::UTC,
            state_ttl_ms: default_ttl_ms,
            idle_timeout_ms: DEFAULT_IDLE_TIMEOUT_MS,
            per_row: false,
            two_phase: true,
            default_ttl_ms,
        }
    }

    /// Sets a key, checking values of those that matter here. May yield a warning.
    pub(crate) fn set(
        &mut self,
        key: &str,
        value: &str,
        span: Span,
    ) -> Outcome<Option<Diagnostic>> {
        let bad = |expected: &str| {
            Err(Box::new(Diagnostic::error(
                "invalid-setting",
                span,
                format!("'{key}' takes {expected}, not '{value}'"),
            )))
        };
        match key {
            "table.local-time-zone" => match parse_zone(value) {
                Some(zone) => self.zone = zone,
                None => return bad("a time zone such as 'Europe/Berlin' or 'UTC'"),
            },
            "table.exec.state.ttl" => match parse_duration(value) {
                Some(millis) => self.state_ttl_ms = millis.unsigned_abs(),
                None => return bad("a duration such as '1 h' or '90 min'"),
            },
            "table.exec.source.idle-timeout" => match parse_duration(value) {
                Some(millis) => self.idle_timeout_ms = millis.unsigned_abs(),
                None => return bad("a duration such as '30 s'; '0' switches it off"),
            },
            "table.exec.mini-batch.enabled" => match parse_bool(value) {
                Some(enabled) => self.per_row = !enabled,
                None => return bad("'true' or 'false'"),
            },
            "table.optimizer.agg-phase-strategy" => match value.to_ascii_uppercase().as_str() {
                "AUTO" | "TWO_PHASE" => self.two_phase = true,
                "ONE_PHASE" => self.two_phase = false,
                _ => return bad("AUTO, TWO_PHASE or ONE_PHASE"),
            },
            _ => {}
        }
        self.values.insert(key.to_string(), value.to_string());
        if KNOWN.contains(&key) || !key.starts_with("table.") {
            return Ok(None);
        }
        let warning =
            Diagnostic::warning("unknown-setting", span, format!("'{key}' has no effect"))
                .with_optional_hint(did_you_mean(key, KNOWN.iter().copied()));
        Ok(Some(warning))
    }

    /// Back to the default, of one key or all.
    pub(crate) fn reset(&mut self, key: Option<&str>) {
        let mut values = std::mem::take(&mut self.values);
        match key {
            Some(key) => {
                values.remove(key);
            }
            None => values.clear(),
        }
        *self = Settings::new(self.default_ttl_ms);
        for (key, value) in values {
            // They were accepted before.
            let _ = self.set(&key, &value, Span::empty());
        }
    }
}

/// A zone by its IANA name, or `UTC`, `Z`, or an offset in whole hours such as `UTC+02:00`.
pub(crate) fn parse_zone(text: &str) -> Option<Tz> {
    if let Ok(zone) = text.parse::<Tz>() {
        return Some(zone);
    }
    if matches!(text, "Z" | "z") {
        return Some(Tz::UTC);
    }
    let offset = ["UTC", "GMT", ""].iter().find_map(|prefix| {
        text.strip_prefix(prefix)
            .filter(|rest| rest.starts_with(['+', '-']))
    })?;
    let (sign, digits) = offset.split_at(1);
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "00"));
    let hours: u32 = hours.parse().ok()?;
    if minutes != "00" || hours > 14 {
        return None;
    }
    // The names of these zones count westward.
    let name = match (sign, hours) {
        (_, 0) => "UTC".to_string(),
        ("+", hours) => format!("Etc/GMT-{hours}"),
        (_, hours) => format!("Etc/GMT+{hours}"),
    };
    name.parse().ok()
}

/// Milliseconds of a duration such as `10 s`, `1min`, `2 d`; a bare number is milliseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: i64 = number.parse().ok()?;
    let length = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(length)
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_zones() {
        assert_eq!(parse_duration("10 s"), Some(10_000));
        assert_eq!(parse_duration("1min"), Some(60_000));
        assert_eq!(parse_duration("0"), Some(0));
        assert_eq!(parse_duration("ten"), None);
        assert_eq!(parse_zone("UTC+02:00").map(|z| z.name()), Some("Etc/GMT-2"));
        assert_eq!(parse_zone("Mars/Base"), None);
    }

    #[test]
    fn settings_are_checked_and_reset() {
        let mut settings = Settings::new(5);
        assert!(
            settings
                .set("table.exec.state.ttl", "soon", Span::empty())
                .is_err()
        );
        settings
            .set("table.exec.state.ttl", "1 h", Span::empty())
            .unwrap();
        assert_eq!(settings.state_ttl_ms, 3_600_000);
        let warning = settings
            .set("table.exec.state.tll", "1 h", Span::empty())
            .unwrap();
        assert!(
            warning
                .unwrap()
                .hint
                .unwrap()
                .contains("table.exec.state.ttl")
        );
        settings.reset(Some("table.exec.state.ttl"));
        assert_eq!(settings.state_ttl_ms, 5);
    }
}
