//! What a task over channels does with their first messages, watermarks and barriers.

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use millrace_dataflow::NodeId;
use millrace_types::{CheckpointId, SubtaskMetrics};
use parking_lot::Mutex;

use super::*;
use crate::{
    Batch, Clock, OpenContext, Operator, OperatorError, Output,
    chain::{ChainNode, OutputEdge},
    channel::{ChannelSender, SlotWaker},
};

struct Pass;

impl Operator for Pass {
    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, out: &mut Output) -> Result<(), OperatorError> {
        out.emit(batch);
        Ok(())
    }

    fn snapshot(&mut self, _: CheckpointId, _: &mut OperatorSnapshot) -> Result<(), OperatorError> {
        Ok(())
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

#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl ChannelSender for Sent {
    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, message: Message) {
        let text = match message {
            Message::Batch(batch) => format!("{} rows", batch.len()),
            Message::Watermark(i64::MIN) => "hello".to_owned(),
            Message::Watermark(watermark) => format!("w:{watermark}"),
            Message::Idle => "idle".to_owned(),
            Message::Barrier(barrier) => format!("b:{}", barrier.checkpoint),
            Message::EndOfInput => "end".to_owned(),
        };
        self.0.lock().push(text);
    }
}

struct Bench {
    queues: Vec<Arc<ChannelQueue>>,
    task: ChannelTask,
    sent: Sent,
}

impl Bench {
    fn new(channels: usize) -> Self {
        let queue = || Arc::new(ChannelQueue::new(1 << 20, SlotWaker::default()));
        let queues: Vec<_> = (0..channels).map(|_| queue()).collect();
        let sent = Sent::default();
        let node = ChainNode {
            id: NodeId(0),
            name: "pass".into(),
            operator: Some(Box::new(Pass)),
            children: vec![],
            edges: vec![OutputEdge {
                partitioner: None,
                senders: vec![Box::new(sent.clone())],
            }],
            metrics: SubtaskMetrics::default(),
        };
        let inputs = queues
            .iter()
            .map(|queue| InputChannel::new(0, queue.clone()))
            .collect();
        let chain = Chain::new(vec![node], Arc::new(Still));
        Bench {
            task: ChannelTask::new(inputs, chain, true),
            queues,
            sent,
        }
    }

    /// Puts messages on a channel and steps until nothing happens; what was sent.
    fn after(&mut self, channel: usize, messages: Vec<Message>) -> Vec<String> {
        for message in messages {
            self.queues[channel].push(message);
        }
        while !matches!(self.task.step().unwrap(), Step::Idle) {}
        std::mem::take(&mut self.sent.0.lock())
    }
}

fn rows(count: i64) -> Message {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, false)]);
    let column = Int64Array::from_iter_values(0..count);
    let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap();
    Message::Batch(Batch::inserts(rows))
}

const HELLO: Message = Message::Watermark(i64::MIN);

#[test]
fn nothing_is_processed_until_all_channels_were_heard() {
    let mut bench = Bench::new(3);
    let ahead = vec![HELLO, rows(2), Message::Watermark(50)];
    assert_eq!(bench.after(0, ahead), [""; 0]);
    assert!(!bench.task.has_input(), "it waits for others");
    assert_eq!(bench.after(1, vec![Message::Idle]), [""; 0]);
    // With the last, it is clear that channel 0 alone decides.
    assert_eq!(
        bench.after(2, vec![Message::Idle]),
        ["hello", "2 rows", "w:50"]
    );
    // One that wakes up behind does not hold it back, nor anything else.
    assert_eq!(
        bench.after(1, vec![rows(1), Message::Watermark(40)]),
        ["1 rows"]
    );
    assert_eq!(bench.after(0, vec![Message::Watermark(60)]), ["w:60"]);
}

#[test]
fn idleness_and_the_end_are_passed_on_from_the_start() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.after(0, vec![Message::Idle]), [""; 0]);
    assert_eq!(bench.after(1, vec![Message::Idle]), ["idle", "idle"]);
    let mut bench = Bench::new(2);
    let end = || {
        vec![
            Message::Idle,
            Message::Watermark(i64::MAX),
            Message::EndOfInput,
        ]
    };
    assert_eq!(bench.after(0, end()), [""; 0]);
    assert_eq!(
        bench.after(1, end())[..2],
        ["idle", "idle"],
        "then the end of time"
    );
    assert!(bench.task.is_ended());
}

#[test]
fn a_barrier_holds_its_channel_back_until_the_others_have_it() {
    let barrier = |checkpoint| {
        Message::Barrier(BarrierInfo {
            checkpoint: CheckpointId(checkpoint),
            savepoint: None,
            stop_after: false,
        })
    };
    let mut bench = Bench::new(2);
    bench.after(0, vec![HELLO]);
    assert_eq!(bench.after(1, vec![HELLO]), ["hello"]);
    assert_eq!(
        bench.after(0, vec![rows(1), barrier(1), rows(2)]),
        ["1 rows"]
    );
    assert_eq!(bench.after(1, vec![rows(3)]), ["3 rows"]);
    assert_eq!(bench.after(1, vec![barrier(1)]), ["b:1", "2 rows"]);
    // One that was given up: the next one takes its place.
    assert_eq!(bench.after(0, vec![barrier(2), rows(4)]), [""; 0]);
    assert_eq!(bench.after(1, vec![barrier(3), rows(5)]), ["4 rows"]);
    assert_eq!(bench.after(0, vec![barrier(3)]), ["b:3", "5 rows"]);
}
