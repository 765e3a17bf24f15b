//! Prints rows on a thread of their own, so that a slow reader of stdout holds nothing up but
//! the rows themselves.

use std::{
    io::{self, BufWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use millrace_control_plane::OutputRow;
use serde_json::value::RawValue;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    args::OutputFormat,
    rows::{Row, RowPrinter, Shape},
};

/// Rows printed between two looks at whether more are waiting.
const BURST: usize = 1024;

/// Rows on their way to stdout.
pub(super) struct Printing {
    /// Ends when the job has handed over its last row, or stdout takes no more.
    pub(super) task: JoinHandle<io::Result<()>>,
    /// Rows printed so far.
    pub(super) printed: Arc<AtomicU64>,
}

pub(super) fn spawn(
    rows: mpsc::Receiver<OutputRow>,
    format: OutputFormat,
    shape: Shape,
) -> Printing {
    let printed = Arc::new(AtomicU64::new(0));
    let counter = printed.clone();
    let task = tokio::task::spawn_blocking(move || {
        let out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
        print(rows, RowPrinter::new(out, format, shape), &counter)
    });
    Printing { task, printed }
}

fn print<W: Write>(
    mut rows: mpsc::Receiver<OutputRow>,
    mut printer: RowPrinter<W>,
    printed: &AtomicU64,
) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST);
    while rows.blocking_recv_many(&mut burst, BURST) > 0 {
        let count = burst.len() as u64;
        for row in burst.drain(..) {
            let json = RawValue::from_string(row.row).map_err(io::Error::other)?;
            printer.row(&Row {
                table: row.table,
                kind: row.kind,
                row: json,
            })?;
        }
        printed.fetch_add(count, Ordering::Relaxed);
        if rows.is_empty() {
            printer.flush()?;
        }
    }
    printer.flush()
}
