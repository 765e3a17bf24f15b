//! Checking and explaining SQL scripts without creating a job.

use axum::{Json, extract::State};
use millrace_types::{JobName, JobSpec};

use super::{
    body::Document,
    path::TenantPath,
    problems::ScriptProblems,
    state::ApiState,
    view::{ExplainView, ScriptRequest, ValidationView},
};
use crate::{
    offline,
    problem::{Answer, Problem},
};

fn spec_of(request: ScriptRequest) -> Answer<JobSpec> {
    let name =
        JobName::new("script").map_err(|error| Problem::internal("naming a script", &error))?;
    let mut spec = JobSpec::new(name, request.sql);
    if let Some(parallelism) = request.parallelism {
        spec.parallelism = parallelism;
    }
    Ok(spec)
}

/// Checks a script: every error and warning, each with its place and a hint.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/sql/validate", tag = "sql",
    params(("tenant" = String, Path)),
    request_body(content((ScriptRequest = "application/json"), (ScriptRequest = "application/yaml"))),
    responses((status = 200, body = ValidationView), ScriptProblems)
)]
pub(crate) async fn validate(
    State(state): State<ApiState>,
    TenantPath(tenant): TenantPath,
    Document(request): Document<ScriptRequest>,
) -> Answer<Json<ValidationView>> {
    state.store().check_tenant(&tenant).await?;
    offline::validate(state.compiler(), spec_of(request)?)
        .await
        .map(Json)
}

/// Shows how a script would run: its plan, its graph and its fingerprint.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/sql/explain", tag = "sql",
    params(("tenant" = String, Path)),
    request_body(content((ScriptRequest = "application/json"), (ScriptRequest = "application/yaml"))),
    responses((status = 200, body = ExplainView), ScriptProblems)
)]
pub(crate) async fn explain(
    State(state): State<ApiState>,
    TenantPath(tenant): TenantPath,
    Document(request): Document<ScriptRequest>,
) -> Answer<Json<ExplainView>> {
    state.store().check_tenant(&tenant).await?;
    offline::explain(state.compiler(), spec_of(request)?)
        .await
        .map(Json)
}
