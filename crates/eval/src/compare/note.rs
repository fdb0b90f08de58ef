//! What the two runs and their strata say → what a reader should know before believing the numbers.

use super::{By, Case, Options, fire_rate};
use crate::interval::{Level, wald};
use crate::run::Run;
use crate::share::{Share, points};
use crate::strata::{Strata, StrataError};
use serde::Serialize;
use std::fmt;

/// What a reader should know before believing the numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// The rule never fired, so nothing was measured of it.
    NeverFired {
        /// Queries.
        n: u64,
    },
    /// The two baselines differ, whatever the rule does.
    BaselineGap {
        /// A on the fired queries.
        fired: Share,
        /// A on all.
        overall: Share,
    },
    /// The pooled difference is smaller than what chance alone moves one share by.
    UnderNoise {
        /// The pooled difference, −1 to 1.
        difference: f64,
        /// Half the width of the Wald interval of A's pooled share.
        half_width: f64,
        /// Queries.
        n: u64,
        /// How sure the interval is.
        level: Level,
        /// Whether the paired test tells it from chance all the same.
        resolved: bool,
    },
    /// The runs differ where the rule did not act, so the difference is not the rule's alone.
    UnfiredDiffer {
        /// Unfired queries that only A got right.
        only_a: u64,
        /// Unfired queries that only B got right.
        only_b: u64,
        /// Unfired queries.
        n: u64,
    },
    /// The stores hold other documents, or cut them otherwise.
    OtherData,
    /// Queries that could not be judged and are in no number.
    Unjudged {
        /// Under A.
        a: usize,
        /// Under B.
        b: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NeverFired { n } => {
                write!(f, "the rule fired on none of {n} queries: nothing was measured of it")
            }
            Note::BaselineGap { fired, overall } => write!(
                f,
                "A has {fired} on the fired queries and {overall} on all: that gap is there before either system ran; compare within the fired queries, not with the overall baseline"
            ),
            Note::UnderNoise { difference, half_width, n, level, resolved } => write!(
                f,
                "the pooled difference of {} points is under the noise floor of ±{} points (Wald, {level}, n = {n}): {}",
                points(*difference),
                points(*half_width),
                if *resolved {
                    "only the test on pairs tells it from chance"
                } else {
                    "its sign says nothing of the rule"
                }
            ),
            Note::UnfiredDiffer { only_a, only_b, n } => write!(
                f,
                "where the rule did not fire only A is right on {only_a} queries and only B on {only_b}, of {n}: the runs differ in more than the rule, and Δ overall is not fire rate × Δ fired"
            ),
            Note::OtherData => {
                f.write_str("the runs are of different data: other documents, or other cuts")
            }
            Note::Unjudged { a, b } => {
                write!(
                    f,
                    "{a} judgments of A and {b} of B could not be placed, and are in no number"
                )
            }
        }
    }
}

/// Notes on the runs as such.
pub(super) fn of(a: &Run, b: &Run, cases: &[Case], options: &Options) -> Vec<Note> {
    let mut notes = Vec::new();
    let fired = fire_rate(cases);
    if options.by == By::Fired && fired.count() == 0 {
        notes.push(Note::NeverFired { n: fired.of() });
    }
    if a.identity.data != b.identity.data {
        notes.push(Note::OtherData);
    }
    let (of_a, of_b) = (a.identity.unjudged, b.identity.unjudged);
    if of_a + of_b > 0 {
        notes.push(Note::Unjudged { a: of_a, b: of_b });
    }
    notes
}

/// Notes on counts of right answers, where it is known whether the pairs tell the pooled difference from chance.
pub(super) fn of_counts(strata: &Strata, level: Level, resolved: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    let pooled = strata.pooled();
    let (fired, overall) = (strata.fired.a(), pooled.a());
    if fired.of() > 0 && fired.percent() != overall.percent() {
        notes.push(Note::BaselineGap { fired, overall });
    }
    if let (Some(difference), Some(interval)) = (pooled.difference(), wald(overall, level)) {
        let half_width = interval.half_width();
        if difference != 0.0 && difference.abs() < half_width {
            notes.push(Note::UnderNoise { difference, half_width, n: pooled.n(), level, resolved });
        }
    }
    if let Err(StrataError::UnfiredDiffer { only_a, only_b, n }) = strata.effect() {
        notes.push(Note::UnfiredDiffer { only_a, only_b, n });
    }
    notes
}
