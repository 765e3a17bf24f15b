//! Tests over the whole crate, on real RocksDB and real object stores in temporary directories.

mod faults;
mod flaky_store;
mod garbage;
mod manifest;
mod overlay;
mod rescale;
mod savepoint;
mod scan;
mod snapshots;
mod ttl;

use std::{collections::BTreeMap, path::PathBuf};

use millrace_dataflow::{KeyGroup, KeyGroupRange, StateId};
use millrace_types::{CheckpointId, ExecutionId, JobId, SavepointId, SubtaskIndex, TenantName};
use object_store::{ObjectStore, path::Path};
use uuid::Uuid;

use crate::{
    Delta, KeyedSnapshot, Layout, LocalSnapshot, RestoredInfo, SlotStore, StateBudget, StateError,
    Table, UploadedFiles, restore, upload_incremental, write_canonical,
};

/// Key groups of the tests' jobs.
const MAX_PARALLELISM: u32 = 12;

/// What a table should hold.
type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

/// Key group, key, and value or deletion.
type Change<'a> = (u16, &'a [u8], Option<&'a [u8]>);

fn state_id() -> StateId {
    StateId("group-aggregate-0a1b2c".into())
}

fn layout() -> Layout {
    Layout::new(
        Path::from("root"),
        TenantName::new("default").unwrap(),
        JobId(Uuid::from_u128(1)),
    )
}

fn execution(number: u128) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number))
}

fn range(subtask: u32, parallelism: u32) -> KeyGroupRange {
    KeyGroupRange::of_subtask(subtask, parallelism, MAX_PARALLELISM)
}

/// A slot of one attempt, as a worker keeps it.
struct Slot {
    dir: PathBuf,
    subtask: u32,
    execution: ExecutionId,
    store: SlotStore,
    table: Table,
    uploads: UploadedFiles,
}

impl Slot {
    fn open(dir: PathBuf, subtask: u32, execution: ExecutionId, uploads: UploadedFiles) -> Slot {
        let budget = StateBudget::new(8 << 20);
        let store = SlotStore::create(&dir.join("state"), &budget).unwrap();
        let table = store.table(&state_id(), "main", 0).unwrap();
        Slot {
            dir,
            subtask,
            execution,
            store,
            table,
            uploads,
        }
    }

    fn new(dir: &tempfile::TempDir) -> Slot {
        Slot::open(
            dir.path().to_path_buf(),
            0,
            execution(1),
            UploadedFiles::default(),
        )
    }

    /// The state that `snapshots` hold for this subtask.
    async fn restored(
        objects: &dyn ObjectStore,
        snapshots: &[(KeyGroupRange, KeyedSnapshot)],
        range: KeyGroupRange,
        dir: PathBuf,
        subtask: u32,
        execution: ExecutionId,
    ) -> Result<(Slot, RestoredInfo), StateError> {
        let state = dir.join("state");
        let info = restore(objects, &layout(), snapshots, range, &state).await?;
        let slot = Slot::open(dir, subtask, execution, info.uploads.clone());
        Ok((slot, info))
    }

    fn put(&self, changes: &[Change<'_>]) -> Delta {
        let mut delta = self.table.delta();
        for (group, key, value) in changes {
            match value {
                Some(value) => delta.put(KeyGroup(*group), key, 0, value),
                None => delta.delete(KeyGroup(*group), key),
            }
        }
        delta
    }

    fn cut(&self, checkpoint: u64, delta: Delta) -> LocalSnapshot {
        self.store
            .freeze(CheckpointId(checkpoint), vec![delta])
            .persist(&self.dir.join(format!("chk-{checkpoint}")))
            .unwrap()
    }

    async fn upload(
        &mut self,
        objects: &dyn ObjectStore,
        local: LocalSnapshot,
    ) -> Result<KeyedSnapshot, StateError> {
        let checkpoint = local.checkpoint();
        upload_incremental(
            objects,
            &layout(),
            local,
            &mut self.uploads,
            checkpoint,
            self.execution,
            SubtaskIndex(self.subtask),
        )
        .await
    }

    async fn checkpoint(
        &mut self,
        objects: &dyn ObjectStore,
        checkpoint: u64,
        changes: &[Change<'_>],
    ) -> KeyedSnapshot {
        let local = self.cut(checkpoint, self.put(changes));
        self.upload(objects, local).await.unwrap()
    }

    async fn savepoint(&self, objects: &dyn ObjectStore, savepoint: u64) -> KeyedSnapshot {
        let local = self.cut(1_000, self.table.delta());
        write_canonical(
            objects,
            &layout(),
            local,
            SavepointId(savepoint),
            self.execution,
            SubtaskIndex(self.subtask),
        )
        .await
        .unwrap()
    }

    fn get(&self, group: u16, key: &[u8]) -> Option<Vec<u8>> {
        let value = self.table.get(KeyGroup(group), key).unwrap();
        value.map(|value| value.payload)
    }

    fn content(&self) -> Model {
        content(&self.table)
    }
}

/// Everything in a table; checks that a scan is in key order.
fn content(table: &Table) -> Model {
    let mut found = Vec::new();
    table
        .scan(&mut |group, key, value| {
            found.push(((group.0, key.to_vec()), value.payload));
            Ok(())
        })
        .unwrap();
    assert!(
        found.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{found:?}"
    );
    found.into_iter().collect()
}

/// Five entries in every key group.
fn full_model() -> Model {
    let mut model = Model::new();
    for group in 0..MAX_PARALLELISM as u16 {
        for key in 0u8..5 {
            model.insert((group, vec![key, 0]), vec![group as u8, key, 9]);
        }
    }
    model
}

fn within(model: &Model, range: KeyGroupRange) -> Model {
    model
        .iter()
        .filter(|((group, _), _)| range.contains(KeyGroup(*group)))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn changes(model: &Model) -> Vec<Change<'_>> {
    model
        .iter()
        .map(|((group, key), value)| (*group, key.as_slice(), Some(value.as_slice())))
        .collect()
}

/// The names of the objects in a store, sorted.
async fn objects(store: &dyn ObjectStore) -> Vec<String> {
    use futures::TryStreamExt;
    let mut names: Vec<String> = store
        .list(None)
        .map_ok(|object| object.location.to_string())
        .try_collect()
        .await
        .unwrap();
    names.sort();
    names
}
