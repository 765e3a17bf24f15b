//! The byte format is fixed, and keeps equality and order.

use std::{cmp::Ordering, sync::Arc};

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, NullArray, StringArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow::datatypes::DataType;
use proptest::prelude::*;

use super::*;

fn encode(columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let types = columns.iter().map(|c| c.data_type().clone()).collect();
    let rows = columns.first().map_or(0, |column| column.len());
    // Dirty on purpose: nothing of an earlier batch may show.
    let mut keys = KeyRows {
        data: vec![7; 3],
        ends: vec![1, 3],
    };
    KeyEncoder::new(types)
        .unwrap()
        .encode(columns, rows, &mut keys);
    assert_eq!(keys.len(), rows);
    let by_row: Vec<Vec<u8>> = (0..rows).map(|row| keys.row(row).to_vec()).collect();
    assert!(keys.iter().eq(by_row.iter().map(Vec::as_slice)));
    by_row
}

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

#[test]
fn bytes_are_as_documented() {
    let cases: Vec<(ArrayRef, Vec<&[u8]>)> = vec![
        (array(NullArray::new(2)), vec![&[0], &[0]]),
        (
            array(BooleanArray::from(vec![Some(false), None, Some(true)])),
            vec![&[1, 0], &[0], &[1, 1]],
        ),
        (
            array(Int8Array::from(vec![-128, 0, 127])),
            vec![&[1, 0], &[1, 0x80], &[1, 0xFF]],
        ),
        (
            array(Int16Array::from(vec![-1, 258])),
            vec![&[1, 0x7F, 0xFF], &[1, 0x81, 2]],
        ),
        (
            array(Int32Array::from(vec![Some(1), None])),
            vec![&[1, 0x80, 0, 0, 1], &[0]],
        ),
        (
            array(Int64Array::from(vec![i64::MIN, 1])),
            vec![
                &[1, 0, 0, 0, 0, 0, 0, 0, 0],
                &[1, 0x80, 0, 0, 0, 0, 0, 0, 1],
            ],
        ),
        (
            array(Date32Array::from(vec![-1])),
            vec![&[1, 0x7F, 0xFF, 0xFF, 0xFF]],
        ),
        (
            array(Time32MillisecondArray::from(vec![1])),
            vec![&[1, 0x80, 0, 0, 1]],
        ),
        (
            array(TimestampMillisecondArray::from(vec![2])),
            vec![&[1, 0x80, 0, 0, 0, 0, 0, 0, 2]],
        ),
        (
            array(
                Decimal128Array::from(vec![1])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
            vec![&[1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
        ),
        // 1.0 is 0x3FF0…; the sign bit is set on positive numbers, all bits flip on negative ones.
        (
            array(Float64Array::from(vec![1.0, -1.0, 0.0, -0.0])),
            vec![
                &[1, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0],
                &[1, 0x40, 0x0F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
                &[1, 0x80, 0, 0, 0, 0, 0, 0, 0],
                &[1, 0x80, 0, 0, 0, 0, 0, 0, 0],
            ],
        ),
        (
            array(Float32Array::from(vec![1.0, f32::NAN, -f32::NAN])),
            vec![
                &[1, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0],
                &[1, 0xFF, 0xF8, 0, 0, 0, 0, 0, 0],
                &[1, 0xFF, 0xF8, 0, 0, 0, 0, 0, 0],
            ],
        ),
        (
            array(StringArray::from(vec![Some("a"), None, Some("")])),
            vec![&[1, b'a', 0, 0], &[0], &[1, 0, 0]],
        ),
        (
            array(BinaryArray::from(vec![&b"\0a\0"[..], &b"b"[..]])),
            vec![&[1, 0, 0xFF, b'a', 0, 0xFF, 0, 0], &[1, b'b', 0, 0]],
        ),
    ];
    for (column, expected) in cases {
        let data_type = column.data_type().clone();
        assert_eq!(
            encode(std::slice::from_ref(&column)),
            expected,
            "{data_type}"
        );
        // Beside another column the same bytes follow each other.
        let rows = column.len();
        let number = array(Int8Array::from(vec![0; rows]));
        let expected: Vec<Vec<u8>> = expected
            .iter()
            .map(|bytes| [&[1, 0x80], *bytes, &[1, 0x80]].concat())
            .collect();
        assert_eq!(
            encode(&[Arc::clone(&number), column, number]),
            expected,
            "{data_type} among others"
        );
    }
}

#[test]
fn timestamps_of_every_unit_are_numbers() {
    let expected = vec![vec![1, 0x80, 0, 0, 0, 0, 0, 0, 5]];
    for column in [
        array(TimestampSecondArray::from(vec![5])),
        array(TimestampMicrosecondArray::from(vec![5])),
        array(TimestampNanosecondArray::from(vec![5])),
        array(TimestampMillisecondArray::from(vec![5]).with_timezone("UTC")),
    ] {
        assert_eq!(encode(&[column]), expected);
    }
}

#[test]
fn slices_encode_their_own_rows() {
    let strings = array(StringArray::from(vec!["x\0", "a", "b", "c"]));
    let numbers = array(Int64Array::from(vec![Some(9), None, Some(1), Some(2)]));
    assert_eq!(
        encode(&[strings.slice(1, 2)]),
        [&[1, b'a', 0, 0], &[1, b'b', 0, 0]]
    );
    assert_eq!(
        encode(&[numbers.slice(1, 2), strings.slice(1, 2)]),
        [
            &[0, 1, b'a', 0, 0][..],
            &[1, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, b'b', 0, 0][..]
        ]
    );
}

#[test]
fn no_columns_make_empty_keys() {
    let mut keys = KeyRows::default();
    KeyEncoder::new(vec![]).unwrap().encode(&[], 3, &mut keys);
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(<[u8]>::is_empty));
}

#[test]
fn types_that_cannot_be_keys_are_named() {
    let list = DataType::new_list(DataType::Int8, true);
    let error = KeyEncoder::new(vec![DataType::Utf8, list]).unwrap_err();
    assert_eq!(error.column, 1);
    assert!(error.to_string().contains("cast it"), "{error}");
}

/// Nulls first, then the order of the values.
fn order<T>(a: &Option<T>, b: &Option<T>, values: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => values(a, b),
    }
}

fn float_order(a: &f64, b: &f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(b).unwrap(),
    }
}

/// Bytes from a small alphabet, so that zeros, 0xFF and shared prefixes are common.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xFE, 0xFF, b'a']), 0..6)
}

proptest! {
    #[test]
    fn order_and_equality_are_kept(
        rows in prop::collection::vec(
            (
                prop::option::of(prop_oneof![any::<i64>(), -2i64..3]),
                prop::option::of(text()),
                prop::option::of(prop_oneof![any::<f64>(), Just(-0.0), Just(0.0)]),
                prop::option::of(any::<bool>()),
                prop::option::of("[a-c\u{0}\u{10FFFF}é]{0,4}"),
            ),
            2..20,
        )
    ) {
        let columns = [
            array(Int64Array::from_iter(rows.iter().map(|row| row.0))),
            array(BinaryArray::from_iter(rows.iter().map(|row| row.1.as_deref()))),
            array(Float64Array::from_iter(rows.iter().map(|row| row.2))),
            array(BooleanArray::from_iter(rows.iter().map(|row| row.3))),
            array(StringArray::from_iter(rows.iter().map(|row| row.4.as_deref()))),
        ];
        let together = encode(&columns);
        let alone: Vec<Vec<Vec<u8>>> =
            columns.iter().map(|column| encode(std::slice::from_ref(column))).collect();
        for (i, a) in rows.iter().enumerate() {
            let concatenated: Vec<u8> =
                alone.iter().flat_map(|column| column[i].iter().copied()).collect();
            prop_assert_eq!(&together[i], &concatenated);
            for (j, b) in rows.iter().enumerate() {
                let by_column = [
                    order(&a.0, &b.0, i64::cmp),
                    order(&a.1, &b.1, Vec::cmp),
                    order(&a.2, &b.2, float_order),
                    order(&a.3, &b.3, bool::cmp),
                    order(&a.4, &b.4, String::cmp),
                ];
                for (column, expected) in by_column.iter().enumerate() {
                    prop_assert_eq!(alone[column][i].cmp(&alone[column][j]), *expected);
                }
                let expected = by_column.into_iter().fold(Ordering::Equal, Ordering::then);
                prop_assert_eq!(together[i].cmp(&together[j]), expected);
            }
        }
    }
}
