use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeListArray, Float64Array,
        Int32Builder, Int64Array, ListArray, MapBuilder, NullArray, RecordBatch,
        RecordBatchOptions, StringArray, StringBuilder, StringViewArray, StructArray,
        TimestampMillisecondArray,
    },
    datatypes::{DataType, Field, Fields, Int32Type, Schema},
};
use bytes::Bytes;
use millrace_dataflow::{NodeId, RowKind};
use millrace_engine::{
    Batch,
    channel::{BarrierInfo, ChannelId, Message},
};
use millrace_protocol::v1;
use millrace_types::{CheckpointId, SavepointId};
use proptest::prelude::*;
use prost::Message as _;

use crate::exchange::{
    EdgeSchema,
    frame::{FrameEncoder, FrameError, channel_of, decode},
};

const CHANNEL: ChannelId = ChannelId {
    node: NodeId(7),
    input: 1,
    from: 2,
    to: 3,
};

/// One column of every kind that the engine uses, with nulls, of three rows.
fn every_type() -> RecordBatch {
    let structs = StructArray::try_new(
        Fields::from(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]),
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(StringArray::from(vec![Some("x"), Some("ü"), None])),
        ],
        Some(vec![true, false, true].into()),
    )
    .unwrap();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
    ]);
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        [
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![None, Some(4)]),
        ],
        2,
    );
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(5);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    RecordBatch::try_from_iter_with_nullable([
        (
            "i",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)])) as ArrayRef,
            true,
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some(""), None, Some("日本")])),
            true,
        ),
        (
            "v",
            Arc::new(StringViewArray::from(vec![
                Some("longer than twelve bytes"),
                None,
                Some("s"),
            ])),
            true,
        ),
        (
            "b",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            true,
        ),
        (
            "f",
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, 0.5, 1e300])),
            true,
        ),
        (
            "y",
            Arc::new(BinaryArray::from(vec![
                Some(&b"\0\xff"[..]),
                None,
                Some(b""),
            ])),
            true,
        ),
        (
            "t",
            Arc::new(
                TimestampMillisecondArray::from(vec![Some(-1), None, Some(5)])
                    .with_timezone("Europe/Berlin"),
            ),
            true,
        ),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![Some(10_i128.pow(37)), None, Some(-1)])
                    .with_precision_and_scale(38, 4)
                    .unwrap(),
            ),
            true,
        ),
        ("n", Arc::new(NullArray::new(3)), true),
        ("r", Arc::new(structs), true),
        ("l", Arc::new(lists), true),
        ("x", Arc::new(fixed), true),
        ("m", Arc::new(map.finish()), true),
    ])
    .unwrap()
}

fn encode(edge: &EdgeSchema, message: Message) -> Vec<v1::Frame> {
    FrameEncoder::new()
        .unwrap()
        .encode(CHANNEL, edge, message)
        .unwrap()
}

/// Through protobuf, as on the wire.
fn over_the_wire(frame: &v1::Frame) -> v1::Frame {
    v1::Frame::decode(Bytes::from(frame.encode_to_vec())).unwrap()
}

fn round_trip(rows: RecordBatch, kinds: Option<Vec<RowKind>>) -> Batch {
    let edge = EdgeSchema::new(rows.schema());
    let batch = Batch {
        rows,
        kinds: kinds.map(Into::into),
    };
    let cost = Message::Batch(batch.clone()).bytes() as u64;
    let frames = encode(&edge, Message::Batch(batch));
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].credit_bytes, cost);
    let frame = over_the_wire(&frames[0]);
    assert_eq!(channel_of(&frame), CHANNEL);
    match decode(frame, &edge).unwrap() {
        Message::Batch(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn batches_of_every_type_arrive_as_they_were() {
    let rows = every_type();
    let arrived = round_trip(rows.clone(), None);
    assert_eq!(arrived.rows, rows);
    assert!(arrived.kinds.is_none());
}

#[test]
fn kinds_travel_with_their_rows() {
    let kinds = vec![RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete];
    let arrived = round_trip(every_type(), Some(kinds.clone()));
    assert_eq!(arrived.rows, every_type());
    assert_eq!(arrived.kinds.as_deref(), Some(kinds.as_slice()));
}

#[test]
fn slices_send_only_their_rows() {
    let large = RecordBatch::try_from_iter([(
        "s",
        Arc::new(StringArray::from_iter_values(
            (0..8_000).map(|i| format!("value {i}")),
        )) as ArrayRef,
    )])
    .unwrap();
    let slice = large.slice(4_000, 3);
    assert_eq!(round_trip(slice.clone(), None).rows, slice);
    let edge = EdgeSchema::new(slice.schema());
    let frames = encode(&edge, Message::Batch(Batch::inserts(slice)));
    assert!(
        frames[0].encoded_len() < 1_000,
        "{}",
        frames[0].encoded_len()
    );
    assert_eq!(
        round_trip(every_type().slice(1, 2), None).rows,
        every_type().slice(1, 2)
    );
    assert_eq!(
        round_trip(every_type().slice(1, 0), None).rows.num_rows(),
        0
    );
}

#[test]
fn rows_without_columns_keep_their_number() {
    let options = RecordBatchOptions::new().with_row_count(Some(5));
    let rows =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let kinds = vec![RowKind::Delete; 5];
    assert_eq!(round_trip(rows.clone(), None).rows.num_rows(), 5);
    assert_eq!(round_trip(rows, Some(kinds)).rows.num_rows(), 5);
}

#[test]
fn control_messages_arrive_as_they_were() {
    let edge = EdgeSchema::new(Arc::new(Schema::empty()));
    let barrier = |savepoint, stop_after| {
        Message::Barrier(BarrierInfo {
            checkpoint: CheckpointId(9),
            savepoint,
            stop_after,
        })
    };
    for message in [
        Message::Watermark(i64::MAX),
        Message::Watermark(-1),
        Message::Idle,
        barrier(None, false),
        barrier(Some(SavepointId(3)), true),
        Message::EndOfInput,
    ] {
        let frames = encode(&edge, message.clone());
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].credit_bytes, message.bytes() as u64);
        let arrived = decode(over_the_wire(&frames[0]), &edge).unwrap();
        assert_eq!(format!("{arrived:?}"), format!("{message:?}"));
    }
}

#[test]
fn large_batches_are_cut() {
    // 24 MiB in 6 rows: cut to at most 8 MiB each.
    let texts: Vec<String> = (0..6).map(|i| i.to_string().repeat(4 << 20)).collect();
    let rows = RecordBatch::try_from_iter([("s", Arc::new(StringArray::from(texts)) as ArrayRef)])
        .unwrap();
    let edge = EdgeSchema::new(rows.schema());
    let message = Message::Batch(Batch::inserts(rows.clone()));
    let cost = message.bytes() as u64;
    let frames = encode(&edge, message);
    assert!(frames.len() >= 3, "{}", frames.len());
    assert!(frames.iter().all(|frame| frame.encoded_len() < 9 << 20));
    assert_eq!(
        frames.iter().map(|frame| frame.credit_bytes).sum::<u64>(),
        cost
    );
    let parts: Vec<RecordBatch> = frames
        .iter()
        .map(|frame| match decode(over_the_wire(frame), &edge).unwrap() {
            Message::Batch(batch) => batch.rows,
            other => panic!("{other:?}"),
        })
        .collect();
    let whole = arrow::compute::concat_batches(&rows.schema(), &parts).unwrap();
    assert_eq!(whole, rows);
}

#[test]
fn a_row_that_no_frame_holds_is_refused_by_its_size() {
    let rows = RecordBatch::try_from_iter([(
        "s",
        Arc::new(StringArray::from(vec!["x".repeat(65 << 20)])) as ArrayRef,
    )])
    .unwrap();
    let edge = EdgeSchema::new(rows.schema());
    let error = FrameEncoder::new()
        .unwrap()
        .encode(CHANNEL, &edge, Message::Batch(Batch::inserts(rows)))
        .unwrap_err();
    assert!(
        matches!(error, FrameError::RowTooLarge(bytes) if bytes > 65 << 20),
        "{error}"
    );
}

#[test]
fn a_batch_of_other_columns_is_refused() {
    let edge = EdgeSchema::new(Arc::new(Schema::new(vec![Field::new(
        "i",
        DataType::Utf8,
        true,
    )])));
    let rows = RecordBatch::try_from_iter([("i", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])
        .unwrap();
    let error = FrameEncoder::new()
        .unwrap()
        .encode(CHANNEL, &edge, Message::Batch(Batch::inserts(rows)))
        .unwrap_err();
    assert!(matches!(error, FrameError::Schema(_)), "{error}");
}

fn content(frame: &v1::Frame) -> Vec<u8> {
    match &frame.body {
        Some(v1::frame::Body::Batch(content)) => content.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn with_content(frame: &v1::Frame, content: Vec<u8>) -> v1::Frame {
    v1::Frame {
        body: Some(v1::frame::Body::Batch(content.into())),
        ..frame.clone()
    }
}

fn sample(has_kinds: bool) -> (EdgeSchema, v1::Frame) {
    let rows = every_type();
    let edge = EdgeSchema::new(rows.schema());
    let kinds = has_kinds.then(|| vec![RowKind::Insert; 3].into());
    let frame = encode(&edge, Message::Batch(Batch { rows, kinds })).remove(0);
    (edge, frame)
}

#[test]
fn damaged_frames_say_what_is_wrong() {
    let (edge, frame) = sample(false);
    let good = content(&frame);
    let reason = |frame: v1::Frame, edge: &EdgeSchema| decode(frame, edge).unwrap_err().to_string();

    assert!(reason(v1::Frame::default(), &edge).contains("no body"));
    assert!(reason(with_content(&frame, vec![1, 0]), &edge).contains("shorter than its header"));
    let mut long = good.clone();
    long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(reason(with_content(&frame, long), &edge).contains("beyond its end"));
    let short = good[..good.len() - 64].to_vec();
    assert!(reason(with_content(&frame, short), &edge).contains("of a body of"));
    // The kinds are missing, or are not expected.
    let with_flag = v1::Frame {
        has_kinds: true,
        ..frame.clone()
    };
    assert!(reason(with_flag, &edge).contains("ends before column `$kind`"));
    let (_, kinds) = sample(true);
    let without_flag = v1::Frame {
        has_kinds: false,
        ..kinds
    };
    assert!(reason(without_flag, &edge).contains("more than its 13 columns"));
    // Another schema.
    let other = EdgeSchema::new(Arc::new(Schema::new(vec![Field::new(
        "i",
        DataType::Int64,
        true,
    )])));
    assert!(reason(frame.clone(), &other).contains("more than its 1 columns"));
    assert!(decode(frame, &edge).is_ok());
}

#[test]
fn unknown_kinds_are_refused() {
    let rows = RecordBatch::try_from_iter([(
        "i",
        Arc::new(Int64Array::from(vec![0x1111_1111])) as ArrayRef,
    )])
    .unwrap();
    let edge = EdgeSchema::new(rows.schema());
    let frame = encode(
        &edge,
        Message::Batch(Batch::changes(rows, vec![RowKind::Delete])),
    )
    .remove(0);
    let mut bytes = content(&frame);
    // The kinds are the last column, padded: the last byte that is not zero.
    let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    assert_eq!(bytes[at], 3);
    bytes[at] = 4;
    let error = decode(with_content(&frame, bytes), &edge).unwrap_err();
    assert!(error.to_string().contains("unknown row kind"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// Whatever bytes are changed, decoding gives a batch or an error.
    #[test]
    fn damaged_bytes_never_panic(
        has_kinds in any::<bool>(),
        cut in 0_usize..4_000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        metadata_only in any::<bool>(),
    ) {
        let (edge, frame) = sample(has_kinds);
        let mut bytes = content(&frame);
        let metadata = 4 + u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        for (index, value) in changes {
            let at = index.index(if metadata_only { metadata } else { bytes.len() });
            bytes[at] = value;
        }
        if cut < bytes.len() && cut % 3 == 0 {
            bytes.truncate(cut);
        }
        if let Ok(Message::Batch(batch)) = decode(with_content(&frame, bytes), &edge) {
            prop_assert!(batch.kinds.as_ref().is_none_or(|kinds| kinds.len() == batch.len()));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (edge, frame) = sample(false);
        prop_assert!(decode(with_content(&frame, bytes), &edge).is_err());
    }
}
