//! Runs one script in this process, with slots and RocksDB but without service or network, for
//! profilers: `cargo run --release -p millrace-engine --example profile_script -- FILE.sql 2`.
//! `${EVENTS}` in the script is taken from the environment. Checkpoints every 10 s are persisted
//! locally and not uploaded.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool that measures reads the clock and prints"
)]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime},
};

use arrow::array::RecordBatch;
use millrace_connectors::catalog::Connectors;
use millrace_dataflow::RowKind;
use millrace_engine::{
    Clock, RestoredState,
    channel::{BarrierInfo, SlotWaker},
    slot::SlotHandle,
    slot_builder::{SlotBuilder, SlotConfig},
    slot_event::{SlotCommand, SlotEvents, SlotFailure, SnapshotTimings},
};
use millrace_sql::CompileOptions;
use millrace_state::{FrozenSnapshot, OperatorStateItem, SlotStore, Spill, StateBudget};
use millrace_types::CheckpointId;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

enum Told {
    Snapshot(u32, FrozenSnapshot, SnapshotTimings),
    Drained,
    Finished,
    Failed(SlotFailure),
}

struct Events(mpsc::Sender<Told>);

impl Events {
    fn tell(&self, told: Told) {
        // The receiver only goes away at exit.
        let _ = self.0.send(told);
    }
}

impl SlotEvents for Events {
    fn snapshot_taken(
        &self,
        subtask: u32,
        _barrier: BarrierInfo,
        keyed: FrozenSnapshot,
        _operator_state: Vec<OperatorStateItem>,
        timings: SnapshotTimings,
    ) {
        self.tell(Told::Snapshot(subtask, keyed, timings));
    }
    fn spilled(&self, _subtask: u32, spill: Spill, waker: SlotWaker) {
        std::thread::spawn(move || {
            if let Err(error) = spill.write() {
                eprintln!("state could not be written: {error}");
            }
            waker.wake();
        });
    }
    fn committed(&self, _subtask: u32, _checkpoint: CheckpointId) {}
    fn drained(&self, _subtask: u32) {
        self.tell(Told::Drained);
    }
    fn finished(&self, _subtask: u32) {
        self.tell(Told::Finished);
    }
    fn failed(&self, failure: SlotFailure) {
        self.tell(Told::Failed(failure));
    }
    fn output_rows(&self, table: &str, _: u32, rows: &RecordBatch, _: Option<&[RowKind]>) {
        println!("{table}: {} rows", rows.num_rows());
    }
}

struct WallClock(Instant);

impl Clock for WallClock {
    fn now_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |at| at.as_millis() as i64)
    }
    fn monotonic_nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or(f64::NAN)
    };
    (ticks(11) + ticks(12)) / 100.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let script: PathBuf = args.next().ok_or("give a script")?.into();
    let parallelism: u32 = args.next().unwrap_or_else(|| "1".into()).parse()?;
    let events: u64 = std::env::var("EVENTS")
        .unwrap_or_else(|_| "5000000".into())
        .parse()?;
    let sql = std::fs::read_to_string(&script)?.replace("${EVENTS}", &events.to_string());
    let mut options = CompileOptions::new(Connectors::shared());
    options.parallelism = parallelism;
    let compiled = millrace_sql::compile(&sql, &options).map_err(|errors| {
        errors
            .iter()
            .map(|error| error.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    let dataflow = Arc::new(compiled.dataflow);

    let dir = tempfile::tempdir()?;
    let budget = StateBudget::new(256 << 20);
    let (sender, told) = mpsc::channel();
    let slot_events: Arc<dyn SlotEvents> = Arc::new(Events(sender));
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    let mut builders = Vec::new();
    for subtask in 0..parallelism {
        builders.push(SlotBuilder::new(SlotConfig {
            subtask,
            dataflow: dataflow.clone(),
            clock: clock.clone(),
            queue_bytes: 4 << 20,
            state_budget_bytes: 512 << 20,
            job: "profile".into(),
            execution: "profile".into(),
            restored: Arc::new(RestoredState::default()),
            store: SlotStore::create(&dir.path().join(format!("slot-{subtask}")), &budget)?,
            align: true,
            events: slot_events.clone(),
        }));
    }
    let queues: BTreeMap<_, _> = builders
        .iter()
        .flat_map(|b| b.queues().iter().map(|(id, queue)| (*id, queue.clone())))
        .collect();
    let mut handles: Vec<SlotHandle> = Vec::new();
    let mut slots = Vec::new();
    for builder in builders {
        let senders = builder.local_senders(&queues);
        slots.push(builder.build(senders).map_err(|failure| failure.reason)?);
    }
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    for slot in slots {
        handles.push(slot.start()?);
    }
    let tell = |command: SlotCommand| handles.iter().for_each(|handle| handle.command(command));
    let mut checkpoint = 0;
    let mut next = Duration::from_secs(10);
    let (mut drained, mut finished, mut acks, mut outstanding, mut is_final) =
        (0, 0, 0, false, false);
    while finished < parallelism {
        let due = started.elapsed() >= next || drained == parallelism;
        if due && !outstanding && !is_final {
            is_final = drained == parallelism;
            checkpoint += 1;
            next = started.elapsed() + Duration::from_secs(10);
            outstanding = true;
            acks = 0;
            let barrier = BarrierInfo {
                checkpoint: CheckpointId(checkpoint),
                savepoint: None,
                stop_after: false,
            };
            tell(SlotCommand::TriggerCheckpoint(barrier));
        }
        match told.recv_timeout(Duration::from_millis(100)) {
            Ok(Told::Snapshot(subtask, frozen, timings)) => {
                let at = Instant::now();
                let local =
                    frozen.persist(&dir.path().join(format!("snapshot-{checkpoint}-{subtask}")))?;
                println!(
                    "checkpoint {checkpoint} slot {subtask}: {} MiB, pause {} ms, persist {:?}",
                    local.bytes() >> 20,
                    timings.pause_ms,
                    at.elapsed()
                );
                acks += 1;
                if acks == parallelism {
                    outstanding = false;
                    tell(SlotCommand::CheckpointCompleted {
                        checkpoint: CheckpointId(checkpoint),
                        is_final,
                    });
                }
            }
            Ok(Told::Drained) => drained += 1,
            Ok(Told::Finished) => finished += 1,
            Ok(Told::Failed(failure)) => {
                return Err(format!("{}: {}", failure.operator, failure.reason).into());
            }
            Err(_) => {}
        }
    }
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let millions = events as f64 / 1e6;
    for handle in &handles {
        for m in handle.metrics() {
            println!(
                "slot {} node {:>2} {:<60} rows {:>10} -> {:>10} busy {:>6.2} s, {} state entries, {} late",
                m.subtask,
                m.node,
                dataflow.nodes[m.node as usize]
                    .name
                    .chars()
                    .take(60)
                    .collect::<String>(),
                m.rows_in,
                m.rows_out,
                m.busy_nanos as f64 / 1e9,
                m.state_entries,
                m.late_rows
            );
        }
    }
    println!(
        "{}: {:.3} CPU-s per M events, {:.0} events/s ({wall:.2} s)",
        script.display(),
        cpu / millions,
        events as f64 / wall
    );
    Ok(())
}
