//! Rows that a job prints, on their way to readers: a ring of the newest with a broadcast for
//! previews, and one bounded channel for a reader that must see every row.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc};

/// Rows kept for readers that come later.
const RING: usize = 1_000;
/// Rows that a preview may lag behind.
const BROADCAST: usize = 4_096;
/// Rows that wait for the reader that must see every one.
const LOSSLESS: usize = 16_384;

/// One row that a job has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRow {
    /// Counts the rows of the job, from 1, since the control plane knows it.
    pub seq: u64,
    /// The sink's table.
    pub table: String,
    pub subtask: u32,
    /// `+I`, `-U`, `+U` or `-D`.
    pub kind: String,
    /// A JSON object.
    pub row: String,
}

/// A row as workers send it.
#[derive(Deserialize)]
struct WireRow<'a> {
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    row: &'a RawValue,
}

/// What a reader gets that may miss rows.
pub(crate) struct Preview {
    /// Rows before the backlog were printed while another driver, or none, had the job.
    pub(crate) gap: bool,
    /// The last rows.
    pub(crate) backlog: Vec<OutputRow>,
    /// Those to come.
    pub(crate) rows: broadcast::Receiver<OutputRow>,
}

pub(super) struct OutputTap {
    state: Mutex<State>,
    preview: broadcast::Sender<OutputRow>,
}

struct State {
    ring: VecDeque<OutputRow>,
    /// Rows before those of the ring went elsewhere.
    gap: bool,
    next: u64,
    lossless: Lossless,
}

/// The way to the reader that must see every row.
enum Lossless {
    /// Nobody has asked: rows wait in the channel, and the job behind them.
    Waiting(mpsc::Sender<OutputRow>, mpsc::Receiver<OutputRow>),
    Read(mpsc::Sender<OutputRow>),
    /// No row will come; the rest is still there for whoever asks.
    Ended(Option<mpsc::Receiver<OutputRow>>),
}

impl Default for OutputTap {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(LOSSLESS);
        OutputTap {
            state: Mutex::new(State {
                ring: VecDeque::new(),
                gap: false,
                next: 1,
                lossless: Lossless::Waiting(sender, receiver),
            }),
            preview: broadcast::channel(BROADCAST).0,
        }
    }
}

impl OutputTap {
    pub(super) fn subscribe(&self) -> Preview {
        // Under the lock, so that no row falls between the two.
        let state = self.state.lock();
        Preview {
            gap: state.gap,
            backlog: state.ring.iter().cloned().collect(),
            rows: self.preview.subscribe(),
        }
    }

    /// What was printed up to now is not known here.
    pub(super) fn taken_over(&self) {
        let mut state = self.state.lock();
        state.ring.clear();
        state.gap = true;
    }

    pub(super) fn take_lossless(&self) -> mpsc::Receiver<OutputRow> {
        let mut state = self.state.lock();
        let (left, receiver) = match std::mem::replace(&mut state.lossless, Lossless::Ended(None)) {
            Lossless::Waiting(sender, receiver) => (Lossless::Read(sender), receiver),
            Lossless::Ended(Some(receiver)) => (Lossless::Ended(None), receiver),
            // A second reader gets what comes from now on; the first one's channel closes.
            Lossless::Read(_) => {
                let (sender, receiver) = mpsc::channel(LOSSLESS);
                (Lossless::Read(sender), receiver)
            }
            Lossless::Ended(None) => (Lossless::Ended(None), mpsc::channel(1).1),
        };
        state.lossless = left;
        receiver
    }

    /// Rows will come (again): after a restart of an ended job there is a new reader.
    pub(super) fn begin(&self) {
        let mut state = self.state.lock();
        if matches!(state.lossless, Lossless::Ended(None)) {
            let (sender, receiver) = mpsc::channel(LOSSLESS);
            state.lossless = Lossless::Waiting(sender, receiver);
        }
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.lossless = match std::mem::replace(&mut state.lossless, Lossless::Ended(None)) {
            Lossless::Waiting(_, receiver) => Lossless::Ended(Some(receiver)),
            Lossless::Read(_) => Lossless::Ended(None),
            ended @ Lossless::Ended(_) => ended,
        };
    }

    pub(super) async fn push(&self, table: &str, subtask: u32, rows: Vec<String>, lossless: bool) {
        let mut waiting = Vec::new();
        let sender = {
            let mut state = self.state.lock();
            for text in rows {
                let Ok(wire) = serde_json::from_str::<WireRow<'_>>(&text) else {
                    tracing::warn!(table, "a worker sent a row that is not one");
                    continue;
                };
                let row = OutputRow {
                    seq: state.next,
                    table: table.to_owned(),
                    subtask,
                    kind: wire.kind.into_owned(),
                    row: wire.row.get().to_owned(),
                };
                state.next += 1;
                if state.ring.len() == RING {
                    state.ring.pop_front();
                }
                state.ring.push_back(row.clone());
                if lossless {
                    waiting.push(row.clone());
                }
                // An error means that nobody listens.
                let _ = self.preview.send(row);
            }
            match &state.lossless {
                Lossless::Waiting(sender, _) | Lossless::Read(sender) => sender.clone(),
                Lossless::Ended(_) => return,
            }
        };
        for row in waiting {
            if sender.send(row).await.is_err() {
                // The reader is gone: the job need not wait for it.
                return;
            }
        }
    }
}
