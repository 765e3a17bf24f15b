//! The columns of a batch while it is being filled, one [`RowSet`] per kind of event.
//!
//! A set has a row for each event of the batch. Rows of other kinds are null in the set *and
//! in each of its fields*: field access in expressions looks at the field alone. Such gaps
//! are most of a batch's cells, so they are made in bulk, just before the set's next own row.
//! Invariant: a finished set has the batch's number of rows in every field.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanBufferBuilder, Int64Array, StringBuilder, StructArray,
    TimestampMillisecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields};
use arrow::error::ArrowError;

use super::schema::{FieldSet, FieldType};

/// Which rows of a batch are of one kind: runs of own rows with gaps between them.
pub(crate) struct Presence {
    bits: BooleanBufferBuilder,
}

impl Presence {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            bits: BooleanBufferBuilder::new(rows),
        }
    }

    /// Marks `own` rows from `start` on as present, and those missing before as absent;
    /// answers how many were missing.
    pub(crate) fn mark(&mut self, start: usize, own: usize) -> usize {
        let gap = start - self.bits.len();
        self.bits.append_n(gap, false);
        self.bits.append_n(own, true);
        gap
    }

    pub(crate) fn finish(mut self, rows: usize) -> NullBuffer {
        self.mark(rows, 0);
        NullBuffer::new(self.bits.finish())
    }
}

/// One field of a set.
enum Column {
    Unwanted,
    /// Numbers and times; gaps hold zeros.
    Long(Vec<i64>),
    Text(StringBuilder),
}

/// The columns of one kind of event.
pub(crate) struct RowSet {
    presence: Presence,
    columns: Vec<Column>,
}

impl RowSet {
    /// A set for a batch of `rows`, about `own` of them of this kind with `text_bytes` per text.
    pub(crate) fn new(
        layout: &[(&str, FieldType)],
        wanted: FieldSet,
        rows: usize,
        own: usize,
        text_bytes: usize,
    ) -> Self {
        let column = |(position, (_, field_type)): (usize, &(&str, FieldType))| match field_type {
            _ if !wanted.has(position) => Column::Unwanted,
            FieldType::Text => Column::Text(StringBuilder::with_capacity(rows, own * text_bytes)),
            FieldType::Long | FieldType::Time => Column::Long(Vec::with_capacity(rows)),
        };
        Self {
            presence: Presence::new(rows),
            columns: layout.iter().enumerate().map(column).collect(),
        }
    }

    /// Begins the set's row at `row` of the batch; every field is to be pushed once after it.
    pub(crate) fn start_row(&mut self, row: usize) {
        let gap = self.presence.mark(row, 1);
        self.fill(gap);
    }

    fn fill(&mut self, gap: usize) {
        for column in &mut self.columns {
            match column {
                Column::Unwanted => {}
                Column::Long(values) => values.resize(values.len() + gap, 0),
                Column::Text(texts) => texts.append_nulls(gap),
            }
        }
    }

    pub(crate) fn long(&mut self, position: usize, value: i64) {
        if let Some(Column::Long(values)) = self.columns.get_mut(position) {
            values.push(value);
        }
    }

    pub(crate) fn text(&mut self, position: usize, text: &str) {
        if let Some(Column::Text(texts)) = self.columns.get_mut(position) {
            texts.append_value(text);
        }
    }

    pub(crate) fn finish(
        mut self,
        fields: &Fields,
        rows: usize,
        unwanted: &mut NullColumns,
    ) -> Result<ArrayRef, ArrowError> {
        let gap = rows - self.presence.bits.len();
        self.fill(gap);
        let nulls = self.presence.finish(rows);
        let columns = self.columns.into_iter().zip(fields);
        let arrays = columns
            .map(|(column, field)| match column {
                Column::Unwanted => unwanted.get(field.data_type(), rows),
                Column::Long(values) => long_array(values, &nulls, field.data_type()),
                Column::Text(mut texts) => Arc::new(texts.finish()),
            })
            .collect();
        let set = StructArray::try_new(fields.clone(), arrays, Some(nulls))?;
        Ok(Arc::new(set))
    }
}

pub(crate) fn long_array(values: Vec<i64>, nulls: &NullBuffer, data_type: &DataType) -> ArrayRef {
    let nulls = Some(nulls.clone());
    if *data_type == DataType::Int64 {
        Arc::new(Int64Array::new(values.into(), nulls))
    } else {
        Arc::new(TimestampMillisecondArray::new(values.into(), nulls))
    }
}

/// Columns of nulls, made once and handed out in the length that is asked for.
#[derive(Debug, Default)]
pub(crate) struct NullColumns(Vec<ArrayRef>);

impl NullColumns {
    pub(crate) fn get(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        if let Some(nulls) = self
            .0
            .iter_mut()
            .find(|nulls| nulls.data_type() == data_type)
        {
            if nulls.len() < rows {
                *nulls = new_null_array(data_type, rows);
            }
            return nulls.slice(0, rows);
        }
        let nulls = new_null_array(data_type, rows);
        self.0.push(Arc::clone(&nulls));
        nulls
    }
}
