//! Deletes checkpoints that newer ones replace, what failed attempts left behind, and savepoints
//! that people delete. One thing at a time, in the background; what fails is left for the next
//! sweep.

use std::{collections::HashSet, sync::Arc};

use millrace_state::{Layout, SnapshotManifest, garbage, manifest};
use millrace_types::{CheckpointId, SavepointId};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Shared, job_task::JobTask, patience::persist};
use crate::{problem::chain, store::Lease};

/// Checkpoints between two sweeps.
const SWEEP_EVERY: u64 = 50;

enum Duty {
    /// Delete these checkpoints; those kept follow.
    Retire {
        retired: Vec<SnapshotManifest>,
        unknown: Vec<CheckpointId>,
        kept: Vec<SnapshotManifest>,
    },
    Sweep {
        kept: Vec<SnapshotManifest>,
        newest: CheckpointId,
    },
    Purge(SavepointId),
    Prune,
}

/// The background worker of one job. It outlives the job's task by what it still has to do.
pub(super) struct Garbage {
    duties: mpsc::UnboundedSender<Duty>,
    /// Savepoints that are being deleted.
    purging: Arc<Mutex<HashSet<SavepointId>>>,
    /// Checkpoints since the last sweep; the first of a task sweeps.
    since_sweep: u64,
}

impl Garbage {
    pub(super) fn new(shared: Arc<Shared>, lease: Lease, layout: Layout) -> Self {
        let (duties, mut inbox) = mpsc::unbounded_channel();
        let purging = Arc::new(Mutex::new(HashSet::new()));
        let mine = purging.clone();
        tokio::spawn(async move {
            while let Some(duty) = inbox.recv().await {
                match duty {
                    Duty::Purge(savepoint) => {
                        purge(&shared, &lease, &layout, savepoint).await;
                        mine.lock().remove(&savepoint);
                    }
                    other => perform(&shared, &lease, &layout, other).await,
                }
            }
        });
        Garbage {
            duties,
            purging,
            since_sweep: SWEEP_EVERY,
        }
    }

    fn add(&self, duty: Duty) {
        // The worker lives as long as this.
        let _ = self.duties.send(duty);
    }

    /// Deletes a savepoint's objects, unless that is under way.
    pub(super) fn purge(&self, savepoint: SavepointId) {
        if self.purging.lock().insert(savepoint) {
            self.add(Duty::Purge(savepoint));
        }
    }
}

impl JobTask {
    /// Deletes checkpoints that are replaced, and sweeps once in a while.
    pub(super) fn retire(&mut self, checkpoints: Vec<CheckpointId>) {
        let mut retired = Vec::new();
        let mut unknown = Vec::new();
        for checkpoint in checkpoints {
            match self.manifests.remove(&checkpoint) {
                Some(manifest) => retired.push(manifest),
                None => unknown.push(checkpoint),
            }
        }
        let kept: Vec<SnapshotManifest> = self.manifests.values().cloned().collect();
        self.garbage.since_sweep += 1;
        let sweep = self.garbage.since_sweep > SWEEP_EVERY;
        let newest = kept.last().map(|manifest| manifest.checkpoint);
        self.garbage.add(Duty::Retire {
            retired,
            unknown,
            kept: kept.clone(),
        });
        if let (true, Some(newest)) = (sweep, newest) {
            self.garbage.since_sweep = 0;
            self.garbage.add(Duty::Sweep { kept, newest });
            self.garbage.add(Duty::Prune);
        }
    }
}

async fn perform(shared: &Shared, lease: &Lease, layout: &Layout, duty: Duty) {
    let storage = &*shared.storage;
    match duty {
        Duty::Retire {
            mut retired,
            unknown,
            mut kept,
        } => {
            // Of a driver before this one. Without the manifests of *all* kept checkpoints nothing
            // may be deleted.
            for checkpoint in unknown {
                match manifest::read(storage, &layout.checkpoint_manifest(checkpoint)).await {
                    Ok(manifest) => retired.push(manifest),
                    Err(error) => {
                        tracing::debug!(job = %lease.job, %checkpoint, error = chain(&error), "a replaced checkpoint is unreadable")
                    }
                }
            }
            let Some(rest) = load_kept(shared, lease, layout, &retired, &kept).await else {
                return;
            };
            kept.extend(rest);
            for manifest in retired {
                let noted = persist("note the deletion of a checkpoint", || {
                    shared.store.delete_checkpoint(lease, manifest.checkpoint)
                })
                .await;
                if let Err(error) = noted {
                    tracing::debug!(job = %lease.job, error = chain(&error), "not deleting a checkpoint");
                    return;
                }
                if let Err(error) = garbage::retire(storage, layout, &manifest, &kept).await {
                    tracing::warn!(job = %lease.job, checkpoint = %manifest.checkpoint, error = chain(&error),
                        "a replaced checkpoint could not be deleted; the next sweep tries again");
                }
            }
        }
        Duty::Sweep { mut kept, newest } => {
            let Some(rest) = load_kept(shared, lease, layout, &[], &kept).await else {
                return;
            };
            kept.extend(rest);
            match garbage::sweep(storage, layout, &kept, newest).await {
                Ok(0) => {}
                Ok(deleted) => {
                    tracing::debug!(job = %lease.job, deleted, "deleted what failed attempts left behind");
                }
                Err(error) => {
                    tracing::warn!(job = %lease.job, error = chain(&error), "a sweep failed; a later one tries again");
                }
            }
        }
        Duty::Purge(savepoint) => purge(shared, lease, layout, savepoint).await,
        Duty::Prune => {
            if let Err(error) = shared.store.prune(lease).await {
                tracing::debug!(job = %lease.job, error = chain(&error), "old history could not be pruned");
            }
        }
    }
}

async fn purge(shared: &Shared, lease: &Lease, layout: &Layout, savepoint: SavepointId) {
    if let Err(error) = garbage::delete_savepoint(&*shared.storage, layout, savepoint).await {
        tracing::warn!(job = %lease.job, %savepoint, error = chain(&error), "a savepoint could not be deleted yet");
        return;
    }
    let noted = persist("note the deletion of a savepoint", || {
        shared.store.savepoint_purged(lease, savepoint)
    })
    .await;
    let cleared = persist("note that nothing is left to do", || {
        shared.store.clear_errands(lease)
    })
    .await;
    if let Err(error) = noted.and(cleared) {
        tracing::debug!(job = %lease.job, error = chain(&error), "the deletion of a savepoint could not be noted");
    }
}

/// The manifests of kept checkpoints that are not among `known` or `retired`. Absent: one of them
/// cannot be read, so that nothing can be told to be unneeded.
async fn load_kept(
    shared: &Shared,
    lease: &Lease,
    layout: &Layout,
    retired: &[SnapshotManifest],
    known: &[SnapshotManifest],
) -> Option<Vec<SnapshotManifest>> {
    let rows = persist("read the job's checkpoints", || {
        shared.store.live_checkpoints(lease)
    })
    .await;
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            tracing::debug!(job = %lease.job, error = chain(&error), "not collecting garbage");
            return None;
        }
    };
    let mut kept = Vec::new();
    for row in rows {
        let is = |manifest: &SnapshotManifest| manifest.checkpoint == row.id;
        let completed = row.status == millrace_types::CheckpointStatus::Completed;
        if !completed || row.savepoint.is_some() || known.iter().any(is) || retired.iter().any(is) {
            continue;
        }
        match manifest::read(&*shared.storage, &layout.checkpoint_manifest(row.id)).await {
            Ok(manifest) => kept.push(manifest),
            Err(error) => {
                tracing::warn!(job = %lease.job, checkpoint = %row.id, error = chain(&error),
                    "a kept checkpoint is unreadable, so nothing is deleted");
                return None;
            }
        }
    }
    Some(kept)
}
