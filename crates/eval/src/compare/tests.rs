//! Runs that differ, those that cannot, and what the words say.

use super::*;
use crate::interval::Method;
use crate::run::testing::{entry, run};
use crate::share::points;

fn options(measure: &str) -> Options {
    Options {
        measures: vec![measure.parse().unwrap()],
        by: By::Fired,
        bootstrap: Bootstrap { resamples: 500, seed: 1, level: Level::CONFIDENCE },
        power: Level::POWER,
    }
}

/// A run with one query a letter: fired and unfired ones, and whether each was right: `F` and `f`, `U` and `u`. A fired query
/// of the merged run has other passages than the plain one.
fn judged(outcomes: &str, merges: bool) -> Run {
    let entries = outcomes.chars().enumerate().map(|(index, letter)| {
        let fired = letter.eq_ignore_ascii_case(&'f') && merges;
        let passages: &[(usize, usize)] = if fired { &[(0, 39)] } else { &[(0, 9)] };
        let mut entry = entry(&format!("{index}"), (0, 9), passages, fired);
        entry.outcome = Some(letter.is_uppercase());
        entry
    });
    run(entries.collect())
}

/// Sixteen fired queries of 400: under A 9 are right, under B 11, one of them only under A.
fn sixteen_of_400() -> (Run, Run) {
    let unfired = "U".repeat(285) + &"u".repeat(99);
    let fired =
        |both, only_a: &str, only_b: &str| "F".repeat(both) + only_a + only_b + &"f".repeat(4);
    let a = judged(&(fired(8, "F", "fff") + &unfired), false);
    (a, judged(&(fired(8, "f", "FFF") + &unfired), true))
}

fn compared(a: &Run, b: &Run, options: &Options) -> Comparison {
    compare(("a", a), &[("b", b)], options).unwrap().remove(0)
}

/// The verdict on each stratum and on all.
fn verdicts(comparison: &Comparison) -> Vec<String> {
    let all = comparison.strata.iter().chain([&comparison.pooled]);
    all.map(|stratum| format!("{}: {}", stratum.name, stratum.verdict)).collect()
}

#[test]
fn two_of_sixteen_are_not_resolved_and_the_rest_is_one_system() {
    let (a, b) = sixteen_of_400();
    let got = compared(&a, &b, &options("Outcome"));
    assert_eq!(
        verdicts(&got),
        [
            "fired: not resolved (needs n ≈ 124)",
            "unfired: identical by construction",
            "pooled: not resolved (needs n ≈ 3138)",
        ]
    );
    let effect = got.effect.unwrap();
    assert_eq!(effect.fire_rate.to_string(), "16 of 400 = 4.0 %");
    assert_eq!(
        (points(effect.on_fired.unwrap()), points(effect.overall)),
        ("12.5".into(), "0.5".into())
    );
    assert_eq!(got.closes, Some(true));
    let fired = got.strata.first().unwrap().difference.unwrap();
    assert_eq!((fired.pairs.unwrap().only_a, fired.pairs.unwrap().only_b), (1, 3));
    assert!((fired.p - 0.625).abs() < 1e-9 && fired.p_corrected == Some(fired.p));
    assert_eq!(fired.exact.unwrap().method, Method::Exact);
    assert_eq!(fired.detectable, None);
}

#[test]
fn the_notes_are_those_a_reader_needs() {
    let (a, b) = sixteen_of_400();
    let notes: Vec<String> =
        compared(&a, &b, &options("Outcome")).notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "A has 9 of 16 = 56.3 % on the fired queries and 294 of 400 = 73.5 % on all: that gap is there before either system ran; compare within the fired queries, not with the overall baseline",
            "the pooled difference of 0.5 points is under the noise floor of ±4.3 points (Wald, 95 %, n = 400): its sign says nothing of the rule",
        ]
    );
}

#[test]
fn runs_that_differ_where_nothing_fired_differ_in_more_than_the_rule() {
    let (a, b) = (judged("FfUu", false), judged("FfuU", true));
    let got = compared(&a, &b, &options("Outcome"));
    assert_eq!(got.effect, None);
    assert!(
        got.notes.contains(&Note::UnfiredDiffer { only_a: 1, only_b: 1, n: 2 }),
        "{:?}",
        got.notes
    );
}

#[test]
fn a_rule_that_never_fired_was_not_measured() {
    let same = judged("UUu", false);
    let got = compared(&same, &same, &options("Outcome"));
    assert_eq!(
        verdicts(&got),
        [
            "fired: no query",
            "unfired: identical by construction",
            "pooled: identical by construction"
        ]
    );
    assert_eq!(got.notes, [Note::NeverFired { n: 3 }]);
}

#[test]
fn better_and_worse_follow_the_measure() {
    let (plain, merged) = (judged(&"f".repeat(12), false), judged(&"F".repeat(12), true));
    let fired = |a, b, measure| compared(a, b, &options(measure)).strata.remove(0).verdict;
    assert_eq!(fired(&plain, &merged, "Outcome"), Verdict::Better);
    assert_eq!(fired(&merged, &plain, "Outcome"), Verdict::Worse);
    // More tokens are worse, and the other passages cost 20 for 5.
    assert_eq!(fired(&plain, &merged, "Tokens"), Verdict::Worse);
    assert_eq!(fired(&merged, &plain, "Tokens"), Verdict::Better);
    assert_eq!(fired(&plain, &merged, "EvidenceRecall"), Verdict::NotResolved { needed: None });
}

#[test]
fn what_is_decided_upon_is_corrected_for_how_much_it_is() {
    // Six queries that only B gets right: p = 2/64 alone.
    let (plain, merged) = (judged("ffffff", false), judged("FFFFFF", true));
    let of = |others: &[Named<'_>]| {
        let got = compare(("a", &plain), others, &options("Outcome")).unwrap();
        let difference = got[0].strata[0].difference.unwrap();
        let p = [difference.p, difference.p_corrected.unwrap()];
        (p.map(|p| format!("{p:.5}")).join(" "), got[0].strata[0].verdict)
    };
    assert_eq!(of(&[("b", &merged)]), ("0.03125 0.03125".to_owned(), Verdict::Better));
    let (p, verdict) = of(&[("b", &merged), ("c", &merged)]);
    assert_eq!(p, "0.03125 0.06250");
    assert!(matches!(verdict, Verdict::NotResolved { .. }));
}

#[test]
fn groups_are_strata_too() {
    let (mut a, mut b) = sixteen_of_400();
    for run in [&mut a, &mut b] {
        for (index, entry) in run.entries.iter_mut().enumerate() {
            entry.group =
                (index > 0).then(|| if index % 2 == 0 { "even" } else { "odd" }.to_owned());
        }
    }
    let got = compared(&a, &b, &Options { by: By::Group, ..options("Outcome") });
    let names: Vec<(&str, usize)> = got.strata.iter().map(|s| (s.name.as_str(), s.n)).collect();
    assert_eq!(names, [("even", 199), ("no group", 1), ("odd", 200)]);
    assert_eq!(got.closes, Some(true));
}

#[test]
fn runs_that_cannot_be_compared_say_why() {
    let check = |a: &Run, b: &Run, measure: &str, expected: &str| {
        let error = compare(("a", a), &[("b", b)], &options(measure)).unwrap_err();
        assert!(!error.hint().is_empty());
        assert_eq!(error.to_string(), expected);
    };
    let run = judged("FU", false);
    let mut other = run.clone();
    other.identity.queries = "ff".to_owned();
    check(
        &run,
        &other,
        "Outcome",
        "`a` and `b` are runs of different judgments: `0000000000000003` and `ff`",
    );
    let mut fewer = run.clone();
    fewer.entries.remove(0);
    check(&run, &fewer, "Outcome", "`b` lacks query `0`, and 1 in all");
    check(&fewer, &run, "Outcome", "`a` lacks query `0`, and 1 in all");
    check(&run, &run, "R@100", "`a`: `R@100` looks at 100 leaves, and the run ranks 60");
    let mut silent = run.clone();
    silent.entries.iter_mut().for_each(|entry| entry.outcome = None);
    check(&run, &silent, "Outcome", "no query has a figure by `Outcome` under `a` and `b`");
}

#[test]
fn a_comparison_is_the_same_bytes_twice() {
    let (a, b) = sixteen_of_400();
    let text = || serde_json::to_string(&compared(&a, &b, &options("EvidenceRecall"))).unwrap();
    assert_eq!(text(), text());
}

#[test]
fn a_printed_table_is_closed_system_by_system() {
    let system = |name: &str, fired: &str, pooled: &str| crate::strata::System {
        name: name.to_owned(),
        fired: Some(fired.parse().unwrap()),
        unfired: Some("74.2".parse().unwrap()),
        pooled: Some(pooled.parse().unwrap()),
    };
    let systems = vec![system("flat", "56.3", "73.5"), system("merged", "68.8", "73.4")];
    let given = crate::strata::Table { fired: 16, unfired: 384, systems };
    let report = table(&given, Level::CONFIDENCE, Level::POWER);
    assert!(!report.closes());
    assert!(report.systems[0].rebuilt.is_ok());
    assert_eq!(
        report.systems[1].rebuilt.as_ref().unwrap_err().to_string(),
        "`merged` does not close: strata give 296 of 400 = 74.0, the pooled cell says 73.4"
    );
    let difference = &report.differences[0];
    // The two shares count as independent: more would differ than did, and more queries are needed.
    assert_eq!(difference.verdict.to_string(), "not resolved (needs n ≈ 238)");
    let intervals: Vec<String> = difference.fired.iter().map(ToString::to_string).collect();
    assert_eq!(intervals, ["-19.4 to 41.2 (Newcombe, 95 %)", "-20.8 to 45.8 (Wald, 95 %)"]);
    assert_eq!(
        (points(difference.overall), points(difference.by_fire_rate.unwrap())),
        ("0.5".into(), "0.5".into())
    );
    assert_eq!(difference.notes.len(), 2);
}
