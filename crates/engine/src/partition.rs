//! Splits batches by the key group of their rows.

use arrow::array::{ArrayRef, UInt64Array};
use millrace_dataflow::{KeyEncoder, KeyGroup, KeyRows, key_hash};

use crate::{Batch, OperatorError};

/// Decides which subtask each row goes to.
#[derive(Debug)]
pub struct Partitioner {
    columns: Vec<usize>,
    encoder: KeyEncoder,
    parallelism: u32,
    max_parallelism: u32,
    keys: KeyRows,
    rows_of: Vec<Vec<u64>>,
}

impl Partitioner {
    /// Partitions by `columns` (of the types that `encoder` was made for).
    pub fn new(
        columns: Vec<usize>,
        encoder: KeyEncoder,
        parallelism: u32,
        max_parallelism: u32,
    ) -> Self {
        Partitioner {
            columns,
            encoder,
            parallelism,
            max_parallelism,
            keys: KeyRows::default(),
            rows_of: vec![Vec::new(); parallelism as usize],
        }
    }

    /// The parts of a batch with the subtask each goes to; rows keep their order.
    pub fn split(&mut self, batch: Batch) -> Result<Vec<(u32, Batch)>, OperatorError> {
        if self.parallelism == 1 {
            return Ok(vec![(0, batch)]);
        }
        if self.columns.is_empty() {
            let group = KeyGroup::of_hash(key_hash(&[]), self.max_parallelism);
            return Ok(vec![(
                group.subtask(self.parallelism, self.max_parallelism),
                batch,
            )]);
        }
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| batch.rows.column(*column).clone())
            .collect();
        self.encoder.encode(&columns, batch.len(), &mut self.keys);
        for rows in &mut self.rows_of {
            rows.clear();
        }
        for row in 0..batch.len() {
            let group = KeyGroup::of_hash(key_hash(self.keys.row(row)), self.max_parallelism);
            self.rows_of[group.subtask(self.parallelism, self.max_parallelism) as usize]
                .push(row as u64);
        }
        let mut parts = Vec::new();
        for (subtask, rows) in self.rows_of.iter().enumerate() {
            if rows.len() == batch.len() {
                return Ok(vec![(subtask as u32, batch)]);
            }
            if !rows.is_empty() {
                parts.push((
                    subtask as u32,
                    batch.take(&UInt64Array::from_iter_values(rows.iter().copied()))?,
                ));
            }
        }
        Ok(parts)
    }
}
