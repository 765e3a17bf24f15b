//! Rows as JSON values, for previews and for printing.
//!
//! Integers and floats are JSON numbers. DECIMALs are strings, because a JSON number in memory
//! is a double; so are floats beyond JSON's numbers, times (SQL style) and BYTES (base64).

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Number, Value};

use millrace_dataflow::RowKind;

use crate::encode::{Typed, Values, json_range};
use crate::error::FormatError;

/// One row of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonRow {
    /// What the row does to the result.
    pub kind: RowKind,
    /// One value per column, in the order of the schema.
    pub values: Vec<Value>,
}

/// The rows of a batch. Without `kinds` all are insertions.
///
/// # Errors
/// [`FormatError::KindCount`] when `kinds` does not go with the batch.
pub fn json_rows(
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
) -> Result<Vec<JsonRow>, FormatError> {
    if let Some(kinds) = kinds
        && kinds.len() != batch.num_rows()
    {
        return Err(FormatError::KindCount {
            rows: batch.num_rows(),
            kinds: kinds.len(),
        });
    }
    let columns = batch
        .columns()
        .iter()
        .map(Column::new)
        .collect::<Result<Vec<_>, _>>()?;
    Ok((0..batch.num_rows())
        .map(|row| JsonRow {
            kind: kinds.map_or(RowKind::Insert, |kinds| kinds[row]),
            values: columns.iter().map(|column| column.value(row)).collect(),
        })
        .collect())
}

/// The rows of a batch as one JSON object each; its members have no order. With `kinds` the
/// member `op` says `+I`, `-U`, `+U` or `-D`; if a column is named so, the member is
/// `$op`.
///
/// # Errors
/// As [`json_rows`].
pub fn json_objects(
    batch: &RecordBatch,
    kinds: Option<&[RowKind]>,
) -> Result<Vec<Value>, FormatError> {
    let schema = batch.schema_ref();
    let op = match schema.index_of("op") {
        Ok(_) => "$op",
        Err(_) => "op",
    };
    let rows = json_rows(batch, kinds)?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let mut object = Map::new();
            if kinds.is_some() {
                object.insert(op.to_owned(), Value::from(row.kind.short_name()));
            }
            for (field, value) in schema.fields().iter().zip(row.values) {
                object.insert(field.name().clone(), value);
            }
            Value::Object(object)
        })
        .collect())
}

enum Column<'a> {
    Typed(Typed<'a>),
    /// A type the formats do not write, as Arrow shows it: a preview shows every query.
    Other(&'a ArrayRef, ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Column<'a>, FormatError> {
        if let Ok(typed) = Typed::new(array) {
            return Ok(Column::Typed(typed));
        }
        const OPTIONS: FormatOptions<'static> = FormatOptions::new();
        let formatter =
            ArrayFormatter::try_new(array, &OPTIONS).map_err(|source| FormatError::Arrow {
                context: "cannot show a column",
                source,
            })?;
        Ok(Column::Other(array, formatter))
    }

    fn value(&self, row: usize) -> Value {
        match self {
            Column::Typed(typed) => value(typed, row),
            Column::Other(array, _) if array.is_null(row) => Value::Null,
            Column::Other(_, formatter) => match formatter.value(row).try_to_string() {
                Ok(text) => Value::String(text),
                Err(error) => Value::String(format!("<{error}>")),
            },
        }
    }
}

fn value(column: &Typed<'_>, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    let float = |value: f64| Number::from_f64(value).map(Value::Number);
    let number = match &column.values {
        Values::Boolean(values) => Some(Value::Bool(values.value(row))),
        Values::Int8(values) => Some(Value::from(values[row])),
        Values::Int16(values) => Some(Value::from(values[row])),
        Values::Int32(values) => Some(Value::from(values[row])),
        Values::Int64(values) => Some(Value::from(values[row])),
        Values::UInt8(values) => Some(Value::from(values[row])),
        Values::UInt16(values) => Some(Value::from(values[row])),
        Values::UInt32(values) => Some(Value::from(values[row])),
        Values::UInt64(values) => Some(Value::from(values[row])),
        // Through its shortest decimal: 0.1 must not become 0.10000000149011612.
        Values::Float32(values) => {
            let mut text = Vec::new();
            crate::text::write::float32(values[row], &mut text);
            serde_json::from_slice(&text).ok()
        }
        Values::Float64(values) => float(values[row]),
        Values::List { offsets, items } => Some(
            json_range(offsets, row)
                .map(|index| value(items, index))
                .collect(),
        ),
        Values::Struct(fields) => Some(Value::Object(
            fields
                .iter()
                .map(|(name, field)| ((*name).to_owned(), value(field, row)))
                .collect(),
        )),
        Values::Map {
            offsets,
            keys,
            items,
        } => Some(Value::Object(
            json_range(offsets, row)
                .map(|index| (text(keys, index), value(items, index)))
                .collect(),
        )),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(text(column, row)))
}

fn text(column: &Typed<'_>, row: usize) -> String {
    let mut text = Vec::new();
    column.write_text(row, b' ', &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Decimal128Array, DurationSecondArray, Float32Array, Float64Array, Int64Array, StringArray,
        TimestampMillisecondArray,
    };
    use serde_json::json;

    use super::*;

    fn batch() -> RecordBatch {
        RecordBatch::try_from_iter([
            (
                "z",
                Arc::new(Int64Array::from(vec![Some(i64::MAX), None])) as ArrayRef,
            ),
            ("s", Arc::new(StringArray::from(vec!["a\"é", ""]))),
            ("f", Arc::new(Float32Array::from(vec![0.1, 1.0]))),
            ("d", Arc::new(Float64Array::from(vec![f64::NAN, 0.5]))),
            (
                "m",
                Arc::new(
                    Decimal128Array::from(vec![1_230, -5])
                        .with_precision_and_scale(20, 2)
                        .unwrap(),
                ),
            ),
            (
                "t",
                Arc::new(TimestampMillisecondArray::from(vec![1_609_330_394_123, 0])),
            ),
            (
                "i",
                Arc::new(DurationSecondArray::from(vec![Some(61), None])),
            ),
        ])
        .unwrap()
    }

    #[test]
    fn values_in_schema_order() {
        let rows = json_rows(&batch(), None).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].kind, RowKind::Insert);
        assert_eq!(
            rows[0].values,
            [
                json!(i64::MAX),
                json!("a\"é"),
                json!(0.1),
                json!("NaN"),
                json!("12.30"),
                json!("2020-12-30 12:13:14.123"),
                json!("PT61S"),
            ]
        );
        assert_eq!(rows[1].values[0], Value::Null);
        assert_eq!(rows[1].values[6], Value::Null);
    }

    #[test]
    fn objects_with_kinds() {
        let batch = batch().project(&[0]).unwrap();
        let kinds = [RowKind::UpdateBefore, RowKind::UpdateAfter];
        assert_eq!(
            json_objects(&batch, Some(&kinds)).unwrap(),
            [
                json!({"op": "-U", "z": i64::MAX}),
                json!({"op": "+U", "z": null})
            ]
        );
        assert!(matches!(
            json_objects(&batch, Some(&kinds[..1])),
            Err(FormatError::KindCount { rows: 2, kinds: 1 })
        ));
    }
}
