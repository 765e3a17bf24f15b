//! What the API says about scripts, without a service: for `millrace sql` and `millrace run`.

use millrace_sql::Severity;
use millrace_types::JobSpec;

use crate::{
    api::view::{ExplainView, GraphView, ValidationView},
    problem::{Answer, Problem},
    sql::{self, Compiler},
};

/// Every error and warning of a script.
pub async fn validate(compiler: &Compiler, spec: JobSpec) -> Result<ValidationView, Box<Problem>> {
    sql::check_numbers(&spec)?;
    let diagnostics = compiler.diagnostics(spec).await?;
    Ok(ValidationView {
        valid: diagnostics.iter().all(|d| d.severity != Severity::Error),
        diagnostics: diagnostics.iter().map(sql::problem_item).collect(),
    })
}

/// How a script would run.
pub async fn explain(compiler: &Compiler, spec: JobSpec) -> Answer<ExplainView> {
    sql::check_numbers(&spec)?;
    let plan = compiler.explain_or_refuse(spec.clone()).await?.text;
    // A script that only explains has a plan, but no graph of its own to run.
    let compiled = compiler
        .compile(spec)
        .await
        .map_err(|failure| Problem::internal("compiling a script twice", &failure))?;
    Ok(ExplainView {
        plan,
        graph: GraphView::from(&compiled.dataflow),
        fingerprint: compiled.dataflow.fingerprint().0,
        warnings: compiled.warnings.iter().map(sql::problem_item).collect(),
    })
}
