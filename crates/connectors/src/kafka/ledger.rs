//! Which epochs of a writer have landed, and what has to be done about one that may not have.
//!
//! The logic of writing exactly once, over a trait that stands for the brokers; see the module
//! `kafka` for the argument.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Who writes: the same in every execution. Names a transactional id and the group of the marker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct WriterId(pub(super) String);

/// Counts the epochs of a writer: grows from one to the next over the whole life of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct EpochNumber(pub(super) u64);

/// An epoch as the ledger sees it: its rows are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: EpochNumber,
    /// The marker that was known when the epoch was staged.
    pub(super) after: Option<EpochNumber>,
    /// Wall-clock time of staging, epoch ms.
    pub(super) staged_ms: i64,
}

/// The brokers, for one writer.
pub(super) trait Transactions {
    /// The marker; waits for transactions on it to be decided, but not for ever.
    fn marker(&mut self) -> Result<Option<EpochNumber>, Failure>;
    /// Fences everybody who has used the writer's id before, ends what they have begun.
    fn fence(&mut self) -> Result<(), Failure>;
    /// Writes these epochs (by their place among the entries) and the marker in one transaction.
    fn commit(&mut self, epochs: &[usize], marker: EpochNumber) -> Result<(), Failure>;
}

/// Why the brokers did not do something, or why it is not known whether they did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Trying again may help.
    Passing,
    /// Somebody else has taken over the writer's id: this execution must end.
    Fenced,
    /// Trying again gives the same.
    Final,
}

/// Why epochs cannot be settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// There was a marker and there is none.
    LostMarker(EpochNumber),
    Failed(Failure),
}

/// What to do when the marker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnLost {
    Fail,
    Replay,
    Skip,
}

/// Brokers keep a marker for some days; below this age one that is not there never was.
const SURE_MS: i64 = 24 * 60 * 60 * 1000;

/// What a writer knows about its own id.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Set while the id is fenced by us: the marker is then what we wrote last, since nobody else
    /// can have moved it without making our next commit fail.
    held: Option<Option<EpochNumber>>,
}

impl Ledger {
    /// The marker as far as it is known.
    pub(super) fn known(&self) -> Option<EpochNumber> {
        self.held.flatten()
    }

    /// Sees to it that every entry has landed exactly once. Entries are in the order of their
    /// numbers. After an error nothing is known; calling again is right.
    pub(super) fn settle(
        &mut self,
        entries: &[Entry],
        brokers: &mut dyn Transactions,
        on_lost: OnLost,
        now_ms: i64,
    ) -> Result<(), Unsettled> {
        let held = self.held.take();
        let marker = match held {
            Some(marker) => marker,
            None => {
                // Without fencing: who has nothing to write disturbs nobody. A marker that cannot
                // be read (a dead execution's transaction is undecided) is read after fencing.
                if let Ok(marker @ Some(_)) = brokers.marker()
                    && due(entries, marker).is_empty()
                {
                    return Ok(());
                }
                brokers.fence().map_err(Unsettled::Failed)?;
                brokers.marker().map_err(Unsettled::Failed)?
            }
        };
        let mut epochs = due(entries, marker);
        if marker.is_none()
            && let Some(lost) = epochs.iter().find_map(|at| lost(&entries[*at], now_ms))
        {
            match on_lost {
                OnLost::Fail => return Err(Unsettled::LostMarker(lost)),
                OnLost::Replay => {}
                OnLost::Skip => epochs.clear(),
            }
        }
        let Some(last) = epochs.last() else {
            // The marker of what was skipped is not renewed: the next epoch brings its own.
            self.held = Some(marker);
            return Ok(());
        };
        let number = entries[*last].number;
        brokers.commit(&epochs, number).map_err(Unsettled::Failed)?;
        self.held = Some(Some(number));
        Ok(())
    }
}

/// Places of the entries that are beyond the marker.
fn due(entries: &[Entry], marker: Option<EpochNumber>) -> Vec<usize> {
    let places = 0..entries.len();
    places
        .filter(|at| marker.is_none_or(|marker| entries[*at].number > marker))
        .collect()
}

/// Whether, though there is no marker, there should be one: the epoch that cannot be judged.
fn lost(entry: &Entry, now_ms: i64) -> Option<EpochNumber> {
    let old = now_ms.saturating_sub(entry.staged_ms) > SURE_MS;
    (entry.after.is_some() || old).then_some(entry.number)
}
