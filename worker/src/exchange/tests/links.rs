use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use millrace_dataflow::NodeId;
use millrace_engine::{
    Batch,
    channel::{ChannelId, ChannelQueue, ChannelSender, Message, SlotWaker},
};
use millrace_protocol::v1::exchange_server::ExchangeServer;
use millrace_types::{ExecutionId, WorkerId};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::{
    exchange::{
        EdgeSchema, ExchangeHub, ExchangeService, InboundChannel, InboundExecution, LinkTarget,
        OnLinkFailure, OutboundLink,
    },
    transport,
};

const WINDOW: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

fn channel(to: u32) -> ChannelId {
    ChannelId {
        node: NodeId(1),
        input: 0,
        from: 0,
        to,
    }
}

fn edge() -> EdgeSchema {
    EdgeSchema::new(Arc::new(Schema::new(vec![Field::new(
        "i",
        DataType::Int64,
        false,
    )])))
}

fn batch(start: i64, rows: i64) -> Message {
    let rows = Int64Array::from_iter_values(start..start + rows);
    let rows = RecordBatch::try_new(edge().rows, vec![Arc::new(rows) as ArrayRef]).unwrap();
    Message::Batch(Batch::inserts(rows))
}

/// A receiving worker with two channels from one sender.
struct Receiver {
    hub: Arc<ExchangeHub>,
    address: String,
    queues: Vec<Arc<ChannelQueue>>,
    inbound: Arc<InboundExecution>,
    failures: mpsc::UnboundedReceiver<String>,
    server: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
}

fn reporter() -> (OnLinkFailure, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Arc::new(move |reason| drop(sender.send(reason))), receiver)
}

impl Receiver {
    async fn new(execution: ExecutionId, sender: WorkerId) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let hub = Arc::new(ExchangeHub::default());
        let service = ExchangeServer::new(ExchangeService::new(Arc::clone(&hub)));
        let server = transport::server().add_service(service);
        let server = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let queues: Vec<Arc<ChannelQueue>> = (0..2)
            .map(|_| Arc::new(ChannelQueue::new(WINDOW, SlotWaker::default())))
            .collect();
        let channels = queues
            .iter()
            .zip(0..)
            .map(|(queue, to)| {
                (
                    channel(to),
                    InboundChannel {
                        queue: Arc::clone(queue),
                        edge: edge(),
                    },
                )
            })
            .collect();
        let (on_failure, failures) = reporter();
        let inbound =
            InboundExecution::new(execution, BTreeMap::from([(sender, channels)]), on_failure);
        Receiver {
            hub,
            address,
            queues,
            inbound,
            failures,
            server: AbortOnDropHandle::new(server),
        }
    }

    async fn next(&self, queue: usize) -> Message {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(message) = self.queues[queue].pop() {
                return message;
            }
            assert!(tokio::time::Instant::now() < deadline, "nothing arrived");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

struct Sender {
    link: OutboundLink,
    senders: Vec<crate::exchange::outbound::RemoteSender>,
    failures: mpsc::UnboundedReceiver<String>,
}

fn sender(execution: ExecutionId, from: WorkerId, address: &str) -> Sender {
    let target = LinkTarget {
        execution,
        from,
        to: WorkerId(Uuid::from_u128(99)),
        address: address.to_owned(),
    };
    let (on_failure, failures) = reporter();
    let channels = (0..2).map(|to| (channel(to), edge())).collect();
    let link = OutboundLink::new(target, channels, WINDOW, on_failure);
    let senders = (0..2)
        .map(|to| link.sender(channel(to), SlotWaker::default()).unwrap())
        .collect();
    Sender {
        link,
        senders,
        failures,
    }
}

fn ids() -> (ExecutionId, WorkerId) {
    (
        ExecutionId(Uuid::from_u128(1)),
        WorkerId(Uuid::from_u128(2)),
    )
}

#[tokio::test]
async fn messages_arrive_in_order_and_credit_bounds_what_is_under_way() {
    let (execution, from) = ids();
    let receiver = Receiver::new(execution, from).await;
    receiver.hub.set(Some(Arc::clone(&receiver.inbound)));
    let mut sender = sender(execution, from, &receiver.address);
    sender.link.connect();

    // 8 KB per batch: the window is full after 8 and a bit.
    const ROWS: i64 = 1_000;
    let mut sent = 0;
    while sender.senders[0].has_room() {
        sender.senders[0].send(batch(sent * ROWS, ROWS));
        sent += 1;
    }
    assert_eq!(sent, 9);
    // The other channel has its own.
    assert!(sender.senders[1].has_room());
    sender.senders[1].send(Message::Watermark(5));
    assert!(matches!(receiver.next(1).await, Message::Watermark(5)));
    assert!(!sender.senders[0].has_room(), "nothing was consumed yet");

    let (mut first, mut left) = (sender.senders.remove(0), 300 - sent);
    let sending = tokio::spawn(async move {
        while left > 0 {
            if first.has_room() {
                first.send(batch((300 - left) * ROWS, ROWS));
                left -= 1;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        first.send(Message::EndOfInput);
    });
    let mut received = 0;
    while received < 300 * ROWS {
        match receiver.next(0).await {
            Message::Batch(batch) => {
                let column = batch.rows.column(0).as_primitive::<Int64Type>();
                for value in column.values() {
                    assert_eq!(*value, received);
                    received += 1;
                }
            }
            other => panic!("{other:?}"),
        }
        assert!(receiver.queues[0].queued_bytes() <= WINDOW + 8_000);
    }
    assert!(matches!(receiver.next(0).await, Message::EndOfInput));
    sending.await.unwrap();
}

#[tokio::test]
async fn a_sender_waits_for_a_peer_that_is_not_deployed_yet() {
    let (execution, from) = ids();
    let receiver = Receiver::new(execution, from).await;
    let mut sender = sender(execution, from, &receiver.address);
    sender.link.connect();
    sender.senders[0].send(Message::Watermark(1));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.queues[0].queued_bytes(), 0);
    receiver.hub.set(Some(Arc::clone(&receiver.inbound)));
    assert!(matches!(receiver.next(0).await, Message::Watermark(1)));
}

#[tokio::test]
async fn both_ends_notice_that_the_other_is_gone() {
    let (execution, from) = ids();
    let mut receiver = Receiver::new(execution, from).await;
    receiver.hub.set(Some(Arc::clone(&receiver.inbound)));

    let mut first = sender(execution, from, &receiver.address);
    first.link.connect();
    first.senders[0].send(Message::Idle);
    assert!(matches!(receiver.next(0).await, Message::Idle));
    drop(first.link);
    let reason = timeout(PATIENCE, receiver.failures.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(reason.contains(&from.to_string()), "{reason}");

    // A worker calls once: messages were lost with the first call.
    let mut second = sender(execution, from, &receiver.address);
    second.link.connect();
    let reason = timeout(PATIENCE, second.failures.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(reason.contains("is not resumed"), "{reason}");
    assert!(
        second.senders[0].has_room(),
        "a broken link holds nobody up"
    );
}

#[tokio::test]
async fn a_vanished_receiver_is_named() {
    let (execution, from) = ids();
    let receiver = Receiver::new(execution, from).await;
    receiver.hub.set(Some(Arc::clone(&receiver.inbound)));
    let mut sender = sender(execution, from, &receiver.address);
    sender.link.connect();
    sender.senders[0].send(Message::Idle);
    assert!(matches!(receiver.next(0).await, Message::Idle));
    let address = receiver.address.clone();
    receiver.hub.set(None);
    drop(receiver.server);
    let reason = timeout(PATIENCE, sender.failures.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(reason.contains(&address), "{reason}");
}

#[tokio::test]
async fn strangers_and_wrong_channels_are_refused() {
    let (execution, from) = ids();
    let mut receiver = Receiver::new(execution, from).await;
    receiver.hub.set(Some(Arc::clone(&receiver.inbound)));

    let mut stranger = sender(execution, WorkerId(Uuid::from_u128(3)), &receiver.address);
    stranger.link.connect();
    let reason = timeout(PATIENCE, stranger.failures.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(reason.contains("has no part in execution"), "{reason}");

    let target = LinkTarget {
        execution,
        from,
        to: WorkerId(Uuid::from_u128(99)),
        address: receiver.address.clone(),
    };
    let (on_failure, _failures) = reporter();
    let link = OutboundLink::new(target, vec![(channel(8), edge())], WINDOW, on_failure);
    link.connect();
    link.sender(channel(8), SlotWaker::default())
        .unwrap()
        .send(Message::Idle);
    let reason = timeout(PATIENCE, receiver.failures.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(reason.contains("a channel that is not there"), "{reason}");
}
