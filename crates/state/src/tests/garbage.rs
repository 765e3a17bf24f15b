//! Retiring and sweeping keep everything that is needed and remove the rest, over random lives
//! of a job.

use std::collections::BTreeSet;

use millrace_types::Fingerprint;
use object_store::memory::InMemory;
use proptest::prelude::*;

use super::*;
use crate::{SharedFileId, SlotSnapshot, SnapshotKind, SnapshotManifest, garbage, manifest};

const RETAINED: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    /// Changes, then a checkpoint that completes.
    Checkpoint(Vec<(u16, u8, Option<u8>)>),
    /// Changes, then a checkpoint of which only the first slots' uploads get done.
    FailedCheckpoint(Vec<(u16, u8, Option<u8>)>, usize),
    Compact,
    Savepoint,
    /// Everything dies; restored from the newest checkpoint at this parallelism.
    Restart(u32),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let changes =
        || prop::collection::vec((0u16..12, 0u8..4, prop::option::of(any::<u8>())), 1..10);
    prop_oneof![
        5 => changes().prop_map(Step::Checkpoint),
        2 => (changes(), 0usize..3).prop_map(|(c, n)| Step::FailedCheckpoint(c, n)),
        2 => Just(Step::Compact),
        1 => Just(Step::Savepoint),
        2 => (1u32..4).prop_map(Step::Restart),
        2 => Just(Step::Sweep),
    ]
}

/// A job with its driver's view of it.
struct Job {
    objects: InMemory,
    dir: tempfile::TempDir,
    slots: Vec<Slot>,
    live: Model,
    /// What the newest checkpoint holds.
    committed: Model,
    retained: Vec<SnapshotManifest>,
    savepoints: Vec<(SnapshotManifest, Model)>,
    next_checkpoint: u64,
    attempts: u128,
}

impl Job {
    fn new() -> Job {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::open(
            dir.path().join("first"),
            0,
            execution(0),
            UploadedFiles::default(),
        );
        Job {
            objects: InMemory::new(),
            slots: vec![slot],
            dir,
            live: Model::new(),
            committed: Model::new(),
            retained: Vec::new(),
            savepoints: Vec::new(),
            next_checkpoint: 1,
            attempts: 0,
        }
    }

    fn deltas(&mut self, changes: &[(u16, u8, Option<u8>)]) -> Vec<Delta> {
        let parallelism = self.slots.len() as u32;
        let mut deltas: Vec<Delta> = self.slots.iter().map(|slot| slot.table.delta()).collect();
        for (group, key, value) in changes {
            let group_id = KeyGroup(*group);
            let delta = &mut deltas[group_id.subtask(parallelism, MAX_PARALLELISM) as usize];
            match value {
                Some(value) => {
                    delta.put(group_id, &[*key], 0, &[*value]);
                    self.live.insert((*group, vec![*key]), vec![*value]);
                }
                None => {
                    delta.delete(group_id, &[*key]);
                    self.live.remove(&(*group, vec![*key]));
                }
            }
        }
        deltas
    }

    fn manifest(
        &self,
        checkpoint: u64,
        kind: SnapshotKind,
        keyed: Vec<KeyedSnapshot>,
    ) -> SnapshotManifest {
        let parallelism = self.slots.len() as u32;
        SnapshotManifest {
            format: manifest::MANIFEST_FORMAT,
            tenant: layout().tenant,
            job: layout().job,
            checkpoint: CheckpointId(checkpoint),
            kind,
            created_at_ms: 0,
            execution: execution(self.attempts),
            fingerprint: Fingerprint("f".into()),
            parallelism,
            max_parallelism: MAX_PARALLELISM,
            key_encoding: 1,
            slots: keyed
                .into_iter()
                .zip(0..)
                .map(|(keyed, subtask)| SlotSnapshot {
                    subtask: SubtaskIndex(subtask),
                    key_groups: range(subtask, parallelism),
                    keyed,
                    operator_state: vec![],
                })
                .collect(),
        }
    }

    async fn checkpoint(&mut self, changes: &[(u16, u8, Option<u8>)], slots: usize) {
        let deltas = self.deltas(changes);
        let checkpoint = self.next_checkpoint;
        self.next_checkpoint += 1;
        let mut keyed = Vec::new();
        for (slot, delta) in self.slots.iter_mut().zip(deltas) {
            let local = slot.cut(checkpoint, delta);
            if keyed.len() < slots {
                keyed.push(slot.upload(&self.objects, local).await.unwrap());
            }
        }
        if keyed.len() < self.slots.len() {
            return;
        }
        let complete = self.manifest(checkpoint, SnapshotKind::Checkpoint, keyed);
        manifest::write(&self.objects, &layout(), &complete)
            .await
            .unwrap();
        self.retained.push(complete);
        self.committed = self.live.clone();
        while self.retained.len() > RETAINED {
            let retired = self.retained.remove(0);
            garbage::retire(&self.objects, &layout(), &retired, &self.retained)
                .await
                .unwrap();
        }
    }

    async fn savepoint(&mut self) {
        let number = self.savepoints.len() as u64 + 1;
        let mut keyed = Vec::new();
        for slot in &self.slots {
            let local = slot.cut(self.next_checkpoint, slot.table.delta());
            keyed.push(
                write_canonical(
                    &self.objects,
                    &layout(),
                    local,
                    SavepointId(number),
                    slot.execution,
                    SubtaskIndex(slot.subtask),
                )
                .await
                .unwrap(),
            );
        }
        let kind = SnapshotKind::Savepoint(SavepointId(number));
        let complete = self.manifest(self.next_checkpoint, kind, keyed);
        self.next_checkpoint += 1;
        manifest::write(&self.objects, &layout(), &complete)
            .await
            .unwrap();
        self.savepoints.push((complete, self.live.clone()));
    }

    async fn restart(&mut self, parallelism: u32) {
        self.attempts += 1;
        let snapshots = match self.retained.last() {
            Some(newest) => newest.keyed(),
            None => vec![(range(0, 1), KeyedSnapshot::Empty)],
        };
        self.slots = self.open(&snapshots, parallelism, "attempt").await;
        self.live = self.committed.clone();
    }

    async fn open(
        &self,
        snapshots: &[(KeyGroupRange, KeyedSnapshot)],
        parallelism: u32,
        name: &str,
    ) -> Vec<Slot> {
        let mut slots = Vec::new();
        for subtask in 0..parallelism {
            let path = self
                .dir
                .path()
                .join(format!("{name}-{}-{subtask}", self.attempts));
            let held = range(subtask, parallelism);
            let (slot, _) = Slot::restored(
                &self.objects,
                snapshots,
                held,
                path,
                subtask,
                execution(self.attempts),
            )
            .await
            .unwrap();
            slots.push(slot);
        }
        slots
    }

    async fn sweep(&self) {
        let Some(newest) = self.retained.last() else {
            return;
        };
        // Savepoints count as completed too, and must not endanger files of checkpoints that
        // failed before them.
        let completed = self.savepoints.last().map(|(savepoint, _)| savepoint);
        let completed = completed.map_or(newest.checkpoint, |savepoint| {
            savepoint.checkpoint.max(newest.checkpoint)
        });
        garbage::sweep(&self.objects, &layout(), &self.retained, completed)
            .await
            .unwrap();
        // What is left: what is needed, and what is too young to judge.
        let needed: BTreeSet<String> = self
            .retained
            .iter()
            .flat_map(SnapshotManifest::shared_files)
            .map(|file| layout().shared_file(&file.id).to_string())
            .collect();
        let kept: BTreeSet<u64> = self.retained.iter().map(|m| m.checkpoint.0).collect();
        let job = layout().job_dir().to_string();
        for name in objects(&self.objects).await {
            let inner = name.strip_prefix(&format!("{job}/")).unwrap();
            if let Some(file) = inner.strip_prefix("shared/") {
                let id: SharedFileId = file.strip_suffix(".sst").unwrap().parse().unwrap();
                assert!(
                    needed.contains(&name) || id.checkpoint >= newest.checkpoint,
                    "{name} is left"
                );
            } else if let Some(rest) = inner.strip_prefix("chk-") {
                let number: u64 = rest.split('/').next().unwrap().parse().unwrap();
                assert!(
                    kept.contains(&number) || number > newest.checkpoint.0,
                    "{name} is left"
                );
            }
        }
    }

    /// Every retained checkpoint and every savepoint can be restored.
    async fn verify(&mut self) {
        let names: BTreeSet<String> = objects(&self.objects).await.into_iter().collect();
        for kept in &self.retained {
            for file in kept.shared_files() {
                let name = layout().shared_file(&file.id).to_string();
                assert!(names.contains(&name), "{name} is gone");
            }
        }
        let mut to_restore: Vec<(SnapshotManifest, Model)> = self.savepoints.clone();
        if let Some(newest) = self.retained.last() {
            to_restore.push((newest.clone(), self.committed.clone()));
        }
        for (number, (snapshot, expected)) in to_restore.iter().enumerate() {
            let name = format!("verify-{number}");
            let slots = self.open(&snapshot.keyed(), 1, &name).await;
            assert_eq!(&slots[0].content(), expected);
        }
        // Older ones are whole too, though the model of what they hold is not kept.
        for kept in &self.retained {
            self.open(&kept.keyed(), 2, &format!("old-{}", kept.checkpoint))
                .await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn nothing_needed_goes_and_nothing_else_stays(steps in prop::collection::vec(step(), 4..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut job = Job::new();
            for step in &steps {
                match step {
                    Step::Checkpoint(changes) => job.checkpoint(changes, usize::MAX).await,
                    Step::FailedCheckpoint(changes, slots) => {
                        let done = (*slots).min(job.slots.len() - 1);
                        job.checkpoint(changes, done).await;
                    }
                    Step::Compact => job.slots.iter().for_each(|slot| slot.store.compact()),
                    Step::Savepoint => job.savepoint().await,
                    Step::Restart(parallelism) => job.restart(*parallelism).await,
                    Step::Sweep => job.sweep().await,
                }
            }
            job.verify().await;
        });
    }
}

#[tokio::test]
async fn savepoints_and_jobs_can_be_deleted() {
    let mut job = Job::new();
    job.checkpoint(&[(1, 1, Some(1))], usize::MAX).await;
    job.savepoint().await;
    job.savepoint().await;
    garbage::delete_savepoint(&job.objects, &layout(), SavepointId(1))
        .await
        .unwrap();
    let left = objects(&job.objects).await;
    assert!(left.iter().all(|name| !name.contains("savepoint-1/")));
    assert!(left.iter().any(|name| name.contains("savepoint-2/")));
    job.savepoints.remove(0);
    job.verify().await;
    // Once more is fine.
    garbage::delete_savepoint(&job.objects, &layout(), SavepointId(1))
        .await
        .unwrap();
    garbage::delete_job(&job.objects, &layout()).await.unwrap();
    assert_eq!(objects(&job.objects).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_of_a_failed_checkpoint_outlives_a_savepoint() {
    let mut job = Job::new();
    job.checkpoint(&[(1, 1, Some(1))], usize::MAX).await;
    // Uploaded, then the checkpoint fails elsewhere: the slot will not upload the file again.
    let failed = job.deltas(&[(2, 2, Some(2))]).remove(0);
    let local = job.slots[0].cut(2, failed);
    job.slots[0].upload(&job.objects, local).await.unwrap();
    job.next_checkpoint = 3;
    job.savepoint().await;
    job.sweep().await;
    job.checkpoint(&[], usize::MAX).await;
    job.verify().await;
}

#[tokio::test]
async fn names_that_are_not_ours_are_left_alone() {
    use object_store::{ObjectStoreExt, PutPayload};
    let mut job = Job::new();
    job.checkpoint(&[(1, 1, Some(1))], usize::MAX).await;
    let foreign = ["shared/notes.txt", "shared/x.sst", "chk-abc/x", "other/x"];
    for name in foreign {
        let path = Path::from(format!("{}/{name}", layout().job_dir()));
        job.objects
            .put(&path, PutPayload::from_static(b"x"))
            .await
            .unwrap();
    }
    garbage::sweep(&job.objects, &layout(), &job.retained, CheckpointId(100))
        .await
        .unwrap();
    let left = objects(&job.objects).await;
    for name in foreign {
        assert!(left.iter().any(|object| object.ends_with(name)), "{name}");
    }
    job.verify().await;
}
