//! Counts and values of a sample → the interval in which the truth plausibly lies, and the name of the formula.
//!
//! Invariant: `low <= high`, and an interval names its method and level; where there is no sample there is no interval.

mod bootstrap;
mod family;
mod paired;
mod random;

use crate::share::{Share, points};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use std::fmt;

pub use bootstrap::{Bootstrap, bootstrap_difference, bootstrap_mean, bootstrap_p};
pub use family::holm;
pub use paired::{
    CONNOR, NORMAL, Pairs, exact_difference, mcnemar, minimum_detectable_difference, required_n,
    required_n_of_mean,
};
pub(crate) use random::SplitMix64;

/// A probability strictly between 0 and 1: of an interval to hold the truth, or of a test to see an effect.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Level(f64);

/// A number that is no level.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("level `{0}` is not between 0 and 1")]
pub struct LevelError(pub f64);

impl Level {
    /// The usual confidence, 95 %.
    pub const CONFIDENCE: Level = Level(0.95);
    /// The usual power, 80 %.
    pub const POWER: Level = Level(0.8);

    /// The level `probability`.
    ///
    /// # Errors
    /// [`LevelError`] unless `0 < probability < 1`: 95 % is `0.95`.
    pub fn new(probability: f64) -> Result<Level, LevelError> {
        if probability > 0.0 && probability < 1.0 {
            Ok(Level(probability))
        } else {
            Err(LevelError(probability))
        }
    }

    /// The probability, above 0 and below 1.
    pub fn probability(self) -> f64 {
        self.0
    }

    /// How many standard deviations around the mean of a normal distribution hold this share of it; 1.96 for 95 %.
    pub fn two_sided_z(self) -> f64 {
        Normal::standard().inverse_cdf(f64::midpoint(1.0, self.0))
    }

    /// How many standard deviations above the mean a normal distribution reaches this share; 0.84 for 80 %.
    pub fn one_sided_z(self) -> f64 {
        Normal::standard().inverse_cdf(self.0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 95 for 0.95, 97.5 for 0.975: as many decimals as it has, without the noise of the product.
        write!(f, "{} %", (self.0 * 1e8).round() / 1e6)
    }
}

/// Which formula made an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// The score interval of one share.
    Wilson,
    /// The normal approximation around the estimate.
    Wald,
    /// The hybrid score interval of an unpaired difference.
    Newcombe,
    /// Percentiles of resampled means.
    Bootstrap,
    /// The binomial limits of Clopper and Pearson on the discordant pairs.
    Exact,
    /// The normal approximation by a large-sample variance.
    Asymptotic,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Wilson => "Wilson",
            Method::Wald => "Wald",
            Method::Newcombe => "Newcombe",
            Method::Bootstrap => "bootstrap",
            Method::Exact => "exact",
            Method::Asymptotic => "asymptotic",
        })
    }
}

/// Where the truth plausibly lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end, in the unit of the estimate.
    pub low: f64,
    /// Upper end, not below the lower one.
    pub high: f64,
    /// How sure it is.
    pub level: Level,
    /// How it was made.
    pub method: Method,
}

/// What an interval of a difference says of its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// All of it is above zero.
    Higher,
    /// All of it is below zero.
    Lower,
    /// It holds zero: the sample cannot tell.
    NotResolved,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Higher => "higher",
            Direction::Lower => "lower",
            Direction::NotResolved => "not resolved",
        })
    }
}

impl Interval {
    /// Half of its width, 0 or more.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether it holds the value, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// For the interval of a difference: which way it goes, or that this is not resolved.
    pub fn direction(&self) -> Direction {
        if self.low > 0.0 {
            Direction::Higher
        } else if self.high < 0.0 {
            Direction::Lower
        } else {
            Direction::NotResolved
        }
    }
}

impl fmt::Display for Interval {
    /// In percentage points, with method and level: `33.2 to 76.9 (Wilson, 95 %)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { low, high, level, method } = self;
        write!(f, "{} to {} ({method}, {level})", points(*low), points(*high))
    }
}

/// The Wilson score interval of a share, within 0 to 1 and never without width; `None` of nothing.
///
/// `(p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)`
///
/// Source: Wilson, JASA 22, 1927.
pub fn wilson(share: Share, level: Level) -> Option<Interval> {
    let p = share.proportion()?;
    let n = share.of() as f64;
    let z = level.two_sided_z();
    let shrink = 1.0 + z * z / n;
    let centre = (p + z * z / (2.0 * n)) / shrink;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / shrink;
    // None and all of n reach the end exactly; rounding must not say otherwise.
    let low = if share.count() == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if share.count() == share.of() { 1.0 } else { (centre + half).min(1.0) };
    Some(Interval { low, high, level, method: Method::Wilson })
}

/// The Wald interval of a share, `p ± z √(p(1 − p)/n)`; `None` of nothing.
///
/// It is not cut off at 0 and 1, has no width where all or none of n count, and is too narrow near both: print [`wilson`]
/// beside it.
///
/// Source: Laplace, Théorie analytique des probabilités, 1812; called Wald's after his test of 1943.
pub fn wald(share: Share, level: Level) -> Option<Interval> {
    let p = share.proportion()?;
    let half = level.two_sided_z() * variance(share)?.sqrt();
    Some(Interval { low: p - half, high: p + half, level, method: Method::Wald })
}

/// The Wald interval of the difference `b − a` of two independent shares, variances unpooled; `None` if either is of nothing.
///
/// It is not cut off at −1 and 1. For shares of the same queries use [`mcnemar`] and [`bootstrap_difference`].
///
/// Source: Newcombe, Statistics in Medicine 17, 1998, p. 873, method 1.
pub fn wald_difference(a: Share, b: Share, level: Level) -> Option<Interval> {
    let difference = b.proportion()? - a.proportion()?;
    let half = level.two_sided_z() * (variance(a)? + variance(b)?).sqrt();
    let (low, high) = (difference - half, difference + half);
    Some(Interval { low, high, level, method: Method::Wald })
}

/// Newcombe's hybrid score interval of the difference `b − a` of two independent shares, within −1 to 1; `None` if either is
/// of nothing.
///
/// With the Wilson limits l and u of each: `d − √((b − l_b)² + (u_a − a)²)` to `d + √((u_b − b)² + (a − l_a)²)`.
///
/// Source: Newcombe, Statistics in Medicine 17, 1998, p. 873, method 10.
pub fn newcombe(a: Share, b: Share, level: Level) -> Option<Interval> {
    let (p_a, p_b) = (a.proportion()?, b.proportion()?);
    let (of_a, of_b) = (wilson(a, level)?, wilson(b, level)?);
    let difference = p_b - p_a;
    let low = (difference - (p_b - of_b.low).hypot(of_a.high - p_a)).max(-1.0);
    let high = (difference + (of_b.high - p_b).hypot(p_a - of_a.low)).min(1.0);
    Some(Interval { low, high, level, method: Method::Newcombe })
}

/// The estimated variance of a proportion, `p(1 − p)/n`.
fn variance(share: Share) -> Option<f64> {
    share.proportion().map(|p| p * (1.0 - p) / share.of() as f64)
}

#[cfg(test)]
mod tests;
