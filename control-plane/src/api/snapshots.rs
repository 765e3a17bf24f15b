//! A job's checkpoints and savepoints.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, StatusCode, header},
};
use millrace_types::{CheckpointId, SavepointId};

use super::{
    page::{Page, PageQuery, PageRequest},
    path::{ItemPath, JobPath, Params},
    problems::{CheckpointProblems, JobProblems, SavepointProblems, TransitionProblems},
    state::ApiState,
    view::{CheckpointView, SavepointView},
};
use crate::problem::Answer;

/// Lists a job's checkpoints, newest first.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/checkpoints", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path), PageQuery),
    responses((status = 200, body = Page<CheckpointView>), JobProblems)
)]
pub(crate) async fn list_checkpoints(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<CheckpointView>>> {
    let request = PageRequest::<CheckpointId>::of("checkpoints", &query)?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let checkpoints = state
        .store()
        .list_checkpoints(&path.tenant, job.id, request.after, request.fetch())
        .await?;
    Ok(Json(request.page(
        checkpoints,
        |checkpoint| checkpoint.id,
        CheckpointView::from,
    )))
}

/// Shows one checkpoint of a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/checkpoints/{checkpoint}", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path), ("checkpoint" = u64, Path)),
    responses((status = 200, body = CheckpointView), CheckpointProblems)
)]
pub(crate) async fn get_checkpoint(
    State(state): State<ApiState>,
    path: ItemPath<CheckpointId>,
) -> Answer<Json<CheckpointView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let checkpoint = state
        .store()
        .get_checkpoint(&path.tenant, job.id, path.item)
        .await?;
    Ok(Json(checkpoint.into()))
}

/// Takes a savepoint of a running job.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/jobs/{job}/savepoints", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path)),
    responses(
        (status = 202, description = "The savepoint is being taken; GET its Location until its status is no longer `in-progress`",
            body = SavepointView, headers(("Location" = String))),
        TransitionProblems,
    )
)]
pub(crate) async fn create_savepoint(
    State(state): State<ApiState>,
    path: JobPath,
) -> Answer<(StatusCode, [(HeaderName, String); 1], Json<SavepointView>)> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let savepoint = state.store().create_savepoint(&path.tenant, job.id).await?;
    state.live().wake(job.id);
    let location = format!(
        "/api/v1/tenants/{}/jobs/{}/savepoints/{}",
        path.tenant, job.id, savepoint.id
    );
    Ok((
        StatusCode::ACCEPTED,
        [(header::LOCATION, location)],
        Json(savepoint.into()),
    ))
}

/// Lists a job's savepoints, newest first.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/savepoints", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path), PageQuery),
    responses((status = 200, body = Page<SavepointView>), JobProblems)
)]
pub(crate) async fn list_savepoints(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<SavepointView>>> {
    let request = PageRequest::<SavepointId>::of("savepoints", &query)?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let savepoints = state
        .store()
        .list_savepoints(&path.tenant, job.id, request.after, request.fetch())
        .await?;
    Ok(Json(request.page(
        savepoints,
        |savepoint| savepoint.id,
        SavepointView::from,
    )))
}

/// Shows one savepoint of a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}/savepoints/{savepoint}", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path), ("savepoint" = u64, Path)),
    responses((status = 200, body = SavepointView), SavepointProblems)
)]
pub(crate) async fn get_savepoint(
    State(state): State<ApiState>,
    path: ItemPath<SavepointId>,
) -> Answer<Json<SavepointView>> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    let savepoint = state
        .store()
        .get_savepoint(&path.tenant, job.id, path.item)
        .await?;
    Ok(Json(savepoint.into()))
}

/// Deletes a savepoint and its files.
#[utoipa::path(
    delete, path = "/api/v1/tenants/{tenant}/jobs/{job}/savepoints/{savepoint}", tag = "snapshots",
    params(("tenant" = String, Path), ("job" = String, Path), ("savepoint" = u64, Path)),
    responses((status = 204, description = "The savepoint is deleted; its files follow"), SavepointProblems)
)]
pub(crate) async fn delete_savepoint(
    State(state): State<ApiState>,
    path: ItemPath<SavepointId>,
) -> Answer<StatusCode> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    state
        .store()
        .delete_savepoint(&path.tenant, job.id, path.item)
        .await?;
    state.live().wake(job.id);
    Ok(StatusCode::NO_CONTENT)
}
