//! The persisted form of sessions.
//!
//! Entry of a session: version tag, end, value sets (number, then per set its identity, number of
//! values, and per value the value and the calls that it counts for), aggregate entry (see
//! `state_layout`). Value sets are part of the entry, not entries of their own as elsewhere: a
//! session's start moves, and theirs would have to as well.
//!
//! Entry of a key: version tag, then per session its start and its entry with the length before it.

use std::sync::Arc;

use super::{session_state::SessionState, state_layout::StateLayouts};
use crate::{
    OperatorError,
    aggregate::{ValueEntry, codec},
};

const FORMAT: u8 = 1;

/// Appends the entry of a session.
pub(crate) fn encode(
    layouts: &StateLayouts,
    state: &SessionState,
    number: u32,
    entry: &mut Vec<u8>,
) {
    entry.push(FORMAT);
    codec::put_i64(entry, state.sessions.get(number).end);
    let plan = state.set.plan();
    codec::put_u64(entry, plan.value_sets().len() as u64);
    for (position, set) in plan.value_sets().iter().enumerate() {
        let (mut count, mut values) = (0, Vec::new());
        state.set.each_value(position, number, &mut |value| {
            count += 1;
            codec::put_bytes(&mut values, value.value);
            layouts.encode_value(&set.calls, value.counts, &mut values);
        });
        entry.extend_from_slice(&set.identity.to_be_bytes());
        codec::put_u64(entry, count);
        entry.extend_from_slice(&values);
    }
    layouts.encode(&state.set, number, entry);
}

/// Puts a session of a key back.
pub(crate) fn decode(
    layouts: &StateLayouts,
    state: &mut SessionState,
    key: u32,
    (start, persisted): (i64, bool),
    mut entry: &[u8],
) -> Result<(), OperatorError> {
    if codec::take_u8(&mut entry) != Some(FORMAT) {
        return Err(damaged());
    }
    let end = codec::take_i64(&mut entry).ok_or_else(damaged)?;
    let session = state.restore(key, start, end, persisted);
    let plan = Arc::clone(state.set.plan());
    for _ in 0..codec::take_u64(&mut entry).ok_or_else(damaged)? {
        let (identity, rest) = entry.split_first_chunk::<8>().ok_or_else(damaged)?;
        entry = rest;
        let identity = u64::from_be_bytes(*identity);
        let mut sets = plan.value_sets().iter().enumerate();
        let set = sets.find(|(_, set)| set.identity == identity);
        for _ in 0..codec::take_u64(&mut entry).ok_or_else(damaged)? {
            let value = codec::take_bytes(&mut entry).ok_or_else(damaged)?;
            let calls = set.map_or(&[][..], |(_, set)| &set.calls[..]);
            let counts = layouts.decode_value(calls, &mut entry)?;
            if let Some((number, _)) = set {
                let entry = ValueEntry {
                    group: session,
                    value,
                    counts: &counts,
                    seen_ms: 0,
                };
                state.set.load_value(number, entry)?;
            }
        }
    }
    layouts.decode(&mut state.set, session, entry)
}

/// The entry of a key with these sessions.
pub(crate) fn encode_key(
    layouts: &StateLayouts,
    state: &SessionState,
    sessions: &[u32],
) -> Vec<u8> {
    let mut whole = vec![FORMAT];
    let mut entry = Vec::new();
    for number in sessions {
        entry.clear();
        encode(layouts, state, *number, &mut entry);
        codec::put_i64(&mut whole, state.sessions.get(*number).start);
        codec::put_bytes(&mut whole, &entry);
    }
    whole
}

/// Puts all sessions of a key back, as ones that are not persisted by themselves.
pub(crate) fn decode_key(
    layouts: &StateLayouts,
    state: &mut SessionState,
    key: u32,
    mut whole: &[u8],
) -> Result<(), OperatorError> {
    if codec::take_u8(&mut whole) != Some(FORMAT) {
        return Err(damaged());
    }
    while !whole.is_empty() {
        let start = codec::take_i64(&mut whole).ok_or_else(damaged)?;
        let entry = codec::take_bytes(&mut whole).ok_or_else(damaged)?;
        decode(layouts, state, key, (start, false), entry)?;
    }
    Ok(())
}

pub(crate) fn damaged() -> OperatorError {
    OperatorError::Internal("an entry in the state of a session".into())
}
