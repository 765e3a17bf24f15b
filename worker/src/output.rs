//! The tap: rows of print and collect sinks on their way to whoever watches the job.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use millrace_dataflow::RowKind;
use millrace_formats::{FormatError, json_rows};
use millrace_protocol::v1;
use millrace_types::ExecutionId;
use parking_lot::Mutex;

use crate::events::{EventHub, Offered};

/// Rows per event: small enough that waiting for room comes in small steps.
const ROWS_PER_EVENT: usize = 512;
/// Bytes per event at which it is closed early.
const BYTES_PER_EVENT: usize = 256 << 10;
/// How long rows that must not be lost wait for somebody to attach.
const ATTACH_PATIENCE: Duration = Duration::from_secs(5);

/// Turns rows into events for one execution.
pub(crate) struct OutputTap {
    events: Arc<EventHub>,
    execution: String,
    lossless: bool,
    /// Rows dropped so far, by table.
    dropped: Mutex<HashMap<String, u64>>,
}

impl OutputTap {
    /// `lossless`: rows wait for room as long as somebody is attached.
    pub(crate) fn new(events: Arc<EventHub>, execution: ExecutionId, lossless: bool) -> Self {
        OutputTap {
            events,
            execution: execution.to_string(),
            lossless,
            dropped: Mutex::default(),
        }
    }

    /// Called on the slot's thread, which waits here when rows must not be lost.
    pub(crate) fn rows(
        &self,
        table: &str,
        subtask: u32,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), FormatError> {
        let patience = self.lossless.then_some(ATTACH_PATIENCE);
        if !self.lossless && !self.events.wants_output() {
            // Not even worth encoding.
            self.count_dropped(table, rows.num_rows());
            return Ok(());
        }
        for start in (0..rows.num_rows()).step_by(ROWS_PER_EVENT) {
            let length = ROWS_PER_EVENT.min(rows.num_rows() - start);
            let kinds = kinds.map(|kinds| &kinds[start..start + length]);
            let texts = row_texts(&rows.slice(start, length), kinds)?;
            for part in parts(texts) {
                self.offer(table, subtask, part, patience);
            }
        }
        Ok(())
    }

    fn offer(&self, table: &str, subtask: u32, rows: Vec<String>, patience: Option<Duration>) {
        let count = rows.len();
        let bytes = rows.iter().map(|row| row.len() + size_of::<String>()).sum();
        let event = v1::OutputRows {
            execution_id: self.execution.clone(),
            table: table.to_owned(),
            subtask,
            rows,
            dropped: self.dropped.lock().get(table).copied().unwrap_or(0),
        };
        match self.events.offer_output(event, bytes, patience) {
            Offered::Queued => {}
            Offered::Dropped => self.count_dropped(table, count),
        }
    }

    fn count_dropped(&self, table: &str, rows: usize) {
        let mut dropped = self.dropped.lock();
        match dropped.get_mut(table) {
            Some(count) => *count += rows as u64,
            None => drop(dropped.insert(table.to_owned(), rows as u64)),
        }
    }
}

/// Cuts rows into events by their bytes.
fn parts(rows: Vec<String>) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for row in rows {
        bytes += row.len();
        part.push(row);
        if bytes >= BYTES_PER_EVENT {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

/// `{"kind":"+I","row":{…}}` per row, columns in the order of the schema.
fn row_texts(rows: &RecordBatch, kinds: Option<&[RowKind]>) -> Result<Vec<String>, FormatError> {
    let schema = rows.schema_ref();
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| serde_json::Value::from(field.name().as_str()).to_string())
        .collect();
    let texts = json_rows(rows, kinds)?.into_iter().map(|row| {
        let mut text = format!("{{\"kind\":\"{}\",\"row\":{{", row.kind.short_name());
        for (index, (name, value)) in names.iter().zip(&row.values).enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(name);
            text.push(':');
            text.push_str(&value.to_string());
        }
        text.push_str("}}");
        text
    });
    Ok(texts.collect())
}

#[cfg(test)]
mod tests;
