//! What the worker tells the driver: one queue of events, in the order in which they happened,
//! whether or not a driver is attached.
//!
//! Invariants:
//! - An event leaves the queue when it is handed to the stream of an attached driver. Checkpoint
//!   acknowledgements stay on hand until the driver has decided the checkpoint, and are told
//!   again to every driver that attaches before that; a driver takes them as often as they come.
//! - What else is lost with a broken stream is in the Status that opens the next one.
//! - The queue is bounded: output by bytes (see [`crate::output`]), metrics to the newest, the
//!   rest by the number of slots and undecided checkpoints.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream, stream::BoxStream};
use millrace_protocol::v1::{self, worker_event::Event};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tonic::Status;

/// Hard bound of the queue; reached only by a flood of notices.
const MAX_EVENTS: usize = 4_096;

/// The events of a worker.
#[derive(Debug)]
pub(crate) struct EventHub {
    state: Mutex<State>,
    /// Output has left the queue, or the attachment has changed.
    room: Condvar,
    /// The queue or the attachment has changed.
    changed: Notify,
    output_limit: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Queued>,
    output_bytes: usize,
    /// Acknowledgements handed out whose checkpoint is undecided.
    undecided: Vec<Event>,
    /// The number of the newest attachment; streams of older ones end.
    attachment: u64,
    attached: bool,
    /// Nobody has been attached since.
    detached_at: Option<Instant>,
    /// The execution is on its way out: output is dropped, nobody waits.
    output_closed: bool,
    /// The process ends: streams do.
    closed: bool,
}

#[derive(Debug)]
struct Queued {
    event: Event,
    /// What it counts against the limit for output.
    output_bytes: usize,
}

/// What became of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    Queued,
    Dropped,
}

impl EventHub {
    /// At most `output_limit` bytes of output wait for a driver.
    pub(crate) fn new(output_limit: usize) -> Arc<Self> {
        Arc::new(EventHub {
            state: Mutex::default(),
            room: Condvar::new(),
            changed: Notify::new(),
            output_limit,
        })
    }

    /// Adds an event other than output.
    pub(crate) fn publish(&self, event: Event) {
        let mut state = self.state.lock();
        if matches!(event, Event::Metrics(_)) {
            // Without a reader they would be stale when one comes.
            if !state.attached {
                return;
            }
            state
                .queue
                .retain(|queued| !matches!(queued.event, Event::Metrics(_)));
        }
        if state.queue.len() >= MAX_EVENTS {
            let notice = state
                .queue
                .iter()
                .position(|queued| matches!(queued.event, Event::Notice(_)));
            match notice {
                Some(oldest) => drop(state.queue.remove(oldest)),
                None => tracing::warn!("more than {MAX_EVENTS} events wait for a driver"),
            }
        }
        state.queue.push_back(Queued {
            event,
            output_bytes: 0,
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether a driver reads and output would find room now.
    pub(crate) fn wants_output(&self) -> bool {
        let state = self.state.lock();
        state.attached && state.output_bytes < self.output_limit
    }

    /// Adds output, or waits up to `patience` in which nobody is attached for room (blocking the
    /// calling thread), or drops it. Without patience it never waits.
    pub(crate) fn offer_output(
        &self,
        rows: v1::OutputRows,
        bytes: usize,
        patience: Option<Duration>,
    ) -> Offered {
        let mut state = self.state.lock();
        loop {
            if state.output_closed {
                return Offered::Dropped;
            }
            if state.output_bytes < self.output_limit && (state.attached || patience.is_some()) {
                state.output_bytes += bytes;
                state.queue.push_back(Queued {
                    event: Event::Output(rows),
                    output_bytes: bytes,
                });
                drop(state);
                self.changed.notify_waiters();
                return Offered::Queued;
            }
            let Some(patience) = patience else {
                return Offered::Dropped;
            };
            let mut wait = patience;
            if !state.attached {
                let detached_at = *state.detached_at.get_or_insert_with(Instant::now);
                wait = patience.saturating_sub(detached_at.elapsed());
                if wait.is_zero() {
                    return Offered::Dropped;
                }
            }
            self.room.wait_for(&mut state, wait);
        }
    }

    /// The driver knows the fate of this checkpoint and all before it.
    pub(crate) fn decided(&self, execution: &str, checkpoint: u64) {
        let keep = |event: &Event| match checkpoint_of(event) {
            Some((of, id)) => of != execution || id > checkpoint,
            None => true,
        };
        let mut state = self.state.lock();
        state.undecided.retain(keep);
        state.queue.retain(|queued| keep(&queued.event));
    }

    /// Output is dropped from now on, and whoever waits for room goes on.
    pub(crate) fn close_output(&self) {
        self.state.lock().output_closed = true;
        self.room.notify_all();
    }

    /// Forgets everything about former executions.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.output_closed = false;
        state
            .queue
            .retain(|queued| matches!(queued.event, Event::Notice(_)));
        state.output_bytes = 0;
        state.undecided.clear();
        drop(state);
        self.room.notify_all();
    }

    /// Whether the end of this subtask is still waiting behind other events.
    pub(crate) fn holds_finish_of(&self, subtask: u32) -> bool {
        self.state.lock().queue.iter().any(
            |queued| matches!(&queued.event, Event::SubtaskFinished(finished) if finished.subtask == subtask),
        )
    }

    /// Ends the stream of whoever is attached once it has been told everything.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// Whether everything has been handed out.
    pub(crate) fn is_drained(&self) -> bool {
        self.state.lock().queue.is_empty()
    }

    /// Makes the caller the only reader. `status` is told first, then undecided acknowledgements,
    /// then the queue as it fills.
    pub(crate) fn attach(
        self: &Arc<Self>,
        status: v1::Status,
    ) -> BoxStream<'static, Result<v1::WorkerEvent, Status>> {
        let (attachment, repeated) = {
            let mut state = self.state.lock();
            state.attachment += 1;
            state.attached = true;
            state.detached_at = None;
            (state.attachment, state.undecided.clone())
        };
        self.room.notify_all();
        self.changed.notify_waiters();
        let first: VecDeque<Event> = [Event::Status(status)]
            .into_iter()
            .chain(repeated)
            .collect();
        let reader = Reader {
            hub: Arc::clone(self),
            attachment,
            first,
        };
        stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await? {
                Ok(event) => Some((Ok(v1::WorkerEvent { event: Some(event) }), Some(reader))),
                Err(status) => Some((Err(status), None)),
            }
        })
        .boxed()
    }
}

/// The stream of one attachment.
struct Reader {
    hub: Arc<EventHub>,
    attachment: u64,
    first: VecDeque<Event>,
}

impl Reader {
    /// `None`: the worker shuts down.
    async fn next(&mut self) -> Option<Result<Event, Status>> {
        if let Some(event) = self.first.pop_front() {
            return Some(Ok(event));
        }
        loop {
            let changed = self.hub.changed.notified();
            tokio::pin!(changed);
            // Before the look at the queue, so that a change right after it is not missed.
            changed.as_mut().enable();
            {
                let mut state = self.hub.state.lock();
                if state.attachment != self.attachment {
                    return Some(Err(Status::aborted("another driver has attached")));
                }
                if let Some(queued) = state.queue.pop_front() {
                    if queued.output_bytes > 0 {
                        state.output_bytes = state.output_bytes.saturating_sub(queued.output_bytes);
                        self.hub.room.notify_all();
                    }
                    if checkpoint_of(&queued.event).is_some() {
                        state.undecided.push(queued.event.clone());
                    }
                    return Some(Ok(queued.event));
                }
                if state.closed {
                    return None;
                }
            }
            changed.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        if state.attachment == self.attachment {
            state.attached = false;
            state.detached_at = Some(Instant::now());
            drop(state);
            self.hub.room.notify_all();
        }
    }
}

/// The checkpoint that an event answers for, until it is decided.
fn checkpoint_of(event: &Event) -> Option<(&str, u64)> {
    match event {
        Event::CheckpointAck(ack) => Some((&ack.execution_id, ack.checkpoint_id)),
        Event::CheckpointFailed(failed) => Some((&failed.execution_id, failed.checkpoint_id)),
        Event::Status(_)
        | Event::SubtaskDrained(_)
        | Event::SubtaskFinished(_)
        | Event::ExecutionFailed(_)
        | Event::Metrics(_)
        | Event::Output(_)
        | Event::CheckpointCommitted(_)
        | Event::Notice(_) => None,
    }
}

#[cfg(test)]
mod tests;
