//! Two outcomes of each query → the exact test of their difference, and what difference the sample could show at all.
//!
//! Invariant: only queries on which the two sides differ carry information; without one, nothing is tested or planned.

use super::{Interval, Level, Method};
use crate::share::Share;
use serde::Serialize;
use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF};
use std::ops::Add;

/// The queries that two systems answered, by which of them was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Pairs {
    /// Both right.
    pub both: u64,
    /// Only the first system, A.
    pub only_a: u64,
    /// Only the second system, B.
    pub only_b: u64,
    /// Neither.
    pub neither: u64,
}

impl Pairs {
    /// Counts `(a, b)`, one a query: whether A was right, and whether B was.
    pub fn of(outcomes: impl IntoIterator<Item = (bool, bool)>) -> Pairs {
        let mut pairs = Pairs::default();
        for outcome in outcomes {
            let count = match outcome {
                (true, true) => &mut pairs.both,
                (true, false) => &mut pairs.only_a,
                (false, true) => &mut pairs.only_b,
                (false, false) => &mut pairs.neither,
            };
            *count += 1;
        }
        pairs
    }

    /// How many queries there are.
    pub fn n(self) -> u64 {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// How many A got right.
    pub fn a(self) -> Share {
        share(self.both + self.only_a, self.n())
    }

    /// How many B got right.
    pub fn b(self) -> Share {
        share(self.both + self.only_b, self.n())
    }

    /// On how many the two differ: ψ in the formulas of planning.
    pub fn discordance(self) -> Share {
        share(self.only_a + self.only_b, self.n())
    }

    /// B's share − A's, −1 to 1; `None` without queries.
    pub fn difference(self) -> Option<f64> {
        (self.n() > 0).then(|| (self.only_b as f64 - self.only_a as f64) / self.n() as f64)
    }
}

impl Add for Pairs {
    type Output = Pairs;
    /// The queries of two disjoint sets taken together.
    fn add(self, other: Pairs) -> Pairs {
        Pairs {
            both: self.both + other.both,
            only_a: self.only_a + other.only_a,
            only_b: self.only_b + other.only_b,
            neither: self.neither + other.neither,
        }
    }
}

fn share(count: u64, of: u64) -> Share {
    Share::new(count, of).expect("a part of the pairs is not above all of them")
}

/// The exact two-sided p-value of McNemar's test, 0 to 1: how probable a split of the discordant pairs at least this
/// uneven would be if each were as likely to go either way. 1 where no pair is discordant.
///
/// `min(1, 2 P(X ≤ min(b, c)))`, X binomial with n = b + c and p = ½, for b and c pairs that only one side got right.
///
/// Source: McNemar, Psychometrika 12, 1947; the exact form after Mosteller, Biometrics 8, 1952.
pub fn mcnemar(pairs: Pairs) -> f64 {
    let (b, c) = (pairs.only_a, pairs.only_b);
    if b == c {
        return 1.0;
    }
    let binomial = Binomial::new(0.5, b + c).expect("one half is a probability");
    (2.0 * binomial.cdf(b.min(c))).min(1.0)
}

/// The interval of the difference `b − a` of two shares of the same queries that agrees with [`mcnemar`]: it leaves out 0 where
/// that test is significant at the same level. `None` without queries.
///
/// With ψ the share of discordant pairs and `l..u` the limits of Clopper and Pearson for B's part of them: `ψ(2l − 1)` to
/// `ψ(2u − 1)`. Without a discordant pair nothing is known of the direction, and the interval is 0 alone.
///
/// Source: Fleiss, Levin and Paik, "Statistical Methods for Rates and Proportions", 3rd edition, 2003, chapter 13; limits after
/// Clopper and Pearson, Biometrika 26, 1934.
pub fn exact_difference(pairs: Pairs, level: Level) -> Option<Interval> {
    let discordance = pairs.discordance().proportion()?;
    let (a, b) = (pairs.only_a as f64, pairs.only_b as f64);
    let tail = (1.0 - level.probability()) / 2.0;
    let limit = |a: f64, b: f64, probability: f64| {
        let beta = Beta::new(b, a).expect("both counts are above 0 here");
        beta.inverse_cdf(probability)
    };
    let low = if pairs.only_b == 0 { 0.0 } else { limit(a + 1.0, b, tail) };
    let high = if pairs.only_a == 0 { 1.0 } else { limit(a, b + 1.0, 1.0 - tail) };
    let (low, high) = (discordance * (2.0 * low - 1.0), discordance * (2.0 * high - 1.0));
    Some(Interval { low, high, level, method: Method::Exact })
}

/// The formula of [`required_n`], to be printed beside its result.
pub const CONNOR: &str = "n = (z_{α/2} √ψ + z_β √(ψ − δ²))² / δ²  (Connor 1987; ψ share of discordant pairs, δ difference)";

/// How many pairs McNemar's test needs to see a difference δ between two shares with this power, where a share ψ of the pairs is
/// discordant.
///
/// `difference` counts without its sign. `None` unless `0 < |δ| ≤ ψ ≤ 1`: no more pairs than differ can make the difference.
///
/// Source: Connor, Biometrics 43(1), 1987, p. 207; [`CONNOR`].
pub fn required_n(
    difference: f64,
    discordance: f64,
    confidence: Level,
    power: Level,
) -> Option<u64> {
    let delta = difference.abs();
    let possible = delta > 0.0 && delta <= discordance && discordance <= 1.0;
    let (z_alpha, z_beta) = (confidence.two_sided_z(), power.one_sided_z());
    let root = z_alpha * discordance.sqrt() + z_beta * (discordance - delta * delta).sqrt();
    possible.then(|| (root / delta).powi(2).ceil() as u64)
}

/// The formula of [`required_n_of_mean`], to be printed beside its result.
pub const NORMAL: &str = "n = ((z_{α/2} + z_β) σ / δ)²  (normal approximation; σ standard deviation of the differences, δ their mean)";

/// How many pairs a paired test of means needs to see a mean difference with this power, where the differences have this standard
/// deviation. `None` unless both are finite and not 0.
///
/// Source: [`NORMAL`]; Chow, Shao and Wang, "Sample Size Calculations in Clinical Research", 2nd edition, 2008, section 3.1.
pub fn required_n_of_mean(
    difference: f64,
    deviation: f64,
    confidence: Level,
    power: Level,
) -> Option<u64> {
    let possible = difference.is_finite() && deviation.is_finite();
    let wanted = (confidence.two_sided_z() + power.one_sided_z()) * deviation / difference.abs();
    (possible && difference != 0.0 && deviation > 0.0).then(|| wanted.powi(2).ceil() as u64)
}

/// The smallest difference between two shares of the same n queries that McNemar's test sees with this power, 0 to 1, where a
/// share ψ of the queries is discordant: [`CONNOR`] solved for δ.
///
/// `δ = √ψ (z_{α/2} √n + z_β √(n + z_β² − z_{α/2}²)) / (n + z_β²)`. `None` unless `0 < ψ ≤ 1`, and where δ would be above ψ: then
/// so few queries differ that no outcome could be seen, and more are needed.
///
/// Source: Connor, Biometrics 43(1), 1987, p. 207.
pub fn minimum_detectable_difference(
    n: u64,
    discordance: f64,
    confidence: Level,
    power: Level,
) -> Option<f64> {
    let n = n as f64;
    let (z_alpha, z_beta) = (confidence.two_sided_z(), power.one_sided_z());
    let inner = n + z_beta * z_beta - z_alpha * z_alpha;
    let delta =
        discordance.sqrt() * (z_alpha * n.sqrt() + z_beta * inner.sqrt()) / (n + z_beta * z_beta);
    // What has no root is no number, and compares with nothing.
    let possible = discordance <= 1.0 && delta > 0.0 && delta <= discordance;
    possible.then_some(delta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIDENCE: Level = Level::CONFIDENCE;
    const POWER: Level = Level::POWER;

    fn pairs(only_a: u64, only_b: u64) -> Pairs {
        Pairs { both: 3, only_a, only_b, neither: 2 }
    }

    /// The expected p-values are those of statsmodels 0.15.
    fn check_mcnemar(only_a: u64, only_b: u64, expected: f64) {
        let got = mcnemar(pairs(only_a, only_b));
        assert!((got / expected - 1.0).abs() < 1e-9, "{only_a} {only_b}: {got}");
    }

    fn check_n(difference: f64, discordance: f64, expected: Option<u64>) {
        assert_eq!(required_n(difference, discordance, CONFIDENCE, POWER), expected);
    }

    fn check_difference(n: u64, discordance: f64, expected: Option<f64>) {
        let got = minimum_detectable_difference(n, discordance, CONFIDENCE, POWER);
        assert_eq!(got.is_some(), expected.is_some(), "{got:?}");
        assert!(got.zip(expected).is_none_or(|(a, b)| (a - b).abs() < 1e-9), "{got:?}");
    }

    #[test]
    fn the_exact_test_counts_discordant_pairs_only() {
        check_mcnemar(0, 0, 1.0);
        check_mcnemar(5, 5, 1.0);
        check_mcnemar(0, 2, 0.5);
        check_mcnemar(1, 3, 0.625);
        check_mcnemar(0, 10, 0.001_953_125);
        check_mcnemar(10, 25, 0.016_673_847_800_120_715);
        check_mcnemar(121, 59, 4.434_449_263_755_164_5e-6);
    }

    /// The limits are those of `statsmodels.stats.proportion.proportion_confint(only_b, only_a + only_b, method="beta")`.
    fn check_exact(only_a: u64, only_b: u64, (low, high): (f64, f64)) {
        let pairs = pairs(only_a, only_b);
        let share = pairs.discordance().proportion().unwrap();
        let got = exact_difference(pairs, CONFIDENCE).unwrap();
        assert!((got.low - share * (2.0 * low - 1.0)).abs() < 1e-9, "{got:?}");
        assert!((got.high - share * (2.0 * high - 1.0)).abs() < 1e-9, "{got:?}");
    }

    #[test]
    fn the_exact_interval_is_that_of_the_discordant_pairs() {
        check_exact(1, 3, (0.194_120_449_683_243, 0.993_690_536_789_756));
        check_exact(0, 10, (0.691_502_892_181_239, 1.0));
        check_exact(4, 0, (0.0, 0.602_364_635_616_474));
        let none = exact_difference(pairs(0, 0), CONFIDENCE).unwrap();
        assert_eq!((none.low, none.high), (0.0, 0.0));
        assert_eq!(exact_difference(Pairs::default(), CONFIDENCE), None);
    }

    #[test]
    fn a_mean_needs_as_many_pairs_as_its_noise_asks_for() {
        let n =
            |difference, deviation| required_n_of_mean(difference, deviation, CONFIDENCE, POWER);
        assert_eq!((n(0.5, 1.0), n(-0.5, 1.0)), (Some(32), Some(32))); // 31.4
        assert_eq!((n(0.0, 1.0), n(0.1, 0.0), n(f64::NAN, 1.0)), (None, None, None));
    }

    #[test]
    fn pairs_keep_both_margins() {
        let got = Pairs::of([(true, true), (true, false), (false, true), (false, true)]);
        assert_eq!(got, Pairs { both: 1, only_a: 1, only_b: 2, neither: 0 });
        assert_eq!((got.a().count(), got.b().count(), got.discordance().count()), (2, 3, 3));
        assert_eq!(got.difference(), Some(0.25));
        assert_eq!(Pairs::default().difference(), None);
    }

    #[test]
    fn the_number_of_pairs_needed_is_rounded_up() {
        check_n(0.1, 0.2, Some(155)); // 154.6
        check_n(-0.1, 0.2, Some(155));
        check_n(0.125, 0.25, Some(124)); // 123.2
        check_n(0.005, 0.02, Some(6277)); // 6276.7
        check_n(0.2, 0.2, Some(37)); // 36.8
    }

    #[test]
    fn a_difference_above_the_discordance_cannot_be_planned() {
        check_n(0.3, 0.2, None);
        check_n(0.0, 0.2, None);
        check_n(0.1, 1.5, None);
        check_n(f64::NAN, 0.2, None);
    }

    #[test]
    fn the_detectable_difference_solves_the_same_formula() {
        check_difference(76, 0.25, Some(0.158_202_022_97));
        check_difference(400, 0.02, Some(0.019_751_869_098));
        check_difference(400, 0.1, Some(0.044_166_521_986));
        check_difference(150, 0.3, Some(0.124_308_531_326));
    }

    #[test]
    fn too_small_a_sample_detects_nothing() {
        check_difference(16, 0.25, None);
        check_difference(1, 1.0, None);
        check_difference(0, 0.5, None);
        check_difference(400, 0.0, None);
        check_difference(400, 1.1, None);
    }

    proptest! {
        #[test]
        fn the_exact_interval_and_the_exact_test_say_the_same(only_a in 0u64..60, only_b in 0u64..60) {
            let pairs = pairs(only_a, only_b);
            let interval = exact_difference(pairs, CONFIDENCE).unwrap();
            prop_assert!(interval.low <= interval.high && interval.low >= -1.0 && interval.high <= 1.0);
            let p = mcnemar(pairs);
            // Twice a tail is below 5 % exactly where the tail's limit passes one half.
            if (p - 0.05).abs() > 1e-9 {
                prop_assert_eq!(interval.contains(0.0), p > 0.05, "{} {:?}", p, interval);
            }
        }

        #[test]
        fn p_is_a_probability_and_knows_no_side(only_a in 0u64..200, only_b in 0u64..200) {
            let p = mcnemar(pairs(only_a, only_b));
            prop_assert!(p > 0.0 && p <= 1.0);
            prop_assert_eq!(p.to_bits(), mcnemar(pairs(only_b, only_a)).to_bits());
        }

        #[test]
        fn the_detectable_difference_needs_the_sample_it_came_from(n in 10u64..5000, percent in 1u32..=100) {
            let discordance = f64::from(percent) / 100.0;
            if let Some(delta) = minimum_detectable_difference(n, discordance, CONFIDENCE, POWER) {
                let needed = required_n(delta, discordance, CONFIDENCE, POWER).unwrap();
                prop_assert!(needed.abs_diff(n) <= 1, "{} for {}", needed, n);
            }
        }
    }
}
