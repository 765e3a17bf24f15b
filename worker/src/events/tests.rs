//! What is kept for a driver that is away, and what is told again.

use futures::FutureExt;
use millrace_protocol::v1::WorkerState;

use super::*;

type Events = BoxStream<'static, Result<v1::WorkerEvent, Status>>;

fn attach(hub: &Arc<EventHub>) -> Events {
    hub.attach(v1::Status {
        state: WorkerState::Running.into(),
        ..v1::Status::default()
    })
}

/// Everything that is there now, in short.
fn read(events: &mut Events) -> Vec<String> {
    let mut read = Vec::new();
    while let Some(Some(event)) = events.next().now_or_never() {
        read.push(match event {
            Ok(event) => short(&event.event.unwrap()),
            Err(status) => format!("error: {}", status.message()),
        });
    }
    read
}

fn short(event: &Event) -> String {
    match event {
        Event::Status(_) => "status".into(),
        Event::CheckpointAck(ack) => format!("ack {} of {}", ack.checkpoint_id, ack.subtask),
        Event::CheckpointFailed(failed) => format!("failed {}", failed.checkpoint_id),
        Event::SubtaskFinished(finished) => format!("finished {}", finished.subtask),
        Event::Metrics(metrics) => format!("metrics {}", metrics.worker_json),
        Event::Output(output) => format!("rows {}", output.rows.join(",")),
        Event::Notice(notice) => format!("notice {}", notice.message),
        other => format!("{other:?}"),
    }
}

fn ack(checkpoint_id: u64, subtask: u32) -> Event {
    Event::CheckpointAck(v1::CheckpointAck {
        execution_id: "e".into(),
        checkpoint_id,
        subtask,
        ..v1::CheckpointAck::default()
    })
}

fn finished(subtask: u32) -> Event {
    Event::SubtaskFinished(v1::SubtaskFinished {
        execution_id: "e".into(),
        subtask,
    })
}

fn metrics(worker_json: &str) -> Event {
    Event::Metrics(v1::Metrics {
        worker_json: worker_json.into(),
        ..v1::Metrics::default()
    })
}

fn rows(row: &str) -> v1::OutputRows {
    v1::OutputRows {
        rows: vec![row.into()],
        ..v1::OutputRows::default()
    }
}

#[test]
fn events_come_in_their_order_whether_or_not_anybody_reads() {
    let hub = EventHub::new(100);
    hub.publish(ack(1, 0));
    let mut events = attach(&hub);
    assert_eq!(read(&mut events), ["status", "ack 1 of 0"]);
    assert_eq!(hub.offer_output(rows("a"), 1, None), Offered::Queued);
    hub.publish(finished(0));
    assert!(hub.holds_finish_of(0));
    assert_eq!(read(&mut events), ["rows a", "finished 0"]);
    assert!(!hub.holds_finish_of(0) && hub.is_drained());
}

#[test]
fn undecided_acknowledgements_are_told_to_every_driver() {
    let hub = EventHub::new(100);
    let mut first = attach(&hub);
    hub.publish(ack(1, 0));
    hub.publish(ack(2, 0));
    hub.publish(finished(0));
    assert_eq!(
        read(&mut first),
        ["status", "ack 1 of 0", "ack 2 of 0", "finished 0"]
    );
    hub.decided("other", 9);
    hub.decided("e", 1);
    let mut second = attach(&hub);
    assert_eq!(read(&mut second), ["status", "ack 2 of 0"]);
    assert_eq!(read(&mut first), ["error: another driver has attached"]);
    // One that is still in the queue goes as well.
    hub.publish(ack(3, 1));
    hub.decided("e", 3);
    let mut third = attach(&hub);
    assert_eq!(read(&mut third), ["status"]);
}

#[test]
fn metrics_are_kept_for_nobody_and_replaced_by_newer_ones() {
    let hub = EventHub::new(100);
    hub.publish(metrics("0"));
    let mut events = attach(&hub);
    assert_eq!(read(&mut events), ["status"]);
    hub.publish(metrics("1"));
    hub.publish(finished(0));
    hub.publish(metrics("2"));
    assert_eq!(read(&mut events), ["finished 0", "metrics 2"]);
}

#[test]
fn output_beyond_the_limit_is_dropped_unless_it_may_wait() {
    let hub = EventHub::new(10);
    assert!(!hub.wants_output());
    assert_eq!(
        hub.offer_output(rows("a"), 1, None),
        Offered::Dropped,
        "nobody reads"
    );
    let mut events = attach(&hub);
    assert!(hub.wants_output());
    // The last one may exceed the limit, so that any row fits at all.
    assert_eq!(hub.offer_output(rows("a"), 8, None), Offered::Queued);
    assert_eq!(hub.offer_output(rows("b"), 8, None), Offered::Queued);
    assert!(!hub.wants_output());
    assert_eq!(hub.offer_output(rows("c"), 1, None), Offered::Dropped);
    assert_eq!(read(&mut events), ["status", "rows a", "rows b"]);
    assert_eq!(hub.offer_output(rows("d"), 1, None), Offered::Queued);
}

#[test]
fn output_that_may_not_be_lost_waits_for_its_reader() {
    let hub = EventHub::new(1);
    let mut events = attach(&hub);
    let writer = {
        let hub = Arc::clone(&hub);
        std::thread::spawn(move || {
            (0..100).all(|row| {
                let offered =
                    hub.offer_output(rows(&row.to_string()), 1, Some(Duration::from_secs(60)));
                offered == Offered::Queued
            })
        })
    };
    let mut read_rows = Vec::new();
    while read_rows.len() < 100 {
        read_rows.extend(
            read(&mut events)
                .into_iter()
                .filter(|event| event.starts_with("rows")),
        );
    }
    assert!(writer.join().unwrap());
    let expected: Vec<String> = (0..100).map(|row| format!("rows {row}")).collect();
    assert_eq!(read_rows, expected);
}

#[test]
fn without_a_reader_waiting_output_is_given_up() {
    let hub = EventHub::new(1);
    let patience = Some(Duration::from_millis(50));
    assert_eq!(
        hub.offer_output(rows("a"), 1, patience),
        Offered::Queued,
        "there is room"
    );
    let started = Instant::now();
    assert_eq!(hub.offer_output(rows("b"), 1, patience), Offered::Dropped);
    assert!(started.elapsed() >= Duration::from_millis(40));
    // The patience is for the absence of a reader, not for each row.
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(hub.offer_output(rows("c"), 1, patience), Offered::Dropped);
    }
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn whoever_waits_goes_on_when_the_execution_ends() {
    let hub = EventHub::new(1);
    let _events = attach(&hub);
    let wait = Some(Duration::from_secs(600));
    assert_eq!(hub.offer_output(rows("a"), 1, wait), Offered::Queued);
    let writer = {
        let hub = Arc::clone(&hub);
        std::thread::spawn(move || hub.offer_output(rows("b"), 1, wait))
    };
    hub.close_output();
    assert_eq!(writer.join().unwrap(), Offered::Dropped);
    hub.clear();
    assert_eq!(hub.offer_output(rows("c"), 1, None), Offered::Queued);
}

#[test]
fn a_new_execution_starts_with_an_empty_queue_but_notices_stay() {
    let hub = EventHub::new(100);
    hub.publish(ack(1, 0));
    hub.publish(Event::Notice(v1::Notice {
        severity: "info".into(),
        message: "m".into(),
    }));
    hub.clear();
    let mut events = attach(&hub);
    assert_eq!(read(&mut events), ["status", "notice m"]);
    hub.close();
    assert!(matches!(events.next().now_or_never(), Some(None)));
}

#[tokio::test]
async fn a_reader_that_waits_is_woken() {
    let hub = EventHub::new(100);
    let mut events = attach(&hub);
    assert_eq!(read(&mut events), ["status"]);
    let writer = Arc::clone(&hub);
    let task = tokio::spawn(async move {
        for subtask in 0..1_000 {
            writer.publish(finished(subtask));
            if subtask % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    for subtask in 0..1_000 {
        let event = tokio::time::timeout(Duration::from_secs(10), events.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(short(&event.event.unwrap()), format!("finished {subtask}"));
    }
    task.await.unwrap();
}
