//! Which problems an endpoint may answer with, for the OpenAPI document.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses, PartialSchema, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder},
};

use crate::problem::{Code, PROBLEM_JSON, Problem};

/// What any endpoint that asks the database may answer.
const EVERYWHERE: &[Code] = &[
    Code::ForeignOrigin,
    Code::BodyTooLarge,
    Code::RequestTimeout,
    Code::Internal,
    Code::DatabaseUnavailable,
    Code::NotReady,
    Code::HandlerTimeout,
];

/// One response per status, whose description lists the codes.
pub(crate) fn responses(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes.iter().chain(EVERYWHERE) {
        let codes = by_status.entry(code.status().as_u16()).or_default();
        if !codes.contains(code) {
            codes.push(*code);
        }
    }
    by_status
        .into_iter()
        .map(|(status, codes)| {
            let lines: Vec<String> = codes
                .iter()
                .map(|code| format!("`{}`: {}", code.as_str(), code.title()))
                .collect();
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name(Problem::name())))
                .build();
            let response = ResponseBuilder::new()
                .description(lines.join("; "))
                .content(PROBLEM_JSON, content)
                .build();
            (status.to_string(), RefOr::T(response))
        })
        .collect()
}

macro_rules! problem_sets {
    ($($(#[$doc:meta])* $name:ident: $($code:ident),*;)+) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    responses(&[$(Code::$code),*])
                }
            }
        )+
    };
}

problem_sets! {
    /// Of endpoints without parameters.
    ServiceProblems: ;
    TenantProblems: InvalidParameter, InvalidCursor, TenantNotFound;
    CreateProblems: InvalidParameter, MalformedBody, TenantNotFound, NameTaken, UnsupportedMediaType,
        InvalidSpec, InvalidSql, IdempotencyKeyReused;
    ScriptProblems: InvalidParameter, MalformedBody, TenantNotFound, UnsupportedMediaType, InvalidSpec, InvalidSql;
    JobProblems: InvalidParameter, InvalidCursor, TenantNotFound, JobNotFound;
    UpdateProblems: InvalidParameter, MalformedBody, TenantNotFound, JobNotFound, InvalidTransition,
        VersionMismatch, UnsupportedMediaType, InvalidSpec, InvalidSql, IfMatchRequired;
    DeleteProblems: InvalidParameter, TenantNotFound, JobNotFound, JobActive, InvalidTransition;
    TransitionProblems: InvalidParameter, MalformedBody, TenantNotFound, JobNotFound, SavepointNotFound,
        InvalidTransition, JobDrained, UnsupportedMediaType, InvalidSpec;
    VersionProblems: InvalidParameter, TenantNotFound, JobNotFound, VersionNotFound;
    ExecutionProblems: InvalidParameter, TenantNotFound, JobNotFound, ExecutionNotFound;
    CheckpointProblems: InvalidParameter, TenantNotFound, JobNotFound, CheckpointNotFound;
    SavepointProblems: InvalidParameter, TenantNotFound, JobNotFound, SavepointNotFound, InvalidTransition;
    MetricsProblems: InvalidParameter, TenantNotFound, JobNotFound, DrivenElsewhere, NoDriver;
    OutputProblems: InvalidParameter, TenantNotFound, JobNotFound, DrivenElsewhere, TooManyStreams;
    StreamProblems: InvalidParameter, InvalidCursor, TenantNotFound, JobNotFound, TooManyStreams;
}

/// The schemas that [`Problem`] refers to.
pub(crate) fn item_schemas() -> Vec<(String, RefOr<utoipa::openapi::Schema>)> {
    let mut schemas = Vec::new();
    Problem::schemas(&mut schemas);
    schemas
}

/// The schema that the responses refer to.
pub(crate) fn problem_schema() -> (String, RefOr<utoipa::openapi::Schema>) {
    (Problem::name().into_owned(), Problem::schema())
}
