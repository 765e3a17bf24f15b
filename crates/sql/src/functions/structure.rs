//! Access to a ROW's fields, and adding a constant interval to a time.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, make_array},
    buffer::NullBuffer,
    datatypes::{
        DataType, Date32Type, Field, FieldRef, Int64Type, Time32MillisecondType, TimeUnit,
    },
};
use chrono::{DateTime, Datelike, Months, NaiveDate, TimeZone, Utc};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::call::any_signature;

/// `row.field`: null where the row is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldAccess {
    field: usize,
    name: String,
    data_type: DataType,
    nullable: bool,
    signature: Signature,
}

impl FieldAccess {
    pub(crate) fn new(field: usize, definition: &Field) -> Self {
        FieldAccess {
            field,
            name: format!(".{}", definition.name()),
            data_type: definition.data_type().clone(),
            nullable: definition.is_nullable(),
            signature: any_signature(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for FieldAccess {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.nullable || arguments.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(
            self.name(),
            self.data_type.clone(),
            nullable,
        )))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let rows = if constant { 1 } else { arguments.number_rows };
        let array = arguments.args[0].to_array(rows)?;
        let Some(row) = array.as_struct_opt() else {
            return internal_err!("{} of {}", self.name, array.data_type());
        };
        let field = masked(row.column(self.field), row.nulls())?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &field, 0,
            )?));
        }
        Ok(ColumnarValue::Array(field))
    }
}

/// `values`, null also where the mask is.
fn masked(values: &ArrayRef, mask: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(mask) = mask.filter(|mask| mask.null_count() > 0) else {
        return Ok(Arc::clone(values));
    };
    let nulls = NullBuffer::union(Some(mask), values.nulls());
    let data = values.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

/// `time + INTERVAL …` with a constant interval; the result has the time's type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AddInterval {
    months: i32,
    millis: i64,
    data_type: DataType,
    name: String,
    signature: Signature,
}

impl AddInterval {
    /// Adds calendar months, then milliseconds, to values of `data_type`.
    pub(crate) fn new(months: i32, millis: i64, data_type: DataType) -> Self {
        let name = match (months, millis) {
            (0, millis) => format!("ADD_INTERVAL[{millis} ms]"),
            (months, 0) => format!("ADD_INTERVAL[{months} months]"),
            (months, millis) => format!("ADD_INTERVAL[{months} months {millis} ms]"),
        };
        AddInterval {
            months,
            millis,
            data_type,
            name,
            signature: any_signature(1, Volatility::Immutable),
        }
    }

    fn shift_time(&self, value: i64, per_milli: i64) -> Result<i64> {
        let mut value = value;
        if self.months != 0 {
            let second = value.div_euclid(per_milli * 1_000);
            let rest = value.rem_euclid(per_milli * 1_000);
            let shifted = Utc
                .timestamp_opt(second, 0)
                .single()
                .and_then(|time| add_months(time, self.months));
            let Some(shifted) = shifted else {
                return exec_err!("time out of range after {}", self.name);
            };
            value = match shifted.timestamp().checked_mul(per_milli * 1_000) {
                Some(shifted) => shifted + rest,
                None => return exec_err!("time out of range after {}", self.name),
            };
        }
        match self
            .millis
            .checked_mul(per_milli)
            .and_then(|delta| value.checked_add(delta))
        {
            Some(value) => Ok(value),
            None => exec_err!("time out of range after {}", self.name),
        }
    }
}

fn add_months(time: DateTime<Utc>, months: i32) -> Option<DateTime<Utc>> {
    let count = Months::new(months.unsigned_abs());
    if months >= 0 {
        time.checked_add_months(count)
    } else {
        time.checked_sub_months(count)
    }
}

impl ScalarUDFImpl for AddInterval {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields[0].is_nullable();
        let field = Field::new(self.name(), self.data_type.clone(), nullable);
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let rows = if constant { 1 } else { arguments.number_rows };
        let array = arguments.args[0].to_array(rows)?;
        let shifted: ArrayRef = match array.data_type() {
            DataType::Timestamp(unit, _) => {
                let per_milli = match unit {
                    TimeUnit::Second => return internal_err!("timestamps in seconds"),
                    TimeUnit::Millisecond => 1,
                    TimeUnit::Microsecond => 1_000,
                    TimeUnit::Nanosecond => 1_000_000,
                };
                let values = arrow::compute::cast(&array, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>();
                let shifted: arrow::array::Int64Array =
                    values.try_unary(|value| self.shift_time(value, per_milli))?;
                arrow::compute::cast(&shifted, array.data_type())?
            }
            DataType::Date32 => {
                let dates = array.as_primitive::<Date32Type>();
                let shifted: arrow::array::Date32Array = dates.try_unary(|days| {
                    let millis = self.shift_time(i64::from(days) * 86_400_000, 1)?;
                    i32::try_from(millis.div_euclid(86_400_000))
                        .or_else(|_| exec_err!("date out of range after {}", self.name))
                })?;
                Arc::new(shifted)
            }
            DataType::Time32(_) => {
                let times = array.as_primitive::<Time32MillisecondType>();
                let shifted: arrow::array::Time32MillisecondArray = times.unary(|millis| {
                    (i64::from(millis).wrapping_add(self.millis)).rem_euclid(86_400_000) as i32
                });
                Arc::new(shifted)
            }
            other => return internal_err!("{} of {other}", self.name),
        };
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &shifted, 0,
            )?));
        }
        Ok(ColumnarValue::Array(shifted))
    }
}

/// Days since the epoch of a calendar date.
pub(super) fn epoch_days(date: NaiveDate) -> i32 {
    // 719163 is 1970-01-01 counted from 0001-01-01.
    date.num_days_from_ce() - 719_163
}
