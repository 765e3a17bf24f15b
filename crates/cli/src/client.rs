//! The REST API as the client verbs use it: typed answers, problems as errors.

mod sse;

use std::time::Duration;

use futures::StreamExt;
use millrace_control_plane::{api::view::Page, problem::Problem};
use millrace_types::{JobId, JobName, TenantName};
use reqwest::{Method, StatusCode, Url, header};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) use self::sse::ServerEvent;

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(
        "cannot reach the service at {server}: {reason}\n  hint: is `millrace up` running there? Name another with --server or MILLRACE_SERVER"
    )]
    Unreachable { server: String, reason: String },
    #[error("{0}")]
    Problem(Box<Problem>),
    #[error(
        "the service at {server} answered {status} with something that is no problem document: {body}\n  hint: is this a Millrace service?"
    )]
    Unexpected {
        server: String,
        status: StatusCode,
        body: String,
    },
    #[error(
        "the answer of {server} cannot be read: {reason}\n  hint: is its version the same as this command's (`millrace --version`)?"
    )]
    Unreadable { server: String, reason: String },
}

impl CallError {
    /// The service's problem, if there is one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match self {
            CallError::Problem(problem) => Some(problem),
            CallError::Unreachable { .. }
            | CallError::Unexpected { .. }
            | CallError::Unreadable { .. } => None,
        }
    }
}

/// An answer with what its headers say.
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    pub(crate) etag: Option<String>,
}

/// Calls one service on behalf of one tenant.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    server: Url,
    tenant: TenantName,
}

/// Time for one call; streams are not bound by it.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    /// `server` is a URL such as `http://127.0.0.1:7090`.
    pub(crate) fn new(server: &str, tenant: TenantName) -> anyhow::Result<Self> {
        let url = Url::parse(server).map_err(|error| {
            anyhow::anyhow!(
                "--server `{server}` is not a URL ({error}): write it as http://127.0.0.1:7090"
            )
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            anyhow::bail!(
                "--server `{server}`: expected a URL that starts with http:// or https://"
            );
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .user_agent(concat!("millrace/", env!("CARGO_PKG_VERSION")));
        let loopback = url.host_str().is_some_and(|host| {
            host == "localhost"
                || host
                    .trim_matches(['[', ']'])
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        });
        if loopback {
            builder = builder.no_proxy();
        }
        Ok(Client {
            http: builder.build()?,
            server: url,
            tenant,
        })
    }

    /// A path below the tenant: `jobs/flights/stop`.
    pub(crate) fn tenant_path(&self, rest: &str) -> String {
        format!("api/v1/tenants/{}/{rest}", self.tenant)
    }

    /// A path below a job, which is named by its id or name.
    pub(crate) fn job_path(&self, job: &str, rest: &str) -> anyhow::Result<String> {
        // Checked here, so that whatever is typed stays one segment of the path.
        if job.parse::<JobId>().is_err() {
            JobName::new(job)?;
        }
        let separator = if rest.is_empty() { "" } else { "/" };
        Ok(self.tenant_path(&format!("jobs/{job}{separator}{rest}")))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Reply<T>, CallError> {
        self.call::<(), T>(Method::GET, path, query, &[], None)
            .await
    }

    /// Every item of a listing, up to `limit`, page by page.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        limit: usize,
    ) -> Result<Vec<T>, CallError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let mut query = query.to_vec();
            query.push(("limit", (limit - items.len()).min(500).to_string()));
            if let Some(cursor) = cursor.take() {
                query.push(("cursor", cursor));
            }
            let page: Page<T> = self.get(path, &query).await?.value;
            items.extend(page.items);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(items)
    }

    /// Sends a body (JSON) and reads the answer.
    pub(crate) async fn call<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        headers: &[(&'static str, String)],
        body: Option<&B>,
    ) -> Result<Reply<T>, CallError> {
        let response = self.response(method, path, query, headers, body).await?;
        let etag = response
            .headers()
            .get(header::ETAG)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        // An answer without content reads as null.
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        let value = serde_json::from_slice(bytes).map_err(|error| self.unreadable(&error))?;
        Ok(Reply { value, etag })
    }

    async fn response<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        headers: &[(&'static str, String)],
        body: Option<&B>,
    ) -> Result<reqwest::Response, CallError> {
        let mut request = self.request(method, path, query)?.timeout(CALL_TIMEOUT);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        self.check(response).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<reqwest::RequestBuilder, CallError> {
        let base = self.server.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}/{path}")).map_err(|error| self.unreadable(&error))?;
        Ok(self.http.request(method, url).query(query))
    }

    /// Turns an answer that is no success into an error.
    async fn check(&self, response: reqwest::Response) -> Result<reqwest::Response, CallError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(CallError::Problem(Box::new(problem))),
            Err(_) => Err(CallError::Unexpected {
                server: self.server.to_string(),
                status,
                body: String::from_utf8_lossy(&body).chars().take(300).collect(),
            }),
        }
    }

    /// Opens a stream of server-sent events.
    pub(crate) async fn events(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<
        impl futures::Stream<Item = Result<ServerEvent, CallError>> + Unpin + use<>,
        CallError,
    > {
        let request = self
            .request(Method::GET, path, query)?
            .header(header::ACCEPT, "text/event-stream");
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let response = self.check(response).await?;
        let client = self.clone();
        let mut parser = sse::Parser::default();
        let stream = response.bytes_stream().flat_map(move |chunk| {
            let events = match chunk {
                Ok(bytes) => parser.push(&bytes).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(client.unreachable(&error))],
            };
            futures::stream::iter(events)
        });
        Ok(Box::pin(stream))
    }

    fn unreachable(&self, error: &reqwest::Error) -> CallError {
        CallError::Unreachable {
            server: self.server.to_string(),
            reason: innermost(error),
        }
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> CallError {
        CallError::Unreadable {
            server: self.server.to_string(),
            reason: error.to_string(),
        }
    }
}

/// The cause at the bottom of a chain, which says most.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        // In a test binary nobody else installs the provider; a second time is an error to ignore.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tenant = TenantName::new("default").unwrap();
        Client::new("http://127.0.0.1:1/", tenant).unwrap()
    }

    #[test]
    fn a_job_stays_one_segment_of_the_path() {
        let client = client();
        assert_eq!(
            client.job_path("a", "stop").unwrap(),
            "api/v1/tenants/default/jobs/a/stop"
        );
        assert_eq!(
            client.job_path("a", "").unwrap(),
            "api/v1/tenants/default/jobs/a"
        );
        for bad in ["a/b", "..", "", "a?x"] {
            assert!(client.job_path(bad, "").is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_is_named() {
        let Err(error) = client().get::<serde_json::Value>("healthz", &[]).await else {
            panic!("somebody listens on port 1");
        };
        let text = error.to_string();
        assert!(
            text.contains("127.0.0.1:1") && text.contains("millrace up"),
            "{text}"
        );
    }
}
