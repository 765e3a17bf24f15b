use super::*;
use crate::kafka::KafkaSource;

/// A broker that wants SASL PLAIN of `me` with `s3cret`, at `MILLRACE_TEST_KAFKA_SASL` without and
/// at `MILLRACE_TEST_KAFKA_TLS` with encryption, there under the certificate in the file that
/// `MILLRACE_TEST_KAFKA_CA` names.
fn address(variable: &str) -> String {
    std::env::var(variable).expect(variable)
}

fn listed(more: &[(&str, &str)]) -> Result<usize, String> {
    let mut all = vec![
        ("topic-pattern", ".*"),
        ("scan.startup.mode", "earliest-offset"),
        ("properties.sasl.mechanism", "PLAIN"),
        ("properties.sasl.username", "me"),
    ];
    all.extend(more);
    let mut node = source_node("", &all);
    node.options.remove("topic");
    let source = KafkaSource::new(&node).map_err(|error| error.0)?;
    let listed = source.splits(1).map_err(|error| error.0)?.len();
    assert!(!source.awaits_splits(), "the broker did not answer");
    Ok(listed)
}

#[test]
#[ignore = "needs a secured broker, see MILLRACE_TEST_KAFKA_SASL"]
fn credentials_are_passed_on_and_refused_ones_fail_without_being_shown() {
    let plain = address("MILLRACE_TEST_KAFKA_SASL");
    let plain = [
        ("properties.bootstrap.servers", plain.as_str()),
        ("properties.security.protocol", "SASL_PLAINTEXT"),
    ];
    let (tls, ca) = (
        address("MILLRACE_TEST_KAFKA_TLS"),
        address("MILLRACE_TEST_KAFKA_CA"),
    );
    let tls = [
        ("properties.bootstrap.servers", tls.as_str()),
        ("properties.security.protocol", "SASL_SSL"),
        ("properties.ssl.ca.location", ca.as_str()),
    ];
    for ways in [&plain[..], &tls[..]] {
        let with = |password| {
            let mut all = ways.to_vec();
            all.push(("properties.sasl.password", password));
            listed(&all)
        };
        with("s3cret").unwrap();
        let error = with("hunter2").unwrap_err();
        assert!(
            error.to_lowercase().contains("authentication failed"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}
