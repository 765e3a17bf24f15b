//! Which partition a record goes to.

use super::options::PartitionerKind;

/// Chooses partitions for one subtask.
#[derive(Debug, Clone)]
pub(super) struct Partitioner {
    kind: PartitionerKind,
    subtask: u32,
    /// Records so far, for going round.
    count: u64,
}

impl Partitioner {
    pub(super) fn new(kind: PartitionerKind, subtask: u32) -> Self {
        Partitioner {
            kind,
            subtask,
            count: u64::from(subtask),
        }
    }

    /// The partition out of `partitions`; `None` leaves it to the client, which fills one batch
    /// after the other.
    pub(super) fn partition(&mut self, key: Option<&[u8]>, partitions: i32) -> Option<i32> {
        let partitions = u32::try_from(partitions).ok().filter(|count| *count > 0)?;
        let chosen = match self.kind {
            // As Java's producer does: the sign bit is dropped, not the number negated.
            PartitionerKind::ByKey => (murmur2(key?) & 0x7fff_ffff) % partitions,
            PartitionerKind::Fixed => self.subtask % partitions,
            PartitionerKind::RoundRobin => {
                let next = self.count % u64::from(partitions);
                self.count += 1;
                next as u32
            }
        };
        i32::try_from(chosen).ok()
    }
}

/// MurmurHash2 with the seed of Kafka's Java client, by which all its clients spread keys.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ key.len() as u32;
    let (words, tail) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_java_client() {
        // From the tests of org.apache.kafka.common.utils.Utils.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn kinds() {
        let mut by_key = Partitioner::new(PartitionerKind::ByKey, 1);
        assert_eq!(by_key.partition(Some(b"abc"), 7), Some(479_470_107 % 7));
        assert_eq!(
            by_key.partition(Some(b"21"), 7),
            Some((-973_932_308 & 0x7fff_ffff) % 7)
        );
        assert_eq!(by_key.partition(None, 7), None);
        assert_eq!(by_key.partition(Some(b"abc"), 0), None);
        let mut fixed = Partitioner::new(PartitionerKind::Fixed, 5);
        assert_eq!(
            [fixed.partition(None, 4), fixed.partition(Some(b"x"), 4)],
            [Some(1); 2]
        );
        let mut round = Partitioner::new(PartitionerKind::RoundRobin, 1);
        let chosen: Vec<_> = (0..4).filter_map(|_| round.partition(None, 3)).collect();
        assert_eq!(chosen, [1, 2, 0, 1]);
    }
}
