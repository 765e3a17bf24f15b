//! The unit in which rows move: an Arrow record batch, plus row kinds on updating edges.

use std::sync::Arc;

use arrow::{
    array::{Array, BooleanArray, RecordBatch, UInt64Array},
    compute,
    error::ArrowError,
};
use millrace_dataflow::RowKind;

/// Most rows that a batch holds.
pub const MAX_BATCH_ROWS: usize = 8_192;

/// Rows with their kinds. `kinds: None` means that all rows are inserts.
#[derive(Debug, Clone)]
pub struct Batch {
    pub rows: RecordBatch,
    /// As many as there are rows.
    pub kinds: Option<Arc<[RowKind]>>,
}

impl Batch {
    /// A batch of inserts.
    pub fn inserts(rows: RecordBatch) -> Self {
        Batch { rows, kinds: None }
    }

    /// A batch with a kind per row.
    pub fn changes(rows: RecordBatch, kinds: Vec<RowKind>) -> Self {
        debug_assert_eq!(rows.num_rows(), kinds.len());
        Batch {
            rows,
            kinds: Some(kinds.into()),
        }
    }

    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.num_rows() == 0
    }

    /// Approximate bytes that the batch keeps in memory.
    pub fn bytes(&self) -> usize {
        // `get_array_memory_size` counts a shared buffer once per slice of it, which would make
        // slices of a large batch look as large as the whole.
        self.rows
            .columns()
            .iter()
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum::<usize>()
            + self.kinds.as_ref().map_or(0, |kinds| kinds.len())
    }

    /// Rows `offset..offset + length`, without copying.
    pub fn slice(&self, offset: usize, length: usize) -> Batch {
        Batch {
            rows: self.rows.slice(offset, length),
            kinds: self
                .kinds
                .as_ref()
                .map(|kinds| Arc::from(&kinds[offset..offset + length])),
        }
    }

    /// The rows where the mask is true.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Batch, ArrowError> {
        let rows = compute::filter_record_batch(&self.rows, mask)?;
        let kinds = self.kinds.as_ref().map(|kinds| {
            kinds
                .iter()
                .enumerate()
                .filter(|(row, _)| mask.is_valid(*row) && mask.value(*row))
                .map(|(_, kind)| *kind)
                .collect()
        });
        Ok(Batch { rows, kinds })
    }

    /// The rows at these positions, in their order.
    pub fn take(&self, positions: &UInt64Array) -> Result<Batch, ArrowError> {
        let rows = compute::take_record_batch(&self.rows, positions)?;
        let kinds = self.kinds.as_ref().map(|kinds| {
            positions
                .values()
                .iter()
                .map(|row| kinds[*row as usize])
                .collect()
        });
        Ok(Batch { rows, kinds })
    }
}
