//! A rule that fires, what that costs, and which setting is recommended.

use super::*;
use crate::measure::{Covered, Wanted};
use crate::run::testing::{candidate, document, entry};
use proptest::prelude::*;
use umbel_core::collapse::Policy;
use umbel_core::expand::Expansion;
use umbel_core::hit::Fusion;
use umbel_core::id::DocId;
use umbel_core::merge::{RatioBy, Rule};
use umbel_core::pack::{Order, PackConfig};
use umbel_core::support::SupportConfig;

const FULL: Success = Success { wanted: Wanted::All, covered: Covered::From(0.95) };
const LEVELS: (Level, Level) = (Level::CONFIDENCE, Level::POWER);

/// A list of `depth` under the ratio rule.
fn setting(ratio: f64, min_siblings: usize, depth: usize) -> Setting {
    let merge = MergeConfig {
        rule: Rule::Ratio { ratio, by: RatioBy::Children },
        min_siblings,
        ..MergeConfig::default()
    };
    let pack =
        PackConfig { budget_tokens: 100, reserve_tokens: 0, limit: None, order: Order::Evidence };
    Setting {
        varied: vec![("merge.ratio".to_owned(), ratio.to_string())],
        ranker: Ranker {
            fusion: Fusion::Convex,
            lexical_weight: 0.0,
            fusion_depth: 10,
            k_prime: 10,
            depth,
            support: SupportConfig { section: 0.0, document: 0.0 },
            policy: Policy::Score,
        },
        assemble: AssembleConfig {
            depth,
            merge,
            expansion: Expansion::None,
            parent_cap_tokens: 800,
            pack,
        },
    }
}

/// A query whose evidence is the third leaf of four, of which the first two were found.
fn two_of_four() -> Entry {
    let found = [0, 1].map(|n| candidate(n, Some(0.9 - 0.1 * f32::from(n)), None));
    Entry { candidates: found.to_vec(), ..entry("q", (20, 29), &[], false) }
}

fn scored(settings: &[Setting]) -> Vec<Scored> {
    let document = document();
    let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
    score(&two_of_four(), &library, &Standings::new(), settings, FULL)
}

#[test]
fn a_setting_is_held_against_itself_without_merging() {
    let got = scored(&[setting(0.5, 2, 10), setting(0.75, 2, 10), setting(0.5, 3, 10)]);
    let fired = Scored {
        fired: true,
        plain: false,
        merged: true,
        plain_tokens: got[1].plain_tokens,
        merged_tokens: got[0].merged_tokens,
        parents: 1,
        mostly_unrelated: 1,
    };
    assert_eq!(got[0], fired);
    assert!(got[0].merged_tokens > got[0].plain_tokens);
    for still in &got[1..] {
        assert!(!still.fired && !still.merged && still.parents == 0);
        assert_eq!(still.merged_tokens, still.plain_tokens);
    }
}

#[test]
fn a_shorter_list_is_ranked_anew() {
    let got = scored(&[setting(0.5, 2, 10), setting(0.5, 2, 1), setting(0.5, 2, 10)]);
    assert!(got[0].fired && !got[1].fired);
    assert_eq!(got[0], got[2]);
}

#[test]
fn what_is_worked_out_once_is_what_a_replay_gives() {
    let document = document();
    let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
    let entry = two_of_four();
    let mut settings = Vec::new();
    for budget_tokens in [6, 12, 100] {
        for depth in [1, 2, 9] {
            for ratio in [0.2, 0.5, 0.9] {
                let mut setting = setting(ratio, 2, depth);
                setting.assemble.pack.budget_tokens = budget_tokens;
                settings.push(setting);
            }
        }
    }
    for (setting, got) in
        settings.iter().zip(score(&entry, &library, &Standings::new(), &settings, FULL))
    {
        let list = crate::replay::rank(&entry.candidates, &Standings::new(), &setting.ranker);
        let merged = crate::replay::assemble(&list, &library, &setting.assemble);
        let plain = crate::replay::assemble(&list, &library, &without_merging(&setting.assemble));
        assert_eq!(
            (got.fired, got.merged_tokens, got.plain_tokens),
            (merged.fired(), merged.tokens, plain.tokens)
        );
        let right = |delivery| crate::measure::Measure::FULL.value(&entry, delivery) == Some(1.0);
        assert_eq!((got.merged, got.plain), (right(&merged), right(&plain)));
    }
}

/// So many queries: fired, right without merging, right with it.
fn queries(fired: usize, plain: usize, merged: usize, of: usize) -> Vec<Scored> {
    (0..of)
        .map(|index| Scored {
            fired: index < fired,
            plain: index < plain || index >= fired,
            merged: index < merged || index >= fired,
            plain_tokens: 3_000,
            merged_tokens: if index < fired { 8_000 } else { 3_000 },
            parents: u64::from(index < fired),
            mostly_unrelated: u64::from(index < fired && index % 4 == 0),
        })
        .collect()
}

#[test]
fn a_row_counts_where_the_rule_acted_and_what_it_cost() {
    let scored = queries(16, 9, 11, 400);
    let document = document();
    let satisfiability = satisfiability([&document.tree], &setting(0.5, 2, 10));
    let row = row(&setting(0.5, 2, 10), &scored, satisfiability, LEVELS.0, LEVELS.1);
    assert_eq!(row.fire_rate.to_string(), "16 of 400 = 4.0 %");
    assert_eq!(row.fired.a().to_string(), "9 of 16 = 56.3 %");
    assert_eq!(row.fired.b().to_string(), "11 of 16 = 68.8 %");
    assert_eq!(row.pooled.to_string(), "395 of 400 = 98.8 %");
    assert!(matches!(row.verdict, Verdict::NotResolved { .. }));
    assert!((row.extra_tokens - 200.0).abs() < 1e-9);
    assert!((row.extra_per_fired.unwrap() - 5_000.0).abs() < 1e-9);
    assert_eq!(row.audit.to_string(), "4 of 16 = 25.0 %");
    assert_eq!((row.satisfiable.count(), row.can_fire.count()), (1, 1));
}

#[test]
fn a_rule_that_cannot_fire_is_counted_before_it_does_not() {
    let document = document();
    for (setting, expected) in
        [(setting(0.5, 2, 10), 1), (setting(0.5, 5, 10), 0), (setting(0.75, 2, 2), 0)]
    {
        assert_eq!(satisfiability([&document.tree], &setting).satisfiable, expected);
    }
}

#[test]
fn the_excess_over_the_fire_rate_is_the_cost_of_a_fired_query() {
    let cost = |excess, percent| excess_per_fired(excess, Share::new(percent, 100).unwrap());
    let (rare, often, always) =
        (cost(200.0, 4).unwrap(), cost(2_600.0, 18).unwrap(), cost(4_900.0, 31).unwrap());
    assert_eq!((rare.round(), often.round(), always.round()), (5_000.0, 14_444.0, 15_806.0));
    assert!(always > 2.0 * rare);
    assert_eq!(cost(200.0, 0), None);
}

/// The places of the recommended settings, best first.
fn recommended(columns: &[Vec<Scored>]) -> Recommendation {
    let settings: Vec<Setting> = columns.iter().map(|_| setting(0.5, 2, 10)).collect();
    let n = columns.first().map_or(0, Vec::len);
    let scored: Vec<Vec<Scored>> =
        (0..n).map(|query| columns.iter().map(|column| column[query]).collect()).collect();
    let ids: Vec<String> = (0..n).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let held = held_out(&ids, 0.5, 0);
    tune(&settings, &scored, &held, &vec![Satisfiability::default(); columns.len()], LEVELS)
}

#[test]
fn what_surely_helps_for_fewer_tokens_is_recommended() {
    let helps = queries(120, 40, 110, 400);
    let dear: Vec<Scored> =
        helps.iter().map(|s| Scored { merged_tokens: s.merged_tokens * 2, ..*s }).collect();
    let got = recommended(&[queries(400, 200, 201, 400), dear, helps]);
    let places: Vec<usize> = got.choices.iter().map(|choice| choice.setting).collect();
    assert_eq!(places, [2, 1]);
    assert!(got.choices[0].per_1000_tokens > got.choices[1].per_1000_tokens);
    assert_eq!((got.n_choosing, got.n_held_out), (200, 200));
    assert_eq!(got.held_out.unwrap().verdict, Verdict::Better);
}

#[test]
fn where_nothing_surely_helps_nothing_is_recommended() {
    // The pooled mean of the first is the best of all, for it does least.
    let got =
        recommended(&[queries(0, 0, 0, 100), queries(16, 9, 11, 100), queries(50, 30, 20, 100)]);
    assert_eq!((got.choices.len(), got.chosen_on, got.held_out), (0, None, None));
}

proptest! {
    #[test]
    fn as_many_are_held_out_as_asked_whatever_their_order(n in 0usize..40, seed in any::<u64>()) {
        let ids: Vec<String> = (0..n).map(|n| format!("q{n}")).collect();
        let there: Vec<&str> = ids.iter().map(String::as_str).collect();
        let back: Vec<&str> = there.iter().rev().copied().collect();
        let held = held_out(&there, 0.5, seed);
        prop_assert_eq!(held.iter().filter(|held| **held).count(), n / 2);
        let mut reversed = held_out(&back, 0.5, seed);
        reversed.reverse();
        prop_assert_eq!(held, reversed);
    }
}
