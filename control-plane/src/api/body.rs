//! Reads request bodies: JSON or YAML by content type, bounded, with the path, line and column of
//! what is wrong.
//!
//! [`buffer`] runs before every handler and holds the whole body in memory (at most
//! [`MAX_BODY_BYTES`]), so no handler can be kept waiting by a slow sender, and a body that is too
//! large is answered the same way on every route.

use std::{fmt, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor},
};

use crate::problem::{Answer, Code, Problem, ProblemItem};

/// Largest body of any request.
pub(crate) const MAX_BODY_BYTES: usize = 4 << 20;
/// How much of an oversized body is read and dropped, so that the sender gets to see the answer
/// instead of a reset connection.
const MAX_DRAINED_BYTES: usize = 64 << 20;
/// Within this the whole body must have arrived.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Middleware: replaces the body by its bytes, or answers 413 or 408.
pub(crate) async fn buffer(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIMEOUT, read(body)).await {
        Ok(Ok(bytes)) => {
            next.run(Request::from_parts(parts, Body::from(bytes)))
                .await
        }
        Ok(Err(problem)) => problem.into_response(),
        Err(_) => Problem::new(
            Code::RequestTimeout,
            format!(
                "the body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            ),
        )
        .into_response(),
    }
}

async fn read(body: Body) -> Answer<Bytes> {
    let mut stream = body.into_data_stream();
    let mut kept = Vec::new();
    let mut seen = 0usize;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::new(
                Code::MalformedBody,
                format!("the body broke off after {seen} bytes: {error}"),
            )
        })?;
        seen += chunk.len();
        if seen <= MAX_BODY_BYTES {
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
            if seen > MAX_DRAINED_BYTES {
                break;
            }
        }
    }
    if seen > MAX_BODY_BYTES {
        return Err(Problem::new(
            Code::BodyTooLarge,
            format!("the body is larger than {} MiB", MAX_BODY_BYTES >> 20),
        )
        .with_hint("keep data out of the SQL script: read it with a connector"));
    }
    Ok(Bytes::from(kept))
}

/// A body in JSON (`application/json` or anything `+json`) or YAML (`application/yaml`,
/// `application/x-yaml`, `text/yaml`).
pub(crate) struct Document<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Document<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let syntax = Syntax::of(request.headers())?;
        let bytes = take_bytes(request, state).await?;
        parse(&bytes, syntax).map(Document)
    }
}

/// As [`Document`], but an absent or empty body is the default.
pub(crate) struct OptionalDocument<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalDocument<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let syntax = Syntax::of(request.headers());
        let bytes = take_bytes(request, state).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(OptionalDocument(T::default()));
        }
        parse(&bytes, syntax?).map(OptionalDocument)
    }
}

async fn take_bytes<S: Send + Sync>(request: Request, state: &S) -> Answer<Bytes> {
    Bytes::from_request(request, state)
        .await
        .map_err(|error| Problem::new(Code::MalformedBody, error.body_text()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Yaml,
}

impl Syntax {
    fn of(headers: &HeaderMap) -> Answer<Self> {
        let unsupported = |given: &str| {
            Problem::new(
                Code::UnsupportedMediaType,
                format!("the content type is {given}"),
            )
            .with_hint("send application/json or application/yaml")
        };
        let Some(value) = headers.get(header::CONTENT_TYPE) else {
            return Err(unsupported("missing"));
        };
        let text = value.to_str().map_err(|_| unsupported("not ASCII"))?;
        let essence = text
            .split(';')
            .next()
            .unwrap_or(text)
            .trim()
            .to_ascii_lowercase();
        match essence.as_str() {
            "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Syntax::Yaml),
            "application/json" => Ok(Syntax::Json),
            json if json.starts_with("application/") && json.ends_with("+json") => Ok(Syntax::Json),
            other => {
                let shown: String = other.chars().take(80).collect();
                Err(unsupported(&format!("`{shown}`")))
            }
        }
    }
}

/// Succeeds on a list only: one would be read as the fields of a struct in their order.
struct List;

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;

        impl<'de> Visitor<'de> for Items {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<List, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(List)
            }
        }

        deserializer.deserialize_any(Items)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], syntax: Syntax) -> Answer<T> {
    let list = |is_list: bool| match is_list {
        true => Err(Problem::new(
            Code::InvalidSpec,
            "the body is a list, expected an object with named fields",
        )),
        false => Ok(()),
    };
    match syntax {
        Syntax::Json => {
            if bytes.iter().all(u8::is_ascii_whitespace) {
                return Err(Problem::new(Code::MalformedBody, "the body is empty"));
            }
            // What is no JSON at all is told as such, wherever reading the value would have
            // stopped. This pass does not recurse, however deep the nesting.
            serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| {
                refused(
                    Code::MalformedBody,
                    ".",
                    &error.to_string(),
                    error.line(),
                    error.column(),
                )
            })?;
            list(bytes.trim_ascii_start().starts_with(b"["))?;
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
                let path = error.path().to_string();
                let inner = error.into_inner();
                refused(
                    Code::InvalidSpec,
                    &path,
                    &inner.to_string(),
                    inner.line(),
                    inner.column(),
                )
            })
        }
        Syntax::Yaml => {
            list(serde_yaml_ng::from_slice::<List>(bytes).is_ok())?;
            let deserializer = serde_yaml_ng::Deserializer::from_slice(bytes);
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                let path = error.path().to_string();
                let inner = error.into_inner();
                let (line, column) = inner
                    .location()
                    .map_or((0, 0), |place| (place.line(), place.column()));
                refused(Code::InvalidSpec, &path, &inner.to_string(), line, column)
            })
        }
    }
}

fn refused(code: Code, path: &str, reason: &str, line: usize, column: usize) -> Box<Problem> {
    let field = (path != "." && !path.is_empty() && path != "?").then(|| path.to_owned());
    let reason = strip_position(reason);
    let place = match (&field, line) {
        (Some(field), _) => format!("`{field}`: "),
        (None, 0) => String::new(),
        (None, line) => format!("line {line}, column {column}: "),
    };
    Problem::new(code, format!("{place}{reason}")).with_errors(vec![ProblemItem {
        message: reason.to_owned(),
        field,
        line: (line > 0).then_some(line as u64),
        column: (line > 0).then_some(column as u64),
        ..ProblemItem::default()
    }])
}

/// Drops ` at line 3 column 5` from a parser's message: the position stands in fields of its own.
fn strip_position(reason: &str) -> &str {
    match reason.rfind(" at line ") {
        Some(at) if reason[at..].contains(" column ") => &reason[..at],
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use millrace_types::JobSpec;

    use super::*;

    #[test]
    fn a_bad_field_is_named_by_its_path_and_place() {
        let json = b"{\"name\":\"a\",\"sql\":\"x\",\n \"checkpointing\":{\"interval\":\"soon\"}}";
        let problem = parse::<JobSpec>(json, Syntax::Json).unwrap_err();
        assert_eq!(problem.code, "invalid-spec");
        let item = &problem.errors[0];
        assert_eq!(item.field.as_deref(), Some("checkpointing.interval"));
        assert_eq!(item.line, Some(2));
        assert!(!item.message.contains(" at line "), "{}", item.message);

        let yaml = b"name: a\nsql: x\ncheckpointing:\n  retaned: 3\n";
        let problem = parse::<JobSpec>(yaml, Syntax::Yaml).unwrap_err();
        assert_eq!(problem.code, "invalid-spec");
        assert!(problem.detail.contains("retaned"), "{}", problem.detail);
        assert!(
            problem.detail.contains("checkpointing"),
            "{}",
            problem.detail
        );
    }

    #[test]
    fn a_broken_body_is_no_spec() {
        let deep = vec![b'['; 1_000_000];
        for body in [&b"{\"name\": "[..], b"{} {}", b"\xff\xfe", b"", &deep] {
            let problem = parse::<JobSpec>(body, Syntax::Json).unwrap_err();
            assert_eq!(problem.code, "malformed-body", "{}", problem.detail);
            assert_eq!(problem.status, 400);
        }
    }

    #[test]
    fn a_list_is_no_spec_though_its_items_are_in_the_fields_order() {
        for (body, syntax) in [
            (&b"[\"j\", \"CREATE TABLE\"]"[..], Syntax::Json),
            (b" \n[]", Syntax::Json),
            (b"- j\n- CREATE TABLE\n", Syntax::Yaml),
            (b"[j, CREATE TABLE]", Syntax::Yaml),
        ] {
            let problem = parse::<JobSpec>(body, syntax).unwrap_err();
            assert_eq!(problem.code, "invalid-spec");
            assert!(problem.detail.contains("a list"), "{}", problem.detail);
        }
        parse::<JobSpec>(b"name: j\nsql: x\n", Syntax::Yaml).unwrap();
        parse::<JobSpec>(b" {\"name\": \"j\", \"sql\": \"x\"}", Syntax::Json).unwrap();
    }

    #[test]
    fn media_types() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(text));
            Syntax::of(&headers)
        };
        assert_eq!(of("application/json; charset=utf-8").unwrap(), Syntax::Json);
        assert_eq!(of("application/merge-patch+json").unwrap(), Syntax::Json);
        assert_eq!(of("Application/YAML").unwrap(), Syntax::Yaml);
        assert_eq!(of("text/plain").unwrap_err().status, 415);
        assert_eq!(Syntax::of(&HeaderMap::new()).unwrap_err().status, 415);
    }

    #[tokio::test]
    async fn a_large_body_is_refused_and_the_limit_itself_is_not() {
        let exact = read(Body::from(vec![b'x'; MAX_BODY_BYTES])).await.unwrap();
        assert_eq!(exact.len(), MAX_BODY_BYTES);
        let problem = read(Body::from(vec![b'x'; MAX_BODY_BYTES + 1]))
            .await
            .unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (413, "body-too-large")
        );
    }
}
