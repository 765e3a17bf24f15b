//! Which subtask reads which split, and what a source keeps of each in a snapshot.

use millrace_connectors::source::{SplitId, SplitState};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::OperatorError;

/// A split as it stands in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitRecord {
    /// 1.
    pub format: u32,
    #[serde(flatten)]
    pub split: SplitState,
    /// What it was found in.
    pub listing: String,
    /// The split's watermark: rows already judged late stay late after a restore.
    pub watermark: i64,
    /// Read to its end. Kept so that a listing that still shows it does not start it over.
    pub ended: bool,
}

impl SplitRecord {
    pub fn new(split: SplitState, listing: &str) -> Self {
        SplitRecord {
            format: 1,
            split,
            listing: listing.to_owned(),
            watermark: i64::MIN,
            ended: false,
        }
    }

    pub fn encode(&self) -> Result<Vec<u8>, OperatorError> {
        serde_json::to_vec(self)
            .map_err(|error| OperatorError::Internal(format!("split state: {error}")))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, OperatorError> {
        let record: SplitRecord = serde_json::from_slice(bytes).map_err(|error| {
            OperatorError::Data(format!(
                "the snapshot's position of a source split cannot be read: {error}"
            ))
        })?;
        if record.format != 1 {
            return Err(OperatorError::Data(format!(
                "the snapshot's position of split `{}` has format {}, this version of Millrace reads 1",
                record.split.id.0, record.format
            )));
        }
        Ok(record)
    }
}

/// The subtask that reads a split: by its number when the id ends in one (generators,
/// partitions: even over the subtasks, beginning elsewhere for every topic), else by a stable
/// hash (paths, whose numbers may be dates or have gaps).
pub fn subtask_of(split: &SplitId, parallelism: u32) -> u32 {
    let digits = split.0.bytes().rev().take_while(u8::is_ascii_digit).count();
    let head = &split.0[..split.0.len() - digits];
    let number = if (head.is_empty() || head.ends_with('-')) && !head.contains('/') {
        split.0[split.0.len() - digits..].parse::<u64>().ok()
    } else {
        None
    };
    let parallelism = u64::from(parallelism);
    let first = match head {
        "" => 0,
        topic => xxh3_64(topic.as_bytes()) % parallelism,
    };
    let spread = match number {
        Some(number) => first + number % parallelism,
        None => xxh3_64(split.0.as_bytes()),
    };
    (spread % parallelism) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_splits_are_spread_evenly() {
        let at = |id: &str| subtask_of(&SplitId(id.into()), 4);
        assert_eq!(["0", "1", "2", "5"].map(at), [0, 1, 2, 1]);
        let of_topic: Vec<u32> = (0..8).map(|i| at(&format!("topic-{i}"))).collect();
        let first = of_topic[0];
        assert!(
            (0..8).all(|i| of_topic[i as usize] == (first + i) % 4),
            "{of_topic:?}"
        );
        let first_ones: std::collections::BTreeSet<u32> =
            (0..40).map(|i| at(&format!("topic-{i}-0"))).collect();
        assert_eq!(
            first_ones.len(),
            4,
            "small topics do not all meet at one subtask"
        );
        assert!(at("data/part.json") < 4);
        let spread: std::collections::BTreeSet<u32> =
            (0..40).map(|i| at(&format!("in/day-{}", i * 4))).collect();
        assert_eq!(spread.len(), 4, "paths go by hash");
        assert!(at("") < 4);
        assert!(at("99999999999999999999999999") < 4);
    }
}
