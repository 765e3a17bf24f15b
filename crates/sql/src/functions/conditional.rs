//! COALESCE, NULLIF, GREATEST, LEAST, BETWEEN, TYPEOF.
//!
//! All evaluate every argument; CASE and IF do not.

use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    compute::{and_kleene, is_not_null, kernels::cmp, kernels::zip::zip, nullif, or_kleene},
    datatypes::DataType,
};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use super::{
    call::Call,
    registry::{Definition, Kind::Any, Nulls, Returns},
};
use crate::{
    bind::{Assignment, common_type},
    flink_type::type_name,
};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("COALESCE", &[Any], Returns::Computed(combined), coalesce)
        .aliases(&["IFNULL"])
        .variadic()
        .nulls(Nulls::UnlessOne),
    Definition::new(
        "NULLIF",
        &[Any, Any],
        Returns::Computed(compared_first),
        null_if,
    )
    .nulls(Nulls::Possible),
    Definition::new("GREATEST", &[Any], Returns::Computed(ordered), |call| {
        extreme(call, |a, b| cmp::gt(a, b))
    })
    .variadic(),
    Definition::new("LEAST", &[Any], Returns::Computed(ordered), |call| {
        extreme(call, |a, b| cmp::lt(a, b))
    })
    .variadic(),
    Definition::new(
        "$BETWEEN",
        &[Any, Any, Any],
        Returns::Computed(compared),
        between,
    ),
    Definition::new(
        "$BETWEEN_SYMMETRIC",
        &[Any, Any, Any],
        Returns::Computed(compared),
        between_symmetric,
    ),
    Definition::new("TYPEOF", &[Any], Returns::Computed(type_of_types), type_of)
        .nulls(Nulls::Never),
];

type Types = Result<(Vec<DataType>, DataType), String>;

fn common(types: &[DataType], why: Assignment) -> Result<DataType, String> {
    let mut common = DataType::Null;
    for data_type in types {
        common = common_type(&common, data_type, why).ok_or_else(|| {
            format!(
                "{} and {} have no common type",
                type_name(&common),
                type_name(data_type)
            )
        })?;
    }
    if common == DataType::Null {
        return Err("all arguments are NULL".into());
    }
    Ok(common)
}

/// All arguments and the result have the common type.
fn combined(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let common = common(types, Assignment::Combine)?;
    Ok((vec![common.clone(); types.len()], common))
}

fn ordered(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    let (types, common) = combined(types, literals)?;
    if common.is_nested() {
        return Err(format!("{} has no order", type_name(&common)));
    }
    Ok((types, common))
}

/// Arguments are compared; the result is BOOLEAN.
fn compared(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let common = common(types, Assignment::Compare)?;
    if common.is_nested() {
        return Err(format!("{} has no order", type_name(&common)));
    }
    Ok((vec![common; types.len()], DataType::Boolean))
}

/// Arguments are compared; the result is the first.
fn compared_first(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let common = common(types, Assignment::Compare)?;
    if common.is_nested() {
        return Err(format!("{} cannot be compared", type_name(&common)));
    }
    Ok((vec![common.clone(); types.len()], common))
}

fn arrays(call: &Call) -> Result<Vec<ArrayRef>> {
    (0..call.len()).map(|i| call.array(i)).collect()
}

fn coalesce(call: &Call) -> Result<ColumnarValue> {
    let arrays = arrays(call)?;
    let mut result = arrays[arrays.len() - 1].clone();
    for array in arrays[..arrays.len() - 1].iter().rev() {
        if array.null_count() == 0 {
            result = array.clone();
        } else {
            result = zip(&is_not_null(array)?, array, &result)?;
        }
    }
    call.finish(result)
}

fn null_if(call: &Call) -> Result<ColumnarValue> {
    let (value, other) = (call.array(0)?, call.array(1)?);
    let equal = cmp::eq(&value, &other)?;
    call.finish(nullif(&value, &equal)?)
}

/// Null if any argument is.
fn extreme(
    call: &Call,
    wins: fn(&ArrayRef, &ArrayRef) -> Result<BooleanArray, arrow::error::ArrowError>,
) -> Result<ColumnarValue> {
    let arrays = arrays(call)?;
    let mut result = arrays[0].clone();
    for array in &arrays[1..] {
        // A comparison with null is null, which zip takes for false: pick the null side.
        let better = wins(&result, array)?;
        let keep = or_kleene(&better, &arrow::compute::is_null(&result)?)?;
        let take_other = arrow::compute::is_null(array)?;
        let keep = and_kleene(&keep, &arrow::compute::not(&take_other)?)?;
        result = zip(&keep, &result, array)?;
    }
    call.finish(result)
}

fn between(call: &Call) -> Result<ColumnarValue> {
    let (value, low, high) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let inside = and_kleene(&cmp::gt_eq(&value, &low)?, &cmp::lt_eq(&value, &high)?)?;
    call.finish(std::sync::Arc::new(inside))
}

fn between_symmetric(call: &Call) -> Result<ColumnarValue> {
    let (value, a, b) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let inside = and_kleene(&cmp::gt_eq(&value, &a)?, &cmp::lt_eq(&value, &b)?)?;
    let reversed = and_kleene(&cmp::gt_eq(&value, &b)?, &cmp::lt_eq(&value, &a)?)?;
    call.finish(std::sync::Arc::new(or_kleene(&inside, &reversed)?))
}

fn type_of_types(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    Ok((types.to_vec(), DataType::Utf8))
}

fn type_of(call: &Call) -> Result<ColumnarValue> {
    let name = type_name(&call.data_type(0));
    Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
}
