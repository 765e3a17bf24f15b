//! Decimal arithmetic with Flink's result types: exact, rounded half up to the result's
//! scale, null where the result's precision is exceeded.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    datatypes::{DataType, Decimal128Type, Field, FieldRef, i256},
};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::call::any_signature;

/// What is wrong, and what to write instead.
pub(crate) const DIVISION_BY_ZERO: &str =
    "division by zero; write NULLIF(divisor, 0) for the divisor to get NULL instead";

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

/// Precision and scale.
type Shape = (u8, i8);

const MAX_PRECISION: i32 = 38;

/// The result type of an operation on DECIMALs.
pub(crate) fn decimal_result(op: Arithmetic, left: Shape, right: Shape) -> Shape {
    let (p1, s1) = (i32::from(left.0), i32::from(left.1));
    let (p2, s2) = (i32::from(right.0), i32::from(right.1));
    match op {
        Arithmetic::Add | Arithmetic::Subtract => {
            let scale = s1.max(s2);
            adjust((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        Arithmetic::Multiply => adjust(p1 + p2 + 1, s1 + s2),
        Arithmetic::Divide => {
            let scale = 6.max(s1 + p2 + 1);
            adjust(p1 - s1 + s2 + scale, scale)
        }
        Arithmetic::Modulo => {
            let scale = s1.max(s2);
            adjust((p1 - s1).min(p2 - s2) + scale, scale)
        }
    }
}

/// Cuts the scale, but not below six digits, so that the integral part keeps its room.
fn adjust(precision: i32, scale: i32) -> Shape {
    if precision <= MAX_PRECISION {
        return (precision.max(1) as u8, scale as i8);
    }
    let integral = precision - scale;
    let scale = (MAX_PRECISION - integral).max(scale.min(6));
    (MAX_PRECISION as u8, scale as i8)
}

/// One operation on two DECIMALs of known types.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecimalArithmetic {
    op: Arithmetic,
    left: Shape,
    right: Shape,
    result: Shape,
    name: String,
    signature: Signature,
}

impl DecimalArithmetic {
    pub(crate) fn new(op: Arithmetic, left: Shape, right: Shape) -> Self {
        DecimalArithmetic {
            op,
            left,
            right,
            result: decimal_result(op, left, right),
            name: op.symbol().to_string(),
            signature: any_signature(2, Volatility::Immutable),
        }
    }

    fn data_type(&self) -> DataType {
        DataType::Decimal128(self.result.0, self.result.1)
    }

    /// Whether every result fits, so that plain multiplication will do.
    fn multiplies_exactly(&self) -> bool {
        self.op == Arithmetic::Multiply
            && self.left.0 + self.right.0 <= 38
            && self.result.1 == self.left.1 + self.right.1
    }

    fn apply(&self, left: i128, right: i128) -> Result<Option<i128>> {
        let wide = |value: i128| i256::from_i128(value);
        let (s1, s2) = (i32::from(self.left.1), i32::from(self.right.1));
        let scale = s1.max(s2);
        let (value, scale) = match self.op {
            Arithmetic::Multiply => (wide(left).checked_mul(wide(right)), s1 + s2),
            Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Modulo => {
                let left = shift(wide(left), scale - s1);
                let right = shift(wide(right), scale - s2);
                let (Some(left), Some(right)) = (left, right) else {
                    return Ok(None);
                };
                let value = match self.op {
                    Arithmetic::Add => left.checked_add(right),
                    Arithmetic::Subtract => left.checked_sub(right),
                    _ if right == i256::ZERO => return exec_err!("{DIVISION_BY_ZERO}"),
                    _ => left.checked_rem(right),
                };
                (value, scale)
            }
            Arithmetic::Divide => {
                if right == 0 {
                    return exec_err!("{DIVISION_BY_ZERO}");
                }
                // One more digit than the result has, so that rounding sees it.
                let target = i32::from(self.result.1);
                let Some(dividend) = shift(wide(left), target - s1 + s2) else {
                    return Ok(None);
                };
                (divide_half_up(dividend, wide(right)), target)
            }
        };
        let target = i32::from(self.result.1);
        Ok(value
            .and_then(|value| shift(value, target - scale))
            .and_then(|value| value.to_i128())
            .filter(|value| fits(*value, self.result.0)))
    }
}

/// `value · 10^digits`, rounded half up for negative `digits`.
fn shift(value: i256, digits: i32) -> Option<i256> {
    let factor = i256::from_i128(10).checked_pow(digits.unsigned_abs())?;
    if digits >= 0 {
        value.checked_mul(factor)
    } else {
        divide_half_up(value, factor)
    }
}

/// The quotient rounded to nearest, halves away from zero.
fn divide_half_up(dividend: i256, divisor: i256) -> Option<i256> {
    let quotient = dividend.checked_div(divisor)?;
    let rest = dividend.checked_rem(divisor)?;
    let two = i256::from_i128(2);
    if rest.wrapping_abs().checked_mul(two)? < divisor.wrapping_abs() {
        return Some(quotient);
    }
    let negative = (dividend < i256::ZERO) != (divisor < i256::ZERO);
    let one = i256::from_i128(if negative { -1 } else { 1 });
    quotient.checked_add(one)
}

/// Whether the unscaled value has at most `precision` digits.
pub(super) fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10u128.pow(u32::from(precision.min(38)))
}

/// The unscaled value at another scale, rounded half up; nothing if it has no room.
pub(super) fn rescale(value: i128, from: i8, to: i8, precision: u8) -> Option<i128> {
    shift(i256::from_i128(value), i32::from(to) - i32::from(from))?
        .to_i128()
        .filter(|value| fits(*value, precision))
}

impl fmt::Display for DecimalArithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl ScalarUDFImpl for DecimalArithmetic {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = !self.multiplies_exactly()
            || arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(
            self.name(),
            self.data_type(),
            nullable,
        )))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let constant = |i: usize| match &arguments.args[i] {
            ColumnarValue::Scalar(ScalarValue::Decimal128(value, _, _)) => Some(*value),
            _ => None,
        };
        let result: PrimitiveArray<Decimal128Type> = match (constant(0), constant(1)) {
            (Some(None), _) | (_, Some(None)) => {
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from(
                    &self.data_type(),
                )?));
            }
            (Some(Some(left)), Some(Some(right))) => {
                let value = self.apply(left, right)?;
                return Ok(ColumnarValue::Scalar(ScalarValue::Decimal128(
                    value,
                    self.result.0,
                    self.result.1,
                )));
            }
            (Some(Some(left)), None) => {
                let right = arguments.args[1].to_array(rows)?;
                self.unary(&right, |right| (left, right))?
            }
            (None, Some(Some(right))) => {
                let left = arguments.args[0].to_array(rows)?;
                self.unary(&left, |left| (left, right))?
            }
            (None, None) => {
                let left = arguments.args[0].to_array(rows)?;
                let right = arguments.args[1].to_array(rows)?;
                let left = left.as_primitive::<Decimal128Type>();
                let right = right.as_primitive::<Decimal128Type>();
                if self.multiplies_exactly() {
                    arrow::compute::binary(left, right, |l, r| l.wrapping_mul(r))?
                } else {
                    let mut values = Vec::with_capacity(rows);
                    for row in 0..rows {
                        values.push(if left.is_null(row) || right.is_null(row) {
                            None
                        } else {
                            self.apply(left.value(row), right.value(row))?
                        });
                    }
                    PrimitiveArray::from(values)
                }
            }
        };
        let result: ArrayRef = Arc::new(result.with_data_type(self.data_type()));
        Ok(ColumnarValue::Array(result))
    }
}

impl DecimalArithmetic {
    fn unary(
        &self,
        array: &ArrayRef,
        operands: impl Fn(i128) -> (i128, i128),
    ) -> Result<PrimitiveArray<Decimal128Type>> {
        let array = array.as_primitive::<Decimal128Type>();
        if self.multiplies_exactly() {
            return Ok(array.unary(|value| {
                let (left, right) = operands(value);
                left.wrapping_mul(right)
            }));
        }
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            values.push(if array.is_null(row) {
                None
            } else {
                let (left, right) = operands(array.value(row));
                self.apply(left, right)?
            });
        }
        Ok(PrimitiveArray::from(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_types_follow_the_table() {
        use Arithmetic::*;
        // 0.908 * a BIGINT, as in Nexmark query 1: DECIMAL(23, 3).
        assert_eq!(decimal_result(Multiply, (3, 3), (19, 0)), (23, 3));
        assert_eq!(decimal_result(Add, (10, 2), (5, 4)), (13, 4));
        assert_eq!(decimal_result(Divide, (10, 2), (5, 0)), (16, 8));
        assert_eq!(decimal_result(Modulo, (10, 2), (5, 0)), (7, 2));
        // 38 + 38 digits: the scale gives way down to six.
        assert_eq!(decimal_result(Multiply, (38, 10), (38, 10)), (38, 6));
    }

    #[test]
    fn operations_round_half_up_and_overflow_to_null() {
        use Arithmetic::*;
        let apply =
            |op, left, right, a, b| DecimalArithmetic::new(op, left, right).apply(a, b).unwrap();
        // 1.00 / 3 = 0.33333333 (scale 8).
        assert_eq!(apply(Divide, (10, 2), (5, 0), 100, 3), Some(33_333_333));
        // 2.00 / 3 = 0.66666667.
        assert_eq!(apply(Divide, (10, 2), (5, 0), 200, 3), Some(66_666_667));
        assert_eq!(apply(Divide, (10, 2), (5, 0), -200, 3), Some(-66_666_667));
        // 1.5 + 0.25 = 1.75
        assert_eq!(apply(Add, (2, 1), (3, 2), 15, 25), Some(175));
        // -7.5 % 2 = -1.5
        assert_eq!(apply(Modulo, (2, 1), (1, 0), -75, 2), Some(-15));
        let max = 10i128.pow(38) - 1;
        assert_eq!(apply(Add, (38, 0), (38, 0), max, 1), None);
        assert!(
            DecimalArithmetic::new(Divide, (3, 0), (3, 0))
                .apply(1, 0)
                .is_err()
        );
    }
}
