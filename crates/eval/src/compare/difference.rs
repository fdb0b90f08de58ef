//! Values under two runs, query by query → both figures, their difference, its test, and what n could show.

use super::Options;
use crate::interval::{
    Bootstrap, CONNOR, Interval, NORMAL, Pairs, bootstrap_difference, bootstrap_mean, bootstrap_p,
    exact_difference, mcnemar, minimum_detectable_difference, required_n, required_n_of_mean,
    wilson,
};
use crate::measure::Measure;
use crate::share::Share;
use serde::Serialize;

/// What a measure came to under one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Yes or no a query: the counts.
    Count {
        /// How many of how many.
        share: Share,
        /// Where the true share plausibly lies; `None` without queries.
        interval: Option<Interval>,
    },
    /// A value a query: their mean.
    Mean {
        /// The mean; `None` without queries.
        mean: Option<f64>,
        /// Queries.
        n: usize,
        /// Where the true mean plausibly lies; `None` without queries.
        interval: Option<Interval>,
    },
}

impl Figure {
    /// The share, 0 to 1, or the mean; `None` without queries.
    pub fn value(&self) -> Option<f64> {
        match self {
            Figure::Count { share, .. } => share.proportion(),
            Figure::Mean { mean, .. } => *mean,
        }
    }

    /// Where the true value plausibly lies; `None` without queries.
    pub fn interval(&self) -> Option<Interval> {
        match self {
            Figure::Count { interval, .. } | Figure::Mean { interval, .. } => *interval,
        }
    }
}

/// How a difference was tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// The exact test of McNemar.
    Mcnemar,
    /// Resampled mean differences against 0.
    Bootstrap,
}

/// The difference B − A over the same queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The mean difference.
    pub mean: f64,
    /// Its paired bootstrap interval.
    pub bootstrap: Option<Interval>,
    /// For yes and no: the counts of both sides together.
    pub pairs: Option<Pairs>,
    /// For yes and no: the interval that agrees with the test.
    pub exact: Option<Interval>,
    /// How it was tested.
    pub test: Test,
    /// The two-sided p-value.
    pub p: f64,
    /// The p-value corrected for how many differences are decided upon; `None` where it is none of them.
    pub p_corrected: Option<f64>,
    /// The smallest difference that as many queries with as many differing answers show; `None` where none could be shown.
    pub detectable: Option<f64>,
    /// The queries that the difference seen would need; `None` where there is no difference to plan for.
    pub needed: Option<u64>,
    /// The formula of the last two.
    pub formula: &'static str,
}

/// The figure of one run; a count for yes and no.
pub fn figure(values: &[f64], measure: Measure, bootstrap: &Bootstrap) -> Figure {
    if measure.is_binary() {
        let share = Share::count_of(values, |value| *value > 0.5);
        return Figure::Count { share, interval: wilson(share, bootstrap.level) };
    }
    let n = values.len();
    let mean = (n > 0).then(|| values.iter().sum::<f64>() / n as f64);
    Figure::Mean { mean, n, interval: bootstrap_mean(values, bootstrap) }
}

/// The difference of two runs; `None` without queries.
pub(super) fn between(
    values: &[(f64, f64)],
    measure: Measure,
    options: &Options,
) -> Option<Difference> {
    let differences: Vec<f64> = values.iter().map(|(a, b)| b - a).collect();
    let n = differences.len();
    let mean = (n > 0).then(|| differences.iter().sum::<f64>() / n as f64)?;
    let (confidence, power) = (options.bootstrap.level, options.power);
    let bootstrap = bootstrap_difference(values, &options.bootstrap);
    if measure.is_binary() {
        let pairs = Pairs::of(values.iter().map(|(a, b)| (*a > 0.5, *b > 0.5)));
        let discordance = pairs.discordance().proportion()?;
        return Some(Difference {
            mean,
            bootstrap,
            pairs: Some(pairs),
            exact: exact_difference(pairs, confidence),
            test: Test::Mcnemar,
            p: mcnemar(pairs),
            p_corrected: None,
            detectable: minimum_detectable_difference(pairs.n(), discordance, confidence, power),
            needed: required_n(mean, discordance, confidence, power),
            formula: CONNOR,
        });
    }
    let deviation = deviation(&differences, mean);
    let reach = confidence.two_sided_z() + power.one_sided_z();
    Some(Difference {
        mean,
        bootstrap,
        pairs: None,
        exact: None,
        test: Test::Bootstrap,
        p: bootstrap_p(&differences, &options.bootstrap)?,
        p_corrected: None,
        detectable: (n > 1).then(|| reach * deviation / (n as f64).sqrt()),
        needed: required_n_of_mean(mean, deviation, confidence, power),
        formula: NORMAL,
    })
}

/// The sample standard deviation; 0 of one value.
fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}

impl Difference {
    /// The p-value that decides.
    pub fn decisive_p(&self) -> f64 {
        self.p_corrected.unwrap_or(self.p)
    }
}
