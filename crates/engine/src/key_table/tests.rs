//! Keys in and out of the table, for every layout.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, Float64Array, Int8Array, Int64Array, StringArray},
    datatypes::DataType,
};
use millrace_dataflow::{KeyEncoder, KeyRows};

use super::KeyTable;

fn table(columns: &[ArrayRef]) -> KeyTable {
    KeyTable::new(columns.iter().map(|c| c.data_type().clone()).collect()).unwrap()
}

fn intern(table: &mut KeyTable, columns: &[ArrayRef], rows: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut groups, mut created) = (Vec::new(), Vec::new());
    table.intern(columns, rows, &mut groups, &mut created);
    (groups, created)
}

/// Rows 0 and 3 have the same key, 1 is null, 2 is another.
fn samples() -> Vec<Vec<ArrayRef>> {
    vec![
        vec![Arc::new(Int64Array::from(vec![
            Some(7),
            None,
            Some(i64::MIN),
            Some(7),
        ]))],
        vec![Arc::new(Int8Array::from(vec![
            Some(-128),
            None,
            Some(1),
            Some(-128),
        ]))],
        vec![Arc::new(BooleanArray::from(vec![
            Some(true),
            None,
            Some(false),
            Some(true),
        ]))],
        vec![Arc::new(StringArray::from(vec![
            Some("a"),
            None,
            Some(""),
            Some("a"),
        ]))],
        vec![Arc::new(Float64Array::from(vec![
            Some(0.0),
            None,
            Some(1.0),
            Some(-0.0),
        ]))],
        vec![
            Arc::new(StringArray::from(vec![
                Some("a"),
                None,
                Some("a"),
                Some("a"),
            ])),
            Arc::new(Int64Array::from(vec![Some(1), None, Some(2), Some(1)])),
        ],
    ]
}

#[test]
fn equal_keys_share_a_group_and_null_is_a_key() {
    for columns in samples() {
        let mut table = table(&columns);
        let (groups, created) = intern(&mut table, &columns, 4);
        assert_eq!(groups, [0, 1, 2, 0], "{columns:?}");
        assert_eq!(created, [0, 1, 2]);
        assert_eq!((table.len(), table.group_bound()), (3, 3));
        assert_eq!(intern(&mut table, &columns, 4), (vec![0, 1, 2, 0], vec![]));
        for (read, column) in table.columns(&[2, 0, 1]).unwrap().iter().zip(&columns) {
            let order = arrow::array::UInt32Array::from(vec![2, 0, 1]);
            let expected = arrow::compute::take(column, &order, None).unwrap();
            assert_eq!(read, &expected);
        }
    }
}

#[test]
fn keys_encode_as_the_exchange_does() {
    for columns in samples() {
        let mut interned = table(&columns);
        intern(&mut interned, &columns, 4);
        let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
        let mut rows = KeyRows::default();
        KeyEncoder::new(types)
            .unwrap()
            .encode(&columns, 4, &mut rows);
        let mut again = table(&columns);
        for group in 0..3 {
            let mut key = Vec::new();
            interned.encode_key(group, &mut key);
            assert_eq!(key, rows.row(group as usize), "{columns:?}");
            assert_eq!(again.intern_encoded(&key).unwrap(), (group, true));
            assert_eq!(again.intern_encoded(&key).unwrap(), (group, false));
        }
        assert_eq!(intern(&mut again, &columns, 4).0, [0, 1, 2, 0]);
        let mut from = Vec::new();
        again.like().intern_from(&interned, &[2, 0], &mut from);
        assert_eq!(from, [0, 1]);
    }
}

#[test]
fn numbers_are_used_again_only_after_release() {
    for columns in samples() {
        let mut table = table(&columns);
        intern(&mut table, &columns, 4);
        let mut key = Vec::new();
        table.encode_key(1, &mut key);
        table.remove(1);
        assert_eq!(table.len(), 2);
        let mut still = Vec::new();
        table.encode_key(1, &mut still);
        assert_eq!(still, key, "readable until its release");
        // The key comes back before that: another number.
        assert_eq!(table.intern_encoded(&key).unwrap(), (3, true));
        table.remove(3);
        table.release(3);
        table.release(1);
        assert_eq!(table.intern_encoded(&key).unwrap(), (1, true));
        assert_eq!(intern(&mut table, &columns, 4).0, [0, 1, 2, 0]);
    }
}

#[test]
fn without_columns_there_is_one_key() {
    let mut table = KeyTable::new(Vec::new()).unwrap();
    assert_eq!(intern(&mut table, &[], 3), (vec![0, 0, 0], vec![0]));
    assert_eq!(intern(&mut table, &[], 1), (vec![0], vec![]));
    assert_eq!(intern(&mut table, &[], 0), (vec![], vec![]));
    assert!(table.columns(&[0]).unwrap().is_empty());
}

#[test]
fn the_arena_is_compacted() {
    let mut table = KeyTable::new(vec![DataType::Utf8]).unwrap();
    let key = |i: usize| -> Vec<ArrayRef> {
        vec![Arc::new(StringArray::from(vec![format!("{i:0100}")]))]
    };
    intern(&mut table, &key(0), 1);
    for i in 1..20_000 {
        let (groups, _) = intern(&mut table, &key(i), 1);
        table.remove(groups[0]);
        table.release(groups[0]);
    }
    assert!(
        table.bytes() < 1 << 20,
        "{} bytes for one key",
        table.bytes()
    );
    assert_eq!(intern(&mut table, &key(0), 1), (vec![0], vec![]));
}

#[test]
fn damaged_keys_are_refused_where_they_must_be_read() {
    let mut table = KeyTable::new(vec![DataType::Int64]).unwrap();
    assert!(table.intern_encoded(&[1, 2]).is_err());
    assert!(KeyTable::new(vec![DataType::Int64, DataType::LargeUtf8]).is_err());
}
