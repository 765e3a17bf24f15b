//! Counts late rows and keeps the newest few.

use arrow::{array::RecordBatch, json::LineDelimitedWriter};

use crate::LateRows;

/// Notes the rows at `positions` as late, each standing for `weight` rows.
pub(crate) fn note_late(late: &mut LateRows, rows: &RecordBatch, positions: &[u32], count: u64) {
    late.count += count;
    let newest = positions.len().saturating_sub(LateRows::MAX_SAMPLES);
    for position in &positions[newest..] {
        if late.samples.len() == LateRows::MAX_SAMPLES {
            late.samples.remove(0);
        }
        late.samples.push(as_json(rows, *position as usize));
    }
}

fn as_json(rows: &RecordBatch, position: usize) -> String {
    let mut line = Vec::new();
    let mut writer = LineDelimitedWriter::new(&mut line);
    let written = writer
        .write(&rows.slice(position, 1))
        .and_then(|()| writer.finish());
    match written {
        Ok(()) => String::from_utf8_lossy(&line).trim_end().to_owned(),
        // A sample is for people; one that has no JSON form is still counted.
        Err(error) => serde_json::json!({ "error": error.to_string() }).to_string(),
    }
}
