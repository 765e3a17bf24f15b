//! What there is to tell of the connection to the brokers: that it is gone, and that it is back.
//!
//! The client goes on trying by itself; whoever watches the job should know why nothing moves.
//! Each trouble is told once, and again from time to time while it lasts.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::sink::RowTap;

/// How often a trouble that lasts is told.
const REMIND: Duration = Duration::from_secs(60);

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Warning,
    Info,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// What to tell, decided from what was seen and when.
#[derive(Debug, Default)]
struct Telling {
    /// Whether something is wrong, and whether that was told.
    trouble: Option<bool>,
    /// When a trouble was told last.
    told: Option<Duration>,
}

impl Telling {
    /// Whether to tell. The client words one trouble in several ways, and while one broker of
    /// several is away it comes and goes with every answer of the others.
    fn trouble(&mut self, now: Duration) -> bool {
        let due = self
            .told
            .is_none_or(|told| now.saturating_sub(told) >= REMIND);
        if due {
            self.told = Some(now);
        }
        self.trouble = Some(due || self.trouble == Some(true));
        due
    }

    /// Whether to tell that a trouble has ended.
    fn well(&mut self) -> bool {
        self.trouble.take() == Some(true)
    }
}

/// The connection of one client.
pub(super) struct Condition {
    /// `table `t`: brokers host:port`.
    subject: String,
    started: std::time::Instant,
    telling: Mutex<Telling>,
    /// Brokers refuse the credentials: trying again is of no use.
    refused: Mutex<Option<String>>,
    tap: Mutex<Option<Arc<dyn RowTap>>>,
}

impl Condition {
    // The time since this was made only spaces out notices.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn new(table: &str, servers: &str) -> Self {
        Condition {
            subject: format!("table `{table}`: Kafka at {servers}"),
            started: std::time::Instant::now(),
            telling: Mutex::default(),
            refused: Mutex::default(),
            tap: Mutex::default(),
        }
    }

    pub(super) fn report_to(&self, tap: Arc<dyn RowTap>) {
        *self.tap.lock() = Some(tap);
    }

    /// Whether whoever waits for the brokers is to give up.
    pub(super) fn is_canceled(&self) -> bool {
        self.tap
            .lock()
            .as_ref()
            .is_some_and(|tap| tap.is_canceled())
    }

    /// Something that the client will try again.
    pub(super) fn trouble(&self, text: &str) {
        if self.telling.lock().trouble(self.started.elapsed()) {
            self.tell(Severity::Warning, &format!("{text}; trying again"));
        }
    }

    /// The brokers have answered.
    pub(super) fn well(&self) {
        if self.telling.lock().well() {
            self.tell(Severity::Info, "reached again");
        }
    }

    /// An error that the client met on its own.
    pub(super) fn error(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::GroupAuthorizationFailed) {
            // The client looks for the group's coordinator though it only reads; where the group
            // is needed, its use says so.
            tracing::debug!(reason, "a consumer group is not for us");
            return;
        }
        if matches!(
            code,
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed)
        ) {
            *self.refused.lock() = Some(reason.to_owned());
        }
        self.trouble(reason);
    }

    /// Why the brokers refuse the credentials, if they do.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    pub(super) fn tell(&self, severity: Severity, text: &str) {
        let message = format!("{}: {text}", self.subject);
        match severity {
            Severity::Warning => tracing::warn!("{message}"),
            Severity::Info => tracing::info!("{message}"),
        }
        let tap = self.tap.lock().clone();
        if let Some(tap) = tap {
            tap.notice(severity.name(), &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_told_once_a_minute_and_its_end_once() {
        let at = Duration::from_secs;
        let mut telling = Telling::default();
        assert!(!telling.well());
        assert!(telling.trouble(at(1)));
        assert!(!telling.trouble(at(2)));
        assert!(!telling.trouble(at(60)));
        assert!(telling.trouble(at(61)));
        assert!(telling.well());
        assert!(!telling.well());
        // It comes and goes: neither is told.
        assert!(!telling.trouble(at(62)));
        assert!(!telling.well());
        assert!(!telling.trouble(at(63)));
        assert!(telling.trouble(at(121)));
        assert!(telling.well());
    }
}
