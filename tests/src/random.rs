//! Random choices of a test run, from a seed that is printed and can be given again.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The seed of this run: `MILLRACE_TEST_SEED`, else a fresh one. Printed, so that a failure can be
/// repeated.
pub fn run_seed(test: &str) -> u64 {
    let seed = std::env::var("MILLRACE_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| rand::rng().random());
    eprintln!("{test}: seed {seed} (repeat with MILLRACE_TEST_SEED={seed})");
    seed
}

/// A generator for one named part of a run: parts do not disturb each other.
#[derive(Debug)]
pub struct Chance(StdRng);

impl Chance {
    pub fn new(seed: u64, part: &str) -> Self {
        // FNV-1a: the same on every machine.
        let hash = part.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Chance(StdRng::seed_from_u64(seed ^ hash))
    }

    /// A time in `[from, to)` milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.random_range(from..to))
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.0.random_range(0..items.len())])
    }
}
