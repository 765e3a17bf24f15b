//! Failing uploads, missing and damaged objects, interrupted restores.

use std::sync::atomic::Ordering;

use object_store::{ObjectStoreExt, PutPayload, memory::InMemory};

use super::{flaky_store::FlakyStore, *};

#[tokio::test]
async fn a_failed_upload_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    // Six disjoint files.
    for group in 0..6 {
        drop(slot.cut(1, slot.put(&[(group, b"k", Some(b"v"))])));
    }
    let files = slot.cut(2, slot.table.delta()).sorted_files.len();
    for allowed in 0..files {
        let store = FlakyStore::new(allowed);
        slot.uploads = UploadedFiles::default();
        let local = slot.cut(3, slot.table.delta());
        let error = slot.upload(&store, local).await.unwrap_err();
        assert!(matches!(error, StateError::Storage { .. }), "{error}");
        // Never a file that is not there; those put may be known or not (they were concurrent).
        assert!(slot.uploads.len() <= allowed);
        let known = slot.uploads.len();

        store.allowed.store(usize::MAX, Ordering::SeqCst);
        store.puts.store(0, Ordering::SeqCst);
        let local = slot.cut(4, slot.table.delta());
        let keyed = slot.upload(&store, local).await.unwrap();
        assert_eq!(keyed.shared_files().len(), files);
        // CURRENT and MANIFEST besides.
        let sent = store.puts.load(Ordering::SeqCst);
        assert_eq!(sent, files - known + 2);
        let path = dir.path().join(format!("restored-{allowed}"));
        let all = range(0, 1);
        let (restored, _) = Slot::restored(&store, &[(all, keyed)], all, path, 0, execution(2))
            .await
            .unwrap();
        assert_eq!(restored.content(), slot.content());
    }
}

#[tokio::test]
async fn a_failed_savepoint_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    let local = slot.cut(1, slot.put(&changes(&full_model())));
    let error = write_canonical(
        &FlakyStore::new(0),
        &layout(),
        local,
        SavepointId(1),
        execution(1),
        SubtaskIndex(0),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, StateError::Storage { .. }), "{error}");
}

#[tokio::test]
async fn damage_and_loss_are_named() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let checkpoint = slot.checkpoint(&store, 7, &changes(&full_model())).await;
    let savepoint = slot.savepoint(&store, 1).await;
    let state = dir.path().join("restored");
    let both_ways = [
        (
            checkpoint,
            "checkpoint 7",
            ["/shared/", "CURRENT", "MANIFEST"],
        ),
        (savepoint, "savepoint 1", [".state"; 3]),
    ];
    for (keyed, needed_by, objects_of_it) in both_ways {
        for pattern in objects_of_it {
            let names = objects(&store).await;
            let name = names.iter().find(|name| name.contains(pattern)).unwrap();
            let path = Path::from(name.as_str());
            let content = store.get(&path).await.unwrap().bytes().await.unwrap();
            let restore_it = async || {
                let snapshots = [(range(0, 1), keyed.clone())];
                let error = restore(&store, &layout(), &snapshots, range(0, 1), &state)
                    .await
                    .unwrap_err();
                // And nothing of it is taken for state afterwards.
                let budget = StateBudget::new(1 << 20);
                assert!(
                    SlotStore::create(&state, &budget)
                        .unwrap()
                        .tables()
                        .is_empty()
                );
                error
            };

            let mut flipped = content.to_vec();
            let middle = flipped.len() / 2;
            flipped[middle] ^= 1;
            store.put(&path, PutPayload::from(flipped)).await.unwrap();
            let error = restore_it().await;
            assert!(matches!(error, StateError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");

            let short = content.slice(..content.len() - 1);
            store.put(&path, PutPayload::from(short)).await.unwrap();
            let error = restore_it().await;
            assert!(matches!(error, StateError::Corrupt { .. }), "{error}");

            store.delete(&path).await.unwrap();
            let error = restore_it().await;
            assert!(matches!(error, StateError::MissingObject { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(needed_by), "{text}");

            store.put(&path, PutPayload::from(content)).await.unwrap();
        }
        let snapshots = [(range(0, 1), keyed)];
        restore(&store, &layout(), &snapshots, range(0, 1), &state)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn file_names_in_a_manifest_stay_in_the_directory() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let keyed = slot.checkpoint(&store, 1, &changes(&full_model())).await;
    let KeyedSnapshot::Incremental(keyed) = keyed else {
        panic!("{keyed:?}");
    };
    for name in [
        "../x.sst",
        "/etc/1.sst",
        ".sst",
        "MANIFEST-",
        "OPTIONS-1",
        "a.sst",
    ] {
        let mut spoilt = keyed.clone();
        spoilt.files[0].name = name.into();
        let snapshots = [(range(0, 1), KeyedSnapshot::Incremental(spoilt))];
        let state = dir.path().join("restored");
        let error = restore(&store, &layout(), &snapshots, range(0, 1), &state)
            .await
            .unwrap_err();
        assert!(
            matches!(error, StateError::Corrupt { .. }),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn a_restore_that_was_cut_short_leaves_no_state() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let keyed = slot.checkpoint(&store, 1, &changes(&full_model())).await;
    let state = dir.path().join("restored");
    let snapshots = [(range(0, 1), keyed)];
    restore(&store, &layout(), &snapshots, range(0, 1), &state)
        .await
        .unwrap();
    // All files are there, but the attempt died before it said that it was done.
    std::fs::remove_file(state.join("RESTORED")).unwrap();
    let opened = SlotStore::create(&state, &StateBudget::new(1 << 20)).unwrap();
    assert!(opened.tables().is_empty());
    drop(opened);
    // A later restore starts over.
    restore(&store, &layout(), &snapshots, range(0, 1), &state)
        .await
        .unwrap();
    let opened = SlotStore::create(&state, &StateBudget::new(1 << 20)).unwrap();
    let table = opened.table(&state_id(), "main", 0).unwrap();
    assert_eq!(content(&table), full_model());
}
