//! Scans of parts of a table equal the whole scan cut to size.

use proptest::prelude::*;

use super::*;
use crate::Spill;

fn part(
    table: &Table,
    group: u16,
    prefix: &[u8],
    after: Option<&[u8]>,
    at_most: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    table
        .scan_prefix_after(KeyGroup(group), prefix, after, &mut |key, value| {
            found.push((key.to_vec(), value.payload));
            Ok(found.len() < at_most)
        })
        .unwrap();
    found
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_are_cut_from_the_whole(
        batches in prop::collection::vec(
            (prop::collection::vec((0u16..3, key(), any::<Option<bool>>()), 0..12), any::<bool>()),
            1..5,
        ),
        scans in prop::collection::vec(
            (0u16..3, key(), prop::option::of(key()), 1usize..6),
            1..12,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let slot = Slot::new(&dir);
        let mut model = Model::new();
        for (changes, is_written) in &batches {
            let mut delta = slot.table.delta();
            for (group, key, value) in changes {
                let place = (*group, key.clone());
                match value {
                    Some(value) => {
                        delta.put(KeyGroup(*group), key, 0, &[u8::from(*value)]);
                        model.insert(place, vec![u8::from(*value)]);
                    }
                    None => {
                        delta.delete(KeyGroup(*group), key);
                        model.remove(&place);
                    }
                }
            }
            let spill: Spill = slot.store.spill(vec![delta]);
            if *is_written {
                spill.write().unwrap();
            }
        }
        for (group, prefix, after, at_most) in &scans {
            let expected: Vec<_> = model
                .iter()
                .filter(|((of, key), _)| {
                    of == group
                        && key.starts_with(prefix)
                        && after.as_ref().is_none_or(|after| key > after)
                })
                .map(|((_, key), value)| (key.clone(), value.clone()))
                .take(*at_most)
                .collect();
            let found = part(&slot.table, *group, prefix, after.as_deref(), *at_most);
            prop_assert_eq!(found, expected);
        }
    }
}
