//! The `properties.*` of a table, as librdkafka takes them. Values are never shown: they hold
//! passwords and keys.

use std::{collections::BTreeMap, fmt};

use millrace_dataflow::TableOptions;
use rdkafka::{ClientConfig, error::KafkaError};

use crate::source::ConnectorError;

const PREFIX: &str = "properties.";
const JAAS: &str = "sasl.jaas.config";

/// Decided by the connector, with what to use instead.
const OURS: [(&str, &str); 7] = [
    (
        "enable.auto.commit",
        "offsets are committed when a checkpoint is complete",
    ),
    (
        "enable.auto.offset.store",
        "offsets are committed when a checkpoint is complete",
    ),
    (
        "enable.partition.eof",
        "it follows from 'scan.bounded.mode'",
    ),
    ("transactional.id", "use 'sink.transactional-id-prefix'"),
    (
        "group.instance.id",
        "partitions are assigned by Millrace, not by the group",
    ),
    ("partitioner", "use 'sink.partitioner'"),
    ("transaction.timeout.ms", "use 'sink.transaction-timeout'"),
];

/// Settings that only Java clients have, with what librdkafka has instead. `None`: of no use here.
const OF_JAVA: [(&str, Option<&str>); 9] = [
    (
        "ssl.truststore.location",
        Some("'properties.ssl.ca.location' (a file of PEM certificates)"),
    ),
    (
        "ssl.truststore.password",
        Some("'properties.ssl.ca.location' (a file of PEM certificates)"),
    ),
    (
        "ssl.keystore.type",
        Some("'properties.ssl.certificate.location' and 'properties.ssl.key.location' (PEM)"),
    ),
    (
        "ssl.truststore.type",
        Some("'properties.ssl.ca.location' (a file of PEM certificates)"),
    ),
    ("key.deserializer", None),
    ("value.deserializer", None),
    ("key.serializer", None),
    ("value.serializer", None),
    (
        "partition.discovery.interval.ms",
        Some("'scan.topic-partition-discovery.interval'"),
    ),
];

/// What a client is made from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Properties {
    table: String,
    values: BTreeMap<String, String>,
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Properties")
            .field("table", &self.table)
            .field("names", &self.values.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Properties {
    /// Reads and checks them, without connecting.
    pub(super) fn new(table: &str, options: &TableOptions) -> Result<Self, ConnectorError> {
        let fault = |text: String| ConnectorError(format!("table `{table}`: {text}"));
        let mut values = BTreeMap::new();
        for (key, value) in options {
            let Some(name) = key.strip_prefix(PREFIX) else {
                continue;
            };
            if let Some((_, instead)) = OURS.iter().find(|(ours, _)| *ours == name) {
                return Err(fault(format!("option '{key}' cannot be set: {instead}")));
            }
            if let Some((_, instead)) = OF_JAVA.iter().find(|(java, _)| *java == name) {
                return Err(fault(match instead {
                    Some(instead) => format!("option '{key}' is for Java clients: use {instead}"),
                    None => format!("option '{key}' has no meaning here: leave it out"),
                }));
            }
            if name == JAAS {
                let (user, password) = credentials(value).ok_or_else(|| {
                    fault(format!(
                        "option '{key}' has no username=\"…\" and password=\"…\": give 'properties.sasl.username' and 'properties.sasl.password'"
                    ))
                })?;
                values.insert("sasl.username".to_owned(), user);
                values.insert("sasl.password".to_owned(), password);
                continue;
            }
            values.insert(name.to_owned(), value.trim().to_owned());
        }
        let servers = values.get("bootstrap.servers").map_or("", String::as_str);
        if servers.is_empty() {
            return Err(fault(
                "option 'properties.bootstrap.servers' is missing: give the brokers as 'host:port', with commas between them".to_owned(),
            ));
        }
        let properties = Properties {
            table: table.to_owned(),
            values,
        };
        properties
            .config()
            .create_native_config()
            .map_err(|error| fault(refusal(&error)))?;
        Ok(properties)
    }

    /// A client's configuration, to which its own settings are added.
    pub(super) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", "millrace");
        for (name, value) in &self.values {
            config.set(name, value);
        }
        config
    }

    pub(super) fn servers(&self) -> &str {
        self.get("bootstrap.servers").unwrap_or("")
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

/// Why librdkafka refuses a setting, without the setting's value.
pub(super) fn refusal(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, description, key, value) => {
            let description = if value.is_empty() {
                description.clone()
            } else {
                description.replace(value.as_str(), "…")
            };
            format!("option 'properties.{key}' is refused by the Kafka client: {description}")
        }
        other => format!("the Kafka client cannot be made: {other}"),
    }
}

/// User and password of a Java login module.
fn credentials(jaas: &str) -> Option<(String, String)> {
    let value = |name: &str| {
        let rest = &jaas[jaas.find(name)? + name.len()..];
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let rest = &rest[1..];
        Some(rest[..rest.find(quote)?].to_owned())
    };
    Some((value("username")?, value("password")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(options: &[(&str, &str)]) -> Result<Properties, String> {
        let mut all = TableOptions::from([(
            "properties.bootstrap.servers".to_owned(),
            "localhost:9092".to_owned(),
        )]);
        for (key, value) in options {
            all.insert((*key).to_owned(), (*value).to_owned());
        }
        Properties::new("t", &all).map_err(|error| error.0)
    }

    #[test]
    fn settings_are_passed_on() {
        let read = properties(&[
            ("properties.security.protocol", "SASL_SSL"),
            ("properties.sasl.mechanism", "SCRAM-SHA-512"),
            (
                "properties.sasl.jaas.config",
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"me\" password=\"s3cret\";",
            ),
            ("format", "json"),
        ])
        .unwrap();
        assert_eq!(read.get("sasl.username"), Some("me"));
        assert_eq!(read.config().get("sasl.password"), Some("s3cret"));
        assert_eq!(read.servers(), "localhost:9092");
        assert!(!format!("{read:?}").contains("s3cret"));
    }

    #[test]
    fn refusals_name_the_setting_and_never_its_value() {
        for (key, value, part) in [
            ("properties.enable.auto.commit", "hunter2", "checkpoint"),
            (
                "properties.ssl.truststore.location",
                "hunter2",
                "ssl.ca.location",
            ),
            ("properties.key.deserializer", "hunter2", "leave it out"),
            ("properties.no.such.setting", "hunter2", "no.such.setting"),
            (
                "properties.security.protocol",
                "hunter2",
                "security.protocol",
            ),
            ("properties.fetch.min.bytes", "hunter2", "fetch.min.bytes"),
            ("properties.sasl.jaas.config", "hunter2", "sasl.username"),
        ] {
            let error = properties(&[(key, value)]).unwrap_err();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = Properties::new("t", &TableOptions::new()).unwrap_err();
        assert!(error.0.contains("bootstrap.servers"), "{error}");
    }
}
