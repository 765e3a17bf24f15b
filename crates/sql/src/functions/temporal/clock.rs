//! What the clock says, as the session sees it.

use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use super::DAY;
use crate::functions::{call::Call, cast::utc_to_local};

pub(super) fn now_instant(call: &Call) -> Result<ColumnarValue> {
    let now = call.context.clock.now_ms();
    Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(
        Some(now),
        Some(crate::flink_type::utc()),
    )))
}

fn local_now(call: &Call) -> i64 {
    utc_to_local(call.context.clock.now_ms(), call.context.zone)
}

pub(super) fn now_local(call: &Call) -> Result<ColumnarValue> {
    let now = local_now(call);
    Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(
        Some(now),
        None,
    )))
}

pub(super) fn today(call: &Call) -> Result<ColumnarValue> {
    let days = local_now(call).div_euclid(DAY) as i32;
    Ok(ColumnarValue::Scalar(ScalarValue::Date32(Some(days))))
}

pub(super) fn time_of_day(call: &Call) -> Result<ColumnarValue> {
    let millis = local_now(call).rem_euclid(DAY) as i32;
    Ok(ColumnarValue::Scalar(ScalarValue::Time32Millisecond(Some(
        millis,
    ))))
}
