//! The sending side: a link to one peer, and the senders of its channels that slots hold.
//!
//! A slot appends messages to the link's queue; a task encodes and sends them. What a channel
//! has sent and the receiver has not consumed counts against its window, so the queue of a link
//! is bounded by the windows of its channels.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, future, stream};
use millrace_engine::channel::{ChannelId, ChannelSender, Message, SlotWaker};
use millrace_protocol::{
    MAX_MESSAGE_BYTES,
    v1::{self, exchange_client::ExchangeClient},
};
use millrace_types::{ExecutionId, WorkerId};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Code, transport::Endpoint};

use crate::{
    exchange::{OnLinkFailure, edge::EdgeSchema, frame::FrameEncoder},
    transport,
};

/// Peers are deployed one after the other; one that is not there by then is lost.
const CONNECT_PATIENCE: Duration = Duration::from_secs(120);
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The far end of a link.
#[derive(Debug, Clone)]
pub(crate) struct LinkTarget {
    pub(crate) execution: ExecutionId,
    /// This worker.
    pub(crate) from: WorkerId,
    pub(crate) to: WorkerId,
    /// `host:port`.
    pub(crate) address: String,
}

/// One direction between two workers of one execution. Messages wait in it until it is
/// connected; dropping it closes the call.
pub(crate) struct OutboundLink {
    target: LinkTarget,
    shared: Arc<Shared>,
    on_failure: OnLinkFailure,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

struct Shared {
    channels: Vec<Channel>,
    queue: Mutex<VecDeque<(usize, Message)>>,
    filled: Notify,
    /// Set with the first failure: senders then have room for ever and throw away what they get,
    /// so that slots on their way out are not held up.
    broken: AtomicBool,
}

struct Channel {
    id: ChannelId,
    edge: EdgeSchema,
    window: i64,
    /// Bytes sent and not yet consumed.
    outstanding: AtomicI64,
    /// The producing slot found no room and waits to be woken.
    waiting: AtomicBool,
    producer: OnceLock<SlotWaker>,
}

impl OutboundLink {
    /// `window` is what a channel may have under way, in bytes.
    pub(crate) fn new(
        target: LinkTarget,
        channels: Vec<(ChannelId, EdgeSchema)>,
        window: usize,
        on_failure: OnLinkFailure,
    ) -> Self {
        let channels = channels
            .into_iter()
            .map(|(id, edge)| Channel {
                id,
                edge,
                window: i64::try_from(window).unwrap_or(i64::MAX),
                outstanding: AtomicI64::new(0),
                waiting: AtomicBool::new(false),
                producer: OnceLock::new(),
            })
            .collect();
        OutboundLink {
            target,
            shared: Arc::new(Shared {
                channels,
                queue: Mutex::default(),
                filled: Notify::new(),
                broken: AtomicBool::new(false),
            }),
            on_failure,
            task: Mutex::default(),
        }
    }

    /// Connects in the background, again and again until the peer has deployed the execution.
    pub(crate) fn connect(&self) {
        let (link, target) = (Arc::clone(&self.shared), self.target.clone());
        let on_failure = Arc::clone(&self.on_failure);
        let task = tokio::spawn(async move {
            let peer = format!("worker {} at {}", target.to, target.address);
            // A panic must not leave slots waiting for credit that never comes.
            let run = AbortOnDropHandle::new(tokio::spawn(run(Arc::clone(&link), target)));
            let reason = match run.await {
                Ok(reason) => reason,
                Err(error) => format!("the task that sends failed: {error}"),
            };
            link.give_up();
            on_failure(format!("the connection to {peer} is gone: {reason}"));
        });
        *self.task.lock() = Some(AbortOnDropHandle::new(task));
    }

    /// The sending end of a channel of this link; `producer` is woken when room returns.
    pub(crate) fn sender(&self, channel: ChannelId, producer: SlotWaker) -> Option<RemoteSender> {
        let index = self
            .shared
            .channels
            .iter()
            .position(|other| other.id == channel)?;
        // Set once: a channel has one producer.
        let _ = self.shared.channels[index].producer.set(producer);
        Some(RemoteSender {
            link: Arc::clone(&self.shared),
            index,
        })
    }

    /// Lets slots that wait for room run on; what they send is thrown away.
    pub(crate) fn give_up(&self) {
        self.shared.give_up();
    }
}

impl fmt::Debug for OutboundLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundLink")
            .field("channels", &self.shared.channels.len())
            .field("queued", &self.shared.queue.lock().len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn give_up(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.queue.lock().clear();
        for producer in self
            .channels
            .iter()
            .filter_map(|channel| channel.producer.get())
        {
            producer.wake();
        }
    }

    fn credit(&self, index: usize, bytes: u64) {
        let channel = &self.channels[index];
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = channel.outstanding.fetch_sub(bytes, Ordering::SeqCst);
        if before.saturating_sub(bytes) < channel.window
            && channel.waiting.swap(false, Ordering::SeqCst)
            && let Some(producer) = channel.producer.get()
        {
            producer.wake();
        }
    }

    async fn next(&self) -> (usize, Message) {
        loop {
            let message = self.queue.lock().pop_front();
            if let Some(message) = message {
                return message;
            }
            self.filled.notified().await;
        }
    }
}

/// The sending end of a channel to another worker.
#[derive(Clone)]
pub(crate) struct RemoteSender {
    link: Arc<Shared>,
    index: usize,
}

impl ChannelSender for RemoteSender {
    fn has_room(&self) -> bool {
        let channel = &self.link.channels[self.index];
        let room = || {
            channel.outstanding.load(Ordering::SeqCst) < channel.window
                || self.link.broken.load(Ordering::SeqCst)
        };
        if room() {
            return true;
        }
        channel.waiting.store(true, Ordering::SeqCst);
        // Credit that came in between has found nobody waiting.
        room()
    }

    fn send(&mut self, message: Message) {
        if self.link.broken.load(Ordering::SeqCst) {
            return;
        }
        let bytes = i64::try_from(message.bytes()).unwrap_or(i64::MAX);
        self.link.channels[self.index]
            .outstanding
            .fetch_add(bytes, Ordering::SeqCst);
        self.link.queue.lock().push_back((self.index, message));
        self.link.filled.notify_one();
    }
}

/// Runs the link until it breaks; returns why.
async fn run(link: Arc<Shared>, target: LinkTarget) -> String {
    let give_up_at = tokio::time::Instant::now() + CONNECT_PATIENCE;
    loop {
        match attempt(&link, &target).await {
            Ended::Broken(reason) => return reason,
            Ended::NotYet(reason) if tokio::time::Instant::now() >= give_up_at => {
                return format!("{reason}, for {} s", CONNECT_PATIENCE.as_secs());
            }
            Ended::NotYet(reason) => {
                tracing::debug!(peer = %target.to, reason, "a peer is not reachable yet");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

enum Ended {
    /// Nothing was sent yet: trying again is safe.
    NotYet(String),
    Broken(String),
}

async fn attempt(link: &Arc<Shared>, target: &LinkTarget) -> Ended {
    let endpoint = match Endpoint::from_shared(format!("http://{}", target.address)) {
        Ok(endpoint) => transport::tuned(endpoint),
        Err(error) => return Ended::Broken(format!("its address is not valid: {error}")),
    };
    let connection = match endpoint.connect().await {
        Ok(connection) => connection,
        Err(error) => return Ended::NotYet(transport::describe(&error)),
    };
    let (accept, accepted) = watch::channel(false);
    let over = CancellationToken::new();
    // The connection keeps the stream of frames: it must end with this attempt.
    let _over = over.clone().drop_guard();
    let failure = Arc::new(Mutex::new(None));
    let frames = frames(
        Arc::clone(link),
        target,
        accepted,
        over.clone(),
        Arc::clone(&failure),
    )
    .take_until(over.clone().cancelled_owned());
    let mut client = ExchangeClient::new(connection).max_encoding_message_size(MAX_MESSAGE_BYTES);
    let mut credits = match client.open(frames).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let reason = transport::describe_status(&status);
            return match status.code() {
                // Not deployed there yet, or still with the execution before.
                Code::Unavailable => Ended::NotYet(reason),
                _ => Ended::Broken(reason),
            };
        }
    };
    // From here on frames are on their way, so nothing can be repeated.
    let _ = accept.send(true);
    let reason = loop {
        let credit = tokio::select! {
            credit = credits.message() => credit,
            () = over.cancelled() => {
                let reason = failure.lock().take();
                break reason.unwrap_or_else(|| "its messages could not be encoded".to_owned());
            }
        };
        match credit {
            Ok(Some(credit)) => {
                let id = credited_channel(&credit);
                match link.channels.iter().position(|channel| channel.id == id) {
                    Some(index) => link.credit(index, credit.bytes),
                    None => {
                        break format!("it gave credit for a channel that is not there: {id:?}");
                    }
                }
            }
            Ok(None) => break "it closed the connection".to_owned(),
            Err(status) => break transport::describe_status(&status),
        }
    };
    Ended::Broken(reason)
}

fn credited_channel(credit: &v1::Credit) -> ChannelId {
    ChannelId {
        node: millrace_dataflow::NodeId(credit.node),
        input: credit.input,
        from: credit.from_subtask,
        to: credit.to_subtask,
    }
}

/// The hello, then (once the peer has accepted it) everything that is queued.
fn frames(
    link: Arc<Shared>,
    target: &LinkTarget,
    mut accepted: watch::Receiver<bool>,
    over: CancellationToken,
    failure: Arc<Mutex<Option<String>>>,
) -> impl Stream<Item = v1::Frame> + Send + 'static {
    let hello = v1::Frame {
        execution_id: target.execution.to_string(),
        from_worker: target.from.to_string(),
        ..v1::Frame::default()
    };
    let data = async move {
        // An error means that the attempt is over, and the stream with it.
        let open = accepted.wait_for(|accepted| *accepted).await.is_ok();
        stream::unfold((link, None), move |(link, encoder)| {
            let (over, failure) = (over.clone(), Arc::clone(&failure));
            async move {
                if !open {
                    return None;
                }
                match next_frames(&link, encoder).await {
                    Ok((frames, encoder)) => Some((stream::iter(frames), (link, Some(encoder)))),
                    Err(error) => {
                        *failure.lock() = Some(error.to_string());
                        over.cancel();
                        None
                    }
                }
            }
        })
        .flatten()
    };
    stream::once(future::ready(hello)).chain(stream::once(data).flatten())
}

async fn next_frames(
    link: &Shared,
    encoder: Option<FrameEncoder>,
) -> Result<(Vec<v1::Frame>, FrameEncoder), crate::exchange::FrameError> {
    let mut encoder = match encoder {
        Some(encoder) => encoder,
        None => FrameEncoder::new()?,
    };
    let (index, message) = link.next().await;
    let channel = &link.channels[index];
    let frames = encoder.encode(channel.id, &channel.edge, message)?;
    Ok((frames, encoder))
}
