//! `CAST` and `TRY_CAST` with Flink's rules.
//!
//! A value that cannot be read fails the evaluation, naming the value, or becomes null under
//! TRY_CAST. Numbers that narrow wrap or truncate as in Flink; a DECIMAL without room is null.

mod numeric;
mod parse;
mod text;
mod time;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array},
    datatypes::{DataType, Field, FieldRef},
};
use chrono_tz::Tz;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::call::any_signature;
use crate::flink_type::{FlinkType, same_type, type_name};

pub(super) use parse::{parse_date, parse_timestamp_nanos};
pub(crate) use text::{double_text, float_text};
pub(crate) use time::{format_date, format_time, format_timestamp_ms, local_to_utc, utc_to_local};

/// One cast to a known type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CastFunction {
    target: DataType,
    length: Option<Length>,
    /// Null instead of failing.
    lenient: bool,
    /// Whether the result can be null although the argument is not.
    adds_nulls: bool,
    zone: String,
    name: String,
    signature: Signature,
}

/// A length that the target type limits strings or bytes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Length {
    limit: u32,
    /// Whether shorter values are padded.
    pad: bool,
}

/// What a cast runs with.
pub(crate) struct Rules {
    pub(crate) zone: Tz,
    pub(crate) lenient: bool,
}

impl CastFunction {
    /// A cast of values of type `from`. The pair must have passed [`check`].
    pub(crate) fn new(from: &DataType, to: &FlinkType, lenient: bool, zone: Tz) -> Self {
        let target = to.arrow();
        let length = match to {
            FlinkType::Char(limit) | FlinkType::Binary(limit) => Some((*limit, true)),
            FlinkType::VarChar(Some(limit)) | FlinkType::VarBinary(Some(limit)) => {
                Some((*limit, false))
            }
            _ => None,
        };
        let decimal = matches!(target, DataType::Decimal128(_, _));
        let verb = if lenient { "TRY_CAST" } else { "CAST" };
        CastFunction {
            adds_nulls: lenient || decimal || from.is_nested(),
            length: length.map(|(limit, pad)| Length { limit, pad }),
            lenient,
            zone: zone.name().to_string(),
            name: format!("{verb}[{to}]"),
            signature: any_signature(1, Volatility::Immutable),
            target,
        }
    }
}

/// Whether values of one type can be cast to another; if not, what to do instead.
pub(crate) fn check(from: &DataType, to: &DataType) -> Result<(), Option<&'static str>> {
    use DataType::*;
    let fine = match (from, to) {
        (Interval(_) | Duration(_), to) if from != to => {
            return Err(Some(
                "an interval can be added to a time; TIMESTAMPDIFF gives the length between two times as a number",
            ));
        }
        (Null, _) | (_, Utf8) => true,
        (a, b) if same_type(a, b) => true,
        (Utf8, Binary | Boolean | Date32 | Time32(_) | Timestamp(_, _)) => true,
        (Utf8, b) => b.is_numeric(),
        (a, b) if a.is_numeric() && b.is_numeric() => true,
        (a, Boolean) if a.is_numeric() => true,
        (Boolean, b) if b.is_numeric() => true,
        (a, Timestamp(_, _)) if a.is_numeric() => {
            return Err(Some(
                "use TO_TIMESTAMP_LTZ(number, 0 for seconds or 3 for milliseconds)",
            ));
        }
        (Timestamp(_, _), b) if b.is_numeric() => {
            return Err(Some(
                "use UNIX_TIMESTAMP(CAST(ts AS STRING)) or EXTRACT(EPOCH FROM ts)",
            ));
        }
        (Date32, Timestamp(_, _)) => true,
        (Timestamp(_, _), Date32 | Time32(_) | Timestamp(_, _)) => true,
        (List(a), List(b)) => return check(a.data_type(), b.data_type()),
        (Map(a, _), Map(b, _)) => return check(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                check(a.data_type(), b.data_type())?;
            }
            true
        }
        _ => false,
    };
    if fine { Ok(()) } else { Err(None) }
}

/// Casts an array; elements of nested types are cast one level after the other.
pub(crate) fn cast_array(array: &ArrayRef, to: &DataType, rules: &Rules) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    match (from, to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (_, DataType::Utf8) => text::to_text(array, rules),
        (DataType::Utf8, _) => parse::from_text(array, to, rules),
        (DataType::List(_), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = cast_array(list.values(), element.data_type(), rules)?;
            Ok(Arc::new(ListArray::try_new(
                Arc::clone(element),
                list.offsets().clone(),
                values,
                list.nulls().cloned(),
            )?))
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let as_struct: ArrayRef = Arc::new(map.entries().clone());
            let values = cast_array(&as_struct, entries.data_type(), rules)?;
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                values.as_struct().clone(),
                map.nulls().cloned(),
                *sorted,
            )?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let row = array.as_struct();
            let columns = row
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| cast_array(column, field.data_type(), rules))
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                columns,
                row.nulls().cloned(),
            )?))
        }
        (a, b)
            if (a.is_numeric() || a == &DataType::Boolean)
                && (b.is_numeric() || b == &DataType::Boolean) =>
        {
            numeric::convert(array, to)
        }
        (DataType::Timestamp(_, _) | DataType::Date32 | DataType::Time32(_), _) => {
            time::convert(array, to, rules.zone)
        }
        (DataType::Binary, DataType::Binary) => Ok(Arc::clone(array)),
        _ => internal_err!("no cast from {} to {}", type_name(from), type_name(to)),
    }
}

/// The zone of this name; names are checked when they are set.
pub(super) fn zone_of(name: &str) -> Result<Tz> {
    name.parse()
        .or_else(|_| internal_err!("unknown time zone {name}"))
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.adds_nulls || arguments.arg_fields[0].is_nullable();
        let field = Field::new(self.name(), self.target.clone(), nullable);
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let rows = if constant { 1 } else { arguments.number_rows };
        let array = arguments.args[0].to_array(rows)?;
        let rules = Rules {
            zone: zone_of(&self.zone)?,
            lenient: self.lenient,
        };
        let mut result = cast_array(&array, &self.target, &rules)?;
        if let Some(length) = self.length {
            result = text::limit(&result, length.limit as usize, length.pad);
        }
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
