//! Root causes: failures that differ only in numbers, ids and addresses count as one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::Failure;

/// The fingerprint of a failure's reason, 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootCause(pub String);

impl RootCause {
    /// The root cause of a failure: its operator and its reason without what varies.
    pub fn of(failure: &Failure) -> Self {
        let operator = failure.place.as_ref().map_or("", |place| &place.operator);
        let text = format!("{operator}\n{}", normalise(&failure.reason));
        // FNV-1a: stable for ever, and a collision only merges two causes.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        RootCause(format!("{hash:016x}"))
    }
}

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Replaces every word that holds a digit by `#`, so that ids, addresses, counts and offsets
/// do not tell two failures apart. Only the first 2,000 characters count.
fn normalise(reason: &str) -> String {
    let mut normal = String::with_capacity(reason.len().min(2_000));
    let mut word = String::new();
    let flush = |word: &mut String, normal: &mut String| {
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            normal.push('#');
        } else {
            normal.push_str(word);
        }
        word.clear();
    };
    for char in reason.chars().take(2_000) {
        if char.is_alphanumeric() || matches!(char, '-' | '_' | '.' | ':') {
            word.push(char);
        } else {
            flush(&mut word, &mut normal);
            normal.push(char);
        }
    }
    flush(&mut word, &mut normal);
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(reason: &str) -> RootCause {
        RootCause::of(&Failure::retryable(reason))
    }

    #[test]
    fn what_varies_does_not_count() {
        for (one, other) in [
            (
                "worker 0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11 was killed by signal 9",
                "worker 0190b3c2-ffff-7c00-8000-3f6f2f0d9a12 was killed by signal 11",
            ),
            (
                "127.0.0.1:4711 refused the connection",
                "127.0.0.1:99 refused the connection",
            ),
            ("a.json, line 17: expected }", "a.json, line 3: expected }"),
        ] {
            assert_eq!(cause(one), cause(other), "{one} / {other}");
        }
        assert_ne!(cause("disk full"), cause("out of memory"));
        assert_ne!(cause("a.json, line 1: bad"), cause("b.json, line 1: bad"));
    }

    #[test]
    fn the_operator_counts() {
        let mut failure = Failure::retryable("x");
        let without = RootCause::of(&failure);
        failure.place = Some(super::super::event::Place {
            operator: "sink".into(),
            subtask: millrace_types::SubtaskIndex(3),
        });
        let at_3 = RootCause::of(&failure);
        assert_ne!(without, at_3);
        failure.place = Some(super::super::event::Place {
            operator: "sink".into(),
            subtask: millrace_types::SubtaskIndex(4),
        });
        assert_eq!(RootCause::of(&failure), at_3);
    }

    #[test]
    fn fingerprints_never_change() {
        // FNV-1a of "\ndisk full", computed by another program.
        assert_eq!(cause("disk full").0, "aad3038eb92e7979");
    }
}
