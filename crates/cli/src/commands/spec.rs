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
