//! Jobs: create, list, show, change and delete.

use std::fmt::Write;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use millrace_types::{JobId, JobSpec, JobState, VersionNumber};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    body::Document,
    page::{Page, PageRequest},
    path::{IdempotencyKey, JobPath, Params, TenantPath, header_text},
    problems::{CreateProblems, DeleteProblems, JobProblems, TenantProblems, UpdateProblems},
    state::ApiState,
    state_change::StateChanges,
    view::JobView,
};
use crate::{
    problem::{Answer, Code, Problem, ProblemItem},
    sql,
    store::{JobFilter, JobRecord, NewJob},
};

/// How to create a job.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateQuery {
    /// Whether to start the job at once; true if absent.
    start: Option<bool>,
}

/// Creates a job.
///
/// The body is a job spec in JSON or YAML; its SQL is compiled before anything is stored. With an
/// `Idempotency-Key`, a repeated request answers with the job that the first one created.
#[utoipa::path(
    post, path = "/api/v1/tenants/{tenant}/jobs", tag = "jobs",
    params(
        ("tenant" = String, Path, description = "Name of the tenant; `default` on one machine"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters, fresh for every new job"),
        CreateQuery,
    ),
    request_body(content((JobSpec = "application/json"), (JobSpec = "application/yaml"))),
    responses(
        (status = 201, description = "The job was created", body = JobView,
            headers(("Location" = String), ("ETag" = String))),
        (status = 200, description = "The job that the first request with this key created", body = JobView),
        CreateProblems,
    )
)]
pub(crate) async fn create_job(
    State(state): State<ApiState>,
    TenantPath(tenant): TenantPath,
    Params(query): Params<CreateQuery>,
    key: Option<IdempotencyKey>,
    Document(spec): Document<JobSpec>,
) -> Answer<Response> {
    let start = query.start.unwrap_or(true);
    sql::check_numbers(&spec)?;
    // Before compiling, so that an unknown tenant is told first.
    state.store().check_tenant(&tenant).await?;
    let compiled = state.compiler().compile_or_refuse(spec.clone()).await?;
    let idempotency = match key {
        Some(IdempotencyKey(key)) => Some((key, request_digest(&spec, start)?)),
        None => None,
    };
    let new = NewJob {
        spec,
        fingerprint: compiled.dataflow.fingerprint(),
        start,
        idempotency,
    };
    let (job, created) = state.store().create_job(&tenant, new).await?;
    state.live().wake(job.id);
    let mut response = with_etag(&job, StatusCode::OK);
    if created {
        *response.status_mut() = StatusCode::CREATED;
        let location = format!("/api/v1/tenants/{tenant}/jobs/{}", job.id);
        set_header(&mut response, header::LOCATION, &location);
    }
    Ok(response)
}

/// What makes two create requests the same.
fn request_digest(spec: &JobSpec, start: bool) -> Answer<String> {
    let json = serde_json::to_vec(&(spec, start))
        .map_err(|error| Problem::internal("writing a job spec", &error))?;
    let mut text = String::new();
    for byte in Sha256::digest(json) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn with_etag(job: &JobRecord, status: StatusCode) -> Response {
    let tag = etag(job.version);
    let mut response = (status, Json(JobView::from(job.clone()))).into_response();
    set_header(&mut response, header::ETAG, &tag);
    response
}

fn set_header(response: &mut Response, name: header::HeaderName, value: &str) {
    // Only ids and names of a safe alphabet come here.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The entity tag of a job: its version. It changes when the spec does, not with the state.
fn etag(version: VersionNumber) -> String {
    format!("\"v{version}\"")
}

/// Which jobs to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Only jobs in this state.
    #[param(value_type = Option<JobState>)]
    state: Option<String>,
    /// Only jobs whose name starts so.
    name: Option<String>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// Most items to return, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Lists the tenant's jobs, oldest first.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs", tag = "jobs",
    params(("tenant" = String, Path), ListQuery),
    responses((status = 200, body = Page<JobView>), TenantProblems)
)]
pub(crate) async fn list_jobs(
    State(state): State<ApiState>,
    TenantPath(tenant): TenantPath,
    Params(query): Params<ListQuery>,
) -> Answer<Json<Page<JobView>>> {
    let request = PageRequest::<JobId>::new("jobs", query.cursor.as_deref(), query.limit)?;
    let wanted = query.state.as_deref().map(job_state).transpose()?;
    let filter = JobFilter {
        state: wanted,
        name_prefix: query.name,
    };
    let jobs = state
        .store()
        .list_jobs(&tenant, &filter, request.after, request.fetch())
        .await?;
    Ok(Json(request.page(jobs, |job| job.id, JobView::from)))
}

fn job_state(text: &str) -> Answer<JobState> {
    JobState::parse(text).ok_or_else(|| {
        let known: Vec<_> = JobState::ALL.iter().map(|state| state.as_str()).collect();
        let shown: String = text.chars().take(80).collect();
        Problem::parameter(
            "state",
            format!(
                "there is no state `{shown}`, expected one of {}",
                known.join(", ")
            ),
        )
    })
}

/// Shows a job.
#[utoipa::path(
    get, path = "/api/v1/tenants/{tenant}/jobs/{job}", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path, description = "Id or name of the job")),
    responses(
        (status = 200, body = JobView, headers(("ETag" = String, description = "Names the version; for If-Match"))),
        JobProblems,
    )
)]
pub(crate) async fn get_job(State(state): State<ApiState>, path: JobPath) -> Answer<Response> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    Ok(with_etag(&job, StatusCode::OK))
}

/// Replaces a job's spec: a new version, to which a running job moves by its upgrade mode.
#[utoipa::path(
    put, path = "/api/v1/tenants/{tenant}/jobs/{job}", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path),
        ("If-Match" = String, Header, description = "The ETag that the change is based on, or `*`")),
    request_body(content((JobSpec = "application/json"), (JobSpec = "application/yaml"))),
    responses(
        (status = 200, body = JobView, headers(("ETag" = String))),
        UpdateProblems,
    )
)]
pub(crate) async fn replace_job(
    State(state): State<ApiState>,
    path: JobPath,
    headers: HeaderMap,
    Document(spec): Document<JobSpec>,
) -> Answer<Response> {
    let (current, expected) = current_job(&state, &path, &headers).await?;
    update(&state, &path, current, expected, spec).await
}

/// Changes parts of a job's spec by a JSON merge patch (RFC 7396): a new version.
#[utoipa::path(
    patch, path = "/api/v1/tenants/{tenant}/jobs/{job}", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path),
        ("If-Match" = String, Header, description = "The ETag that the change is based on, or `*`")),
    request_body(content(
        (Object = "application/merge-patch+json"), (Object = "application/json"), (Object = "application/yaml"))),
    responses(
        (status = 200, body = JobView, headers(("ETag" = String))),
        UpdateProblems,
    )
)]
pub(crate) async fn patch_job(
    State(state): State<ApiState>,
    path: JobPath,
    headers: HeaderMap,
    Document(patch): Document<serde_json::Value>,
) -> Answer<Response> {
    let (current, expected) = current_job(&state, &path, &headers).await?;
    if !patch.is_object() {
        return Err(Problem::new(
            Code::InvalidSpec,
            "a patch is an object of the fields to change",
        ));
    }
    let mut value = serde_json::to_value(&current.spec)
        .map_err(|error| Problem::internal("writing a job spec", &error))?;
    merge(&mut value, patch);
    let spec = serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        let reason = error.into_inner().to_string();
        Problem::new(Code::InvalidSpec, format!("`{field}`: {reason}"))
            .with_errors(vec![ProblemItem::field(field, reason)])
    })?;
    update(&state, &path, current, expected, spec).await
}

/// JSON merge patch: objects merge, null removes, anything else replaces.
fn merge(target: &mut serde_json::Value, patch: serde_json::Value) {
    let serde_json::Value::Object(fields) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = serde_json::Value::Object(serde_json::Map::new());
    }
    if let Some(object) = target.as_object_mut() {
        for (name, value) in fields {
            if value.is_null() {
                object.remove(&name);
            } else {
                merge(object.entry(name).or_insert(serde_json::Value::Null), value);
            }
        }
    }
}

/// The job, and the version that the change is based on.
async fn current_job(
    state: &ApiState,
    path: &JobPath,
    headers: &HeaderMap,
) -> Answer<(JobRecord, VersionNumber)> {
    let condition = header_text(headers, "if-match")?
        .map(str::trim)
        .ok_or_else(|| {
            Problem::new(Code::IfMatchRequired, "the request has no If-Match header").with_hint(
                "GET the job and send its ETag as If-Match, so that nobody's change is lost",
            )
        })?;
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    if condition == "*" {
        let version = job.version;
        return Ok((job, version));
    }
    let current = etag(job.version);
    if condition.split(',').any(|tag| tag.trim() == current) {
        let version = job.version;
        return Ok((job, version));
    }
    let shown: String = condition.chars().take(80).collect();
    Err(Problem::new(
        Code::VersionMismatch,
        format!("If-Match is {shown}, the job's ETag is {current}"),
    )
    .with_hint("GET the job, apply the change to what it is now, and send its new ETag"))
}

async fn update(
    state: &ApiState,
    path: &JobPath,
    current: JobRecord,
    expected: VersionNumber,
    spec: JobSpec,
) -> Answer<Response> {
    let fixed = |field: &str, reason: String| {
        Err(
            Problem::new(Code::InvalidSpec, format!("`{field}`: {reason}"))
                .with_errors(vec![ProblemItem::field(field, reason)]),
        )
    };
    if spec.name != current.name {
        return fixed(
            "name",
            format!(
                "is `{}`, a job keeps its name `{}`",
                spec.name, current.name
            ),
        );
    }
    if spec.max_parallelism != current.spec.max_parallelism {
        return fixed(
            "max-parallelism",
            format!(
                "is {}, a job keeps the {} it was created with: its state is split into that many key groups",
                spec.max_parallelism, current.spec.max_parallelism
            ),
        );
    }
    sql::check_numbers(&spec)?;
    let compiled = state.compiler().compile_or_refuse(spec.clone()).await?;
    let fingerprint = compiled.dataflow.fingerprint();
    let change = StateChanges::of(state.compiler(), &current, &spec, &compiled.dataflow).await?;
    let job = state
        .store()
        .change_job(
            &path.tenant,
            current.id,
            expected,
            spec,
            fingerprint,
            |version| change.event(version),
        )
        .await?;
    state.live().wake(job.id);
    let tag = etag(job.version);
    let mut view = JobView::from(job);
    view.state_diff = change.views();
    let mut response = (StatusCode::OK, Json(view)).into_response();
    set_header(&mut response, header::ETAG, &tag);
    Ok(response)
}

/// How to delete a job.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteQuery {
    /// Delete the job even while it runs: it is canceled first. False if absent.
    force: Option<bool>,
}

/// Deletes a job with its history, checkpoints and savepoints.
#[utoipa::path(
    delete, path = "/api/v1/tenants/{tenant}/jobs/{job}", tag = "jobs",
    params(("tenant" = String, Path), ("job" = String, Path), DeleteQuery),
    responses(
        (status = 202, description = "The job will be gone when its workers and files are", body = JobView),
        DeleteProblems,
    )
)]
pub(crate) async fn delete_job(
    State(state): State<ApiState>,
    path: JobPath,
    Params(query): Params<DeleteQuery>,
) -> Answer<Response> {
    let job = state.store().get_job(&path.tenant, &path.job).await?;
    if job.state.is_active() && !query.force.unwrap_or(false) {
        return Err(
            Problem::new(Code::JobActive, format!("the job is {}", job.state)).with_hint(
                "stop it first, or pass `force=true` (`--force`) to cancel and delete it",
            ),
        );
    }
    let job = state.store().delete_job(&path.tenant, job.id).await?;
    state.live().wake(job.id);
    Ok((StatusCode::ACCEPTED, Json(JobView::from(job))).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_follows_rfc_7396() {
        // The cases of the RFC's appendix that concern objects.
        for (mut target, patch, expected) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
        ] {
            merge(&mut target, patch.clone());
            assert_eq!(target, expected, "{patch}");
        }
    }

    #[test]
    fn an_unknown_state_is_answered_with_the_known_ones() {
        let problem = job_state("walking").unwrap_err();
        assert_eq!(problem.status, 400);
        assert!(problem.detail.contains("running"), "{}", problem.detail);
    }

    #[test]
    fn two_requests_differ_by_spec_or_start() {
        let spec = |sql: &str| JobSpec::new(millrace_types::JobName::new("j").unwrap(), sql);
        let digest = |sql: &str, start| request_digest(&spec(sql), start).unwrap();
        assert_eq!(digest("a", true), digest("a", true));
        assert_ne!(digest("a", true), digest("b", true));
        assert_ne!(digest("a", true), digest("a", false));
        assert_eq!(digest("a", true).len(), 64);
    }
}
