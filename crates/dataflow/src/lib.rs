//! The job graph that SQL and pipelines compile to and the engine runs: nodes, edges,
//! schemas, changelog modes, key groups, state ids and the fingerprint.
//!
//! A [`Dataflow`] is pure data. Two compilations of the same spec by the same version of
//! Millrace are equal, which [`Dataflow::fingerprint`] shows. Every node runs with the job's
//! parallelism; subtask `i` of every node runs in slot `i`.

mod aggregate;
mod changelog;
mod graph;
mod key_decoding;
mod key_encoding;
mod key_group;
mod node;
mod scalar;
mod state_diff;
mod state_id;
mod window;

pub use aggregate::{AggregateCall, AggregateKind, partial_fields};
pub use changelog::{ChangelogMode, RowKind};
pub use graph::{Dataflow, Exchange, GraphError, Input, Node, NodeId};
pub use key_decoding::{KeyDecodingError, decode_key_column};
pub use key_encoding::{ENCODING_VERSION, KeyEncoder, KeyEncodingError, KeyRows, key_hash};
pub use key_group::{KeyGroup, KeyGroupRange};
pub use node::{
    CalcNode, ExpandNode, GroupAggregateNode, NodeKind, SinkNode, SourceNode, TableOptions,
    ValuesNode, WatermarkSpec, WindowAggregateNode, WindowAssignNode,
};
pub use scalar::ScalarExpr;
pub use state_diff::{StateChange, StateDiff, StateFate, state_diff};
pub use state_id::{StateId, StateIds};
pub use window::{TimeDomain, WindowKind, WindowSource};
