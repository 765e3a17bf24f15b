//! Channels between tasks: byte-bounded queues that never block their slot.
//!
//! A producer asks [`ChannelSender::has_room`] before it does work that may send; a send itself
//! always succeeds, so a queue holds at most its capacity plus what one step of the producer
//! emits. Whoever frees room wakes the producing slot, whoever adds a message the consuming one.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_dataflow::NodeId;
use millrace_types::{CheckpointId, SavepointId};
use parking_lot::{Condvar, Mutex};

use crate::Batch;

/// Which channel of a job: an edge and the two subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId {
    /// The consuming node.
    pub node: NodeId,
    /// Which of its inputs.
    pub input: u32,
    /// Producing subtask.
    pub from: u32,
    /// Consuming subtask.
    pub to: u32,
}

/// A checkpoint barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierInfo {
    pub checkpoint: CheckpointId,
    /// Set when the snapshot is to be a savepoint.
    pub savepoint: Option<SavepointId>,
    /// Sources emit nothing after the barrier until the checkpoint is given up.
    pub stop_after: bool,
}

/// What travels on a channel.
#[derive(Debug, Clone)]
pub enum Message {
    Batch(Batch),
    Watermark(i64),
    Idle,
    Barrier(BarrierInfo),
    /// No more rows; barriers may still follow.
    EndOfInput,
}

/// What a message without rows counts, so that a flood of them is bounded too.
const CONTROL_BYTES: usize = 64;

impl Message {
    /// What the message counts against a channel's capacity.
    pub fn bytes(&self) -> usize {
        match self {
            Message::Batch(batch) => batch.bytes().max(CONTROL_BYTES),
            Message::Watermark(_) | Message::Idle | Message::Barrier(_) | Message::EndOfInput => {
                CONTROL_BYTES
            }
        }
    }
}

/// Wakes a parked slot; a wake before the park is not lost.
#[derive(Clone, Default)]
pub struct SlotWaker {
    inner: Arc<WakerInner>,
}

#[derive(Default)]
struct WakerInner {
    woken: Mutex<bool>,
    condition: Condvar,
    canceled: AtomicBool,
}

impl SlotWaker {
    pub fn wake(&self) {
        let mut woken = self.inner.woken.lock();
        if !*woken {
            *woken = true;
            self.inner.condition.notify_one();
        }
    }

    /// The slot is to end: what it waits for within a step is given up.
    pub(crate) fn cancel(&self) {
        self.inner.canceled.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.inner.canceled.load(Ordering::SeqCst)
    }

    /// Waits for a wake, at most this long.
    pub(crate) fn park(&self, limit: Duration) {
        let mut woken = self.inner.woken.lock();
        if !*woken {
            self.inner.condition.wait_for(&mut woken, limit);
        }
        *woken = false;
    }
}

impl fmt::Debug for SlotWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlotWaker")
    }
}

type OnConsumed = Box<dyn Fn(u64) + Send + Sync>;

/// The receiving end of a channel.
pub struct ChannelQueue {
    messages: Mutex<VecDeque<Message>>,
    queued: AtomicUsize,
    capacity: usize,
    consumer: SlotWaker,
    /// The producing slot, when it is in this process.
    producer: OnceLock<SlotWaker>,
    on_consumed: OnceLock<OnConsumed>,
}

impl ChannelQueue {
    /// A queue that asks its producer to pause at `capacity` bytes.
    pub fn new(capacity: usize, consumer: SlotWaker) -> Self {
        ChannelQueue {
            messages: Mutex::new(VecDeque::new()),
            queued: AtomicUsize::new(0),
            capacity,
            consumer,
            producer: OnceLock::new(),
            on_consumed: OnceLock::new(),
        }
    }

    /// Appends a message and wakes the consumer. Never blocks.
    pub fn push(&self, message: Message) {
        self.queued.fetch_add(message.bytes(), Ordering::AcqRel);
        self.messages.lock().push_back(message);
        self.consumer.wake();
    }

    pub fn queued_bytes(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// The capacity given at construction, in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Calls `callback` with the bytes of every consumed message: how a remote producer gets
    /// its credit back. Set once, before the first message.
    pub fn on_consumed(&self, callback: OnConsumed) {
        // A second callback would mean two producers; the first one stays.
        let _ = self.on_consumed.set(callback);
    }

    pub(crate) fn set_producer(&self, waker: SlotWaker) {
        let _ = self.producer.set(waker);
    }

    /// Takes the oldest message: the consuming slot does, and nobody else.
    pub fn pop(&self) -> Option<Message> {
        let message = self.messages.lock().pop_front()?;
        let bytes = message.bytes();
        let before = self.queued.fetch_sub(bytes, Ordering::AcqRel);
        if before >= self.capacity
            && before - bytes < self.capacity
            && let Some(producer) = self.producer.get()
        {
            producer.wake();
        }
        if let Some(callback) = self.on_consumed.get() {
            callback(bytes as u64);
        }
        Some(message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.load(Ordering::Acquire) == 0
    }
}

impl fmt::Debug for ChannelQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelQueue")
            .field("queued", &self.queued_bytes())
            .finish_non_exhaustive()
    }
}

/// The sending end of a channel as the producing slot sees it.
pub trait ChannelSender: Send {
    /// False: back off. When room returns, the producing slot's waker is called.
    fn has_room(&self) -> bool;

    /// Never blocks.
    fn send(&mut self, message: Message);
}

/// Sends within the process by moving the message.
#[derive(Debug)]
pub struct LocalSender {
    queue: Arc<ChannelQueue>,
}

impl LocalSender {
    /// `producer` is woken when the queue has room again.
    pub fn new(queue: Arc<ChannelQueue>, producer: SlotWaker) -> Self {
        queue.set_producer(producer);
        LocalSender { queue }
    }
}

impl ChannelSender for LocalSender {
    fn has_room(&self) -> bool {
        self.queue.queued_bytes() < self.queue.capacity
    }

    fn send(&mut self, message: Message) {
        self.queue.push(message);
    }
}
