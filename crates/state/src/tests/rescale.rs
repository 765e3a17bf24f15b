//! The same state at another parallelism.

use object_store::memory::InMemory;

use super::*;

/// Runs a checkpoint of `model` at a parallelism.
async fn spread(
    store: &InMemory,
    dir: &tempfile::TempDir,
    parallelism: u32,
    checkpoint: u64,
    model: &Model,
) -> Vec<(KeyGroupRange, KeyedSnapshot)> {
    let mut snapshots = Vec::new();
    for subtask in 0..parallelism {
        let held = range(subtask, parallelism);
        let path = dir.path().join(format!("{checkpoint}-{subtask}"));
        let mut slot = Slot::open(path, subtask, execution(1), UploadedFiles::default());
        let own = within(model, held);
        // In two files, the first with something that the second takes back.
        let passing = (held.start, &b"passing"[..]);
        slot.checkpoint(store, checkpoint, &[(passing.0, passing.1, Some(b"x"))])
            .await;
        let mut changes = changes(&own);
        changes.push((passing.0, passing.1, None));
        let keyed = slot.checkpoint(store, checkpoint + 1, &changes).await;
        snapshots.push((held, keyed));
    }
    snapshots
}

/// Restores at another parallelism; checks content; returns its first checkpoint.
async fn respread(
    store: &InMemory,
    dir: &tempfile::TempDir,
    snapshots: &[(KeyGroupRange, KeyedSnapshot)],
    parallelism: u32,
    checkpoint: u64,
    model: &Model,
) -> Vec<(KeyGroupRange, KeyedSnapshot)> {
    let mut next = Vec::new();
    for subtask in 0..parallelism {
        let held = range(subtask, parallelism);
        let path = dir.path().join(format!("{checkpoint}-{subtask}"));
        let execution = execution(u128::from(checkpoint));
        let (mut slot, info) = Slot::restored(store, snapshots, held, path, subtask, execution)
            .await
            .unwrap();
        assert_eq!(slot.content(), within(model, held), "subtask {subtask}");
        let overlapping = snapshots.iter().filter(|(other, _)| other.overlaps(held));
        assert_eq!(info.reused_files, overlapping.count() == 1);
        // What is outside of the range stays out when everything is rewritten.
        if subtask == 0 {
            slot.store.compact();
            assert_eq!(slot.content(), within(model, held));
        }
        next.push((held, slot.checkpoint(store, checkpoint, &[]).await));
    }
    next
}

#[tokio::test]
async fn split_and_merged_state_is_the_same() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let model = full_model();
    // 1 -> 3: splits. 3 -> 2: the middle one is taken apart. 2 -> 5, 5 -> 1 and 1 -> 12: on from
    // what these left, files with foreign groups in them included.
    let mut snapshots = spread(&store, &dir, 1, 10, &model).await;
    for (step, parallelism) in [3, 2, 5, 1, 12, 3].into_iter().enumerate() {
        let checkpoint = 20 + step as u64;
        snapshots = respread(&store, &dir, &snapshots, parallelism, checkpoint, &model).await;
    }
}

#[tokio::test]
async fn a_split_uploads_nothing_it_shares() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let model = full_model();
    let snapshots = spread(&store, &dir, 1, 10, &model).await;
    let split = respread_without_compaction(&store, &dir, &snapshots).await;
    for keyed in split {
        let old: u64 = keyed.bytes() - keyed.new_bytes();
        // All that is new are the small files of range deletions and metadata.
        assert!(old > 0, "{keyed:?}");
    }
}

async fn respread_without_compaction(
    store: &InMemory,
    dir: &tempfile::TempDir,
    snapshots: &[(KeyGroupRange, KeyedSnapshot)],
) -> Vec<KeyedSnapshot> {
    let mut split = Vec::new();
    for subtask in 0..2 {
        let path = dir.path().join(format!("split-{subtask}"));
        let (mut slot, _) = Slot::restored(
            store,
            snapshots,
            range(subtask, 2),
            path,
            subtask,
            execution(9),
        )
        .await
        .unwrap();
        split.push(slot.checkpoint(store, 30, &[]).await);
    }
    split
}

#[tokio::test]
async fn every_table_is_merged() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut snapshots = Vec::new();
    for subtask in 0..2 {
        let held = range(subtask, 2);
        let path = dir.path().join(format!("from-{subtask}"));
        let mut slot = Slot::open(path, subtask, execution(1), UploadedFiles::default());
        let timers = slot.store.table(&state_id(), "timers", 0).unwrap();
        let mut delta = timers.delta();
        delta.put(KeyGroup(held.start), b"t", 5, b"timer");
        let snapshot = slot.store.freeze(
            CheckpointId(1),
            vec![delta, slot.put(&[(held.start, b"m", Some(b"main"))])],
        );
        let local = snapshot.persist(&slot.dir.join("cut")).unwrap();
        snapshots.push((held, slot.upload(&store, local).await.unwrap()));
    }
    let path = dir.path().join("merged");
    let (slot, _) = Slot::restored(&store, &snapshots, range(0, 1), path, 0, execution(2))
        .await
        .unwrap();
    let timers = slot.store.table(&state_id(), "timers", 0).unwrap();
    let groups: Vec<u16> = content(&timers).into_keys().map(|key| key.0).collect();
    assert_eq!(groups, [0, 6]);
    assert_eq!(slot.content().len(), 2);
    // The write time came along.
    let timer = timers.get(KeyGroup(6), b"t").unwrap().unwrap();
    assert_eq!(timer.written_at_ms, 5);
}

#[tokio::test]
async fn groups_that_no_snapshot_holds_are_named() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let snapshots = [
        (range(0, 3), KeyedSnapshot::Empty),
        (range(2, 3), KeyedSnapshot::Empty),
    ];
    let error = restore(&store, &layout(), &snapshots, range(0, 1), dir.path())
        .await
        .unwrap_err();
    assert!(
        matches!(error, StateError::Uncovered { missing: 4, .. }),
        "{error}"
    );
}
