//! Errors as the REST API answers them: RFC 9457 problem documents.
//!
//! Every failure of a request leaves through [`Problem`], so that each has a stable `code`, says
//! what was wrong and where, and what to do next. Causes that only the operator of the service
//! should see are logged here under an incident id, never sent.

mod code;
mod store_error;

use std::{error::Error, fmt};

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use self::code::Code;

/// Media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// One thing that is wrong with a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProblemItem {
    pub message: String,
    /// `error` or `warning`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Stable kind of the finding, such as `unknown-column`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Dotted path in the body, or the name of a parameter or header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Line of the SQL script or body, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u64>,
    /// One past the last column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_column: Option<u64>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ProblemItem {
    /// Something wrong with one field, parameter or header.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        ProblemItem {
            field: Some(field.into()),
            message: message.into(),
            ..ProblemItem::default()
        }
    }
}

/// A failed request (RFC 9457), sent as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `urn:millrace:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every problem of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time.
    pub detail: String,
    /// Stable; what programs should look at.
    pub code: String,
    /// Every single finding, where there are several or they have a place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemItem>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Under which the service's log has the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// Seconds after which to try again; also in the `Retry-After` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// What a handler answers.
pub(crate) type Answer<T> = Result<T, Box<Problem>>;

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Box<Self> {
        Box::new(Problem {
            kind: format!("urn:millrace:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            detail: detail.into(),
            code: code.as_str().to_owned(),
            errors: Vec::new(),
            hint: None,
            incident: None,
            retry_after: None,
        })
    }

    pub(crate) fn with_hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_errors(mut self: Box<Self>, errors: Vec<ProblemItem>) -> Box<Self> {
        self.errors = errors;
        self
    }

    pub(crate) fn with_retry_after(mut self: Box<Self>, seconds: u32) -> Box<Self> {
        self.retry_after = Some(seconds);
        self
    }

    /// A query parameter, path segment or header that cannot be read.
    pub(crate) fn parameter(name: &str, reason: impl fmt::Display) -> Box<Self> {
        let reason = reason.to_string();
        Problem::new(Code::InvalidParameter, format!("`{name}`: {reason}"))
            .with_errors(vec![ProblemItem::field(name, reason)])
    }

    /// A fault of the service itself: the cause goes to the log, the caller gets its incident id.
    pub(crate) fn internal(what: &str, cause: &dyn Error) -> Box<Self> {
        let incident = Uuid::now_v7();
        tracing::error!(%incident, cause = chain(cause), "{what}");
        Problem::incident(incident)
    }

    /// The answer to a handler that panicked.
    pub(crate) fn panicked(message: &str) -> Box<Self> {
        let incident = Uuid::now_v7();
        tracing::error!(%incident, message, "a request handler panicked");
        Problem::incident(incident)
    }

    fn incident(incident: Uuid) -> Box<Self> {
        let mut problem = Problem::new(
            Code::Internal,
            format!("the service failed to handle the request; its log has the cause under incident {incident}"),
        )
        .with_hint("try again; if it stays, report it with the log lines of the incident");
        problem.incident = Some(incident.to_string());
        problem
    }
}

/// An error with all its sources, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        // Many errors already print their source.
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl Error for Problem {}

impl IntoResponse for Box<Problem> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A struct of texts and numbers always serializes.
        let body = serde_json::to_vec(&*self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_problem_is_sent_with_its_media_type_and_retry_after() {
        let response = Problem::new(Code::DatabaseUnavailable, "no connection")
            .with_hint("start it")
            .with_retry_after(2)
            .into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            response.headers()[header::CONTENT_TYPE],
            "application/problem+json"
        );
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let bytes = to_bytes(response.into_body(), 4096).await.unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": "urn:millrace:problem:database-unavailable",
                "title": "The service cannot reach its database",
                "status": 503,
                "detail": "no connection",
                "code": "database-unavailable",
                "hint": "start it",
                "retryAfter": 2,
            })
        );
    }

    #[test]
    fn the_cause_of_an_internal_fault_is_not_sent() {
        let cause = std::io::Error::other("password=hunter2");
        let problem = Problem::internal("reading", &cause);
        let sent = serde_json::to_string(&problem).unwrap();
        assert!(!sent.contains("hunter2"), "{sent}");
        assert!(sent.contains(problem.incident.as_deref().unwrap()));
    }
}
