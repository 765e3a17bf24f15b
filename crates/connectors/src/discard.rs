//! `blackhole` and `print` (also `collect`): sinks without transactions.

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;

use crate::{
    sink::{Committable, Sink, SinkWriter, WriterContext},
    source::ConnectorError,
};

/// The `blackhole` connector: takes everything, keeps nothing.
pub struct BlackholeSink;

impl Sink for BlackholeSink {
    fn open(&self, _context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        Ok(Box::new(Discard { tap: None }))
    }
}

/// The `print` and `collect` connectors: rows go to whoever watches the job. At least once:
/// after a failure, rows since the last checkpoint are shown again.
pub struct PrintSink;

impl Sink for PrintSink {
    fn open(&self, context: &WriterContext) -> Result<Box<dyn SinkWriter>, ConnectorError> {
        Ok(Box::new(Discard {
            tap: Some(context.clone()),
        }))
    }
}

struct Discard {
    tap: Option<WriterContext>,
}

impl SinkWriter for Discard {
    fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), ConnectorError> {
        if let Some(context) = &self.tap {
            context
                .tap
                .rows(&context.table, context.subtask, rows, kinds);
        }
        Ok(())
    }

    fn pre_commit(&mut self) -> Result<Vec<Committable>, ConnectorError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, _committables: &[Committable]) -> Result<(), ConnectorError> {
        Ok(())
    }
}
