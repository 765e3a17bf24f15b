//! Canonical savepoints: complete, independent of RocksDB's files, readable at any parallelism.

use object_store::{ObjectStoreExt, memory::InMemory};

use super::*;

#[tokio::test]
async fn a_savepoint_comes_back_at_any_parallelism() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let model = full_model();
    let mut snapshots = Vec::new();
    for subtask in 0..2 {
        let held = range(subtask, 2);
        let path = dir.path().join(format!("from-{subtask}"));
        let mut slot = Slot::open(path, subtask, execution(1), UploadedFiles::default());
        let own = within(&model, held);
        slot.checkpoint(&store, 1, &changes(&own)).await;
        snapshots.push((held, slot.savepoint(&store, 1).await));
    }
    // It must not need anything but its own directory.
    for name in objects(&store).await {
        if !name.contains("/savepoint-1/") {
            store.delete(&Path::from(name)).await.unwrap();
        }
    }
    assert_eq!(objects(&store).await.len(), 2);
    for parallelism in [1, 2, 3, 12] {
        for subtask in 0..parallelism {
            let held = range(subtask, parallelism);
            let path = dir.path().join(format!("to-{parallelism}-{subtask}"));
            let (mut slot, info) =
                Slot::restored(&store, &snapshots, held, path, subtask, execution(2))
                    .await
                    .unwrap();
            assert_eq!(
                slot.content(),
                within(&model, held),
                "{subtask} of {parallelism}"
            );
            assert!(info.uploads.is_empty());
            let keyed = slot.checkpoint(&store, 50, &[]).await;
            assert_eq!(keyed.new_bytes(), keyed.bytes());
        }
    }
}

#[tokio::test]
async fn expired_entries_go_along() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    let mut delta = slot.table.delta();
    delta.put(KeyGroup(0), b"old", 0, b"v");
    slot.cut(1, delta);
    slot.store.set_now_ms(1_000);
    slot.store.table(&state_id(), "main", 10).unwrap();
    assert_eq!(slot.content(), Model::new());
    let keyed = slot.savepoint(&store, 1).await;
    let all = range(0, 1);
    let path = dir.path().join("restored");
    let (restored, _) = Slot::restored(&store, &[(all, keyed)], all, path, 0, execution(2))
        .await
        .unwrap();
    assert_eq!(restored.get(0, b"old"), Some(b"v".to_vec()));
}
