//! State ids: the identity of a node's state across versions of a job. An id is made from
//! what the state means, never from where the node stands in the plan.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The identity of one node's state within its job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateId(pub String);

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Hands out ids: the same meaning twice in one job gets a running number, so ids are unique
/// and stay the same as long as the like nodes keep their order.
#[derive(Debug, Default)]
pub struct StateIds {
    seen: BTreeMap<String, u32>,
}

impl StateIds {
    /// The id for `kind` (such as `window-aggregate`) and everything else that the state means.
    pub fn next(&mut self, kind: &str, meaning: &str) -> StateId {
        let digest = Sha256::digest(meaning.as_bytes());
        let mut base = format!("{kind}-");
        for byte in &digest[..6] {
            base.push_str(&format!("{byte:02x}"));
        }
        let seen = self.seen.entry(base.clone()).or_insert(0);
        *seen += 1;
        if *seen > 1 {
            base.push_str(&format!("-{seen}"));
        }
        StateId(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_meaning_and_stay_unique() {
        let mut ids = StateIds::default();
        let first = ids.next("group-aggregate", "a");
        let other = ids.next("group-aggregate", "b");
        let again = ids.next("group-aggregate", "a");
        assert_ne!(first, other);
        assert_eq!(again.0, format!("{}-2", first.0));
        assert_eq!(StateIds::default().next("group-aggregate", "a"), first);
    }
}
