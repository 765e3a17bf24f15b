//! The output tap: order, bounds, and readers that stall.

use arrow::array::{ArrayRef, Int64Array, StringArray};
use futures::{FutureExt, StreamExt};
use millrace_protocol::v1::worker_event::Event;
use uuid::Uuid;

use super::*;

fn rows(count: i64) -> RecordBatch {
    RecordBatch::try_from_iter([
        (
            "z\"",
            Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef,
        ),
        (
            "a",
            Arc::new(StringArray::from_iter(
                (0..count).map(|i| (i > 0).then(|| format!("v{i}"))),
            )),
        ),
    ])
    .unwrap()
}

fn tap(events: &Arc<EventHub>, lossless: bool) -> OutputTap {
    OutputTap::new(
        Arc::clone(events),
        ExecutionId(Uuid::from_u128(1)),
        lossless,
    )
}

#[test]
fn rows_are_objects_in_the_order_of_the_schema() {
    let kinds = [RowKind::UpdateBefore, RowKind::UpdateAfter];
    assert_eq!(
        row_texts(&rows(2), Some(&kinds)).unwrap(),
        [
            r#"{"kind":"-U","row":{"z\"":0,"a":null}}"#,
            r#"{"kind":"+U","row":{"z\"":1,"a":"v1"}}"#,
        ]
    );
    assert_eq!(
        row_texts(&rows(1), None).unwrap(),
        [r#"{"kind":"+I","row":{"z\"":0,"a":null}}"#]
    );
}

#[test]
fn large_batches_come_in_several_events() {
    let events = EventHub::new(10 << 20);
    let mut stream = events.attach(v1::Status::default());
    tap(&events, false)
        .rows("t", 3, &rows(1_200), None)
        .unwrap();
    let mut lengths = Vec::new();
    while let Some(Some(Ok(event))) = stream.next().now_or_never() {
        if let Some(Event::Output(output)) = event.event {
            assert_eq!(
                (output.table.as_str(), output.subtask, output.dropped),
                ("t", 3, 0)
            );
            lengths.push(output.rows.len());
        }
    }
    assert_eq!(lengths, [512, 512, 176]);

    let wide: Vec<String> = (0..5).map(|_| "x".repeat(100 << 10)).collect();
    let parts = parts(wide);
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn dropped_rows_are_counted_by_table() {
    let events = EventHub::new(10 << 20);
    let tap = tap(&events, false);
    tap.rows("t", 0, &rows(7), None).unwrap();
    tap.rows("other", 0, &rows(2), None).unwrap();
    let mut stream = events.attach(v1::Status::default());
    tap.rows("t", 0, &rows(1), None).unwrap();
    stream.next().now_or_never();
    let event = stream
        .next()
        .now_or_never()
        .unwrap()
        .unwrap()
        .unwrap()
        .event
        .unwrap();
    assert!(
        matches!(event, Event::Output(output) if output.dropped == 7 && output.rows.len() == 1)
    );
}
