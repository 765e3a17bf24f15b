//! Puts a slot together: queues first (so that producers elsewhere can be connected), then,
//! with senders for every output, the operators.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millrace_connectors::{
    registry,
    sink::{RowTap, WriterContext},
};
use millrace_dataflow::{
    Dataflow, Exchange, KeyEncoder, KeyGroupRange, Node, NodeId, NodeKind, RowKind, SourceNode,
    StateId,
};
use millrace_state::{SlotStore, Table};
use millrace_types::SubtaskMetrics;

use crate::{
    Clock, OpenContext, OpenTable, Operator, OperatorError, RestoredState,
    chain::{Chain, ChainNode, OutputEdge},
    channel::{ChannelId, ChannelQueue, ChannelSender, LocalSender, SlotWaker},
    dead_letter::{self, DeadLetters},
    operators,
    partition::Partitioner,
    plan::{self, TaskPlan},
    sink_operator::SinkOperator,
    slot::{Slot, Task, open_failure},
    slot_event::{SlotEvents, SlotFailure},
    slot_memory::SlotMemory,
    slot_snapshot::SlotSnapshots,
    source_task::{SourceTask, SourceTaskConfig},
    task::{ChannelTask, InputChannel},
    values_source::ValuesSource,
};

/// What a slot is made of.
pub struct SlotConfig {
    pub subtask: u32,
    pub dataflow: Arc<Dataflow>,
    pub clock: Arc<dyn Clock>,
    /// Capacity of one input channel.
    pub queue_bytes: usize,
    /// Hot state of the whole slot.
    pub state_budget_bytes: usize,
    pub job: String,
    pub execution: String,
    pub restored: Arc<RestoredState>,
    pub store: SlotStore,
    /// Exactly-once: inputs wait for each other at a barrier.
    pub align: bool,
    pub events: Arc<dyn SlotEvents>,
}

/// A slot with its queues, not yet with its operators.
pub struct SlotBuilder {
    config: SlotConfig,
    waker: SlotWaker,
    plans: Vec<TaskPlan>,
    queues: BTreeMap<ChannelId, Arc<ChannelQueue>>,
}

impl SlotBuilder {
    pub fn new(config: SlotConfig) -> Self {
        let waker = SlotWaker::default();
        let plans = plan::tasks(&config.dataflow);
        let mut queues = BTreeMap::new();
        for node in &config.dataflow.nodes {
            for input in channel_inputs(&config.dataflow, node) {
                for from in plan::producers(&config.dataflow, node.id, input, config.subtask) {
                    let id = ChannelId {
                        node: node.id,
                        input: input as u32,
                        from,
                        to: config.subtask,
                    };
                    queues.insert(
                        id,
                        Arc::new(ChannelQueue::new(config.queue_bytes, waker.clone())),
                    );
                }
            }
        }
        SlotBuilder {
            config,
            waker,
            plans,
            queues,
        }
    }

    pub fn subtask(&self) -> u32 {
        self.config.subtask
    }

    pub fn waker(&self) -> SlotWaker {
        self.waker.clone()
    }

    /// The slot's input queues, for producers to push into.
    pub fn queues(&self) -> &BTreeMap<ChannelId, Arc<ChannelQueue>> {
        &self.queues
    }

    /// The channels this slot sends on; [`SlotBuilder::build`] wants a sender for each.
    pub fn outputs(&self) -> Vec<ChannelId> {
        let dataflow = &self.config.dataflow;
        let from = self.config.subtask;
        let mut outputs = Vec::new();
        for node in &dataflow.nodes {
            for input in channel_inputs(dataflow, node) {
                let targets = match node.inputs[input].exchange {
                    Exchange::Forward => from..from + 1,
                    Exchange::Hash(_) => 0..dataflow.parallelism,
                };
                outputs.extend(targets.map(|to| ChannelId {
                    node: node.id,
                    input: input as u32,
                    from,
                    to,
                }));
            }
        }
        outputs
    }

    /// Connects slots of one process with each other: senders for the channels whose queue is in `queues`.
    pub fn local_senders(
        &self,
        queues: &BTreeMap<ChannelId, Arc<ChannelQueue>>,
    ) -> BTreeMap<ChannelId, Box<dyn ChannelSender>> {
        self.outputs()
            .into_iter()
            .filter_map(|id| {
                let queue = queues.get(&id)?.clone();
                Some((
                    id,
                    Box::new(LocalSender::new(queue, self.waker.clone())) as Box<dyn ChannelSender>,
                ))
            })
            .collect()
    }

    /// Opens and restores every operator.
    pub fn build(
        self,
        mut senders: BTreeMap<ChannelId, Box<dyn ChannelSender>>,
    ) -> Result<Slot, SlotFailure> {
        let mut tasks = Vec::with_capacity(self.plans.len());
        for plan in &self.plans {
            tasks.push(self.task(plan, &mut senders)?);
        }
        Ok(Slot {
            subtask: self.config.subtask,
            snapshots: SlotSnapshots::new(tasks.len()),
            tasks,
            clock: self.config.clock,
            waker: self.waker,
            events: self.config.events,
            store: self.config.store,
            memory: SlotMemory::new(self.config.state_budget_bytes),
        })
    }

    fn task(
        &self,
        plan: &TaskPlan,
        senders: &mut BTreeMap<ChannelId, Box<dyn ChannelSender>>,
    ) -> Result<Task, SlotFailure> {
        let mut nodes = Vec::with_capacity(plan.nodes.len());
        for id in &plan.nodes {
            let node = self.config.dataflow.node(*id);
            let built = self.chain_node(node, plan, senders);
            nodes.push(
                built.map_err(|error| open_failure(self.config.subtask, &node.name, &error))?,
            );
        }
        let chain = Chain::new(nodes, self.config.clock.clone());
        let root = self.config.dataflow.node(plan.root());
        let task = match &root.kind {
            NodeKind::Source(source) => self
                .source_task(source, chain)
                .map(|task| Task::Source(Box::new(task))),
            NodeKind::Values(values) => {
                let source = Arc::new(ValuesSource {
                    rows: values.rows.clone().into(),
                });
                let config = self.source_config(source, values.state_id.clone());
                SourceTask::open(config, chain, &self.config.restored)
                    .map(|task| Task::Source(Box::new(task)))
            }
            _ => Ok(Task::Channels(Box::new(ChannelTask::new(
                self.channels(root),
                chain,
                self.config.align,
            )))),
        };
        task.map_err(|error| open_failure(self.config.subtask, &root.name, &error))
    }

    fn channels(&self, root: &Node) -> Vec<InputChannel> {
        self.queues
            .iter()
            .filter(|(id, _)| id.node == root.id)
            .map(|(id, queue)| InputChannel::new(id.input as usize, queue.clone()))
            .collect()
    }

    fn source_config(
        &self,
        source: Arc<dyn millrace_connectors::source::Source>,
        state_id: StateId,
    ) -> SourceTaskConfig {
        SourceTaskConfig {
            source,
            state_id,
            output: None,
            watermark: None,
            subtask: self.config.subtask,
            parallelism: self.config.dataflow.parallelism,
            clock: self.config.clock.clone(),
            waker: self.waker.clone(),
            dead_letters: None,
        }
    }

    fn source_task(
        &self,
        node: &Arc<SourceNode>,
        chain: Chain,
    ) -> Result<SourceTask, OperatorError> {
        let source = registry::source(node).map_err(crate::two_phase::connector)?;
        source.report_to(Arc::new(self.tap()));
        let mut config = self.source_config(source, node.state_id.clone());
        let schema = output_schema(&node.output);
        config.output = Some((node.output.clone(), schema));
        config.watermark = node.watermark.clone();
        if let Some(sink) = registry::dead_letter_sink(node, &dead_letter::schema())
            .map_err(crate::two_phase::connector)?
        {
            let writer = sink
                .open(&self.writer_context(&node.table, &format!("{}-dead-letters", node.state_id)))
                .map_err(crate::two_phase::connector)?;
            let letters = DeadLetters::open(
                writer,
                &node.state_id,
                self.config.subtask,
                &self.config.restored,
            )?;
            config.dead_letters = Some(letters);
        }
        SourceTask::open(config, chain, &self.config.restored)
    }

    fn tap(&self) -> EventTap {
        EventTap {
            events: self.config.events.clone(),
            waker: self.waker.clone(),
        }
    }

    /// `writer` tells the writers of the job apart.
    fn writer_context(&self, table: &str, writer: &str) -> WriterContext {
        let clock = self.config.clock.clone();
        WriterContext {
            table: table.to_owned(),
            tap: Arc::new(self.tap()),
            job: self.config.job.clone(),
            execution: self.config.execution.clone(),
            writer: writer.to_owned(),
            subtask: self.config.subtask,
            parallelism: self.config.dataflow.parallelism,
            now_ms: Arc::new(move || clock.now_ms()),
        }
    }

    fn chain_node(
        &self,
        node: &Node,
        plan: &TaskPlan,
        senders: &mut BTreeMap<ChannelId, Box<dyn ChannelSender>>,
    ) -> Result<ChainNode, OperatorError> {
        let mut children = Vec::new();
        let mut edges = Vec::new();
        for (consumer, input) in self.config.dataflow.consumers(node.id) {
            if plan::is_channel(&self.config.dataflow, consumer.id, input) {
                edges.push(self.edge(node, consumer.id, input, senders)?);
            } else {
                let position = plan
                    .nodes
                    .iter()
                    .position(|id| *id == consumer.id)
                    .ok_or_else(|| {
                        OperatorError::Internal(format!(
                            "node {} is not in the task of its input",
                            consumer.id
                        ))
                    })?;
                children.push(position);
            }
        }
        let operator = self.operator(node)?;
        let metrics = SubtaskMetrics {
            node: node.id.0,
            subtask: self.config.subtask,
            ..SubtaskMetrics::default()
        };
        Ok(ChainNode {
            id: node.id,
            name: node.name.clone(),
            operator,
            children,
            edges,
            metrics,
        })
    }

    fn edge(
        &self,
        producer: &Node,
        consumer: NodeId,
        input: usize,
        senders: &mut BTreeMap<ChannelId, Box<dyn ChannelSender>>,
    ) -> Result<OutputEdge, OperatorError> {
        let dataflow = &self.config.dataflow;
        let from = self.config.subtask;
        let exchange = &dataflow.node(consumer).inputs[input].exchange;
        let (targets, partitioner) = match exchange {
            Exchange::Forward => (from..from + 1, None),
            Exchange::Hash(columns) => {
                let types = columns
                    .iter()
                    .map(|column| producer.schema.field(*column).data_type().clone())
                    .collect();
                let encoder = KeyEncoder::new(types)
                    .map_err(|error| OperatorError::Data(error.to_string()))?;
                let parallelism = dataflow.parallelism;
                let partitioner = Partitioner::new(
                    columns.clone(),
                    encoder,
                    parallelism,
                    dataflow.max_parallelism,
                );
                (0..parallelism, Some(partitioner))
            }
        };
        let mut edge = OutputEdge {
            partitioner,
            senders: Vec::new(),
        };
        for to in targets {
            let id = ChannelId {
                node: consumer,
                input: input as u32,
                from,
                to,
            };
            let sender = senders.remove(&id).ok_or_else(|| {
                OperatorError::Internal(format!("no sender was given for channel {id:?}"))
            })?;
            edge.senders.push(sender);
        }
        Ok(edge)
    }

    fn operator(&self, node: &Node) -> Result<Option<Box<dyn Operator>>, OperatorError> {
        let dataflow = &self.config.dataflow;
        let mut operator: Box<dyn Operator> = match &node.kind {
            NodeKind::Source(_) | NodeKind::Values(_) => return Ok(None),
            NodeKind::Sink(sink) => {
                let connector = registry::sink(sink).map_err(crate::two_phase::connector)?;
                let context = self.writer_context(&sink.table, &sink.state_id.0);
                Box::new(SinkOperator::new(
                    connector,
                    context,
                    sink.schema.clone(),
                    sink.state_id.clone(),
                ))
            }
            _ => {
                let inputs: Vec<SchemaRef> = node
                    .inputs
                    .iter()
                    .map(|input| dataflow.node(input.node).schema.clone())
                    .collect();
                operators::build(node, &inputs)?
            }
        };
        let mut tables = StoreTables(&self.config.store);
        let mut context = OpenContext {
            subtask: self.config.subtask,
            parallelism: dataflow.parallelism,
            max_parallelism: dataflow.max_parallelism,
            key_groups: KeyGroupRange::of_subtask(
                self.config.subtask,
                dataflow.parallelism,
                dataflow.max_parallelism,
            ),
            clock: self.config.clock.clone(),
            restored: &self.config.restored,
            tables: &mut tables,
        };
        operator.open(&mut context)?;
        Ok(Some(operator))
    }
}

fn channel_inputs<'a>(dataflow: &'a Dataflow, node: &'a Node) -> impl Iterator<Item = usize> + 'a {
    (0..node.inputs.len()).filter(move |input| plan::is_channel(dataflow, node.id, *input))
}

fn output_schema(output: &[millrace_dataflow::ScalarExpr]) -> SchemaRef {
    let fields: Vec<_> = output.iter().map(|expr| expr.field.clone()).collect();
    Arc::new(arrow::datatypes::Schema::new(fields))
}

struct StoreTables<'a>(&'a SlotStore);

impl OpenTable for StoreTables<'_> {
    fn open_table(
        &mut self,
        state_id: &StateId,
        name: &'static str,
        ttl_ms: u64,
    ) -> Result<Table, OperatorError> {
        Ok(self.0.table(state_id, name, ttl_ms)?)
    }
}

struct EventTap {
    events: Arc<dyn SlotEvents>,
    waker: SlotWaker,
}

impl RowTap for EventTap {
    fn rows(&self, table: &str, subtask: u32, rows: &RecordBatch, kinds: Option<&[RowKind]>) {
        self.events.output_rows(table, subtask, rows, kinds);
    }

    fn notice(&self, severity: &str, message: &str) {
        self.events.notice(severity, message);
    }

    fn is_canceled(&self) -> bool {
        self.waker.is_canceled()
    }
}
