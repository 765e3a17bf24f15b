//! The snapshot pipeline of a slot: uploads, aborts, failures.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use millrace_dataflow::{KeyGroup, StateId};
use millrace_state::{SlotStore, StateBudget, storage};
use millrace_types::{JobId, SavepointId, TenantName};
use tonic::Status;
use uuid::Uuid;

use super::*;

struct Fixture {
    _dir: tempfile::TempDir,
    store: SlotStore,
    pipeline: SnapshotPipeline,
    events: BoxStream<'static, Result<v1::WorkerEvent, Status>>,
    scratch: PathBuf,
}

const RANGE: KeyGroupRange = KeyGroupRange { start: 0, end: 8 };

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().join("storage").display());
        let (object_store, root) = storage::open(&url).unwrap();
        let events = EventHub::new(100);
        let scratch = dir.path().join("local/snapshots");
        let target = SnapshotTarget {
            store: object_store,
            layout: Layout::new(
                root,
                TenantName::new("default").unwrap(),
                JobId(Uuid::from_u128(1)),
            ),
            execution: ExecutionId(Uuid::from_u128(2)),
            scratch: scratch.clone(),
            uploads: Arc::new(Semaphore::new(1)),
            events: Arc::clone(&events),
        };
        let store = SlotStore::create(&dir.path().join("local/slot-3"), &StateBudget::new(8 << 20))
            .unwrap();
        let pipeline =
            SnapshotPipeline::spawn(target, SubtaskIndex(3), RANGE, UploadedFiles::default());
        let events = events.attach(v1::Status::default());
        Fixture {
            _dir: dir,
            store,
            pipeline,
            events,
            scratch,
        }
    }

    fn submit(&self, checkpoint: u64, savepoint: Option<SavepointId>) {
        let state_id = StateId("s".into());
        let table = self.store.table(&state_id, "t", 0).unwrap();
        let mut delta = table.delta();
        delta.put(KeyGroup(1), &checkpoint.to_be_bytes(), 0, &[7; 100]);
        self.pipeline.submit(TakenSnapshot {
            barrier: BarrierInfo {
                checkpoint: CheckpointId(checkpoint),
                savepoint,
                stop_after: false,
            },
            keyed: self.store.freeze(CheckpointId(checkpoint), vec![delta]),
            operator_state: vec![OperatorStateItem {
                state_id,
                name: "n".into(),
                items: vec![vec![1, 2, 3]],
            }],
            timings: SnapshotTimings {
                alignment_ms: 11,
                pause_ms: 12,
            },
        });
    }

    async fn next(&mut self) -> Event {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(20), self.events.next()).await;
            let event = event.unwrap().unwrap().unwrap().event.unwrap();
            if !matches!(event, Event::Status(_)) {
                return event;
            }
        }
    }

    async fn ack(&mut self) -> (v1::CheckpointAck, SlotSnapshot) {
        match self.next().await {
            Event::CheckpointAck(ack) => {
                let slot = serde_json::from_str(&ack.slot_snapshot_json).unwrap();
                (ack, slot)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn checkpoints_are_acknowledged_and_upload_only_what_is_new() {
    let mut fixture = Fixture::new();
    fixture.submit(1, None);
    let (first, slot) = fixture.ack().await;
    assert_eq!((first.checkpoint_id, first.subtask), (1, 3));
    assert_eq!((first.alignment_ms, first.pause_ms), (11, 12));
    assert_eq!(first.full_bytes, first.uploaded_bytes);
    assert_eq!((slot.subtask, slot.key_groups), (SubtaskIndex(3), RANGE));
    assert_eq!(slot.operator_state[0].items, [[1, 2, 3]]);
    assert_eq!(first.full_bytes, slot.keyed.bytes() + 3);

    fixture.submit(2, None);
    let (second, slot) = fixture.ack().await;
    assert_eq!(slot.keyed.shared_files().len(), 2);
    assert!(second.uploaded_bytes < second.full_bytes, "{second:?}");
    // The local copies are gone.
    let left: Vec<_> = std::fs::read_dir(&fixture.scratch).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn savepoints_are_canonical() {
    let mut fixture = Fixture::new();
    fixture.submit(1, Some(SavepointId(5)));
    let (_, slot) = fixture.ack().await;
    assert!(
        matches!(slot.keyed, KeyedSnapshot::Canonical(_)),
        "{slot:?}"
    );
}

#[tokio::test]
async fn a_checkpoint_that_is_given_up_is_not_acknowledged_and_its_changes_go_with_the_next() {
    let mut fixture = Fixture::new();
    fixture.pipeline.abort(CheckpointId(1));
    fixture.submit(1, None);
    fixture.submit(2, None);
    let (ack, slot) = fixture.ack().await;
    assert_eq!(ack.checkpoint_id, 2);
    assert_eq!(slot.keyed.shared_files().len(), 2, "both deltas");
    // An abort of the past changes nothing.
    fixture.pipeline.abort(CheckpointId(1));
    fixture.submit(3, None);
    assert_eq!(fixture.ack().await.0.checkpoint_id, 3);
}

#[tokio::test]
async fn a_failure_says_what_could_not_be_done() {
    let mut fixture = Fixture::new();
    // A file where the directory of snapshots should be.
    std::fs::write(&fixture.scratch, b"").unwrap();
    fixture.submit(1, None);
    match fixture.next().await {
        Event::CheckpointFailed(failed) => {
            assert_eq!((failed.checkpoint_id, failed.subtask), (1, 3));
            assert!(failed.reason.contains("snapshots"), "{}", failed.reason);
        }
        other => panic!("{other:?}"),
    }
    // The pipeline goes on.
    std::fs::remove_file(&fixture.scratch).unwrap();
    fixture.submit(2, None);
    assert_eq!(fixture.ack().await.0.checkpoint_id, 2);
}
