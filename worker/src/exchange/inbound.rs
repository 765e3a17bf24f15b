//! The receiving side: the Exchange service, which hands frames to the queues of the slots and
//! sends credit back as they are consumed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, stream};
use millrace_engine::channel::{ChannelId, ChannelQueue};
use millrace_protocol::v1::{self, exchange_server::Exchange};
use millrace_types::{ExecutionId, WorkerId};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    exchange::{
        OnLinkFailure,
        edge::EdgeSchema,
        frame::{channel_of, decode},
    },
    transport,
};

/// Credit goes back in portions of at least this; far below the least window of a channel, so
/// that a portion held back never stops a sender.
const CREDIT_PORTION: i64 = 16 << 10;
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How often over its capacity a queue may be filled before its sender is taken to ignore credit.
const OVERDRAFT: usize = 4;

/// A channel that arrives from another worker.
#[derive(Debug, Clone)]
pub(crate) struct InboundChannel {
    pub(crate) queue: Arc<ChannelQueue>,
    pub(crate) edge: EdgeSchema,
}

/// What an execution expects from its peers.
pub(crate) struct InboundExecution {
    execution: ExecutionId,
    peers: BTreeMap<WorkerId, Arc<Peer>>,
    /// Peers whose call was accepted: each may call once.
    seen: Mutex<HashSet<WorkerId>>,
    on_failure: OnLinkFailure,
    closed: CancellationToken,
}

struct Peer {
    worker: WorkerId,
    channels: Vec<Channel>,
    index: HashMap<ChannelId, usize>,
    /// Channels with a portion of credit to send.
    due: Mutex<Vec<usize>>,
    due_changed: Notify,
}

struct Channel {
    id: ChannelId,
    queue: Arc<ChannelQueue>,
    edge: EdgeSchema,
    /// Credit to give back, in the sender's count.
    pending: AtomicI64,
}

impl InboundExecution {
    /// `channels` of each peer; `on_failure` is called when a peer's call breaks.
    pub(crate) fn new(
        execution: ExecutionId,
        channels: BTreeMap<WorkerId, Vec<(ChannelId, InboundChannel)>>,
        on_failure: OnLinkFailure,
    ) -> Arc<Self> {
        let peers = channels
            .into_iter()
            .map(|(worker, channels)| (worker, Peer::new(worker, channels)))
            .collect();
        Arc::new(InboundExecution {
            execution,
            peers,
            seen: Mutex::default(),
            on_failure,
            closed: CancellationToken::new(),
        })
    }
}

impl fmt::Debug for InboundExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundExecution")
            .field("execution", &self.execution)
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

impl Peer {
    fn new(worker: WorkerId, channels: Vec<(ChannelId, InboundChannel)>) -> Arc<Self> {
        let index = channels
            .iter()
            .enumerate()
            .map(|(index, (id, _))| (*id, index))
            .collect();
        let peer = Arc::new(Peer {
            worker,
            channels: channels
                .into_iter()
                .map(|(id, channel)| Channel {
                    id,
                    queue: channel.queue,
                    edge: channel.edge,
                    pending: AtomicI64::new(0),
                })
                .collect(),
            index,
            due: Mutex::default(),
            due_changed: Notify::new(),
        });
        for (index, channel) in peer.channels.iter().enumerate() {
            // Weak: the queue holds the callback, and the peer the queue.
            let peer = Arc::downgrade(&peer);
            channel.queue.on_consumed(Box::new(move |bytes| {
                if let Some(peer) = peer.upgrade() {
                    peer.give_back(index, i64::try_from(bytes).unwrap_or(i64::MAX));
                }
            }));
        }
        peer
    }

    fn give_back(&self, index: usize, bytes: i64) {
        let before = self.channels[index]
            .pending
            .fetch_add(bytes, Ordering::AcqRel);
        if before < CREDIT_PORTION && before + bytes >= CREDIT_PORTION {
            self.due.lock().push(index);
            self.due_changed.notify_one();
        }
    }

    async fn next_credit(&self) -> v1::Credit {
        loop {
            let index = self.due.lock().pop();
            let Some(index) = index else {
                self.due_changed.notified().await;
                continue;
            };
            let channel = &self.channels[index];
            let bytes = channel.pending.swap(0, Ordering::AcqRel);
            if bytes > 0 {
                return v1::Credit {
                    node: channel.id.node.0,
                    input: channel.id.input,
                    from_subtask: channel.id.from,
                    to_subtask: channel.id.to,
                    bytes: bytes as u64,
                };
            }
            // Corrections have eaten it up; it comes back with what is consumed next.
            channel.pending.fetch_add(bytes, Ordering::AcqRel);
        }
    }

    /// Hands a frame to its queue.
    fn accept(&self, frame: v1::Frame) -> Result<(), String> {
        let id = channel_of(&frame);
        let Some(index) = self.index.get(&id).copied() else {
            return Err(format!("it sent to a channel that is not there: {id:?}"));
        };
        let channel = &self.channels[index];
        let limit = channel.queue.capacity().saturating_mul(OVERDRAFT);
        let limit = limit.saturating_add(millrace_protocol::MAX_MESSAGE_BYTES);
        if channel.queue.queued_bytes() > limit {
            return Err(format!("it sends without credit on channel {id:?}"));
        }
        let charged = i64::try_from(frame.credit_bytes).unwrap_or(i64::MAX);
        let message = decode(frame, &channel.edge).map_err(|error| error.to_string())?;
        // The queue gives back what the message counts here, which after the way over the wire
        // may not be what it counted at the sender: settle the difference at once.
        let counted = i64::try_from(message.bytes()).unwrap_or(i64::MAX);
        if charged != counted {
            self.give_back(index, charged.saturating_sub(counted));
        }
        channel.queue.push(message);
        Ok(())
    }
}

/// Knows the execution that this worker runs.
#[derive(Debug, Default)]
pub(crate) struct ExchangeHub {
    current: Mutex<Option<Arc<InboundExecution>>>,
}

impl ExchangeHub {
    /// From now on peers may call for this execution; calls of the former one end.
    pub(crate) fn set(&self, execution: Option<Arc<InboundExecution>>) {
        let former = std::mem::replace(&mut *self.current.lock(), execution);
        if let Some(former) = former {
            former.closed.cancel();
        }
    }

    fn admit(&self, hello: &v1::Frame) -> Result<(Arc<InboundExecution>, Arc<Peer>), Status> {
        let execution: ExecutionId = hello
            .execution_id
            .parse()
            .map_err(|error| Status::invalid_argument(format!("hello frame: {error}")))?;
        let worker: WorkerId = hello
            .from_worker
            .parse()
            .map_err(|error| Status::invalid_argument(format!("hello frame: {error}")))?;
        let current = self.current.lock().clone();
        let Some(current) = current.filter(|current| current.execution == execution) else {
            return Err(Status::unavailable(format!(
                "execution {execution} is not deployed on this worker"
            )));
        };
        let Some(peer) = current.peers.get(&worker).cloned() else {
            return Err(Status::permission_denied(format!(
                "worker {worker} has no part in execution {execution}"
            )));
        };
        if !current.seen.lock().insert(worker) {
            return Err(Status::already_exists(format!(
                "worker {worker} has called for execution {execution} before, and a broken call is not resumed"
            )));
        }
        Ok((current, peer))
    }
}

/// The Exchange service of a worker.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeService {
    hub: Arc<ExchangeHub>,
}

impl ExchangeService {
    pub(crate) fn new(hub: Arc<ExchangeHub>) -> Self {
        ExchangeService { hub }
    }
}

type Credits = Pin<Box<dyn Stream<Item = Result<v1::Credit, Status>> + Send>>;

#[tonic::async_trait]
impl Exchange for ExchangeService {
    type OpenStream = Credits;

    async fn open(
        &self,
        request: Request<Streaming<v1::Frame>>,
    ) -> Result<Response<Credits>, Status> {
        let mut frames = request.into_inner();
        let hello = tokio::time::timeout(HELLO_TIMEOUT, frames.message())
            .await
            .map_err(|_| Status::deadline_exceeded("no hello frame came"))??
            .ok_or_else(|| Status::invalid_argument("the call ended before its hello frame"))?;
        let (execution, peer) = self.hub.admit(&hello)?;

        let (end, ended) = mpsc::channel(1);
        {
            // Detached: it has to tell of a broken call even when the call's own future is gone.
            // It ends with the call or with the execution.
            let (execution, peer) = (Arc::clone(&execution), Arc::clone(&peer));
            tokio::spawn(async move {
                let receive =
                    AbortOnDropHandle::new(tokio::spawn(receive(Arc::clone(&peer), frames)));
                let reason = tokio::select! {
                    outcome = receive => outcome.unwrap_or_else(|error| format!("the task that receives failed: {error}")),
                    () = execution.closed.cancelled() => {
                        let _ = end.send(Status::cancelled("the execution has ended on this worker")).await;
                        return;
                    }
                };
                (execution.on_failure)(format!(
                    "the connection from worker {} is gone: {reason}",
                    peer.worker
                ));
                // The peer fails as well, or is gone already.
                let _ = end.send(Status::aborted(reason)).await;
            });
        }
        let credits = stream::unfold((peer, ended), |(peer, mut ended)| async move {
            let item = tokio::select! {
                credit = peer.next_credit() => Ok(credit),
                status = ended.recv() => Err(status?),
            };
            Some((item, (peer, ended)))
        });
        Ok(Response::new(Box::pin(credits)))
    }
}

/// Takes frames until the call breaks; returns why.
async fn receive(peer: Arc<Peer>, mut frames: Streaming<v1::Frame>) -> String {
    loop {
        match frames.message().await {
            Ok(Some(frame)) => {
                if let Err(reason) = peer.accept(frame) {
                    return reason;
                }
            }
            Ok(None) => return "it closed the connection".to_owned(),
            Err(status) => return transport::describe_status(&status),
        }
    }
}
