//! The REST API as any program sees it: JSON in, JSON and headers out.

use std::{sync::Once, time::Duration};

use anyhow::{Context, Result, bail};
use reqwest::{Method, header};
use serde_json::Value;

/// No request may hang.
const TIMEOUT: Duration = Duration::from_secs(30);

static CRYPTO: Once = Once::new();

/// One service's API for the tenant `default`.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
}

/// What a request was answered with.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub content_type: String,
    pub etag: Option<String>,
    pub body: Value,
}

impl Reply {
    /// The body of a success; the problem as an error otherwise.
    pub fn ok(self) -> Result<Value> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        bail!("HTTP {}: {}", self.status, self.body)
    }

    /// The `code` of a problem document.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }

    /// The `detail` of a problem document.
    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap_or("")
    }
}

impl Client {
    /// `base` such as `http://127.0.0.1:7090`.
    pub fn new(base: &str) -> Result<Self> {
        CRYPTO.call_once(|| {
            // Fails only if there is a provider already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        Ok(Client {
            http: reqwest::Client::builder()
                .timeout(TIMEOUT)
                .no_proxy()
                .build()?,
            base: base.to_owned(),
        })
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether the service says that it is ready.
    pub async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("{}/readyz", self.base)).send().await;
        answer.is_ok_and(|response| response.status().is_success())
    }

    /// A path below the tenant, such as `jobs/a/stop`.
    pub fn path(rest: &str) -> String {
        format!("/api/v1/tenants/default/{rest}")
    }

    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Method::GET, path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.json(Method::POST, path, &[], body).await
    }

    /// Sends JSON with headers.
    pub async fn json(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Reply> {
        let mut headers = headers.to_vec();
        headers.push(("content-type", "application/json"));
        self.send(method, path, &headers, Some(serde_json::to_vec(body)?))
            .await
    }

    /// Sends anything.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Reply> {
        let mut request = self
            .http
            .request(method.clone(), format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        let text = |name: header::HeaderName| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let etag = text(header::ETAG);
        let status = response.status().as_u16();
        let bytes = response
            .bytes()
            .await
            .with_context(|| format!("body of {method} {path}"))?;
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()))
        };
        Ok(Reply {
            status,
            content_type,
            etag,
            body,
        })
    }
}
