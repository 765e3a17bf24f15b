//! A job's versions and executions.

use axum::{Json, extract::State};
use millrace_types::{ExecutionId, VersionNumber};

use super::{
    page::{Page, PageQuery, PageRequest},
    path::{ItemPath, JobPath, Params},
    problems::{ExecutionProblems, JobProblems, VersionProblems},
    state::ApiState,
    view::{ExecutionView, VersionView},
};
use crate::problem::Answer;

/// Lists a job's versions, newest first.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/versions", tag = "history",
    params(("tenant" = String, Path), ("job" = String, Path), PageQuery),
    responses((status = 200, body = Page<VersionView>), JobProblems)
)]
pub(crate) async fn list_versions(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<VersionView>>> {
    let request = PageRequest::<VersionNumber>::of("versions", &query)?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let versions = state
        .store()
        .list_versions(&path.tenant, job.id, request.after, request.fetch())
        .await?;
    Ok(Json(request.page(
        versions,
        |version| version.number,
        VersionView::from,
    )))
}

/// Shows one version of a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/versions/{version}", tag = "history",
    params(("tenant" = String, Path), ("job" = String, Path), ("version" = u32, Path)),
    responses((status = 200, body = VersionView), VersionProblems)
)]
pub(crate) async fn get_version(
    State(state): State<ApiState>,
    path: ItemPath<VersionNumber>,
) -> Answer<Json<VersionView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let version = state
        .store()
        .get_version(&path.tenant, job.id, path.item)
        .await?;
    Ok(Json(version.into()))
}

/// Lists a job's executions, newest first.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/executions", tag = "history",
    params(("tenant" = String, Path), ("job" = String, Path), PageQuery),
    responses((status = 200, body = Page<ExecutionView>), JobProblems)
)]
pub(crate) async fn list_executions(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<ExecutionView>>> {
    let request = PageRequest::<ExecutionId>::of("executions", &query)?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let executions = state
        .store()
        .list_executions(&path.tenant, job.id, request.after, request.fetch())
        .await?;
    Ok(Json(request.page(
        executions,
        |execution| execution.id,
        ExecutionView::from,
    )))
}

/// Shows one execution of a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/executions/{execution}", tag = "history",
    params(("tenant" = String, Path), ("job" = String, Path), ("execution" = String, Path)),
    responses((status = 200, body = ExecutionView), ExecutionProblems)
)]
pub(crate) async fn get_execution(
    State(state): State<ApiState>,
    path: ItemPath<ExecutionId>,
) -> Answer<Json<ExecutionView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let execution = state
        .store()
        .get_execution(&path.tenant, job.id, path.item)
        .await?;
    Ok(Json(execution.into()))
}
