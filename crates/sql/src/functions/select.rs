//! A CASE whose branches cost nothing: conditions are evaluated once over the batch and each
//! row is taken from its branch, instead of splitting the batch by condition.
//!
//! Splitting copies every column that any branch reads, which for rows of rows is most of
//! the batch.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array},
    compute::interleave,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
    expr::{Case, ScalarFunction},
};

use super::call::any_signature;

/// Name of the function; its text is that of a CASE.
pub(crate) const SELECT: &str = "$CASE";

/// `CASE WHEN a THEN b … ELSE z END` as a function of `a, b, …, z`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Select {
    data_type: DataType,
    signature: Signature,
}

impl Select {
    /// The call that stands for a CASE of this type.
    pub(crate) fn of(case: Case, data_type: DataType) -> Expr {
        let mut arguments = vec![];
        for (when, then) in case.when_then_expr {
            arguments.push(*when);
            arguments.push(*then);
        }
        arguments.push(match case.else_expr {
            Some(otherwise) => *otherwise,
            None => Expr::Literal(ScalarValue::Null, None),
        });
        let select = Select {
            data_type,
            signature: any_signature(arguments.len(), Volatility::Immutable),
        };
        let function = Arc::new(ScalarUDF::new_from_impl(select));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
    }
}

impl ScalarUDFImpl for Select {
    fn name(&self) -> &str {
        SELECT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let last = arguments.arg_fields.len().saturating_sub(1);
        let nullable = arguments
            .arg_fields
            .iter()
            .enumerate()
            .any(|(i, field)| (i % 2 == 1 || i == last) && field.is_nullable());
        Ok(Arc::new(Field::new(
            SELECT,
            self.data_type.clone(),
            nullable,
        )))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let values = &arguments.args;
        let Some((otherwise, pairs)) = values.split_last() else {
            return internal_err!("CASE without branches");
        };
        // Of every row, the branch that it takes; the last is ELSE.
        let branches = pairs.len() / 2;
        let mut chosen: Vec<usize> = vec![branches; rows];
        let mut open = rows;
        for (branch, pair) in pairs.chunks_exact(2).enumerate() {
            if open == 0 {
                break;
            }
            match &pair[0] {
                ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => {
                    for slot in chosen.iter_mut().filter(|slot| **slot == branches) {
                        *slot = branch;
                    }
                    open = 0;
                }
                ColumnarValue::Scalar(_) => {}
                ColumnarValue::Array(mask) => {
                    let Some(mask) = mask.as_boolean_opt() else {
                        return internal_err!("a condition of type {}", mask.data_type());
                    };
                    open -= choose(mask, branch, branches, &mut chosen);
                }
            }
        }
        let value = |branch: usize| match branch == branches {
            true => otherwise,
            false => &pairs[2 * branch + 1],
        };
        let first = chosen.first().copied().unwrap_or(branches);
        if chosen.iter().all(|branch| *branch == first) {
            return self.whole(value(first), rows);
        }
        self.mix(&chosen, (0..=branches).map(value))
    }
}

/// Gives the branch to rows that have none yet and for which the mask holds; how many did.
fn choose(mask: &BooleanArray, branch: usize, none: usize, chosen: &mut [usize]) -> usize {
    let mut count = 0;
    let holds = match mask.nulls() {
        Some(nulls) => mask.values() & nulls.inner(),
        None => mask.values().clone(),
    };
    for row in holds.set_indices() {
        if chosen[row] == none {
            chosen[row] = branch;
            count += 1;
        }
    }
    count
}

impl Select {
    fn whole(&self, value: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
        if value.data_type() == DataType::Null {
            return Ok(ColumnarValue::Array(new_null_array(&self.data_type, rows)));
        }
        Ok(value.clone())
    }

    fn mix<'v>(
        &self,
        chosen: &[usize],
        values: impl Iterator<Item = &'v ColumnarValue>,
    ) -> Result<ColumnarValue> {
        let mut constant = vec![];
        let arrays = values
            .map(|value| {
                constant.push(matches!(value, ColumnarValue::Scalar(_)));
                match value {
                    value if value.data_type() == DataType::Null => {
                        Ok(new_null_array(&self.data_type, value_rows(value)))
                    }
                    ColumnarValue::Array(array) => Ok(Arc::clone(array)),
                    ColumnarValue::Scalar(scalar) => scalar.to_array(),
                }
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let indices: Vec<(usize, usize)> = chosen
            .iter()
            .enumerate()
            .map(|(row, branch)| (*branch, if constant[*branch] { 0 } else { row }))
            .collect();
        Ok(ColumnarValue::Array(interleave(&arrays, &indices)?))
    }
}

fn value_rows(value: &ColumnarValue) -> usize {
    match value {
        ColumnarValue::Array(array) => array.len(),
        ColumnarValue::Scalar(_) => 1,
    }
}
