//! Incremental checkpoints: what is uploaded, and that it comes back.

use object_store::{ObjectStore, memory::InMemory};

use super::*;

fn new_files(keyed: &KeyedSnapshot, checkpoint: u64) -> usize {
    keyed
        .shared_files()
        .iter()
        .filter(|file| file.id.checkpoint == CheckpointId(checkpoint))
        .count()
}

#[tokio::test]
async fn state_comes_back_and_only_new_files_are_sent() {
    let parent = tempfile::tempdir().unwrap();
    let url = format!("file://{}/objects", parent.path().display());
    let (local_files, _) = crate::storage::open(&url).unwrap();
    let stores: [&dyn ObjectStore; 2] = [&InMemory::new(), local_files.as_ref()];
    for store in stores {
        let dir = tempfile::tempdir().unwrap();
        let mut slot = Slot::new(&dir);
        let mut model = full_model();
        let first = slot.checkpoint(store, 1, &changes(&model)).await;
        assert_eq!((new_files(&first, 1), first.shared_files().len()), (1, 1));
        assert_eq!(first.new_bytes(), first.bytes());

        let second = slot
            .checkpoint(store, 2, &[(3, b"more", Some(b"x")), (0, &[0, 0], None)])
            .await;
        model.insert((3, b"more".to_vec()), b"x".to_vec());
        model.remove(&(0, vec![0, 0]));
        assert_eq!((new_files(&second, 2), second.shared_files().len()), (1, 2));
        assert!(second.new_bytes() < second.bytes());

        // Nothing changed: nothing new but RocksDB's metadata.
        let third = slot.checkpoint(store, 3, &[]).await;
        assert_eq!(third.shared_files(), second.shared_files());

        slot.store.compact();
        let fourth = slot.checkpoint(store, 4, &[]).await;
        assert_eq!((new_files(&fourth, 4), fourth.shared_files().len()), (1, 1));

        for (number, keyed) in [second, third, fourth].into_iter().enumerate() {
            let (mut restored, info) = Slot::restored(
                store,
                &[(range(0, 1), keyed.clone())],
                range(0, 1),
                dir.path().join(format!("restored-{number}")),
                0,
                execution(2),
            )
            .await
            .unwrap();
            assert_eq!(restored.content(), model);
            assert!(!restored.table.is_empty());
            assert!(info.reused_files);
            assert_eq!(info.bytes, keyed.bytes());
            // The files it started from are not sent again, and its own have its own names.
            let next = restored
                .checkpoint(store, 9, &[(1, b"own", Some(b"y"))])
                .await;
            assert_eq!(new_files(&next, 9), 1);
            assert_eq!(next.shared_files().len(), keyed.shared_files().len() + 1);
            for file in keyed.shared_files() {
                assert!(next.shared_files().contains(file));
            }
        }
    }
}

/// Files and savepoints larger than one request and one part.
#[tokio::test]
async fn large_state_goes_in_parts() {
    let parent = tempfile::tempdir().unwrap();
    let url = format!("file://{}/objects", parent.path().display());
    let (local_files, _) = crate::storage::open(&url).unwrap();
    let stores: [&dyn ObjectStore; 2] = [&InMemory::new(), local_files.as_ref()];
    let mut value = vec![0u8; 1 << 20];
    for store in stores {
        let dir = tempfile::tempdir().unwrap();
        let mut slot = Slot::new(&dir);
        let mut delta = slot.table.delta();
        let mut state = 1u64;
        for group in 0..40 {
            // Incompressible: a linear congruential generator's upper bits.
            value.iter_mut().for_each(|byte| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (state >> 56) as u8;
            });
            delta.put(KeyGroup(group % 12), &group.to_be_bytes(), 0, &value);
        }
        let local = slot.cut(1, delta);
        let keyed = slot.upload(store, local).await.unwrap();
        // One file is closed at 32 MiB.
        assert_eq!(keyed.shared_files().len(), 2);
        assert!(keyed.bytes() > 40 << 20);
        let savepoint = slot.savepoint(store, 1).await;
        let KeyedSnapshot::Canonical(canonical) = &savepoint else {
            panic!("{savepoint:?}");
        };
        assert_eq!(canonical.parts.len(), 2);
        let expected = slot.content();
        assert_eq!(expected.len(), 40);
        for (name, keyed) in [("checkpoint", keyed), ("savepoint", savepoint)] {
            let path = dir.path().join(name);
            let all = range(0, 1);
            let (restored, _) = Slot::restored(store, &[(all, keyed)], all, path, 0, execution(2))
                .await
                .unwrap();
            assert!(restored.content() == expected, "{name}");
        }
    }
}

#[tokio::test]
async fn an_empty_slot_needs_no_objects() {
    let dir = tempfile::tempdir().unwrap();
    let store = InMemory::new();
    let mut slot = Slot::new(&dir);
    let keyed = slot.checkpoint(&store, 1, &[]).await;
    assert_eq!(keyed, KeyedSnapshot::Empty);
    assert_eq!(slot.savepoint(&store, 1).await, KeyedSnapshot::Empty);
    assert_eq!(objects(&store).await, Vec::<String>::new());
    let (restored, _) = Slot::restored(
        &store,
        &[(range(0, 1), keyed)],
        range(0, 1),
        dir.path().join("restored"),
        0,
        execution(2),
    )
    .await
    .unwrap();
    assert!(restored.table.is_empty());
}

#[tokio::test]
async fn two_attempts_never_write_the_same_object() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let first = slot.checkpoint(&store, 1, &changes(&full_model())).await;
    let mut written = Vec::new();
    for attempt in [2, 3] {
        let before = objects(&store).await;
        let (mut restored, _) = Slot::restored(
            &store,
            &[(range(0, 1), first.clone())],
            range(0, 1),
            dir.path().join(format!("attempt-{attempt}")),
            0,
            execution(attempt),
        )
        .await
        .unwrap();
        restored
            .checkpoint(&store, 2, &[(1, b"k", Some(&[attempt as u8]))])
            .await;
        let after = objects(&store).await;
        let new: Vec<String> = after
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        // One sorted file, CURRENT and MANIFEST: none of them was there before.
        assert_eq!(new.len(), 3, "{new:?}");
        written.extend(new);
    }
    let count = written.len();
    written.sort();
    written.dedup();
    assert_eq!(written.len(), count);
}

#[tokio::test]
async fn files_of_another_job_are_not_referred_to() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    slot.checkpoint(&store, 1, &changes(&full_model())).await;
    let mut other = layout();
    other.job = JobId(Uuid::from_u128(77));
    let local = slot.cut(2, slot.table.delta());
    let keyed = upload_incremental(
        &store,
        &other,
        local,
        &mut slot.uploads,
        CheckpointId(2),
        execution(1),
        SubtaskIndex(0),
    )
    .await
    .unwrap();
    assert_eq!(new_files(&keyed, 2), keyed.shared_files().len());
    restore(
        &store,
        &other,
        &[(range(0, 1), keyed)],
        range(0, 1),
        &dir.path().join("r"),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn local_snapshots_leave_nothing_behind() {
    let store = InMemory::new();
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let local = slot.cut(1, slot.put(&[(0, b"a", Some(b"1"))]));
    let cut = local.dir().to_path_buf();
    assert!(cut.join("CURRENT").exists());
    slot.upload(&store, local).await.unwrap();
    assert!(!cut.exists());
    // A half-made one in the way is replaced.
    std::fs::create_dir_all(cut.join("junk")).unwrap();
    let local = slot.cut(1, slot.table.delta());
    assert!(!local.dir().join("junk").exists());
}

/// The engine's worker spawns these.
#[test]
fn futures_can_be_spawned() {
    fn send<T: Send>(_: T) {}
    let dir = tempfile::tempdir().unwrap();
    let store = InMemory::new();
    let slot = Slot::new(&dir);
    let mut uploads = UploadedFiles::default();
    let layout = layout();
    let cut = || slot.cut(1, slot.put(&[(0, b"a", Some(b"1"))]));
    send(upload_incremental(
        &store,
        &layout,
        cut(),
        &mut uploads,
        CheckpointId(1),
        execution(1),
        SubtaskIndex(0),
    ));
    send(write_canonical(
        &store,
        &layout,
        cut(),
        SavepointId(1),
        execution(1),
        SubtaskIndex(0),
    ));
    send(restore(&store, &layout, &[], range(0, 1), dir.path()));
    send(crate::garbage::sweep(&store, &layout, &[], CheckpointId(1)));
    send(slot.store.freeze(CheckpointId(2), vec![]));
}
