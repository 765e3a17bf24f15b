//! What an execution says of itself, and that the first failure counts.

use futures::FutureExt;
use uuid::Uuid;

use super::*;

fn progress() -> Arc<Progress> {
    Progress::new(
        ExecutionId(Uuid::from_u128(1)),
        VersionNumber(4),
        [0, 2],
        EventHub::new(100),
    )
}

#[test]
fn the_state_follows_what_happens() {
    let progress = progress();
    assert_eq!(progress.status().state(), WorkerState::Deployed);
    progress.start();
    assert_eq!(progress.status().state(), WorkerState::Running);
    progress.drained(2);
    progress.notified(CheckpointId(5), true);
    progress.notified(CheckpointId(6), false);
    let status = progress.status();
    assert_eq!((status.version, status.last_notified_checkpoint), (4, 5));
    assert_eq!(
        (status.drained_subtasks, status.finished_subtasks),
        (vec![2], vec![])
    );
    progress.finished(0);
    progress.finished(2);
    assert!(progress.is_finished());
    // Not before what was put out first has been read.
    assert_eq!(progress.status().state(), WorkerState::Running);
    progress.events().clear();
    assert_eq!(progress.status().state(), WorkerState::Finished);
    assert_eq!(progress.status().finished_subtasks, [0, 2]);
}

#[test]
fn the_first_failure_counts() {
    let progress = progress();
    progress.start();
    assert!(progress.failed().now_or_never().is_none());
    progress.fail(Failure {
        reason: "first".into(),
        operator: Some(("calc".into(), 2)),
        retryable: false,
    });
    progress.lost_peer("second".into());
    assert!(progress.failed().now_or_never().is_some());
    let status = progress.status();
    assert_eq!(status.state(), WorkerState::Failed);
    let failure = status.failure.unwrap();
    assert_eq!(
        (
            failure.reason.as_str(),
            failure.operator.as_str(),
            failure.subtask,
            failure.retryable
        ),
        ("first", "calc", 2, false)
    );
}

#[test]
fn consequences_of_the_end_are_no_failures() {
    let ending = progress();
    ending.end();
    ending.lost_peer("gone".into());
    assert!(ending.failure().is_none());
    ending.fail(Failure::retryable("a commit failed"));
    assert!(ending.failure().is_some());

    let closing = progress();
    closing.close();
    closing.fail(Failure::retryable("x"));
    assert!(closing.failure().is_none());

    let finished = progress();
    finished.finished(0);
    finished.finished(2);
    finished.fail(Failure::retryable("x"));
    assert!(finished.failure().is_none());
}
