//! CSV (RFC 4180): records of fields, by the names in a header line or by position.
//!
//! What is null: an unquoted field equal to the null literal (by default: empty). An empty
//! field of a column that is neither STRING nor BYTES is null also in quotes or beside
//! another null literal, as it can be nothing else. A quoted field of a STRING or BYTES
//! column is never null; `""` is the empty string.

mod fields;
mod records;

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;

use crate::error::{FormatError, quote, quote_bytes};
use crate::text::trim;

use super::batch::BatchBuilder;
use super::column::{Column, Values};
use super::value::{ValueError, ValueResult, append_checked_null, append_text};
use super::{DecodedRows, Decoder, DecoderConfig, Position};

use fields::Fields;
use records::{CsvRecord, Records};

/// Names shown of a header that does not fit.
const MAX_SHOWN_NAMES: usize = 30;

/// How fields and records are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CsvDialect {
    pub(crate) delimiter: u8,
    /// `None`: quotes are text like any other.
    pub(crate) quote: Option<u8>,
    /// Makes the next byte of a quoted field plain, beside doubling a quote.
    pub(crate) escape: Option<u8>,
    /// Lines that start with `#` are left out.
    pub(crate) comments: bool,
}

impl CsvDialect {
    pub(crate) fn is_comment(&self, line: &[u8]) -> bool {
        self.comments && line.first() == Some(&b'#')
    }
}

/// Reads CSV into batches of a schema.
pub(crate) struct CsvDecoder {
    records: Records,
    batch: BatchBuilder,
    layout: Layout,
}

/// Which field goes to which column.
pub(crate) struct Layout {
    dialect: CsvDialect,
    null_literal: String,
    /// `None` until the header line has been read.
    by_column: Option<Vec<usize>>,
    /// Fields every record has.
    width: usize,
    header: Option<Vec<u8>>,
    fields: Fields,
}

impl CsvDecoder {
    /// `columns` are those of `schema`; `with_header` says that the stream's first record
    /// names the fields.
    ///
    /// # Errors
    /// When the stream does not start at its beginning and `config` brings no header, or
    /// one that does not fit.
    pub(crate) fn new(
        schema: SchemaRef,
        columns: Vec<Column>,
        dialect: CsvDialect,
        null_literal: String,
        with_header: bool,
        config: &DecoderConfig,
    ) -> Result<CsvDecoder, FormatError> {
        let mut layout = Layout::by_position(dialect, null_literal, columns.len());
        if with_header {
            layout.by_column = None;
        }
        if with_header && config.start.offset > 0 {
            let Some(header) = &config.header else {
                return Err(FormatError::Header {
                    line: 1,
                    problem: "reading resumes within the file but its header was not given; \
                              give the file's first record along with the position"
                        .to_owned(),
                });
            };
            layout.read_header(header, 1, &columns)?;
        }
        Ok(CsvDecoder {
            records: Records::new(dialect, config.start, config.max_record_bytes),
            batch: BatchBuilder::new(schema, columns, config),
            layout,
        })
    }
}

impl Decoder for CsvDecoder {
    fn decode(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError> {
        self.batch.check_usable()?;
        let CsvDecoder {
            records,
            batch,
            layout,
        } = self;
        records.feed(chunk, at_end, |record| {
            let record = match record {
                CsvRecord::Whole(record) => record,
                CsvRecord::TooLong(record) => {
                    return batch.reject(record, super::too_long(record), out);
                }
                CsvRecord::Unclosed(record) => {
                    let found = format!(
                        "the end of the input in the record {}",
                        quote_bytes(record.bytes)
                    );
                    let error = ValueError::new("a closing quote", found);
                    return batch.reject(record, *error, out);
                }
            };
            if layout.by_column.is_none() {
                return layout
                    .read_header(record.bytes, record.start.line + 1, &batch.columns)
                    .map_err(|error| batch.fail(error));
            }
            match layout.read(record.bytes, &mut batch.columns) {
                Ok(()) => batch.accept(record, out),
                Err(error) => batch.reject(record, *error, out),
            }
        })?;
        if at_end {
            self.batch.emit(out)?;
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut DecodedRows) -> Result<(), FormatError> {
        self.batch.check_usable()?;
        self.batch.emit(out)
    }

    fn pending_rows(&self) -> usize {
        self.batch.rows()
    }

    fn consumed(&self) -> Position {
        self.batch.consumed()
    }

    fn header(&self) -> Option<&[u8]> {
        self.layout.header.as_deref()
    }
}

impl Layout {
    /// Records have the columns in their order.
    pub(crate) fn by_position(dialect: CsvDialect, null_literal: String, width: usize) -> Layout {
        Layout {
            dialect,
            null_literal,
            by_column: Some((0..width).collect()),
            width,
            header: None,
            fields: Fields::default(),
        }
    }

    fn read_header(
        &mut self,
        record: &[u8],
        line: u64,
        columns: &[Column],
    ) -> Result<(), FormatError> {
        let refuse = |problem: String| FormatError::Header { line, problem };
        self.fields.split(record, &self.dialect).map_err(|error| {
            refuse(format!(
                "expected {}, found {}",
                error.expected, error.found
            ))
        })?;
        let mut names = Vec::with_capacity(self.fields.len());
        for index in 0..self.fields.len() {
            let Some((_, name)) = self.fields.get(record, index) else {
                break;
            };
            match std::str::from_utf8(name) {
                Ok(name) => names.push(trim(name)),
                Err(_) => {
                    return Err(refuse(format!("name {} is not UTF-8", quote_bytes(name))));
                }
            }
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut repeated: Vec<&str> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if places.insert(name, index).is_some() {
                repeated.push(name);
            }
        }
        let by_column = columns
            .iter()
            .map(|column| {
                let name = column.name.as_str();
                if repeated.contains(&name) {
                    return Err(refuse(format!("column `{name}` is there more than once")));
                }
                places.get(name).copied().ok_or_else(|| {
                    let mut shown: Vec<String> = names
                        .iter()
                        .take(MAX_SHOWN_NAMES)
                        .map(|name| quote(name))
                        .collect();
                    if names.len() > MAX_SHOWN_NAMES {
                        shown.push("…".to_owned());
                    }
                    refuse(format!(
                        "no column `{name}`; the header has {}. If the first line is data \
                         already, set 'csv.header' = 'false'",
                        shown.join(", ")
                    ))
                })
            })
            .collect::<Result<Vec<usize>, _>>()?;
        self.width = names.len();
        self.by_column = Some(by_column);
        self.header = Some(record.to_vec());
        Ok(())
    }

    /// Appends one value to each of `columns`.
    pub(crate) fn read(&mut self, record: &[u8], columns: &mut [Column]) -> ValueResult<()> {
        self.fields.split(record, &self.dialect)?;
        if self.fields.len() != self.width {
            return Err(ValueError::new(
                format!("a record of {} fields", self.width),
                format!("{} in {}", self.fields.len(), quote_bytes(record)),
            ));
        }
        let by_column = self.by_column.as_deref().unwrap_or(&[]);
        for (column, place) in columns.iter_mut().zip(by_column) {
            let Some((field, text)) = self.fields.get(record, *place) else {
                continue;
            };
            append_field(column, text, field.quoted, &self.null_literal)
                .map_err(|error| error.at(field.position).in_field(&column.name))?;
        }
        Ok(())
    }
}

fn append_field(
    column: &mut Column,
    bytes: &[u8],
    quoted: bool,
    null_literal: &str,
) -> ValueResult<()> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(ValueError::new("UTF-8", quote_bytes(bytes)));
    };
    let may_be_empty = matches!(column.values, Values::Utf8(_) | Values::Binary(_));
    if (!quoted && text == null_literal) || (!may_be_empty && trim(text).is_empty()) {
        let found = if text.is_empty() {
            "an empty field".to_owned()
        } else {
            quote(text)
        };
        return append_checked_null(column, &found);
    }
    if let Values::Timestamp { .. } = column.values
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-')
        && !text.get(1..).unwrap_or("").contains('-')
    {
        // Digits alone are milliseconds since 1970, as in JSON.
        return super::value::append_number(column, text);
    }
    append_text(column, text)
}
