//! The random source that Nexmark's stream is defined by: SplitMix64 with the fixed golden
//! gamma, drawing 32-bit integers, bounded integers and doubles the way the JDK's
//! `SplittableRandom` does (JDK 17).
//!
//! Invariant: the n-th draw depends on the seed and n alone, so the state is one `u64` and
//! a stored state continues with exactly the same values.

/// What the state grows by with every draw.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A SplitMix64 generator; [`SplittableRandom::state`] is all there is to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplittableRandom {
    state: u64,
}

impl SplittableRandom {
    /// Starts at a seed, or continues from a stored state: the two are the same thing.
    #[inline]
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    #[inline]
    pub(crate) fn state(&self) -> u64 {
        self.state
    }

    #[inline]
    fn next_seed(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        self.state
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let mut z = self.next_seed();
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 32 random bits: not the upper half of [`Self::next_u64`], but a mix of its own.
    #[inline]
    pub(crate) fn next_u32(&mut self) -> u32 {
        let mut z = self.next_seed();
        z = (z ^ (z >> 33)).wrapping_mul(0x62a9_d9ed_7997_05f5);
        ((z ^ (z >> 28)).wrapping_mul(0xcb24_d0a5_c88c_35b3) >> 32) as u32
    }

    /// A multiple of 2^-53 in `[0, 1)`, given as its 53-bit numerator.
    #[inline]
    pub(crate) fn next_53_bits(&mut self) -> u64 {
        self.next_u64() >> 11
    }

    /// A number in `[0, bound)`. Powers of two keep the low bits of one draw; other bounds
    /// take the remainder of 31 bits and draw again in the rare case that it would be skewed.
    #[inline]
    pub(crate) fn below(&mut self, bound: Bound) -> u32 {
        let draw = self.next_u32();
        if bound.reciprocal == 0 {
            return draw & bound.largest;
        }
        let mut bits = draw >> 1;
        while bits >= bound.limit {
            bits = self.next_u32() >> 1;
        }
        bound.remainder(bits)
    }

    /// [`Self::below`] for a bound that changes with every call, so that a reciprocal would
    /// cost more than it saves. `bound` must be in `1..=i32::MAX`.
    #[inline]
    pub(crate) fn below_varying(&mut self, bound: u32) -> u32 {
        let largest = bound - 1;
        let draw = self.next_u32();
        if bound & largest == 0 {
            return draw & largest;
        }
        let mut bits = draw >> 1;
        loop {
            let rest = bits % bound;
            if bits - rest + largest <= i32::MAX as u32 {
                return rest;
            }
            bits = self.next_u32() >> 1;
        }
    }

    /// A number in `[0, bound)` for a bound that may exceed 31 bits. Such bounds use the
    /// skewed remainder of 64 bits, as the reference does; `bound` is at least 1.
    #[inline]
    pub(crate) fn below_long(&mut self, bound: i64) -> i64 {
        match u32::try_from(bound) {
            Ok(small) if small < i32::MAX as u32 => i64::from(self.below_varying(small.max(1))),
            _ => ((self.next_u64() as i64) % bound).abs(),
        }
    }
}

/// An upper bound for draws with the reciprocal that replaces the division by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The bound less one.
    largest: u32,
    /// 2^64 / bound rounded up; 0 marks a power of two.
    reciprocal: u64,
    /// Draws of 31 bits from here on would be skewed: the largest multiple of the bound.
    limit: u32,
}

impl Bound {
    /// `bound` must be in `1..=i32::MAX`; 0 is taken as 1.
    #[inline]
    pub(crate) const fn new(bound: u32) -> Self {
        let bound = if bound == 0 { 1 } else { bound };
        let reciprocal = if bound.is_power_of_two() {
            0
        } else {
            u64::MAX / bound as u64 + 1
        };
        Self {
            largest: bound - 1,
            reciprocal,
            limit: (1 << 31) - (1 << 31) % bound,
        }
    }

    /// `bits % bound`, exact for every 32-bit `bits`: the fraction bits / bound is kept in
    /// 64 bits, and multiplied back by the bound.
    #[inline]
    fn remainder(self, bits: u32) -> u32 {
        let fraction = self.reciprocal.wrapping_mul(u64::from(bits));
        ((u128::from(fraction) * (u128::from(self.largest) + 1)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values printed by the JDK 17's `new SplittableRandom(42)`.
    #[test]
    fn draws_are_those_of_the_jdk() {
        let mut random = SplittableRandom::new(42);
        assert_eq!(random.next_u64() as i64, -4_767_286_540_954_276_203);
        assert_eq!(random.next_u32() as i32, 909_395_113);
        assert_eq!(random.below(Bound::new(10_000)), 2481);
        assert_eq!(random.below(Bound::new(4)), 0);
        assert_eq!(random.below(Bound::new(1_500_000_000)), 1_376_986_781);
        assert_eq!(
            random.next_53_bits() as f64 / (1u64 << 53) as f64,
            0.868_228_076_546_532_3
        );
    }

    #[test]
    fn remainder_is_exact_at_the_edges() {
        for bound in [
            3,
            7,
            10,
            13,
            26,
            111,
            1010,
            10_000,
            1_500_000_000,
            i32::MAX as u32,
        ] {
            for bits in [
                0,
                1,
                bound - 1,
                bound,
                bound + 1,
                i32::MAX as u32 - 1,
                i32::MAX as u32,
            ] {
                assert_eq!(
                    Bound::new(bound).remainder(bits),
                    bits % bound,
                    "{bits} % {bound}"
                );
            }
        }
    }

    #[test]
    fn a_stored_state_continues_the_stream() {
        let mut random = SplittableRandom::new(7);
        random.next_u32();
        let mut restored = SplittableRandom::new(random.state());
        assert_eq!(random.next_u64(), restored.next_u64());
    }
}
