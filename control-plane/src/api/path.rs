//! Path and query parameters, refused in words when they cannot be read.

use std::fmt::Display;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts, Query, RawPathParams},
    http::{HeaderMap, request::Parts},
};
use millrace_types::{
    CheckpointId, ExecutionId, JobId, JobName, SavepointId, TenantName, VersionNumber,
};
use serde::de::DeserializeOwned;

use crate::{
    problem::{Answer, Problem},
    store::JobRef,
};

/// `/tenants/{tenant}/…`
pub(crate) struct TenantPath(pub(crate) TenantName);

/// `/tenants/{tenant}/jobs/{job}/…`; the job by id or by name.
pub(crate) struct JobPath {
    pub(crate) tenant: TenantName,
    pub(crate) job: JobRef,
}

/// `/tenants/{tenant}/jobs/{job}/{things}/{id}`
pub(crate) struct ItemPath<K> {
    pub(crate) tenant: TenantName,
    pub(crate) job: JobRef,
    pub(crate) item: K,
}

/// An id that stands in a path under a parameter name of its own.
pub(crate) trait PathId: Sized {
    /// The name between the braces.
    const PARAMETER: &'static str;
    fn read(text: &str) -> Result<Self, String>;
}

macro_rules! numbered {
    ($name:ident, $parameter:literal, $int:ty) => {
        impl PathId for $name {
            const PARAMETER: &'static str = $parameter;
            fn read(text: &str) -> Result<Self, String> {
                let number: $int = text
                    .parse()
                    .map_err(|_| format!("`{}` is not a number", shortened(text)))?;
                Ok($name(number))
            }
        }
    };
}

numbered!(CheckpointId, "checkpoint", u64);
numbered!(SavepointId, "savepoint", u64);
numbered!(VersionNumber, "version", u32);

impl PathId for ExecutionId {
    const PARAMETER: &'static str = "execution";
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: millrace_types::IdError| error.to_string())
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The path parameters of a request by name.
struct Named(Vec<(String, String)>);

impl Named {
    async fn read<S: Send + Sync>(parts: &mut Parts, state: &S) -> Answer<Self> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::parameter("path", error.body_text()))?;
        Ok(Named(
            params
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        ))
    }

    fn get<T, E: Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Answer<T> {
        let value = self
            .0
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value.as_str());
        parse(value).map_err(|error| Problem::parameter(name, error))
    }

    fn tenant(&self) -> Answer<TenantName> {
        self.get("tenant", |text| TenantName::new(text))
    }

    fn job(&self) -> Answer<JobRef> {
        self.get("job", job_ref)
    }
}

/// A UUID is an id, anything else a name.
pub(crate) fn job_ref(text: &str) -> Result<JobRef, millrace_types::IdError> {
    match text.parse::<JobId>() {
        Ok(id) => Ok(JobRef::Id(id)),
        Err(_) => JobName::new(text).map(JobRef::Name),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TenantPath {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        Named::read(parts, state).await?.tenant().map(TenantPath)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let named = Named::read(parts, state).await?;
        Ok(JobPath {
            tenant: named.tenant()?,
            job: named.job()?,
        })
    }
}

impl<K: PathId, S: Send + Sync> FromRequestParts<S> for ItemPath<K> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let named = Named::read(parts, state).await?;
        Ok(ItemPath {
            tenant: named.tenant()?,
            job: named.job()?,
            item: named.get(K::PARAMETER, K::read)?,
        })
    }
}

/// The query parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        refuse_nul(parts.uri.query().unwrap_or_default())?;
        let Query(value) = Query::<T>::from_request_parts(parts, state)
            .await
            .map_err(|error| {
                let text = error.body_text();
                let reason = text
                    .strip_prefix("Failed to deserialize query string: ")
                    .unwrap_or(&text);
                match reason.split_once(": ") {
                    Some((name, reason)) if !name.contains(' ') => {
                        Problem::parameter(name, number_reason(reason))
                    }
                    _ => Problem::parameter("query", reason),
                }
            })?;
        Ok(Params(value))
    }
}

/// Postgres text holds no NUL, and nothing that is looked for has one.
fn refuse_nul(query: &str) -> Answer<()> {
    match query.split('&').find(|pair| pair.contains("%00")) {
        Some(pair) => {
            let name = pair.split('=').next().unwrap_or(pair);
            let name = if name.contains("%00") { "query" } else { name };
            Err(Problem::parameter(name, "contains a NUL character"))
        }
        None => Ok(()),
    }
}

/// What the standard library says of a bad number, for whoever sent it.
fn number_reason(reason: &str) -> &str {
    match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "is not a whole number"
        }
        "number too large to fit in target type" => "is too large",
        other => other,
    }
}

/// A header as text, if it is there.
pub(crate) fn header_text<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Answer<Option<&'a str>> {
    headers
        .get(name)
        .map(|value| {
            value
                .to_str()
                .map_err(|_| Problem::parameter(name, "holds other than visible ASCII characters"))
        })
        .transpose()
}

/// The `Idempotency-Key` header: 1 to 255 visible characters.
pub(crate) struct IdempotencyKey(pub(crate) String);

impl<S: Send + Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Option<Self>> {
        let Some(text) = header_text(&parts.headers, "idempotency-key")? else {
            return Ok(None);
        };
        if text.is_empty() || text.len() > 255 {
            return Err(Problem::parameter(
                "Idempotency-Key",
                "expected 1 to 255 characters",
            ));
        }
        Ok(Some(IdempotencyKey(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_id_or_name() {
        assert!(matches!(
            job_ref("0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11"),
            Ok(JobRef::Id(_))
        ));
        assert!(matches!(job_ref("flights"), Ok(JobRef::Name(_))));
        assert!(job_ref("a b").is_err());
        assert!(job_ref("").is_err());
    }

    #[tokio::test]
    async fn query_parameters_are_refused_in_words() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code, reason = "only read")]
        struct Wanted {
            name: Option<String>,
            limit: Option<u32>,
        }
        for (query, expected) in [
            ("limit=abc", "`limit`: is not a whole number"),
            ("limit=", "`limit`: is not a whole number"),
            ("limit=-1", "`limit`: is not a whole number"),
            ("limit=99999999999", "`limit`: is too large"),
            ("limit=1&name=%00", "`name`: contains a NUL character"),
            ("a%00b=1", "`query`: contains a NUL character"),
        ] {
            let request = axum::http::Request::builder()
                .uri(format!("/jobs?{query}"))
                .body(())
                .unwrap();
            let mut parts = request.into_parts().0;
            let Err(problem) = Params::<Wanted>::from_request_parts(&mut parts, &()).await else {
                panic!("{query} was taken");
            };
            assert_eq!(
                (problem.status, problem.detail.as_str()),
                (400, expected),
                "{query}"
            );
        }
    }

    #[test]
    fn numbers_are_refused_in_words() {
        assert_eq!(SavepointId::read("3"), Ok(SavepointId(3)));
        for bad in ["", "x", "-1", "99999999999999999999"] {
            assert!(
                SavepointId::read(bad)
                    .unwrap_err()
                    .contains("is not a number"),
                "{bad}"
            );
        }
    }
}
