//! Outcomes of two systems, by whether the rule fired → the counts of each stratum, pooled, and where the difference comes from.
//!
//! Invariant: the strata are disjoint and together are all queries, so they rebuild the pooled figure to the query.

mod import;

use crate::interval::Pairs;
use crate::share::Share;
use serde::{Deserialize, Serialize};

pub use import::{ClosureError, Counts, Percent, PercentError, Rebuilt, System, Table, close};

/// One query's outcome under a plain system A and a conditional one, B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether B's rule fired.
    pub fired: bool,
    /// Whether A was right.
    pub a: bool,
    /// Whether B was right.
    pub b: bool,
}

/// The outcomes of all queries, by whether the rule fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Strata {
    /// Queries on which it did: here the two systems differ.
    pub fired: Pairs,
    /// Queries on which it did not: here they are the same system.
    pub unfired: Pairs,
}

/// Where the difference of two systems comes from. Differences are B's share − A's, −1 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// On how many of all queries the rule fired.
    pub fire_rate: Share,
    /// The difference on those; `None` if there are none.
    pub on_fired: Option<f64>,
    /// The difference on all queries.
    pub overall: f64,
}

/// Why strata do not explain a pooled figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrataError {
    /// There is no query.
    #[error("no query in either stratum")]
    Empty,
    /// The pooled outcomes are those of other queries or of another run.
    #[error(
        "strata do not close: they give A {} and B {}, pooled are A {} and B {}",
        .strata.a(), .strata.b(), .pooled.a(), .pooled.b()
    )]
    Open {
        /// The strata together.
        strata: Pairs,
        /// What was to be rebuilt.
        pooled: Pairs,
    },
    /// The systems differ where the rule did not act, so they differ in more than the rule.
    #[error(
        "where the rule did not fire only A is right on {only_a} queries and only B on {only_b}, of {n}"
    )]
    UnfiredDiffer {
        /// Right under A only.
        only_a: u64,
        /// Right under B only.
        only_b: u64,
        /// Unfired queries.
        n: u64,
    },
}

impl StrataError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            StrataError::Empty => "give at least one query that can be judged",
            StrataError::Open { .. } => "strata and pooled figure must come from one run",
            StrataError::UnfiredDiffer { .. } => {
                "compare two runs that differ in nothing but the rule, judged the same way"
            }
        }
    }
}

impl Strata {
    /// Counts the outcomes.
    pub fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Strata {
        let (fired, unfired): (Vec<Outcome>, Vec<Outcome>) =
            outcomes.into_iter().partition(|outcome| outcome.fired);
        let pairs = |outcomes: Vec<Outcome>| Pairs::of(outcomes.iter().map(|o| (o.a, o.b)));
        Strata { fired: pairs(fired), unfired: pairs(unfired) }
    }

    /// All queries.
    pub fn pooled(self) -> Pairs {
        self.fired + self.unfired
    }

    /// On how many of all queries the rule fired.
    pub fn fire_rate(self) -> Share {
        Share::new(self.fired.n(), self.pooled().n()).expect("a stratum is not above the whole")
    }

    /// Checks that the strata rebuild pooled outcomes, to the query.
    ///
    /// # Errors
    /// [`StrataError::Open`] if they do not.
    pub fn closes(self, pooled: Pairs) -> Result<(), StrataError> {
        let strata = self.pooled();
        if strata == pooled { Ok(()) } else { Err(StrataError::Open { strata, pooled }) }
    }

    /// Where the difference comes from: Δ overall = fire rate × Δ on fired.
    ///
    /// # Errors
    /// [`StrataError::UnfiredDiffer`] if the systems differ on any query on which the rule did not fire, for then the identity
    /// says nothing about the rule. [`StrataError::Empty`] without queries.
    pub fn effect(self) -> Result<Effect, StrataError> {
        let Pairs { only_a, only_b, .. } = self.unfired;
        if only_a + only_b > 0 {
            return Err(StrataError::UnfiredDiffer { only_a, only_b, n: self.unfired.n() });
        }
        let overall = self.pooled().difference().ok_or(StrataError::Empty)?;
        Ok(Effect { fire_rate: self.fire_rate(), on_fired: self.fired.difference(), overall })
    }
}

/// The difference on all queries, −1 to 1, that a difference on the fired ones makes: Δ overall = fire rate × Δ on fired.
///
/// It holds where the systems are the same on all other queries. `fire_rate` is 0 to 1.
///
/// Source: the mean of a set is that of its parts weighted by size, and one of the two parts has difference 0.
pub fn overall_difference(fire_rate: f64, on_fired: f64) -> f64 {
    fire_rate * on_fired
}

/// The tokens that a rule spends on a query on which it fires: what it adds to the mean of all queries, divided by its fire rate.
/// `None` where it never fired.
///
/// `mean_tokens` and `base_tokens` are the means with the rule and without it, over the same queries.
///
/// Source: as [`overall_difference`], for tokens in place of outcomes.
pub fn tokens_per_fired(mean_tokens: f64, base_tokens: f64, fire_rate: Share) -> Option<f64> {
    let rate = fire_rate.proportion().filter(|&rate| rate > 0.0)?;
    Some((mean_tokens - base_tokens) / rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::points;
    use proptest::prelude::*;

    /// 16 fired queries, 9 and 11 of them right; 384 others, 285 right in both.
    fn sixteen_of_400() -> Strata {
        Strata {
            fired: Pairs { both: 8, only_a: 1, only_b: 3, neither: 4 },
            unfired: Pairs { both: 285, only_a: 0, only_b: 0, neither: 99 },
        }
    }

    fn check(share: Share, expected: &str) {
        assert_eq!(share.to_string(), expected);
    }

    #[test]
    fn strata_give_counts_first_and_rebuild_the_pooled_figure() {
        let strata = sixteen_of_400();
        check(strata.fired.a(), "9 of 16 = 56.3 %");
        check(strata.fired.b(), "11 of 16 = 68.8 %");
        check(strata.unfired.a(), "285 of 384 = 74.2 %");
        check(strata.unfired.b(), "285 of 384 = 74.2 %");
        check(strata.pooled().a(), "294 of 400 = 73.5 %");
        check(strata.pooled().b(), "296 of 400 = 74.0 %");
        check(strata.fire_rate(), "16 of 400 = 4.0 %");
    }

    #[test]
    fn both_routes_to_the_overall_difference_agree() {
        let effect = sixteen_of_400().effect().unwrap();
        let on_fired = effect.on_fired.unwrap();
        assert_eq!((points(on_fired), points(effect.overall)), ("12.5".into(), "0.5".into()));
        let by_identity = overall_difference(effect.fire_rate.proportion().unwrap(), on_fired);
        assert!((by_identity - effect.overall).abs() < 1e-15);
    }

    #[test]
    fn twelve_points_on_4_per_cent_are_0_48_overall() {
        assert!((overall_difference(0.04, 0.12) - 0.0048).abs() < 1e-15);
    }

    #[test]
    fn a_lower_threshold_costs_more_for_each_query_that_it_fires_on() {
        let cost = |mean: f64, fired: u64| {
            tokens_per_fired(mean, 3050.0, Share::new(fired, 100).unwrap()).map(f64::round)
        };
        assert_eq!(cost(3250.0, 4), Some(5000.0));
        assert_eq!(cost(5620.0, 18), Some(14278.0));
        assert_eq!(cost(7950.0, 31), Some(15806.0));
        assert_eq!(cost(3050.0, 0), None);
        assert_eq!(tokens_per_fired(1.0, 1.0, Share::default()), None);
    }

    #[test]
    fn pooled_outcomes_of_other_queries_do_not_close() {
        let strata = sixteen_of_400();
        assert_eq!(strata.closes(strata.pooled()), Ok(()));
        let other = Pairs { neither: 102, only_b: 4, ..strata.pooled() };
        let error = strata.closes(other).unwrap_err();
        assert_eq!(
            error.to_string(),
            "strata do not close: they give A 294 of 400 = 73.5 % and B 296 of 400 = 74.0 %, \
             pooled are A 294 of 400 = 73.5 % and B 297 of 400 = 74.3 %"
        );
        assert!(!error.hint().is_empty());
    }

    #[test]
    fn systems_that_differ_where_the_rule_did_not_fire_are_refused() {
        let strata = Strata {
            unfired: Pairs { both: 280, only_a: 5, only_b: 5, neither: 94 },
            ..sixteen_of_400()
        };
        let error = StrataError::UnfiredDiffer { only_a: 5, only_b: 5, n: 384 };
        assert_eq!(strata.effect(), Err(error));
    }

    #[test]
    fn a_rule_that_never_fired_has_no_difference_on_fired() {
        let strata = Strata { fired: Pairs::default(), ..sixteen_of_400() };
        let effect = strata.effect().unwrap();
        assert_eq!((effect.on_fired, effect.overall), (None, 0.0));
        assert_eq!(Strata::default().effect(), Err(StrataError::Empty));
    }

    proptest! {
        #[test]
        fn strata_lose_no_query(
            outcomes in prop::collection::vec(any::<(bool, bool, bool)>(), 0..60),
        ) {
            let all = outcomes.iter().map(|&(fired, a, b)| Outcome { fired, a, b: if fired { b } else { a } });
            let strata = Strata::of(all.clone());
            prop_assert_eq!(strata.closes(Pairs::of(all.map(|o| (o.a, o.b)))), Ok(()));
            if let Ok(effect) = strata.effect() {
                let rate = effect.fire_rate.proportion().unwrap();
                let route = overall_difference(rate, effect.on_fired.unwrap_or(0.0));
                prop_assert!((route - effect.overall).abs() < 1e-12);
            }
        }
    }
}
