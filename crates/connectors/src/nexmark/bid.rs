//! Drawing bids: nine of ten events, so this is where a benchmark's generator spends its time.
//!
//! A run of bids between two persons shares its hot ids and id ranges, so these are worked
//! out once per run. The draws go to plain columns; the texts, which are pieces of the shared
//! tables, are copied afterwards, column by column. The order of draws is that of the
//! reference, whatever is wanted.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, StructArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::Fields;
use arrow::error::ArrowError;

use super::columns::{NullColumns, Presence, long_array};
use super::config::NexmarkConfig;
use super::random::{Bound, SplittableRandom};
use super::schema::FieldSet;
use super::sequence::{Cycle, FIRST_AUCTION_ID, FIRST_PERSON_ID, Timeline};
use super::text::{COLD_CHANNELS, EXTRA_WIDTH, Extra, ExtraLen, HOT_CHANNELS, Tables};

/// What the numbers of a bid weigh, for the length of its `extra`.
const NUMBERS_BYTES: u32 = 32;

/// Positions of the texts among a bid's fields.
const CHANNEL: usize = 3;
const URL: usize = 4;
const EXTRA: usize = 6;

/// What stays the same over all bids of a split.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BidDraw {
    cycle: Cycle,
    timeline: Timeline,
    hot_auction: Bound,
    hot_bidder: Bound,
    extra_len: ExtraLen,
}

/// The bids of a batch in the making.
pub(crate) struct BidColumns {
    presence: Presence,
    /// `(gap, own)`: rows of other kinds, and the bids after them.
    runs: Vec<(usize, usize)>,
    auction: Vec<i64>,
    bidder: Vec<i64>,
    price: Vec<i64>,
    time_ms: Vec<i64>,
    /// Of the bids alone, without gaps: index into the tables of channels.
    channel: Vec<u16>,
    /// Of the bids alone, without gaps.
    extra: Vec<Extra>,
}

impl BidDraw {
    pub(crate) fn new(config: &NexmarkConfig, cycle: Cycle, timeline: Timeline) -> Self {
        Self {
            cycle,
            timeline,
            hot_auction: Bound::new(config.hot_auction_ratio),
            hot_bidder: Bound::new(config.hot_bidder_ratio),
            extra_len: ExtraLen::new(config.bid_bytes, NUMBERS_BYTES),
        }
    }

    /// Appends a run of `count` bids, the first of them event `number` of its split, from
    /// row `row` of the batch on. The run must not reach into the next cycle.
    pub(crate) fn draw_run(
        &self,
        random: &mut SplittableRandom,
        tables: &Tables,
        (row, number, event_id): (usize, i64, i64),
        count: usize,
        bids: &mut BidColumns,
    ) {
        const COLD: Bound = Bound::new(COLD_CHANNELS);
        const HOT: Bound = Bound::new(HOT_CHANNELS.len() as u32);
        bids.start_run(row, count);
        let open = self.cycle.open_auctions(event_id);
        let open_start = open.start + FIRST_AUCTION_ID;
        let open_count = Bound::new(open.count);
        let hot_auction = self.cycle.hot_auction(event_id) + FIRST_AUCTION_ID;
        // The reference adds the first id twice to bidders, so they are 1,000 ahead of the
        // persons; results are compared with it, so this does the same.
        let active = self.cycle.active_persons(event_id);
        let active_start = active.start + 2 * FIRST_PERSON_ID;
        let active_count = Bound::new(active.count);
        let hot_bidder = self.cycle.hot_person(event_id) + 1 + 2 * FIRST_PERSON_ID;

        let start = bids.auction.len();
        for column in [
            &mut bids.auction,
            &mut bids.bidder,
            &mut bids.price,
            &mut bids.time_ms,
        ] {
            column.resize(start + count, 0);
        }
        let drawn = bids.channel.len();
        bids.channel.resize(drawn + count, 0);
        bids.extra.resize(drawn + count, Extra::default());
        let auctions = &mut bids.auction[start..][..count];
        let bidders = &mut bids.bidder[start..][..count];
        let prices = &mut bids.price[start..][..count];
        let times = &mut bids.time_ms[start..][..count];
        let channels = &mut bids.channel[drawn..][..count];
        let extras = &mut bids.extra[drawn..][..count];

        let mut draws = *random;
        for i in 0..count {
            let is_hot = draws.below(self.hot_auction) > 0;
            let mut after_cold = draws;
            let cold = open_start + i64::from(after_cold.below(open_count));
            draws = if is_hot { draws } else { after_cold };
            auctions[i] = if is_hot { hot_auction } else { cold };
            bidders[i] = if draws.below(self.hot_bidder) > 0 {
                hot_bidder
            } else {
                active_start + i64::from(draws.below(active_count))
            };
            prices[i] = tables.prices.next(&mut draws);
            // Hot or cold takes one draw either way: choosing between the two results is
            // cheaper than a jump that is mispredicted every other time.
            let hot_channel = draws.below(Bound::new(2)) > 0;
            let mut after_hot = draws;
            let hot = after_hot.below(HOT);
            let cold = HOT_CHANNELS.len() as u32 + draws.below(COLD);
            draws = if hot_channel { after_hot } else { draws };
            channels[i] = if hot_channel { hot } else { cold } as u16;
            extras[i] = self.extra_len.draw(&mut draws);
            times[i] = self.timeline.time_ms(number + i as i64);
        }
        *random = draws;
    }
}

impl BidColumns {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            presence: Presence::new(rows),
            runs: Vec::with_capacity(rows / 32 + 2),
            auction: Vec::with_capacity(rows),
            bidder: Vec::with_capacity(rows),
            price: Vec::with_capacity(rows),
            time_ms: Vec::with_capacity(rows),
            channel: Vec::with_capacity(rows),
            extra: Vec::with_capacity(rows),
        }
    }

    fn start_run(&mut self, row: usize, count: usize) {
        let gap = self.presence.mark(row, count);
        self.runs.push((gap, count));
        self.fill(gap);
    }

    fn fill(&mut self, gap: usize) {
        for column in [
            &mut self.auction,
            &mut self.bidder,
            &mut self.price,
            &mut self.time_ms,
        ] {
            column.resize(column.len() + gap, 0);
        }
    }

    pub(crate) fn finish(
        mut self,
        tables: &Tables,
        wanted: FieldSet,
        fields: &Fields,
        rows: usize,
        unwanted: &mut NullColumns,
    ) -> Result<ArrayRef, ArrowError> {
        let gap = rows - self.auction.len();
        self.fill(gap);
        self.runs.push((gap, 0));
        let nulls = self.presence.finish(rows);
        let layout = TextLayout {
            runs: &self.runs,
            rows,
            nulls: &nulls,
        };
        let names = self
            .channel
            .iter()
            .map(|at| tables.names[usize::from(*at)].field());
        let urls = self
            .channel
            .iter()
            .map(|at| tables.urls[usize::from(*at)].field());
        let mut longs = [self.auction, self.bidder, self.price, self.time_ms].into_iter();
        let mut arrays = Vec::with_capacity(fields.len());
        for (position, field) in fields.iter().enumerate() {
            let wanted = wanted.has(position);
            let array = match position {
                CHANNEL | URL | EXTRA if !wanted => None,
                CHANNEL => Some(layout.fields(names.clone(), 12)?),
                URL => Some(layout.fields(urls.clone(), 72)?),
                EXTRA => Some(layout.extras(&self.extra, tables)?),
                _ => {
                    let values = longs.next().unwrap_or_default();
                    wanted.then(|| long_array(values, &nulls, field.data_type()))
                }
            };
            arrays.push(array.unwrap_or_else(|| unwanted.get(field.data_type(), rows)));
        }
        let set = StructArray::try_new(fields.clone(), arrays, Some(nulls))?;
        Ok(Arc::new(set))
    }
}

/// Where the texts of a column go: the bids' rows, with nulls between them.
struct TextLayout<'a> {
    runs: &'a [(usize, usize)],
    rows: usize,
    nulls: &'a NullBuffer,
}

impl TextLayout<'_> {
    /// A column of texts in fields of fixed width, of about `mean` bytes each. The whole field
    /// is copied, which takes no call and no jump, and what is too much cut off again.
    fn fields<'t, const WIDTH: usize>(
        &self,
        mut texts: impl Iterator<Item = (&'t [u8; WIDTH], usize)>,
        mean: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let mut values: Vec<u8> = Vec::with_capacity(self.rows * mean + WIDTH);
        let mut offsets = self.start_offsets();
        for (gap, own) in self.runs {
            offsets.resize(offsets.len() + gap, values.len() as i32);
            for (field, len) in texts.by_ref().take(*own) {
                let start = values.len();
                values.extend_from_slice(field);
                values.truncate(start + len);
                offsets.push(values.len() as i32);
            }
        }
        self.array(offsets, values)
    }

    fn extras(&self, extras: &[Extra], tables: &Tables) -> Result<ArrayRef, ArrowError> {
        let bytes: usize = extras.iter().map(|extra| extra.len as usize).sum();
        if extras.iter().all(|extra| extra.len as usize <= EXTRA_WIDTH) {
            let fields = extras.iter().map(|extra| tables.extra_field(*extra));
            return self.fields(fields, bytes / self.rows.max(1) + 1);
        }
        let mut values: Vec<u8> = Vec::with_capacity(bytes);
        let mut offsets = self.start_offsets();
        let mut extras = extras.iter();
        for (gap, own) in self.runs {
            offsets.resize(offsets.len() + gap, values.len() as i32);
            for extra in extras.by_ref().take(*own) {
                values.extend_from_slice(tables.extra(*extra).as_bytes());
                offsets.push(values.len() as i32);
            }
        }
        self.array(offsets, values)
    }

    fn start_offsets(&self) -> Vec<i32> {
        let mut offsets = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        offsets
    }

    fn array(&self, offsets: Vec<i32>, values: Vec<u8>) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(offsets.into());
        let nulls = Some(self.nulls.clone());
        let texts = StringArray::try_new(offsets, Buffer::from_vec(values), nulls)?;
        Ok(Arc::new(texts))
    }
}
