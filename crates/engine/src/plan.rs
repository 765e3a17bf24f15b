//! Cuts a dataflow into tasks: the trees of nodes that hand rows to each other directly.
//!
//! A task starts at a source, at a node that reads through a hash exchange, or at a node with
//! several inputs; every other node belongs to the task of its input. With a parallelism of 1 a
//! hash exchange changes nothing, so such nodes are chained too.

use millrace_dataflow::{Dataflow, Exchange, NodeId, NodeKind};

/// One task: its nodes, root first, parents before children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    pub nodes: Vec<NodeId>,
}

impl TaskPlan {
    pub fn root(&self) -> NodeId {
        self.nodes[0]
    }
}

/// Whether rows reach `consumer`'s input `input` through a channel rather than directly.
pub fn is_channel(dataflow: &Dataflow, consumer: NodeId, input: usize) -> bool {
    let node = dataflow.node(consumer);
    node.inputs.len() > 1
        || (dataflow.parallelism > 1 && matches!(node.inputs[input].exchange, Exchange::Hash(_)))
}

/// The tasks of a dataflow, producers before consumers.
pub fn tasks(dataflow: &Dataflow) -> Vec<TaskPlan> {
    let mut plans: Vec<TaskPlan> = Vec::new();
    let mut task_of = vec![0_usize; dataflow.nodes.len()];
    for node in &dataflow.nodes {
        let starts = matches!(node.kind, NodeKind::Source(_) | NodeKind::Values(_))
            || (0..node.inputs.len()).any(|input| is_channel(dataflow, node.id, input));
        let task = if starts {
            plans.push(TaskPlan { nodes: Vec::new() });
            plans.len() - 1
        } else {
            task_of[node.inputs[0].node.0 as usize]
        };
        task_of[node.id.0 as usize] = task;
        plans[task].nodes.push(node.id);
    }
    plans
}

/// The subtasks of the producer that feed a channel input of subtask `subtask`.
pub fn producers(dataflow: &Dataflow, consumer: NodeId, input: usize, subtask: u32) -> Vec<u32> {
    match dataflow.node(consumer).inputs[input].exchange {
        Exchange::Forward => vec![subtask],
        Exchange::Hash(_) => (0..dataflow.parallelism).collect(),
    }
}
