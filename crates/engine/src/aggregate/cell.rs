//! Single values of any type as bytes, for the functions that keep values: the canonical key
//! encoding for scalars (so bytes order as the values do), and for ARRAY, MAP and ROW a null
//! mark, the number of elements, and the elements. Self-delimiting, hence nestable.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray},
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{DataType, FieldRef},
};
use millrace_dataflow::{KeyEncoder, KeyRows, decode_key_column};

use super::{accumulator::damaged, codec};
use crate::OperatorError;

static BLANK: [u8; 4096] = [0; 4096];

/// The encoded values of one column.
pub(super) enum Cells {
    Scalar(KeyRows),
    Nested { data: Vec<u8>, ends: Vec<usize> },
}

impl Cells {
    pub(super) fn get(&self, row: usize) -> &[u8] {
        match self {
            Cells::Scalar(rows) => rows.row(row),
            Cells::Nested { data, ends } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                &data[start..ends[row]]
            }
        }
    }
}

/// Encodes every value of a column, nulls included.
pub(super) fn encode_cells(column: &ArrayRef) -> Result<Cells, OperatorError> {
    let rows = column.len();
    let (mut data, mut ends) = (Vec::new(), Vec::with_capacity(rows));
    match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let elements = encode_cells(list.values())?;
            encode_lists(
                list.offsets(),
                list.nulls(),
                &elements,
                &mut data,
                &mut ends,
            );
        }
        DataType::Map(_, _) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let elements = encode_cells(&entries)?;
            encode_lists(map.offsets(), map.nulls(), &elements, &mut data, &mut ends);
        }
        DataType::Struct(_) => {
            let fields = column
                .as_struct()
                .columns()
                .iter()
                .map(encode_cells)
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..rows {
                data.push(u8::from(column.is_valid(row)));
                if column.is_valid(row) {
                    for field in &fields {
                        data.extend_from_slice(field.get(row));
                    }
                }
                ends.push(data.len());
            }
        }
        scalar => {
            let encoder = KeyEncoder::new(vec![scalar.clone()]).map_err(|_| {
                OperatorError::Data(format!(
                    "values of type {scalar} cannot be collected: cast them to another type"
                ))
            })?;
            let mut keys = KeyRows::default();
            encoder.encode(std::slice::from_ref(column), rows, &mut keys);
            return Ok(Cells::Scalar(keys));
        }
    }
    Ok(Cells::Nested { data, ends })
}

fn encode_lists(
    offsets: &OffsetBuffer<i32>,
    nulls: Option<&NullBuffer>,
    elements: &Cells,
    data: &mut Vec<u8>,
    ends: &mut Vec<usize>,
) {
    for (row, range) in offsets.windows(2).enumerate() {
        let valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
        data.push(u8::from(valid));
        if valid {
            let range = range[0] as usize..range[1] as usize;
            codec::put_u64(data, range.len() as u64);
            for element in range {
                data.extend_from_slice(elements.get(element));
            }
        }
        ends.push(data.len());
    }
}

/// Decodes one value from the front of every cursor and moves the cursors past it.
pub(super) fn decode_cells(
    data_type: &DataType,
    cursors: &mut [&[u8]],
) -> Result<ArrayRef, OperatorError> {
    match data_type {
        DataType::List(field) => {
            let (offsets, nulls, elements) = decode_lists(field, cursors)?;
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(field),
                offsets,
                elements,
                nulls,
            )?))
        }
        DataType::Map(field, ordered) => {
            let (offsets, nulls, entries) = decode_lists(field, cursors)?;
            let entries = entries.as_struct().clone();
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(field),
                offsets,
                entries,
                nulls,
                *ordered,
            )?))
        }
        DataType::Struct(fields) => {
            // Absent rows get a run of nulls to decode, one per field.
            let blank = BLANK
                .get(..fields.len())
                .ok_or_else(|| damaged("a ROW of more than 4096 fields"))?;
            let mut inner = Vec::with_capacity(cursors.len());
            let mut valid = Vec::with_capacity(cursors.len());
            for cursor in &mut *cursors {
                let present = codec::take_u8(cursor).ok_or_else(|| damaged("a ROW"))? == 1;
                valid.push(present);
                inner.push(if present { *cursor } else { blank });
            }
            let columns = fields
                .iter()
                .map(|field| decode_cells(field.data_type(), &mut inner))
                .collect::<Result<Vec<_>, _>>()?;
            for ((cursor, rest), present) in cursors.iter_mut().zip(&inner).zip(&valid) {
                if *present {
                    *cursor = rest;
                }
            }
            let nulls = super::number::nulls_where(valid.iter().copied());
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                nulls,
                valid.len(),
            )?))
        }
        scalar => decode_key_column(scalar, cursors)
            .map_err(|error| OperatorError::Internal(format!("a kept value: {error}"))),
    }
}

fn decode_lists(
    field: &FieldRef,
    cursors: &mut [&[u8]],
) -> Result<(OffsetBuffer<i32>, Option<NullBuffer>, ArrayRef), OperatorError> {
    let fail = || damaged("an ARRAY or MAP");
    let mut lengths = Vec::with_capacity(cursors.len());
    let mut valid = Vec::with_capacity(cursors.len());
    let mut elements: Vec<&[u8]> = Vec::new();
    for cursor in cursors {
        let present = codec::take_u8(cursor).ok_or_else(fail)? == 1;
        valid.push(present);
        let length = if present {
            codec::take_u64(cursor).ok_or_else(fail)? as usize
        } else {
            0
        };
        for _ in 0..length {
            elements.push(take_cell(field.data_type(), cursor)?);
        }
        lengths.push(length);
    }
    let elements = decode_cells(field.data_type(), &mut elements)?;
    Ok((
        OffsetBuffer::from_lengths(lengths),
        super::number::nulls_where(valid.into_iter()),
        elements,
    ))
}

/// Splits the first cell off.
fn take_cell<'a>(data_type: &DataType, cursor: &mut &'a [u8]) -> Result<&'a [u8], OperatorError> {
    let whole = *cursor;
    decode_cells(data_type, std::slice::from_mut(cursor))?;
    Ok(&whole[..whole.len() - cursor.len()])
}
