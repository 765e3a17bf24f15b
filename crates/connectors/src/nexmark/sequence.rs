//! The order of events: which kind the n-th event is, the ids of persons and auctions, and
//! event time. Pure arithmetic on event numbers and ids, without draws.
//!
//! Ids here are base 0; a row's ids are these plus [`FIRST_PERSON_ID`] or
//! [`FIRST_AUCTION_ID`].

use super::config::NexmarkConfig;

pub(crate) const FIRST_PERSON_ID: i64 = 1000;
pub(crate) const FIRST_AUCTION_ID: i64 = 1000;
pub(crate) const FIRST_CATEGORY_ID: i64 = 10;
/// The hot auction, bidder or seller changes with every so many new ids.
const HOT_EVERY: i64 = 100;
/// Bids refer to auctions up to this many before the newest.
const IN_FLIGHT_AUCTIONS: i64 = 100;
/// Bids and auctions refer to this many of the newest persons.
const ACTIVE_PERSONS: i64 = 1000;
/// References may run ahead of the newest id by up to one less than this.
const ID_LEAD: i64 = 10;

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Person,
    Auction,
    Bid,
}

/// Ids that a reference is drawn from: `start + U[0, count)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdRange {
    pub(crate) start: i64,
    pub(crate) count: u32,
}

/// Kinds and ids by event id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cycle {
    persons: i64,
    auctions: i64,
    total: i64,
}

impl Cycle {
    pub(crate) fn new(config: &NexmarkConfig) -> Self {
        Self {
            persons: i64::from(config.person_proportion),
            auctions: i64::from(config.auction_proportion),
            total: config.cycle(),
        }
    }

    /// The kind of an event, and how many events of that kind follow it without a break,
    /// itself included (at least 1).
    pub(crate) fn kind(self, event_id: i64) -> (Kind, u64) {
        let offset = event_id % self.total;
        let (kind, end) = if offset < self.persons {
            (Kind::Person, self.persons)
        } else if offset < self.persons + self.auctions {
            (Kind::Auction, self.persons + self.auctions)
        } else {
            (Kind::Bid, self.total)
        };
        (kind, (end - offset) as u64)
    }

    /// The newest person at an event: itself, if it is one.
    pub(crate) fn last_person(self, event_id: i64) -> i64 {
        let offset = (event_id % self.total).min(self.persons - 1);
        event_id / self.total * self.persons + offset
    }

    /// The newest auction at an event: itself, if it is one.
    pub(crate) fn last_auction(self, event_id: i64) -> i64 {
        let epoch = event_id / self.total;
        let offset = event_id % self.total - self.persons;
        if offset < 0 {
            (epoch - 1) * self.auctions + self.auctions - 1
        } else {
            epoch * self.auctions + offset.min(self.auctions - 1)
        }
    }

    /// The first of the current hundred persons: the hot seller. The hot bidder is the next.
    pub(crate) fn hot_person(self, event_id: i64) -> i64 {
        self.last_person(event_id) / HOT_EVERY * HOT_EVERY
    }

    pub(crate) fn hot_auction(self, event_id: i64) -> i64 {
        self.last_auction(event_id) / HOT_EVERY * HOT_EVERY
    }

    /// Persons that bids and auctions may name.
    pub(crate) fn active_persons(self, event_id: i64) -> IdRange {
        let known = self.last_person(event_id) + 1;
        let active = known.min(ACTIVE_PERSONS);
        IdRange {
            start: known - active,
            count: (active + ID_LEAD) as u32,
        }
    }

    /// Auctions that bids may name.
    pub(crate) fn open_auctions(self, event_id: i64) -> IdRange {
        let last = self.last_auction(event_id);
        let start = (last - IN_FLIGHT_AUCTIONS).max(0);
        IdRange {
            start,
            count: (last - start + 1 + ID_LEAD) as u32,
        }
    }

    /// Events until as many auctions as are open at a time have come.
    pub(crate) fn events_per_auction_life(self) -> i64 {
        IN_FLIGHT_AUCTIONS * self.total / self.auctions.max(1)
    }
}

/// Event time by event number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    base_ms: i64,
    /// Microseconds from one event of a split to its next.
    delay_us: f64,
}

impl Timeline {
    /// `splits` share the stream's rate.
    pub(crate) fn new(base_ms: i64, first_event_rate: u32, splits: u32) -> Self {
        Self {
            base_ms,
            delay_us: 1_000_000.0 / f64::from(first_event_rate) * f64::from(splits),
        }
    }

    #[inline]
    pub(crate) fn time_ms(self, event_number: i64) -> i64 {
        self.base_ms + (event_number as f64 * self.delay_us) as i64 / 1000
    }

    /// Events whose time has come once `elapsed_ms` of event time have passed since the base.
    pub(crate) fn events_within(self, elapsed_ms: u64) -> u64 {
        (elapsed_ms as f64 * 1000.0 / self.delay_us) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids 50 and 150 are persons, 51..=53 auctions, 54..=99 bids; derived by hand from the
    /// proportions 1 : 3 : 46.
    #[test]
    fn ids_follow_the_cycle() {
        let cycle = Cycle::new(&NexmarkConfig::default());
        for (id, kind, run, person, auction) in [
            (0, Kind::Person, 1, 0, -1),
            (1, Kind::Auction, 3, 0, 0),
            (3, Kind::Auction, 1, 0, 2),
            (4, Kind::Bid, 46, 0, 2),
            (49, Kind::Bid, 1, 0, 2),
            (50, Kind::Person, 1, 1, 2),
            (52, Kind::Auction, 2, 1, 4),
            (99, Kind::Bid, 1, 1, 5),
        ] {
            assert_eq!(cycle.kind(id), (kind, run), "event {id}");
            assert_eq!(cycle.last_person(id), person, "event {id}");
            assert_eq!(cycle.last_auction(id), auction, "event {id}");
        }
        // Event 500,004 is in epoch 10,000: persons 0..=10,000, auctions 0..=30,002.
        let range = |start, count| IdRange { start, count };
        assert_eq!(cycle.active_persons(500_004), range(9001, 1010));
        assert_eq!(cycle.open_auctions(500_004), range(29_902, 111));
        assert_eq!(cycle.active_persons(4), range(0, 11));
        assert_eq!(cycle.open_auctions(4), range(0, 13));
        assert_eq!(cycle.events_per_auction_life(), 1666);
    }

    #[test]
    fn event_time_is_the_truncated_multiple_of_the_delay() {
        // Two splits of 100,000 events/s: 20 us from one to the next.
        let timeline = Timeline::new(1000, 100_000, 2);
        for (number, ms) in [
            (1, 1000),
            (49, 1000),
            (50, 1001),
            (100, 1002),
            (1_000_000, 21_000),
        ] {
            assert_eq!(timeline.time_ms(number), ms, "event {number}");
        }
        assert_eq!(timeline.events_within(20), 1000);
    }
}
