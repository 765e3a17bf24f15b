//! Builds the graph: equal nodes are one, state ids are handed out, meanings are kept for
//! explanations.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use millrace_dataflow::{ChangelogMode, Input, Node, NodeId, NodeKind, StateId, StateIds};

use crate::rel::Rel;

/// What the state of each stateful node means, by node.
pub(crate) type Meanings = BTreeMap<NodeId, String>;

/// A node to add.
pub(super) struct NodeSpec {
    /// Equal keys over equal inputs mean the same rows.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) inputs: Vec<Input>,
    pub(super) schema: SchemaRef,
    pub(super) mode: ChangelogMode,
    pub(super) time_column: Option<usize>,
}

#[derive(Default)]
pub(super) struct GraphBuilder {
    nodes: Vec<Node>,
    known: BTreeMap<String, NodeId>,
    state_ids: StateIds,
    meanings: Meanings,
}

impl GraphBuilder {
    /// Adds a node without state, or finds the one that is the same.
    pub(super) fn add(&mut self, spec: NodeSpec, kind: NodeKind) -> NodeId {
        let key = full_key(&spec);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let id = self.push(spec, kind);
        self.known.insert(key, id);
        id
    }

    /// Adds a node with state, or finds the one that is the same.
    pub(super) fn add_stateful(
        &mut self,
        spec: NodeSpec,
        state_kind: &str,
        meaning: &str,
        kind: impl FnOnce(StateId) -> NodeKind,
    ) -> NodeId {
        let key = full_key(&spec);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let state_id = self.next_state(state_kind, meaning);
        let id = self.push(spec, kind(state_id));
        self.meanings.insert(id, meaning.to_string());
        self.known.insert(key, id);
        id
    }

    /// Adds a node that is never shared.
    pub(super) fn add_sink(
        &mut self,
        spec: NodeSpec,
        meaning: &str,
        kind: impl FnOnce(StateId) -> NodeKind,
    ) -> NodeId {
        let state_id = self.next_state("sink", meaning);
        let id = self.push(spec, kind(state_id));
        self.meanings.insert(id, meaning.to_string());
        id
    }

    /// A state id for a pair of nodes that share it.
    pub(super) fn next_state(&mut self, kind: &str, meaning: &str) -> StateId {
        self.state_ids.next(kind, meaning)
    }

    pub(super) fn find(&self, spec: &NodeSpec) -> Option<NodeId> {
        self.known.get(&full_key(spec)).copied()
    }

    /// Records what the state of a node means.
    pub(super) fn set_meaning(&mut self, node: NodeId, meaning: &str) {
        self.meanings.insert(node, meaning.to_string());
    }

    fn push(&mut self, spec: NodeSpec, kind: NodeKind) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            id,
            name: spec.name,
            kind,
            inputs: spec.inputs,
            schema: spec.schema,
            mode: spec.mode,
            time_column: spec.time_column,
        });
        id
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn schema(&self, id: NodeId) -> SchemaRef {
        Arc::clone(&self.node(id).schema)
    }

    /// The relation's columns; those that are the input's are as nullable as they are there.
    pub(super) fn extended_schema(&self, input: NodeId, rel: &Rel) -> SchemaRef {
        let input = self.schema(input);
        let fields: Vec<Field> = rel
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                let field = column.field();
                match input.fields().get(i) {
                    Some(inner) if inner.is_nullable() => field.with_nullable(true),
                    _ => field,
                }
            })
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// The union's columns, nullable where one of the inputs is.
    pub(super) fn union_schema(&self, rel: &Rel, inputs: &[NodeId]) -> SchemaRef {
        let fields: Vec<Field> = rel
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                let nullable = inputs
                    .iter()
                    .any(|input| self.schema(*input).field(i).is_nullable());
                column.field().with_nullable(nullable || column.nullable)
            })
            .collect();
        Arc::new(Schema::new(fields))
    }

    pub(super) fn finish(self) -> (Vec<Node>, Meanings) {
        (self.nodes, self.meanings)
    }
}

fn full_key(spec: &NodeSpec) -> String {
    format!(
        "{}\n{:?}\n{:?}\n{:?}\n{:?}",
        spec.key, spec.inputs, spec.schema, spec.mode, spec.time_column
    )
}
