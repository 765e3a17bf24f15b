//! Event time and the local time that windows align to.
//!
//! Windows over `TIMESTAMP_LTZ` columns align to the wall clock of a zone, so they are computed
//! on local timestamps. A local time that a zone skips (clocks go forward) or has twice (clocks
//! go back) still has one moment at which a window that ends there may fire: the transition, or
//! the later of the two.

use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::OperatorError;

/// Offsets never change within such a span, whatever the zone, except at its start.
const SPAN_MS: i64 = 15 * 60 * 1000;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Translates between event time and the time windows align to.
#[derive(Debug, Clone)]
pub(crate) struct WindowTime {
    zone: Option<Tz>,
    /// Span and offset (ms) that the last translation needed.
    cached: (i64, i64),
}

impl WindowTime {
    /// `zone`: an IANA name; `None` for timestamps without zone, which stay as they are.
    pub(crate) fn new(zone: Option<&str>) -> Result<Self, OperatorError> {
        let zone = match zone {
            None | Some("UTC") => None,
            Some(name) => Some(name.parse::<Tz>().map_err(|_| {
                OperatorError::Data(format!(
                    "unknown time zone `{name}`: set 'table.local-time-zone' to an IANA name such as Europe/Berlin"
                ))
            })?),
        };
        Ok(WindowTime {
            zone,
            cached: (i64::MIN, 0),
        })
    }

    pub(crate) fn is_shifted(&self) -> bool {
        self.zone.is_some()
    }

    /// The local time (ms, as if UTC) at a moment.
    pub(crate) fn local_of(&mut self, moment: i64) -> i64 {
        let Some(zone) = self.zone else {
            return moment;
        };
        let span = moment.div_euclid(SPAN_MS);
        if span != self.cached.0 {
            let (start, end) = (offset_at(zone, span * SPAN_MS), offset_at(zone, moment));
            let last = offset_at(zone, (span + 1) * SPAN_MS - 1);
            if start == last {
                self.cached = (span, start);
            } else {
                return moment.saturating_add(end);
            }
        }
        moment.saturating_add(self.cached.1)
    }

    /// The watermark at which a window that ends at this local time (exclusive) is complete.
    pub(crate) fn trigger(&self, local_end: i64) -> i64 {
        let last = local_end.saturating_sub(1);
        let Some(zone) = self.zone else {
            return last;
        };
        let Some(local) = naive(last) else {
            return last;
        };
        match zone.from_local_datetime(&local) {
            chrono::LocalResult::Single(moment) => moment.timestamp_millis(),
            chrono::LocalResult::Ambiguous(_, later) => later.timestamp_millis(),
            chrono::LocalResult::None => transition_after_gap(zone, last) - 1,
        }
    }
}

fn naive(ms: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_millis(ms).map(|moment| moment.naive_utc())
}

fn offset_at(zone: Tz, moment: i64) -> i64 {
    naive(moment).map_or(0, |utc| {
        let seconds = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
        i64::from(seconds) * 1000
    })
}

/// The moment at which the clock jumped over the local time.
fn transition_after_gap(zone: Tz, local: i64) -> i64 {
    let (mut before, mut after) = (local - DAY_MS, local + DAY_MS);
    let offset_before = offset_at(zone, before);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if offset_at(zone, middle) == offset_before {
            before = middle;
        } else {
            after = middle;
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epoch ms of `2021-03-14T10:00:00`.
    fn at(text: &str) -> i64 {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S")
            .unwrap()
            .and_utc()
            .timestamp_millis()
    }

    #[test]
    fn without_a_zone_time_stays() {
        let mut time = WindowTime::new(None).unwrap();
        assert_eq!(time.local_of(-7), -7);
        assert_eq!(time.trigger(10), 9);
        assert_eq!(time.trigger(i64::MIN), i64::MIN);
    }

    #[test]
    fn local_time_follows_daylight_saving() {
        // Los Angeles went from UTC−8 to UTC−7 at 2021-03-14T10:00Z and back at 2021-11-07T09:00Z.
        let mut time = WindowTime::new(Some("America/Los_Angeles")).unwrap();
        for (utc, local) in [
            ("2021-03-14T09:59:59", "2021-03-14T01:59:59"),
            ("2021-03-14T10:00:00", "2021-03-14T03:00:00"),
            ("2021-11-07T08:59:59", "2021-11-07T01:59:59"),
            ("2021-11-07T09:00:00", "2021-11-07T01:00:00"),
        ] {
            assert_eq!(time.local_of(at(utc)), at(local), "{utc}");
        }
        for (local_end, complete) in [
            // Ordinary.
            ("2021-03-14T01:00:00", "2021-03-14T09:00:00"),
            // 02:00 to 03:00 does not exist: complete at the jump.
            ("2021-03-14T03:00:00", "2021-03-14T10:00:00"),
            ("2021-03-14T02:30:00", "2021-03-14T10:00:00"),
            ("2021-03-14T04:00:00", "2021-03-14T11:00:00"),
            // 01:00 to 02:00 comes twice: complete after the second.
            ("2021-11-07T02:00:00", "2021-11-07T10:00:00"),
            ("2021-11-07T01:30:00", "2021-11-07T09:30:00"),
        ] {
            assert_eq!(time.trigger(at(local_end)), at(complete) - 1, "{local_end}");
        }
    }

    #[test]
    fn unknown_zones_are_named() {
        let error = WindowTime::new(Some("Mars/Olympus")).unwrap_err();
        assert!(error.to_string().contains("Mars/Olympus"));
    }
}
