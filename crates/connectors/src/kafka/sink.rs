//! The sinks `kafka` and `upsert-kafka`.

use std::sync::Arc;

use millrace_dataflow::SinkNode;

use super::{
    condition::Condition,
    exactly_once::ExactlyOnceWriter,
    options::{Guarantee, PartitionerKind, SinkOptions},
    write::DirectWriter,
    write_layout::WriteLayout,
};
use crate::{
    sink::{Sink, SinkWriter, WriterContext},
    source::ConnectorError,
};

/// How transactional ids begin unless the table says otherwise.
const TRANSACTIONAL_PREFIX: &str = "millrace";

/// Appends to a topic.
pub struct KafkaSink(TopicSink);

/// Writes the newest value of every key to a topic.
pub struct UpsertKafkaSink(TopicSink);

struct TopicSink {
    options: Arc<SinkOptions>,
    layout: WriteLayout,
}

impl KafkaSink {
    /// Checks the table's options; connects to nothing.
    pub fn new(node: &SinkNode) -> Result<Self, ConnectorError> {
        TopicSink::new(node, WriteLayout::append(node)?).map(KafkaSink)
    }

    /// Whether the table's format holds rows other than insertions.
    pub fn takes_updates(&self) -> bool {
        self.0.layout.takes_updates()
    }
}

impl UpsertKafkaSink {
    /// Checks the table's options; connects to nothing.
    pub fn new(node: &SinkNode) -> Result<Self, ConnectorError> {
        let sink = TopicSink::new(node, WriteLayout::upsert(node)?)?;
        if sink.options.partitioner != PartitionerKind::ByKey {
            return Err(ConnectorError(format!(
                "table `{}`: 'sink.partitioner' is not for 'upsert-kafka': all records of a key must be in one partition, or the newest could not be told",
                node.table
            )));
        }
        Ok(UpsertKafkaSink(sink))
    }
}

impl TopicSink {
    fn new(node: &SinkNode, layout: WriteLayout) -> Result<Self, ConnectorError> {
        if !node.partition_by.is_empty() {
            return Err(ConnectorError(format!(
                "table `{}`: topics have no PARTITIONED BY: use 'key.fields', by which records are spread over the partitions",
                node.table
            )));
        }
        let options = SinkOptions::new(&node.table, &node.options, TRANSACTIONAL_PREFIX)?;
        Ok(TopicSink {
            options: Arc::new(options),
            layout,
        })
    }

    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        let table = &context.table;
        let condition = Arc::new(Condition::new(table, self.options.properties.servers()));
        condition.report_to(context.tap.clone());
        let records = self.layout.encoders();
        let records =
            records.map_err(|reason| ConnectorError(format!("table `{table}`: {reason}")))?;
        Ok(match self.options.guarantee {
            Guarantee::ExactlyOnce => Box::new(ExactlyOnceWriter::new(
                self.options.clone(),
                context,
                condition,
                records,
            )?),
            Guarantee::None | Guarantee::AtLeastOnce => Box::new(DirectWriter {
                table: table.clone(),
                options: self.options.clone(),
                subtask: context.subtask,
                condition,
                records,
                now_ms: context.now_ms.clone(),
                producing: None,
            }),
        })
    }
}

impl Sink for KafkaSink {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        self.0.open(context)
    }
}

impl Sink for UpsertKafkaSink {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        self.0.open(context)
    }
}
