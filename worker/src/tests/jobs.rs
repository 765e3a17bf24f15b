use std::collections::{BTreeMap, BTreeSet};

use millrace_protocol::v1::{self, WorkerState, worker_event::Event};
use millrace_state::{Layout, SlotSnapshot, SnapshotKind, SnapshotManifest, manifest, storage};
use millrace_types::{CheckpointId, Fingerprint, TenantName};

use crate::test_support::{Cluster, execution_request, numbers};

/// Rows of an execution by subtask, until all of its subtasks are drained.
async fn run_to_the_end(
    cluster: &mut Cluster,
    execution: &str,
    subtasks_per_worker: usize,
) -> BTreeMap<u32, Vec<i64>> {
    let mut rows: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for worker in &mut cluster.workers {
        let mut drained = BTreeSet::new();
        while drained.len() < subtasks_per_worker {
            match worker.next().await.unwrap() {
                Event::Output(output) if output.execution_id == execution => {
                    assert_eq!((output.table.as_str(), output.dropped), ("out", 0));
                    rows.entry(output.subtask)
                        .or_default()
                        .extend(numbers(&output));
                }
                Event::SubtaskDrained(subtask) if subtask.execution_id == execution => {
                    drained.insert(subtask.subtask);
                }
                Event::ExecutionFailed(failed) if failed.execution_id == execution => {
                    panic!("{failed:?}")
                }
                _ => {}
            }
        }
    }
    rows
}

/// As the control plane does when all subtasks have acknowledged.
async fn write_manifest(
    cluster: &Cluster,
    request: &v1::DeployRequest,
    checkpoint: u64,
    parallelism: u32,
    acks: &[v1::CheckpointAck],
) -> String {
    let (store, root) = storage::open(&cluster.storage_url()).unwrap();
    let tenant = TenantName::new("default").unwrap();
    let layout = Layout::new(root, tenant.clone(), cluster.job);
    let mut slots: Vec<SlotSnapshot> = acks
        .iter()
        .map(|ack| serde_json::from_str(&ack.slot_snapshot_json).unwrap())
        .collect();
    slots.sort_by_key(|slot| slot.subtask);
    let written = SnapshotManifest {
        format: 1,
        tenant,
        job: cluster.job,
        checkpoint: CheckpointId(checkpoint),
        kind: SnapshotKind::Checkpoint,
        created_at_ms: 0,
        execution: request.execution_id.parse().unwrap(),
        fingerprint: Fingerprint(request.fingerprint.clone()),
        parallelism,
        max_parallelism: 16,
        key_encoding: 1,
        slots,
    };
    manifest::write(store.as_ref(), &layout, &written)
        .await
        .unwrap();
    layout
        .checkpoint_manifest(CheckpointId(checkpoint))
        .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_job_runs_over_two_workers_and_finishes() {
    const COUNT: i64 = 30_000;
    let mut cluster = Cluster::new(2).await;
    let request = cluster.request(7, &format!("{COUNT} 1000000"), 4);
    cluster.start(&request).await;
    let rows = run_to_the_end(&mut cluster, &request.execution_id, 2).await;

    assert_eq!(
        rows.keys().copied().collect::<Vec<_>>(),
        [0, 1, 2, 3],
        "every subtask gets some"
    );
    let mut all: Vec<i64> = rows.into_values().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..COUNT).collect::<Vec<_>>(), "each row once");

    let metrics = cluster.workers[0]
        .until(|event| match event {
            Event::Metrics(metrics) => Some(metrics.clone()),
            _ => None,
        })
        .await;
    let subtasks: Vec<millrace_types::SubtaskMetrics> =
        serde_json::from_str(&metrics.subtasks_json).unwrap();
    assert_eq!(subtasks.len(), 4, "two nodes of two subtasks");
    let worker: millrace_types::WorkerMetrics = serde_json::from_str(&metrics.worker_json).unwrap();
    assert!(worker.resident_bytes > 0);

    let acks = cluster.checkpoint(&request, 1, 4).await;
    assert_eq!(acks.len(), 4);
    cluster.notify(&request, 1, true, true).await;
    for worker in &mut cluster.workers {
        for _ in 0..2 {
            worker
                .until(|event| matches!(event, Event::SubtaskFinished(_)).then_some(()))
                .await;
        }
    }
    let job = cluster.job;
    for (worker, expected) in cluster.workers.iter_mut().zip([[0, 2], [1, 3]]) {
        let status = worker.attach(job, 1).await.unwrap();
        assert_eq!(status.state(), WorkerState::Finished);
        assert_eq!(status.finished_subtasks, expected);
        assert_eq!(status.drained_subtasks, expected);
        assert_eq!(status.last_notified_checkpoint, 1);
        worker
            .client
            .cancel(execution_request(&request))
            .await
            .unwrap();
        let left: Vec<_> = std::fs::read_dir(&worker.data_dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["lock"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_restored_at_another_parallelism_goes_on_where_the_checkpoint_was() {
    const COUNT: i64 = 12_000;
    let mut cluster = Cluster::new(2).await;
    let request = cluster.request(1, &format!("{COUNT} 6000"), 4);
    cluster.start(&request).await;
    let mut before = Vec::new();
    // Some rows must be out before the checkpoint.
    while before.is_empty() {
        if let Event::Output(output) = cluster.workers[0].next().await.unwrap() {
            before.extend(numbers(&output));
        }
    }
    let acks = cluster.checkpoint(&request, 5, 4).await;
    assert!(acks.iter().all(|ack| ack.checkpoint_id == 5));
    let restore = write_manifest(&cluster, &request, 5, 4, &acks).await;
    cluster.notify(&request, 5, true, false).await;
    for worker in &mut cluster.workers {
        worker
            .until(|event| matches!(event, Event::CheckpointCommitted(_)).then_some(()))
            .await;
    }

    // The next execution replaces the one that still runs.
    let mut next = cluster.request(2, &format!("{COUNT} 1000000"), 2);
    next.restore_manifest = restore;
    // Another rate is another job: only its fingerprint and state count.
    cluster.start(&next).await;
    let rows = run_to_the_end(&mut cluster, &next.execution_id, 1).await;
    let mut after: Vec<i64> = rows.into_values().flatten().collect();
    after.sort_unstable();
    let distinct: BTreeSet<i64> = after.iter().copied().collect();
    assert_eq!(distinct.len(), after.len(), "no row twice");
    assert!(
        before.iter().all(|row| !distinct.contains(row)),
        "rows before the checkpoint come again"
    );
    assert!(
        after.len() < COUNT as usize && after.len() > 100,
        "{}",
        after.len()
    );
    assert_eq!(*after.last().unwrap(), COUNT - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_peer_fails_the_execution_and_is_named() {
    let mut cluster = Cluster::new(2).await;
    let request = cluster.request(1, "100000000 20000", 2);
    cluster.start(&request).await;
    cluster.workers[0]
        .until(|event| matches!(event, Event::Output(_)).then_some(()))
        .await;

    let lost = cluster.workers.pop().unwrap();
    lost.shutdown.cancel();
    let failure = cluster.workers[0]
        .until(|event| match event {
            Event::ExecutionFailed(failed) => Some(failed.clone()),
            _ => None,
        })
        .await;
    assert!(failure.retryable, "{failure:?}");
    assert!(failure.reason.contains(&lost.id.to_string()), "{failure:?}");
    let job = cluster.job;
    let status = cluster.workers[0].attach(job, 1).await.unwrap();
    assert_eq!(status.state(), WorkerState::Failed);
    assert_eq!(status.failure, Some(failure));
    let refused = cluster.workers[0]
        .client
        .drain(execution_request(&request))
        .await
        .unwrap_err();
    assert_eq!(
        refused.code(),
        tonic::Code::Aborted,
        "another attempt may help"
    );
    assert!(
        refused.message().contains(&lost.id.to_string()),
        "{refused}"
    );

    // Alone, and anew.
    let next = cluster.request(2, "5000 1000000", 2);
    cluster.start(&next).await;
    let rows = run_to_the_end(&mut cluster, &next.execution_id, 2).await;
    assert_eq!(rows.into_values().flatten().count(), 5_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_for_a_while_and_the_job_goes_on() {
    const COUNT: i64 = 20_000;
    let mut cluster = Cluster::new(2).await;
    let mut request = cluster.request(1, &format!("{COUNT} 1000000"), 2);
    request.lossless_output = false;
    // Deployed and started by a driver that never attached.
    for worker in &mut cluster.workers {
        worker.client.deploy(request.clone()).await.unwrap();
    }
    for worker in &mut cluster.workers {
        worker
            .client
            .start(execution_request(&request))
            .await
            .unwrap();
    }
    cluster.stop_control_plane();
    let job = cluster.job;
    for index in 0..2 {
        loop {
            let worker = &mut cluster.workers[index];
            let status = worker.attach(job, 1).await.unwrap();
            assert_eq!(status.state(), WorkerState::Running, "{status:?}");
            if status.drained_subtasks == [index as u32] {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
