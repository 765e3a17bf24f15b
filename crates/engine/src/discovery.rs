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

/// What one look has brought.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Splits of this subtask that were not known.
    pub(crate) splits: Vec<SplitState>,
    /// The first listing has been made.
    pub(crate) listed: bool,
    /// Nothing more will be found.
    pub(crate) over: bool,
}

/// A running watch; dropping it ends the thread.
pub(crate) struct Discovery {
    found: mpsc::Receiver<Result<Found, ConnectorError>>,
    _stop: mpsc::Sender<()>,
}

impl Discovery {
    pub(crate) fn start(mut watch: Watch) -> Result<Self, OperatorError> {
        // One listing waits at most: a source that is held up does not pile them up.
        let (found_sender, found) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::channel::<()>();
        thread::Builder::new()
            .name(format!("watch-{}", watch.subtask))
            .spawn(move || {
                let mut awaiting = watch.source.awaits_splits();
                let mut interval = Duration::from_millis(watch.interval_ms.max(1));
                // Ends when the watch is dropped, which closes `stopped` and `found`.
                while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                    let splits = watch.look();
                    // Asked after the look: what it changes goes with what it has brought.
                    let listed = awaiting && !watch.source.awaits_splits();
                    awaiting &= !listed;
                    let next = watch.source.discovery_interval_ms();
                    interval = Duration::from_millis(next.unwrap_or(0).max(1));
                    if matches!(&splits, Ok(splits) if splits.is_empty() && !listed && next.is_some())
                    {
                        continue;
                    }
                    let news = splits.map(|splits| Found {
                        splits,
                        listed,
                        over: next.is_none(),
                    });
                    if found_sender.send(news).is_err() {
                        return;
                    }
                    watch.waker.wake();
                    if next.is_none() {
                        return;
                    }
                }
            })
            .map_err(|error| {
                OperatorError::Connector(format!(
                    "cannot start a thread to look for splits: {error}"
                ))
            })?;
        Ok(Discovery { found, _stop: stop })
    }

    /// What was found since the last call.
    pub(crate) fn take(&self) -> Result<Found, ConnectorError> {
        let mut all = Found::default();
        for news in self.found.try_iter() {
            let news = news?;
            all.splits.extend(news.splits);
            all.listed |= news.listed;
            all.over |= news.over;
        }
        Ok(all)
    }
}

impl Watch {
    fn look(&mut self) -> Result<Vec<SplitState>, ConnectorError> {
        let mut news = Vec::new();
        for split in self.source.later_splits(self.parallelism)? {
            if subtask_of(&split.id, self.parallelism) == self.subtask
                && self.known.insert(split.id.0.clone())
            {
                news.push(split);
            }
        }
        Ok(news)
    }
}
