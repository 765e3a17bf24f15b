//! Splits one CSV record into its fields.

use crate::decode::CsvDialect;
use crate::decode::lines::find;
use crate::decode::value::{ValueError, ValueResult};
use crate::error::quote_bytes;

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Bytes of the record, or of the unescaped text when `unescaped`.
    start: usize,
    end: usize,
    /// Whether it was in quotes: then it is never null.
    pub(crate) quoted: bool,
    unescaped: bool,
    /// Byte of the record it begins at.
    pub(crate) position: usize,
}

/// The fields of a record; reused from record to record.
#[derive(Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    /// Quoted fields whose quotes or escapes had to be resolved.
    unescaped: Vec<u8>,
}

impl Fields {
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The field at `index`, with its text out of `record`, the same that was split.
    pub(crate) fn get<'a>(&'a self, record: &'a [u8], index: usize) -> Option<(Field, &'a [u8])> {
        let field = *self.fields.get(index)?;
        let source = if field.unescaped {
            &self.unescaped
        } else {
            record
        };
        Some((field, source.get(field.start..field.end)?))
    }

    /// Takes `record` apart.
    pub(crate) fn split(&mut self, record: &[u8], dialect: &CsvDialect) -> ValueResult<()> {
        self.fields.clear();
        self.unescaped.clear();
        let mut position = 0;
        loop {
            let next = match dialect.quote {
                Some(quote) if record.get(position) == Some(&quote) => {
                    self.quoted(record, position, quote, dialect)?
                }
                _ => {
                    let rest = &record[position..];
                    let length = find(dialect.delimiter, rest).unwrap_or(rest.len());
                    self.fields.push(Field {
                        start: position,
                        end: position + length,
                        quoted: false,
                        unescaped: false,
                        position,
                    });
                    position + length
                }
            };
            if next >= record.len() {
                return Ok(());
            }
            // Past the delimiter; at the record's end an empty field follows it.
            position = next + 1;
        }
    }

    /// Reads the field whose opening quote is at `position`; the index after its closing one.
    fn quoted(
        &mut self,
        record: &[u8],
        position: usize,
        quote: u8,
        dialect: &CsvDialect,
    ) -> ValueResult<usize> {
        let mut index = position + 1;
        let mut plain_from = index;
        // Set when the first escape is met; then the field is built in `unescaped`.
        let mut copy_from = None;
        let end = loop {
            let Some(&byte) = record.get(index) else {
                return Err(
                    ValueError::new("a closing quote", quote_bytes(&record[position..]))
                        .at(position),
                );
            };
            let doubled = byte == quote && record.get(index + 1) == Some(&quote);
            let escaped = Some(byte) == dialect.escape && index + 1 < record.len();
            if doubled || escaped {
                copy_from.get_or_insert(self.unescaped.len());
                self.unescaped.extend_from_slice(&record[plain_from..index]);
                // The escaped byte itself is plain.
                plain_from = index + 1;
                index += 2;
            } else if byte == quote {
                break index;
            } else {
                index += 1;
            }
        };
        let field = match copy_from {
            None => Field {
                start: plain_from,
                end,
                quoted: true,
                unescaped: false,
                position,
            },
            Some(start) => {
                self.unescaped.extend_from_slice(&record[plain_from..end]);
                Field {
                    start,
                    end: self.unescaped.len(),
                    quoted: true,
                    unescaped: true,
                    position,
                }
            }
        };
        self.fields.push(field);
        let next = end + 1;
        match record.get(next) {
            None => Ok(next),
            Some(byte) if *byte == dialect.delimiter => Ok(next),
            Some(_) => Err(ValueError::new(
                format!(
                    "'{}' or the end of the record after a closing quote",
                    char::from(dialect.delimiter)
                ),
                quote_bytes(&record[next..]),
            )
            .at(next)),
        }
    }
}
