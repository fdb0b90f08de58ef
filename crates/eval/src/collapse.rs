//! A run's candidates, collapsed by each policy and not at all → what that changes, with the judged copy credited alone and with
//! any copy credited.
//!
//! Invariant: all systems rank the same candidates; whoever speaks for a cluster, its members are counted as one cluster. A gain
//! that only the first credit shows came of removing what competed with the judged copies, and is named so.

use crate::compare::{By, CompareError, Comparison, Figure, Options, Verdict, compare, figure};
use crate::measure::Measure;
use crate::run::{Candidate, Delivery, Entry, Run};
use serde::Serialize;
use std::fmt;
use std::num::NonZeroUsize;
use umbel_core::collapse::Policy;

/// What the system that delivers every copy is called.
pub const UNCOLLAPSED: &str = "no collapse";

/// What is measured of collapse.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// How far lists are looked at.
    pub top: NonZeroUsize,
    /// What a query's success is by the judged copy; one that [`Measure::crediting_copies`] knows a twin of.
    pub success: Measure,
    /// How means are resampled and differences tested; its measures and its split are not looked at.
    pub options: Options,
}

/// A system and its figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct System {
    /// `no collapse`, or the policy.
    pub name: String,
    /// The figures by the names of their measures.
    pub figures: Vec<(String, Figure)>,
}

/// What a policy does to success against no collapse, by both credits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The policy.
    pub policy: String,
    /// Where the judged copy alone counts.
    pub judged: Comparison,
    /// Where any member of its cluster counts.
    pub any: Comparison,
    /// What both come to.
    pub reading: Reading,
}

/// What a difference by both credits comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Neither credit shows one.
    Nothing,
    /// Better by any copy: more is answered.
    Gain,
    /// Better by the judged copy alone: its competitors are gone, and no more is answered.
    CompetitorsRemoved,
    /// Worse by the judged copy alone: another copy of it is delivered.
    OtherCopy,
    /// Worse by any copy: evidence is lost.
    Loss,
}

impl Reading {
    /// What two verdicts come to.
    pub fn of(judged: Verdict, any: Verdict) -> Reading {
        match (judged, any) {
            (_, Verdict::Better) => Reading::Gain,
            (_, Verdict::Worse) => Reading::Loss,
            (Verdict::Better, _) => Reading::CompetitorsRemoved,
            (Verdict::Worse, _) => Reading::OtherCopy,
            _ => Reading::Nothing,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reading::Nothing => "no difference is shown by either credit",
            Reading::Gain => "more is answered, whichever copy is credited",
            Reading::CompetitorsRemoved => {
                "only judged copies gain: what competed with them was removed, and no more is answered"
            }
            Reading::OtherCopy => {
                "only judged copies lose: another copy says the same in their place"
            }
            Reading::Loss => "less is answered, whichever copy is credited",
        })
    }
}

/// Collapse by each policy beside none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// No collapse, then each policy in the order of [`Policy::ALL`].
    pub systems: Vec<System>,
    /// Each policy against no collapse; p-values are corrected over all of them and both credits.
    pub effects: Vec<Effect>,
}

/// Compares no collapse with each policy. `deliver` ranks and assembles an entry's candidates by a policy; for no collapse it is
/// given candidates of which each is its own cluster.
///
/// # Errors
/// As [`compare`]: lists that are shorter than `top`, or no query with a figure.
pub fn report(
    run: &Run,
    wanted: &Wanted,
    deliver: impl Fn(&Entry, &[Candidate], Policy) -> Delivery,
) -> Result<Report, CompareError> {
    let success = [wanted.success].into_iter().chain(wanted.success.crediting_copies());
    let options =
        Options { measures: success.clone().collect(), by: By::Nothing, ..wanted.options.clone() };
    for measure in measures(wanted.top) {
        measure.supported_by(&run.identity).map_err(|source| {
            let run = UNCOLLAPSED.to_owned();
            CompareError::Unsupported { run, source }
        })?;
    }
    let plain = delivered(run, |entry| deliver(entry, &apart(&entry.candidates), Policy::Score));
    let collapsed = Policy::ALL.map(|policy| {
        let run = delivered(run, |entry| deliver(entry, &entry.candidates, policy));
        (name(policy), run)
    });
    let named: Vec<(&str, &Run)> = collapsed.iter().map(|(name, run)| (*name, run)).collect();
    let comparisons = compare((UNCOLLAPSED, &plain), &named, &options)?;
    let measures: Vec<Measure> = measures(wanted.top).into_iter().chain(success).collect();
    let all = std::iter::once((UNCOLLAPSED, &plain)).chain(named);
    let systems = all
        .map(|(name, run)| System {
            name: name.to_owned(),
            figures: measures.iter().map(|&m| (m.to_string(), of_run(run, m, &options))).collect(),
        })
        .collect();
    let effects = comparisons.chunks_exact(2).filter_map(|both| {
        let [judged, any] = both else { return None };
        let verdict = |c: &Comparison| c.strata.first().map_or(Verdict::NoQuery, |s| s.verdict);
        let reading = Reading::of(verdict(judged), verdict(any));
        let policy = judged.b.clone();
        Some(Effect { policy, judged: judged.clone(), any: any.clone(), reading })
    });
    Ok(Report { systems, effects: effects.collect() })
}

/// What is shown beside success: lists, then contexts; by the judged copy, then by any.
pub fn measures(top: NonZeroUsize) -> [Measure; 7] {
    [
        Measure::UniqueClusters(top),
        Measure::Recall(top),
        Measure::ClusterRecall(top),
        Measure::EvidenceRecall,
        Measure::ClusterEvidenceRecall,
        Measure::Tokens,
        Measure::DuplicateShare,
    ]
}

/// The candidates as if there were no duplicates.
fn apart(candidates: &[Candidate]) -> Vec<Candidate> {
    let alone = |candidate: &Candidate| {
        let mut candidate = candidate.clone();
        candidate.record.cluster = candidate.record.leaf.into();
        candidate
    };
    candidates.iter().map(alone).collect()
}

/// The run with other deliveries; outcomes that were judged elsewhere are of those that it had.
fn delivered(run: &Run, deliver: impl Fn(&Entry) -> Delivery) -> Run {
    let entry = |entry: &Entry| Entry { delivery: deliver(entry), outcome: None, ..entry.clone() };
    Run { identity: run.identity.clone(), entries: run.entries.iter().map(entry).collect() }
}

fn of_run(run: &Run, measure: Measure, options: &Options) -> Figure {
    let values: Vec<f64> =
        run.entries.iter().filter_map(|entry| measure.value(entry, &entry.delivery)).collect();
    figure(&values, measure, &options.bootstrap)
}

/// The policy, as it is set.
pub fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Score => "score",
        Policy::Fresh => "fresh",
        Policy::Authority => "authority",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Bootstrap, Level};
    use crate::run::Spot;
    use crate::run::testing::{entry, run};
    use umbel_core::id::ClusterId;

    const TOP: NonZeroUsize = NonZeroUsize::new(3).unwrap();

    fn wanted() -> Wanted {
        let bootstrap = Bootstrap { resamples: 200, seed: 1, level: Level::CONFIDENCE };
        let options =
            Options { measures: Vec::new(), by: By::Nothing, bootstrap, power: Level::POWER };
        Wanted { top: TOP, success: Measure::FULL, options }
    }

    /// Forty queries whose evidence is the leaf `judged`; leaves 0 and 1 are copies of each other, and one leaf is delivered:
    /// the first one whose cluster was not delivered before, with the last member that speaks under `fresh`.
    fn copies(judged: u8) -> Run {
        let span = (10 * usize::from(judged), 10 * usize::from(judged) + 9);
        let one = |id: u32| {
            let mut entry = entry(&id.to_string(), span, &[], false);
            let cluster = ClusterId([9; 16]);
            for candidate in &mut entry.candidates[..2] {
                candidate.record.cluster = cluster;
            }
            let spots = [0_usize, 1].map(|n| crate::run::testing::spot(10 * n, 10 * n + 9));
            for leaf in &mut entry.leaves {
                let others: Vec<Spot> = spots.iter().copied().filter(|s| *s != leaf.spot).collect();
                if spots.contains(&leaf.spot) {
                    (leaf.cluster, leaf.copies) = (cluster.to_string(), others);
                }
            }
            entry
        };
        run((0..40).map(one).collect())
    }

    /// Delivers the first two clusters; under `fresh` their last members.
    fn two_first(_: &Entry, candidates: &[Candidate], policy: Policy) -> Delivery {
        let mut seen = Vec::new();
        for candidate in candidates {
            if !seen.contains(&candidate.record.cluster) {
                seen.push(candidate.record.cluster);
            }
        }
        let speaker = |cluster: &ClusterId| {
            let mut members = (0..).zip(candidates).filter(|(_, c)| c.record.cluster == *cluster);
            match policy {
                Policy::Fresh => members.last(),
                _ => members.next(),
            }
        };
        let spoken: Vec<(u32, &Candidate)> = seen.iter().take(2).filter_map(speaker).collect();
        Delivery {
            passages: spoken.iter().map(|(_, c)| c.spot()).collect(),
            ranked: spoken.iter().map(|(at, _)| *at).collect(),
            tokens: 5 * spoken.len(),
            ..Delivery::default()
        }
    }

    /// What score and fresh come to where this leaf is judged.
    fn check(judged: u8, expected: [Reading; 2]) {
        let got = report(&copies(judged), &wanted(), two_first).unwrap();
        let reading = |policy: &str| {
            got.effects.iter().find(|effect| effect.policy == policy).map(|effect| effect.reading)
        };
        assert_eq!([reading("score"), reading("fresh")], expected.map(Some), "leaf {judged}");
    }

    #[test]
    fn a_gain_that_any_copy_shows_is_told_from_one_of_the_judged_copies() {
        // Without collapse the copies 0 and 1 fill the context; with it leaf 2 comes in.
        check(2, [Reading::Gain, Reading::Gain]);
        // Leaf 0 is there in any case, but for fresh, which lets leaf 1 say it.
        check(0, [Reading::Nothing, Reading::OtherCopy]);
        check(1, [Reading::OtherCopy, Reading::Nothing]);
        check(3, [Reading::Nothing, Reading::Nothing]);
    }

    #[test]
    fn verdicts_by_both_credits_are_read_together() {
        let open = Verdict::NotResolved { needed: None };
        for (judged, any, expected) in [
            (Verdict::Better, Verdict::Better, Reading::Gain),
            (Verdict::Better, open, Reading::CompetitorsRemoved),
            (Verdict::Better, Verdict::Worse, Reading::Loss),
            (Verdict::Worse, Verdict::Identical, Reading::OtherCopy),
            (open, Verdict::Worse, Reading::Loss),
            (Verdict::Identical, Verdict::Identical, Reading::Nothing),
        ] {
            assert_eq!(Reading::of(judged, any), expected, "{judged:?} {any:?}");
            assert!(!expected.to_string().is_empty());
        }
    }

    #[test]
    fn both_systems_are_measured_by_the_same_clusters() {
        let got = report(&copies(2), &wanted(), two_first).unwrap();
        let names: Vec<&str> = got.systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names, [UNCOLLAPSED, "score", "fresh", "authority"]);
        let clusters = |at: usize| match got.systems[at].figures[0].1 {
            Figure::Mean { mean, .. } => mean.unwrap(),
            Figure::Count { .. } => panic!("a mean"),
        };
        assert_eq!((clusters(0), clusters(1)), (1.0, 2.0));
    }

    #[test]
    fn a_top_beyond_the_list_is_refused() {
        let wanted = Wanted { top: NonZeroUsize::new(61).unwrap(), ..wanted() };
        let error = report(&copies(2), &wanted, two_first).unwrap_err();
        assert!(error.to_string().contains("looks at 61 leaves"), "{error}");
    }
}
