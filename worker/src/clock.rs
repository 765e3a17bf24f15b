//! The machine's clocks, behind the engine's [`Clock`].
#![allow(
    clippy::disallowed_methods,
    reason = "this is where the time that everything else takes as an argument comes from"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use millrace_engine::Clock;

/// Wall-clock and monotonic time of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // A clock set before 1970.
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
