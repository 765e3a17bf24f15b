//! Properties over random histories, and the stories that people rely on.

use millrace_types::{
    CheckpointId, Condition, ExecutionId, JobState, RestartSpec, SavepointId, StopMode,
    UpgradeMode, VersionNumber,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::world::{Move, World};

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Start),
        2 => prop_oneof![
            Just(Move::Stop(StopMode::Savepoint)),
            Just(Move::Stop(StopMode::Drain)),
            Just(Move::Stop(StopMode::Now)),
        ],
        1 => Just(Move::Cancel),
        2 => prop_oneof![
            Just(Move::NewVersion(UpgradeMode::Savepoint)),
            Just(Move::NewVersion(UpgradeMode::LastState)),
        ],
        1 => Just(Move::Suspend),
        2 => Just(Move::Savepoint),
        24 => (any::<usize>(), prop::bool::weighted(0.85))
            .prop_map(|(which, good)| Move::Answer { which, good }),
        2 => prop::bool::weighted(0.8).prop_map(|retryable| Move::Fail { retryable }),
        1 => Just(Move::Stale),
        1 => Just(Move::InputsEnd),
        4 => (1_i64..3_000).prop_map(|ms| Move::Wait { ms }),
        1 => Just(Move::Wait { ms: 400_000 }),
        2 => Just(Move::TakeOver),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_stops_end(
        history in prop::collection::vec(moves(), 1..120),
        mode in prop_oneof![Just(StopMode::Savepoint), Just(StopMode::Drain), Just(StopMode::Now)],
    ) {
        let mut world = World::new();
        let mut run = || -> Result<(), String> {
            world.make(&Move::Start)?;
            for next in &history {
                world.make(next)?;
            }
            // A stop under way may have failed on the way here; one asked for now must end.
            world.make(&Move::Stop(mode))?;
            world.settle()
        };
        let result = run();
        prop_assert!(result.is_ok(), "{}\nevent log:\n{}", result.unwrap_err(), world.log());
    }
}

/// A job with a clock, told events and asked for its effects.
struct Story {
    job: Job,
    now_ms: i64,
    executions: u128,
    effects: Vec<Effect>,
}

fn policy(upgrade: UpgradeMode) -> Policy {
    Policy {
        restart: RestartSpec::default(),
        upgrade,
        checkpoint_interval_ms: 10_000,
    }
}

impl Story {
    fn new() -> Self {
        Story {
            job: Job::new(VersionNumber(1), policy(UpgradeMode::Savepoint)),
            now_ms: 0,
            executions: 0,
            effects: Vec::new(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.executions += 1;
        let ambient = Ambient {
            now_ms: self.now_ms,
            jitter: 0.5,
            execution: ExecutionId(Uuid::from_u128(self.executions)),
        };
        let (job, effects) = self.job.clone().step(event, ambient);
        self.job = job;
        self.effects = effects;
    }

    fn execution(&self) -> ExecutionId {
        self.job.execution().expect("an execution")
    }

    fn come_up(&mut self) {
        let execution = self.execution();
        self.tell(Event::WorkersReady { execution });
        self.tell(Event::Deployed { execution });
        self.tell(Event::Launched { execution });
        assert_eq!(self.job.job_state(), JobState::Running);
    }

    fn run(&mut self) {
        self.tell(Event::Start {
            from: StartAt::Latest,
        });
        self.come_up();
    }

    fn checkpoint(&mut self, id: u64) {
        let execution = self.execution();
        self.tell(Event::CheckpointCompleted {
            execution,
            checkpoint: CheckpointId(id),
            savepoint: None,
        });
    }

    fn fail(&mut self, reason: &str) {
        let execution = self.execution();
        self.tell(Event::Failed {
            execution,
            failure: Failure::retryable(reason),
        });
    }

    fn torn_down(&mut self) {
        let execution = self.execution();
        self.tell(Event::TornDown { execution });
    }

    fn wake(&mut self) {
        self.now_ms = self.job.next_wake().expect("something is due");
        self.tell(Event::Wake);
    }

    fn recorded(&self) -> Vec<&'static str> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Write(Write::Record(record)) => Some(record.kind),
                Effect::Write(_) | Effect::Do(_) => None,
            })
            .collect()
    }

    fn new_version(&mut self, upgrade: UpgradeMode) {
        self.tell(Event::NewVersion {
            target: Target {
                version: VersionNumber(2),
                policy: policy(upgrade),
                change: Change::Upgrade,
            },
            savepoint: SavepointId(1),
        });
    }
}

#[test]
fn a_failed_job_restarts_from_its_newest_checkpoint_after_growing_delays() {
    let mut story = Story::new();
    story.run();
    story.checkpoint(1);
    for expected_ms in [1_000, 2_000, 4_000] {
        let failed_ms = story.now_ms;
        story.fail("x");
        story.torn_down();
        assert_eq!(story.job.job_state(), JobState::Restarting);
        assert_eq!(story.job.next_wake(), Some(failed_ms + expected_ms));
        story.wake();
        story.come_up();
        assert_eq!(
            story.job.context.restore,
            Restore::Checkpoint(CheckpointId(1))
        );
    }
    // Healthy for ten minutes: from the first delay again.
    story.now_ms += 600_000;
    let failed_ms = story.now_ms;
    story.fail("x");
    story.torn_down();
    assert_eq!(story.job.next_wake(), Some(failed_ms + 1_000));
}

#[test]
fn one_root_cause_again_and_again_degrades_until_a_checkpoint_completes() {
    let mut story = Story::new();
    story.run();
    for time in 1..=5 {
        assert_eq!(
            story.job.condition().0,
            Condition::Healthy,
            "failure {time}"
        );
        story.fail(&format!("worker {time} was killed by signal 9"));
        assert_eq!(story.recorded().contains(&"degraded"), time == 5);
        story.torn_down();
        story.wake();
        story.come_up();
    }
    let (condition, degraded) = story.job.condition();
    assert_eq!(condition, Condition::Degraded);
    assert_eq!(degraded.unwrap().reason, "worker 5 was killed by signal 9");
    // It goes on, at the longest delay.
    let failed_ms = story.now_ms;
    story.fail("worker 6 was killed by signal 9");
    story.torn_down();
    assert_eq!(story.job.next_wake(), Some(failed_ms + 60_000));
    story.wake();
    story.come_up();
    story.checkpoint(1);
    assert_eq!(story.recorded(), ["recovered"]);
    assert_eq!(story.job.condition().0, Condition::Healthy);
}

#[test]
fn what_a_restart_cannot_heal_fails_the_job() {
    let mut story = Story::new();
    story.run();
    let execution = story.execution();
    story.tell(Event::Failed {
        execution,
        failure: Failure {
            retryable: false,
            ..Failure::retryable("the state does not fit")
        },
    });
    story.torn_down();
    assert_eq!(story.job.job_state(), JobState::Failed);
    assert!(story.job.is_resting());
}

#[test]
fn a_failed_savepoint_leaves_the_job_running() {
    let mut story = Story::new();
    story.run();
    story.tell(Event::Stop {
        mode: StopMode::Savepoint,
        savepoint: SavepointId(1),
    });
    assert_eq!(story.job.job_state(), JobState::Stopping);
    let execution = story.execution();
    story.tell(Event::FinalFailed {
        execution,
        reason: "storage is full".into(),
    });
    assert_eq!(story.job.job_state(), JobState::Running);
    assert_eq!(story.recorded(), ["stop-failed"]);
    assert!(story.effects.contains(&Effect::Write(Write::DesireRunning)));
}

#[test]
fn an_upgrade_starts_from_its_savepoint_and_is_proven_by_a_checkpoint() {
    let mut story = Story::new();
    story.run();
    story.new_version(UpgradeMode::Savepoint);
    assert_eq!(story.job.job_state(), JobState::Upgrading);
    let execution = story.execution();
    story.tell(Event::CheckpointCompleted {
        execution,
        checkpoint: CheckpointId(4),
        savepoint: Some(SavepointId(1)),
    });
    story.tell(Event::FinalCompleted { execution });
    story.tell(Event::Finished { execution });
    story.torn_down();
    assert_eq!(story.job.context.version, VersionNumber(2));
    assert_eq!(story.job.job_state(), JobState::Upgrading);
    let savepoint = Restore::Savepoint {
        savepoint: SavepointId(1),
        checkpoint: CheckpointId(4),
    };
    assert_eq!(story.job.context.restore, savepoint);
    story.come_up();
    assert!(story.job.context.trial.is_some());
    story.checkpoint(5);
    assert!(story.recorded().contains(&"version-healthy"));
    assert_eq!(story.job.context.trial, None);
}

#[test]
fn an_upgrade_that_does_not_become_healthy_is_rolled_back() {
    // By failures, and by time.
    for by_time in [false, true] {
        let mut story = Story::new();
        story.run();
        story.checkpoint(3);
        story.new_version(UpgradeMode::LastState);
        story.torn_down();
        story.come_up();
        assert_eq!(story.job.context.version, VersionNumber(2));
        if by_time {
            story.wake();
        } else {
            for _ in 0..2 {
                story.fail("x");
                story.torn_down();
                story.wake();
                story.come_up();
            }
            story.fail("x");
        }
        assert!(story.recorded().contains(&"rolled-back"), "{by_time}");
        story.torn_down();
        story.come_up();
        assert_eq!(story.job.context.version, VersionNumber(1));
        assert_eq!(
            story.job.context.restore,
            Restore::Checkpoint(CheckpointId(3))
        );
    }
}

#[test]
fn a_stateless_upgrade_starts_empty_and_rolls_back_to_the_state_before() {
    let mut story = Story::new();
    story.run();
    story.checkpoint(3);
    story.new_version(UpgradeMode::Stateless);
    story.torn_down();
    assert_eq!(story.job.context.restore, Restore::Empty);
    story.come_up();
    let execution = story.execution();
    story.tell(Event::Failed {
        execution,
        failure: Failure {
            retryable: false,
            ..Failure::retryable("no such file")
        },
    });
    story.torn_down();
    assert_eq!(story.job.context.version, VersionNumber(1));
    assert_eq!(
        story.job.context.restore,
        Restore::Checkpoint(CheckpointId(3))
    );
}

#[test]
fn a_takeover_adopts_a_running_execution_without_restarting_it() {
    let mut story = Story::new();
    story.run();
    let execution = story.execution();
    story.tell(Event::TakenOver {
        found: Found::Running { execution },
    });
    assert_eq!(story.job.execution(), Some(execution));
    assert!(
        story
            .effects
            .contains(&Effect::Do(Action::AdoptCheckpoints { execution }))
    );
    // Without its workers it restarts.
    story.tell(Event::TakenOver {
        found: Found::Nothing,
    });
    assert_eq!(story.job.job_state(), JobState::Restarting);
}

#[test]
fn a_suspended_job_goes_on_when_the_service_is_back() {
    let mut story = Story::new();
    story.run();
    story.checkpoint(1);
    story.tell(Event::Suspend);
    let execution = story.execution();
    story.tell(Event::CheckpointCompleted {
        execution,
        checkpoint: CheckpointId(2),
        savepoint: None,
    });
    story.tell(Event::FinalCompleted { execution });
    story.tell(Event::Finished { execution });
    story.torn_down();
    assert_eq!(story.job.state, State::Suspended);
    story.tell(Event::TakenOver {
        found: Found::Nothing,
    });
    story.come_up();
    assert_eq!(
        story.job.context.restore,
        Restore::Checkpoint(CheckpointId(2))
    );
    assert_eq!(story.job.context.troubles.failures, 0);
}

#[test]
fn a_job_stored_by_format_1_reads_back() {
    let stored = include_str!("testdata/job-format-1.json");
    let job: Job = serde_json::from_str(stored).unwrap();
    assert_eq!(job.format, 1);
    assert_eq!(job.context.version, VersionNumber(2));
    assert_eq!(job.job_state(), JobState::Upgrading);
    assert_eq!(
        job.context.trial.map(|trial| trial.fallback.restore),
        Some(Restore::Savepoint {
            savepoint: SavepointId(1),
            checkpoint: CheckpointId(7)
        })
    );
}
