//! The Kafka source: one split per partition.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_dataflow::SourceNode;
use parking_lot::Mutex;

use super::{
    brokers::{Brokers, Unanswered},
    condition::{Condition, Severity},
    offsets::{OffsetsMode, Progress},
    options::SourceOptions,
    reader::{Forgotten, PartitionReader},
    reading::{Reading, consumer},
    records::ReadLayout,
    topics::TopicPartition,
};
use crate::{
    sink::RowTap,
    source::{ConnectorError, Source, SplitReader, SplitState, Waker},
};

/// For each answer of the brokers when partitions are listed; a slot that is being opened waits
/// for a few of them at most.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often brokers are asked that did not answer the first time.
const ASK_AGAIN_MS: u64 = 1_000;
/// Partitions that a subtask is taken to have when their number is not known.
const USUAL_PARTITIONS: usize = 16;

/// Reads a Kafka table.
pub struct KafkaSource {
    table: String,
    options: SourceOptions,
    layout: ReadLayout,
    condition: Arc<Condition>,
    listing: Mutex<Listing>,
    reading: Mutex<Option<Arc<Reading>>>,
}

/// How far finding the partitions has come.
struct Listing {
    stage: Stage,
    /// Partitions per subtask.
    partitions: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Never,
    /// The brokers have not answered yet.
    Awaited {
        /// Nothing is known of the table from a snapshot: reading starts where the options say.
        first: bool,
    },
    Done,
}

impl KafkaSource {
    /// Checks the table's options; connects to nothing.
    pub fn new(node: &SourceNode) -> Result<Self, ConnectorError> {
        let options = SourceOptions::new(&node.table, &node.options)?;
        let layout = ReadLayout::new(node)?;
        let condition = Arc::new(Condition::new(&node.table, options.properties.servers()));
        Ok(KafkaSource {
            table: node.table.clone(),
            options,
            layout,
            condition,
            listing: Mutex::new(Listing {
                stage: Stage::Never,
                partitions: USUAL_PARTITIONS,
            }),
            reading: Mutex::default(),
        })
    }

    fn fault(&self, reason: impl std::fmt::Display) -> ConnectorError {
        ConnectorError(format!("table `{}`: {reason}", self.table))
    }

    /// Partitions with the numbers where reading begins and ends. Brokers that do not answer are
    /// asked again later, by [`Source::later_splits`].
    fn list(&self, first: bool, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        let stage = self.listing.lock().stage;
        let first = match stage {
            Stage::Never => first,
            Stage::Awaited { first } => first,
            Stage::Done => false,
        };
        match self.ask(first) {
            Ok(splits) => {
                let mut listing = self.listing.lock();
                listing.stage = Stage::Done;
                listing.partitions = splits.len().div_ceil(parallelism.max(1) as usize);
                drop(listing);
                self.condition.well();
                Ok(splits)
            }
            Err(Unanswered::Refused(reason)) if stage != Stage::Done => Err(self.fault(reason)),
            Err(Unanswered::Refused(reason) | Unanswered::Away(reason)) => {
                if stage != Stage::Done {
                    self.listing.lock().stage = Stage::Awaited { first };
                }
                self.condition.trouble(&reason);
                Ok(Vec::new())
            }
        }
    }

    fn ask(&self, first: bool) -> Result<Vec<SplitState>, Unanswered> {
        let brokers = Brokers {
            consumer: consumer(&self.options, &self.condition, 1).map_err(Unanswered::Refused)?,
            patience: PATIENCE,
        };
        let partitions = brokers.partitions(&self.options.topics)?;
        if partitions.is_empty() {
            self.condition
                .tell(Severity::Warning, "no topic matches 'topic-pattern'");
        }
        // What has appeared since the first listing was written since: all of it is read.
        let startup = if first {
            &self.options.startup
        } else {
            &OffsetsMode::Earliest
        };
        let mut lookups = startup.lookups();
        lookups.extend(self.options.bounded.iter().flat_map(OffsetsMode::lookups));
        lookups.sort_unstable();
        lookups.dedup();
        let answers = brokers.offsets(&lookups, &partitions)?;
        partitions
            .iter()
            .map(|partition| {
                let offset = startup.resolve(partition, &answers);
                let offset = offset.map_err(Unanswered::Refused)?;
                let end = self.options.bounded.as_ref();
                let end = end
                    .map(|mode| mode.resolve(partition, &answers))
                    .transpose();
                Ok(SplitState {
                    id: partition.split_id(),
                    position: Progress::new(offset, end.map_err(Unanswered::Refused)?).encode(),
                })
            })
            .collect()
    }

    fn reading(&self) -> Result<Arc<Reading>, ConnectorError> {
        let mut reading = self.reading.lock();
        if let Some(reading) = reading.as_ref() {
            return Ok(reading.clone());
        }
        let partitions = self.listing.lock().partitions;
        let made = Reading::new(&self.options, &self.condition, partitions)
            .map_err(|reason| self.fault(reason))?;
        Ok(reading.insert(Arc::new(made)).clone())
    }
}

impl Source for KafkaSource {
    fn splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        self.list(true, parallelism)
    }

    fn later_splits(&self, parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        self.list(false, parallelism)
    }

    fn awaits_splits(&self) -> bool {
        matches!(self.listing.lock().stage, Stage::Awaited { first: true })
    }

    fn discovery_interval_ms(&self) -> Option<u64> {
        match self.listing.lock().stage {
            Stage::Awaited { .. } => Some(ASK_AGAIN_MS),
            Stage::Never | Stage::Done => self.options.discovery_ms,
        }
    }

    fn listing(&self) -> String {
        self.options.topics.text()
    }

    fn max_open_splits(&self) -> usize {
        usize::MAX
    }

    fn report_to(&self, tap: Arc<dyn RowTap>) {
        self.condition.report_to(tap);
    }

    fn open(
        &self,
        split: &SplitState,
        waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let id = &split.id.0;
        let partition = TopicPartition::of_split(&split.id)
            .ok_or_else(|| self.fault(format!("the snapshot's split `{id}` names no partition")))?;
        if !self.options.topics.contains(&partition.topic) {
            let text = format!(
                "topic `{}` is not the table's any more: it is not read on",
                partition.topic
            );
            self.condition.tell(Severity::Warning, &text);
            return Ok(Box::new(Forgotten {
                position: split.position.clone(),
            }));
        }
        let progress = Progress::decode(&split.position).map_err(|reason| {
            self.fault(format!(
                "the snapshot's position of split `{id}` cannot be read: {reason}"
            ))
        })?;
        let reading = self.reading()?;
        let mut queue = reading
            .assign(&partition, progress.offset)
            .map_err(|reason| self.fault(reason))?;
        queue.set_nonempty_callback(move || waker());
        Ok(Box::new(PartitionReader {
            table: self.table.clone(),
            topic: partition.topic.as_str().into(),
            partition,
            queue,
            reading,
            progress,
            records: self.layout.reader().map_err(|reason| self.fault(reason))?,
            on_error: self.options.on_error,
            offsets: Vec::new(),
            bad: 0,
            letters: Vec::new(),
            failure: None,
        }))
    }

    fn wants_completed(&self) -> bool {
        self.options.properties.get("group.id").is_some()
    }

    fn completed(&self, splits: &[SplitState]) {
        let mut offsets = BTreeMap::new();
        for split in splits {
            let progress = Progress::decode(&split.position);
            if let (Some(partition), Ok(progress)) = (TopicPartition::of_split(&split.id), progress)
            {
                offsets.insert(partition, progress.offset);
            }
        }
        let reading = self.reading.lock().clone();
        if let Some(reading) = reading {
            reading.commit(&offsets);
        }
    }
}
