//! The schemas of an edge on the wire. Both ends derive them from the dataflow, so they are
//! never sent.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millrace_dataflow::{Dataflow, NodeId};

/// Name of the column that carries row kinds as [`RowKind`](millrace_dataflow::RowKind) numbers.
const KIND_COLUMN: &str = "$kind";

/// What the batches of an edge look like, without and with the column of kinds.
#[derive(Debug, Clone)]
pub(crate) struct EdgeSchema {
    pub(crate) rows: SchemaRef,
    pub(crate) with_kinds: SchemaRef,
}

impl EdgeSchema {
    pub(crate) fn new(rows: SchemaRef) -> Self {
        let kind = Arc::new(Field::new(KIND_COLUMN, DataType::UInt8, false));
        let fields = rows.fields().iter().cloned().chain([kind]);
        let with_kinds = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        EdgeSchema { rows, with_kinds }
    }

    /// The edge into input `input` of `node`: rows have the schema of the node it reads.
    pub(crate) fn of(dataflow: &Dataflow, node: NodeId, input: u32) -> Option<Self> {
        let consumer = dataflow.nodes.get(node.0 as usize)?;
        let producer = consumer.inputs.get(input as usize)?.node;
        Some(EdgeSchema::new(dataflow.node(producer).schema.clone()))
    }
}
