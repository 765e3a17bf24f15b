//! The graph itself, its checks and its fingerprint.

use std::fmt;

use arrow::datatypes::SchemaRef;
use millrace_types::Fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{ChangelogMode, NodeKind};

/// A node's number: its position in [`Dataflow::nodes`], inputs before consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How rows travel from a node's subtasks to a consumer's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Exchange {
    /// Subtask i to subtask i; such nodes are chained.
    Forward,
    /// By the key group of these columns (of the producer's output). No columns: everything goes to
    /// the subtask that owns the empty key.
    Hash(Vec<usize>),
}

/// One input of a node.
#[derive(Debug, Clone)]
pub struct Input {
    pub node: NodeId,
    pub exchange: Exchange,
}

/// A node with its place in the graph.
#[derive(Debug, Clone)]
pub struct Node {
    pub id: NodeId,
    /// For people: `HOP 10 s / 2 s: COUNT(*) by auction`.
    pub name: String,
    pub kind: NodeKind,
    pub inputs: Vec<Input>,
    pub schema: SchemaRef,
    pub mode: ChangelogMode,
    /// The event-time column of the output, if it carries one.
    pub time_column: Option<usize>,
}

/// A compiled job.
#[derive(Debug, Clone)]
pub struct Dataflow {
    /// Inputs before consumers; `nodes[i].id == NodeId(i)`.
    pub nodes: Vec<Node>,
    pub parallelism: u32,
    pub max_parallelism: u32,
}

/// A graph that breaks its own rules: a fault of the compiler, not of the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node} ({name}): {reason}")]
pub struct GraphError {
    pub node: NodeId,
    pub name: String,
    pub reason: String,
}

impl Dataflow {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Nodes that read `id`, with the input position they read it at.
    pub fn consumers(&self, id: NodeId) -> impl Iterator<Item = (&Node, usize)> {
        self.nodes.iter().flat_map(move |node| {
            node.inputs
                .iter()
                .enumerate()
                .filter(move |(_, input)| input.node == id)
                .map(move |(i, _)| (node, i))
        })
    }

    /// Checks what every consumer of a graph relies on.
    pub fn check(&self) -> Result<(), GraphError> {
        for (position, node) in self.nodes.iter().enumerate() {
            let fail = |reason: String| {
                Err(GraphError {
                    node: node.id,
                    name: node.name.clone(),
                    reason,
                })
            };
            if node.id.0 as usize != position {
                return fail(format!("stands at position {position}"));
            }
            let arity = match &node.kind {
                NodeKind::Source(_) | NodeKind::Values(_) => 0..=0,
                NodeKind::Union => 1..=usize::MAX,
                _ => 1..=1,
            };
            if !arity.contains(&node.inputs.len()) {
                return fail(format!("has {} inputs", node.inputs.len()));
            }
            for input in &node.inputs {
                if input.node.0 as usize >= position {
                    return fail(format!(
                        "reads node {}, which does not stand before it",
                        input.node
                    ));
                }
                if let Exchange::Hash(columns) = &input.exchange {
                    let width = self.node(input.node).schema.fields().len();
                    if let Some(column) = columns.iter().find(|c| **c >= width) {
                        return fail(format!("is keyed by column {column} of {width}"));
                    }
                }
            }
            if !matches!(node.kind, NodeKind::Sink(_)) && self.consumers(node.id).next().is_none() {
                return fail("nothing reads it".into());
            }
        }
        Ok(())
    }

    /// A digest of everything that decides what the job computes.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = Sha256::new();
        hasher.update(format!(
            "millrace {} max-parallelism {}\n",
            env!("CARGO_PKG_VERSION"),
            self.max_parallelism
        ));
        for node in &self.nodes {
            // Debug output of these types has no addresses and only ordered collections.
            hasher.update(format!(
                "{:?} {:?} {:?} {:?}\n",
                node.kind, node.inputs, node.schema, node.mode
            ));
        }
        let digest = hasher.finalize();
        Fingerprint(
            digest
                .iter()
                .take(16)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }
}
