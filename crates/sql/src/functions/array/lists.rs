//! The lists of one evaluation, and results made of their elements by position.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, UInt32Array},
    buffer::{NullBuffer, OffsetBuffer},
    compute::{concat, take},
    datatypes::Field,
    row::{RowConverter, Rows, SortField},
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::ColumnarValue;

use crate::functions::call::Call;

/// Lists of one evaluation: their elements in one pool.
pub(super) struct Lists {
    arrays: Vec<ListArray>,
    /// All elements of all lists, then those of plain arguments.
    pub(super) pool: ArrayRef,
    /// Where each argument's elements start in the pool.
    starts: Vec<usize>,
}

impl Lists {
    /// Arguments `lists` are lists; `plain` are values of the element type.
    pub(super) fn of(call: &Call, lists: &[usize], plain: &[usize]) -> Result<Self> {
        let mut arrays = vec![];
        let mut pools: Vec<ArrayRef> = vec![];
        let mut starts = vec![];
        let mut length = 0;
        for i in lists {
            let array = call.array(*i)?;
            let Some(list) = array.as_list_opt::<i32>() else {
                return internal_err!("expected an ARRAY, got {}", array.data_type());
            };
            starts.push(length);
            length += list.values().len();
            pools.push(Arc::clone(list.values()));
            arrays.push(list.clone());
        }
        for i in plain {
            let array = call.array(*i)?;
            starts.push(length);
            length += array.len();
            pools.push(array);
        }
        let parts: Vec<&dyn Array> = pools.iter().map(AsRef::as_ref).collect();
        Ok(Lists {
            pool: concat(&parts)?,
            arrays,
            starts,
        })
    }

    /// Pool positions of a list's elements; nothing if the list is null.
    pub(super) fn elements(&self, list: usize, row: usize) -> Option<std::ops::Range<usize>> {
        let array = &self.arrays[list];
        if array.is_null(row) {
            return None;
        }
        let offsets = array.value_offsets();
        let start = self.starts[list];
        Some(start + offsets[row] as usize..start + offsets[row + 1] as usize)
    }

    /// Pool position of a plain argument's value.
    pub(super) fn plain(&self, argument: usize, row: usize) -> usize {
        self.starts[self.arrays.len() + argument] + row
    }

    /// Comparable forms of all elements.
    pub(super) fn rows(&self) -> Result<Rows> {
        let field = SortField::new(self.pool.data_type().clone());
        Ok(RowConverter::new(vec![field])?.convert_columns(&[Arc::clone(&self.pool)])?)
    }

    /// Lists made of pool positions.
    pub(super) fn make(
        &self,
        call: &Call,
        mut row: impl FnMut(usize, &mut Vec<u32>) -> Result<bool>,
    ) -> Result<ColumnarValue> {
        let mut indices: Vec<u32> = vec![];
        let mut lengths = vec![];
        let mut valid = vec![];
        for i in 0..call.row_count() {
            let before = indices.len();
            let present = row(i, &mut indices)?;
            if !present {
                indices.truncate(before);
            }
            valid.push(present);
            lengths.push(indices.len() - before);
        }
        let values = take(&self.pool, &UInt32Array::from(indices), None)?;
        let list = ListArray::try_new(
            Arc::new(Field::new("item", values.data_type().clone(), true)),
            OffsetBuffer::from_lengths(lengths),
            values,
            Some(NullBuffer::from(valid)),
        )?;
        call.finish(Arc::new(list))
    }

    /// Single elements by pool position.
    pub(super) fn pick(
        &self,
        call: &Call,
        mut row: impl FnMut(usize) -> Result<Option<usize>>,
    ) -> Result<ColumnarValue> {
        let mut indices: Vec<Option<u32>> = vec![];
        for i in 0..call.row_count() {
            indices.push(row(i)?.map(|index| index as u32));
        }
        call.finish(take(&self.pool, &UInt32Array::from(indices), None)?)
    }
}
