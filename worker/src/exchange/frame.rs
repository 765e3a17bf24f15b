//! Frames: engine messages as protobuf, batches in them as Arrow IPC.
//!
//! `Frame.batch` is one record-batch message: the length of its metadata (4 bytes, little
//! endian), the metadata (an Arrow `Message` flatbuffer), the body. Never compressed, never with
//! dictionaries. Decoding checks everything that the Arrow reader takes on trust.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt8Array},
    buffer::Buffer,
    datatypes::UInt8Type,
    error::ArrowError,
    ipc::{
        MetadataVersion,
        reader::RecordBatchDecoder,
        root_as_message,
        writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions},
    },
};
use bytes::{BufMut, Bytes, BytesMut};
use millrace_dataflow::{NodeId, RowKind};
use millrace_engine::{
    Batch,
    channel::{BarrierInfo, ChannelId, Message},
};
use millrace_protocol::{MAX_MESSAGE_BYTES, v1};
use millrace_types::{CheckpointId, SavepointId};

use crate::exchange::{
    edge::EdgeSchema,
    validate::{ValidateError, validate},
};

/// Batches above this are cut in two, so that frames stay far below [`MAX_MESSAGE_BYTES`].
const SPLIT_BYTES: usize = 8 << 20;
/// Largest encoded batch: leaves room for the rest of the frame.
const MAX_BATCH_BYTES: usize = MAX_MESSAGE_BYTES - (64 << 10);
/// Widest Arrow type there is needs no more.
const ALIGNMENT: usize = 16;

/// A message that cannot be put into a frame, or a frame that is not a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error(
        "a row of {0} bytes is too large to be sent to another worker, the limit is {MAX_BATCH_BYTES}"
    )]
    RowTooLarge(usize),
    #[error("a batch does not have the columns of its edge: {0}")]
    Schema(String),
    #[error("a frame is damaged: {0}")]
    Malformed(String),
    #[error("a frame is damaged: {0}")]
    Invalid(#[from] ValidateError),
    #[error("a batch could not be converted: {0}")]
    Arrow(#[from] ArrowError),
}

/// Encodes the messages of one link.
pub(crate) struct FrameEncoder {
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    dictionaries: DictionaryTracker,
    context: IpcWriteContext,
}

impl FrameEncoder {
    pub(crate) fn new() -> Result<Self, FrameError> {
        Ok(FrameEncoder {
            generator: IpcDataGenerator {},
            options: IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?,
            dictionaries: DictionaryTracker::new(false),
            context: IpcWriteContext::default(),
        })
    }

    /// The frames of a message, in order. Their `credit_bytes` add up to [`Message::bytes`].
    pub(crate) fn encode(
        &mut self,
        channel: ChannelId,
        edge: &EdgeSchema,
        message: Message,
    ) -> Result<Vec<v1::Frame>, FrameError> {
        let cost = message.bytes() as u64;
        let control = |body| {
            vec![v1::Frame {
                body: Some(body),
                credit_bytes: cost,
                ..frame(channel)
            }]
        };
        Ok(match message {
            Message::Watermark(watermark) => control(v1::frame::Body::Watermark(watermark)),
            Message::Idle => control(v1::frame::Body::Idle(true)),
            Message::EndOfInput => control(v1::frame::Body::EndOfInput(true)),
            Message::Barrier(barrier) => control(v1::frame::Body::Barrier(v1::Barrier {
                checkpoint_id: barrier.checkpoint.0,
                savepoint_id: barrier.savepoint.map_or(0, |savepoint| savepoint.0),
                stop_after: barrier.stop_after,
            })),
            Message::Batch(batch) => {
                let mut frames = Vec::new();
                self.encode_batch(channel, edge, batch, &mut frames)?;
                if let Some(last) = frames.last_mut() {
                    last.credit_bytes = cost;
                }
                frames
            }
        })
    }

    fn encode_batch(
        &mut self,
        channel: ChannelId,
        edge: &EdgeSchema,
        batch: Batch,
        frames: &mut Vec<v1::Frame>,
    ) -> Result<(), FrameError> {
        let bytes = batch.bytes();
        if bytes > SPLIT_BYTES && batch.len() > 1 {
            let half = batch.len() / 2;
            self.encode_batch(channel, edge, batch.slice(0, half), frames)?;
            return self.encode_batch(channel, edge, batch.slice(half, batch.len() - half), frames);
        }
        let has_kinds = batch.kinds.is_some();
        let rows = with_kind_column(edge, batch)?;
        let (_, encoded) = self.generator.encode(
            &rows,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        let length = 4 + encoded.ipc_message.len() + encoded.arrow_data.len();
        if length > MAX_BATCH_BYTES {
            return Err(FrameError::RowTooLarge(bytes));
        }
        let mut content = BytesMut::with_capacity(length);
        content.put_u32_le(encoded.ipc_message.len() as u32);
        content.put_slice(&encoded.ipc_message);
        content.put_slice(&encoded.arrow_data);
        frames.push(v1::Frame {
            body: Some(v1::frame::Body::Batch(content.freeze())),
            has_kinds,
            ..frame(channel)
        });
        Ok(())
    }
}

fn frame(channel: ChannelId) -> v1::Frame {
    v1::Frame {
        node: channel.node.0,
        input: channel.input,
        from_subtask: channel.from,
        to_subtask: channel.to,
        ..v1::Frame::default()
    }
}

fn with_kind_column(edge: &EdgeSchema, batch: Batch) -> Result<RecordBatch, FrameError> {
    let expected = edge.rows.fields();
    let found = batch.rows.schema_ref();
    if !Arc::ptr_eq(found, &edge.rows) {
        let same_types = found.fields().len() == expected.len()
            && found
                .fields()
                .iter()
                .zip(expected)
                .all(|(found, expected)| found.data_type().equals_datatype(expected.data_type()));
        if !same_types {
            return Err(FrameError::Schema(format!(
                "expected {}, found {found}",
                edge.rows
            )));
        }
    }
    let Some(kinds) = batch.kinds else {
        return Ok(batch.rows);
    };
    let rows = batch.rows.num_rows();
    let kinds = UInt8Array::from_iter_values(kinds.iter().map(|kind| *kind as u8));
    let mut columns: Vec<ArrayRef> = batch.rows.columns().to_vec();
    columns.push(Arc::new(kinds));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    // Under the batch's own fields: what the receiver may be null is for it to check.
    let fields = found
        .fields()
        .iter()
        .chain(edge.with_kinds.fields().last())
        .cloned();
    let schema = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new_with_options(
        Arc::new(schema),
        columns,
        &options,
    )?)
}

/// The channel that a frame belongs to.
pub(crate) fn channel_of(frame: &v1::Frame) -> ChannelId {
    ChannelId {
        node: NodeId(frame.node),
        input: frame.input,
        from: frame.from_subtask,
        to: frame.to_subtask,
    }
}

/// The message in a frame.
pub(crate) fn decode(frame: v1::Frame, edge: &EdgeSchema) -> Result<Message, FrameError> {
    Ok(match frame.body {
        None => return Err(FrameError::Malformed("it has no body".into())),
        Some(v1::frame::Body::Watermark(watermark)) => Message::Watermark(watermark),
        Some(v1::frame::Body::Idle(_)) => Message::Idle,
        Some(v1::frame::Body::EndOfInput(_)) => Message::EndOfInput,
        Some(v1::frame::Body::Barrier(barrier)) => Message::Barrier(BarrierInfo {
            checkpoint: CheckpointId(barrier.checkpoint_id),
            savepoint: (barrier.savepoint_id != 0).then_some(SavepointId(barrier.savepoint_id)),
            stop_after: barrier.stop_after,
        }),
        Some(v1::frame::Body::Batch(content)) => {
            Message::Batch(decode_batch(&content, edge, frame.has_kinds)?)
        }
    })
}

fn decode_batch(content: &Bytes, edge: &EdgeSchema, has_kinds: bool) -> Result<Batch, FrameError> {
    let malformed = |reason: &str| FrameError::Malformed(reason.to_owned());
    let (length, rest) = content
        .split_first_chunk::<4>()
        .ok_or_else(|| malformed("it is shorter than its header"))?;
    let length = u32::from_le_bytes(*length) as usize;
    let (metadata, body) = rest
        .split_at_checked(length)
        .ok_or_else(|| malformed("its metadata goes beyond its end"))?;
    let message = root_as_message(metadata)
        .map_err(|error| FrameError::Malformed(format!("its metadata is not valid: {error}")))?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| malformed("it holds something other than a record batch"))?;
    let schema = if has_kinds {
        &edge.with_kinds
    } else {
        &edge.rows
    };
    validate(&batch, schema, body.len())?;
    // One copy to aligned memory: in place every column would be copied for its alignment.
    let body = Buffer::from_slice_ref(body);
    let rows = RecordBatchDecoder::try_new(
        &body,
        batch,
        schema.clone(),
        &HashMap::new(),
        &message.version(),
    )?
    .read_record_batch()?;
    if !has_kinds {
        return Ok(Batch::inserts(rows));
    }
    let (kinds, columns) = rows
        .columns()
        .split_last()
        .ok_or_else(|| malformed("it has no column of kinds"))?;
    let kinds = kinds
        .as_primitive_opt::<UInt8Type>()
        .filter(|kinds| kinds.null_count() == 0)
        .ok_or_else(|| malformed("its kinds are not numbers"))?
        .values()
        .iter()
        .map(|number| RowKind::from_u8(*number))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| malformed("it has an unknown row kind"))?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let rows = RecordBatch::try_new_with_options(edge.rows.clone(), columns.to_vec(), &options)?;
    Ok(Batch::changes(rows, kinds))
}
