//! Checks the metadata of a record batch against its schema and body before the Arrow reader
//! sees it: that reader panics on ranges outside the body and believes lengths.

use arrow::{
    datatypes::{DataType, Field, Schema},
    ipc::{self, FieldNode},
};

/// More rows than any batch has, so that a length cannot make the reader overflow.
const MAX_ROWS: i64 = 1 << 24;

/// What is wrong with a record batch.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ValidateError {
    #[error("it is compressed")]
    Compressed,
    #[error("it has {0} rows")]
    Rows(i64),
    #[error("buffer {index} lies at {offset}..+{length} of a body of {body} bytes")]
    Range {
        index: usize,
        offset: i64,
        length: i64,
        body: usize,
    },
    #[error("a buffer of column `{column}` has {length} bytes, not a multiple of {width}")]
    Ragged {
        column: String,
        length: i64,
        width: usize,
    },
    #[error("column `{column}` says {length} values and {nulls} nulls")]
    Length {
        column: String,
        length: i64,
        nulls: i64,
    },
    #[error("it ends before column `{column}`")]
    Missing { column: String },
    #[error("it holds more than its {columns} columns")]
    Excess { columns: usize },
    #[error("the null mask of column `{column}` is too short")]
    NullMask { column: String },
    #[error("column `{column}` has type {data_type}, which is not sent between workers")]
    Unsupported { column: String, data_type: String },
}

/// Fails unless the reader can take `batch` apart as `schema` without going outside the body.
/// The values themselves are checked by the reader.
pub(crate) fn validate(
    batch: &ipc::RecordBatch<'_>,
    schema: &Schema,
    body: usize,
) -> Result<(), ValidateError> {
    if batch.compression().is_some() {
        return Err(ValidateError::Compressed);
    }
    if !(0..=MAX_ROWS).contains(&batch.length()) {
        return Err(ValidateError::Rows(batch.length()));
    }
    let buffers: Vec<&ipc::Buffer> = batch.buffers().into_iter().flatten().collect();
    for (index, buffer) in buffers.iter().enumerate() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let end = offset.checked_add(length);
        let inside = offset >= 0 && length >= 0 && end.is_some_and(|end| end as u64 <= body as u64);
        if !inside {
            return Err(ValidateError::Range {
                index,
                offset,
                length,
                body,
            });
        }
    }
    let mut walk = Walk {
        nodes: batch
            .nodes()
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .into_iter(),
        buffers: buffers.into_iter(),
        variadic: batch
            .variadicBufferCounts()
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .into_iter(),
        // A value takes at least a bit, except nulls and empty structs.
        max_length: (body as i64).saturating_mul(8).max(MAX_ROWS),
    };
    for field in schema.fields() {
        walk.column(field)?;
    }
    let left = walk.nodes.len() + walk.buffers.len() + walk.variadic.len();
    if left > 0 {
        return Err(ValidateError::Excess {
            columns: schema.fields().len(),
        });
    }
    Ok(())
}

/// Takes nodes and buffers in the order in which the reader does.
struct Walk<'a> {
    nodes: std::vec::IntoIter<&'a FieldNode>,
    buffers: std::vec::IntoIter<&'a ipc::Buffer>,
    variadic: std::vec::IntoIter<i64>,
    max_length: i64,
}

impl Walk<'_> {
    fn column(&mut self, field: &Field) -> Result<(), ValidateError> {
        let column = || field.name().clone();
        let node = self
            .nodes
            .next()
            .ok_or_else(|| ValidateError::Missing { column: column() })?;
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..=self.max_length).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(ValidateError::Length {
                column: column(),
                length,
                nulls,
            });
        }
        let data_type = field.data_type();
        if !matches!(data_type, DataType::Null) {
            let mask = self.buffer(field, 1)?;
            if nulls > 0 && mask.length().saturating_mul(8) < length {
                return Err(ValidateError::NullMask { column: column() });
            }
        }
        match data_type {
            DataType::Null | DataType::FixedSizeList(_, _) | DataType::Struct(_) => {}
            DataType::Utf8View | DataType::BinaryView => {
                self.buffer(field, size_of::<u128>())?;
                let count = self.variadic.next().unwrap_or(-1);
                // The buffers are there, so a count above their number fails below.
                if count < 0 {
                    return Err(ValidateError::Missing { column: column() });
                }
                for _ in 0..count {
                    self.buffer(field, 1)?;
                }
            }
            DataType::Utf8 | DataType::Binary => {
                self.buffer(field, size_of::<i32>())?;
                self.buffer(field, 1)?;
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.buffer(field, size_of::<i64>())?;
                self.buffer(field, 1)?;
            }
            DataType::List(_) | DataType::Map(_, _) => {
                self.buffer(field, size_of::<i32>())?;
            }
            DataType::LargeList(_) => {
                self.buffer(field, size_of::<i64>())?;
            }
            DataType::Boolean | DataType::FixedSizeBinary(_) => {
                self.buffer(field, 1)?;
            }
            other => match other.primitive_width() {
                Some(width) => {
                    self.buffer(field, width)?;
                }
                None => {
                    return Err(ValidateError::Unsupported {
                        column: column(),
                        data_type: other.to_string(),
                    });
                }
            },
        }
        match data_type {
            DataType::List(child)
            | DataType::LargeList(child)
            | DataType::Map(child, _)
            | DataType::FixedSizeList(child, _) => self.column(child),
            DataType::Struct(children) => children.iter().try_for_each(|child| self.column(child)),
            _ => Ok(()),
        }
    }

    /// The next buffer, of values of this many bytes.
    fn buffer(&mut self, field: &Field, width: usize) -> Result<&ipc::Buffer, ValidateError> {
        let column = || field.name().clone();
        let buffer = self
            .buffers
            .next()
            .ok_or_else(|| ValidateError::Missing { column: column() })?;
        if !(buffer.length() as u64).is_multiple_of(width as u64) {
            return Err(ValidateError::Ragged {
                column: column(),
                length: buffer.length(),
                width,
            });
        }
        Ok(buffer)
    }
}
