//! Rows as newline-delimited JSON.
//!
//! Members come in the order of the schema, nulls are written as `null` (unless the table
//! asks to leave them out). Numbers and DECIMALs are JSON numbers, DECIMALs with all digits
//! of their scale; floats that JSON has no number for are the strings `NaN`, `Infinity` and
//! `-Infinity`. Times are strings, BYTES are base64.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use millrace_dataflow::RowKind;

use crate::decode::plain_until;
use crate::error::FormatError;
use crate::sql_type::sql_type_name;

use super::{Encoder, Typed, Values, check_insertions, check_schema};

/// What a table may choose about its JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonStyle {
    /// Between date and time: a space in SQL style, `T` in ISO style.
    pub(crate) separator: u8,
    /// Leave members out whose value is null.
    pub(crate) ignore_null_fields: bool,
}

/// Writes insertions as one JSON object per line.
pub(crate) struct JsonEncoder {
    schema: SchemaRef,
    rows: JsonRows,
}

impl JsonEncoder {
    pub(crate) fn new(schema: SchemaRef, style: JsonStyle) -> JsonEncoder {
        let rows = JsonRows::new(&schema, style);
        JsonEncoder { schema, rows }
    }
}

impl Encoder for JsonEncoder {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn encode(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[RowKind]>,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        check_schema(&self.schema, batch)?;
        check_insertions("json", batch, kinds)?;
        let columns = self.rows.columns(batch)?;
        for row in 0..batch.num_rows() {
            self.rows.write(&columns, row, out);
            out.push(b'\n');
        }
        Ok(())
    }
}

/// Writes rows of one schema as JSON objects.
pub(crate) struct JsonRows {
    /// `"name":` of every column.
    members: Vec<Vec<u8>>,
    style: JsonStyle,
}

impl JsonRows {
    pub(crate) fn new(schema: &SchemaRef, style: JsonStyle) -> JsonRows {
        let member = |name: &String| {
            let mut member = Vec::new();
            write_string(name, &mut member);
            member.push(b':');
            member
        };
        JsonRows {
            members: schema.fields().iter().map(|f| member(f.name())).collect(),
            style,
        }
    }

    /// The columns of a batch, ready to write.
    pub(crate) fn columns<'a>(
        &self,
        batch: &'a RecordBatch,
    ) -> Result<Vec<Typed<'a>>, FormatError> {
        let fields = batch.schema_ref().fields();
        let columns = batch.columns().iter().zip(fields);
        columns
            .map(|(column, field)| {
                Typed::new(column).map_err(|data_type| FormatError::UnsupportedColumn {
                    format: "json",
                    column: field.name().clone(),
                    sql_type: sql_type_name(&data_type),
                    hint: "CAST it to a type that is",
                })
            })
            .collect()
    }

    /// Appends the object of `row`.
    #[inline]
    pub(crate) fn write(&self, columns: &[Typed<'_>], row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut first = true;
        for (member, column) in self.members.iter().zip(columns) {
            if self.style.ignore_null_fields && column.is_null(row) {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(member);
            write_value(column, row, self.style, out);
        }
        out.push(b'}');
    }
}

/// Appends one value as JSON.
pub(crate) fn write_value(column: &Typed<'_>, row: usize, style: JsonStyle, out: &mut Vec<u8>) {
    if column.is_null(row) {
        out.extend_from_slice(b"null");
        return;
    }
    match &column.values {
        Values::Utf8(_) | Values::LargeUtf8(_) | Values::Utf8View(_) => {
            write_string(column.string(row).unwrap_or(""), out);
        }
        Values::Boolean(_)
        | Values::Int8(_)
        | Values::Int16(_)
        | Values::Int32(_)
        | Values::Int64(_)
        | Values::UInt8(_)
        | Values::UInt16(_)
        | Values::UInt32(_)
        | Values::UInt64(_)
        | Values::Decimal(..) => column.write_text(row, style.separator, out),
        Values::Float32(values) if values[row].is_finite() => {
            column.write_text(row, style.separator, out);
        }
        Values::Float64(values) if values[row].is_finite() => {
            column.write_text(row, style.separator, out);
        }
        Values::List { offsets, items } => {
            out.push(b'[');
            for (place, index) in range(offsets, row).enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_value(items, index, style, out);
            }
            out.push(b']');
        }
        Values::Struct(fields) => {
            out.push(b'{');
            let mut first = true;
            for (name, field) in fields {
                if style.ignore_null_fields && field.is_null(row) {
                    continue;
                }
                if !first {
                    out.push(b',');
                }
                first = false;
                write_string(name, out);
                out.push(b':');
                write_value(field, row, style, out);
            }
            out.push(b'}');
        }
        Values::Map {
            offsets,
            keys,
            items,
        } => {
            out.push(b'{');
            for (place, index) in range(offsets, row).enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                match keys.string(index) {
                    Some(key) => write_string(key, out),
                    // Member names are strings whatever the key is.
                    None => write_quoted(keys, index, style, out),
                }
                out.push(b':');
                write_value(items, index, style, out);
            }
            out.push(b'}');
        }
        // Times, byte strings and floats beyond JSON's numbers: no character of their text
        // needs an escape.
        _ => write_quoted(column, row, style, out),
    }
}

fn write_quoted(column: &Typed<'_>, row: usize, style: JsonStyle, out: &mut Vec<u8>) {
    out.push(b'"');
    column.write_text(row, style.separator, out);
    out.push(b'"');
}

/// The items of the list or map at `row`.
pub(crate) fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Appends a string in quotes, with what must be escaped escaped.
#[inline]
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut start = 0;
    loop {
        let index = plain_until(bytes, start);
        out.extend_from_slice(&bytes[start..index]);
        let Some(&byte) = bytes.get(index) else {
            break;
        };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            other => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(other >> 4)],
                HEX[usize::from(other & 15)],
            ]),
        }
        start = index + 1;
    }
    out.push(b'"');
}
