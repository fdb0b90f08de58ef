//! Pairs that a person judged, some of each band of similarity → precision and recall by threshold, and the band that costs
//! more than it brings.
//!
//! Invariant: a pair weighs as many as its band holds for each one judged, so bands of different sizes can be sampled alike.

use crate::interval::{Interval, Level, wilson};
use crate::share::Share;
use serde::Serialize;

/// A judged pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedPair {
    /// The ends of its band of similarity, which names it.
    pub band: (f64, f64),
    /// Pairs in the band, judged or not.
    pub pairs_in_band: u64,
    /// Whether the method takes it for duplicates where its similarity suffices.
    pub accepted: bool,
    /// Whether a person does.
    pub duplicate: bool,
}

/// A share of weighted pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The share, 0 to 1.
    pub share: f64,
    /// The number of pairs drawn alike that would say as much: `(Σ w)² / Σ w²`.
    ///
    /// Source: Kish, "Survey sampling", 1965.
    pub effective_n: f64,
    /// Where the truth plausibly lies, by the effective number rounded down.
    pub interval: Option<Interval>,
}

/// What a threshold comes to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdRow {
    /// The lower end of the lowest band that it lets in.
    pub threshold: f64,
    /// Pairs that are taken for duplicates, about.
    pub pairs: f64,
    /// The share of these that are duplicates; `None` where none was judged.
    pub precision: Option<Estimate>,
    /// The share of the duplicates of all bands that are found; `None` where no pair was judged to be one.
    pub recall: Option<Estimate>,
}

/// What one band comes to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BandRow {
    /// Its ends.
    pub band: (f64, f64),
    /// Pairs in it.
    pub pairs_in_band: u64,
    /// Pairs that were judged to be duplicates, of those judged.
    pub duplicates: Share,
    /// Pairs that the method takes for duplicates and that are, about.
    pub right: f64,
    /// Pairs that the method takes for duplicates and that are not, about.
    pub wrong: f64,
}

/// What judged pairs say of a method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// By threshold, highest first.
    pub thresholds: Vec<ThresholdRow>,
    /// By band, highest first.
    pub bands: Vec<BandRow>,
    /// The highest band that cannot be reached: with it, precision falls below what is wanted. `None` where all can.
    pub too_expensive: Option<BandRow>,
}

/// Precision and recall at the lower end of each band, and the first band, from the top, that takes precision below `wanted`.
pub fn calibrate(pairs: &[JudgedPair], wanted: f64, level: Level) -> Calibration {
    let mut bands: Vec<(f64, f64)> = pairs.iter().map(|pair| pair.band).collect();
    bands.sort_by(|a, b| b.0.total_cmp(&a.0));
    bands.dedup();
    let weighed: Vec<(JudgedPair, f64)> = pairs
        .iter()
        .map(|pair| {
            let judged = pairs.iter().filter(|other| other.band == pair.band).count();
            (*pair, pair.pairs_in_band as f64 / judged.max(1) as f64)
        })
        .collect();
    let threshold = |&(low, _): &(f64, f64)| {
        let taken = |pair: &JudgedPair| pair.accepted && pair.band.0 >= low;
        let all = weighed.iter().filter(|(pair, _)| taken(pair));
        ThresholdRow {
            threshold: low,
            pairs: all.clone().map(|(_, weight)| weight).sum(),
            precision: estimate(all, |pair| pair.duplicate, level),
            recall: estimate(weighed.iter().filter(|(pair, _)| pair.duplicate), taken, level),
        }
    };
    let thresholds: Vec<ThresholdRow> = bands.iter().map(threshold).collect();
    let bands: Vec<BandRow> = bands.iter().map(|&band| band_row(band, &weighed)).collect();
    let falls = |row: &ThresholdRow| row.precision.is_some_and(|found| found.share < wanted);
    let first = thresholds.iter().position(falls);
    let too_expensive = first.and_then(|at| bands.get(at)).copied();
    Calibration { thresholds, bands, too_expensive }
}

fn band_row(band: (f64, f64), weighed: &[(JudgedPair, f64)]) -> BandRow {
    let inside: Vec<&(JudgedPair, f64)> =
        weighed.iter().filter(|(pair, _)| pair.band == band).collect();
    let sum = |of: &dyn Fn(&JudgedPair) -> bool| {
        inside.iter().filter(|(pair, _)| of(pair)).map(|(_, weight)| weight).sum::<f64>()
    };
    BandRow {
        band,
        pairs_in_band: inside.first().map_or(0, |(pair, _)| pair.pairs_in_band),
        duplicates: Share::count_of(&inside, |(pair, _)| pair.duplicate),
        right: sum(&|pair| pair.accepted && pair.duplicate),
        wrong: sum(&|pair| pair.accepted && !pair.duplicate),
    }
}

/// The weighted share of pairs that pass a test.
fn estimate<'a>(
    pairs: impl Iterator<Item = &'a (JudgedPair, f64)>,
    passes: impl Fn(&JudgedPair) -> bool,
    level: Level,
) -> Option<Estimate> {
    let (mut sum, mut squares, mut passing) = (0.0, 0.0, 0.0);
    for (pair, weight) in pairs {
        sum += weight;
        squares += weight * weight;
        passing += if passes(pair) { *weight } else { 0.0 };
    }
    if sum <= 0.0 {
        return None;
    }
    let (share, effective_n) = (passing / sum, sum * sum / squares);
    let n = effective_n.floor().max(1.0);
    let counts = Share::new((share * n).round() as u64, n as u64);
    let interval = counts.ok().and_then(|counts| wilson(counts, level));
    Some(Estimate { share, effective_n, interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(band: (f64, f64), in_band: u64, judged: &[(bool, bool)]) -> Vec<JudgedPair> {
        let pair = |&(accepted, duplicate)| JudgedPair {
            band,
            pairs_in_band: in_band,
            accepted,
            duplicate,
        };
        judged.iter().map(pair).collect()
    }

    #[test]
    fn bands_weigh_what_they_hold() {
        // 10 pairs above, all right; 90 below, half of them duplicates, and the method takes all.
        let mut judged = pairs((0.9, 1.0), 10, &[(true, true); 2]);
        judged.extend(pairs((0.8, 0.9), 90, &[(true, true), (true, false)]));
        let found = calibrate(&judged, 0.95, Level::CONFIDENCE);
        let rows: Vec<_> = found
            .thresholds
            .iter()
            .map(|row| {
                (row.threshold, row.pairs, row.precision.unwrap().share, row.recall.unwrap().share)
            })
            .collect();
        assert_eq!(rows, [(0.9, 10.0, 1.0, 10.0 / 55.0), (0.8, 100.0, 0.55, 1.0)]);
        let band = found.too_expensive.unwrap();
        assert_eq!((band.band, band.right, band.wrong), ((0.8, 0.9), 45.0, 45.0));
        // 4 pairs with weights 5, 5, 45, 45.
        let effective_n = found.thresholds[1].precision.unwrap().effective_n;
        assert!((effective_n - 10_000.0 / 4_100.0).abs() < 1e-9, "{effective_n}");
    }

    #[test]
    fn what_the_method_refuses_costs_recall_and_not_precision() {
        let judged =
            pairs((0.8, 1.0), 4, &[(true, true), (false, true), (false, false), (true, true)]);
        let found = calibrate(&judged, 0.95, Level::CONFIDENCE);
        let row = found.thresholds[0];
        assert_eq!((row.precision.unwrap().share, row.recall.unwrap().share), (1.0, 2.0 / 3.0));
        assert_eq!(found.too_expensive, None);
        let interval = row.precision.unwrap().interval.unwrap();
        assert!((interval.low - 0.3424).abs() < 1e-3 && interval.high > 0.999, "{interval:?}");
    }

    #[test]
    fn nothing_judged_is_nothing_said() {
        let found = calibrate(&[], 0.95, Level::CONFIDENCE);
        assert!(found.thresholds.is_empty() && found.too_expensive.is_none());
        let found = calibrate(&pairs((0.8, 1.0), 4, &[(false, false)]), 0.95, Level::CONFIDENCE);
        assert_eq!((found.thresholds[0].precision, found.thresholds[0].recall), (None, None));
    }
}
