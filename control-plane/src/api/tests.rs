//! The API as a caller sees it, without a database: every route described, every refusal a problem.

mod replicas;

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use millrace_sql::AnyConnector;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::{live::LiveJobs, sql::Compiler, store::Store};

/// The API over a database that nobody listens for.
fn api(readiness: Readiness) -> Router {
    router(state(readiness), ([127, 0, 0, 1], 7090).into()).unwrap()
}

fn state(readiness: Readiness) -> ApiState {
    let store = Store::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap();
    state_over(store, readiness)
}

fn state_over(store: Store, readiness: Readiness) -> ApiState {
    let (sender, receiver) = watch::channel(readiness);
    // Receivers keep the last value after the sender is gone.
    drop(sender);
    ApiState::new(
        "here".to_owned(),
        store,
        LiveJobs::default(),
        Compiler::new(Arc::new(AnyConnector)),
        receiver,
        CancellationToken::new(),
    )
}

async fn call(api: Router, request: Request<Body>) -> (StatusCode, serde_json::Value) {
    let response = api.oneshot(request).await.unwrap();
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).cloned();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    if !status.is_success() {
        assert_eq!(kind.unwrap(), "application/problem+json");
    }
    (status, serde_json::from_slice(&bytes).unwrap())
}

fn request(method: &str, path: &str, kind: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path);
    if let Some(kind) = kind {
        builder = builder.header(header::CONTENT_TYPE, kind);
    }
    builder.body(body.into()).unwrap()
}

#[tokio::test]
async fn every_endpoint_is_in_the_document_with_its_problems() {
    let (_, api) = routes(&state(Readiness::Ready));
    let text = document(api).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut found = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, item) in json["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            found.insert(format!("{} {path}", method.to_uppercase()));
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            assert!(operation["summary"].is_string(), "{id} has no summary");
            let responses = operation["responses"].as_object().unwrap();
            if path.contains("{tenant}") {
                assert!(
                    responses["404"]["description"]
                        .as_str()
                        .unwrap()
                        .contains("tenant-not-found"),
                    "{id}"
                );
                assert!(
                    responses["503"]["description"]
                        .as_str()
                        .unwrap()
                        .contains("database-unavailable"),
                    "{id}"
                );
            }
        }
    }
    let job = "/api/v1/tenants/{tenant}/jobs/{job}";
    let mut expected: BTreeSet<String> = [
        "GET /healthz",
        "GET /readyz",
        "GET /api/v1/version",
        "GET /api/v1/workers",
        "POST /api/v1/tenants/{tenant}/jobs",
        "GET /api/v1/tenants/{tenant}/jobs",
        "POST /api/v1/tenants/{tenant}/sql/validate",
        "POST /api/v1/tenants/{tenant}/sql/explain",
    ]
    .map(str::to_owned)
    .into();
    for (method, rest) in [
        ("GET", ""),
        ("PUT", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/start"),
        ("POST", "/stop"),
        ("GET", "/versions"),
        ("GET", "/versions/{version}"),
        ("GET", "/executions"),
        ("GET", "/executions/{execution}"),
        ("GET", "/checkpoints"),
        ("GET", "/checkpoints/{checkpoint}"),
        ("GET", "/savepoints"),
        ("POST", "/savepoints"),
        ("GET", "/savepoints/{savepoint}"),
        ("DELETE", "/savepoints/{savepoint}"),
        ("GET", "/events"),
        ("GET", "/metrics"),
        ("GET", "/output"),
        ("GET", "/workers"),
        ("GET", "/graph"),
    ] {
        expected.insert(format!("{method} {job}{rest}"));
    }
    assert_eq!(found, expected);
    // Nothing refers to a schema that is not there.
    let schemas = json["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn refusals_that_need_no_database() {
    let jobs = "/api/v1/tenants/default/jobs";
    let json = Some("application/json");
    let spec = |sql: &str| format!(r#"{{"name":"j","sql":{}}}"#, serde_json::json!(sql));
    let cases = [
        (request("GET", "/nowhere", None, ""), 404, "route-not-found"),
        (
            request("GET", "/api/v2/x", None, ""),
            404,
            "route-not-found",
        ),
        (request("DELETE", jobs, None, ""), 405, "method-not-allowed"),
        (
            request("POST", jobs, None, "{}"),
            415,
            "unsupported-media-type",
        ),
        (
            request("POST", jobs, Some("text/csv"), "{}"),
            415,
            "unsupported-media-type",
        ),
        (request("POST", jobs, json, "{"), 400, "malformed-body"),
        (request("POST", jobs, json, "{}"), 422, "invalid-spec"),
        (request("POST", jobs, json, spec(" ")), 422, "invalid-spec"),
        (
            request("POST", jobs, json, vec![b' '; 10 << 20]),
            413,
            "body-too-large",
        ),
        (
            request("POST", "/nowhere", json, vec![b' '; 10 << 20]),
            413,
            "body-too-large",
        ),
        (
            request("POST", &format!("{jobs}?begin=true"), json, spec("x")),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}?limit=0"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}?limit=x"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}?state=x"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}?cursor=x"), None, ""),
            400,
            "invalid-cursor",
        ),
        (
            request("GET", "/api/v1/tenants/a%2Fb/jobs", None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}/a%20b"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}/%ff"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}/j/savepoints/x"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("GET", &format!("{jobs}/j/executions/1"), None, ""),
            400,
            "invalid-parameter",
        ),
        (
            request("PUT", &format!("{jobs}/j"), json, spec("x")),
            428,
            "if-match-required",
        ),
        (
            request("PATCH", &format!("{jobs}/j"), json, "{}"),
            428,
            "if-match-required",
        ),
        (
            request("POST", &format!("{jobs}/j/stop"), json, r#"{"mode":"x"}"#),
            422,
            "invalid-spec",
        ),
    ];
    for (request, status, code) in cases {
        let shown = format!("{} {}", request.method(), request.uri());
        let (found, body) = call(api(Readiness::Ready), request).await;
        assert_eq!(
            (found.as_u16(), body["code"].as_str()),
            (status, Some(code)),
            "{shown}: {body}"
        );
        assert!(
            body["detail"].as_str().is_some_and(|text| !text.is_empty()),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_database_that_is_down_is_a_503_with_retry_after() {
    for path in ["/readyz", "/api/v1/tenants/default/jobs", "/api/v1/workers"] {
        let (status, body) = call(api(Readiness::Ready), request("GET", path, None, "")).await;
        assert_eq!(status, 503, "{path}");
        assert_eq!(body["code"], "database-unavailable", "{path}");
        assert!(body["retryAfter"].is_u64(), "{path}");
        let waiting = api(Readiness::Waiting("connection refused".to_owned()));
        let (status, body) = call(waiting, request("GET", path, None, "")).await;
        assert_eq!(
            (status.as_u16(), body["code"].as_str()),
            (503, Some("not-ready")),
            "{path}"
        );
        assert!(
            body["detail"]
                .as_str()
                .unwrap()
                .contains("connection refused"),
            "{path}"
        );
    }
    let waiting = api(Readiness::Waiting(String::new()));
    let (status, _) = call(waiting, request("GET", "/healthz", None, "")).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_panic_is_a_problem_with_an_incident() {
    let router: Router = Router::new()
        .route("/", get(async || -> &'static str { panic!("secret") }))
        .layer(from_fn(guard::catch_panics));
    let (status, body) = call(router, request("GET", "/", None, "")).await;
    assert_eq!(
        (status.as_u16(), body["code"].as_str()),
        (500, Some("internal"))
    );
    assert!(body["incident"].is_string());
    assert!(!body.to_string().contains("secret"));
}
