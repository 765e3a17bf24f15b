//! A source task over splits that do what a test says, one step at a time.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use arrow::{
    array::TimestampMillisecondArray,
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use datafusion_physical_expr::expressions::Column;
use millrace_connectors::source::{SplitId, SplitState};
use millrace_dataflow::NodeId;
use millrace_types::{CheckpointId, SubtaskMetrics};
use parking_lot::Mutex;

use super::*;
use crate::{
    chain::{ChainNode, OutputEdge},
    channel::{ChannelSender, Message},
};

/// What one poll of a split gives; after the last the split ends.
#[derive(Clone)]
enum Does {
    /// Rows with these times.
    Rows(&'static [i64]),
    Progress,
    Pending,
    Until(i64),
    Fails(&'static str),
}

type Completed = Arc<Mutex<Vec<String>>>;
type Scripts = Arc<Mutex<BTreeMap<String, Vec<Does>>>>;

struct Scripted {
    scripts: Scripts,
    watched: bool,
    /// Listings that do not come about.
    away: Arc<AtomicUsize>,
    /// What was told of complete checkpoints, for sources that want to know.
    completed: Option<Completed>,
    listing: String,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
}

struct ScriptedReader {
    script: Vec<Does>,
    next: usize,
    open: Arc<AtomicUsize>,
}

fn rows(times: &[i64]) -> RecordBatch {
    let column = TimestampMillisecondArray::from(times.to_vec());
    RecordBatch::try_new(schema(), vec![Arc::new(column)]).unwrap()
}

fn time_field() -> Field {
    Field::new(
        "ts",
        DataType::Timestamp(TimeUnit::Millisecond, None),
        false,
    )
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![time_field()]))
}

impl Source for Scripted {
    fn splits(&self, _: u32) -> Result<Vec<SplitState>, ConnectorError> {
        let split = |id: &String| SplitState {
            id: SplitId(id.clone()),
            position: 0.into(),
        };
        let away = self.away.load(Ordering::SeqCst);
        if away > 0 {
            self.away.store(away - 1, Ordering::SeqCst);
            if away > 1 {
                return Ok(Vec::new());
            }
        }
        Ok(self.scripts.lock().keys().map(split).collect())
    }

    fn awaits_splits(&self) -> bool {
        self.away.load(Ordering::SeqCst) > 0
    }

    fn wants_completed(&self) -> bool {
        self.completed.is_some()
    }

    fn completed(&self, splits: &[SplitState]) {
        let text = |split: &SplitState| format!("{}:{}", split.id.0, split.position);
        if let Some(completed) = &self.completed {
            completed.lock().extend(splits.iter().map(text));
        }
    }

    fn listing(&self) -> String {
        self.listing.clone()
    }

    fn discovery_interval_ms(&self) -> Option<u64> {
        (self.watched || self.awaits_splits()).then_some(1)
    }

    fn open(&self, split: &SplitState, _: Waker) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_open.fetch_max(open, Ordering::SeqCst);
        Ok(Box::new(ScriptedReader {
            script: self.scripts.lock()[&split.id.0].clone(),
            next: split.position.as_u64().unwrap() as usize,
            open: self.open.clone(),
        }))
    }
}

impl Drop for ScriptedReader {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SplitReader for ScriptedReader {
    fn poll(&mut self, _: usize, now_ms: i64) -> Result<Polled, ConnectorError> {
        let Some(step) = self.script.get(self.next) else {
            return Ok(Polled::Ended);
        };
        self.next += 1;
        match step {
            Does::Rows(times) => Ok(Polled::Rows(rows(times))),
            Does::Progress => Ok(Polled::Progress),
            Does::Fails(reason) => Err(ConnectorError((*reason).to_owned())),
            Does::Pending => {
                // Until somebody changes the script.
                self.next -= 1;
                Ok(Polled::Pending)
            }
            Does::Until(at) if now_ms < *at => {
                self.next -= 1;
                Ok(Polled::PendingUntil(*at))
            }
            Does::Until(_) => Ok(Polled::Progress),
        }
    }

    fn position(&self) -> serde_json::Value {
        self.next.into()
    }
}

#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl ChannelSender for Sent {
    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, message: Message) {
        let text = match message {
            Message::Batch(batch) => {
                let times = batch.rows.column(0);
                let times: &TimestampMillisecondArray = times.as_any().downcast_ref().unwrap();
                format!("{:?}", times.values().to_vec())
            }
            Message::Watermark(i64::MIN) => "hello".to_owned(),
            Message::Watermark(i64::MAX) => "w:end".to_owned(),
            Message::Watermark(watermark) => format!("w:{watermark}"),
            Message::Idle => "idle".to_owned(),
            Message::Barrier(barrier) => format!("b:{}", barrier.checkpoint),
            Message::EndOfInput => "end".to_owned(),
        };
        self.0.lock().push(text);
    }
}

struct Still;

impl Clock for Still {
    fn now_ms(&self) -> i64 {
        0
    }

    fn monotonic_nanos(&self) -> u64 {
        0
    }
}

struct Bench {
    scripts: Scripts,
    watched: bool,
    away: Arc<AtomicUsize>,
    completed: Option<Completed>,
    listing: &'static str,
    idle_timeout_ms: u64,
    sent: Sent,
    most_open: Arc<AtomicUsize>,
}

impl Bench {
    fn new(scripts: &[(&str, &[Does])]) -> Self {
        let scripts = scripts
            .iter()
            .map(|(id, steps)| ((*id).to_owned(), steps.to_vec()))
            .collect();
        Bench {
            scripts: Arc::new(Mutex::new(scripts)),
            watched: false,
            away: Arc::default(),
            completed: None,
            listing: "here",
            idle_timeout_ms: 0,
            sent: Sent::default(),
            most_open: Arc::default(),
        }
    }

    fn task(&self, restored: &[Vec<u8>]) -> SourceTask {
        self.try_task(restored, 0, 1).unwrap()
    }

    fn try_task(
        &self,
        restored: &[Vec<u8>],
        subtask: u32,
        parallelism: u32,
    ) -> Result<SourceTask, OperatorError> {
        let state_id = StateId("source".into());
        let node = ChainNode {
            id: NodeId(0),
            name: "source".into(),
            operator: None,
            children: vec![],
            edges: vec![OutputEdge {
                partitioner: None,
                senders: vec![Box::new(self.sent.clone())],
            }],
            metrics: SubtaskMetrics::default(),
        };
        let mut snapshot = OperatorSnapshot::default();
        snapshot.list(&state_id, SPLITS, restored.to_vec());
        let config = SourceTaskConfig {
            source: Arc::new(Scripted {
                scripts: self.scripts.clone(),
                watched: self.watched,
                away: self.away.clone(),
                completed: self.completed.clone(),
                listing: self.listing.to_owned(),
                open: Arc::default(),
                most_open: self.most_open.clone(),
            }),
            state_id,
            output: None,
            watermark: Some(WatermarkSpec {
                column: 0,
                expr: ScalarExpr {
                    expr: Arc::new(Column::new("ts", 0)),
                    field: time_field(),
                    text: "ts".into(),
                },
                idle_timeout_ms: self.idle_timeout_ms,
            }),
            subtask,
            parallelism,
            clock: Arc::new(Still),
            waker: SlotWaker::default(),
            dead_letters: None,
        };
        SourceTask::open(
            config,
            Chain::new(vec![node], Arc::new(Still)),
            &RestoredState {
                restored: !restored.is_empty(),
                items: snapshot.items,
            },
        )
    }

    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.sent.0.lock())
    }
}

fn barrier(checkpoint: u64, stop_after: bool) -> BarrierInfo {
    BarrierInfo {
        checkpoint: CheckpointId(checkpoint),
        savepoint: None,
        stop_after,
    }
}

/// Steps until nothing happens.
fn settle(task: &mut SourceTask, now_ms: i64) {
    for _ in 0..1_000 {
        if matches!(task.step(now_ms, true).unwrap(), Step::Idle) {
            return;
        }
    }
    panic!("it never settles");
}

/// The split records of the next barrier.
fn snapshot(task: &mut SourceTask, checkpoint: u64) -> Vec<Vec<u8>> {
    task.trigger(barrier(checkpoint, false));
    let Step::Barrier(_, snapshot) = task.step(0, true).unwrap() else {
        panic!("no barrier")
    };
    snapshot
        .items
        .into_iter()
        .flat_map(|item| item.items)
        .collect()
}

#[test]
fn rows_watermarks_and_the_end() {
    let bench = Bench::new(&[
        (
            "0",
            &[Does::Rows(&[10, 20]), Does::Progress, Does::Rows(&[15, 30])],
        ),
        ("1", &[Does::Rows(&[12])]),
    ]);
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    assert_eq!(
        bench.sent(),
        // 15 may be late, but split 1 had ended by then.
        [
            "hello", "[10, 20]", "[12]", "w:12", "w:20", "[15, 30]", "w:30", "w:end", "end"
        ]
    );
    assert!(task.is_ended());
    // Barriers still pass.
    task.trigger(barrier(1, false));
    assert!(matches!(task.step(0, false).unwrap(), Step::Barrier(..)));
    assert_eq!(bench.sent(), ["b:1"]);
}

#[test]
fn a_subtask_without_splits_says_so_first() {
    let bench = Bench::new(&[("0", &[Does::Rows(&[1])])]);
    let mut task = bench.try_task(&[], 1, 2).unwrap();
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["idle", "idle", "w:end", "end"]);
}

#[test]
fn restored_splits_go_on_where_they_were() {
    let script: &[Does] = &[Does::Rows(&[100]), Does::Rows(&[90, 200]), Does::Pending];
    let bench = Bench::new(&[("0", script), ("1", &[Does::Rows(&[50]), Does::Pending])]);
    let mut task = bench.task(&[]);
    for _ in 0..3 {
        task.step(0, true).unwrap();
    }
    assert_eq!(bench.sent(), ["hello", "[100]", "[50]", "w:50"]);
    let records = snapshot(&mut task, 1);
    bench.sent();
    let mut task = bench.task(&records);
    settle(&mut task, 0);
    // The least of the two first; 90 is behind its split's watermark of before.
    assert_eq!(bench.sent(), ["hello", "w:50", "[90, 200]"]);
    // Each on its own subtask.
    let mut task = bench.try_task(&records, 0, 2).unwrap();
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["hello", "w:100", "[90, 200]", "w:200"]);
}

#[test]
fn a_source_that_is_not_watched_lists_once() {
    let mut bench = Bench::new(&[("0", &[Does::Rows(&[1])])]);
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    let records = snapshot(&mut task, 1);
    bench.sent();
    bench
        .scripts
        .lock()
        .insert("1".into(), vec![Does::Rows(&[2])]);
    settle(&mut bench.task(&records), 0);
    assert_eq!(bench.sent(), ["idle", "idle", "w:end", "end"]);
    // A new version of the job reads another place, in which one name is known.
    bench.listing = "there";
    settle(&mut bench.task(&records), 0);
    assert_eq!(bench.sent(), ["hello", "[2]", "w:2", "w:end", "end"]);
}

#[test]
fn a_watched_source_whose_splits_have_ended_does_not_hold_back_others() {
    let mut bench = Bench::new(&[("0", &[Does::Rows(&[10])])]);
    bench.watched = true;
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["hello", "[10]", "w:10", "idle"]);
    let records = snapshot(&mut task, 1);
    bench.sent();
    let mut task = bench.task(&records);
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["idle", "idle"], "nothing is read again");
    bench
        .scripts
        .lock()
        .insert("1".into(), vec![Does::Rows(&[30]), Does::Rows(&[31])]);
    for _ in 0..200 {
        settle(&mut task, 0);
        if bench.sent.0.lock().len() >= 5 {
            break;
        }
        // The watch is on a thread of its own.
        std::thread::yield_now();
        bench_wait();
    }
    assert_eq!(bench.sent(), ["[30]", "w:30", "[31]", "w:31", "idle"]);
    task.drain();
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["w:end", "end"]);
}

#[expect(clippy::disallowed_methods, reason = "waits for another thread")]
fn bench_wait() {
    std::thread::sleep(Duration::from_millis(10));
}

#[test]
fn idle_splits_let_go_of_the_watermark() {
    let mut bench = Bench::new(&[
        (
            "0",
            &[
                Does::Rows(&[10]),
                Does::Until(9_000),
                Does::Rows(&[25]),
                Does::Pending,
            ],
        ),
        ("1", &[Does::Rows(&[40]), Does::Rows(&[50]), Does::Pending]),
    ]);
    bench.idle_timeout_ms = 100;
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["hello", "[10]", "[40]", "w:10", "[50]"]);
    settle(&mut task, 99);
    assert_eq!(bench.sent(), [""; 0]);
    // Backpressure stops the clock.
    assert!(matches!(task.step(100, false).unwrap(), Step::Idle));
    settle(&mut task, 4_099);
    assert_eq!(bench.sent(), [""; 0]);
    settle(&mut task, 4_100);
    // Both have been idle since 0, but for the pause: the watermark goes to the greatest.
    assert_eq!(bench.sent(), ["w:50", "idle"]);
    // Rows behind it: they come, but do not hold it back.
    settle(&mut task, 9_000);
    assert_eq!(bench.sent(), ["[25]"]);
}

#[test]
fn stopping_after_a_barrier_and_going_on_when_it_is_given_up() {
    let bench = Bench::new(&[("0", &[Does::Rows(&[1]), Does::Rows(&[2]), Does::Rows(&[3])])]);
    let mut task = bench.task(&[]);
    task.step(0, true).unwrap();
    task.step(0, true).unwrap();
    task.trigger(barrier(7, true));
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["hello", "[1]", "w:1", "b:7"]);
    task.aborted(CheckpointId(6));
    settle(&mut task, 0);
    assert_eq!(bench.sent(), [""; 0], "another checkpoint");
    task.aborted(CheckpointId(7));
    // Given up before it is taken: others may wait for it, but nobody stops.
    task.trigger(barrier(8, true));
    task.aborted(CheckpointId(8));
    settle(&mut task, 0);
    assert_eq!(
        bench.sent(),
        ["b:8", "[2]", "w:2", "[3]", "w:3", "w:end", "end"]
    );
}

#[test]
fn a_drained_source_ends_where_it_is() {
    let bench = Bench::new(&[("0", &[Does::Rows(&[1]), Does::Rows(&[2])])]);
    let mut task = bench.task(&[]);
    task.step(0, true).unwrap();
    task.step(0, true).unwrap();
    task.drain();
    settle(&mut task, 0);
    assert_eq!(bench.sent(), ["hello", "[1]", "w:1", "w:end", "end"]);
    let records = snapshot(&mut task, 1);
    bench.sent();
    settle(&mut bench.task(&records), 0);
    assert_eq!(bench.sent(), ["hello", "w:1", "[2]", "w:2", "w:end", "end"]);
}

#[test]
fn many_splits_are_opened_a_few_at_a_time_and_wait_for_each_other() {
    let mut scripts: BTreeMap<String, Vec<Does>> = (0..200)
        .map(|id| (id.to_string(), vec![Does::Rows(&[20])]))
        .collect();
    scripts.insert("99".into(), vec![Does::Rows(&[10])]);
    let bench = Bench::new(&[]);
    *bench.scripts.lock() = scripts;
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    assert_eq!(bench.most_open.load(Ordering::SeqCst), 64);
    let sent = bench.sent();
    assert_eq!(sent.iter().filter(|text| *text == "[20]").count(), 199);
    // No watermark passes by the split whose turn comes last.
    let last = sent.iter().position(|text| text == "[10]").unwrap();
    assert!(
        !sent[..last].iter().any(|text| text.starts_with("w:")),
        "{sent:?}"
    );
}

#[test]
fn failures_name_what_failed() {
    let bench = Bench::new(&[("0", &[Does::Fails("the disk is gone")])]);
    let mut task = bench.task(&[]);
    task.step(0, true).unwrap();
    let error = task.step(0, true).unwrap_err();
    assert_eq!(error.operator, "source");
    assert_eq!(error.error.to_string(), "the disk is gone");
    let newer =
        br#"{"format":2,"id":"0","position":0,"listing":"here","watermark":0,"ended":false}"#
            .to_vec();
    let error = bench.try_task(&[newer], 0, 1).err().unwrap().to_string();
    assert!(error.contains("has format 2"), "{error}");
    let error = bench.try_task(&[b"{".to_vec()], 0, 1).err().unwrap();
    assert!(
        error.to_string().contains("position of a source split"),
        "{error}"
    );
}

/// Steps until the source has sent this much.
fn settle_until_sent(bench: &Bench, task: &mut SourceTask, texts: usize) -> Vec<String> {
    for _ in 0..10_000 {
        settle(task, 0);
        if bench.sent.0.lock().len() >= texts {
            return bench.sent();
        }
        task.config.waker.park(Duration::from_millis(1));
    }
    panic!("only {:?} was sent", bench.sent());
}

#[test]
fn a_source_whose_listing_is_still_to_come_counts_as_active() {
    // Listed at the third time; without a further watch it ends then as usual.
    let bench = Bench::new(&[("0", &[Does::Rows(&[10]), Does::Pending])]);
    bench.away.store(3, Ordering::SeqCst);
    let mut task = bench.task(&[]);
    settle(&mut task, 0);
    assert_eq!(bench.sent.0.lock()[0], "hello");
    // A checkpoint in between holds nothing, and the next start lists anew.
    assert!(snapshot(&mut task, 1).is_empty() || !task.awaiting);
    let sent = settle_until_sent(&bench, &mut task, 4);
    assert_eq!(sent, ["hello", "b:1", "[10]", "w:10"]);
    bench.scripts.lock().clear();
    assert!(task.discovery.is_none());

    // Another subtask has no split: it is idle from then on.
    let bench = Bench::new(&[("0", &[Does::Rows(&[10])])]);
    bench.away.store(2, Ordering::SeqCst);
    let mut other = bench.try_task(&[], 1, 2).unwrap();
    let sent = settle_until_sent(&bench, &mut other, 4);
    assert_eq!(sent, ["hello", "idle", "w:end", "end"]);
}

#[test]
fn a_source_hears_where_a_complete_checkpoint_stood() {
    let script: &[Does] = &[Does::Rows(&[1]), Does::Rows(&[2]), Does::Rows(&[3])];
    let mut bench = Bench::new(&[("0", script)]);
    let completed = Completed::default();
    bench.completed = Some(completed.clone());
    let mut task = bench.task(&[]);
    let told = || std::mem::take(&mut *completed.lock());
    task.step(0, true).unwrap();
    for checkpoint in 1..4 {
        task.step(0, true).unwrap();
        snapshot(&mut task, checkpoint);
    }
    assert_eq!(told(), Vec::<String>::new());
    // The first was given up: the second covers it.
    task.checkpoint_complete(CheckpointId(2)).unwrap();
    assert_eq!(told(), ["0:2"]);
    settle(&mut task, 0);
    assert!(task.is_ended());
    snapshot(&mut task, 4);
    task.checkpoint_complete(CheckpointId(4)).unwrap();
    assert_eq!(told(), ["0:3"]);
}
