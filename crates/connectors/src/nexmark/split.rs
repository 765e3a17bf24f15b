//! Splits of a Nexmark stream and their positions.
//!
//! A stream of P splits is P generators with id spaces of their own whose event times run in
//! parallel. Invariant: a split holds all that its rows depend on besides the table's
//! options, so a generator made from a stored split emits exactly the rows that were to
//! come; the number of splits never changes after the first start, whatever the parallelism.

use serde::{Deserialize, Serialize};

use super::NexmarkError;
use super::config::{BaseTime, MAX_EVENTS, NexmarkConfig};

/// The event id that the first split starts from.
const FIRST_EVENT_ID: u64 = 1;

/// One split and how far it has come: the state to store in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NexmarkSplit {
    /// Which split, from 0.
    pub index: u32,
    /// Of how many.
    pub splits: u32,
    /// Where the split's ids start.
    pub first_event_id: u64,
    /// Events of the split in all.
    pub events: u64,
    /// Event time of the stream's first event, milliseconds since the epoch.
    pub base_time_ms: i64,
    /// Events emitted so far.
    pub next: u64,
    /// State of the random source after them.
    pub random_state: u64,
}

impl NexmarkSplit {
    /// Whether all events have been emitted.
    pub fn is_finished(&self) -> bool {
        self.next >= self.events
    }

    /// Refuses a split that no run of this version has written.
    pub(crate) fn check(&self) -> Result<(), NexmarkError> {
        let most = MAX_EVENTS as u64;
        let sound = self.index < self.splits
            && self.next <= self.events
            && self.events <= most
            && self.first_event_id <= most + FIRST_EVENT_ID
            && self.base_time_ms.unsigned_abs() <= most;
        if sound {
            Ok(())
        } else {
            Err(NexmarkError::Split(Box::new(self.clone())))
        }
    }
}

impl NexmarkConfig {
    /// Lays a stream out in splits: as many as the table says, else one per subtask.
    /// `now_ms` is the base time of a stream that starts `now`.
    pub fn make_splits(&self, parallelism: u32, now_ms: i64) -> Vec<NexmarkSplit> {
        let splits = self.splits.unwrap_or(parallelism).max(1);
        let base_time_ms = match self.base_time {
            BaseTime::At(ms) => ms,
            BaseTime::Now => now_ms,
        };
        let total = self.events_num.unwrap_or_else(|| self.unbounded_events());
        let stop = self.stop_at.map_or(total, |stop| stop.min(total));
        (0..splits)
            .map(|index| {
                let first_event_id = FIRST_EVENT_ID + total / u64::from(splits) * u64::from(index);
                let events = share(total, splits, index).min(share(stop, splits, index));
                NexmarkSplit {
                    index,
                    splits,
                    first_event_id,
                    events,
                    base_time_ms,
                    next: 0,
                    random_state: self.seed.wrapping_add(first_event_id),
                }
            })
            .collect()
    }

    /// Events of a stream without a bound. The reference divides the positive 64-bit numbers
    /// by the bytes of a cycle, and lays out its ids by the result.
    fn unbounded_events(&self) -> u64 {
        let bytes = self
            .person_bytes
            .max(self.auction_bytes)
            .max(self.bid_bytes);
        let events = i64::MAX / (self.cycle() * i64::from(bytes.max(1)));
        events.clamp(1_000_000_000_000, MAX_EVENTS) as u64
    }
}

/// An equal part of `total`; the last split takes the rest as well.
fn share(total: u64, splits: u32, index: u32) -> u64 {
    let part = total / u64::from(splits);
    if index + 1 == splits {
        total - part * u64::from(splits - 1)
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_ids_are_shared_out_once() {
        let config = NexmarkConfig {
            events_num: Some(1001),
            ..NexmarkConfig::default()
        };
        let layout = |splits: Vec<NexmarkSplit>| -> Vec<(u64, u64)> {
            splits
                .iter()
                .map(|split| (split.first_event_id, split.events))
                .collect()
        };
        assert_eq!(layout(config.make_splits(1, 0)), [(1, 1001)]);
        assert_eq!(
            layout(config.make_splits(3, 0)),
            [(1, 333), (334, 333), (667, 335)]
        );
        let fixed = NexmarkConfig {
            splits: Some(2),
            stop_at: Some(101),
            ..config
        };
        assert_eq!(layout(fixed.make_splits(7, 0)), [(1, 50), (501, 51)]);
    }

    #[test]
    fn a_stream_that_starts_now_keeps_its_base_time() -> serde_json::Result<()> {
        let config = NexmarkConfig {
            base_time: BaseTime::Now,
            ..NexmarkConfig::default()
        };
        let split = config.make_splits(1, 5000).remove(0);
        assert_eq!(split.base_time_ms, 5000);
        let stored = serde_json::to_string(&split)?;
        assert_eq!(serde_json::from_str::<NexmarkSplit>(&stored)?, split);
        Ok(())
    }

    #[test]
    fn impossible_positions_are_refused() {
        let sound = NexmarkConfig::default().make_splits(2, 0).remove(1);
        assert!(sound.check().is_ok());
        let beyond = NexmarkSplit {
            next: sound.events + 1,
            ..sound.clone()
        };
        let foreign = NexmarkSplit { index: 2, ..sound };
        assert!(beyond.check().is_err());
        assert!(foreign.check().is_err());
    }
}
