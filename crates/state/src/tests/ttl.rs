//! The TTL applies at reading and in compactions, and can be changed without losing state.

use super::*;

fn slot_with_ages(dir: &tempfile::TempDir) -> Slot {
    let slot = Slot::new(dir);
    let mut delta = slot.table.delta();
    for written_at in [0i64, 100, 200] {
        let key = written_at.to_string();
        delta.put(KeyGroup(0), key.as_bytes(), written_at, b"v");
    }
    slot.store
        .freeze(CheckpointId(1), vec![delta])
        .persist(&dir.path().join("cut"))
        .unwrap();
    slot
}

fn keys(slot: &Slot) -> Vec<String> {
    slot.content()
        .into_keys()
        .map(|(_, key)| String::from_utf8(key).unwrap())
        .collect()
}

#[test]
fn switching_it_hides_and_shows_without_losing_anything() {
    let dir = tempfile::tempdir().unwrap();
    let slot = slot_with_ages(&dir);
    // (ttl, now, what is there); `now` never goes backwards.
    let cases: [(u64, i64, &[&str]); 7] = [
        (0, 150, &["0", "100", "200"]),
        (100, 150, &["100", "200"]),
        (50, 150, &["200"]),
        (200, 150, &["0", "100", "200"]),
        (0, 10_000, &["0", "100", "200"]),
        (1, 10_000, &[]),
        (100_000, 10_000, &["0", "100", "200"]),
    ];
    for (ttl, now, expected) in cases {
        slot.store.set_now_ms(now);
        slot.store.table(&state_id(), "main", ttl).unwrap();
        assert_eq!(keys(&slot), expected, "ttl {ttl} at {now}");
        for key in ["0", "100", "200"] {
            let found = slot.get(0, key.as_bytes()).is_some();
            assert_eq!(found, expected.contains(&key), "{key}: ttl {ttl} at {now}");
        }
    }
}

#[test]
fn compaction_removes_only_what_is_expired() {
    let dir = tempfile::tempdir().unwrap();
    let slot = slot_with_ages(&dir);
    // Without a TTL, and before the time is known, a compaction removes nothing.
    slot.store.compact();
    slot.store.table(&state_id(), "main", 1).unwrap();
    slot.store.compact();
    slot.store.table(&state_id(), "main", 0).unwrap();
    assert_eq!(keys(&slot), ["0", "100", "200"]);
    slot.store.set_now_ms(150);
    slot.store.table(&state_id(), "main", 100).unwrap();
    slot.store.compact();
    slot.store.table(&state_id(), "main", 0).unwrap();
    assert_eq!(keys(&slot), ["100", "200"]);
}

#[test]
fn frozen_entries_expire_too() {
    let dir = tempfile::tempdir().unwrap();
    let slot = slot_with_ages(&dir);
    slot.store.table(&state_id(), "main", 100).unwrap();
    let mut delta = slot.table.delta();
    delta.put(KeyGroup(0), b"0", 50, b"rewritten");
    let _snapshot = slot.store.freeze(CheckpointId(2), vec![delta]);
    slot.store.set_now_ms(149);
    assert_eq!(keys(&slot), ["0", "100", "200"]);
    slot.store.set_now_ms(150);
    // The older value under it must not shine through.
    assert_eq!(keys(&slot), ["100", "200"]);
    assert_eq!(slot.get(0, b"0"), None);
}
