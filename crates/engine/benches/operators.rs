//! CPU time of single operators over Nexmark-like bids, without generator, slots or sinks.
//!
//! `cargo bench -p millrace-engine --bench operators [-- NAME]` prints CPU seconds per million
//! rows on one core, and how long a barrier holds the slot up.

#![allow(clippy::print_stdout)]

use std::{fs, sync::Arc};

use anyhow::{Context, Result};
use arrow::{
    array::{
        ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use millrace_dataflow::{
    AggregateCall, AggregateKind, ChangelogMode, GroupAggregateNode, KeyGroupRange, Node, NodeId,
    NodeKind, StateId, TimeDomain, WindowAggregateNode, WindowKind, WindowSource, partial_fields,
};
use millrace_engine::{
    Batch, Clock, Event, OpenContext, OpenTable, Operator, OperatorError, OperatorSnapshot, Output,
    RestoredState, operators::build,
};
use millrace_state::{SlotStore, StateBudget, Table};
use millrace_types::CheckpointId;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROWS: usize = 8_192;
const BATCHES: usize = 1_500;
/// Bids per second of event time.
const RATE: i64 = 92_000;
const MAX_PARALLELISM: u32 = 720;

const AUCTION: usize = 0;
const BIDDER: usize = 1;
const PRICE: usize = 2;
const CHANNEL: usize = 3;
const DAY: usize = 4;
const TIME: usize = 5;
const RANKS: [usize; 3] = [6, 7, 8];

fn main() -> Result<()> {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let bids = Bids::new();
    for (name, nodes) in cases(&bids.schema) {
        if only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
        {
            run(name, &nodes, &bids)?;
        }
    }
    Ok(())
}

/// All bids of a run, made beforehand.
struct Bids {
    schema: SchemaRef,
    batches: Vec<(RecordBatch, i64)>,
}

impl Bids {
    fn new() -> Self {
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Arc::new(Schema::new(vec![
            Field::new("auction", DataType::Int64, false),
            Field::new("bidder", DataType::Int64, false),
            Field::new("price", DataType::Int64, false),
            Field::new("channel", DataType::Utf8, false),
            Field::new("day", DataType::Utf8, false),
            Field::new("time", time, false),
            Field::new("rank1", DataType::Boolean, false),
            Field::new("rank2", DataType::Boolean, false),
            Field::new("rank3", DataType::Boolean, false),
        ]));
        let mut random = 1u64;
        let batches = (0..BATCHES)
            .map(|batch| make_batch(&schema, (batch * ROWS) as i64, &mut random))
            .collect();
        Bids { schema, batches }
    }
}

fn make_batch(schema: &SchemaRef, first: i64, random: &mut u64) -> (RecordBatch, i64) {
    let mut below = |bound: i64| {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        (*random >> 11) as i64 % bound
    };
    let (mut auctions, mut bidders, mut prices) = (Vec::new(), Vec::new(), Vec::new());
    let (mut channels, mut times) = (Vec::new(), Vec::new());
    for bid in first..first + ROWS as i64 {
        let (last_auction, last_person) = (bid * 3 / 46, bid / 46);
        auctions.push(if below(2) > 0 {
            last_auction / 100 * 100
        } else {
            (last_auction - 100).max(0) + below(111)
        });
        bidders.push(if below(4) > 0 {
            last_person / 100 * 100 + 1
        } else {
            (last_person - 1_000).max(0) + below(1_010)
        });
        prices.push((10f64.powf(below(6_000_000) as f64 / 1e6) * 100.0) as i64);
        channels.push(if below(2) > 0 {
            ["Google", "Facebook", "Baidu", "Apple"][below(4) as usize].to_owned()
        } else {
            format!("channel-{}", below(10_000))
        });
        times.push(bid * 1_000 / RATE);
    }
    let latest = times.last().copied().unwrap_or(0);
    let rank = |test: fn(i64) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from_iter(
            prices.iter().map(|price| Some(test(*price))),
        ))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(auctions)),
        Arc::new(Int64Array::from(bidders)),
        Arc::new(Int64Array::from(prices.clone())),
        Arc::new(StringArray::from(channels)),
        Arc::new(StringArray::from(vec!["2026-01-01"; ROWS])),
        Arc::new(TimestampMillisecondArray::from(times)),
        rank(|price| price < 10_000),
        rank(|price| (10_000..1_000_000).contains(&price)),
        rank(|price| price >= 1_000_000),
    ];
    let rows = RecordBatch::try_new(Arc::clone(schema), columns);
    (
        rows.unwrap_or_else(|_| RecordBatch::new_empty(Arc::clone(schema))),
        latest - 4_000,
    )
}

fn call(
    kind: AggregateKind,
    arg: Option<usize>,
    distinct: bool,
    filter: Option<usize>,
) -> AggregateCall {
    AggregateCall {
        meaning: format!("{kind:?} {arg:?} {distinct} {filter:?}"),
        output: Field::new("x", DataType::Int64, true),
        kind,
        args: arg.into_iter().collect(),
        distinct,
        filter,
    }
}

/// Total and by rank.
fn ranked(kind: AggregateKind, arg: Option<usize>, distinct: bool) -> Vec<AggregateCall> {
    let filters = [None].into_iter().chain(RANKS.map(Some));
    filters
        .map(|filter| call(kind.clone(), arg, distinct, filter))
        .collect()
}

fn cases(input: &SchemaRef) -> Vec<(&'static str, Vec<Node>)> {
    let count = || vec![call(AggregateKind::CountStar, None, false, None)];
    let tumble = WindowKind::Tumble {
        size: 10_000,
        offset: 0,
    };
    let hop = WindowKind::Hop {
        size: 10_000,
        slide: 2_000,
        offset: 0,
    };
    let session = WindowKind::Session { gap: 10_000 };
    let distincts = || {
        let mut calls = ranked(AggregateKind::CountStar, None, false);
        calls.extend(ranked(AggregateKind::Count, Some(BIDDER), true));
        calls.extend(ranked(AggregateKind::Count, Some(AUCTION), true));
        calls
    };
    let prices = || {
        let mut calls = ranked(AggregateKind::CountStar, None, false);
        for kind in [
            AggregateKind::Min,
            AggregateKind::Max,
            AggregateKind::Avg,
            AggregateKind::Sum,
        ] {
            calls.push(call(kind, Some(PRICE), false, None));
        }
        calls
    };
    let one = |node| vec![node];
    let event = TimeDomain::Event;
    vec![
        (
            "tumble count by auction",
            one(window(input, tumble, event, vec![AUCTION], count(), 1)),
        ),
        (
            "hop count by auction",
            one(window(input, hop, event, vec![AUCTION], count(), 1)),
        ),
        (
            "hop count by auction, two phases",
            vec![
                window(input, hop, event, vec![AUCTION], count(), 0),
                window(input, hop, event, vec![AUCTION], count(), 2),
            ],
        ),
        (
            "q11 sessions by bidder",
            one(window(input, session, event, vec![BIDDER], count(), 1)),
        ),
        (
            "q12 processing time",
            one(window(
                input,
                tumble,
                TimeDomain::Processing,
                vec![BIDDER],
                count(),
                1,
            )),
        ),
        (
            "q15 distincts of one key",
            one(group(input, vec![DAY], distincts(), 1)),
        ),
        (
            "q15 in two phases",
            vec![
                group(input, vec![DAY], distincts(), 0),
                group(input, vec![DAY], distincts(), 2),
            ],
        ),
        (
            "q16 distincts by channel",
            one(group(input, vec![CHANNEL, DAY], distincts(), 1)),
        ),
        (
            "q16 in two phases",
            vec![
                group(input, vec![CHANNEL, DAY], distincts(), 0),
                group(input, vec![CHANNEL, DAY], distincts(), 2),
            ],
        ),
        (
            "q17 prices by auction",
            one(group(input, vec![AUCTION, DAY], prices(), 1)),
        ),
        (
            "distinct bidders",
            one(group(input, vec![BIDDER], Vec::new(), 1)),
        ),
    ]
}

/// The output of a phase: 0 local, 1 single, 2 global.
fn schema_of(
    input: &SchemaRef,
    keys: &[usize],
    calls: &[AggregateCall],
    phase: u8,
    slice: bool,
    last: &[Field],
) -> SchemaRef {
    let mut fields: Vec<Field> = keys.iter().map(|key| input.field(*key).clone()).collect();
    if phase == 0 {
        if slice {
            fields.push(Field::new("$slice_end", DataType::Int64, false));
        }
        for call in calls {
            fields.extend(partial_fields(call, input));
        }
    } else {
        fields.extend(calls.iter().map(|call| call.output.clone()));
        fields.extend(last.iter().cloned());
    }
    Arc::new(Schema::new(fields))
}

fn node(kind: NodeKind, schema: SchemaRef) -> Node {
    Node {
        id: NodeId(1),
        name: "benchmark".into(),
        kind,
        inputs: Vec::new(),
        schema,
        mode: ChangelogMode::Append,
        time_column: None,
    }
}

fn window(
    input: &SchemaRef,
    kind: WindowKind,
    domain: TimeDomain,
    keys: Vec<usize>,
    aggregates: Vec<AggregateCall>,
    phase: u8,
) -> Node {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let last = ["window_start", "window_end", "window_time"]
        .map(|name| Field::new(name, time.clone(), false));
    let schema = schema_of(input, &keys, &aggregates, phase, true, &last);
    let aggregate = Arc::new(WindowAggregateNode {
        window: WindowSource::Time {
            column: TIME,
            kind,
            domain,
            zone: None,
        },
        keys,
        aggregates,
        raw_input: Arc::clone(input),
        state_id: StateId("window-aggregate-1".into()),
    });
    let kind = match phase {
        0 => NodeKind::LocalWindowAggregate(aggregate),
        1 => NodeKind::WindowAggregate(aggregate),
        _ => NodeKind::GlobalWindowAggregate(aggregate),
    };
    node(kind, schema)
}

fn group(input: &SchemaRef, keys: Vec<usize>, aggregates: Vec<AggregateCall>, phase: u8) -> Node {
    let schema = schema_of(input, &keys, &aggregates, phase, false, &[]);
    let aggregate = Arc::new(GroupAggregateNode {
        keys,
        aggregates,
        raw_input: Arc::clone(input),
        input_mode: ChangelogMode::Append,
        ttl_ms: 0,
        per_row: false,
        state_id: StateId("group-aggregate-1".into()),
    });
    let kind = match phase {
        0 => NodeKind::LocalGroupAggregate(aggregate),
        1 => NodeKind::GroupAggregate(aggregate),
        _ => NodeKind::GlobalGroupAggregate(aggregate),
    };
    node(kind, schema)
}

/// Moves with the rows, so that processing-time windows fire.
#[derive(Default)]
struct EventClock(std::sync::atomic::AtomicI64);

impl Clock for EventClock {
    fn now_ms(&self) -> i64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

struct Tables<'a>(&'a SlotStore);

impl OpenTable for Tables<'_> {
    fn open_table(
        &mut self,
        state_id: &StateId,
        name: &'static str,
        ttl_ms: u64,
    ) -> Result<Table, OperatorError> {
        Ok(self.0.table(state_id, name, ttl_ms)?)
    }
}

/// CPU time of this thread.
fn cpu_nanos() -> Result<u64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = stat
        .split_whitespace()
        .next()
        .context("an empty schedstat")?;
    Ok(first.parse()?)
}

fn run(name: &str, nodes: &[Node], bids: &Bids) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = SlotStore::create(&dir.path().join("state"), &StateBudget::new(256 << 20))?;
    let clock = Arc::new(EventClock::default());
    let mut operators = Vec::new();
    let mut schema = Arc::clone(&bids.schema);
    for node in nodes {
        let mut operator = build(node, &[schema])?;
        operator.open(&mut OpenContext {
            subtask: 0,
            parallelism: 1,
            max_parallelism: MAX_PARALLELISM,
            key_groups: KeyGroupRange::of_subtask(0, 1, MAX_PARALLELISM),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            restored: &RestoredState::default(),
            tables: &mut Tables(&store),
        })?;
        schema = Arc::clone(&node.schema);
        operators.push(operator);
    }
    let (mut spent, mut emitted, mut longest, mut barriers) = (0, 0, 0, 0);
    let (mut in_barriers, mut persisting) = (0, 0);
    for (number, (rows, watermark)) in bids.batches.iter().enumerate() {
        clock
            .0
            .store(watermark + 4_000, std::sync::atomic::Ordering::Relaxed);
        let start = cpu_nanos()?;
        emitted += feed(&mut operators, Event::Batch(Batch::inserts(rows.clone())))?;
        for operator in &mut operators {
            if operator
                .next_tick()
                .is_some_and(|tick| tick <= clock.now_ms())
            {
                operator.tick(clock.now_ms(), &mut Output::default())?;
            }
        }
        emitted += feed(&mut operators, Event::Watermark(*watermark))?;
        spent += cpu_nanos()? - start;
        if number % 500 == 499 {
            let start = cpu_nanos()?;
            let mut snapshot = OperatorSnapshot::default();
            let checkpoint = CheckpointId(number as u64);
            for operator in &mut operators {
                operator.snapshot(checkpoint, &mut snapshot)?;
            }
            let frozen = store.freeze(checkpoint, snapshot.deltas);
            let held = cpu_nanos()? - start;
            (in_barriers, longest, barriers) =
                (in_barriers + held, longest.max(held), barriers + 1);
            let start = cpu_nanos()?;
            drop(frozen.persist(&dir.path().join("cut"))?);
            persisting += cpu_nanos()? - start;
        }
    }
    let rows = (bids.batches.len() * ROWS) as f64;
    let per_million = |nanos: u64| nanos as f64 / 1e9 / rows * 1e6;
    let size = operators.iter().map(|operator| operator.state_size());
    let (entries, bytes) = size.fold((0, 0), |(entries, bytes), size| {
        (entries + size.entries, bytes + size.bytes)
    });
    println!(
        "{name:34} {:.4} CPU-s/M rows, barriers {:.4}, persisting {:.4}; {emitted} rows out; longest of {barriers} barriers {:.0} ms; {entries} entries, {:.0} MiB",
        per_million(spent),
        per_million(in_barriers),
        per_million(persisting),
        longest as f64 / 1e6,
        bytes as f64 / (1 << 20) as f64,
    );
    Ok(())
}

/// Runs an event through the chain; the number of rows that come out at its end.
fn feed(operators: &mut [Box<dyn Operator>], event: Event) -> Result<usize> {
    let Some((first, rest)) = operators.split_first_mut() else {
        return Ok(match event {
            Event::Batch(batch) => batch.len(),
            _ => 0,
        });
    };
    let mut out = Output::default();
    match event {
        Event::Batch(batch) => first.process(0, batch, &mut out)?,
        Event::Watermark(watermark) => first.watermark(watermark, &mut out)?,
        Event::Idle => {}
    }
    let mut emitted = 0;
    for event in out.take() {
        emitted += feed(rest, event)?;
    }
    Ok(emitted)
}
