//! Frozen deltas over RocksDB: what is read is what was last written, at every moment.

use proptest::prelude::*;

use super::*;
use crate::{FrozenSnapshot, Spill};

#[test]
fn frozen_deltas_are_read_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    assert!(slot.table.is_empty());
    let freeze = |checkpoint, changes: &[Change<'_>]| {
        let delta = slot.put(changes);
        slot.store.freeze(CheckpointId(checkpoint), vec![delta])
    };
    let first = freeze(
        1,
        &[
            (1, b"a", Some(b"1")),
            (1, b"b", Some(b"1")),
            (2, b"a", Some(b"1")),
        ],
    );
    assert!(!slot.table.is_empty());
    let second = freeze(2, &[(1, b"a", None), (1, b"c", Some(b"2"))]);
    let third = freeze(3, &[(1, b"a", Some(b"3")), (2, b"a", None)]);
    let expected: Model = [
        ((1, b"a".to_vec()), b"3".to_vec()),
        ((1, b"b".to_vec()), b"1".to_vec()),
        ((1, b"c".to_vec()), b"2".to_vec()),
    ]
    .into();
    let check = || {
        assert_eq!(slot.content(), expected);
        let keys: [(KeyGroup, &[u8]); 5] = [
            (KeyGroup(2), b"a"),
            (KeyGroup(1), b"c"),
            (KeyGroup(1), b"a"),
            (KeyGroup(9), b"a"),
            (KeyGroup(1), b"b"),
        ];
        let found = slot.table.multi_get(&keys).unwrap();
        let found: Vec<_> = found.into_iter().map(|v| v.map(|v| v.payload)).collect();
        let payload = |text: &[u8]| Some(text.to_vec());
        assert_eq!(
            found,
            [None, payload(b"2"), payload(b"3"), None, payload(b"1")]
        );
        for (group, key) in keys {
            let single = slot.get(group.0, key);
            assert_eq!(single, expected.get(&(group.0, key.to_vec())).cloned());
        }
    };
    check();
    for snapshot in [first, second, third] {
        snapshot.persist(&dir.path().join("cut")).unwrap();
        check();
    }
}

#[test]
fn the_last_write_in_a_delta_wins() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    // Keys that share their first sixteen bytes, or differ only in trailing zeros.
    let long = [7u8; 20];
    let longer = [7u8; 21];
    let delta = slot.put(&[
        (0, b"k", Some(b"old")),
        (0, b"k\0", Some(b"zero")),
        (0, &longer, Some(b"longer")),
        (0, &long, Some(b"x")),
        (0, b"gone", Some(b"x")),
        (0, b"k", None),
        (0, &long, Some(b"long")),
        (0, b"k", Some(b"new")),
        (0, b"gone", None),
        (0, b"", Some(b"")),
    ]);
    let frozen = slot.store.freeze(CheckpointId(1), vec![delta]);
    let expected: Model = [
        ((0, vec![]), vec![]),
        ((0, long.to_vec()), b"long".to_vec()),
        ((0, longer.to_vec()), b"longer".to_vec()),
        ((0, b"k".to_vec()), b"new".to_vec()),
        ((0, b"k\0".to_vec()), b"zero".to_vec()),
    ]
    .into();
    assert_eq!(slot.content(), expected);
    assert_eq!(slot.get(0, b"gone"), None);
    frozen.persist(&dir.path().join("cut")).unwrap();
    assert_eq!(slot.content(), expected);
    assert_eq!(slot.get(0, b"gone"), None);
    assert_eq!(slot.get(0, b""), Some(vec![]));
}

#[test]
fn a_snapshot_that_was_overtaken_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    let freeze = |n, value: &[u8]| {
        let delta = slot.put(&[(0, b"k", Some(value))]);
        slot.store.freeze(CheckpointId(n), vec![delta])
    };
    let first = freeze(1, b"1");
    let second = freeze(2, b"2");
    second.persist(&dir.path().join("2")).unwrap();
    let error = first.persist(&dir.path().join("1")).unwrap_err();
    assert!(
        matches!(
            error,
            StateError::Superseded {
                checkpoint: CheckpointId(1)
            }
        ),
        "{error}"
    );
    assert_eq!(slot.get(0, b"k"), Some(b"2".to_vec()));
}

#[tokio::test]
async fn a_snapshot_given_up_goes_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let objects = object_store::memory::InMemory::new();
    drop(slot.store.freeze(
        CheckpointId(1),
        vec![slot.put(&[(0, b"a", Some(b"1")), (0, b"b", Some(b"1"))])],
    ));
    let keyed = slot.checkpoint(&objects, 2, &[(0, b"b", Some(b"2"))]).await;
    let other = dir.path().join("other");
    let (restored, _) = Slot::restored(
        &objects,
        &[(range(0, 1), keyed)],
        range(0, 1),
        other,
        0,
        execution(2),
    )
    .await
    .unwrap();
    assert_eq!(restored.content(), slot.content());
    assert_eq!(restored.get(0, b"a"), Some(b"1".to_vec()));
}

#[tokio::test]
async fn a_spill_stays_behind_a_snapshot_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let mut slot = Slot::new(&dir);
    let objects = object_store::memory::InMemory::new();
    let first = slot
        .store
        .freeze(CheckpointId(1), vec![slot.put(&[(0, b"a", Some(b"1"))])]);
    for round in 0..2 {
        let after = slot.put(&[(0, b"a", Some(b"2")), (0, b"b", Some(b"2"))]);
        slot.store.spill(vec![after]).write().unwrap();
        assert_eq!(slot.get(0, b"a"), Some(b"2".to_vec()), "round {round}");
    }
    let local = first.persist(&dir.path().join("cut")).unwrap();
    let keyed = slot.upload(&objects, local).await.unwrap();
    let all = range(0, 1);
    let (restored, _) = Slot::restored(
        &objects,
        &[(all, keyed)],
        all,
        dir.path().join("other"),
        0,
        execution(2),
    )
    .await
    .unwrap();
    assert_eq!(
        restored.content(),
        Model::from([((0, b"a".to_vec()), b"1".to_vec())])
    );
    let keyed = slot.checkpoint(&objects, 2, &[]).await;
    let (restored, _) = Slot::restored(
        &objects,
        &[(all, keyed)],
        all,
        dir.path().join("third"),
        0,
        execution(3),
    )
    .await
    .unwrap();
    assert_eq!(restored.content(), slot.content());
    assert_eq!(restored.get(0, b"b"), Some(b"2".to_vec()));
}

#[test]
fn what_a_dead_slot_left_is_not_state() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    slot.cut(1, slot.put(&[(0, b"a", Some(b"1"))]));
    drop(slot);
    let again = Slot::new(&dir);
    assert!(again.table.is_empty());
    assert_eq!(again.content(), Model::new());
    assert_eq!(again.store.tables(), ["group-aggregate-0a1b2c/main"]);
}

#[test]
fn tables_are_apart_and_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    let timers = slot.store.table(&state_id(), "timers", 0).unwrap();
    let mut delta = timers.delta();
    delta.put(KeyGroup(0), b"a", 0, b"timer");
    let snapshot = slot.store.freeze(
        CheckpointId(1),
        vec![slot.put(&[(0, b"a", Some(b"main"))]), delta],
    );
    snapshot.persist(&dir.path().join("cut")).unwrap();
    assert_eq!(slot.get(0, b"a"), Some(b"main".to_vec()));
    assert_eq!(content(&timers).len(), 1);
    // Frozen and not yet written when its table goes.
    let mut late = timers.delta();
    late.put(KeyGroup(0), b"b", 0, b"late");
    let snapshot = slot.store.freeze(
        CheckpointId(2),
        vec![late, slot.put(&[(0, b"b", Some(b"main"))])],
    );
    slot.store
        .drop_table("group-aggregate-0a1b2c/timers")
        .unwrap();
    slot.store.drop_table("never-there").unwrap();
    snapshot.persist(&dir.path().join("cut")).unwrap();
    assert_eq!(slot.store.tables(), ["group-aggregate-0a1b2c/main"]);
    assert_eq!(slot.get(0, b"b"), Some(b"main".to_vec()));
    let again = slot.store.table(&state_id(), "timers", 0).unwrap();
    assert!(again.is_empty());
}

#[test]
fn a_range_scan_stays_in_its_group_and_range() {
    let dir = tempfile::tempdir().unwrap();
    let slot = Slot::new(&dir);
    slot.cut(
        1,
        slot.put(&[
            (0, b"b", Some(b"db")),
            (1, b"a", Some(b"db")),
            (1, b"b", Some(b"db")),
            (1, b"b\0", Some(b"db")),
            (1, b"c", Some(b"db")),
            (1, b"d", Some(b"db")),
            (2, b"b", Some(b"db")),
        ]),
    );
    // Frozen only: replaces one, deletes one, adds one within the range and two outside.
    let frozen = slot.store.spill(vec![slot.put(&[
        (0, b"c", Some(b"new")),
        (1, b"b", Some(b"new")),
        (1, b"b\0", None),
        (1, b"bb", Some(b"new")),
        (1, b"d", Some(b"new")),
    ])]);
    let scan = |from: &[u8], to: &[u8]| {
        let mut found = Vec::new();
        slot.table
            .scan_range(KeyGroup(1), from..to, &mut |group, key, value| {
                assert_eq!(group, KeyGroup(1));
                let value = String::from_utf8(value.payload).unwrap();
                found.push(format!("{} {value}", String::from_utf8_lossy(key)));
                Ok(())
            })
            .unwrap();
        found
    };
    let check = || {
        assert_eq!(scan(b"b", b"d"), ["b new", "bb new", "c db"]);
        assert_eq!(scan(b"", b"b"), ["a db"]);
        assert_eq!(scan(b"d", b"\xFF"), ["d new"]);
        assert_eq!(scan(b"x", b"z"), [""; 0]);
        assert_eq!(scan(b"d", b"b"), [""; 0]);
    };
    check();
    frozen.write().unwrap();
    check();
}

#[derive(Debug, Clone)]
enum Step {
    Freeze(Vec<(u16, u8, Option<u8>)>),
    Spill(Vec<(u16, u8, Option<u8>)>),
    PersistOldest,
    PersistNewest,
    GiveUpOldest,
    WriteSpill,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || prop::collection::vec((0u16..3, 0u8..6, prop::option::of(any::<u8>())), 0..12);
    prop_oneof![
        4 => changes().prop_map(Step::Freeze),
        2 => changes().prop_map(Step::Spill),
        2 => Just(Step::PersistOldest),
        1 => Just(Step::PersistNewest),
        1 => Just(Step::GiveUpOldest),
        2 => Just(Step::WriteSpill),
        1 => Just(Step::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reads_agree_with_a_map(steps in prop::collection::vec(step(), 1..16)) {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(&dir);
        let mut model = Model::new();
        let mut snapshots: Vec<FrozenSnapshot> = Vec::new();
        let mut spills: Vec<Spill> = Vec::new();
        let persist = |snapshot: FrozenSnapshot| match snapshot.persist(&dir.path().join("cut")) {
            Ok(_) | Err(StateError::Superseded { .. }) => {}
            Err(error) => panic!("{error}"),
        };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Freeze(changes) => {
                    let delta = apply(&slot, &mut model, &changes);
                    snapshots.push(slot.store.freeze(CheckpointId(number as u64), vec![delta]));
                }
                Step::Spill(changes) => {
                    let delta = apply(&slot, &mut model, &changes);
                    spills.push(slot.store.spill(vec![delta]));
                }
                Step::PersistOldest if !snapshots.is_empty() => persist(snapshots.remove(0)),
                Step::PersistNewest => if let Some(snapshot) = snapshots.pop() { persist(snapshot) },
                Step::GiveUpOldest if !snapshots.is_empty() => drop(snapshots.remove(0)),
                Step::WriteSpill => if let Some(spill) = spills.pop() { spill.write().unwrap() },
                Step::Compact => slot.store.compact(),
                Step::PersistOldest | Step::GiveUpOldest => {}
            }
            prop_assert_eq!(&slot.content(), &model);
            let mut found = Vec::new();
            slot.table.scan_range(KeyGroup(1), &[1]..&[4], &mut |group, key, value| {
                found.push(((group.0, key.to_vec()), value.payload));
                Ok(())
            }).unwrap();
            let within = model.range((1, vec![1])..(1, vec![4]));
            let within = within.map(|(key, value)| (key.clone(), value.clone()));
            prop_assert_eq!(found, within.collect::<Vec<_>>());
            let keys: Vec<(u16, Vec<u8>)> =
                (0..3).flat_map(|group| (0..6).map(move |key| (group, vec![key]))).collect();
            let borrowed: Vec<(KeyGroup, &[u8])> =
                keys.iter().map(|(group, key)| (KeyGroup(*group), key.as_slice())).collect();
            let found = slot.table.multi_get(&borrowed).unwrap();
            for (key, found) in keys.iter().zip(found) {
                let expected = model.get(key).cloned();
                prop_assert_eq!(&slot.get(key.0, &key.1), &expected);
                prop_assert_eq!(found.map(|value| value.payload), expected);
            }
        }
    }
}

fn apply(slot: &Slot, model: &mut Model, changes: &[(u16, u8, Option<u8>)]) -> Delta {
    let mut delta = slot.table.delta();
    for (group, key, value) in changes {
        match value {
            Some(value) => {
                delta.put(KeyGroup(*group), &[*key], 0, &[*value]);
                model.insert((*group, vec![*key]), vec![*value]);
            }
            None => {
                delta.delete(KeyGroup(*group), &[*key]);
                model.remove(&(*group, vec![*key]));
            }
        }
    }
    delta
}
