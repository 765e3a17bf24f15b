use std::time::Duration;

use millrace_protocol::v1::{self, WorkerState, worker_event::Event};
use tonic::Code;

use crate::test_support::{Cluster, PATIENCE, execution_request};

#[tokio::test]
async fn drivers_of_the_past_are_refused() {
    let mut cluster = Cluster::new(1).await;
    let job = cluster.job;
    let request = cluster.request(1, "10 10", 1);
    let worker = &mut cluster.workers[0];
    let status = worker.attach(job, 5).await.unwrap();
    assert_eq!(status.state(), WorkerState::Idle);

    assert_eq!(
        worker.attach(job, 4).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    let error = worker.client.deploy(request.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    assert!(
        error.message().contains("epoch 1") && error.message().contains("epoch 5"),
        "{error}"
    );
    let error = worker
        .client
        .start(execution_request(&request))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    let error = worker
        .client
        .cancel(execution_request(&request))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_later_driver_ends_the_stream_of_the_former() {
    let mut cluster = Cluster::new(1).await;
    let job = cluster.job;
    let worker = &mut cluster.workers[0];
    let mut former = worker.client.clone();
    let attach = |epoch| v1::AttachRequest {
        epoch,
        job_id: job.to_string(),
    };
    let mut stream = former.attach(attach(1)).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    worker.attach(job, 1).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, stream.message())
        .await
        .unwrap();
    assert_eq!(ended.unwrap_err().code(), Code::Aborted);
}

#[tokio::test]
async fn requests_that_cannot_be_are_refused_with_a_reason() {
    let mut cluster = Cluster::new(1).await;
    let good = cluster.request(1, "10 10", 2);
    let other_version = {
        let mut request = good.clone();
        request.fingerprint = "0123".into();
        request
    };
    let cases: Vec<(&str, Code, v1::DeployRequest)> = vec![
        (
            "Millrace 9.9.9",
            Code::FailedPrecondition,
            other_version.clone(),
        ),
        (
            concat!("Millrace ", env!("CARGO_PKG_VERSION")),
            Code::FailedPrecondition,
            other_version,
        ),
        (
            "does not compile",
            Code::FailedPrecondition,
            cluster.request(1, "nonsense", 1),
        ),
        (
            "has 4 slots",
            Code::InvalidArgument,
            cluster.request(1, "10 10", 5),
        ),
        (
            "spec_json",
            Code::InvalidArgument,
            v1::DeployRequest {
                spec_json: "{".into(),
                ..good.clone()
            },
        ),
        (
            "execution_id",
            Code::InvalidArgument,
            v1::DeployRequest {
                execution_id: "x".into(),
                ..good.clone()
            },
        ),
        (
            "tenant",
            Code::InvalidArgument,
            v1::DeployRequest {
                tenant: "../x".into(),
                ..good.clone()
            },
        ),
        (
            "0 of 2 subtasks",
            Code::InvalidArgument,
            v1::DeployRequest {
                workers: vec![],
                ..good.clone()
            },
        ),
        (
            "does not exist",
            Code::FailedPrecondition,
            v1::DeployRequest {
                restore_manifest: "x/manifest.json".into(),
                ..good.clone()
            },
        ),
        (
            "is not supported",
            Code::FailedPrecondition,
            v1::DeployRequest {
                storage_url: "ftp://x".into(),
                ..good.clone()
            },
        ),
        (
            "not for `x`",
            Code::FailedPrecondition,
            v1::DeployRequest {
                job_id: "x".into(),
                ..good.clone()
            },
        ),
    ];
    let worker = &mut cluster.workers[0];
    for (reason, code, request) in cases {
        let error = worker.client.deploy(request).await.unwrap_err();
        assert_eq!(error.code(), code, "{reason}: {error}");
        assert!(error.message().contains(reason), "{reason}: {error}");
    }
    // Orders for what is not there.
    let start = worker
        .client
        .start(execution_request(&good))
        .await
        .unwrap_err();
    assert_eq!(start.code(), Code::NotFound);
    worker
        .client
        .cancel(execution_request(&good))
        .await
        .unwrap();

    worker.client.deploy(good.clone()).await.unwrap();
    let trigger = v1::TriggerCheckpointRequest {
        epoch: 1,
        execution_id: good.execution_id.clone(),
        checkpoint_id: 1,
        ..v1::TriggerCheckpointRequest::default()
    };
    let error = worker.client.trigger_checkpoint(trigger).await.unwrap_err();
    assert!(error.message().contains("is not running"), "{error}");
    worker.client.start(execution_request(&good)).await.unwrap();
    // Again changes nothing.
    worker.client.start(execution_request(&good)).await.unwrap();
}

#[tokio::test]
async fn acknowledgements_that_were_not_decided_are_told_again() {
    let mut cluster = Cluster::new(1).await;
    let job = cluster.job;
    let request = cluster.request(1, "1000000 1000", 2);
    cluster.start(&request).await;
    cluster.checkpoint(&request, 1, 2).await;
    let worker = &mut cluster.workers[0];
    let status = worker.attach(job, 2).await.unwrap();
    assert_eq!(status.state(), WorkerState::Running);
    for _ in 0..2 {
        worker
            .until(|event| matches!(event, Event::CheckpointAck(_)).then_some(()))
            .await;
    }
    let request = v1::DeployRequest {
        epoch: 2,
        ..request
    };
    cluster.notify(&request, 1, false, false).await;
    // Given up; the next one works.
    cluster.checkpoint(&request, 2, 2).await;
}

#[tokio::test]
async fn drained_sources_end_the_job_early() {
    let mut cluster = Cluster::new(1).await;
    let request = cluster.request(1, "1000000000 1000", 2);
    cluster.start(&request).await;
    let worker = &mut cluster.workers[0];
    worker
        .until(|event| matches!(event, Event::Output(_)).then_some(()))
        .await;
    worker
        .client
        .drain(execution_request(&request))
        .await
        .unwrap();
    for _ in 0..2 {
        worker
            .until(|event| matches!(event, Event::SubtaskDrained(_)).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn a_worker_registers_and_ends_when_it_is_not_wanted() {
    let mut cluster = Cluster::new(1).await;
    let request = cluster.request(3, "1000000 1000", 1);
    let (id, address) = (cluster.workers[0].id, cluster.workers[0].address.clone());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while cluster.registered(id).is_none() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let registered = cluster.registered(id).unwrap();
    assert_eq!(
        (registered.address, registered.execution_id.as_str()),
        (address, "")
    );
    assert_eq!(
        (registered.slots, registered.version.as_str()),
        (4, env!("CARGO_PKG_VERSION"))
    );
    cluster.start(&request).await;
    while cluster.registered(id).unwrap().execution_id != request.execution_id {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    cluster.unwant();
    let worker = &mut cluster.workers[0];
    let failure = worker
        .until(|event| match event {
            Event::ExecutionFailed(failed) => Some(failed.clone()),
            _ => None,
        })
        .await;
    assert!(failure.reason.contains("does not want it"), "{failure:?}");
    let ended = worker.ended.take().unwrap();
    tokio::time::timeout(PATIENCE, ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn shutdown_ends_the_process_with_a_driver_attached() {
    let mut cluster = Cluster::new(1).await;
    let job = cluster.job;
    let request = cluster.request(1, "1000000 1000", 2);
    cluster.start(&request).await;
    let worker = &mut cluster.workers[0];
    let shutdown = v1::AttachRequest {
        epoch: 1,
        job_id: job.to_string(),
    };
    worker.client.shutdown(shutdown).await.unwrap();
    let ended = worker.ended.take().unwrap();
    tokio::time::timeout(PATIENCE, ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
