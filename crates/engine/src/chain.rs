//! The operators of one task, wired to each other and to the task's output channels.

use std::sync::Arc;

use millrace_dataflow::NodeId;
use millrace_state::Delta;
use millrace_types::{CheckpointId, SubtaskMetrics};

use crate::{
    Batch, Clock, Event, Operator, OperatorError, OperatorSnapshot, Output,
    channel::{BarrierInfo, ChannelSender, Message},
    partition::Partitioner,
};

/// A failure with the operator it happened in.
#[derive(Debug)]
pub struct TaskError {
    pub operator: String,
    pub error: Box<OperatorError>,
}

/// The channels of one outgoing edge.
pub struct OutputEdge {
    /// `None`: a forward edge with one sender.
    pub partitioner: Option<Partitioner>,
    /// By consuming subtask.
    pub senders: Vec<Box<dyn ChannelSender>>,
}

impl OutputEdge {
    fn has_room(&self) -> bool {
        self.senders.iter().all(|sender| sender.has_room())
    }

    fn send(&mut self, batch: Batch) -> Result<(), OperatorError> {
        match &mut self.partitioner {
            None => self.senders[0].send(Message::Batch(batch)),
            Some(partitioner) => {
                for (subtask, part) in partitioner.split(batch)? {
                    self.senders[subtask as usize].send(Message::Batch(part));
                }
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, message: &Message) {
        for sender in &mut self.senders {
            sender.send(message.clone());
        }
    }
}

/// A node of the chain. The root of a source task has no operator: its rows come from outside.
pub struct ChainNode {
    pub id: NodeId,
    pub name: String,
    pub operator: Option<Box<dyn Operator>>,
    /// Positions in the chain that read this node directly.
    pub children: Vec<usize>,
    pub edges: Vec<OutputEdge>,
    pub metrics: SubtaskMetrics,
}

/// Nodes in order, parents before children.
pub struct Chain {
    nodes: Vec<ChainNode>,
    clock: Arc<dyn Clock>,
}

impl Chain {
    pub fn new(nodes: Vec<ChainNode>, clock: Arc<dyn Clock>) -> Self {
        Chain { nodes, clock }
    }

    /// Whether every output channel takes more.
    pub fn has_room(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| node.edges.iter().all(OutputEdge::has_room))
    }

    pub fn root(&mut self) -> &mut ChainNode {
        &mut self.nodes[0]
    }

    pub fn nodes(&self) -> &[ChainNode] {
        &self.nodes
    }

    pub fn nodes_mut(&mut self) -> &mut [ChainNode] {
        &mut self.nodes
    }

    /// Gives an event to the root, as coming from its input `input`.
    pub fn deliver(&mut self, input: usize, event: Event) -> Result<(), TaskError> {
        self.deliver_to(0, input, event)
    }

    /// Tells the consuming tasks that this one is there: the first message on every channel. Until
    /// they have it from all their channels they process nothing, so that it does not depend on
    /// who starts first which channels hold the watermark back. Idle ones do not.
    pub fn greet(&mut self, idle: bool) {
        let message = if idle {
            Message::Idle
        } else {
            // Active, without a watermark yet.
            Message::Watermark(i64::MIN)
        };
        for node in &mut self.nodes {
            for edge in &mut node.edges {
                edge.broadcast(&message);
            }
        }
    }

    /// Sends what the root itself produced (a source task).
    pub fn emit_from_root(&mut self, event: Event) -> Result<(), TaskError> {
        self.dispatch(0, vec![event])
    }

    fn deliver_to(&mut self, position: usize, input: usize, event: Event) -> Result<(), TaskError> {
        self.finish(position)?;
        let events = self.run(position, |operator, metrics, out| match event {
            Event::Batch(batch) => {
                metrics.rows_in += batch.len() as u64;
                metrics.bytes_in += batch.bytes() as u64;
                operator.process(input, batch, out)
            }
            Event::Watermark(watermark) => operator.watermark(watermark, out),
            Event::Idle => {
                out.idle();
                Ok(())
            }
        })?;
        self.dispatch(position, events)
    }

    /// Whether an operator has more to emit of what it was called for; until it has not, the task
    /// gets nothing new.
    pub fn has_more(&self) -> bool {
        (0..self.nodes.len()).any(|position| self.has_more_at(position))
    }

    fn has_more_at(&self, position: usize) -> bool {
        let operator = self.nodes[position].operator.as_ref();
        operator.is_some_and(|operator| operator.has_more())
    }

    /// Lets the operator furthest down the chain that has more go on.
    pub fn resume(&mut self) -> Result<(), TaskError> {
        let last = (0..self.nodes.len()).rev();
        match last
            .into_iter()
            .find(|position| self.has_more_at(*position))
        {
            Some(position) => self.resume_at(position),
            None => Ok(()),
        }
    }

    fn resume_at(&mut self, position: usize) -> Result<(), TaskError> {
        let events = self.run(position, |operator, _, out| operator.resume(out))?;
        self.dispatch(position, events)
    }

    /// What an operator has to emit comes before anything new.
    fn finish(&mut self, position: usize) -> Result<(), TaskError> {
        while self.has_more_at(position) {
            self.resume_at(position)?;
        }
        Ok(())
    }

    /// Runs the operator at a position, measuring it, and returns what it emitted.
    fn run(
        &mut self,
        position: usize,
        work: impl FnOnce(
            &mut dyn Operator,
            &mut SubtaskMetrics,
            &mut Output,
        ) -> Result<(), OperatorError>,
    ) -> Result<Vec<Event>, TaskError> {
        let node = &mut self.nodes[position];
        let Some(operator) = node.operator.as_deref_mut() else {
            return Ok(Vec::new());
        };
        let started = self.clock.monotonic_nanos();
        let mut out = Output::default();
        let result = work(operator, &mut node.metrics, &mut out);
        node.metrics.busy_nanos += self.clock.monotonic_nanos().saturating_sub(started);
        match result {
            Ok(()) => Ok(out.take()),
            Err(error) => Err(TaskError {
                operator: node.name.clone(),
                error: Box::new(error),
            }),
        }
    }

    fn dispatch(&mut self, position: usize, events: Vec<Event>) -> Result<(), TaskError> {
        for event in events {
            let node = &mut self.nodes[position];
            match &event {
                Event::Batch(batch) => {
                    node.metrics.rows_out += batch.len() as u64;
                    node.metrics.bytes_out += batch.bytes() as u64;
                }
                Event::Watermark(watermark) => {
                    node.metrics.watermark = Some(
                        node.metrics
                            .watermark
                            .map_or(*watermark, |old| old.max(*watermark)),
                    );
                }
                Event::Idle => {}
            }
            let started = self.clock.monotonic_nanos();
            for edge in &mut node.edges {
                let sent = match &event {
                    Event::Batch(batch) => edge.send(batch.clone()),
                    Event::Watermark(watermark) => {
                        edge.broadcast(&Message::Watermark(*watermark));
                        Ok(())
                    }
                    Event::Idle => {
                        edge.broadcast(&Message::Idle);
                        Ok(())
                    }
                };
                sent.map_err(|error| TaskError {
                    operator: node.name.clone(),
                    error: Box::new(error),
                })?;
            }
            if !node.edges.is_empty() {
                node.metrics.busy_nanos += self.clock.monotonic_nanos().saturating_sub(started);
            }
            let children = node.children.clone();
            for child in children {
                self.deliver_to(child, 0, event.clone())?;
            }
        }
        Ok(())
    }

    /// Takes the barrier through the chain: buffered rows go out, every operator hands over
    /// its state, the barrier goes to the output channels.
    pub fn barrier(
        &mut self,
        barrier: BarrierInfo,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), TaskError> {
        for position in 0..self.nodes.len() {
            self.finish(position)?;
            let events = self.run(position, |operator, _, out| operator.before_barrier(out))?;
            self.dispatch(position, events)?;
        }
        for position in 0..self.nodes.len() {
            self.finish(position)?;
            self.run(position, |operator, _, _| {
                operator.snapshot(barrier.checkpoint, snapshot)
            })?;
        }
        for node in &mut self.nodes {
            for edge in &mut node.edges {
                edge.broadcast(&Message::Barrier(barrier));
            }
        }
        Ok(())
    }

    pub fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        for position in 0..self.nodes.len() {
            self.run(position, |operator, _, _| {
                operator.checkpoint_complete(checkpoint)
            })?;
        }
        Ok(())
    }

    /// All inputs have ended and the last watermark has been delivered.
    pub fn end(&mut self) -> Result<(), TaskError> {
        for position in 0..self.nodes.len() {
            self.finish(position)?;
            let events = self.run(position, |operator, _, out| operator.end(out))?;
            self.dispatch(position, events)?;
        }
        for position in 0..self.nodes.len() {
            self.finish(position)?;
        }
        for node in &mut self.nodes {
            for edge in &mut node.edges {
                edge.broadcast(&Message::EndOfInput);
            }
        }
        Ok(())
    }

    /// The earliest wall-clock time any operator wants to be called at.
    pub fn next_tick(&self) -> Option<i64> {
        self.nodes
            .iter()
            .filter_map(|node| node.operator.as_ref()?.next_tick())
            .min()
    }

    pub fn tick(&mut self, now_ms: i64) -> Result<(), TaskError> {
        for position in 0..self.nodes.len() {
            let due = self.nodes[position]
                .operator
                .as_ref()
                .and_then(|operator| operator.next_tick())
                .is_some_and(|at| at <= now_ms);
            if due {
                self.finish(position)?;
                let events = self.run(position, |operator, _, out| operator.tick(now_ms, out))?;
                self.dispatch(position, events)?;
            }
        }
        Ok(())
    }

    /// Bytes of state that each node could let go of.
    pub fn relievable_bytes(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().map(|node| {
            let operator = node.operator.as_ref();
            operator.map_or(0, |operator| operator.relievable_bytes())
        })
    }

    /// Makes the operator at a position let go of state.
    pub fn relieve(
        &mut self,
        position: usize,
        bytes: u64,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), TaskError> {
        self.run(position, |operator, _, _| operator.relieve(bytes, deltas))?;
        Ok(())
    }

    /// The metrics of every node as they stand.
    pub fn collect_metrics(&self, into: &mut Vec<SubtaskMetrics>) {
        for node in &self.nodes {
            let mut metrics = node.metrics.clone();
            if let Some(operator) = &node.operator {
                let size = operator.state_size();
                metrics.state_entries = size.entries;
                metrics.state_bytes = size.bytes;
                let late = operator.late_rows();
                metrics.late_rows = late.count;
                metrics.late_samples = late.samples;
                metrics.bad_records += operator.bad_records();
            }
            into.push(metrics);
        }
    }
}
