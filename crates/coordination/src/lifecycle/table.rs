//! The printed transition table, compared with the committed one. After a change of behaviour
//! that is meant, write it anew with `MILLRACE_UPDATE_GOLDEN=1 cargo test -p
//! millrace-coordination` and read the difference.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use millrace_types::{
    CheckpointId, ExecutionId, RestartSpec, SavepointId, StopMode, UpgradeMode, VersionNumber,
};
use uuid::Uuid;

use super::*;

const EXECUTION: ExecutionId = ExecutionId(Uuid::from_u128(1));
const ATTEMPT: Attempt = Attempt {
    execution: EXECUTION,
    version: VersionNumber(1),
};
const NOW_MS: i64 = 1_000_000;

fn policy(upgrade: UpgradeMode) -> Policy {
    Policy {
        restart: RestartSpec::default(),
        upgrade,
        checkpoint_interval_ms: 10_000,
    }
}

fn states() -> Vec<(&'static str, State)> {
    let starting = |phase| State::Starting {
        attempt: ATTEMPT,
        cause: Cause::Start,
        phase,
        deadline_ms: NOW_MS,
    };
    let saving = |snapshot, phase, next| State::Saving {
        attempt: ATTEMPT,
        since_ms: 0,
        snapshot,
        phase,
        next,
    };
    let savepoint = |drain| FinalSnapshot::Savepoint {
        savepoint: SavepointId(9),
        drain,
    };
    let tearing = |next| State::TearingDown {
        execution: EXECUTION,
        next,
        repeat_ms: NOW_MS,
    };
    let stopped = || Next::Rest(Rest::Stopped);
    let upgrade = || Next::Start {
        cause: Cause::Upgrade,
        from: StartAt::Latest,
    };
    let committing = SavePhase::Committing {
        deadline_ms: NOW_MS,
    };
    vec![
        ("created", State::Resting(Rest::Created)),
        ("stopped", State::Resting(Rest::Stopped)),
        ("finished", State::Resting(Rest::Finished)),
        (
            "failed",
            State::Resting(Rest::Failed(Failure::retryable("x"))),
        ),
        ("canceled", State::Resting(Rest::Canceled)),
        ("starting(provisioning)", starting(Phase::Provisioning)),
        ("starting(deploying)", starting(Phase::Deploying)),
        ("starting(launching)", starting(Phase::Launching)),
        (
            "running",
            State::Running {
                attempt: ATTEMPT,
                since_ms: 0,
            },
        ),
        (
            "saving(savepoint, then stopped)",
            saving(savepoint(false), SavePhase::Snapshotting, stopped()),
        ),
        (
            "saving(drained savepoint, then stopped)",
            saving(savepoint(true), SavePhase::Snapshotting, stopped()),
        ),
        (
            "saving(savepoint, then upgrade)",
            saving(savepoint(false), SavePhase::Snapshotting, upgrade()),
        ),
        (
            "saving(checkpoint, then suspend)",
            saving(
                FinalSnapshot::Checkpoint,
                SavePhase::Snapshotting,
                Next::Suspend,
            ),
        ),
        (
            "committing(then stopped)",
            saving(savepoint(false), committing, stopped()),
        ),
        (
            "committing(then upgrade)",
            saving(savepoint(false), committing, upgrade()),
        ),
        ("tearing-down(then stopped)", tearing(stopped())),
        (
            "tearing-down(then finished)",
            tearing(Next::Rest(Rest::Finished)),
        ),
        (
            "tearing-down(then retry)",
            tearing(Next::Retry { until_ms: NOW_MS }),
        ),
        ("tearing-down(then upgrade)", tearing(upgrade())),
        ("tearing-down(then suspend)", tearing(Next::Suspend)),
        ("tearing-down(then delete)", tearing(Next::Delete)),
        (
            "waiting",
            State::Waiting {
                after: EXECUTION,
                until_ms: NOW_MS,
            },
        ),
        ("suspended", State::Suspended),
        ("deleting", State::Deleting { repeat_ms: NOW_MS }),
        ("deleted", State::Deleted),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    let execution = EXECUTION;
    let stop = |mode| Event::Stop {
        mode,
        savepoint: SavepointId(2),
    };
    let version = |upgrade| Event::NewVersion {
        target: Target {
            version: VersionNumber(2),
            policy: policy(upgrade),
            change: Change::Upgrade,
        },
        savepoint: SavepointId(2),
    };
    let failed = |retryable| Event::Failed {
        execution,
        failure: Failure {
            retryable,
            ..Failure::retryable("x")
        },
    };
    vec![
        (
            "start",
            Event::Start {
                from: StartAt::Latest,
            },
        ),
        ("stop(savepoint)", stop(StopMode::Savepoint)),
        ("stop(drain)", stop(StopMode::Drain)),
        ("stop(now)", stop(StopMode::Now)),
        ("cancel", Event::Cancel),
        ("delete", Event::Delete),
        ("new-version(savepoint)", version(UpgradeMode::Savepoint)),
        ("new-version(last-state)", version(UpgradeMode::LastState)),
        ("suspend", Event::Suspend),
        ("workers-ready", Event::WorkersReady { execution }),
        ("deployed", Event::Deployed { execution }),
        ("launched", Event::Launched { execution }),
        ("failed(retryable)", failed(true)),
        ("failed(for good)", failed(false)),
        (
            "checkpoint-completed",
            Event::CheckpointCompleted {
                execution,
                checkpoint: CheckpointId(5),
                savepoint: None,
            },
        ),
        ("final-completed", Event::FinalCompleted { execution }),
        (
            "final-failed",
            Event::FinalFailed {
                execution,
                reason: "x".into(),
            },
        ),
        ("all-finished", Event::Finished { execution }),
        ("torn-down", Event::TornDown { execution }),
        ("forgotten", Event::Forgotten),
        ("wake(due)", Event::Wake),
        (
            "taken-over(running)",
            Event::TakenOver {
                found: Found::Running { execution },
            },
        ),
        (
            "taken-over(nothing)",
            Event::TakenOver {
                found: Found::Nothing,
            },
        ),
    ]
}

fn state_name(state: &State) -> String {
    let next_name = |next: &Next| match next {
        Next::Rest(rest) => rest_name(rest).to_owned(),
        Next::Retry { .. } => "retry".into(),
        Next::Start { cause, .. } => format!("{cause:?}").to_lowercase(),
        Next::Suspend => "suspend".into(),
        Next::Delete => "delete".into(),
    };
    match state {
        State::Resting(rest) => rest_name(rest).into(),
        State::Starting { phase, .. } => format!("starting({phase:?})").to_lowercase(),
        State::Running { .. } => "running".into(),
        State::Saving {
            snapshot,
            phase: SavePhase::Snapshotting,
            next,
            ..
        } => {
            let snapshot = match snapshot {
                FinalSnapshot::Savepoint { drain: false, .. } => "savepoint",
                FinalSnapshot::Savepoint { drain: true, .. } => "drained savepoint",
                FinalSnapshot::Checkpoint => "checkpoint",
            };
            format!("saving({snapshot}, then {})", next_name(next))
        }
        State::Saving { next, .. } => format!("committing(then {})", next_name(next)),
        State::TearingDown { next, .. } => format!("tearing-down(then {})", next_name(next)),
        State::Waiting { .. } => "waiting".into(),
        State::Suspended => "suspended".into(),
        State::Deleting { .. } => "deleting".into(),
        State::Deleted => "deleted".into(),
    }
}

fn rest_name(rest: &Rest) -> &'static str {
    match rest {
        Rest::Created => "created",
        Rest::Stopped => "stopped",
        Rest::Finished => "finished",
        Rest::Failed(_) => "failed",
        Rest::Canceled => "canceled",
    }
}

fn effect_name(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Write(write) => match write {
            Write::OpenExecution { restore, .. } => format!("open execution from {restore}"),
            Write::ExecutionRuns { .. } => "note that it runs".into(),
            Write::CloseExecution { end, .. } => {
                let end = match end {
                    ExecutionEnd::Failed(_) => "Failed".into(),
                    other => format!("{other:?}"),
                };
                format!("close execution as {}", end.to_lowercase())
            }
            Write::OpenSavepoint { savepoint, .. } => format!("open savepoint {savepoint}"),
            Write::FailSavepoint { savepoint, .. } => format!("fail savepoint {savepoint}"),
            Write::AbandonVersion { version, .. } => format!("abandon version {version}"),
            Write::DesireRunning => "desire running".into(),
            Write::Record(_) => return None,
        },
        Effect::Do(action) => match action {
            Action::Provision { .. } => "PROVISION".into(),
            Action::Deploy { restore, .. } => format!("DEPLOY from {restore}"),
            Action::Launch { .. } => "LAUNCH".into(),
            Action::Checkpoint { .. } => "CHECKPOINT".into(),
            Action::AdoptCheckpoints { .. } => "ADOPT CHECKPOINTS".into(),
            Action::Drain { .. } => "DRAIN".into(),
            Action::Snapshot { .. } => "SNAPSHOT".into(),
            Action::TearDown { keep_workers, .. } => {
                let workers = if *keep_workers { "keep" } else { "end" };
                format!("TEAR DOWN, {workers} workers")
            }
            Action::Forget => "FORGET".into(),
        },
    })
}

fn table() -> String {
    let mut text = String::from(
        "# Transitions of a job: version 1, proven, checkpoint 4 is its newest; every time is due.\n\
         # A line is `event -> state: writes, ACTIONS`; events that change nothing are listed last.\n",
    );
    for (name, state) in states() {
        writeln!(text, "\n{name}").unwrap();
        let mut ignored = Vec::new();
        for (event_name, event) in events() {
            let mut job = Job::new(VersionNumber(1), policy(UpgradeMode::Savepoint));
            job.context.restore = Restore::Checkpoint(CheckpointId(4));
            job.context.proven = true;
            if name.contains("upgrade") {
                job.context.target = Some(Target {
                    version: VersionNumber(3),
                    policy: policy(UpgradeMode::Savepoint),
                    change: Change::Upgrade,
                });
            }
            job.state = state.clone();
            let before = job.clone();
            let ambient = Ambient {
                now_ms: NOW_MS,
                jitter: 0.5,
                execution: ExecutionId(Uuid::from_u128(2)),
            };
            let (after, effects) = job.step(event, ambient);
            if after == before && effects.is_empty() {
                ignored.push(event_name);
                continue;
            }
            let effects: Vec<String> = effects.iter().filter_map(effect_name).collect();
            let context = if after.context.restore == before.context.restore {
                String::new()
            } else {
                format!(" [restores {}]", after.context.restore)
            };
            let line = format!(
                "  {event_name} -> {}{context}: {}",
                state_name(&after.state),
                effects.join(", ")
            );
            writeln!(text, "{}", line.trim_end_matches([' ', ':'])).unwrap();
        }
        if !ignored.is_empty() {
            writeln!(text, "  ignored: {}", ignored.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn the_transition_table_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lifecycle/transitions.txt");
    let table = table();
    if std::env::var_os("MILLRACE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        table == committed,
        "the transitions have changed; if that is meant, run again with MILLRACE_UPDATE_GOLDEN=1"
    );
}

#[test]
fn every_state_is_in_the_table() {
    let mut names = BTreeMap::new();
    for (_, state) in states() {
        // Exhaustive: a new variant does not compile until it is placed here.
        let kind = match state {
            State::Resting(_) => "resting",
            State::Starting { .. } => "starting",
            State::Running { .. } => "running",
            State::Saving { .. } => "saving",
            State::TearingDown { .. } => "tearing-down",
            State::Waiting { .. } => "waiting",
            State::Suspended => "suspended",
            State::Deleting { .. } => "deleting",
            State::Deleted => "deleted",
        };
        *names.entry(kind).or_insert(0) += 1;
    }
    assert_eq!(names.len(), 9);
}
