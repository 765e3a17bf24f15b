//! Live views, as drivers fill and readers see them.

use chrono::TimeDelta;
use uuid::Uuid;

use super::*;

const JOB: JobId = JobId(Uuid::from_u128(1));
const EXECUTION: ExecutionId = ExecutionId(Uuid::from_u128(2));
const WORKER: WorkerId = WorkerId(Uuid::from_u128(3));

fn row(number: u32) -> String {
    format!(r#"{{"kind":"+I","row":{{"n":{number}}}}}"#)
}

fn measured(
    node: u32,
    subtask: u32,
    rows_in: u64,
    busy_ms: u64,
    watermark: Option<i64>,
) -> SubtaskMetrics {
    SubtaskMetrics {
        node,
        subtask,
        rows_in,
        busy_nanos: busy_ms * 1_000_000,
        idle_nanos: (1_000 - busy_ms) * 1_000_000,
        watermark,
        ..SubtaskMetrics::default()
    }
}

#[test]
fn operators_are_summed_with_rates_over_the_last_interval() {
    let live = LiveJobs::default();
    assert_eq!(live.metrics(JOB), None);
    let job = live.open(JOB);
    job.begin(EXECUTION, vec![(0, "source".into()), (1, "sink".into())]);
    assert_eq!(live.metrics(JOB), None, "nothing measured");
    let start = DateTime::<Utc>::UNIX_EPOCH;
    let report = |at, subtasks| {
        job.report(EXECUTION, WORKER, at, subtasks, WorkerMetrics::default());
    };
    report(
        start,
        vec![measured(0, 0, 0, 0, None), measured(0, 1, 100, 0, Some(7))],
    );
    assert_eq!(live.metrics(JOB).unwrap().operators[0].watermark, None);
    let mut late = measured(0, 1, 300, 500, Some(9));
    late.idle_nanos = 1_500_000_000;
    report(
        start + TimeDelta::seconds(2),
        vec![measured(0, 0, 50, 250, Some(5)), late],
    );
    let metrics = live.metrics(JOB).unwrap();
    let source = &metrics.operators[0];
    assert_eq!((source.name.as_str(), source.rows_in), ("source", 350));
    assert_eq!(source.rows_in_per_second, 25.0 + 100.0);
    assert_eq!(source.watermark, Some(5));
    // Of the busiest subtask: 500 ms of 2 s, and 500 ms idle since the first report.
    assert_eq!((source.busy, source.idle), (0.25, 0.25));
    assert_eq!(source.subtasks.len(), 2);
    assert_eq!(metrics.operators[1].rows_in, 0);
    // Another execution's report does not count.
    job.report(
        ExecutionId(Uuid::from_u128(9)),
        WORKER,
        start,
        vec![measured(0, 0, 1_000, 0, None)],
        WorkerMetrics::default(),
    );
    assert_eq!(live.metrics(JOB).unwrap().operators[0].rows_in, 350);
}

#[tokio::test]
async fn previews_get_the_last_rows_and_the_new_ones() {
    let live = LiveJobs::default();
    let job = live.open(JOB);
    job.push_rows("t", 0, (0..1_500).map(row).collect(), false)
        .await;
    let Preview {
        backlog, mut rows, ..
    } = live.output(JOB);
    assert_eq!(backlog.len(), 1_000);
    assert_eq!(backlog[0].seq, 501);
    assert_eq!(backlog[999].row, r#"{"n":1499}"#);
    job.push_rows("t", 3, vec!["no row".into(), row(7)], false)
        .await;
    let next = rows.recv().await.unwrap();
    assert_eq!(
        (
            next.seq,
            next.subtask,
            next.kind.as_str(),
            next.row.as_str()
        ),
        (1_501, 3, "+I", r#"{"n":7}"#)
    );
}

#[tokio::test]
async fn a_preview_tells_that_rows_went_elsewhere() {
    let live = LiveJobs::default();
    let job = live.open(JOB);
    job.push_rows("t", 0, vec![row(1)], false).await;
    let before = live.output(JOB);
    assert_eq!((before.gap, before.backlog.len()), (false, 1));
    job.taken_over();
    job.push_rows("t", 0, vec![row(2)], false).await;
    let after = live.output(JOB);
    // What this replica has seen of the job before it lost it is not what came just before.
    let rows: Vec<_> = after.backlog.into_iter().map(|row| row.row).collect();
    assert_eq!((after.gap, rows), (true, vec![r#"{"n":2}"#.to_owned()]));
}

#[tokio::test]
async fn a_reader_that_must_see_every_row_holds_the_job_back() {
    let live = LiveJobs::default();
    let job = live.open(JOB);
    job.begin(EXECUTION, Vec::new());
    // More than fits: the job waits until somebody reads.
    let pushing = tokio::spawn({
        let job = job.clone();
        async move {
            for number in 0..20_000 {
                job.push_rows("t", 0, vec![row(number)], true).await;
            }
            job.end_output();
        }
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!pushing.is_finished());
    let mut reader = live.lossless_output(JOB);
    let mut next = 0;
    while let Some(row) = reader.recv().await {
        assert_eq!(row.row, format!(r#"{{"n":{next}}}"#));
        next += 1;
    }
    assert_eq!(next, 20_000);
    pushing.await.unwrap();
}

#[tokio::test]
async fn a_reader_that_comes_after_the_end_still_gets_the_rows() {
    let live = LiveJobs::default();
    let job = live.open(JOB);
    job.push_rows("t", 0, vec![row(1)], true).await;
    job.end_output();
    let mut reader = live.lossless_output(JOB);
    assert!(reader.recv().await.is_some());
    assert!(reader.recv().await.is_none());
}

#[tokio::test]
async fn waking_is_not_lost() {
    let live = LiveJobs::default();
    live.wake(JOB);
    live.wake(JOB);
    assert_eq!(live.woken().await, HashSet::from([JOB]));
}
