//! Manifests: the stored format, the fence, the checks.

use millrace_types::Fingerprint;
use object_store::{ObjectStoreExt, PutPayload, memory::InMemory};

use super::*;
use crate::{
    CanonicalPart, CanonicalSnapshot, IncrementalSnapshot, MetadataFile, OperatorStateItem,
    SharedFile, SlotSnapshot, SnapshotKind, SnapshotManifest, manifest,
};

/// What `testdata/manifest-v1.json` says. That file is never changed: snapshots in this format
/// exist.
pub(super) fn sample() -> SnapshotManifest {
    let shared = |number, checkpoint: u64, bytes, crc32| SharedFile {
        id: format!("00000000-0000-0000-0000-00000000000a-0-{checkpoint}-{number:06}")
            .parse()
            .unwrap(),
        name: format!("{number:06}.sst"),
        bytes,
        crc32,
    };
    SnapshotManifest {
        format: 1,
        tenant: TenantName::new("default").unwrap(),
        job: JobId(Uuid::from_u128(1)),
        checkpoint: CheckpointId(7),
        kind: SnapshotKind::Checkpoint,
        created_at_ms: 1_764_504_000_123,
        execution: execution(10),
        fingerprint: Fingerprint("5f2b".into()),
        parallelism: 3,
        max_parallelism: 12,
        key_encoding: 1,
        slots: vec![
            SlotSnapshot {
                subtask: SubtaskIndex(0),
                key_groups: range(0, 3),
                keyed: KeyedSnapshot::Incremental(IncrementalSnapshot {
                    checkpoint: CheckpointId(7),
                    directory: format!("{}-0", execution(10)),
                    files: vec![shared(9, 5, 1_000, 1), shared(12, 7, 2_000, 4_294_967_295)],
                    metadata: vec![MetadataFile {
                        name: "CURRENT".into(),
                        bytes: 16,
                        crc32: 2,
                    }],
                }),
                operator_state: vec![OperatorStateItem {
                    state_id: StateId("source-0a1b".into()),
                    name: "splits".into(),
                    items: vec![b"hello".to_vec(), vec![0, 255]],
                }],
            },
            SlotSnapshot {
                subtask: SubtaskIndex(1),
                key_groups: range(1, 3),
                keyed: KeyedSnapshot::Canonical(CanonicalSnapshot {
                    savepoint: SavepointId(2),
                    parts: vec![CanonicalPart {
                        file: "x.state".into(),
                        entries: 3,
                        bytes: 77,
                        crc32: 9,
                    }],
                }),
                operator_state: vec![],
            },
            SlotSnapshot {
                subtask: SubtaskIndex(2),
                key_groups: range(2, 3),
                keyed: KeyedSnapshot::Empty,
                operator_state: vec![],
            },
        ],
    }
}

#[tokio::test]
async fn version_1_is_read_and_written_as_ever() {
    let stored = include_bytes!("../../testdata/manifest-v1.json");
    let store = InMemory::new();
    let path = layout().checkpoint_manifest(CheckpointId(7));
    store
        .put(&path, PutPayload::from_static(stored))
        .await
        .unwrap();
    let read = manifest::read(&store, &path).await.unwrap();
    assert_eq!(read, sample());
    assert_eq!(read.state_bytes(), 3_016 + 77);

    let written = serde_json::to_value(sample()).unwrap();
    let stored: serde_json::Value = serde_json::from_slice(stored).unwrap();
    assert_eq!(written, stored);
}

#[tokio::test]
async fn the_first_to_write_a_manifest_wins() {
    let parent = tempfile::tempdir().unwrap();
    let url = format!("file://{}/objects", parent.path().display());
    let (local_files, _) = crate::storage::open(&url).unwrap();
    let stores: [&dyn ObjectStore; 2] = [&InMemory::new(), local_files.as_ref()];
    for store in stores {
        let first = sample();
        manifest::write(store, &layout(), &first).await.unwrap();
        // A repetition is the same, another attempt is not.
        manifest::write(store, &layout(), &first).await.unwrap();
        let mut zombie = sample();
        zombie.execution = execution(11);
        let error = manifest::write(store, &layout(), &zombie)
            .await
            .unwrap_err();
        assert!(matches!(error, StateError::Fenced { .. }), "{error}");
        let path = first.path(&layout());
        assert_eq!(manifest::read(store, &path).await.unwrap(), first);
        // A savepoint of the same barrier is another object.
        let mut savepoint = sample();
        savepoint.kind = SnapshotKind::Savepoint(SavepointId(1));
        manifest::write(store, &layout(), &savepoint).await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_a_manifest_is_refused() {
    type Spoil = fn(&mut serde_json::Value);
    let cases: [(&str, Spoil); 7] = [
        ("manifest format 2", |m| m["format"] = 2.into()),
        ("key encoding 9", |m| m["key_encoding"] = 9.into()),
        ("missing field `slots`", |m| {
            m.as_object_mut().unwrap().remove("slots");
        }),
        ("up to 8, not 12", |m| {
            m["slots"].as_array_mut().unwrap().pop();
        }),
        ("up to 0, not 12", |m| {
            m["slots"][0]["key_groups"]["start"] = 1.into();
        }),
        ("subtask 1 twice", |m| m["slots"][2]["subtask"] = 1.into()),
        ("not a file id", |m| {
            m["slots"][0]["keyed"]["files"][0]["id"] = "../../x".into();
        }),
    ];
    let store = InMemory::new();
    let path = Path::from("m.json");
    for (reason, spoil) in cases {
        let mut json = serde_json::to_value(sample()).unwrap();
        spoil(&mut json);
        let content = serde_json::to_vec(&json).unwrap();
        store.put(&path, PutPayload::from(content)).await.unwrap();
        let error = manifest::read(&store, &path).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    store
        .put(&path, PutPayload::from_static(b"{"))
        .await
        .unwrap();
    let error = manifest::read(&store, &path).await.unwrap_err();
    assert!(matches!(error, StateError::Corrupt { .. }), "{error}");
    store.delete(&path).await.unwrap();
    let error = manifest::read(&store, &path).await.unwrap_err();
    assert!(matches!(error, StateError::MissingObject { .. }), "{error}");
}
