//! Between the types of rows and those of the domain. Postgres has no unsigned integers; ids
//! and counts are far from 2^63, and what is not is cut on the way in and refused on the way out.

use millrace_types::{CheckpointId, Epoch, SavepointId, VersionNumber};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Result, StoreError};

pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn to_u64(what: &'static str, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| StoreError::corrupt(what, format!("{number} is negative")))
}

pub(super) fn to_u32(what: &'static str, number: i64) -> Result<u32> {
    u32::try_from(number)
        .map_err(|_| StoreError::corrupt(what, format!("{number} is out of range")))
}

pub(super) fn version(number: i64) -> Result<VersionNumber> {
    to_u32("version", number).map(VersionNumber)
}

pub(super) fn checkpoint(number: i64) -> Result<CheckpointId> {
    to_u64("checkpoint id", number).map(CheckpointId)
}

pub(super) fn savepoint(number: i64) -> Result<SavepointId> {
    to_u64("savepoint id", number).map(SavepointId)
}

pub(super) fn epoch(number: i64) -> Result<Epoch> {
    to_u64("lease epoch", number).map(Epoch)
}

/// Reads a stored state by its `parse`.
pub(super) fn state<T>(
    what: &'static str,
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T> {
    parse(text).ok_or_else(|| StoreError::corrupt(what, format!("`{text}` is not known")))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| StoreError::corrupt(what, error))
}

pub(super) fn to_json<T: Serialize>(what: &'static str, value: &T) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| StoreError::corrupt(what, error))
}

/// A name or other checked text.
pub(super) fn text<T, E: std::fmt::Display>(
    what: &'static str,
    text: String,
    parse: impl FnOnce(String) -> std::result::Result<T, E>,
) -> Result<T> {
    parse(text).map_err(|error| StoreError::corrupt(what, error))
}
