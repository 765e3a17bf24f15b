//! The stable problem codes, each with its status and title. Programs rely on them: add, never
//! rename.

use axum::http::StatusCode;

macro_rules! codes {
    ($($variant:ident = $text:literal, $status:ident, $title:literal;)+) => {
        /// What kind of problem it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($variant),+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant),+];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text),+ }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Code::$variant => StatusCode::$status),+ }
            }

            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),+ }
            }
        }
    };
}

codes! {
    InvalidParameter = "invalid-parameter", BAD_REQUEST, "A parameter cannot be read";
    InvalidCursor = "invalid-cursor", BAD_REQUEST, "The cursor is not one of this listing";
    MalformedBody = "malformed-body", BAD_REQUEST, "The body cannot be read";
    ForeignOrigin = "foreign-origin", FORBIDDEN, "Another web page sent the request";
    RouteNotFound = "route-not-found", NOT_FOUND, "There is nothing at this path";
    TenantNotFound = "tenant-not-found", NOT_FOUND, "There is no such tenant";
    JobNotFound = "job-not-found", NOT_FOUND, "There is no such job";
    VersionNotFound = "version-not-found", NOT_FOUND, "The job has no such version";
    ExecutionNotFound = "execution-not-found", NOT_FOUND, "The job has no such execution";
    CheckpointNotFound = "checkpoint-not-found", NOT_FOUND, "The job has no such checkpoint";
    SavepointNotFound = "savepoint-not-found", NOT_FOUND, "The job has no such savepoint";
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "This path does not take this method";
    RequestTimeout = "request-timeout", REQUEST_TIMEOUT, "The body did not arrive in time";
    NameTaken = "name-taken", CONFLICT, "Another job of the tenant has this name";
    InvalidTransition = "invalid-transition", CONFLICT, "The job's state does not allow this";
    JobActive = "job-active", CONFLICT, "The job is running";
    JobDrained = "job-drained", CONFLICT, "The job was drained";
    DrivenElsewhere = "driven-elsewhere", CONFLICT, "Another replica of the service drives the job";
    VersionMismatch = "version-mismatch", PRECONDITION_FAILED, "The job was changed in the meantime";
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "The body's media type is not supported";
    InvalidSpec = "invalid-spec", UNPROCESSABLE_ENTITY, "The job spec is not valid";
    InvalidSql = "invalid-sql", UNPROCESSABLE_ENTITY, "The SQL script does not compile";
    IdempotencyKeyReused = "idempotency-key-reused", UNPROCESSABLE_ENTITY, "The Idempotency-Key was used for another request";
    IfMatchRequired = "if-match-required", PRECONDITION_REQUIRED, "The request needs an If-Match header";
    TooManyStreams = "too-many-streams", TOO_MANY_REQUESTS, "Too many live streams are open";
    Internal = "internal", INTERNAL_SERVER_ERROR, "The service failed";
    DatabaseUnavailable = "database-unavailable", SERVICE_UNAVAILABLE, "The service cannot reach its database";
    NotReady = "not-ready", SERVICE_UNAVAILABLE, "The service is not ready yet";
    NoDriver = "no-driver", SERVICE_UNAVAILABLE, "No replica drives the job at the moment";
    HandlerTimeout = "handler-timeout", GATEWAY_TIMEOUT, "The request took too long";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_distinct_kebab_case_and_errors() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(
                code.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{code:?}"
            );
            assert!(code.status().is_client_error() || code.status().is_server_error());
        }
    }
}
