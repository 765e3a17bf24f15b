//! Source and sinks against a real broker, `scripts/kafka.sh run DIR PORT`, whose address is in
//! `MILLRACE_TEST_KAFKA`.

#![allow(clippy::disallowed_methods)]

mod compiling;
mod reading;
mod secured;
mod writing;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use millrace_dataflow::{ChangelogMode, RowKind, SinkNode, SourceNode, StateId, TableOptions};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};

use crate::{
    sink::{RowTap, WriterContext},
    source::{Polled, Source, SplitReader, SplitState},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Tests that reach a broker are ignored unless asked for; the others reach none.
fn bootstrap() -> String {
    std::env::var("MILLRACE_TEST_KAFKA").unwrap_or_else(|_| "127.0.0.1:9".to_owned())
}

fn config() -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap());
    config
}

/// A topic of the test's own.
fn topic(partitions: i32) -> String {
    static NEXT: AtomicI64 = AtomicI64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let name = format!(
        "t{}-{}",
        now.as_millis(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let admin: AdminClient<_> = config().create().unwrap();
    let new = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    let made = admin.create_topics([&new], &AdminOptions::new());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(made).unwrap().remove(0).unwrap();
    name
}

fn append(topic: &str, partition: i32, values: &[&str]) {
    let producer: ThreadedProducer<DefaultProducerContext> = config().create().unwrap();
    for value in values {
        let record = BaseRecord::<(), str>::to(topic)
            .partition(partition)
            .payload(value);
        producer.send(record).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

fn options(topic: &str, more: &[(&str, &str)]) -> TableOptions {
    let bootstrap = bootstrap();
    let mut options: TableOptions = [
        ("connector", "kafka"),
        ("properties.bootstrap.servers", bootstrap.as_str()),
        ("topic", topic),
        ("format", "json"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    for (key, value) in more {
        options.insert((*key).to_owned(), (*value).to_owned());
    }
    options
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn source_node(topic: &str, more: &[(&str, &str)]) -> SourceNode {
    SourceNode {
        table: "t".into(),
        options: options(topic, more),
        declared: schema(),
        physical: schema(),
        metadata: vec![
            (
                "partition".into(),
                Field::new("part", DataType::Int32, false),
            ),
            ("offset".into(), Field::new("at", DataType::Int64, false)),
        ],
        output: vec![],
        watermark: None,
        state_id: StateId("s".into()),
    }
}

fn sink_node(topic: &str, more: &[(&str, &str)], primary_key: &[usize]) -> SinkNode {
    SinkNode {
        table: "t".into(),
        options: options(topic, more),
        schema: schema(),
        primary_key: primary_key.to_vec(),
        partition_by: vec![],
        input_mode: ChangelogMode::Append,
        state_id: StateId("s".into()),
    }
}

/// Everything told to the job's history.
#[derive(Default)]
struct Notices(parking_lot::Mutex<Vec<String>>);

impl RowTap for Notices {
    fn rows(&self, _: &str, _: u32, _: &RecordBatch, _: Option<&[RowKind]>) {}

    fn notice(&self, severity: &str, message: &str) {
        self.0.lock().push(format!("{severity}: {message}"));
    }
}

fn context(job: &str, subtask: u32) -> WriterContext {
    WriterContext {
        table: "t".into(),
        tap: Arc::new(Notices::default()),
        job: job.into(),
        execution: "e".into(),
        writer: "w".into(),
        subtask,
        parallelism: 2,
        now_ms: Arc::new(now_ms),
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// The open splits of a source, as a task has them.
struct Task {
    readers: Vec<(SplitState, Box<dyn SplitReader>)>,
}

impl Task {
    fn open(source: &dyn Source, splits: &[SplitState]) -> Self {
        let open = |split: &SplitState| source.open(split, Arc::new(|| ())).unwrap();
        Task {
            readers: splits
                .iter()
                .map(|split| (split.clone(), open(split)))
                .collect(),
        }
    }

    /// Rows until `enough` of them are there or all splits have ended, as (part, at, id).
    fn rows(&mut self, enough: usize) -> Result<Vec<(i32, i64, Option<i64>)>, String> {
        use arrow::array::{Array, AsArray};
        use arrow::datatypes::{Int32Type, Int64Type};
        let deadline = Instant::now() + PATIENCE;
        let mut rows = Vec::new();
        let mut ended = BTreeMap::new();
        while rows.len() < enough && ended.len() < self.readers.len() && Instant::now() < deadline {
            for (split, reader) in &mut self.readers {
                match reader.poll(1_000, now_ms()).map_err(|error| error.0)? {
                    Polled::Rows(batch) => {
                        let ids = batch.column(0).as_primitive::<Int64Type>();
                        let parts = batch.column(2).as_primitive::<Int32Type>();
                        let at = batch.column(3).as_primitive::<Int64Type>();
                        for row in 0..batch.num_rows() {
                            let id = ids.is_valid(row).then(|| ids.value(row));
                            rows.push((parts.value(row), at.value(row), id));
                        }
                    }
                    Polled::Ended => {
                        ended.insert(split.id.clone(), ());
                    }
                    Polled::Progress => {}
                    Polled::Pending | Polled::PendingUntil(_) => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
            }
        }
        rows.sort_unstable();
        Ok(rows)
    }

    fn positions(&self) -> Vec<SplitState> {
        let states = self.readers.iter();
        states
            .map(|(split, reader)| SplitState {
                id: split.id.clone(),
                position: reader.position(),
            })
            .collect()
    }
}
