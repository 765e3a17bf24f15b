//! The times of a source's rows, and the watermarks they imply.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, TimeUnit, TimestampMillisecondType},
};
use millrace_dataflow::WatermarkSpec;

use crate::OperatorError;

type Millis = arrow::array::PrimitiveArray<TimestampMillisecondType>;

/// The rows' times and the watermarks they imply. `place` tells where a row came from.
pub(crate) fn event_times(
    spec: &WatermarkSpec,
    rows: &RecordBatch,
    place: impl Fn(usize) -> String,
) -> Result<(Millis, Millis), OperatorError> {
    let name = rows.schema().field(spec.column).name().clone();
    let times = millis(rows.column(spec.column))?;
    if let Some(row) = (0..times.len()).find(|row| times.is_null(*row)) {
        return Err(OperatorError::Data(format!(
            "the event-time column `{name}` is null in {}: filter such rows out before the watermark, \
             or give the column a value with COALESCE in a computed column",
            place(row)
        )));
    }
    let implied = spec
        .expr
        .expr
        .evaluate(rows)
        .and_then(|value| value.into_array(rows.num_rows()))
        .map_err(|error| OperatorError::in_expression(&error, &spec.expr.text))?;
    let implied = millis(&implied)?;
    if let Some(row) = (0..implied.len()).find(|row| implied.is_null(*row)) {
        return Err(OperatorError::Data(format!(
            "the WATERMARK expression `{}` is null for {}: it must have a value wherever `{name}` has one",
            spec.expr.text,
            place(row)
        )));
    }
    Ok((times, implied))
}

fn millis(column: &ArrayRef) -> Result<Millis, OperatorError> {
    // The zone is only a label: values are UTC or local milliseconds either way.
    let plain = match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.clone(),
        _ => cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None))?,
    };
    Ok(plain.as_primitive::<TimestampMillisecondType>().clone())
}
