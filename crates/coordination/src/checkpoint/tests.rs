//! The coordinator, input by input. Times in milliseconds; two subtasks.

use millrace_types::{CheckpointId, ExecutionId, SavepointId, SubtaskIndex};
use uuid::Uuid;

use super::*;
use crate::lifecycle::{Event, FinalSnapshot};

const EXECUTION: ExecutionId = ExecutionId(Uuid::from_u128(1));

fn setup() -> Setup {
    Setup {
        settings: Settings {
            interval_ms: 1_000,
            min_pause_ms: 0,
            timeout_ms: 5_000,
            tolerable_failures: 1,
            retained: 2,
        },
        execution: EXECUTION,
        subtasks: 2,
        last: CheckpointId(10),
        retained: Vec::new(),
    }
}

fn barrier(checkpoint: u64) -> Barrier {
    Barrier {
        checkpoint: CheckpointId(checkpoint),
        savepoint: None,
        last: false,
    }
}

fn acknowledged(checkpoint: u64, subtask: u32) -> Input {
    Input::Acknowledged {
        execution: EXECUTION,
        checkpoint: CheckpointId(checkpoint),
        subtask: SubtaskIndex(subtask),
    }
}

fn declined(checkpoint: u64) -> Input {
    Input::Declined {
        execution: EXECUTION,
        checkpoint: CheckpointId(checkpoint),
        reason: "disk full".into(),
    }
}

fn drained(subtask: u32) -> Input {
    Input::Drained {
        execution: EXECUTION,
        subtask: SubtaskIndex(subtask),
    }
}

fn finished(subtask: u32) -> Input {
    Input::Finished {
        execution: EXECUTION,
        subtask: SubtaskIndex(subtask),
    }
}

fn completed(checkpoint: u64, savepoint: Option<u64>) -> Output {
    Output::Report(Event::CheckpointCompleted {
        execution: EXECUTION,
        checkpoint: CheckpointId(checkpoint),
        savepoint: savepoint.map(SavepointId),
    })
}

/// Acknowledges and persists what is in flight; the outputs of the last step.
fn complete(coordinator: &mut Coordinator, checkpoint: u64, now_ms: i64) -> Vec<Output> {
    assert_eq!(coordinator.step(acknowledged(checkpoint, 0), now_ms), []);
    let outputs = coordinator.step(acknowledged(checkpoint, 1), now_ms);
    assert!(
        matches!(&outputs[..], [Output::Persist(b)] if b.checkpoint.0 == checkpoint),
        "{outputs:?}"
    );
    coordinator.step(
        Input::Persisted {
            checkpoint: CheckpointId(checkpoint),
        },
        now_ms,
    )
}

#[test]
fn checkpoints_come_at_the_interval_and_after_the_pause() {
    for (min_pause_ms, takes_ms, due_ms) in
        [(0, 100, 2_000), (950, 100, 2_050), (300, 1_500, 2_800)]
    {
        let mut setup = setup();
        setup.settings.min_pause_ms = min_pause_ms;
        let mut coordinator = Coordinator::new(setup, 0);
        assert_eq!(coordinator.next_wake(), Some(1_000));
        assert_eq!(coordinator.step(Input::Tick, 999), []);
        assert_eq!(
            coordinator.step(Input::Tick, 1_000),
            [Output::Begin(barrier(11))]
        );
        assert_eq!(coordinator.next_wake(), Some(6_000), "the time-out");
        let outputs = complete(&mut coordinator, 11, 1_000 + takes_ms);
        assert_eq!(outputs, [completed(11, None), Output::Notify(barrier(11))]);
        assert_eq!(coordinator.next_wake(), Some(due_ms));
        assert_eq!(coordinator.step(Input::Tick, due_ms - 1), []);
        assert_eq!(
            coordinator.step(Input::Tick, due_ms),
            [Output::Begin(barrier(12))]
        );
    }
}

#[test]
fn a_checkpoint_that_took_longer_than_the_interval_is_followed_at_once() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let _ = coordinator.step(Input::Tick, 1_000);
    let outputs = complete(&mut coordinator, 11, 2_500);
    assert_eq!(outputs.last(), Some(&Output::Begin(barrier(12))));
}

#[test]
fn what_is_late_or_foreign_is_ignored() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let _ = coordinator.step(Input::Tick, 1_000);
    let outputs = coordinator.step(declined(11), 1_100);
    assert!(
        matches!(&outputs[..], [Output::Abort { .. }]),
        "{outputs:?}"
    );
    let _ = coordinator.step(Input::Tick, 2_000);
    let before = coordinator.clone();
    let other = ExecutionId(Uuid::from_u128(2));
    for late in [
        acknowledged(11, 0),
        acknowledged(11, 1),
        declined(11),
        Input::Acknowledged {
            execution: other,
            checkpoint: CheckpointId(12),
            subtask: SubtaskIndex(0),
        },
        Input::Drained {
            execution: other,
            subtask: SubtaskIndex(0),
        },
        Input::Persisted {
            checkpoint: CheckpointId(11),
        },
        finished(0),
        drained(7),
    ] {
        assert_eq!(coordinator.step(late.clone(), 2_000), [], "{late:?}");
        assert_eq!(coordinator, before, "{late:?}");
    }
}

#[test]
fn too_many_failures_in_a_row_fail_the_execution() {
    let mut coordinator = Coordinator::new(setup(), 0);
    // One is tolerated; a completed checkpoint starts the count again.
    for (now_ms, good) in [(1_000, false), (2_000, true), (3_000, false)] {
        let id = 10 + now_ms as u64 / 1_000;
        let _ = coordinator.step(Input::Tick, now_ms);
        let outputs = if good {
            complete(&mut coordinator, id, now_ms)
        } else {
            coordinator.step(declined(id), now_ms)
        };
        let failed = outputs
            .iter()
            .any(|output| matches!(output, Output::Report(Event::Failed { .. })));
        assert!(!failed, "{outputs:?}");
    }
    let _ = coordinator.step(Input::Tick, 4_000);
    let outputs = coordinator.step(Input::Tick, 9_000);
    let [
        Output::Abort { reason, .. },
        Output::Report(Event::Failed { failure, .. }),
        ..,
    ] = &outputs[..]
    else {
        panic!("{outputs:?}");
    };
    assert!(reason.contains("2 of 2 subtasks"), "{reason}");
    assert!(failure.retryable);
    assert!(
        failure.reason.contains("2 checkpoints in a row"),
        "{failure}"
    );
}

#[test]
fn only_the_newest_checkpoints_are_kept() {
    let mut setup = setup();
    setup.retained = vec![CheckpointId(4), CheckpointId(9)];
    let mut coordinator = Coordinator::new(setup, 0);
    let _ = coordinator.step(Input::Tick, 1_000);
    let outputs = complete(&mut coordinator, 11, 1_000);
    assert_eq!(outputs.last(), Some(&Output::Retire(vec![CheckpointId(4)])));
}

#[test]
fn a_savepoint_goes_first_and_replaces_no_checkpoint() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let savepoint = Barrier {
        savepoint: Some(SavepointId(3)),
        ..barrier(11)
    };
    let request = Input::Savepoint {
        savepoint: SavepointId(3),
    };
    assert_eq!(
        coordinator.step(request.clone(), 10),
        [Output::Begin(savepoint)]
    );
    assert_eq!(coordinator.step(request, 11), [], "asked for again");
    assert_eq!(
        complete(&mut coordinator, 11, 20),
        [completed(11, Some(3)), Output::Notify(savepoint)]
    );
}

#[test]
fn a_bounded_job_takes_its_last_checkpoint_and_finishes() {
    let mut coordinator = Coordinator::new(setup(), 0);
    assert_eq!(coordinator.step(drained(0), 10), []);
    let last = Barrier {
        last: true,
        ..barrier(11)
    };
    assert_eq!(coordinator.step(drained(1), 20), [Output::Begin(last)]);
    assert_eq!(
        complete(&mut coordinator, 11, 30),
        [completed(11, None), Output::Notify(last)]
    );
    assert_eq!(coordinator.step(finished(1), 40), []);
    assert_eq!(
        coordinator.step(finished(0), 40),
        [Output::Report(Event::Finished {
            execution: EXECUTION
        })]
    );
    assert_eq!(coordinator.next_wake(), None);
}

#[test]
fn a_failed_last_checkpoint_is_repeated() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let _ = coordinator.step(drained(0), 10);
    let _ = coordinator.step(drained(1), 20);
    let _ = coordinator.step(declined(11), 30);
    assert_eq!(coordinator.next_wake(), Some(30 + FINAL_RETRY_MS));
    let outputs = coordinator.step(Input::Tick, 30 + FINAL_RETRY_MS);
    assert_eq!(
        outputs,
        [Output::Begin(Barrier {
            last: true,
            ..barrier(12)
        })]
    );
}

#[test]
fn a_stop_waits_for_what_is_in_flight_and_then_takes_its_savepoint() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let _ = coordinator.step(Input::Tick, 1_000);
    let snapshot = FinalSnapshot::Savepoint {
        savepoint: SavepointId(1),
        drain: false,
    };
    assert_eq!(coordinator.step(Input::Final { snapshot }, 1_010), []);
    let last = Barrier {
        checkpoint: CheckpointId(12),
        savepoint: Some(SavepointId(1)),
        last: true,
    };
    let outputs = complete(&mut coordinator, 11, 1_020);
    assert_eq!(outputs.last(), Some(&Output::Begin(last)));
    let refused = coordinator.step(
        Input::Savepoint {
            savepoint: SavepointId(2),
        },
        1_030,
    );
    assert!(matches!(&refused[..], [Output::Refuse { .. }]));
    assert_eq!(
        complete(&mut coordinator, 12, 1_040),
        [
            completed(12, Some(1)),
            Output::Report(Event::FinalCompleted {
                execution: EXECUTION
            }),
            Output::Notify(last)
        ]
    );
}

#[test]
fn a_failed_stop_is_reported_and_checkpoints_go_on() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let snapshot = FinalSnapshot::Savepoint {
        savepoint: SavepointId(1),
        drain: false,
    };
    let _ = coordinator.step(Input::Final { snapshot }, 10);
    let outputs = coordinator.step(declined(11), 20);
    assert!(
        matches!(
            &outputs[..],
            [Output::Abort { .. }, Output::Report(Event::FinalFailed { reason, .. })]
                if reason == "disk full"
        ),
        "{outputs:?}"
    );
    assert_eq!(
        coordinator.step(Input::Tick, 1_010),
        [Output::Begin(barrier(12))]
    );
}

#[test]
fn a_drained_stop_waits_for_the_inputs_to_end() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let snapshot = FinalSnapshot::Savepoint {
        savepoint: SavepointId(1),
        drain: true,
    };
    assert_eq!(coordinator.step(Input::Final { snapshot }, 10), []);
    assert_eq!(coordinator.step(drained(0), 20), []);
    assert_eq!(
        coordinator.step(drained(1), 30),
        [Output::Begin(Barrier {
            checkpoint: CheckpointId(11),
            savepoint: Some(SavepointId(1)),
            last: true
        })]
    );
}

#[test]
fn an_adopted_execution_repeats_the_notification_and_gives_up_the_rest() {
    for (notified, repeated) in [(8, true), (9, false)] {
        let adopted = Adopted {
            in_flight: vec![barrier(10)],
            completed: Some(barrier(9)),
            notified: CheckpointId(notified),
            ..Adopted::default()
        };
        let (coordinator, outputs) = Coordinator::adopt(setup(), adopted, 0);
        assert!(matches!(&outputs[0], Output::Abort { barrier: b, .. } if *b == barrier(10)));
        assert_eq!(
            outputs.contains(&Output::Notify(barrier(9))),
            repeated,
            "{notified}"
        );
        assert_eq!(coordinator.last(), CheckpointId(10));
    }
}

#[test]
fn an_adopted_savepoint_in_flight_does_not_fail_but_is_taken_again() {
    let snapshot = FinalSnapshot::Savepoint {
        savepoint: SavepointId(3),
        drain: false,
    };
    for (last, trigger) in [(false, Input::Tick), (true, Input::Final { snapshot })] {
        let savepoint = Barrier {
            savepoint: Some(SavepointId(3)),
            last,
            ..barrier(10)
        };
        let adopted = Adopted {
            in_flight: vec![savepoint],
            ..Adopted::default()
        };
        let (mut coordinator, outputs) = Coordinator::adopt(setup(), adopted, 0);
        assert!(
            matches!(&outputs[..], [Output::Abort { failed: None, .. }]),
            "{outputs:?}"
        );
        // One that was asked for is due at once, the last one when the lifecycle orders it.
        let due_ms = if last { 1_000 } else { 0 };
        assert_eq!(coordinator.next_wake(), Some(due_ms));
        let again = Barrier {
            checkpoint: CheckpointId(11),
            ..savepoint
        };
        assert_eq!(coordinator.step(trigger, 0), [Output::Begin(again)]);
        assert_eq!(
            complete(&mut coordinator, 11, 10)[0],
            completed(11, Some(3))
        );
    }
}

#[test]
fn a_savepoint_fails_with_its_barrier_unless_the_lifecycle_fails_it() {
    let mut coordinator = Coordinator::new(setup(), 0);
    let savepoint = SavepointId(3);
    let _ = coordinator.step(Input::Savepoint { savepoint }, 0);
    let outputs = coordinator.step(declined(11), 1);
    assert!(
        matches!(&outputs[0], Output::Abort { failed, .. } if *failed == Some(savepoint)),
        "{outputs:?}"
    );
    let snapshot = FinalSnapshot::Savepoint {
        savepoint: SavepointId(4),
        drain: false,
    };
    let _ = coordinator.step(Input::Final { snapshot }, 2);
    let outputs = coordinator.step(declined(12), 3);
    assert!(
        matches!(
            &outputs[..2],
            [
                Output::Abort { failed: None, .. },
                Output::Report(Event::FinalFailed { .. })
            ]
        ),
        "{outputs:?}"
    );
}

#[test]
fn an_adopted_ending_ends() {
    let last = Barrier {
        last: true,
        ..barrier(10)
    };
    let adopted = Adopted {
        completed: Some(last),
        notified: CheckpointId(10),
        finished: vec![SubtaskIndex(0), SubtaskIndex(1)],
        ..Adopted::default()
    };
    let (mut coordinator, outputs) = Coordinator::adopt(setup(), adopted, 0);
    assert_eq!(outputs, [Output::Notify(last)]);
    assert_eq!(coordinator.next_wake(), Some(0));
    // The lifecycle had asked for it: first it learns that the snapshot is there.
    assert_eq!(
        coordinator.step(
            Input::Final {
                snapshot: FinalSnapshot::Checkpoint
            },
            0
        ),
        [
            Output::Report(Event::FinalCompleted {
                execution: EXECUTION
            }),
            Output::Report(Event::Finished {
                execution: EXECUTION
            })
        ]
    );
}
