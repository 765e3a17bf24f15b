//! Where reading a partition begins and ends: what the options say, and how it becomes numbers.
//!
//! Numbers are found once, when a partition is first listed, and kept in the split's position
//! from then on: "the latest offset" of a restart would be another one, and what was written in
//! between would never be read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::topics::TopicPartition;

/// `scan.startup.mode` or `scan.bounded.mode`, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OffsetsMode {
    Earliest,
    Latest,
    /// Where the consumer group stands; another mode where it stands nowhere.
    Group(Fallback),
    /// The first record at or after this time, in epoch milliseconds.
    Timestamp(i64),
    /// By partition, for tables of one topic.
    Specific(BTreeMap<i32, i64>),
}

/// For partitions without a committed offset: `properties.auto.offset.reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    Earliest,
    Latest,
    Fail,
}

/// What has to be asked of the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lookup {
    Earliest,
    Latest,
    Committed,
    At(i64),
}

/// Their answers by partition; `None` is a committed offset that does not exist.
pub(super) type Answers = BTreeMap<(Lookup, TopicPartition), Option<i64>>;

impl OffsetsMode {
    /// What resolving some partitions may need.
    pub(super) fn lookups(&self) -> Vec<Lookup> {
        match self {
            OffsetsMode::Earliest => vec![Lookup::Earliest],
            OffsetsMode::Latest => vec![Lookup::Latest],
            OffsetsMode::Group(Fallback::Earliest) => vec![Lookup::Committed, Lookup::Earliest],
            OffsetsMode::Group(Fallback::Latest) => vec![Lookup::Committed, Lookup::Latest],
            OffsetsMode::Group(Fallback::Fail) => vec![Lookup::Committed],
            OffsetsMode::Timestamp(time) => vec![Lookup::At(*time), Lookup::Latest],
            OffsetsMode::Specific(_) => vec![Lookup::Earliest, Lookup::Latest],
        }
    }

    /// The offset of a partition, from the answers to [`OffsetsMode::lookups`].
    pub(super) fn resolve(
        &self,
        partition: &TopicPartition,
        answers: &Answers,
    ) -> Result<i64, String> {
        let answer = |lookup: Lookup| -> Result<Option<i64>, String> {
            answers
                .get(&(lookup, partition.clone()))
                .copied()
                .ok_or_else(|| {
                    format!(
                        "the brokers gave no offset for topic `{}` partition {}",
                        partition.topic, partition.partition
                    )
                })
        };
        let known = |lookup: Lookup| -> Result<i64, String> {
            answer(lookup)?.ok_or_else(|| {
                format!(
                    "topic `{}` partition {} has no offset at all",
                    partition.topic, partition.partition
                )
            })
        };
        match self {
            OffsetsMode::Earliest => known(Lookup::Earliest),
            OffsetsMode::Latest => known(Lookup::Latest),
            OffsetsMode::Group(fallback) => match (answer(Lookup::Committed)?, fallback) {
                (Some(offset), _) => Ok(offset),
                (None, Fallback::Earliest) => known(Lookup::Earliest),
                (None, Fallback::Latest) => known(Lookup::Latest),
                (None, Fallback::Fail) => Err(format!(
                    "the group has no committed offset for topic `{}` partition {}: set \
                     'properties.auto.offset.reset' to 'earliest' or 'latest'",
                    partition.topic, partition.partition
                )),
            },
            // No record at or after the time: the end.
            OffsetsMode::Timestamp(time) => match answer(Lookup::At(*time))? {
                Some(offset) => Ok(offset),
                None => known(Lookup::Latest),
            },
            OffsetsMode::Specific(offsets) => {
                let offset = offsets.get(&partition.partition).ok_or_else(|| {
                    format!(
                        "partition {} of topic `{}` is not among the specific offsets: name each \
                         partition, as in 'partition:0,offset:42;partition:1,offset:300'",
                        partition.partition, partition.topic
                    )
                })?;
                let (first, end) = (known(Lookup::Earliest)?, known(Lookup::Latest)?);
                if (first..=end).contains(offset) {
                    Ok(*offset)
                } else {
                    Err(format!(
                        "topic `{}` partition {} has offsets {first} to {end}, not {offset}",
                        partition.topic, partition.partition
                    ))
                }
            }
        }
    }
}

/// `partition:0,offset:42;partition:1,offset:300`.
pub(super) fn parse_specific(text: &str) -> Option<BTreeMap<i32, i64>> {
    let mut offsets = BTreeMap::new();
    for pair in text.split(';').filter(|pair| !pair.trim().is_empty()) {
        let (partition, offset) = pair.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim();
        let offset = offset.trim().strip_prefix("offset:")?.trim();
        let offset: i64 = offset.parse().ok().filter(|offset| *offset >= 0)?;
        let partition: i32 = partition.parse().ok().filter(|number| *number >= 0)?;
        if offsets.insert(partition, offset).is_some() {
            return None;
        }
    }
    (!offsets.is_empty()).then_some(offsets)
}

/// A split's position, as snapshots keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Progress {
    /// 1.
    format: u32,
    /// The next record to read.
    pub(super) offset: i64,
    /// Where the partition ends for this job, when it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<i64>,
}

impl Progress {
    pub(super) fn new(offset: i64, end: Option<i64>) -> Self {
        Progress {
            format: 1,
            offset,
            end,
        }
    }

    pub(super) fn encode(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }

    pub(super) fn decode(json: &serde_json::Value) -> Result<Self, String> {
        let progress = Progress::deserialize(json).map_err(|error| error.to_string())?;
        if progress.format != 1 {
            return Err(format!(
                "it has format {}, this version of Millrace reads 1",
                progress.format
            ));
        }
        Ok(progress)
    }

    /// Whether everything up to the end has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.offset >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(all: &[(Lookup, Option<i64>)]) -> Answers {
        all.iter()
            .map(|(lookup, offset)| ((*lookup, TopicPartition::new("t", 0)), *offset))
            .collect()
    }

    #[test]
    fn modes_become_numbers() {
        let usual = [(Lookup::Earliest, Some(5)), (Lookup::Latest, Some(9))];
        let with = |more: (Lookup, Option<i64>)| {
            let mut all = usual.to_vec();
            all.push(more);
            answers(&all)
        };
        let specific = |offset| OffsetsMode::Specific([(0, offset)].into());
        let cases: Vec<(OffsetsMode, Answers, Result<i64, &str>)> = vec![
            (OffsetsMode::Earliest, answers(&usual), Ok(5)),
            (OffsetsMode::Latest, answers(&usual), Ok(9)),
            (
                OffsetsMode::Group(Fallback::Latest),
                with((Lookup::Committed, Some(7))),
                Ok(7),
            ),
            (
                OffsetsMode::Group(Fallback::Latest),
                with((Lookup::Committed, None)),
                Ok(9),
            ),
            (
                OffsetsMode::Group(Fallback::Earliest),
                with((Lookup::Committed, None)),
                Ok(5),
            ),
            (
                OffsetsMode::Group(Fallback::Fail),
                with((Lookup::Committed, None)),
                Err("auto.offset.reset"),
            ),
            (
                OffsetsMode::Timestamp(3),
                with((Lookup::At(3), Some(6))),
                Ok(6),
            ),
            (
                OffsetsMode::Timestamp(3),
                with((Lookup::At(3), None)),
                Ok(9),
            ),
            (specific(5), answers(&usual), Ok(5)),
            (specific(9), answers(&usual), Ok(9)),
            (specific(10), answers(&usual), Err("offsets 5 to 9, not 10")),
            (
                OffsetsMode::Specific([(1, 5)].into()),
                answers(&usual),
                Err("partition 0"),
            ),
            (OffsetsMode::Latest, answers(&[]), Err("gave no offset")),
        ];
        for (mode, answers, expected) in cases {
            for lookup in mode.lookups() {
                let asked = answers.contains_key(&(lookup, TopicPartition::new("t", 0)));
                assert!(asked || answers.is_empty(), "{mode:?} asks for {lookup:?}");
            }
            let resolved = mode.resolve(&TopicPartition::new("t", 0), &answers);
            match (resolved, expected) {
                (Ok(offset), Ok(expected)) => assert_eq!(offset, expected, "{mode:?}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (resolved, _) => panic!("{mode:?}: {resolved:?}"),
            }
        }
    }

    #[test]
    fn specific_offsets_are_read() {
        let read = parse_specific("partition:0,offset:42; partition:1 , offset:300;").unwrap();
        assert_eq!(read, [(0, 42), (1, 300)].into());
        for text in [
            "",
            "0:42",
            "partition:0",
            "partition:0,offset:-1",
            "partition:0,offset:1;partition:0,offset:2",
        ] {
            assert_eq!(parse_specific(text), None, "{text}");
        }
    }

    #[test]
    fn positions_keep_their_form() {
        // What snapshots of the first version hold.
        let first = serde_json::json!({"format": 1, "offset": 7});
        assert_eq!(Progress::decode(&first), Ok(Progress::new(7, None)));
        assert_eq!(Progress::new(7, None).encode(), first);
        let bounded = serde_json::json!({"format": 1, "offset": 7, "end": 9});
        let read = Progress::decode(&bounded).unwrap();
        assert_eq!((read, read.is_at_end()), (Progress::new(7, Some(9)), false));
        assert_eq!(read.encode(), bounded);
        assert!(Progress::decode(&serde_json::json!({"format": 2, "offset": 7})).is_err());
        assert!(Progress::decode(&serde_json::Value::Null).is_err());
    }
}
