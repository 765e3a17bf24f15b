//! Mathematical functions.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type,
        Int16Type, Int32Type, Int64Type,
    },
};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::ColumnarValue;

use super::{
    arithmetic::rescale,
    call::Call,
    registry::{
        Definition,
        Kind::{Double, Integer, Numeric},
        Nulls, Returns,
    },
};

macro_rules! double {
    ($name:literal, $function:expr) => {
        Definition::new($name, &[Double], Returns::Double, |call| {
            let x = call.doubles(0)?;
            let function: fn(f64) -> f64 = $function;
            call.make::<Float64Type>(|row| Ok(x.get(row).map(function)))
        })
    };
}

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("ABS", &[Numeric], Returns::Argument(0), abs),
    Definition::new("SIGN", &[Numeric], Returns::Argument(0), sign),
    Definition::new("CEIL", &[Numeric], Returns::Computed(whole_type), |call| {
        round_to(call, 0, Rounding::Up)
    })
    .aliases(&["CEILING"]),
    Definition::new("FLOOR", &[Numeric], Returns::Computed(whole_type), |call| {
        round_to(call, 0, Rounding::Down)
    }),
    Definition::new(
        "ROUND",
        &[Numeric, Integer],
        Returns::Computed(round_type),
        |call| round_by_argument(call, Rounding::HalfUp),
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new(
        "TRUNCATE",
        &[Numeric, Integer],
        Returns::Computed(truncate_type),
        |call| round_by_argument(call, Rounding::TowardZero),
    )
    .optional(1)
    .nulls(Nulls::Possible),
    Definition::new("POWER", &[Double, Double], Returns::Double, |call| {
        double2(call, f64::powf)
    }),
    Definition::new("ATAN2", &[Double, Double], Returns::Double, |call| {
        double2(call, f64::atan2)
    }),
    double!("SQRT", f64::sqrt),
    double!("EXP", f64::exp),
    double!("LN", f64::ln),
    double!("LOG10", f64::log10),
    double!("LOG2", f64::log2),
    Definition::new("LOG", &[Double, Double], Returns::Double, log).optional(1),
    double!("SIN", f64::sin),
    double!("SINH", f64::sinh),
    double!("COS", f64::cos),
    double!("COSH", f64::cosh),
    double!("TAN", f64::tan),
    double!("TANH", f64::tanh),
    double!("COT", |x| 1.0 / x.tan()),
    double!("ASIN", f64::asin),
    double!("ACOS", f64::acos),
    double!("ATAN", f64::atan),
    double!("DEGREES", f64::to_degrees),
    double!("RADIANS", f64::to_radians),
    Definition::new("PI", &[], Returns::Double, |_| {
        Ok(ColumnarValue::Scalar(ScalarValue::Float64(Some(
            std::f64::consts::PI,
        ))))
    }),
    Definition::new("E", &[], Returns::Double, |_| {
        Ok(ColumnarValue::Scalar(ScalarValue::Float64(Some(
            std::f64::consts::E,
        ))))
    }),
];

fn double2(call: &Call, function: fn(f64, f64) -> f64) -> Result<ColumnarValue> {
    let (x, y) = (call.doubles(0)?, call.doubles(1)?);
    call.make::<Float64Type>(|row| match (x.get(row), y.get(row)) {
        (Some(x), Some(y)) => Ok(Some(function(x, y))),
        _ => Ok(None),
    })
}

/// `LOG(x)` is natural, `LOG(base, x)` to a base.
fn log(call: &Call) -> Result<ColumnarValue> {
    let first = call.doubles(0)?;
    if call.len() == 1 {
        return call.make::<Float64Type>(|row| Ok(first.get(row).map(f64::ln)));
    }
    let x = call.doubles(1)?;
    call.make::<Float64Type>(|row| match (first.get(row), x.get(row)) {
        (Some(base), Some(x)) => Ok(Some(x.ln() / base.ln())),
        _ => Ok(None),
    })
}

/// Applies functions by type to an argument of any numeric type.
fn map_numbers(
    array: &ArrayRef,
    integer: impl Fn(i64) -> i64,
    float: impl Fn(f64) -> f64,
    decimal: impl Fn(i128) -> i128,
) -> Result<ArrayRef> {
    fn ints<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        f: impl Fn(T::Native) -> T::Native,
    ) -> ArrayRef {
        let mapped: PrimitiveArray<T> = array.as_primitive::<T>().unary(f);
        Arc::new(mapped.with_data_type(array.data_type().clone()))
    }
    Ok(match array.data_type() {
        DataType::Int8 => ints::<Int8Type>(array, |v| integer(v.into()) as i8),
        DataType::Int16 => ints::<Int16Type>(array, |v| integer(v.into()) as i16),
        DataType::Int32 => ints::<Int32Type>(array, |v| integer(v.into()) as i32),
        DataType::Int64 => ints::<Int64Type>(array, integer),
        DataType::Float32 => ints::<Float32Type>(array, |v| float(v.into()) as f32),
        DataType::Float64 => ints::<Float64Type>(array, float),
        DataType::Decimal128(_, _) => ints::<Decimal128Type>(array, decimal),
        other => return internal_err!("{other} is not a number"),
    })
}

fn abs(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    call.finish(map_numbers(
        &array,
        i64::wrapping_abs,
        f64::abs,
        i128::wrapping_abs,
    )?)
}

fn sign(call: &Call) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    let one = match array.data_type() {
        DataType::Decimal128(_, scale) => 10i128.pow((*scale).max(0) as u32),
        _ => 1,
    };
    let float = |v: f64| {
        if v == 0.0 || v.is_nan() {
            v
        } else {
            v.signum()
        }
    };
    call.finish(map_numbers(&array, i64::signum, float, |v| {
        v.signum() * one
    })?)
}

type Types = Result<(Vec<DataType>, DataType), String>;

/// CEIL and FLOOR of a DECIMAL have no fraction.
fn whole_type(types: &[DataType], _: &[Option<ScalarValue>]) -> Types {
    let result = match &types[0] {
        DataType::Decimal128(precision, scale) => {
            let integral = (*precision as i8 - scale + 1).clamp(1, 38);
            DataType::Decimal128(integral as u8, 0)
        }
        other => other.clone(),
    };
    Ok((types.to_vec(), result))
}

/// The constant number of digits; rounding a DECIMAL needs it for its type.
fn digits(types: &[DataType], literals: &[Option<ScalarValue>]) -> Result<i64, String> {
    match literals.get(1) {
        None => Ok(0),
        Some(Some(ScalarValue::Int32(Some(digits)))) => Ok(i64::from(*digits)),
        Some(Some(ScalarValue::Int64(Some(digits)))) => Ok(*digits),
        _ if matches!(types[0], DataType::Decimal128(_, _)) => {
            Err("the number of digits for a DECIMAL must be a literal".into())
        }
        _ => Ok(0),
    }
}

fn round_type(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    let digits = digits(types, literals)?;
    let result = match &types[0] {
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (i64::from(*precision), i64::from(*scale));
            if digits >= scale {
                types[0].clone()
            } else if digits < 0 {
                DataType::Decimal128((1 + precision - scale).min(38) as u8, 0)
            } else {
                DataType::Decimal128((1 + precision - scale + digits).min(38) as u8, digits as i8)
            }
        }
        other => other.clone(),
    };
    Ok((types.to_vec(), result))
}

fn truncate_type(types: &[DataType], literals: &[Option<ScalarValue>]) -> Types {
    digits(types, literals)?;
    Ok((types.to_vec(), types[0].clone()))
}

/// Which neighbour is taken.
#[derive(Debug, Clone, Copy)]
enum Rounding {
    HalfUp,
    TowardZero,
    Down,
    Up,
}

impl Rounding {
    /// Rounds to a multiple of a positive unit.
    fn integer(self, value: i128, unit: i128) -> i128 {
        let floor = value.div_euclid(unit) * unit;
        let rest = value - floor;
        match self {
            _ if rest == 0 => value,
            Rounding::Down => floor,
            Rounding::Up => floor + unit,
            Rounding::TowardZero if value < 0 => floor + unit,
            Rounding::TowardZero => floor,
            // Halves go away from zero.
            Rounding::HalfUp if 2 * rest > unit || (2 * rest == unit && value > 0) => floor + unit,
            Rounding::HalfUp => floor,
        }
    }

    fn whole(self, value: f64) -> f64 {
        match self {
            Rounding::HalfUp => value.round(),
            Rounding::TowardZero => value.trunc(),
            Rounding::Down => value.floor(),
            Rounding::Up => value.ceil(),
        }
    }

    /// Rounds the decimal text of a number, so that 2.345 is not 2.34499….
    fn float(self, value: f64, digits: i64) -> f64 {
        if !value.is_finite() || digits > 300 {
            return value;
        }
        if digits < -300 {
            return 0.0;
        }
        if digits == 0 {
            return self.whole(value);
        }
        if digits < 0 {
            let unit = 10f64.powi(-digits as i32);
            return self.whole(value / unit) * unit;
        }
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let shifted: f64 = format!("{mantissa}e{}", exponent + digits)
            .parse()
            .unwrap_or(value);
        if !shifted.is_finite() {
            return value;
        }
        let whole = self.whole(shifted);
        let text = format!("{whole:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        format!("{mantissa}e{}", exponent - digits)
            .parse()
            .unwrap_or(value)
    }
}

fn round_by_argument(call: &Call, rounding: Rounding) -> Result<ColumnarValue> {
    if call.len() == 1 {
        return round_to(call, 0, rounding);
    }
    let digits = call.longs(1)?;
    if let super::arguments::Primitives::Constant(constant) = digits {
        return match constant {
            Some(digits) => round_to(call, digits, rounding),
            None => Ok(ColumnarValue::Scalar(ScalarValue::try_from(call.result)?)),
        };
    }
    let array = call.array(0)?;
    let mut rows = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let value = array.slice(row, 1);
        let rounded = match digits.get(row) {
            Some(digits) => round_array(&value, digits, rounding, call.result)?,
            None => arrow::array::new_null_array(call.result, 1),
        };
        rows.push(rounded);
    }
    if rows.is_empty() {
        return Ok(ColumnarValue::Array(arrow::array::new_empty_array(
            call.result,
        )));
    }
    let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
    call.finish(arrow::compute::concat(&rows)?)
}

fn round_to(call: &Call, digits: i64, rounding: Rounding) -> Result<ColumnarValue> {
    let array = call.array(0)?;
    call.finish(round_array(&array, digits, rounding, call.result)?)
}

fn round_array(
    array: &ArrayRef,
    digits: i64,
    rounding: Rounding,
    to: &DataType,
) -> Result<ArrayRef> {
    let unit = |digits: i64| 10i128.checked_pow(u32::try_from(-digits).unwrap_or(u32::MAX));
    if let DataType::Decimal128(_, scale) = array.data_type() {
        let DataType::Decimal128(precision, target) = to else {
            return internal_err!("rounding a DECIMAL to {to}");
        };
        let unit = if digits >= i64::from(*scale) {
            Some(1)
        } else {
            unit(digits - i64::from(*scale))
        };
        let decimals = array.as_primitive::<Decimal128Type>();
        let mut rounded = Vec::with_capacity(decimals.len());
        for value in decimals {
            rounded.push(value.and_then(|value| {
                // A unit beyond all digits leaves nothing.
                let value = unit.map_or(0, |unit| rounding.integer(value, unit));
                rescale(value, *scale, *target, *precision)
            }));
        }
        let rounded: PrimitiveArray<Decimal128Type> = PrimitiveArray::from(rounded);
        return Ok(Arc::new(rounded.with_data_type(to.clone())));
    }
    let integer = |value: i64| {
        if digits >= 0 {
            return value;
        }
        match unit(digits) {
            Some(unit) => rounding.integer(value.into(), unit) as i64,
            None => 0,
        }
    };
    if digits.unsigned_abs() > 1_000_000 {
        return exec_err!("{digits} is not a number of digits");
    }
    map_numbers(
        array,
        integer,
        |value| rounding.float(value, digits),
        |value| value,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_away_from_zero() {
        use Rounding::*;
        for (rounding, value, unit, expected) in [
            (HalfUp, 25, 10, 30),
            (HalfUp, -25, 10, -30),
            (HalfUp, 24, 10, 20),
            (HalfUp, -24, 10, -20),
            (TowardZero, -29, 10, -20),
            (Down, -21, 10, -30),
            (Up, -29, 10, -20),
            (Up, 21, 10, 30),
        ] {
            assert_eq!(
                rounding.integer(value, unit),
                expected,
                "{rounding:?} {value}"
            );
        }
    }

    #[test]
    fn floats_round_by_their_text() {
        assert_eq!(Rounding::HalfUp.float(2.345, 2), 2.35);
        assert_eq!(Rounding::HalfUp.float(1.005, 2), 1.01);
        assert_eq!(Rounding::TowardZero.float(-1.239, 2), -1.23);
        assert_eq!(Rounding::HalfUp.float(1234.5, -2), 1200.0);
    }
}
