//! Splits the rows of a batch by the slice they fall into.

use std::{borrow::Cow, hash::Hash};

use arrow::array::{Array, ArrayRef};
use hashbrown::HashMap;

use super::{window_slices::Slicing, window_time::WindowTime};
use crate::{OperatorError, key_table::int_values};

/// A slice and its rows; `None`: all rows of the batch.
pub(crate) type SliceRows<K> = (K, Option<Vec<u32>>);

/// By the end of the slice that a time falls into.
pub(crate) fn by_time(
    slicing: &Slicing,
    time: &mut WindowTime,
    column: &ArrayRef,
) -> Result<Vec<SliceRows<i64>>, OperatorError> {
    refuse_nulls(column, "the time attribute")?;
    let moments = int_values(column.as_ref());
    let times: Cow<'_, [i64]> = if time.is_shifted() {
        moments
            .iter()
            .map(|moment| time.to_local(*moment))
            .collect()
    } else {
        moments
    };
    let (mut least, mut most) = (i64::MAX, i64::MIN);
    for time in times.iter() {
        least = least.min(*time);
        most = most.max(*time);
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
            start = end.saturating_sub(slicing.grain());
        }
        end
    })))
}

/// Refuses null where a row needs a time.
pub(crate) fn refuse_nulls(column: &ArrayRef, what: &str) -> Result<(), OperatorError> {
    match (0..column.len()).find(|row| column.is_null(*row)) {
        Some(row) if column.null_count() > 0 => Err(OperatorError::Data(format!(
            "{what} is NULL in row {row} of a batch: rows need a time to be windowed, filter out those without (WHERE … IS NOT NULL)"
        ))),
        _ => Ok(()),
    }
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
