//! The context of every Kafka client of ours: where its errors and log lines go.

use std::sync::Arc;

use parking_lot::Mutex;
use rdkafka::{
    ClientContext, TopicPartitionList,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, KafkaResult},
    message::DeliveryResult,
    producer::{NoCustomPartitioner, ProducerContext},
};

use super::condition::Condition;

/// Shared by a client and whoever uses it.
pub(super) struct Context {
    pub(super) condition: Arc<Condition>,
    /// The first record that could not be delivered (producers).
    undelivered: Mutex<Option<String>>,
}

impl Context {
    pub(super) fn new(condition: Arc<Condition>) -> Self {
        Context {
            condition,
            undelivered: Mutex::default(),
        }
    }

    /// Why a record since the last call could not be delivered, if one could not.
    pub(super) fn take_undelivered(&self) -> Option<String> {
        self.undelivered.lock().take()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // What matters comes as an error too.
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn stats_raw(&self, _statistics: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.condition.error(&error, reason);
    }

    fn generate_oauth_token(
        &self,
        _config: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        Err("tokens come from 'properties.sasl.oauthbearer.method' = 'oidc'".into())
    }
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            // Snapshots hold the offsets that count; the group's are for others to watch.
            self.condition.trouble(&format!(
                "offsets cannot be committed to the group: {error}"
            ));
        }
    }
}

impl ProducerContext<NoCustomPartitioner> for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.undelivered
                .lock()
                .get_or_insert_with(|| error.to_string());
        }
    }
}
