//! The REST API under `/api/v1`: routes, the OpenAPI document made from them, and what every
//! request goes through.
//!
//! Around every handler, from the outside in: a panic becomes a problem with an incident id; the
//! time is bounded; requests of foreign web pages are refused; the body is read, bounded, before
//! the handler runs. Streams answer at once and are bounded in number instead.

mod body;
mod events;
mod guard;
mod history;
mod jobs;
mod lifecycle;
mod live;
mod page;
mod path;
mod problems;
mod scripts;
mod service;
mod snapshots;
mod state;
mod state_change;
#[cfg(test)]
mod tests;
pub mod view;

use std::net::SocketAddr;

use axum::{
    Router,
    http::{Method, Uri, header},
    middleware::{from_fn, from_fn_with_state},
    response::IntoResponse,
    routing::get,
};
use utoipa::{OpenApi, openapi};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::state::{ApiState, Readiness};
use crate::problem::{Code, Problem};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Millrace",
        description = "Stream processing jobs: create, run, watch and change them.\n\n\
            Failures are RFC 9457 problem documents with a stable `code`. Listings are paged by \
            an opaque cursor. Updates need `If-Match`."
    ),
    tags(
        (name = "jobs", description = "Jobs: create, change, start, stop, delete"),
        (name = "history", description = "Versions and executions of a job"),
        (name = "snapshots", description = "Checkpoints and savepoints of a job"),
        (name = "live", description = "What a job does right now"),
        (name = "sql", description = "Checking scripts"),
        (name = "service", description = "The service itself"),
    )
)]
struct Document;

/// The routes and the document that describes them.
fn routes(state: &ApiState) -> (Router<ApiState>, openapi::OpenApi) {
    let with_database = OpenApiRouter::new()
        .routes(routes!(jobs::create_job, jobs::list_jobs))
        .routes(routes!(
            jobs::get_job,
            jobs::replace_job,
            jobs::patch_job,
            jobs::delete_job
        ))
        .routes(routes!(lifecycle::start_job))
        .routes(routes!(lifecycle::stop_job))
        .routes(routes!(history::list_versions))
        .routes(routes!(history::get_version))
        .routes(routes!(history::list_executions))
        .routes(routes!(history::get_execution))
        .routes(routes!(snapshots::list_checkpoints))
        .routes(routes!(snapshots::get_checkpoint))
        .routes(routes!(
            snapshots::create_savepoint,
            snapshots::list_savepoints
        ))
        .routes(routes!(
            snapshots::get_savepoint,
            snapshots::delete_savepoint
        ))
        .routes(routes!(events::job_events))
        .routes(routes!(live::job_metrics))
        .routes(routes!(live::job_output))
        .routes(routes!(live::job_workers))
        .routes(routes!(live::job_graph))
        .routes(routes!(scripts::validate))
        .routes(routes!(scripts::explain))
        .routes(routes!(live::all_workers))
        .route_layer(from_fn_with_state(state.clone(), guard::require_ready));
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(with_database)
        .routes(routes!(service::version))
        .routes(routes!(service::healthz))
        .routes(routes!(service::readyz))
        .split_for_parts()
}

/// The OpenAPI 3.1 document, as JSON.
fn document(mut api: openapi::OpenApi) -> Result<String, serde_json::Error> {
    let (name, schema) = problems::problem_schema();
    let components = api.components.get_or_insert_default();
    components.schemas.insert(name, schema);
    for (name, schema) in problems::item_schemas() {
        components.schemas.insert(name, schema);
    }
    api.to_pretty_json()
}

/// The whole API. `listen` is where it is served, which decides what callers it trusts.
pub(crate) fn router(state: ApiState, listen: SocketAddr) -> Result<Router, serde_json::Error> {
    let (router, api) = routes(&state);
    let document: &'static str = document(api)?.leak();
    let trust = guard::Trust::of(listen);
    Ok(router
        .route(
            "/api/v1/openapi.json",
            get(move || async move {
                ([(header::CONTENT_TYPE, "application/json")], document).into_response()
            }),
        )
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(body::buffer))
        .layer(from_fn_with_state(trust, guard::refuse_foreign_pages))
        .layer(from_fn(guard::bound_time))
        .layer(from_fn(guard::catch_panics))
        .with_state(state))
}

async fn no_such_route(uri: Uri) -> Box<Problem> {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(Code::RouteNotFound, format!("there is nothing at {path}"))
        .with_hint("GET /api/v1/openapi.json lists every path")
}

async fn no_such_method(method: Method, uri: Uri) -> Box<Problem> {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(
        Code::MethodNotAllowed,
        format!("{path} does not take {method}"),
    )
    .with_hint("the Allow header lists what it takes; GET /api/v1/openapi.json describes it")
}
