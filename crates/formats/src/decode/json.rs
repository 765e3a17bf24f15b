//! Newline-delimited JSON: one object per line.
//!
//! Values go straight from the text into columns; fields the table does not have are checked
//! and skipped. Producers write the members of their records in the same order every time,
//! so the name at each place of a record is first compared with the one that stood there
//! before and only looked up when it differs.

pub(crate) mod scan;
mod value;

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;

use crate::error::{FormatError, quote_bytes};
use crate::text::trim;

use super::batch::{BatchBuilder, Record};
use super::column::Column;
use super::lines::{Line, Lines};
use super::value::{ValueError, ValueResult};
use super::{DecodedRows, Decoder, DecoderConfig, Position};

use scan::Scanner;

/// Most members of a record whose names are remembered, and the longest such name.
const MAX_REMEMBERED: usize = 1024;
const MAX_REMEMBERED_NAME: usize = 128;

/// Reads NDJSON into batches of a schema.
pub(crate) struct JsonDecoder {
    lines: Lines,
    batch: BatchBuilder,
    members: Members,
}

/// Matches the members of records with the columns of the table.
pub(crate) struct Members {
    columns: HashMap<String, usize>,
    /// What stood at each place of the records before: the name as it was spelled, and its
    /// column.
    remembered: Vec<(Box<str>, Option<usize>)>,
    /// Number of the last record that had a value for each column.
    seen: Vec<u64>,
    record: u64,
    unescaped: Vec<u8>,
}

impl JsonDecoder {
    /// `columns` are those of `schema`; `fail_on_missing` refuses objects without a field
    /// of the table, also where null would do.
    pub(crate) fn new(
        schema: SchemaRef,
        mut columns: Vec<Column>,
        fail_on_missing: bool,
        config: &DecoderConfig,
    ) -> JsonDecoder {
        let members = Members::new(&schema, &mut columns, fail_on_missing);
        JsonDecoder {
            lines: Lines::new(config.start, config.max_record_bytes),
            batch: BatchBuilder::new(schema, columns, config),
            members,
        }
    }
}

impl Decoder for JsonDecoder {
    fn decode(
        &mut self,
        chunk: &[u8],
        at_end: bool,
        out: &mut DecodedRows,
    ) -> Result<(), FormatError> {
        self.batch.check_usable()?;
        let JsonDecoder {
            lines,
            batch,
            members,
        } = self;
        lines.feed(chunk, at_end, |line| match line {
            Line::Whole(record) => decode_record(record, batch, members, out),
            Line::TooLong(record) => {
                let error = super::too_long(record);
                batch.reject(record, error, out)
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
}

fn decode_record(
    record: Record<'_>,
    batch: &mut BatchBuilder,
    members: &mut Members,
    out: &mut DecodedRows,
) -> Result<(), FormatError> {
    let text = match std::str::from_utf8(record.bytes) {
        Ok(text) => text,
        Err(error) => {
            let index = error.valid_up_to();
            let found = quote_bytes(&record.bytes[index..]);
            let error = ValueError::new("UTF-8", found).at(index);
            return batch.reject(record, *error, out);
        }
    };
    if trim(text).is_empty() {
        return Ok(());
    }
    let rows = batch.rows();
    match members.read(text, &mut batch.columns, rows) {
        Ok(()) => batch.accept(record, out),
        Err(error) => batch.reject(record, *error, out),
    }
}

impl Members {
    pub(crate) fn new(
        schema: &SchemaRef,
        columns: &mut [Column],
        fail_on_missing: bool,
    ) -> Members {
        if fail_on_missing {
            columns.iter_mut().for_each(Column::require);
        }
        let names = schema.fields().iter().enumerate();
        Members {
            columns: names
                .map(|(index, field)| (field.name().clone(), index))
                .collect(),
            remembered: Vec::new(),
            seen: vec![0; columns.len()],
            record: 0,
            unescaped: Vec::new(),
        }
    }

    /// Appends one value to each of `columns`, which hold `rows` so far.
    pub(crate) fn read(
        &mut self,
        text: &str,
        columns: &mut [Column],
        rows: usize,
    ) -> ValueResult<()> {
        self.record += 1;
        let mut filled = 0;
        let mut scanner = Scanner::new(text);
        scanner.expect(b'{', "a JSON object")?;
        if !scanner.eat(b'}') {
            let mut place = 0;
            loop {
                let name = scanner.member_name()?;
                let column = match self.remembered.get(place) {
                    Some((known, column)) if **known == *name.raw => *column,
                    _ => self.look_up(place, name)?,
                };
                place += 1;
                match column {
                    None => scanner.skip()?,
                    Some(index) => {
                        let column = &mut columns[index];
                        if self.seen[index] == self.record {
                            // As in other JSON readers the last of two members counts.
                            column.truncate(rows);
                        } else {
                            self.seen[index] = self.record;
                            filled += 1;
                        }
                        value::append(column, &mut scanner)
                            .map_err(|error| error.in_field(&column.name))?;
                    }
                }
                if !scanner.another(b'}')? {
                    break;
                }
            }
        }
        scanner.end()?;
        if filled < columns.len() {
            self.fill_missing(columns)?;
        }
        Ok(())
    }

    fn look_up(&mut self, place: usize, name: scan::StringToken<'_>) -> ValueResult<Option<usize>> {
        let column = if name.escaped {
            self.unescaped.clear();
            name.append_to(&mut self.unescaped)?;
            std::str::from_utf8(&self.unescaped)
                .ok()
                .and_then(|name| self.columns.get(name))
        } else {
            self.columns.get(name.raw)
        };
        let column = column.copied();
        if name.raw.len() <= MAX_REMEMBERED_NAME {
            let entry = (Box::from(name.raw), column);
            if let Some(known) = self.remembered.get_mut(place) {
                *known = entry;
            } else if place == self.remembered.len() && place < MAX_REMEMBERED {
                self.remembered.push(entry);
            }
        }
        Ok(column)
    }

    fn fill_missing(&self, columns: &mut [Column]) -> ValueResult<()> {
        for (column, seen) in columns.iter_mut().zip(&self.seen) {
            if *seen != self.record {
                value::append_missing(column)?;
            }
        }
        Ok(())
    }
}
