//! Finds splits that appear later, on a thread of its own: listing may block.

use std::{collections::BTreeSet, sync::Arc, sync::mpsc, thread, time::Duration};

use millrace_connectors::source::{ConnectorError, Source, SplitState};

use crate::{OperatorError, channel::SlotWaker, splits::subtask_of};

/// Who looks for splits, and how often.
pub(crate) struct Watch {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) interval_ms: u64,
    pub(crate) subtask: u32,
    pub(crate) parallelism: u32,
    /// Woken when something was found.
    pub(crate) waker: SlotWaker,
    /// Ids that are no news.
    pub(crate) known: BTreeSet<String>,
}

/// A running watch; dropping it ends the thread.
pub(crate) struct Discovery {
    found: mpsc::Receiver<Result<Vec<SplitState>, ConnectorError>>,
    _stop: mpsc::Sender<()>,
}

impl Discovery {
    pub(crate) fn start(mut watch: Watch) -> Result<Self, OperatorError> {
        // One listing waits at most: a source that is held up does not pile them up.
        let (found_sender, found) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::channel::<()>();
        let interval = Duration::from_millis(watch.interval_ms.max(1));
        thread::Builder::new()
            .name(format!("watch-{}", watch.subtask))
            .spawn(move || {
                // Ends when the watch is dropped, which closes `stopped` and `found`.
                while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                    let news = watch.look();
                    if matches!(&news, Ok(splits) if splits.is_empty()) {
                        continue;
                    }
                    if found_sender.send(news).is_err() {
                        return;
                    }
                    watch.waker.wake();
                }
            })
            .map_err(|error| {
                OperatorError::Connector(format!("cannot start a thread to watch files: {error}"))
            })?;
        Ok(Discovery { found, _stop: stop })
    }

    /// What was found since the last call: splits of this subtask that were not known.
    pub(crate) fn take(&self) -> Result<Vec<SplitState>, ConnectorError> {
        let mut splits = Vec::new();
        for news in self.found.try_iter() {
            splits.extend(news?);
        }
        Ok(splits)
    }
}

impl Watch {
    fn look(&mut self) -> Result<Vec<SplitState>, ConnectorError> {
        let mut news = Vec::new();
        for split in self.source.splits(self.parallelism)? {
            if subtask_of(&split.id, self.parallelism) == self.subtask
                && self.known.insert(split.id.0.clone())
            {
                news.push(split);
            }
        }
        Ok(news)
    }
}
