//! The stored form of keys and values. Both are persisted, so they change only under a new
//! version tag.
//!
//! Stored key: key group (2 bytes, big-endian) then the operator's key bytes; so a table's
//! order is by key group first and a range of groups is a range of keys.
//! Stored value: version tag (1 byte), write time in epoch milliseconds (8 bytes, big-endian),
//! payload. The time is there from the first write, so that a TTL can be switched on later.

use millrace_dataflow::KeyGroup;

use crate::error::{Result, StateError};

pub(crate) const VALUE_VERSION: u8 = 1;
pub(crate) const VALUE_HEADER: usize = 9;
pub(crate) const GROUP_BYTES: usize = 2;

/// What a table holds for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// When it was written, in epoch milliseconds, as the operator said.
    pub written_at_ms: i64,
    pub payload: Vec<u8>,
}

pub(crate) fn append_key(out: &mut Vec<u8>, group: KeyGroup, key: &[u8]) {
    out.reserve(GROUP_BYTES + key.len());
    out.extend_from_slice(&group.0.to_be_bytes());
    out.extend_from_slice(key);
}

pub(crate) fn append_value_header(out: &mut Vec<u8>, written_at_ms: i64) {
    out.push(VALUE_VERSION);
    out.extend_from_slice(&written_at_ms.to_be_bytes());
}

/// Key group and operator key of a stored key.
pub(crate) fn split_key(stored: &[u8]) -> Option<(KeyGroup, &[u8])> {
    let (group, key) = stored.split_first_chunk::<GROUP_BYTES>()?;
    Some((KeyGroup(u16::from_be_bytes(*group)), key))
}

/// Write time of a stored value; `None` if it is not one of ours.
pub(crate) fn written_at(stored: &[u8]) -> Option<i64> {
    let header = stored.first_chunk::<VALUE_HEADER>()?;
    let (tag, time) = header.split_first()?;
    if *tag != VALUE_VERSION {
        return None;
    }
    Some(i64::from_be_bytes(time.try_into().ok()?))
}

/// The whole stored value. `table` names it in the error.
pub(crate) fn decode_value(table: &str, stored: &[u8]) -> Result<Value> {
    let Some(written_at_ms) = written_at(stored) else {
        return Err(match stored.first() {
            Some(tag) if *tag != VALUE_VERSION => StateError::UnsupportedFormat {
                object: table.to_owned(),
                what: "value version",
                found: tag.to_string(),
                expected: VALUE_VERSION.to_string(),
            },
            _ => StateError::Corrupt {
                object: table.to_owned(),
                reason: format!("a value of {} bytes, the least is 9", stored.len()),
            },
        });
    };
    Ok(Value {
        written_at_ms,
        payload: stored[VALUE_HEADER..].to_vec(),
    })
}

/// Whether a value written then has outlived the TTL. A TTL of 0 keeps for ever.
pub(crate) fn is_expired(written_at_ms: i64, ttl_ms: u64, now_ms: i64) -> bool {
    ttl_ms > 0 && now_ms.saturating_sub_unsigned(ttl_ms) >= written_at_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_forms_are_fixed() {
        let mut key = Vec::new();
        append_key(&mut key, KeyGroup(0x0102), b"ab");
        assert_eq!(key, [1, 2, b'a', b'b']);
        assert_eq!(split_key(&key), Some((KeyGroup(0x0102), &b"ab"[..])));
        let mut value = Vec::new();
        append_value_header(&mut value, -2);
        value.push(7);
        assert_eq!(value, [1, 255, 255, 255, 255, 255, 255, 255, 254, 7]);
        let decoded = decode_value("t", &value).unwrap();
        assert_eq!((decoded.written_at_ms, decoded.payload), (-2, vec![7]));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bad in [&[][..], &[1, 0, 0][..], &[2; 20][..]] {
            assert!(decode_value("t", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn expiry_is_inclusive_and_never_overflows() {
        for (written, ttl, now, expired) in [
            (100, 0, i64::MAX, false),
            (100, 10, 109, false),
            (100, 10, 110, true),
            (100, u64::MAX, i64::MAX, false),
            (i64::MIN, 1, i64::MIN, true),
            (0, 10, i64::MIN, false),
        ] {
            assert_eq!(
                is_expired(written, ttl, now),
                expired,
                "{written} {ttl} {now}"
            );
        }
    }
}
