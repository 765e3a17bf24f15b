//! Time and chance for the pure cores: the only place of the driver that asks for them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use millrace_coordination::lifecycle::Ambient;
use millrace_types::{ExecutionId, WorkerId};
use tokio::time::Instant;
use uuid::Uuid;

pub(super) fn ambient() -> Ambient {
    Ambient {
        now_ms: now_ms(),
        jitter: rand::random(),
        execution: ExecutionId(Uuid::now_v7()),
    }
}

pub(super) fn now() -> DateTime<Utc> {
    Utc::now()
}

pub(super) fn now_ms() -> i64 {
    Utc::now().timestamp_millis()
}

pub(super) fn new_worker() -> WorkerId {
    WorkerId(Uuid::now_v7())
}

/// The monotonic time at which the wall clock should show `at_ms`.
pub(super) fn instant_of(at_ms: i64) -> Instant {
    let ahead_ms = at_ms.saturating_sub(now_ms()).max(0);
    // Bounded, so that a clock that is set back does not make the task sleep for ever.
    Instant::now() + Duration::from_millis(ahead_ms.unsigned_abs()).min(Duration::from_secs(60))
}
