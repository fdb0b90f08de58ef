//! Queries that were answered badly → where their evidence lies, and which of them a merge rule let go.
//!
//! Invariant: each bad query is counted once; a missed merge is one of those of which several leaves of one parent hold evidence.

use crate::locate::{Holder, Spread, holders, shared_parents, spread};
use crate::run::{Delivery, Entry};
use crate::share::Share;
use serde::Serialize;
use std::collections::BTreeSet;
use umbel_core::document::Document;

/// A query that was answered badly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Miss {
    /// The query.
    pub id: String,
    /// How the leaves that hold its evidence lie to each other.
    pub spread: Spread,
    /// Of those leaves, the ones that the ranked list held.
    pub retrieved: Share,
    /// Whether the rule let a parent go that holds evidence in several leaves, for too few of its children were retrieved.
    pub missed_merge: bool,
    /// Whether that parent fires where two children are enough; `None` where nothing was missed.
    pub fires_at_two: Option<bool>,
}

/// Bad answers by where their evidence lies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Misses {
    /// Of the queries with an outcome, those that were answered badly.
    pub wrong: Share,
    /// Of those, how many have their evidence where.
    pub by_spread: Vec<(Spread, Share)>,
    /// Of those, the ones of which no leaf that holds evidence was retrieved.
    pub not_retrieved: Share,
    /// Of those, the missed merges.
    pub missed_merges: Share,
    /// Of the missed merges, those that fire where two children are enough.
    pub fire_at_two: Share,
    /// Each of them.
    pub queries: Vec<Miss>,
}

/// Where the evidence of badly answered queries lies. `min_siblings` is that of the run's rule; `at_two` replays a query with
/// two, everything else as it was.
pub fn misses<'d>(
    entries: &[Entry],
    document_of: impl Fn(&str) -> Option<&'d Document>,
    min_siblings: usize,
    at_two: impl Fn(&Entry) -> Delivery,
) -> Misses {
    let outcomes = entries.iter().filter_map(|entry| entry.outcome);
    let wrong = Share::count_of(outcomes, |right| !right);
    let bad = entries.iter().filter(|entry| entry.outcome == Some(false));
    let queries: Vec<Miss> =
        bad.map(|entry| miss(entry, &document_of, min_siblings, &at_two)).collect();
    let spreads =
        [Spread::OneLeaf, Spread::OneParent, Spread::Parents, Spread::Documents, Spread::Nowhere];
    let count = |test: &dyn Fn(&Miss) -> bool| Share::count_of(&queries, test);
    let missed = queries.iter().filter(|miss| miss.missed_merge);
    Misses {
        wrong,
        by_spread: spreads.map(|at| (at, count(&|miss| miss.spread == at))).to_vec(),
        not_retrieved: count(&|miss| miss.retrieved.count() == 0),
        missed_merges: count(&|miss| miss.missed_merge),
        fire_at_two: Share::count_of(missed, |miss| miss.fires_at_two == Some(true)),
        queries,
    }
}

fn miss<'d>(
    entry: &Entry,
    document_of: &impl Fn(&str) -> Option<&'d Document>,
    min_siblings: usize,
    at_two: &impl Fn(&Entry) -> Delivery,
) -> Miss {
    let found = holders(&entry.relevant, document_of);
    let listed: BTreeSet<(&str, u32)> = entry
        .ranked(&entry.delivery)
        .filter_map(|leaf| Some((entry.place(leaf.spot())?.doc, leaf.record.ordinal)))
        .collect();
    let is_listed = |holder: &Holder| listed.contains(&(holder.doc.as_str(), holder.leaf as u32));
    let missed: Vec<(&str, u32)> = shared_parents(&found)
        .into_keys()
        .filter(|&(doc, parent)| matched(entry, doc, parent) < min_siblings)
        .collect();
    let fires = |delivery: &Delivery| {
        let places =
            delivery.fires.iter().filter_map(|fire| Some((entry.place(fire.spot)?.doc, fire.node)));
        places.into_iter().any(|place| missed.contains(&place))
    };
    Miss {
        id: entry.id.clone(),
        spread: spread(&found),
        retrieved: Share::count_of(&found, is_listed),
        missed_merge: !missed.is_empty(),
        fires_at_two: (!missed.is_empty()).then(|| fires(&at_two(entry))),
    }
}

/// How many children of a node the ranked list held as leaves.
fn matched(entry: &Entry, doc: &str, parent: u32) -> usize {
    let of_parent = entry.ranked(&entry.delivery).filter(|leaf| {
        let nearest = leaf.record.ancestors.first();
        nearest.is_some_and(|above| above.node == parent)
            && entry.place(leaf.spot()).is_some_and(|place| place.doc == doc)
    });
    of_parent.map(|leaf| leaf.record.node).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{document, entry};

    /// A query with this evidence that found so many of the four leaves.
    fn found(id: &str, evidence: (usize, usize), leaves: u32, right: Option<bool>) -> Entry {
        let mut entry = entry(id, evidence, &[], false);
        entry.delivery.ranked.truncate(leaves as usize);
        entry.outcome = right;
        entry
    }

    #[test]
    fn bad_answers_are_counted_by_where_their_evidence_lies() {
        let document = document();
        let entries = [
            found("right", (0, 19), 0, Some(true)),
            found("unjudged", (0, 19), 0, None),
            found("leaf", (20, 29), 2, Some(false)),
            found("missed", (0, 19), 2, Some(false)),
            found("fired", (0, 19), 4, Some(false)),
        ];
        // Two children are enough for the missed one.
        let at_two = |entry: &Entry| Delivery {
            fires: crate::run::testing::entry("x", (0, 9), &[], entry.id == "missed")
                .delivery
                .fires,
            ..Delivery::default()
        };
        let got = misses(&entries, |_| Some(&document), 3, at_two);
        assert_eq!(got.wrong.to_string(), "3 of 4 = 75.0 %");
        let by_spread: Vec<u64> = got.by_spread.iter().map(|(_, share)| share.count()).collect();
        assert_eq!(by_spread, [1, 2, 0, 0, 0]);
        assert_eq!(got.missed_merges.to_string(), "1 of 3 = 33.3 %");
        assert_eq!(got.fire_at_two.to_string(), "1 of 1 = 100.0 %");
        assert_eq!(got.not_retrieved.count(), 1);
        assert_eq!(got.queries[1].retrieved.to_string(), "2 of 2 = 100.0 %");
        assert_eq!((got.queries[1].fires_at_two, got.queries[2].fires_at_two), (Some(true), None));
    }

    #[test]
    fn where_all_is_right_nothing_was_missed() {
        let document = document();
        let entries = [found("right", (0, 19), 0, Some(true))];
        let got = misses(&entries, |_| Some(&document), 3, |_| Delivery::default());
        assert_eq!(
            (got.wrong.count(), got.missed_merges, got.queries.len()),
            (0, Share::default(), 0)
        );
    }
}
