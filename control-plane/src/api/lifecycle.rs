//! Starting and stopping jobs.

use axum::{Json, extract::State, http::StatusCode};

use super::{
    body::OptionalDocument,
    path::JobPath,
    problems::TransitionProblems,
    state::ApiState,
    view::{JobView, StartRequest, StopRequest},
};
use crate::problem::Answer;

/// Starts a job from its latest snapshot, from a savepoint, or empty.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/jobs/{job}/start", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path, description = "Id or name of the job")),
    request_body(content((StartRequest = "application/json"), (StartRequest = "application/yaml"))),
    responses((status = 202, description = "The job will start", body = JobView), TransitionProblems)
)]
pub(crate) async fn start_job(
    State(state): State<ApiState>,
    path: JobPath,
    OptionalDocument(request): OptionalDocument<StartRequest>,
) -> Answer<(StatusCode, Json<JobView>)> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let job = state
        .store()
        .start_job(&path.tenant, job.id, request.from)
        .await?;
    state.live().wake(job.id);
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// Stops a job: with a savepoint (the default), by draining it, or at once.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/jobs/{job}/stop", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path, description = "Id or name of the job")),
    request_body(content((StopRequest = "application/json"), (StopRequest = "application/yaml"))),
    responses((status = 202, description = "The job will stop", body = JobView), TransitionProblems)
)]
pub(crate) async fn stop_job(
    State(state): State<ApiState>,
    path: JobPath,
    OptionalDocument(request): OptionalDocument<StopRequest>,
) -> Answer<(StatusCode, Json<JobView>)> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let job = state
        .store()
        .stop_job(&path.tenant, job.id, request.mode)
        .await?;
    state.live().wake(job.id);
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}
