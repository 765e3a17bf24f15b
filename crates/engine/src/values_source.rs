//! `INSERT INTO … VALUES`: a source of fixed rows, all in one split.

use std::sync::Arc;

use arrow::array::RecordBatch;
use millrace_connectors::source::{
    ConnectorError, Polled, Source, SplitId, SplitReader, SplitState, Waker,
};

/// The rows of a `VALUES` node.
pub struct ValuesSource {
    pub rows: Arc<[RecordBatch]>,
}

impl Source for ValuesSource {
    fn splits(&self, _parallelism: u32) -> Result<Vec<SplitState>, ConnectorError> {
        Ok(vec![SplitState {
            id: SplitId("0".into()),
            position: 0.into(),
        }])
    }

    fn open(
        &self,
        split: &SplitState,
        _waker: Waker,
    ) -> Result<Box<dyn SplitReader>, ConnectorError> {
        let next = split.position.as_u64().ok_or_else(|| {
            ConnectorError(format!(
                "position `{}` in VALUES is not a number of batches",
                split.position
            ))
        })?;
        Ok(Box::new(ValuesReader {
            rows: self.rows.clone(),
            next,
        }))
    }
}

struct ValuesReader {
    rows: Arc<[RecordBatch]>,
    /// Batches handed out.
    next: u64,
}

impl SplitReader for ValuesReader {
    fn poll(&mut self, _max_rows: usize, _now_ms: i64) -> Result<Polled, ConnectorError> {
        match self.rows.get(self.next as usize) {
            Some(rows) => {
                self.next += 1;
                Ok(Polled::Rows(rows.clone()))
            }
            None => Ok(Polled::Ended),
        }
    }

    fn position(&self) -> serde_json::Value {
        self.next.into()
    }
}
