//! The generator of one split: from a position to the next batch of rows.
//!
//! Invariant: a batch's rows depend on the split's position, the options and nothing else;
//! batch sizes, the projection and stops in between change no value.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Fields, SchemaRef};

use super::NexmarkError;
use super::auction::AuctionDraw;
use super::bid::{BidColumns, BidDraw};
use super::columns::{NullColumns, RowSet};
use super::config::NexmarkConfig;
use super::person::draw_person;
use super::random::SplittableRandom;
use super::schema::{
    AUCTION_FIELDS, BID_FIELDS, NexmarkProjection, PERSON_FIELDS, fields, nexmark_schema,
};
use super::sequence::{Cycle, FIRST_PERSON_ID, Kind, Timeline};
use super::split::NexmarkSplit;
use super::text::Tables;

/// The most rows of a batch.
pub const MAX_BATCH_ROWS: usize = 16_384;
/// Events are numbered from here in every split.
const FIRST_EVENT_NUMBER: i64 = 1;

/// Emits the events of one split, in order.
#[derive(Debug)]
pub struct NexmarkGenerator {
    split: NexmarkSplit,
    projection: NexmarkProjection,
    schema: SchemaRef,
    person_fields: Fields,
    auction_fields: Fields,
    bid_fields: Fields,
    cycle: Cycle,
    timeline: Timeline,
    auctions: AuctionDraw,
    bids: BidDraw,
    person_bytes: u32,
    tables: &'static Tables,
    unwanted: NullColumns,
    scratch: String,
}

impl NexmarkGenerator {
    /// Continues a split from its position. The projection counts only if the table prunes.
    pub fn new(
        config: &NexmarkConfig,
        split: NexmarkSplit,
        projection: NexmarkProjection,
    ) -> Result<Self, NexmarkError> {
        split.check()?;
        let cycle = Cycle::new(config);
        let timeline = Timeline::new(split.base_time_ms, config.first_event_rate, split.splits);
        Ok(Self {
            projection: if config.prune {
                projection
            } else {
                NexmarkProjection::all()
            },
            schema: nexmark_schema(),
            person_fields: fields(&PERSON_FIELDS),
            auction_fields: fields(&AUCTION_FIELDS),
            bid_fields: fields(&BID_FIELDS),
            cycle,
            timeline,
            auctions: AuctionDraw::new(config, cycle, timeline),
            bids: BidDraw::new(config, cycle, timeline),
            person_bytes: config.person_bytes,
            tables: Tables::shared(),
            unwanted: NullColumns::default(),
            scratch: String::new(),
            split,
        })
    }

    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The position after the last batch.
    pub fn split(&self) -> &NexmarkSplit {
        &self.split
    }

    /// Events of this split that are due once `elapsed_ms` have passed since its first, for
    /// a caller that emits in step with the clock (`max-emit-speed` = false).
    pub fn due(&self, elapsed_ms: u64) -> u64 {
        self.timeline
            .events_within(elapsed_ms)
            .min(self.split.events)
    }

    /// The next rows: `max_events` of them, at most [`MAX_BATCH_ROWS`], fewer at the end and
    /// none after it.
    pub fn next_batch(&mut self, max_events: usize) -> Result<RecordBatch, NexmarkError> {
        let left = self.split.events.saturating_sub(self.split.next);
        let rows = max_events
            .min(MAX_BATCH_ROWS)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut random = SplittableRandom::new(self.split.random_state);
        let first_number = FIRST_EVENT_NUMBER + self.split.next as i64;
        let first_id = self.split.first_event_id as i64 + first_number;

        let mut event_types: Vec<i32> = Vec::with_capacity(rows);
        let mut persons = RowSet::new(
            &PERSON_FIELDS,
            self.projection.person,
            rows,
            rows / 50 + 1,
            32,
        );
        let mut auctions = RowSet::new(
            &AUCTION_FIELDS,
            self.projection.auction,
            rows,
            rows / 16 + 1,
            160,
        );
        let mut bids = BidColumns::new(rows);
        let mut row = 0;
        while row < rows {
            let number = first_number + row as i64;
            let event_id = first_id + row as i64;
            let (kind, run) = self.cycle.kind(event_id);
            let run = usize::try_from(run).unwrap_or(usize::MAX).min(rows - row);
            event_types.resize(row + run, kind as i32);
            match kind {
                Kind::Bid => {
                    let at = (row, number, event_id);
                    self.bids
                        .draw_run(&mut random, self.tables, at, run, &mut bids);
                }
                Kind::Auction => {
                    for i in 0..run {
                        let at = (row + i, number + i as i64, event_id + i as i64);
                        self.auctions.draw(
                            &mut random,
                            self.tables,
                            at,
                            &mut self.scratch,
                            &mut auctions,
                        );
                    }
                }
                Kind::Person => {
                    for i in 0..run {
                        let id = self.cycle.last_person(event_id + i as i64) + FIRST_PERSON_ID;
                        let at = (row + i, id, self.timeline.time_ms(number + i as i64));
                        draw_person(
                            &mut random,
                            self.tables,
                            self.person_bytes,
                            at,
                            &mut self.scratch,
                            &mut persons,
                        );
                    }
                }
            }
            row += run;
        }

        let event_type: ArrayRef = if self.projection.event_type {
            Arc::new(Int32Array::from(event_types))
        } else {
            self.unwanted.get(&DataType::Int32, rows)
        };
        let unwanted = &mut self.unwanted;
        let wanted = self.projection.bid;
        let columns = vec![
            event_type,
            persons.finish(&self.person_fields, rows, unwanted)?,
            auctions.finish(&self.auction_fields, rows, unwanted)?,
            bids.finish(self.tables, wanted, &self.bid_fields, rows, unwanted)?,
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.split.next += rows as u64;
        self.split.random_state = random.state();
        Ok(batch)
    }
}
