//! Cuts a CSV stream that arrives in arbitrary chunks into records (RFC 4180).
//!
//! A record ends at a line end outside quotes. A quote opens a quoted field only where the
//! field starts; elsewhere in an unquoted field it is text. Records are independent of each
//! other: reading can start at any record's beginning.

use crate::decode::batch::Record;
use crate::decode::lines::{find, without_byte_order_mark, without_carriage_return};
use crate::decode::{CsvDialect, Position};
use crate::error::FormatError;

/// A record, or why there is none.
pub(crate) enum CsvRecord<'a> {
    /// A whole record, comments and blank lines left out.
    Whole(Record<'a>),
    /// A record longer than the limit; holds its first bytes. Reading goes on at the next
    /// line end, in quotes or not.
    TooLong(Record<'a>),
    /// The stream ended within a quoted field.
    Unclosed(Record<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: its end, or the first of two that mean one.
    QuoteInQuoted,
    /// After an escape character in a quoted field.
    Escaped,
}

/// The stream between two chunks.
pub(crate) struct Records {
    dialect: CsvDialect,
    /// The record so far, with the line ends within it.
    pending: Vec<u8>,
    /// Bytes of `pending` that `state` has seen. Only whole lines are looked at, so that
    /// nothing depends on where a chunk was cut.
    scanned: usize,
    state: State,
    comment: bool,
    /// Line ends in `pending`.
    inner_lines: u64,
    /// Of the record's first byte.
    start: Position,
    /// A too long record is dropped up to the next line end: bytes and lines so far.
    dropping: Option<(u64, u64)>,
    max: usize,
}

impl Records {
    pub(crate) fn new(dialect: CsvDialect, start: Position, max: usize) -> Records {
        Records {
            dialect,
            pending: Vec::new(),
            scanned: 0,
            state: State::FieldStart,
            comment: false,
            inner_lines: 0,
            start,
            dropping: None,
            max,
        }
    }

    /// Hands every record that `chunk` completes to `each`, and with `at_end` what remains.
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        mut each: impl FnMut(CsvRecord<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let mut rest = chunk;
        while let Some(newline) = find(b'\n', rest) {
            let line = &rest[..newline];
            rest = &rest[newline + 1..];
            if let Some((bytes, lines)) = self.dropping.take() {
                self.start = self.start.after(bytes + newline as u64 + 1, lines + 1);
                continue;
            }
            if self.pending.is_empty() {
                self.scan(line, true);
                if !self.in_quotes() {
                    let end = self.start.after(newline as u64 + 1, 1);
                    self.hand_out(line, end, &mut each)?;
                    continue;
                }
                self.pending.extend_from_slice(line);
            } else {
                self.pending.extend_from_slice(line);
                self.scan_pending();
            }
            if self.in_quotes() {
                self.pending.push(b'\n');
                self.scanned = self.pending.len();
                self.inner_lines += 1;
                self.state = State::Quoted;
                self.check_length(&mut each)?;
                continue;
            }
            let pending = std::mem::take(&mut self.pending);
            let end = self
                .start
                .after(pending.len() as u64 + 1, self.inner_lines + 1);
            self.hand_out(&pending, end, &mut each)?;
            // Keep the allocation for the next record that is cut.
            self.pending = pending;
            self.pending.clear();
        }
        if let Some((bytes, _)) = &mut self.dropping {
            *bytes += rest.len() as u64;
            return Ok(());
        }
        self.pending.extend_from_slice(rest);
        if !at_end {
            return self.check_length(&mut each);
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        self.scan_pending();
        let pending = std::mem::take(&mut self.pending);
        // After a line end in quotes nothing may follow; then no line ends here.
        let last_line = u64::from(pending.last() != Some(&b'\n'));
        let end = self
            .start
            .after(pending.len() as u64, self.inner_lines + last_line);
        if self.in_quotes() {
            let bytes = &pending[..pending.len().min(self.max)];
            let start = std::mem::replace(&mut self.start, end);
            let record = Record { bytes, start, end };
            return each(if pending.len() > self.max {
                CsvRecord::TooLong(record)
            } else {
                CsvRecord::Unclosed(record)
            });
        }
        self.hand_out(&pending, end, &mut each)
    }

    fn in_quotes(&self) -> bool {
        matches!(self.state, State::Quoted | State::Escaped)
    }

    /// Looks at the line that `pending` now ends with.
    fn scan_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let scanned = std::mem::take(&mut self.scanned);
        self.scan(&pending[scanned..], scanned == 0);
        self.pending = pending;
    }

    /// Follows the line `bytes` through the states. `first` says that it begins a record.
    fn scan(&mut self, bytes: &[u8], first: bool) {
        let mut bytes = bytes;
        if first {
            bytes = without_byte_order_mark(bytes, self.start);
            self.state = State::FieldStart;
            self.comment = self.dialect.is_comment(bytes);
        }
        let Some(quote) = self.dialect.quote else {
            return;
        };
        // Most records have no quotes at all.
        if self.comment || (first && find(quote, bytes).is_none()) {
            return;
        }
        let CsvDialect {
            delimiter, escape, ..
        } = self.dialect;
        let mut state = self.state;
        for &byte in bytes {
            state = match state {
                State::FieldStart if byte == quote => State::Quoted,
                State::FieldStart | State::Unquoted if byte == delimiter => State::FieldStart,
                State::FieldStart | State::Unquoted => State::Unquoted,
                State::Quoted if Some(byte) == escape => State::Escaped,
                State::Quoted if byte == quote => State::QuoteInQuoted,
                State::Quoted | State::Escaped => State::Quoted,
                State::QuoteInQuoted if byte == quote => State::Quoted,
                State::QuoteInQuoted if byte == delimiter => State::FieldStart,
                State::QuoteInQuoted => State::Unquoted,
            };
        }
        self.state = state;
    }

    fn check_length(
        &mut self,
        each: &mut impl FnMut(CsvRecord<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        // One byte of grace: it may be the `\r` of the line end.
        if self.pending.len() <= self.max + 1 {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.scanned = 0;
        // Reading goes on after the line that crossed the limit, wherever chunks were cut.
        if pending.last() == Some(&b'\n') {
            let end = self.start.after(pending.len() as u64, self.inner_lines);
            let bytes = &pending[..self.max];
            let start = std::mem::replace(&mut self.start, end);
            self.inner_lines = 0;
            return each(CsvRecord::TooLong(Record { bytes, start, end }));
        }
        self.dropping = Some((pending.len() as u64, self.inner_lines));
        self.inner_lines = 0;
        each(CsvRecord::TooLong(Record {
            bytes: &pending[..self.max],
            start: self.start,
            end: self.start,
        }))
    }

    fn hand_out(
        &mut self,
        record: &[u8],
        end: Position,
        each: &mut impl FnMut(CsvRecord<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let start = std::mem::replace(&mut self.start, end);
        self.inner_lines = 0;
        let bytes = without_carriage_return(record);
        if self.comment {
            return Ok(());
        }
        if bytes.len() > self.max {
            let bytes = &bytes[..self.max];
            return each(CsvRecord::TooLong(Record { bytes, start, end }));
        }
        let bytes = without_byte_order_mark(bytes, start);
        if bytes.is_empty() {
            return Ok(());
        }
        each(CsvRecord::Whole(Record { bytes, start, end }))
    }
}
