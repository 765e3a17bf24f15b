//! Writing to stdout, so that a closed pipe is an error and not a panic.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a line and flushes it.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Writes a value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    line(&text)
}

/// Writes a value as JSON in one line.
pub(crate) fn json_line<T: Serialize>(value: &T) -> io::Result<()> {
    let text = serde_json::to_string(value).map_err(io::Error::other)?;
    line(&text)
}
