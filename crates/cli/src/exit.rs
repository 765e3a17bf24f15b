//! How a command ends: its exit code and what it says on stderr.

use std::{fmt, process::ExitCode};

use crate::{client::CallError, problem_text};

/// Exit codes, as `--help` documents them.
pub(crate) const FAILED: u8 = 1;
pub(crate) const BAD_INPUT: u8 = 2;
pub(crate) const TIMED_OUT: u8 = 124;
pub(crate) const INTERRUPTED: u8 = 130;

/// A failure whose exit code and text are decided where it happens.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Printed as it is; empty when everything has been said.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn error(code: u8, text: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Failure {
            code,
            text: text.into(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Says what went wrong, on stderr, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    }
    if let Some(failure) = error.downcast_ref::<Failure>() {
        if !failure.text.is_empty() {
            eprintln!("{}", failure.text);
        }
        return ExitCode::from(failure.code);
    }
    if let Some(CallError::Problem(problem)) = error.downcast_ref::<CallError>() {
        eprint!("{}", problem_text::plain(problem));
        return ExitCode::from(exit_code_of(problem.status));
    }
    eprintln!("error: {error:#}");
    ExitCode::from(FAILED)
}

/// The caller's mistakes are bad input, the rest are failures.
fn exit_code_of(status: u16) -> u8 {
    match status {
        400 | 413 | 415 | 422 => BAD_INPUT,
        _ => FAILED,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
