//! Cuts a stream that arrives in arbitrary chunks into lines.
//!
//! A line ends with `\n` or `\r\n`; the last one may lack its end. A line is handed out
//! straight from the chunk when it lies in one, else from a buffer that never holds more than
//! `max` bytes and a chunk's line end.

use std::io::BufRead;

use super::Position;
use super::batch::Record;
use crate::error::FormatError;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line, or why there is none.
pub(crate) enum Line<'a> {
    /// A whole line.
    Whole(Record<'a>),
    /// A line longer than the limit; the record holds its first bytes. Reported as soon as it
    /// is known, its rest is dropped.
    TooLong(Record<'a>),
}

/// The stream between two chunks.
pub(crate) struct Lines {
    pending: Vec<u8>,
    /// Of the first byte of the line being read.
    start: Position,
    /// The rest of the line is dropped: it was too long. Its bytes so far count in here.
    dropping: Option<u64>,
    max: usize,
}

/// Index of the first `byte`.
pub(crate) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    // The standard library's search goes word by word and is open to bytes in no other way
    // than through `BufRead` for slices. Reading from a slice cannot fail.
    let mut rest = bytes;
    match rest.skip_until(byte) {
        Ok(skipped) if skipped > 0 && bytes[skipped - 1] == byte => Some(skipped - 1),
        _ => None,
    }
}

/// Without a `\r` before the line end.
pub(crate) fn without_carriage_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Without the byte order mark that some programs put before the first line.
pub(crate) fn without_byte_order_mark(line: &[u8], start: Position) -> &[u8] {
    if start.offset == 0 {
        line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
    } else {
        line
    }
}

impl Lines {
    pub(crate) fn new(start: Position, max: usize) -> Lines {
        Lines {
            pending: Vec::new(),
            start,
            dropping: None,
            max,
        }
    }

    /// Hands every line that `chunk` completes to `each`, and with `at_end` what remains.
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        mut each: impl FnMut(Line<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let mut rest = chunk;
        while let Some(newline) = find(b'\n', rest) {
            let line = &rest[..newline];
            rest = &rest[newline + 1..];
            if let Some(dropped) = self.dropping.take() {
                self.start = self.start.after(dropped + newline as u64 + 1, 1);
                continue;
            }
            if self.pending.is_empty() {
                let end = self.start.after(newline as u64 + 1, 1);
                self.hand_out(line, end, &mut each)?;
            } else {
                self.pending.extend_from_slice(line);
                let pending = std::mem::take(&mut self.pending);
                let end = self.start.after(pending.len() as u64 + 1, 1);
                self.hand_out(&pending, end, &mut each)?;
                // Keep the allocation for the next line that is cut.
                self.pending = pending;
                self.pending.clear();
            }
        }
        if let Some(dropped) = &mut self.dropping {
            *dropped += rest.len() as u64;
            return Ok(());
        }
        self.pending.extend_from_slice(rest);
        if at_end {
            if !self.pending.is_empty() {
                let pending = std::mem::take(&mut self.pending);
                let end = self.start.after(pending.len() as u64, 1);
                self.hand_out(&pending, end, &mut each)?;
            }
        } else if self.pending.len() > self.max + 1 {
            // One byte of grace: it may be the `\r` of the line end.
            let pending = std::mem::take(&mut self.pending);
            self.dropping = Some(pending.len() as u64);
            each(Line::TooLong(Record {
                bytes: &pending[..self.max],
                start: self.start,
                end: self.start,
            }))?;
        }
        Ok(())
    }

    fn hand_out(
        &mut self,
        line: &[u8],
        end: Position,
        each: &mut impl FnMut(Line<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let start = std::mem::replace(&mut self.start, end);
        let bytes = without_carriage_return(line);
        if bytes.len() > self.max {
            let bytes = &bytes[..self.max];
            return each(Line::TooLong(Record { bytes, start, end }));
        }
        let bytes = without_byte_order_mark(bytes, start);
        each(Line::Whole(Record { bytes, start, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as `start: text`, `!` before those too long.
    fn lines(input: &[u8], chunk: usize, max: usize) -> Vec<String> {
        let mut lines = Lines::new(Position::default(), max);
        let mut seen = Vec::new();
        let mut chunks = input.chunks(chunk).peekable();
        while let Some(chunk) = chunks.next() {
            lines
                .feed(chunk, chunks.peek().is_none(), |line| {
                    let (mark, record) = match line {
                        Line::Whole(record) => ("", record),
                        Line::TooLong(record) => ("!", record),
                    };
                    seen.push(format!(
                        "{}/{}: {mark}{}",
                        record.start.offset,
                        record.start.line,
                        String::from_utf8_lossy(record.bytes)
                    ));
                    Ok(())
                })
                .unwrap();
        }
        seen
    }

    #[test]
    fn the_same_lines_for_every_chunk_size() {
        let input = b"\xef\xbb\xbfab\r\n\ncdefghij\nk\rl\r\nabcd\r\nlast";
        for chunk in 1..=input.len() {
            assert_eq!(
                lines(input, chunk, 4),
                [
                    // The mark counts as bytes of the line.
                    "0/0: !\u{feff}a",
                    "7/1: ",
                    "8/2: !cdef",
                    "17/3: k\rl",
                    "22/4: abcd",
                    "28/5: last",
                ],
                "chunks of {chunk}"
            );
        }
        for chunk in 1..=input.len() {
            assert_eq!(lines(input, chunk, 40)[0], "0/0: ab", "chunks of {chunk}");
        }
    }
}
