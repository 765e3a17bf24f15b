//! The options of Kafka tables, checked against what exists.

use millrace_dataflow::TableOptions;
use millrace_formats::OnError;
use millrace_types::Millis;

use super::{
    offsets::{Fallback, OffsetsMode, parse_specific},
    properties::Properties,
    topics::{Topics, is_topic_name},
};
use crate::{
    generator_options::{belongs_to_every_source, parse_time_ms},
    nearest::did_you_mean,
    source::ConnectorError,
};

#[cfg(test)]
mod tests;

/// A table may be read by one job and written by another: each takes the other's options too.
pub(crate) const OPTIONS: [&str; 25] = [
    "topic",
    "topic-pattern",
    "format",
    "value.format",
    "key.format",
    "key.fields",
    "key.fields-prefix",
    "value.fields-include",
    "on-error",
    "dead-letter.path",
    "scan.startup.mode",
    "scan.startup.timestamp-millis",
    "scan.startup.specific-offsets",
    "scan.bounded.mode",
    "scan.bounded.timestamp-millis",
    "scan.bounded.specific-offsets",
    "scan.topic-partition-discovery.interval",
    "sink.partitioner",
    "sink.delivery-guarantee",
    "sink.transactional-id-prefix",
    "sink.transaction-timeout",
    "sink.delivery-timeout",
    "sink.lost-marker",
    "properties.bootstrap.servers",
    "properties.group.id",
];

const DEFAULT_DISCOVERY_MS: u64 = 5 * 60 * 1000;
const DEFAULT_DELIVERY_MS: u64 = 2 * 60 * 1000;
const DEFAULT_TRANSACTION_MS: u64 = 15 * 60 * 1000;

/// How a Kafka table is read.
#[derive(Debug, Clone)]
pub(super) struct SourceOptions {
    pub(super) properties: Properties,
    pub(super) topics: Topics,
    pub(super) startup: OffsetsMode,
    pub(super) bounded: Option<OffsetsMode>,
    /// Look for new partitions this often, in ms.
    pub(super) discovery_ms: Option<u64>,
    pub(super) on_error: OnError,
}

/// How a Kafka table is written.
#[derive(Debug, Clone)]
pub(super) struct SinkOptions {
    pub(super) properties: Properties,
    pub(super) topic: String,
    pub(super) partitioner: PartitionerKind,
    pub(super) guarantee: Guarantee,
    /// How the transactional ids and marker groups of the sink start.
    pub(super) transactional_prefix: String,
    pub(super) transaction_timeout_ms: u64,
    /// What was handed to the client and is not on the brokers after this long is an error.
    pub(super) delivery_timeout_ms: u64,
    pub(super) lost_marker: LostMarker,
}

/// `sink.partitioner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionerKind {
    /// By the hash of the key, as Java's producer does; records without a key anywhere.
    ByKey,
    /// Each subtask writes to one partition.
    Fixed,
    RoundRobin,
}

/// `sink.delivery-guarantee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantee {
    None,
    AtLeastOnce,
    ExactlyOnce,
}

/// `sink.lost-marker`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostMarker {
    Fail,
    /// What the snapshot holds is written, maybe for the second time.
    Replay,
    /// It is not, maybe never.
    Skip,
}

/// Reads options and says what is wrong with them.
struct Reader<'a> {
    table: &'a str,
    options: &'a TableOptions,
}

impl<'a> Reader<'a> {
    fn fault(&self, text: impl std::fmt::Display) -> ConnectorError {
        ConnectorError(format!("table `{}`: {text}", self.table))
    }

    fn bad(&self, key: &str, expected: &str) -> ConnectorError {
        let value = self.text(key).unwrap_or("");
        self.fault(format!("option '{key}' = '{value}': expected {expected}"))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.options.get(key).map(|value| value.trim())
    }

    fn millis(&self, key: &str, default: u64) -> Result<u64, ConnectorError> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => match text.parse::<Millis>() {
                Ok(Millis(ms)) => Ok(ms),
                Err(_) => Err(self.bad(key, "a duration with its unit, such as '10 s'")),
            },
        }
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, ConnectorError> {
        let text = self.text(key).unwrap_or(choices[0].0);
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("'{name}'"))
                .collect();
            self.bad(key, &format!("one of {}", names.join(", ")))
        })
    }

    fn timestamp(&self, key: &str, mode: &str) -> Result<i64, ConnectorError> {
        let Some(text) = self.text(key) else {
            return Err(self.fault(format!("'{mode}' = 'timestamp' needs '{key}'")));
        };
        parse_time_ms(text).ok_or_else(|| {
            self.bad(
                key,
                "epoch milliseconds, or a time such as '2026-01-31 12:00:00'",
            )
        })
    }

    fn fallback(&self, properties: &Properties) -> Result<Fallback, ConnectorError> {
        match properties.get("auto.offset.reset") {
            None | Some("none" | "error") => Ok(Fallback::Fail),
            Some("earliest" | "smallest" | "beginning") => Ok(Fallback::Earliest),
            Some("latest" | "largest" | "end") => Ok(Fallback::Latest),
            Some(_) => Err(self.bad(
                "properties.auto.offset.reset",
                "'earliest', 'latest' or 'none'",
            )),
        }
    }

    fn offsets(
        &self,
        side: &str,
        mode: &str,
        properties: &Properties,
        topics: &Topics,
    ) -> Result<OffsetsMode, ConnectorError> {
        let key = format!("scan.{side}.mode");
        match mode {
            "latest-offset" => Ok(OffsetsMode::Latest),
            "group-offsets" => {
                if properties.get("group.id").is_none() {
                    let needs = format!("'{key}' = 'group-offsets' needs 'properties.group.id'");
                    return Err(self.fault(needs));
                }
                // A partition that ends where the group stands ends at once if it stands nowhere.
                let fallback = match side {
                    "bounded" => Fallback::Earliest,
                    _ => self.fallback(properties)?,
                };
                Ok(OffsetsMode::Group(fallback))
            }
            "timestamp" => {
                let time = self.timestamp(&format!("scan.{side}.timestamp-millis"), &key)?;
                Ok(OffsetsMode::Timestamp(time))
            }
            _ => {
                let offsets = format!("scan.{side}.specific-offsets");
                let one = matches!(topics, Topics::Listed(names) if names.len() == 1);
                if !one {
                    let text = format!("'{key}' = 'specific-offsets' is for tables of one topic");
                    return Err(self.fault(text));
                }
                let text = self.text(&offsets).ok_or_else(|| {
                    self.fault(format!("'{key}' = 'specific-offsets' needs '{offsets}'"))
                })?;
                parse_specific(text)
                    .map(OffsetsMode::Specific)
                    .ok_or_else(|| {
                        self.bad(
                            &offsets,
                            "offsets such as 'partition:0,offset:42;partition:1,offset:300'",
                        )
                    })
            }
        }
    }
}

impl SourceOptions {
    pub(super) fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        check_known(table, options)?;
        let read = Reader { table, options };
        let properties = Properties::new(table, options)?;
        let topics = Topics::new(read.text("topic"), read.text("topic-pattern"))
            .map_err(|reason| read.fault(reason))?;
        let startup = match read.text("scan.startup.mode").unwrap_or("group-offsets") {
            // Flink's default, where a group is given; without one there is nothing to go on from.
            "group-offsets" if read.text("scan.startup.mode").is_none() => {
                if properties.get("group.id").is_some() {
                    read.offsets("startup", "group-offsets", &properties, &topics)?
                } else {
                    return Err(read.fault(
                        "say where reading starts: 'scan.startup.mode' = 'earliest-offset', 'latest-offset', \
                         'timestamp' or 'specific-offsets', or 'properties.group.id' to go on from a group's offsets",
                    ));
                }
            }
            "earliest-offset" => OffsetsMode::Earliest,
            mode @ ("latest-offset" | "group-offsets" | "timestamp" | "specific-offsets") => {
                read.offsets("startup", mode, &properties, &topics)?
            }
            _ => {
                return Err(read.bad(
                    "scan.startup.mode",
                    "one of 'earliest-offset', 'latest-offset', 'group-offsets', 'timestamp', 'specific-offsets'",
                ));
            }
        };
        let bounded = match read.text("scan.bounded.mode").unwrap_or("unbounded") {
            "unbounded" => None,
            mode @ ("latest-offset" | "group-offsets" | "timestamp" | "specific-offsets") => {
                Some(read.offsets("bounded", mode, &properties, &topics)?)
            }
            _ => {
                return Err(read.bad(
                    "scan.bounded.mode",
                    "one of 'unbounded', 'latest-offset', 'group-offsets', 'timestamp', 'specific-offsets'",
                ));
            }
        };
        let discovery = read.millis(
            "scan.topic-partition-discovery.interval",
            DEFAULT_DISCOVERY_MS,
        )?;
        let on_error = read.choice(
            "on-error",
            &[
                ("fail", OnError::Fail),
                ("skip", OnError::Skip),
                ("dead-letter", OnError::DeadLetter),
            ],
        )?;
        if (on_error == OnError::DeadLetter) != read.text("dead-letter.path").is_some() {
            return Err(read.fault(
                "'on-error' = 'dead-letter' and 'dead-letter.path' (a directory for the malformed records) go together",
            ));
        }
        Ok(SourceOptions {
            properties,
            topics,
            startup,
            discovery_ms: (discovery > 0 && bounded.is_none()).then_some(discovery),
            bounded,
            on_error,
        })
    }
}

impl SinkOptions {
    pub(super) fn new(
        table: &str,
        options: &TableOptions,
        transactional_ids: &str,
    ) -> Result<Self, ConnectorError> {
        check_known(table, options)?;
        let read = Reader { table, options };
        let properties = Properties::new(table, options)?;
        let topic = match read.text("topic") {
            Some(topic) if is_topic_name(topic) => topic.to_owned(),
            Some(_) => return Err(read.bad("topic", "the name of one topic to write to")),
            None => return Err(read.fault("option 'topic' is missing: give the topic to write to")),
        };
        let guarantee = read.choice(
            "sink.delivery-guarantee",
            &[
                ("at-least-once", Guarantee::AtLeastOnce),
                ("none", Guarantee::None),
                ("exactly-once", Guarantee::ExactlyOnce),
            ],
        )?;
        let transaction_timeout_ms =
            read.millis("sink.transaction-timeout", DEFAULT_TRANSACTION_MS)?;
        if !(1_000..=i32::MAX as u64).contains(&transaction_timeout_ms) {
            return Err(read.bad("sink.transaction-timeout", "at least '1 s'"));
        }
        let delivery_timeout_ms = read.millis("sink.delivery-timeout", DEFAULT_DELIVERY_MS)?;
        if !(1_000..=i32::MAX as u64).contains(&delivery_timeout_ms) {
            return Err(read.bad("sink.delivery-timeout", "at least '1 s'"));
        }
        let transactional_prefix = match read.text("sink.transactional-id-prefix") {
            None => transactional_ids.to_owned(),
            Some("") => return Err(read.bad("sink.transactional-id-prefix", "some text")),
            Some(prefix) => prefix.to_owned(),
        };
        Ok(SinkOptions {
            topic,
            partitioner: read.choice(
                "sink.partitioner",
                &[
                    ("default", PartitionerKind::ByKey),
                    ("fixed", PartitionerKind::Fixed),
                    ("round-robin", PartitionerKind::RoundRobin),
                ],
            )?,
            guarantee,
            transactional_prefix,
            transaction_timeout_ms,
            delivery_timeout_ms,
            lost_marker: read.choice(
                "sink.lost-marker",
                &[
                    ("fail", LostMarker::Fail),
                    ("replay", LostMarker::Replay),
                    ("skip", LostMarker::Skip),
                ],
            )?,
            properties,
        })
    }
}

/// The names of the table's formats, wherever they are given.
fn format_names(options: &TableOptions) -> impl Iterator<Item = (&str, &String)> {
    [
        ("", "format"),
        ("value.", "value.format"),
        ("", "value.format"),
        ("key.", "key.format"),
    ]
    .into_iter()
    .filter_map(|(prefix, key)| Some((prefix, options.get(key)?)))
}

fn check_known(table: &str, options: &TableOptions) -> Result<(), ConnectorError> {
    let of_a_format = |key: &str| {
        format_names(options).any(|(prefix, format)| {
            key.strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix(format.as_str()))
                .is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let known = |key: &str| {
        belongs_to_every_source(key)
            || key.starts_with("properties.")
            || OPTIONS.contains(&key)
            || of_a_format(key)
    };
    let Some(key) = options.keys().find(|key| !known(key)) else {
        return Ok(());
    };
    let connector = options.get("connector").map_or("kafka", String::as_str);
    let hint = match key.as_str() {
        "sink.parallelism" | "scan.parallelism" => {
            "every operator runs at the job's parallelism: leave it out".to_owned()
        }
        "sink.semantic" => "use 'sink.delivery-guarantee'".to_owned(),
        _ => {
            let candidates = OPTIONS.into_iter().chain(["scan.watermark.idle-timeout"]);
            let all: Vec<String> = OPTIONS.iter().map(|key| format!("'{key}'")).collect();
            format!(
                "{}It has {}, 'properties.*', and those of its formats",
                did_you_mean(key, candidates),
                all.join(", ")
            )
        }
    };
    Err(ConnectorError(format!(
        "table `{table}`: unknown option '{key}' of connector '{connector}'; {hint}"
    )))
}
