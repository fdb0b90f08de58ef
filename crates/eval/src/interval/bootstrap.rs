//! Values, one a query → the percentile interval of their mean.
//!
//! Invariant: the same values in the same order with the same options give the same bytes.

use super::random::SplitMix64;
use super::{Interval, Level, Method};
use statrs::statistics::{Data, OrderStatistics};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// How many samples to draw; 1,000 or more for 95 %.
    pub resamples: usize,
    /// Where the random sequence starts. A report names it.
    pub seed: u64,
    /// How sure the interval is to be.
    pub level: Level,
}

impl Default for Bootstrap {
    /// 10,000 samples, seed 0, 95 %.
    fn default() -> Bootstrap {
        Bootstrap { resamples: 10_000, seed: 0, level: Level::CONFIDENCE }
    }
}

/// The percentile bootstrap interval of a mean: values are drawn with replacement, as many as there are.
///
/// It lies between the smallest and the largest value, and has no width where all values are equal. `None` without values or
/// resamples, or where a value is not finite. O(n) for each resample.
///
/// Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3; quantiles as type 8 of Hyndman and
/// Fan, The American Statistician 50(4), 1996; numbers from SplitMix64.
pub fn bootstrap_mean(values: &[f64], options: &Bootstrap) -> Option<Interval> {
    let Bootstrap { resamples, seed, level } = *options;
    if values.is_empty() || resamples == 0 || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let means: Vec<f64> = (0..resamples).map(|_| resampled_mean(values, &mut random)).collect();
    let mut means = Data::new(means);
    let tail = (1.0 - level.probability()) / 2.0;
    let (low, high) = (means.quantile(tail), means.quantile(1.0 - tail));
    Some(Interval { low, high, level, method: Method::Bootstrap })
}

/// The paired bootstrap interval of the mean of `b − a` over pairs `(a, b)`, one a query: whole pairs are drawn, so what makes
/// a query hard for both sides cancels.
///
/// `None` as in [`bootstrap_mean`].
///
/// Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3, on the differences.
pub fn bootstrap_difference(pairs: &[(f64, f64)], options: &Bootstrap) -> Option<Interval> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    bootstrap_mean(&differences, options)
}

/// The two-sided p-value of a mean against 0, above 0 to 1: twice the smaller share of resampled means on either side of 0, each
/// counted with one more, so that no p is below `2 / (resamples + 1)`. `None` as in [`bootstrap_mean`]; 1 where all values are 0.
///
/// Source: Davison and Hinkley, "Bootstrap Methods and their Application", 1997, sections 4.4 and 5.4.
pub fn bootstrap_p(values: &[f64], options: &Bootstrap) -> Option<f64> {
    let Bootstrap { resamples, seed, .. } = *options;
    if values.is_empty() || resamples == 0 || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut random = SplitMix64::new(seed);
    let (mut at_most, mut at_least) = (1_usize, 1_usize);
    for _ in 0..resamples {
        let mean = resampled_mean(values, &mut random);
        at_most += usize::from(mean <= 0.0);
        at_least += usize::from(mean >= 0.0);
    }
    Some((2.0 * at_most.min(at_least) as f64 / (resamples + 1) as f64).min(1.0))
}

fn resampled_mean(values: &[f64], random: &mut SplitMix64) -> f64 {
    let drawn = (0..values.len()).filter_map(|_| values.get(random.below(values.len())));
    drawn.sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Direction, wald};
    use crate::share::Share;
    use proptest::prelude::*;

    const FEW: Bootstrap = Bootstrap { resamples: 200, seed: 1, level: Level::CONFIDENCE };

    /// So many ones, then zeros up to n.
    fn outcomes(count: usize, n: usize) -> Vec<f64> {
        (0..n).map(|index| f64::from(u8::from(index < count))).collect()
    }

    fn check(values: &[f64], options: &Bootstrap, expected: Option<(f64, f64)>) {
        let got = bootstrap_mean(values, options).map(|i| (i.low, i.high));
        assert_eq!(got, expected);
    }

    #[test]
    fn e1_the_same_seed_gives_the_same_bytes() {
        check(&[0.0, 0.25, 0.5, 1.0], &FEW, Some((0.0625, 0.75)));
        let squares: Vec<f64> = (0..16).map(|root| f64::from(root * root)).collect();
        let options = Bootstrap { resamples: 1_000, seed: 42, ..FEW };
        let got = bootstrap_mean(&squares, &options).unwrap();
        // These and the ones above come from another implementation, in another language, of the same sources.
        assert!(
            (got.low - 44.564_062_5).abs() < 1e-9 && (got.high - 111.477_083_333_333).abs() < 1e-9,
            "{got:?}"
        );
        assert_ne!(bootstrap_mean(&squares, &Bootstrap { seed: 43, ..options }), Some(got));
    }

    #[test]
    fn without_values_resamples_or_numbers_there_is_no_interval() {
        check(&[], &FEW, None);
        check(&[0.5], &Bootstrap { resamples: 0, ..FEW }, None);
        check(&[0.5, f64::NAN], &FEW, None);
        check(&[0.5, f64::INFINITY], &FEW, None);
    }

    #[test]
    fn equal_values_have_no_width() {
        check(&[0.5; 7], &FEW, Some((0.5, 0.5)));
        check(&[0.5], &Bootstrap { resamples: 1, ..FEW }, Some((0.5, 0.5)));
    }

    #[test]
    fn p_is_small_where_the_interval_leaves_out_0() {
        assert_eq!(bootstrap_p(&[], &FEW), None);
        assert_eq!(bootstrap_p(&[0.0; 5], &FEW), Some(1.0));
        assert_eq!(bootstrap_p(&[1.0; 5], &FEW), Some(2.0 / 201.0));
        for (count, resolved) in [(30, true), (23, false)] {
            let values: Vec<f64> = outcomes(count, 40).iter().map(|v| 2.0 * v - 1.0).collect();
            let options = Bootstrap::default();
            let direction = bootstrap_mean(&values, &options).unwrap().direction();
            assert_eq!(direction != Direction::NotResolved, resolved);
            assert_eq!(bootstrap_p(&values, &options).unwrap() < 0.05, resolved);
        }
    }

    /// Of 2,000 experiments with 200 pairs each, in how many the interval holds the true difference.
    #[test]
    fn a_95_per_cent_interval_covers_the_truth_in_95_per_cent_of_experiments() {
        let (experiments, queries) = (2_000, 200);
        // Of 100 queries, A alone is right on 10 and B alone on 16: the truth is 0.06.
        let truth = 0.06;
        let mut world = SplitMix64::new(2024);
        let covered = (0..experiments)
            .filter(|&seed| {
                let outcome = |number: usize| match number {
                    0..10 => (1.0, 0.0),
                    10..26 => (0.0, 1.0),
                    26..80 => (1.0, 1.0),
                    _ => (0.0, 0.0),
                };
                let pairs: Vec<(f64, f64)> =
                    (0..queries).map(|_| outcome(world.below(100))).collect();
                let options = Bootstrap { resamples: 1_000, seed, level: Level::CONFIDENCE };
                bootstrap_difference(&pairs, &options).unwrap().contains(truth)
            })
            .count();
        let share = Share::new(covered as u64, experiments).unwrap();
        assert!((0.93..=0.97).contains(&share.proportion().unwrap()), "{share}");
    }

    #[test]
    fn for_shares_it_comes_near_wald() {
        let got = bootstrap_mean(&outcomes(292, 400), &Bootstrap::default()).unwrap();
        let expected = wald(Share::new(292, 400).unwrap(), Level::CONFIDENCE).unwrap();
        assert!((got.low - expected.low).abs() < 0.005, "{got:?}");
        assert!((got.high - expected.high).abs() < 0.005, "{got:?}");
    }

    #[test]
    fn pairs_cancel_what_is_hard_for_both_sides() {
        // Every query gains a little, over a range of difficulty far wider than the gain.
        let pairs: Vec<(f64, f64)> = (0..40)
            .map(|index| f64::from(index) / 50.0)
            .enumerate()
            .map(|(index, a)| (a, a + 0.02 + 0.01 * (index % 3) as f64))
            .collect();
        let got = bootstrap_difference(&pairs, &FEW).unwrap();
        assert_eq!(got.direction(), Direction::Higher);
        assert!(got.contains(0.03) && got.half_width() < 0.005, "{got:?}");
    }

    proptest! {
        #[test]
        fn it_lies_between_the_extremes(
            values in prop::collection::vec(-1.0f64..1.0, 1..30), seed in any::<u64>(),
        ) {
            let options = Bootstrap { seed, ..FEW };
            let got = bootstrap_mean(&values, &options).unwrap();
            let (min, max) = values.iter().fold((1.0f64, -1.0f64), |(l, h), &v| (l.min(v), h.max(v)));
            prop_assert!(min - 1e-12 <= got.low && got.low <= got.high && got.high <= max + 1e-12);
            prop_assert_eq!(Some(got), bootstrap_mean(&values, &options));
        }
    }
}
