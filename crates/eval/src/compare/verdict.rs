//! A tested difference → what it comes to, in words.

use super::{Difference, Options};
use crate::interval::{Level, Pairs, mcnemar, required_n};
use crate::measure::Measure;
use serde::Serialize;
use std::fmt;

/// What a difference comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// B has more of what is neither good nor bad.
    Higher,
    /// B has less of it.
    Lower,
    /// The queries cannot tell.
    NotResolved {
        /// How many would, were the difference the one that was seen; `None` where none was.
        needed: Option<u64>,
    },
    /// Both delivered the same passages, so there is nothing to test.
    Identical,
    /// There is no query.
    NoQuery,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Better => f.write_str("better"),
            Verdict::Worse => f.write_str("worse"),
            Verdict::Higher => f.write_str("higher"),
            Verdict::Lower => f.write_str("lower"),
            Verdict::NotResolved { needed: Some(n) } => write!(f, "not resolved (needs n ≈ {n})"),
            Verdict::NotResolved { needed: None } => {
                f.write_str("not resolved (no difference seen)")
            }
            Verdict::Identical => f.write_str("identical by construction"),
            Verdict::NoQuery => f.write_str("no query"),
        }
    }
}

/// What the values of a part of the queries come to, before p-values are corrected. `same` says that all contexts are.
pub(super) fn of(
    values: &[(f64, f64)],
    same: bool,
    difference: Option<&Difference>,
    measure: Measure,
    options: &Options,
) -> Verdict {
    let Some(difference) = difference else { return Verdict::NoQuery };
    // Outcomes judged elsewhere, and lists, may differ where contexts do not.
    let no_difference = values.iter().all(|(a, b)| a.to_bits() == b.to_bits());
    if same && no_difference {
        return Verdict::Identical;
    }
    tested(difference, measure, options)
}

fn tested(difference: &Difference, measure: Measure, options: &Options) -> Verdict {
    let alpha = 1.0 - options.bootstrap.level.probability();
    if difference.decisive_p() >= alpha || difference.mean == 0.0 {
        return Verdict::NotResolved { needed: difference.needed };
    }
    match (measure.describe().more_is_better, difference.mean > 0.0) {
        (Some(more), up) if more == up => Verdict::Better,
        (Some(_), _) => Verdict::Worse,
        (None, true) => Verdict::Higher,
        (None, false) => Verdict::Lower,
    }
}

impl Verdict {
    /// What counts of right answers come to by the exact test alone.
    pub fn of_pairs(pairs: Pairs, confidence: Level, power: Level) -> Verdict {
        let Some(difference) = pairs.difference() else { return Verdict::NoQuery };
        let discordance = pairs.discordance().proportion().unwrap_or_default();
        if mcnemar(pairs) >= 1.0 - confidence.probability() {
            let needed = required_n(difference, discordance, confidence, power);
            return Verdict::NotResolved { needed };
        }
        if difference > 0.0 { Verdict::Better } else { Verdict::Worse }
    }

    /// The same, by the corrected p-value.
    pub(super) fn corrected(
        self,
        difference: &Difference,
        measure: Measure,
        options: &Options,
    ) -> Verdict {
        match self {
            Verdict::Identical | Verdict::NoQuery => self,
            _ => tested(difference, measure, options),
        }
    }
}
