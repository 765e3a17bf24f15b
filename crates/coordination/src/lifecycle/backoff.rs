//! How long to wait after a failure.

use millrace_types::RestartSpec;

/// Milliseconds to wait after the `failures`-th failure in a row (from 1): doubling from the
/// first delay up to the longest, spread by ±20 % so that jobs that failed together do not
/// start together.
pub(super) fn delay_ms(restart: &RestartSpec, failures: u32, jitter: f64) -> i64 {
    let doublings = failures.saturating_sub(1).min(32);
    let exponential = restart.initial_delay.0.saturating_mul(1 << doublings);
    spread(exponential.min(restart.max_delay.0), jitter)
}

/// The longest delay, spread likewise.
pub(super) fn longest_delay_ms(restart: &RestartSpec, jitter: f64) -> i64 {
    spread(restart.max_delay.0, jitter)
}

fn spread(delay_ms: u64, jitter: f64) -> i64 {
    // A delay of more than a month is cut, so that times stay far from overflow.
    let delay_ms = delay_ms.min(31 * 86_400_000) as f64;
    (delay_ms * (0.8 + 0.4 * jitter.clamp(0.0, 1.0))) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let restart = RestartSpec::default();
        for (failures, jitter, expected) in [
            (1, 0.5, 1_000),
            (2, 0.5, 2_000),
            (6, 0.5, 32_000),
            (7, 0.5, 60_000),
            (u32::MAX, 0.5, 60_000),
            (1, 0.0, 800),
            (1, 1.0, 1_200),
        ] {
            assert_eq!(
                delay_ms(&restart, failures, jitter),
                expected,
                "{failures} {jitter}"
            );
        }
    }

    #[test]
    fn no_delay_overflows() {
        let restart = RestartSpec {
            initial_delay: millrace_types::Millis(u64::MAX),
            max_delay: millrace_types::Millis(u64::MAX),
            ..RestartSpec::default()
        };
        assert_eq!(delay_ms(&restart, 9, 0.5), 31 * 86_400_000);
    }
}
