//! `SET`: the settings that change what a script compiles to. Others are kept for the
//! service and have no effect on the plan: a warning says so, and a misspelt one of ours is an error.

mod elsewhere;

use std::collections::BTreeMap;

use chrono_tz::Tz;
use datafusion_expr::sqlparser::tokenizer::Span;

use crate::diagnostic::{Diagnostic, Outcome, did_you_mean, edit_distance};

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

/// At this many wrong letters or fewer, a key is a slip of the pen.
const MAX_SLIPS: usize = 3;

/// How the keys of Flink's own settings start.
const FLINK_PREFIXES: &[&str] = &[
    "akka.",
    "classloader.",
    "cluster.",
    "env.",
    "execution.",
    "fs.",
    "heartbeat.",
    "high-availability",
    "io.",
    "jobmanager.",
    "kubernetes.",
    "metrics.",
    "parallelism.",
    "pekko.",
    "pipeline.",
    "python.",
    "rest.",
    "restart-strategy",
    "s3.",
    "security.",
    "slot.",
    "sql-client.",
    "state.",
    "table.",
    "taskmanager.",
    "web.",
    "yarn.",
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
                None => return bad("a duration with its unit, such as '1 h' or '90 min'"),
            },
            "table.exec.source.idle-timeout" => match parse_duration(value) {
                Some(millis) => self.idle_timeout_ms = millis.unsigned_abs(),
                None => {
                    return bad("a duration with its unit, such as '30 s', or '0' for none");
                }
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
        let warning = check_key(key, span)?;
        self.values.insert(key.to_string(), value.to_string());
        Ok(warning)
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

/// An error for a misspelt key of ours, a warning for one that nothing here reads.
fn check_key(key: &str, span: Span) -> Outcome<Option<Diagnostic>> {
    if KNOWN.contains(&key) {
        return Ok(None);
    }
    let folded = key.trim().to_ascii_lowercase();
    let slip = KNOWN
        .iter()
        .find(|known| edit_distance(&folded, known) <= MAX_SLIPS);
    if let Some(known) = slip {
        return Err(Box::new(
            Diagnostic::error(
                "unknown-setting",
                span,
                format!("there is no setting '{key}'"),
            )
            .with_hint(format!("did you mean `{known}`?")),
        ));
    }
    if let Some(instead) = elsewhere::instead(key) {
        let message = format!("the setting '{key}' has no effect in a script");
        let warning = Diagnostic::warning("setting-without-effect", span, message);
        return Ok(Some(warning.with_hint(instead)));
    }
    let of_flink = FLINK_PREFIXES
        .iter()
        .any(|prefix| folded.starts_with(prefix));
    let (code, message) = if of_flink {
        (
            "setting-without-effect",
            format!("the setting '{key}' has no effect in Millrace"),
        )
    } else {
        (
            "unknown-setting",
            format!("there is no setting '{key}': it has no effect"),
        )
    };
    let hint = did_you_mean(key, KNOWN.iter().copied())
        .unwrap_or_else(|| format!("the settings are {}", KNOWN.join(", ")));
    Ok(Some(
        Diagnostic::warning(code, span, message).with_hint(hint),
    ))
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

/// Milliseconds of a duration such as `10 s`, `1min`, `2 d`. A number alone is none, since
/// nobody can tell what its writer meant; only zero needs no unit.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: i64 = number.parse().ok()?;
    let length = match unit.trim().to_ascii_lowercase().as_str() {
        "" if number == 0 => 1,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
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
        assert_eq!(parse_duration("5"), None);
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
        settings.reset(Some("table.exec.state.ttl"));
        assert_eq!(settings.state_ttl_ms, 5);
    }

    #[test]
    fn keys_that_nothing_reads_are_told() {
        // A slip in a key of ours would silently mean its default.
        for (key, meant) in [
            ("table.exec.state.tll", "table.exec.state.ttl"),
            ("table.local-timezone", "table.local-time-zone"),
            ("Table.Local-Time-Zone", "table.local-time-zone"),
            (" table.exec.state.ttl", "table.exec.state.ttl"),
        ] {
            let mut settings = Settings::new(5);
            let error = settings.set(key, "UTC", Span::empty()).unwrap_err();
            assert_eq!(error.code, "unknown-setting", "{key}");
            assert_eq!(error.hint, Some(format!("did you mean `{meant}`?")));
            assert!(settings.values.is_empty());
        }
        for (key, code) in [
            ("nope.nope", "unknown-setting"),
            (
                "table.exec.resource.default-parallelism",
                "setting-without-effect",
            ),
            ("parallelism.default", "setting-without-effect"),
            ("restart-strategy", "setting-without-effect"),
            ("execution.checkpointing.interval", "setting-without-effect"),
        ] {
            let mut settings = Settings::new(5);
            let warning = settings.set(key, "1", Span::empty()).unwrap().unwrap();
            assert_eq!(warning.code, code, "{key}");
            assert!(warning.hint.is_some(), "{key}");
        }
        let mut settings = Settings::new(5);
        let warning = settings.set("parallelism.default", "4", Span::empty());
        let hint = warning.unwrap().unwrap().hint.unwrap();
        assert!(hint.contains("`parallelism: 4` in the job spec"), "{hint}");
        let mut settings = Settings::new(5);
        let known = settings.set("table.exec.state.ttl", "1 h", Span::empty());
        assert!(known.unwrap().is_none());
    }
}
