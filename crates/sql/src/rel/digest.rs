//! A short, stable digest of a text, for meanings that grow too long.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Sixteen hexadecimal digits.
pub(super) fn digest_text(text: &str) -> String {
    let mut out = String::with_capacity(16);
    for byte in &Sha256::digest(text.as_bytes())[..8] {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
