//! What can go wrong between bytes and rows, told so that the reader can act on it: where
//! (line, byte, field, row), what was found and what was expected.
//!
//! Text taken from input is cut to [`MAX_QUOTED`] characters, so an error never carries a
//! whole record into a log.

use std::fmt;

use arrow::error::ArrowError;

/// How many characters of the input an error message repeats.
pub const MAX_QUOTED: usize = 80;

/// One record of the input that is not a row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Line the record starts on, counted from 1.
    pub line: u64,
    /// Byte offset of the record's first byte in the (decompressed) stream.
    pub offset: u64,
    /// Dotted path of the field, as in `address.lines[2]`; `None` when the record as a
    /// whole is wrong.
    pub field: Option<String>,
    /// Byte within the record, counted from 1, where reading stopped; `None` when unknown.
    pub column: Option<u64>,
    /// What the input holds, at most [`MAX_QUOTED`] characters of it.
    pub found: String,
    /// What the table's schema or the format's grammar asks for.
    pub expected: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} (byte {}", self.line, self.offset)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        f.write_str(")")?;
        if let Some(field) = &self.field {
            write!(f, ", field `{field}`")?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A record that is not a row, under `'on-error' = 'fail'`.
    #[error("{0}; set 'on-error' to 'skip' or 'dead-letter' to read on past such records")]
    BadRecord(Box<BadRecord>),

    /// The header line of a CSV file does not fit the table.
    #[error("CSV header on line {line}: {problem}")]
    Header {
        /// Line of the header, counted from 1.
        line: u64,
        /// What does not fit, and what to do.
        problem: String,
    },

    /// A decoder was used again after it had failed.
    #[error("this decoder stopped at an earlier error and cannot read on; open a new one")]
    Stopped,

    /// `'format'` is missing.
    #[error("option 'format' is missing; give one of {valid}")]
    NoFormat {
        /// The formats there are.
        valid: String,
    },

    /// `'format'` names nothing known.
    #[error("unknown format '{format}'; {hint}")]
    UnknownFormat {
        /// The name given.
        format: String,
        /// The nearest name and all valid ones.
        hint: String,
    },

    /// An option of the format's prefix that does not exist.
    #[error("unknown option '{option}' of format '{format}'; {hint}")]
    UnknownOption {
        /// The key given.
        option: String,
        /// The format it was given for.
        format: &'static str,
        /// The nearest key, or where the key belongs.
        hint: String,
    },

    /// An option whose value cannot be used.
    #[error("option '{option}' = '{value}': expected {expected}")]
    BadOption {
        /// The key.
        option: String,
        /// The value given, shortened.
        value: String,
        /// What it may be.
        expected: String,
    },

    /// The format cannot hold a column of the table.
    #[error("format '{format}' cannot hold column `{column}` of type {sql_type}; {hint}")]
    UnsupportedColumn {
        /// The format.
        format: &'static str,
        /// The column's path.
        column: String,
        /// The SQL name of its type.
        sql_type: String,
        /// What to do instead.
        hint: &'static str,
    },

    /// The format cannot do what was asked of it at all.
    #[error("format '{format}' {problem}")]
    Unsupported {
        /// The format.
        format: &'static str,
        /// What it cannot do, and what can.
        problem: &'static str,
    },

    /// A row that takes something back was given to a format for insertions only.
    #[error(
        "format '{format}' holds insertions only, but row {row} of the batch is {kind}; \
         write an updating result with 'format' = 'debezium-json' or to an upsert sink"
    )]
    Changelog {
        /// The format.
        format: &'static str,
        /// Row of the batch, counted from 0.
        row: usize,
        /// The kind's short form, as in `-U`.
        kind: &'static str,
    },

    /// Row kinds do not go with the batch.
    #[error("a batch of {rows} rows came with {kinds} row kinds")]
    KindCount {
        /// Rows of the batch.
        rows: usize,
        /// Kinds given.
        kinds: usize,
    },

    /// A batch to encode does not have the columns the encoder was made for.
    #[error("column {index} of the batch to write is {found}, the table says {expected}")]
    BatchSchema {
        /// Column, counted from 0.
        index: usize,
        /// Name and type in the batch.
        found: String,
        /// Name and type in the table.
        expected: String,
    },

    /// A value that the format cannot represent.
    #[error("row {row}, column `{column}`: {problem}")]
    BadValue {
        /// Row of the batch, counted from 0.
        row: usize,
        /// The column.
        column: String,
        /// Why it cannot be written.
        problem: String,
    },

    /// A Parquet file cannot be read or written.
    #[error("Parquet: {context}")]
    Parquet {
        /// What was being done.
        context: String,
        /// The library's reason.
        #[source]
        source: parquet::errors::ParquetError,
    },

    /// A column of a Parquet file does not fit the table.
    #[error(
        "Parquet column `{column}` is {file_type} in the file, the table wants {wanted}: {problem}"
    )]
    ParquetColumn {
        /// Path of the column.
        column: String,
        /// Type in the file.
        file_type: String,
        /// Type in the table.
        wanted: String,
        /// Why the one cannot become the other.
        problem: String,
    },

    /// Arrow refused arrays that this crate built.
    #[error("{context}")]
    Arrow {
        /// What was being built.
        context: &'static str,
        /// Arrow's reason.
        #[source]
        source: ArrowError,
    },
}

/// Text of the input for an error message: in double quotes, shortened, control characters
/// escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().min(MAX_QUOTED) + 8);
    quoted.push('"');
    push_shortened(text, &mut quoted);
    quoted.push('"');
    quoted
}

/// Like [`quote`] without the quotes: for pieces of JSON, which bring their own.
pub(crate) fn shorten(text: &str) -> String {
    let mut short = String::with_capacity(text.len().min(MAX_QUOTED) + 8);
    push_shortened(text, &mut short);
    short
}

fn push_shortened(text: &str, out: &mut String) {
    for (index, character) in text.chars().enumerate() {
        if index == MAX_QUOTED {
            out.push('…');
            return;
        }
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
}

/// Like [`quote`] for bytes that need not be UTF-8.
pub(crate) fn quote_bytes(bytes: &[u8]) -> String {
    // Four bytes per character at most: nothing beyond can show in the message.
    let head = &bytes[..bytes.len().min(4 * (MAX_QUOTED + 1))];
    quote(&String::from_utf8_lossy(head))
}
