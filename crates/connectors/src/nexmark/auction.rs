//! Drawing auctions. The order of draws is that of the reference, whatever is wanted.

use super::columns::RowSet;
use super::config::NexmarkConfig;
use super::random::{Bound, SplittableRandom};
use super::sequence::{Cycle, FIRST_AUCTION_ID, FIRST_CATEGORY_ID, FIRST_PERSON_ID, Timeline};
use super::text::{ExtraLen, Tables, push_string};

const CATEGORIES: Bound = Bound::new(5);

/// What stays the same over all auctions of a split.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuctionDraw {
    cycle: Cycle,
    timeline: Timeline,
    hot_seller: Bound,
    mean_bytes: u32,
}

impl AuctionDraw {
    pub(crate) fn new(config: &NexmarkConfig, cycle: Cycle, timeline: Timeline) -> Self {
        Self {
            cycle,
            timeline,
            hot_seller: Bound::new(config.hot_seller_ratio),
            mean_bytes: config.auction_bytes,
        }
    }

    /// Appends the auction that is event `number` of its split to row `row` of the batch.
    pub(crate) fn draw(
        &self,
        random: &mut SplittableRandom,
        tables: &Tables,
        (row, number, event_id): (usize, i64, i64),
        scratch: &mut String,
        set: &mut RowSet,
    ) {
        let time_ms = self.timeline.time_ms(number);
        set.start_row(row);
        set.long(0, self.cycle.last_auction(event_id) + FIRST_AUCTION_ID);

        let seller = if random.below(self.hot_seller) > 0 {
            self.cycle.hot_person(event_id)
        } else {
            let active = self.cycle.active_persons(event_id);
            active.start + i64::from(random.below_varying(active.count))
        };
        set.long(7, seller + FIRST_PERSON_ID);
        set.long(8, FIRST_CATEGORY_ID + i64::from(random.below(CATEGORIES)));
        let initial_bid = tables.prices.next(random);
        set.long(3, initial_bid);

        // An auction lives, in the mean, for as long as it takes until those now open have
        // been replaced.
        let later = self
            .timeline
            .time_ms(number + self.cycle.events_per_auction_life());
        let life_ms = 1 + random.below_long(((later - time_ms) * 2).max(1));
        set.long(5, time_ms);
        set.long(6, time_ms + life_ms);

        scratch.clear();
        push_string(random, 20, b' ', scratch);
        set.text(1, scratch);
        let mut bytes = 48 + scratch.len();
        scratch.clear();
        push_string(random, 100, b' ', scratch);
        set.text(2, scratch);
        bytes += scratch.len();

        set.long(4, initial_bid + tables.prices.next(random));
        let extra = ExtraLen::new(self.mean_bytes, bytes as u32).draw(random);
        set.text(9, tables.extra(extra));
    }
}
