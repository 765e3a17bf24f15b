//! Job specs from files and options, and problems about them.

use millrace_control_plane::problem::Problem;
use millrace_types::JobSpec;

use crate::{
    args::SpecArgs,
    client::CallError,
    exit::{self, Failure},
    problem_text,
    script::JobFile,
};

/// Lets options override what a spec says.
pub(super) fn apply(args: &SpecArgs, spec: &mut JobSpec) {
    if let Some(parallelism) = args.parallelism {
        spec.parallelism = parallelism;
    }
    if let Some(workers) = args.workers {
        spec.resources.workers = workers;
    }
}

/// An error of a call that sent a file: findings about its SQL point into the file.
pub(super) fn explain_error(error: CallError, file: &JobFile) -> anyhow::Error {
    match error.problem() {
        Some(problem) if problem.code == "invalid-sql" => sql_failure(problem, file),
        _ => error.into(),
    }
}

fn sql_failure(problem: &Problem, file: &JobFile) -> anyhow::Error {
    let (name, source) = file.source();
    let text = problem_text::of_script(problem, &name, source);
    Failure::error(exit::BAD_INPUT, text.trim_end())
}

#[cfg(test)]
mod tests {
    use millrace_control_plane::offline;
    use millrace_types::JobName;

    use super::*;
    use crate::service::compiler;

    /// A setting of Flink's that belongs into the job spec is answered with what to write there:
    /// that must be something that a spec takes.
    #[tokio::test]
    async fn hints_of_settings_are_valid_specs() {
        for key in [
            "execution.checkpointing.interval",
            "execution.checkpointing.mode",
            "execution.checkpointing.timeout",
            "execution.checkpointing.min-pause",
            "execution.checkpointing.tolerable-failed-checkpoints",
            "execution.checkpointing.num-retained",
            "parallelism.default",
            "pipeline.max-parallelism",
            "pipeline.name",
            "restart-strategy.type",
            "taskmanager.numberOfTaskSlots",
            "taskmanager.memory.process.size",
        ] {
            let sql = format!(
                "SET '{key}' = '1';
                 CREATE TABLE b (id INT) WITH ('connector' = 'blackhole');
                 INSERT INTO b VALUES (1);"
            );
            let spec = JobSpec::new(JobName::new("a").unwrap(), sql);
            let found = offline::validate(&compiler(), spec).await.unwrap();
            let hint = found.diagnostics[0].hint.clone().unwrap_or_default();
            let fields = hint
                .strip_prefix("write `")
                .and_then(|rest| rest.split('`').next())
                .unwrap_or_else(|| panic!("{key}: {hint}"));
            // A field that is repeated would be refused, so the name comes only once.
            let head = if fields.starts_with("name:") {
                "sql: a"
            } else {
                "name: a\nsql: a"
            };
            let read: Result<JobSpec, _> = serde_yaml_ng::from_str(&format!("{head}\n{fields}"));
            assert!(read.is_ok(), "{key}: {hint}: {read:?}");
        }
    }
}
