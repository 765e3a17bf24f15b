//! The service itself: version, health and readiness.

use axum::{Json, extract::State};

use super::{
    problems::ServiceProblems,
    state::ApiState,
    view::{HealthView, VersionInfo},
};
use crate::problem::Answer;

/// Shows which Millrace this is.
#[utoipa::path(
    get, path = "/api/v1/version", tag = "service",
    responses((status = 200, body = VersionInfo))
)]
pub(crate) async fn version() -> Json<VersionInfo> {
    Json(VersionInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: "v1".to_owned(),
    })
}

/// Whether the process is alive. Never asks the database.
#[utoipa::path(
    get, path = "/healthz", tag = "service",
    responses((status = 200, body = HealthView))
)]
pub(crate) async fn healthz() -> Json<HealthView> {
    Json(ok())
}

/// Whether the service can serve: its database answers and has the schema.
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses((status = 200, body = HealthView), ServiceProblems)
)]
pub(crate) async fn readyz(State(state): State<ApiState>) -> Answer<Json<HealthView>> {
    state.check_ready()?;
    state.store().ping().await?;
    Ok(Json(ok()))
}

fn ok() -> HealthView {
    HealthView {
        status: "ok".to_owned(),
    }
}
