//! Jobs from topic to topic on a real broker, with workers, the broker and the control plane
//! killed: every row is there once.

#![allow(clippy::disallowed_methods)]

#[path = "kafka/topics.rs"]
mod topics;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use millrace_tests::{
    client::Client,
    job::{Job, Shape, kill, spec},
    kafka::Kafka,
    random::{Chance, run_seed},
    service::Service,
};
use rdkafka::producer::{BaseRecord, Producer};
use serde_json::{Value, json};
use tempfile::TempDir;
use topics::{Record, Topics};

/// For every single step.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// For everything to have come out.
const END: Duration = Duration::from_secs(180);

const QUICK: Shape = Shape {
    parallelism: 2,
    workers: 2,
    checkpoint_interval: Duration::from_millis(500),
};
const ALONE: Shape = Shape {
    parallelism: 1,
    workers: 1,
    checkpoint_interval: Duration::from_millis(300),
};

fn table(name: &str, columns: &str, kafka: &Kafka, topic: &str, more: &str) -> String {
    format!(
        "CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', \
         'properties.bootstrap.servers' = '{}', 'format' = 'json'{more});\n",
        kafka.bootstrap()
    )
}

/// Looks at a topic until it satisfies.
async fn read_until(
    topics: &Topics,
    topic: &str,
    job: &Job,
    mut enough: impl FnMut(&[Record]) -> bool,
) -> Result<Vec<Record>> {
    let deadline = Instant::now() + END;
    loop {
        let records = match topics.read(topic) {
            Ok(records) => records,
            // The broker may be on its way back.
            Err(_) if Instant::now() < deadline => Vec::new(),
            Err(error) => return Err(error),
        };
        if enough(&records) {
            return Ok(records);
        }
        if Instant::now() > deadline {
            let view = job.view().await?;
            bail!(
                "topic {topic} has only {} records; the job is {}\n{}",
                records.len(),
                view["state"],
                job.history().await
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn count<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

const ROWS: i64 = 30_000;
const PARTITIONS: i32 = 4;
const KEYS: i64 = 40;
/// Event time between two rows of a partition, and the length of a window.
const STEP_MS: i64 = 10;
const WINDOW_MS: i64 = 1_000;

/// Row `id`, in partition `id % PARTITIONS`.
fn row(id: i64) -> String {
    let ts = 1_700_000_000_000 + id / i64::from(PARTITIONS) * STEP_MS;
    json!({"id": id, "k": id % KEYS, "ts": ts}).to_string()
}

#[tokio::test]
#[ignore = "needs `scripts/kafka.sh install`"]
async fn rows_and_windows_come_out_once_whatever_is_killed() -> Result<()> {
    let root = TempDir::new()?;
    let mut kafka = Kafka::start(root.path())?;
    let topics = Topics::of(kafka.bootstrap());
    for (topic, partitions) in [("in", PARTITIONS), ("copied", 3), ("windows", 3)] {
        topics.create(topic, partitions).await?;
    }
    let mut sql = table(
        "rows_in",
        "id BIGINT, k BIGINT, ts BIGINT, at AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR at AS at",
        &kafka,
        "in",
        ", 'scan.startup.mode' = 'earliest-offset', 'properties.group.id' = 'watched', 'scan.watermark.idle-timeout' = '0'",
    );
    let once = ", 'sink.delivery-guarantee' = 'exactly-once', 'sink.transaction-timeout' = '60 s'";
    sql += &table("copied", "id BIGINT, k BIGINT", &kafka, "copied", once);
    sql += &table(
        "windows",
        "start_at TIMESTAMP(3), k BIGINT, n BIGINT",
        &kafka,
        "windows",
        once,
    );
    sql += "EXECUTE STATEMENT SET BEGIN
        INSERT INTO copied SELECT id, k FROM rows_in;
        INSERT INTO windows SELECT window_start, k, COUNT(*)
          FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(at), INTERVAL '1' SECOND))
          GROUP BY window_start, window_end, k;
        END;";
    let mut service = Service::up(root.path()).await?;
    let job = Job::create(service.client(), &spec("kafka-once", &sql, QUICK)).await?;
    job.wait_for("running", PATIENCE).await?;

    // Rows come in for some time; meanwhile workers die, the broker once, and the control plane.
    let producer = topics.producer()?;
    let filling = std::thread::spawn(move || -> Result<()> {
        for id in 0..ROWS {
            let value = row(id);
            loop {
                let partition = i32::try_from(id % i64::from(PARTITIONS))?;
                let record = BaseRecord::<(), str>::to("in")
                    .partition(partition)
                    .payload(&value);
                if producer.send(record).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            if id % 200 == 0 {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        producer.flush(PATIENCE)?;
        Ok(())
    });
    let mut chance = Chance::new(run_seed("kafka"), "workers");
    let mut killed = 0;
    let deadline = Instant::now() + Duration::from_secs(14);
    let mut broker_at = Some(Instant::now() + Duration::from_secs(5));
    let mut control_plane_at = Some(Instant::now() + Duration::from_secs(9));
    while Instant::now() < deadline {
        tokio::time::sleep(chance.millis(700, 2_500)).await;
        if let Some(victim) = chance.pick(&job.workers().await?)
            && kill(victim).is_ok()
        {
            killed += 1;
        }
        if broker_at.is_some_and(|at| Instant::now() > at) {
            broker_at = None;
            kafka.restart()?;
        }
        if control_plane_at.is_some_and(|at| Instant::now() > at) {
            control_plane_at = None;
            service.kill()?;
            tokio::time::sleep(chance.millis(500, 2_000)).await;
            service.restart().await?;
        }
    }
    filling
        .join()
        .expect("the producer's thread does not panic")?;
    assert!(killed >= 3, "only {killed} workers were killed");

    let copied = read_until(&topics, "copied", &job, |records| {
        records.len() >= ROWS as usize
    })
    .await?;
    // Windows that the last rows of every partition have closed.
    let per_window = WINDOW_MS / STEP_MS * i64::from(PARTITIONS);
    let closed = (ROWS - i64::from(PARTITIONS)) / per_window;
    let complete = (closed * KEYS) as usize;
    let windows = read_until(&topics, "windows", &job, |records| {
        records.len() >= complete
    })
    .await?;
    // What would come twice comes with the next checkpoints.
    let known = job.newest_checkpoint().await?;
    job.wait_for_checkpoint_after(known + 1, PATIENCE).await?;
    let again = (topics.read("copied")?.len(), topics.read("windows")?.len());
    assert_eq!(again, (copied.len(), windows.len()));

    let mut ids = Vec::new();
    for record in &copied {
        ids.push(record.json()?["id"].as_i64());
    }
    let counts = count(ids);
    assert!(
        counts.values().all(|times| *times == 1),
        "an id is there twice"
    );
    assert_eq!(counts.len(), ROWS as usize);
    let mut found = BTreeMap::new();
    for record in &windows {
        let window = record.json()?;
        let place = (window["start_at"].to_string(), window["k"].as_i64());
        assert!(
            found.insert(place, window["n"].as_i64()).is_none(),
            "{window} is there twice"
        );
    }
    assert_eq!(found.len(), complete);
    assert!(found.values().all(|n| *n == Some(per_window / KEYS)));

    // Offsets of a complete checkpoint are the group's.
    let deadline = Instant::now() + PATIENCE;
    let per_partition = ROWS / i64::from(PARTITIONS);
    while topics.committed("watched", "in", 0)? != Some(per_partition) {
        assert!(Instant::now() < deadline, "offsets are not committed");
        tokio::time::sleep(LOOK).await;
    }
    job.stop("now").await?;
    assert_eq!(service.panics(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
#[ignore = "needs `scripts/kafka.sh install`"]
async fn what_is_written_while_a_job_is_down_is_read_from_latest_too() -> Result<()> {
    let root = TempDir::new()?;
    let kafka = Kafka::start(root.path())?;
    let topics = Topics::of(kafka.bootstrap());
    topics.create("empty", 2).await?;
    topics.create("out", 1).await?;
    topics.append("empty", 1, &[r#"{"id": 1}"#.to_owned()])?;
    let mut sql = table(
        "source",
        "id BIGINT",
        &kafka,
        "empty",
        ", 'scan.startup.mode' = 'latest-offset'",
    );
    let once = ", 'sink.delivery-guarantee' = 'exactly-once'";
    sql += &table("target", "id BIGINT", &kafka, "out", once);
    sql += "INSERT INTO target SELECT id FROM source;";
    let service = Service::up(root.path()).await?;
    let job = Job::create(service.client(), &spec("kafka-latest", &sql, ALONE)).await?;
    job.wait_for("running", PATIENCE).await?;
    job.wait_for_checkpoint_after(0, PATIENCE).await?;
    job.stop_with_savepoint(PATIENCE).await?;
    topics.append("empty", 0, &[r#"{"id": 2}"#.to_owned()])?;
    topics.append("empty", 1, &[r#"{"id": 3}"#.to_owned()])?;
    job.start(&json!({})).await?;
    let records = read_until(&topics, "out", &job, |records| records.len() >= 2).await?;
    let mut ids = Vec::new();
    for record in &records {
        ids.push(record.json()?["id"].as_i64());
    }
    ids.sort_unstable();
    assert_eq!(ids, [Some(2), Some(3)]);
    job.stop("now").await
}

#[tokio::test]
#[ignore = "needs `scripts/kafka.sh install`"]
async fn a_bounded_table_ends_and_an_upsert_table_holds_the_newest() -> Result<()> {
    let root = TempDir::new()?;
    let kafka = Kafka::start(root.path())?;
    let topics = Topics::of(kafka.bootstrap());
    for topic in ["changes", "newest", "kept"] {
        topics.create(topic, 2).await?;
    }
    let values: Vec<String> = (0..1_000)
        .map(|id| json!({"id": id, "k": id % 10, "v": id}).to_string())
        .collect();
    topics.append("changes", 0, &values[..500])?;
    topics.append("changes", 1, &values[500..])?;
    topics.append("changes", 1, &["no JSON".to_owned()])?;
    let mut sql = table(
        "changes",
        "id BIGINT, k BIGINT, v BIGINT, part INT METADATA FROM 'partition' VIRTUAL, \
         at BIGINT METADATA FROM 'offset' VIRTUAL",
        &kafka,
        "changes",
        ", 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'on-error' = 'skip'",
    );
    sql += &format!(
        "CREATE TABLE newest (k BIGINT, n BIGINT, most BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
         'connector' = 'upsert-kafka', 'topic' = 'newest', 'properties.bootstrap.servers' = '{}',
         'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once');\n",
        kafka.bootstrap()
    );
    sql += &table(
        "kept",
        "id STRING, place BIGINT, written TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
        &kafka,
        "kept",
        ", 'key.format' = 'raw', 'key.fields' = 'id', 'value.fields-include' = 'EXCEPT_KEY'",
    );
    sql += "EXECUTE STATEMENT SET BEGIN
        INSERT INTO newest SELECT k, COUNT(*), MAX(v) FROM changes GROUP BY k;
        INSERT INTO kept SELECT CAST(id AS STRING), part * 1000 + at, TO_TIMESTAMP_LTZ(1700000000000 + id, 3)
          FROM changes WHERE id >= 990;
        END;";
    let service = Service::up(root.path()).await?;
    let job = Job::create(service.client(), &spec("kafka-upsert", &sql, QUICK)).await?;
    job.wait_for("finished", PATIENCE).await?;
    let mut newest: BTreeMap<String, Value> = BTreeMap::new();
    for record in topics.read("newest")? {
        newest.insert(record.key.clone().unwrap_or_default(), record.json()?);
    }
    assert_eq!(newest.len(), 10);
    for (key, value) in &newest {
        let key: Value = serde_json::from_str(key)?;
        let k = key["k"].as_i64().unwrap_or(-1);
        assert_eq!(value, &json!({"k": k, "n": 100, "most": 990 + k}));
    }
    let mut kept = topics.read("kept")?;
    kept.sort_by_key(|record| record.key.clone());
    assert_eq!(kept.len(), 10);
    let first = &kept[0];
    assert_eq!(first.key.as_deref(), Some("990"));
    assert_eq!(first.json()?, json!({"place": 1490}));
    assert_eq!(first.timestamp, Some(1_700_000_000_990));
    Ok(())
}

#[tokio::test]
#[ignore = "needs `scripts/kafka.sh install`"]
async fn a_broker_that_is_away_is_told_of_and_waited_for() -> Result<()> {
    let root = TempDir::new()?;
    let mut kafka = Kafka::start(root.path())?;
    let topics = Topics::of(kafka.bootstrap());
    topics.create("in", 2).await?;
    topics.create("out", 1).await?;
    topics.append("in", 0, &[r#"{"id": 1}"#.to_owned()])?;
    kafka.stop()?;
    let mut sql = table(
        "source",
        "id BIGINT",
        &kafka,
        "in",
        ", 'scan.startup.mode' = 'earliest-offset'",
    );
    sql += &table("target", "id BIGINT", &kafka, "out", "");
    sql += "INSERT INTO target SELECT id FROM source;";
    let service = Service::up(root.path()).await?;
    let job = Job::create(service.client(), &spec("kafka-away", &sql, ALONE)).await?;
    job.wait_for("running", PATIENCE).await?;
    let told =
        |events: &str, text: &str| events.contains(text) && events.contains(&kafka.bootstrap());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let events = service
            .client()
            .get(&Client::path("jobs/kafka-away/events"))
            .await?
            .ok()?;
        if told(&events.to_string(), "trying again") {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "nothing is told of the broker: {events}"
        );
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(job.executions().await?.len(), 1, "{}", job.history().await);
    kafka.restart()?;
    read_until(&topics, "out", &job, |records| records.len() == 1).await?;
    kafka.restart()?;
    topics.append("in", 1, &[r#"{"id": 2}"#.to_owned()])?;
    read_until(&topics, "out", &job, |records| records.len() == 2).await?;
    assert_eq!(job.executions().await?.len(), 1, "{}", job.history().await);
    job.stop("now").await
}

#[tokio::test]
#[ignore = "needs `scripts/kafka.sh install`"]
async fn rows_wait_for_a_broker_that_goes_away_while_they_are_written() -> Result<()> {
    let root = TempDir::new()?;
    let mut kafka = Kafka::start(root.path())?;
    let topics = Topics::of(kafka.bootstrap());
    for topic in ["in", "once", "least"] {
        topics.create(topic, 1).await?;
    }
    let mut sql = table(
        "source",
        "id BIGINT",
        &kafka,
        "in",
        ", 'scan.startup.mode' = 'earliest-offset'",
    );
    let once = ", 'sink.delivery-guarantee' = 'exactly-once'";
    sql += &table("once", "id BIGINT", &kafka, "once", once);
    sql += &table("least", "id BIGINT", &kafka, "least", "");
    sql += "EXECUTE STATEMENT SET BEGIN
        INSERT INTO once SELECT id FROM source;
        INSERT INTO least SELECT id FROM source;
        END;";
    let service = Service::up(root.path()).await?;
    let job = Job::create(service.client(), &spec("kafka-outage", &sql, ALONE)).await?;
    job.wait_for("running", PATIENCE).await?;
    let mut expected = Vec::new();
    for round in 0..4_u64 {
        let ids = (0..500).map(|id| round * 500 + id);
        let values: Vec<String> = ids.map(|id| json!({"id": id}).to_string()).collect();
        topics.append("in", 0, &values)?;
        expected.extend(values);
        // At another moment of a checkpoint in every round.
        tokio::time::sleep(Duration::from_millis(70 * round)).await;
        kafka.kill()?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        kafka.restart()?;
    }
    for topic in ["once", "least"] {
        let records = read_until(&topics, topic, &job, |records| {
            records.len() >= expected.len()
        })
        .await?;
        let mut values: Vec<String> = records
            .into_iter()
            .flat_map(|record| record.value)
            .collect();
        if topic == "least" {
            let known: std::collections::BTreeSet<String> = values.iter().cloned().collect();
            assert_eq!(known.len(), expected.len());
            continue;
        }
        values.sort_unstable();
        expected.sort_unstable();
        assert_eq!(values, expected);
    }
    assert_eq!(job.executions().await?.len(), 1, "{}", job.history().await);
    job.stop("now").await
}
