//! A seed → the same sequence of numbers on every machine.
//!
//! Invariant: only wrapping integer arithmetic, so the sequence depends on nothing but the seed.

/// The generator SplitMix64.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, with the constants of Vigna's
/// public-domain `splitmix64.c`.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of a seed; any seed will do.
    pub(crate) fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next number, any of 2⁶⁴.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `n`; 0 for an `n` of 0. Off from uniform by less than n / 2⁶⁴.
    ///
    /// Source: Lemire, ACM TOMACS 29(1), 2019, without the rejection.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.draw()) * n as u128;
        (wide >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seed: u64, expected: [u64; 3]) {
        let mut random = SplitMix64::new(seed);
        assert_eq!([(); 3].map(|()| random.draw()), expected);
    }

    #[test]
    fn the_sequence_is_that_of_the_published_code() {
        check(0, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        let of_1234567 =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        check(1_234_567, of_1234567);
    }

    #[test]
    fn numbers_below_n_are_all_and_only_those() {
        let mut random = SplitMix64::new(7);
        let mut counts = [0; 5];
        for _ in 0..5_000 {
            counts[random.below(5)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
