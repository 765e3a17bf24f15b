//! Prices: log-uniform in 100..=100,000,000, `round(10^(6u) * 100)` for a draw `u` in
//! `[0, 1)`.
//!
//! The power is the dearest step of a bid, so it is taken from a table and a short
//! polynomial. Their error is far below [`GUARD`]; only where the approximation lies so
//! close to a rounding edge that it could fall on the wrong side is the exact power
//! computed. Invariant: the price equals that of the exact computation for every draw.

use super::random::SplittableRandom;

/// Entries of the table; the rest of the draw, below 1/1024, goes through the polynomial.
const STEPS_BITS: u32 = 10;
/// Bits of a draw.
const DRAW_BITS: u32 = 53;
/// Distance to a rounding edge below which the exact power decides. The approximation leaves
/// out x^5 / 120 and more, for x below 0.0135: 4e-12 of the value, or 4e-4 of a price of 1e8.
const GUARD: f64 = 1e-3;
/// Adding this to a smaller positive number rounds it to a whole one, in its lowest bits.
const ROUNDER: f64 = (1u64 << 52) as f64;

/// Powers of ten at the table's steps, times 100.
#[derive(Debug)]
pub(crate) struct PriceTable {
    powers: Vec<f64>,
}

impl PriceTable {
    pub(crate) fn new() -> Self {
        let steps = 1u32 << STEPS_BITS;
        let power = |step| 10f64.powf(f64::from(step) * 6.0 / f64::from(steps)) * 100.0;
        Self {
            powers: (0..steps).map(power).collect(),
        }
    }

    /// Draws the next price.
    #[inline]
    pub(crate) fn next(&self, random: &mut SplittableRandom) -> i64 {
        self.price(random.next_53_bits())
    }

    #[inline]
    fn price(&self, draw: u64) -> i64 {
        const REST_BITS: u32 = DRAW_BITS - STEPS_BITS;
        let step = (draw >> REST_BITS) as usize;
        let rest = (draw & ((1 << REST_BITS) - 1)) as i64 as f64;
        // e^x for x = 6 ln(10) * rest / 2^53.
        let x = rest * (6.0 * std::f64::consts::LN_10 / (1u64 << DRAW_BITS) as f64);
        let x2 = x * x;
        let exp = (1.0 + x) + x2 * ((0.5 + x * (1.0 / 6.0)) + x2 * (1.0 / 24.0));
        let price = self.powers[step] * exp;
        let rounded = price + ROUNDER;
        let off = price - (rounded - ROUNDER);
        if off.abs() > 0.5 - GUARD {
            return exact_price(draw);
        }
        (rounded.to_bits() - ROUNDER.to_bits()) as i64
    }
}

#[cold]
fn exact_price(draw: u64) -> i64 {
    let unit = draw as f64 / (1u64 << DRAW_BITS) as f64;
    (10f64.powf(unit * 6.0) * 100.0 + 0.5).floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first prices and the hash (`h * 31 + price`) over a thousand of them, from
    /// `Math.round(Math.pow(10.0, r.nextDouble() * 6.0) * 100.0)` on the JDK 17 with seed 99.
    #[test]
    fn prices_are_those_of_the_jdk() {
        let table = PriceTable::new();
        let mut random = SplittableRandom::new(99);
        let prices: Vec<i64> = (0..1000).map(|_| table.next(&mut random)).collect();
        assert_eq!(prices[..5], [3708, 155, 10_199_018, 411, 1048]);
        let hash = prices.iter().fold(0i64, |hash, price| {
            hash.wrapping_mul(31).wrapping_add(*price)
        });
        assert_eq!(hash, -7_663_221_214_178_174_973);
    }

    #[test]
    fn the_table_agrees_with_the_exact_power() {
        let table = PriceTable::new();
        let mut random = SplittableRandom::new(1);
        for draw in [0, 1, (1 << 53) - 1, 1 << 52, (1 << 43) - 1, 1 << 43] {
            assert_eq!(table.price(draw), exact_price(draw), "draw {draw}");
        }
        for _ in 0..200_000 {
            let draw = random.next_53_bits();
            assert_eq!(table.price(draw), exact_price(draw), "draw {draw}");
        }
    }
}
