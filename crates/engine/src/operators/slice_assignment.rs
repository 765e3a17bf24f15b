//! Splits the rows of a batch by the slice they fall into.

use std::{borrow::Cow, hash::Hash};

use arrow::array::{Array, ArrayRef};
use hashbrown::HashMap;

use super::{
    window_slices::{Slicing, TIME_LIMIT},
    window_time::WindowTime,
};
use crate::{OperatorError, key_table::int_values};

/// A slice and its rows; `None`: all rows of the batch.
pub(crate) type SliceRows<K> = (K, Option<Vec<u32>>);

/// By the end of the slice that a time falls into.
pub(crate) fn by_time(
    slicing: &Slicing,
    time: &mut WindowTime,
    column: &ArrayRef,
) -> Result<Vec<SliceRows<i64>>, OperatorError> {
    let (mut least, mut most) = check_times(column, "the time attribute")?;
    let moments = int_values(column.as_ref());
    let times: Cow<'_, [i64]> = if time.is_shifted() {
        let local = moments.iter().map(|moment| time.local_of(*moment));
        Cow::Owned(local.collect())
    } else {
        moments
    };
    if time.is_shifted() {
        (least, most) = range(&times);
    }
    let end = slicing.slice_end(least);
    if end == slicing.slice_end(most) {
        return Ok(vec![(end, None)]);
    }
    // Neighbouring rows mostly share a slice; only where it changes is anything computed.
    let (mut start, mut end) = (1, 0);
    Ok(split(times.iter().map(|time| {
        if !(start <= *time && *time < end) {
            end = slicing.slice_end(*time);
            start = end - slicing.grain();
        }
        end
    })))
}

fn range(times: &[i64]) -> (i64, i64) {
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for time in times {
        least = least.min(*time);
        most = most.max(*time);
    }
    (least, most)
}

/// The least and the greatest time of a column that is not empty. Refuses null, since a row
/// needs a time to be windowed, and times that no calendar has.
pub(crate) fn check_times(column: &ArrayRef, what: &str) -> Result<(i64, i64), OperatorError> {
    if column.null_count() > 0 {
        let row = (0..column.len()).find(|row| column.is_null(*row));
        return Err(OperatorError::Data(format!(
            "{what} is NULL in row {} of a batch: rows need a time to be windowed, filter out those without (WHERE … IS NOT NULL)",
            row.unwrap_or(0)
        )));
    }
    let (least, most) = range(&int_values(column.as_ref()));
    for time in [least, most] {
        if !column.is_empty() && time.unsigned_abs() > TIME_LIMIT as u64 {
            return Err(OperatorError::Data(format!(
                "{what} is {time} ms since 1970 in a row: windows take times within ±{TIME_LIMIT} ms, filter out such rows or correct their unit"
            )));
        }
    }
    Ok((least, most))
}

/// Groups row numbers by key, keys in order of first appearance.
pub(crate) fn split<K: Copy + Eq + Hash>(keys: impl Iterator<Item = K>) -> Vec<SliceRows<K>> {
    let mut parts: Vec<(K, Vec<u32>)> = Vec::new();
    let mut known: HashMap<K, usize> = HashMap::new();
    let mut last: Option<(K, usize)> = None;
    for (row, key) in keys.enumerate() {
        let part = match last {
            Some((same, part)) if same == key => part,
            _ => *known.entry(key).or_insert_with(|| {
                parts.push((key, Vec::new()));
                parts.len() - 1
            }),
        };
        last = Some((key, part));
        parts[part].1.push(row as u32);
    }
    if let [(key, _)] = parts.as_slice() {
        return vec![(*key, None)];
    }
    parts
        .into_iter()
        .map(|(key, rows)| (key, Some(rows)))
        .collect()
}
