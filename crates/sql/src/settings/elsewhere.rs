//! Settings of Flink whose place in Millrace is another: the job spec, an option of a command,
//! or nowhere, since there is only one way.

/// A key (or, with a dot or dash at its end, how keys start), and what to write instead.
const ELSEWHERE: [(&str, &str); 22] = [
    (
        "execution.checkpointing.interval",
        "write `checkpointing: { interval: 10 s }` in the job spec, or `millrace run --checkpoint-interval 10s`",
    ),
    (
        "execution.checkpointing.mode",
        "write `checkpointing: { mode: exactly-once }` (or at-least-once) in the job spec",
    ),
    (
        "execution.checkpointing.timeout",
        "write `checkpointing: { timeout: 10 min }` in the job spec",
    ),
    (
        "execution.checkpointing.min-pause",
        "write `checkpointing: { min-pause: 5 s }` in the job spec",
    ),
    (
        "execution.checkpointing.tolerable-failed-checkpoints",
        "write `checkpointing: { tolerable-failures: 3 }` in the job spec",
    ),
    (
        "execution.checkpointing.max-concurrent-checkpoints",
        "leave it out: checkpoints are taken one at a time",
    ),
    (
        "execution.checkpointing.num-retained",
        "write `checkpointing: { retained: 3 }` in the job spec",
    ),
    (
        "state.checkpoints.num-retained",
        "write `checkpointing: { retained: 3 }` in the job spec",
    ),
    (
        "execution.checkpointing.dir",
        "start the service with --storage-url; for `millrace run` there is --checkpoint-dir",
    ),
    (
        "state.checkpoints.dir",
        "start the service with --storage-url; for `millrace run` there is --checkpoint-dir",
    ),
    (
        "execution.savepoint.path",
        "name a savepoint when the job is started: `millrace jobs start JOB --savepoint N`",
    ),
    (
        "execution.state-recovery.path",
        "name a savepoint when the job is started: `millrace jobs start JOB --savepoint N`",
    ),
    (
        "execution.runtime-mode",
        "leave it out: a job whose inputs end has ended with them, any other goes on",
    ),
    (
        "parallelism.default",
        "write `parallelism: 4` in the job spec, or use --parallelism",
    ),
    (
        "table.exec.resource.default-parallelism",
        "write `parallelism: 4` in the job spec, or use --parallelism",
    ),
    (
        "pipeline.max-parallelism",
        "write `max-parallelism: 720` in the job spec",
    ),
    (
        "pipeline.name",
        "write `name: my-job` in the job spec, or use --name; a script's file gives its own",
    ),
    (
        "restart-strategy",
        "write `restart: { initial-delay: 1 s, max-delay: 60 s, degraded-after: 5 }` in the job spec",
    ),
    (
        "state.backend",
        "leave it out: state is kept in RocksDB, with incremental checkpoints",
    ),
    (
        "taskmanager.numberOfTaskSlots",
        "write `resources: { workers: 2 }` in the job spec: slots are spread over the workers",
    ),
    (
        "taskmanager.memory.",
        "write `resources: { memory-mib: 1024 }` in the job spec",
    ),
    (
        "table.dml-sync",
        "leave it out: `millrace run` waits for the end, `jobs create` does not",
    ),
];

/// What to write instead of setting `key`.
pub(super) fn instead(key: &str) -> Option<&'static str> {
    let key = key.trim();
    ELSEWHERE
        .iter()
        .find(|(known, _)| {
            key.get(..known.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(known))
                && (known.ends_with('.')
                    || matches!(key.as_bytes().get(known.len()), None | Some(b'.')))
        })
        .map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_whole_or_by_their_family() {
        for key in [
            "execution.checkpointing.interval",
            " Parallelism.Default",
            "pipeline.name",
            "restart-strategy",
            "restart-strategy.fixed-delay.attempts",
            "state.backend.incremental",
            "taskmanager.memory.process.size",
        ] {
            assert!(instead(key).is_some(), "{key}");
        }
        for key in [
            "pipeline.names",
            "taskmanager.memory",
            "table.local-time-zone",
            "ä",
        ] {
            assert_eq!(instead(key), None, "{key}");
        }
    }
}
