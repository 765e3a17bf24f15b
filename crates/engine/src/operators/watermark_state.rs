//! The watermark of a windowed operator over a restore: what fired must not fire again.
//!
//! List `watermark`, one item per former subtask: version tag, its key groups (2 × 2 bytes), its
//! watermark (8 bytes), all big-endian. A subtask takes the least of those whose key groups it
//! shares: it is the same for all of them, since a barrier reaches them after the same rows.

use millrace_dataflow::{KeyGroupRange, StateId};

use crate::{OperatorError, OperatorSnapshot, RestoredState};

const LIST: &str = "watermark";
const FORMAT: u8 = 1;

pub(crate) fn save(
    state_id: &StateId,
    key_groups: KeyGroupRange,
    watermark: i64,
    snapshot: &mut OperatorSnapshot,
) {
    let mut item = vec![FORMAT];
    item.extend_from_slice(&key_groups.start.to_be_bytes());
    item.extend_from_slice(&key_groups.end.to_be_bytes());
    item.extend_from_slice(&watermark.to_be_bytes());
    snapshot.list(state_id, LIST, vec![item]);
}

/// `i64::MIN` if there was none.
pub(crate) fn restore(
    state_id: &StateId,
    key_groups: KeyGroupRange,
    restored: &RestoredState,
) -> Result<i64, OperatorError> {
    let mut least: Option<i64> = None;
    for item in restored.list(state_id, LIST) {
        let (range, watermark) = decode(item).ok_or_else(|| {
            OperatorError::Internal(format!("the watermark in the state of {state_id}"))
        })?;
        if range.overlaps(key_groups) {
            least = Some(least.map_or(watermark, |least| least.min(watermark)));
        }
    }
    Ok(least.unwrap_or(i64::MIN))
}

fn decode(item: &[u8]) -> Option<(KeyGroupRange, i64)> {
    let [FORMAT, a, b, c, d, watermark @ ..] = item else {
        return None;
    };
    let range = KeyGroupRange {
        start: u16::from_be_bytes([*a, *b]),
        end: u16::from_be_bytes([*c, *d]),
    };
    Some((range, i64::from_be_bytes(watermark.try_into().ok()?)))
}
