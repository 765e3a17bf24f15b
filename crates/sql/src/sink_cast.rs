//! Which types INSERT converts by itself. As in Flink: what loses nothing but precision.

use arrow::datatypes::DataType;

use crate::flink_type::same_type;

/// Whether values of a query's column may be written to a sink's column without a CAST.
pub(crate) fn assignable(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if same_type(from, to) {
        return true;
    }
    let rank = |data_type: &DataType| match data_type {
        Int8 => Some(1),
        Int16 => Some(2),
        Int32 => Some(3),
        Int64 => Some(4),
        _ => None,
    };
    match (from, to) {
        (Null, _) => true,
        (a, Float64 | Decimal128(_, _)) => a.is_numeric(),
        (a, Float32) => rank(a).is_some() || matches!(a, Decimal128(_, _)),
        (Timestamp(_, a), Timestamp(_, b)) => a == b,
        (Timestamp(_, None), Date32 | Time32(_)) => true,
        (List(a), List(b)) => assignable(a.data_type(), b.data_type()),
        (Map(a, _), Map(b, _)) => assignable(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| assignable(a.data_type(), b.data_type()))
        }
        (a, b) => matches!((rank(a), rank(b)), (Some(a), Some(b)) if a <= b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widening_is_implicit_and_narrowing_is_not() {
        use DataType::*;
        for (from, to, expected) in [
            (Int32, Int64, true),
            (Int64, Int32, false),
            (Int64, Float64, true),
            (Float64, Float32, false),
            (Float64, Decimal128(10, 2), true),
            (Decimal128(22, 3), Decimal128(23, 3), true),
            (Int32, Utf8, false),
            (Utf8, Int32, false),
            (Boolean, Utf8, false),
            (Null, Utf8, true),
        ] {
            assert_eq!(assignable(&from, &to), expected, "{from} -> {to}");
        }
    }
}
