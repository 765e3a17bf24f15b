//! Compiles job specs for validation, for the graph and for the fingerprint.
//!
//! Compiling keeps a core busy, so it runs on the blocking pool, a bounded number at once.

use std::{fmt, sync::Arc};

use millrace_sql::{CompileOptions, Compiled, ConnectorCatalog, Diagnostic, Explanation, Severity};
use millrace_types::JobSpec;
use tokio::sync::Semaphore;

use crate::problem::{Answer, Code, Problem, ProblemItem};

/// Scripts compiled at once.
const MAX_COMPILATIONS: usize = 2;

/// Compiles scripts against the connectors of this build.
#[derive(Clone)]
pub struct Compiler {
    catalog: Arc<dyn ConnectorCatalog>,
    permits: Arc<Semaphore>,
}

/// Why a spec does not compile.
#[derive(Debug)]
pub enum CompileFailure {
    /// What is wrong with the script, warnings included.
    Script(Vec<Diagnostic>),
    /// The compiler itself ended.
    Broken(tokio::task::JoinError),
}

impl fmt::Display for CompileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileFailure::Script(diagnostics) => {
                f.write_str("the SQL script does not compile")?;
                let errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
                errors
                    .take(5)
                    .try_for_each(|diagnostic| write!(f, "; {diagnostic}"))
            }
            CompileFailure::Broken(_) => f.write_str("the SQL compiler broke"),
        }
    }
}

impl std::error::Error for CompileFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CompileFailure::Script(_) => None,
            CompileFailure::Broken(error) => Some(error),
        }
    }
}

impl Compiler {
    /// The catalog must be the one that workers use, or fingerprints will differ.
    pub fn new(catalog: Arc<dyn ConnectorCatalog>) -> Self {
        Compiler {
            catalog,
            permits: Arc::new(Semaphore::new(MAX_COMPILATIONS)),
        }
    }

    /// Compiles a spec whose numbers have been checked.
    pub async fn compile(&self, spec: JobSpec) -> Result<Compiled, CompileFailure> {
        self.with(spec, millrace_sql::compile).await
    }

    /// The plan of a script as text.
    async fn explain(&self, spec: JobSpec) -> Result<Explanation, CompileFailure> {
        self.with(spec, millrace_sql::explain).await
    }

    async fn with<T: Send + 'static>(
        &self,
        spec: JobSpec,
        work: impl FnOnce(&str, &CompileOptions) -> Result<T, Vec<Diagnostic>> + Send + 'static,
    ) -> Result<T, CompileFailure> {
        let mut options = CompileOptions::new(self.catalog.clone());
        options.parallelism = spec.parallelism;
        options.max_parallelism = spec.max_parallelism;
        options.state_ttl_ms = spec.state.ttl.0;
        // The semaphore is never closed; without a permit the bound is merely not held.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let task = tokio::task::spawn_blocking(move || {
            // Held until the compiler is done, even if the request is given up.
            let _permit = permit;
            work(&spec.sql, &options)
        });
        match task.await {
            Ok(result) => result.map_err(CompileFailure::Script),
            Err(error) => Err(CompileFailure::Broken(error)),
        }
    }

    /// Every finding about a script.
    pub(crate) async fn diagnostics(&self, spec: JobSpec) -> Answer<Vec<Diagnostic>> {
        match self.compile(spec).await {
            Ok(compiled) => Ok(compiled.warnings),
            Err(CompileFailure::Script(diagnostics)) => Ok(diagnostics),
            Err(CompileFailure::Broken(error)) => Err(broken(&error)),
        }
    }

    /// As [`Compiler::compile`]; a script that does not compile, or that does nothing, is a
    /// problem with all its diagnostics.
    pub(crate) async fn compile_or_refuse(&self, spec: JobSpec) -> Answer<Compiled> {
        let compiled = self.compile(spec).await.map_err(refusal)?;
        if compiled.dataflow.nodes.is_empty() {
            let reason = "the script runs nothing: it has no INSERT INTO statement";
            return Err(Problem::new(Code::InvalidSql, reason)
                .with_errors(vec![ProblemItem::field("sql", reason)])
                .with_hint("add INSERT INTO a_sink SELECT … FROM a_source;"));
        }
        Ok(compiled)
    }

    pub(crate) async fn explain_or_refuse(&self, spec: JobSpec) -> Answer<Explanation> {
        self.explain(spec).await.map_err(refusal)
    }
}

/// Checks the numbers of a spec.
pub(crate) fn check_numbers(spec: &JobSpec) -> Answer<()> {
    spec.validate().map_err(|error| {
        let mut item = ProblemItem::field(error.field, error.reason.clone());
        if error.field == "sql"
            && let Some((line, column)) = place_of_nul(&spec.sql)
        {
            item.line = Some(line);
            item.column = Some(column);
        }
        Problem::new(Code::InvalidSpec, error.to_string()).with_errors(vec![item])
    })
}

/// Line and column, from 1, of what neither the compiler nor the database takes.
fn place_of_nul(sql: &str) -> Option<(u64, u64)> {
    let before = &sql[..sql.find('\0')?];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[line_start..].chars().count() + 1;
    Some((line as u64, column as u64))
}

pub(crate) fn broken(error: &tokio::task::JoinError) -> Box<Problem> {
    Problem::internal("compiling a script", error)
}

fn refusal(failure: CompileFailure) -> Box<Problem> {
    let diagnostics = match failure {
        CompileFailure::Script(diagnostics) => diagnostics,
        CompileFailure::Broken(error) => return broken(&error),
    };
    let errors: Vec<&Diagnostic> = diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .collect();
    let detail = match errors.as_slice() {
        [] => "the script does not compile".to_owned(),
        [only] => format!(
            "line {}, column {}: {}",
            only.line, only.column, only.message
        ),
        [first, ..] => format!(
            "{} errors, the first at line {}, column {}: {}",
            errors.len(),
            first.line,
            first.column,
            first.message
        ),
    };
    let mut problem = Problem::new(Code::InvalidSql, detail)
        .with_errors(diagnostics.iter().map(problem_item).collect());
    problem.hint = errors.iter().find_map(|diagnostic| diagnostic.hint.clone());
    problem
}

/// A diagnostic as the API shows it.
pub(crate) fn problem_item(diagnostic: &Diagnostic) -> ProblemItem {
    let severity = match diagnostic.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    ProblemItem {
        message: diagnostic.message.clone(),
        severity: Some(severity.to_owned()),
        code: Some(diagnostic.code.to_owned()),
        field: Some("sql".to_owned()),
        line: Some(diagnostic.line),
        column: Some(diagnostic.column),
        end_line: Some(diagnostic.end_line),
        end_column: Some(diagnostic.end_column),
        hint: diagnostic.hint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use millrace_sql::AnyConnector;
    use millrace_types::JobName;

    use super::*;

    fn spec(sql: &str) -> JobSpec {
        JobSpec::new(JobName::new("j").unwrap(), sql)
    }

    #[tokio::test]
    async fn a_bad_script_is_a_problem_with_places() {
        let compiler = Compiler::new(Arc::new(AnyConnector));
        let sql = "CREATE TABLE t (a INT) WITH ('connector' = 'x');\n\
                   CREATE TABLE o (a INT) WITH ('connector' = 'x');\n\
                   INSERT INTO o SELECT b FROM t;\nINSERT INTO o SELECT c FROM t;";
        let problem = compiler.compile_or_refuse(spec(sql)).await.unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "invalid-sql")
        );
        let lines: Vec<_> = problem.errors.iter().map(|item| item.line).collect();
        assert_eq!(lines, [Some(3), Some(4)]);
        assert!(
            problem.detail.starts_with("2 errors, the first at line 3"),
            "{}",
            problem.detail
        );
    }

    #[test]
    fn a_nul_character_has_a_place() {
        let problem = check_numbers(&spec("SELECT 1;\nSELECT 'ä\0';")).unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "invalid-spec")
        );
        let item = &problem.errors[0];
        assert_eq!(
            (item.field.as_deref(), item.line, item.column),
            (Some("sql"), Some(2), Some(10)),
            "{problem}"
        );
    }

    #[tokio::test]
    async fn a_script_that_runs_nothing_is_refused() {
        let compiler = Compiler::new(Arc::new(AnyConnector));
        let sql = "CREATE TABLE t (a INT) WITH ('connector' = 'x');";
        let problem = compiler.compile_or_refuse(spec(sql)).await.unwrap_err();
        assert_eq!(problem.code, "invalid-sql");
    }
}
