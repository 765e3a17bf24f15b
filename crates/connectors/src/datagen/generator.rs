//! The generator of one split: from a row number to the next batch of rows.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::DatagenError;
use super::config::DatagenConfig;
use super::split::DatagenSplit;
use super::values::{ColumnKey, Rows, make_column};

/// The most rows of a batch.
pub const MAX_BATCH_ROWS: usize = 8192;
/// About the most bytes of a batch.
const MAX_BATCH_BYTES: usize = 32 << 20;

/// Emits the rows of one split, in order.
#[derive(Debug)]
pub struct DatagenGenerator {
    config: DatagenConfig,
    split: DatagenSplit,
    /// Rows of the split in all.
    rows: u64,
    max_batch_rows: usize,
}

impl DatagenGenerator {
    /// Continues a split from its position.
    pub fn new(config: DatagenConfig, split: DatagenSplit) -> Result<Self, DatagenError> {
        split.check()?;
        let row_bytes: usize = config.fields.iter().map(|field| field.width()).sum();
        Ok(Self {
            rows: config.rows_of(&split),
            max_batch_rows: (MAX_BATCH_BYTES / row_bytes.max(1)).clamp(1, MAX_BATCH_ROWS),
            config,
            split,
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.config.schema()
    }

    /// The position after the last batch.
    pub fn split(&self) -> &DatagenSplit {
        &self.split
    }

    /// Whether all rows have been emitted.
    pub fn is_finished(&self) -> bool {
        self.split.next >= self.rows
    }

    /// Rows of this split that are due once `elapsed_ms` have passed since its first.
    pub fn due(&self, elapsed_ms: u64) -> u64 {
        let all = u128::from(elapsed_ms) * u128::from(self.config.rows_per_second) / 1000;
        let (splits, index) = (u128::from(self.split.splits), u128::from(self.split.index));
        let own = (all + splits - 1 - index) / splits;
        u64::try_from(own).unwrap_or(u64::MAX).min(self.rows)
    }

    /// The next rows: at most `max_rows` and [`MAX_BATCH_ROWS`], fewer if they are wide, and
    /// none after the last.
    pub fn next_batch(&mut self, max_rows: usize) -> Result<RecordBatch, DatagenError> {
        let left = usize::try_from(self.rows.saturating_sub(self.split.next)).unwrap_or(usize::MAX);
        let rows = Rows {
            first: self.split.next,
            count: max_rows.min(self.max_batch_rows).min(left),
            split: self.split.index.into(),
            splits: self.split.splits.into(),
            base_time_ms: self.split.base_time_ms,
            per_second: self.config.rows_per_second,
        };
        let schema = self.config.schema();
        let columns = self.config.fields.iter().zip(schema.fields()).enumerate();
        let columns = columns
            .map(|(position, (field, column))| {
                let key = ColumnKey::new(self.config.seed, self.split.index, position);
                make_column(field, column.data_type(), key, rows)
            })
            .collect::<Result<_, _>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(rows.count));
        let batch = RecordBatch::try_new_with_options(schema, columns, &count)?;
        self.split.next += rows.count as u64;
        Ok(batch)
    }
}
