//! Which topics a table reads, and the names of their partitions as splits.

use std::collections::BTreeSet;

use regex::Regex;

use crate::source::SplitId;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TopicPartition {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl TopicPartition {
    pub(super) fn new(topic: impl Into<String>, partition: i32) -> Self {
        TopicPartition {
            topic: topic.into(),
            partition,
        }
    }

    /// Ends in the partition's number, by which partitions are spread over the subtasks.
    pub(super) fn split_id(&self) -> SplitId {
        SplitId(format!("{}-{}", self.topic, self.partition))
    }

    pub(super) fn of_split(id: &SplitId) -> Option<Self> {
        let (topic, partition) = id.0.rsplit_once('-')?;
        Some(TopicPartition::new(topic, partition.parse().ok()?))
    }
}

/// The topics of a table.
#[derive(Debug, Clone)]
pub(super) enum Topics {
    Listed(BTreeSet<String>),
    /// All whose whole name matches.
    Matching(Regex),
}

impl Topics {
    /// From `topic` (names with semicolons between them) or `topic-pattern`.
    pub(super) fn new(list: Option<&str>, pattern: Option<&str>) -> Result<Self, String> {
        match (list, pattern) {
            (Some(_), Some(_)) => {
                Err("options 'topic' and 'topic-pattern' exclude each other".to_owned())
            }
            (None, None) => Err(
                "option 'topic' is missing: give a topic, or several with ';' between them"
                    .to_owned(),
            ),
            (Some(list), None) => {
                let names: BTreeSet<String> = list
                    .split(';')
                    .map(|name| name.trim().to_owned())
                    .filter(|name| !name.is_empty())
                    .collect();
                if names.is_empty() {
                    return Err("option 'topic' names no topic".to_owned());
                }
                match names.iter().find(|name| !is_topic_name(name)) {
                    Some(name) => Err(format!(
                        "option 'topic': '{name}' is no topic name: they have up to 249 letters, digits, '.', '_' and '-'"
                    )),
                    None => Ok(Topics::Listed(names)),
                }
            }
            (None, Some(pattern)) => Regex::new(&format!("^(?:{pattern})$"))
                .map(Topics::Matching)
                .map_err(|error| format!("option 'topic-pattern' = '{pattern}': {error}")),
        }
    }

    pub(super) fn contains(&self, topic: &str) -> bool {
        match self {
            Topics::Listed(names) => names.contains(topic),
            Topics::Matching(pattern) => is_topic_name(topic) && pattern.is_match(topic),
        }
    }

    /// What stays the same as long as the table reads the same topics.
    pub(super) fn text(&self) -> String {
        match self {
            Topics::Listed(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                names.join(";")
            }
            Topics::Matching(pattern) => pattern.as_str().to_owned(),
        }
    }
}

/// As brokers admit them.
pub(super) fn is_topic_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !matches!(name, "" | "." | "..") && name.len() <= 249 && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_patterns() {
        let list = Topics::new(Some("b; a;;b"), None).unwrap();
        assert_eq!(list.text(), "a;b");
        assert!(list.contains("a") && !list.contains("a;b"));
        let pattern = Topics::new(None, Some("in-[0-9]+|other")).unwrap();
        for (name, matches) in [
            ("in-7", true),
            ("other", true),
            ("in-7x", false),
            ("xother", false),
        ] {
            assert_eq!(pattern.contains(name), matches, "{name}");
        }
        for (list, pattern) in [
            (None, None),
            (Some("a"), Some("b")),
            (Some(" ; "), None),
            (Some("a b"), None),
            (None, Some("(")),
        ] {
            assert!(Topics::new(list, pattern).is_err(), "{list:?} {pattern:?}");
        }
    }

    #[test]
    fn splits_name_partitions() {
        for (topic, partition) in [("a", 0), ("a-1", 2), ("with.dots_and-dashes", 17)] {
            let of_topic = TopicPartition::new(topic, partition);
            assert_eq!(
                TopicPartition::of_split(&of_topic.split_id()),
                Some(of_topic)
            );
        }
        assert_eq!(TopicPartition::of_split(&SplitId("a".into())), None);
        assert_eq!(TopicPartition::of_split(&SplitId("a-b".into())), None);
    }
}
