//! One newtype per id. Ids made by the service are UUIDv7 or counters; names chosen by
//! people are checked against one alphabet so that they are safe in paths and labels.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not a valid id or name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{text}` is not valid: {reason}")]
pub struct IdError {
    pub kind: &'static str,
    pub text: String,
    pub reason: &'static str,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(transparent)]
        #[schema(value_type = String, format = "uuid")]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                Uuid::parse_str(s).map($name).map_err(|_| IdError {
                    kind: $kind,
                    text: s.chars().take(80).collect(),
                    reason: "expected a UUID such as 0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11",
                })
            }
        }
    };
}

macro_rules! counter_id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// The id after this one.
            pub fn next(self) -> Self {
                $name(self.0 + 1)
            }
        }
    };
}

uuid_id!(
    /// A job, for its whole life across versions and executions.
    JobId,
    "job id"
);
uuid_id!(
    /// One attempt to run a version of a job. Fresh for every restart, so that what a dead
    /// attempt still does can be told apart.
    ExecutionId,
    "execution id"
);
uuid_id!(
    /// One worker process or pod.
    WorkerId,
    "worker id"
);

counter_id!(
    /// A checkpoint or savepoint barrier of one job; strictly increasing over the job's life.
    CheckpointId(u64)
);
counter_id!(
    /// A savepoint of one job, numbered from 1.
    SavepointId(u64)
);
counter_id!(
    /// A version of a job's spec, numbered from 1.
    VersionNumber(u32)
);
counter_id!(
    /// The fencing number of a driver's lease; grows with every take-over.
    Epoch(u64)
);
counter_id!(
    /// The position of a subtask (and of the slot that runs it), from 0 up to the parallelism.
    SubtaskIndex(u32)
);

/// A digest of a compiled dataflow. Control plane and workers compare theirs before a job starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schema(value_type = String, pattern = "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")]
        pub struct $name(String);

        impl $name {
            /// Checks the alphabet: letters, digits, `.`, `_` and `-`, starting with a letter or
            /// digit, at most 63 characters.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let ok_start = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
                let ok_rest = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
                let fault = |reason| {
                    Err(IdError { kind: $kind, text: text.chars().take(80).collect(), reason })
                };
                if !ok_start || !ok_rest || text.len() > 63 {
                    return fault("use 1 to 63 letters, digits, `.`, `_` or `-`, starting with a letter or digit");
                }
                // Jobs are addressed by name or id: a name must never be taken for another's id.
                if Uuid::parse_str(&text).is_ok() {
                    return fault("it looks like an id; choose a name that is not a UUID");
                }
                Ok($name(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                Self::new(s)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_id!(
    /// A tenant. The local mode has one, `default`.
    TenantName,
    "tenant name"
);
name_id!(
    /// A job's name, unique within its tenant.
    JobName,
    "job name"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_one_alphabet() {
        for good in ["a", "flights-2013", "A.b_c-9"] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(64);
        for bad in [
            "",
            "-a",
            ".a",
            "a b",
            "a/b",
            "ä",
            "../x",
            long.as_str(),
            "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11",
        ] {
            assert!(JobName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_checked_when_it_is_read() {
        assert!(serde_json::from_str::<TenantName>("\"a/b\"").is_err());
    }
}
