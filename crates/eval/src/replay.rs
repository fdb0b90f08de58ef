//! A query's candidates, the documents and settings → what would be delivered, and why: the pure core, without index and model.
//!
//! Invariant: with the settings that a run was made with, the delivery is the one that the run holds, but for queries whose list
//! was filled by a second search: what that found is not among the candidates.

use crate::run::{Candidate, Delivery, Fire, Near, Spot};
use std::collections::BTreeMap;
use umbel_core::collapse::{Collapsed, Policy, Standings, collapse};
use umbel_core::document::Library;
use umbel_core::hit::{Fusion, Hit, Leg, RankedList, fuse};
use umbel_core::id::{DocId, LeafId};
use umbel_core::merge::{self, Share};
use umbel_core::pack::Context;
use umbel_core::page::Delivered;
use umbel_core::span::Span;
use umbel_core::support::{SupportConfig, support};
use umbel_core::trace::{AssembleConfig, Trace, deliver};

/// How candidates become one ranked list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranker {
    /// How the legs become one list.
    pub fusion: Fusion,
    /// What the lexical leg counts, 0 to 1; the dense leg counts the rest.
    pub lexical_weight: f32,
    /// Leaves that each leg is read to.
    pub fusion_depth: usize,
    /// Leaves that are kept of the fused list.
    pub k_prime: usize,
    /// Distinct clusters that are kept of those.
    pub depth: usize,
    /// How much leaves of a section or document raise each other.
    pub support: SupportConfig,
    /// Which member speaks for a cluster.
    pub policy: Policy,
}

/// A ranked list, and where its leaves stand among the candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The list, one voice a cluster.
    pub list: Collapsed,
    /// The candidates that speak, in rank order.
    pub order: Vec<u32>,
}

impl Ranked {
    /// The list, and the place of each speaker among the candidates; one that is not there is left out of the order.
    pub fn of(list: Collapsed, candidates: &[Candidate]) -> Ranked {
        let places: BTreeMap<LeafId, u32> =
            candidates.iter().map(|candidate| candidate.record.leaf).zip(0..).collect();
        let speakers = list.voices.iter().map(|voice| voice.hit.record.leaf);
        let order = speakers.filter_map(|leaf| places.get(&leaf).copied()).collect();
        Ranked { list, order }
    }
}

/// Fuses the candidates, cuts the list and collapses it, as a search does that needs no second one. The standings are those of the
/// entry's documents, by their places in it.
pub fn rank(candidates: &[Candidate], standings: &Standings, ranker: &Ranker) -> Ranked {
    collapsed(fused(candidates, ranker), candidates, standings, ranker)
}

/// The candidates as one list, cut. The depth and the policy of the ranker have no part in it.
pub(crate) fn fused(candidates: &[Candidate], ranker: &Ranker) -> Vec<Hit> {
    let limit = ranker.fusion_depth.max(ranker.k_prime);
    let leg = |leg: Leg, weight: f32| {
        let score = |candidate: &Candidate| match leg {
            Leg::Dense => candidate.dense,
            Leg::Lexical => candidate.lexical,
        };
        let mut found: Vec<(&Candidate, f32)> =
            candidates.iter().filter_map(|c| score(c).map(|score| (c, score))).collect();
        // As an index does: higher is better, ties by leaf.
        found.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.record.leaf.cmp(&b.record.leaf)));
        let leaves = found.into_iter().take(limit).map(|(c, score)| (c.record.clone(), score));
        RankedList { leg, weight, leaves: leaves.collect() }
    };
    let legs = [(Leg::Dense, 1.0 - ranker.lexical_weight), (Leg::Lexical, ranker.lexical_weight)];
    let lists: Vec<RankedList> =
        legs.into_iter().filter(|&(_, weight)| weight > 0.0).map(|(l, w)| leg(l, w)).collect();
    let mut hits = fuse(&lists, ranker.fusion);
    support(&mut hits, ranker.support);
    hits.truncate(ranker.k_prime);
    hits
}

/// A fused list, one voice a cluster.
pub(crate) fn collapsed(
    hits: Vec<Hit>,
    candidates: &[Candidate],
    standings: &Standings,
    ranker: &Ranker,
) -> Ranked {
    let mut list = collapse(hits, ranker.depth);
    list.choose(ranker.policy, standings);
    Ranked::of(list, candidates)
}

/// Merges, expands and packs a ranked list. The documents of the library are named by their places in the entry.
pub fn assemble(ranked: &Ranked, library: &Library<'_>, config: &AssembleConfig) -> Delivery {
    let (context, trace) = deliver(&ranked.list, library, &Delivered::new(), config, None);
    let place = |doc: DocId| Some(doc.0 as u32);
    delivery(ranked.order.clone(), library, (&context, &trace), place)
}

/// What a run keeps of a context and its trace. `order` is the ranked list; `place` says which of the entry's documents one of the
/// library's is, and what it does not know is left out.
pub fn delivery(
    order: Vec<u32>,
    library: &Library<'_>,
    (context, trace): (&Context, &Trace),
    place: impl Fn(DocId) -> Option<u32>,
) -> Delivery {
    let spot = |doc: DocId, span: Span| place(doc).map(|doc| Spot { doc, span });
    let passages = context.passages.iter().map(|passage| (passage.doc, passage.span));
    let near = |share: &Share| {
        let (matched, of) = (share.matched as u32, share.of as u32);
        Some(Near { doc: place(share.node.doc)?, node: share.node.node, matched, of })
    };
    let fire = |fire: &merge::Fire| {
        Some(Fire {
            spot: spot(fire.share.node.doc, fire.share.span?)?,
            node: fire.share.node.node,
            matched: fire.share.matched as u32,
            of: fire.share.of as u32,
            tokens_before: fire.tokens_before as u32,
            tokens_after: fire.tokens_after as u32,
            absorbed: fire.absorbed_by.is_some(),
        })
    };
    Delivery {
        tokens: context.tokens,
        neighbours: neighbours(passages.clone(), library),
        passages: passages.filter_map(|(doc, span)| spot(doc, span)).collect(),
        ranked: order,
        fires: trace.merge.fires.iter().filter_map(fire).collect(),
        near_misses: trace.merge.near_misses.iter().filter_map(near).collect(),
        blocked: trace.merge.blocked.len() as u32,
        could_fire: trace.merge.could_fire,
        examined: trace.examined as u32,
        shortfall: trace.shortfall as u32,
    }
}

/// How many pairs of sentences follow each other in the passages, and how many of these do in their document too.
fn neighbours(passages: impl Iterator<Item = (DocId, Span)>, library: &Library<'_>) -> (u32, u32) {
    let sentences = |(doc, span): (DocId, Span)| {
        let starts = &library.get(&doc)?.offsets.sentences;
        let first = starts.partition_point(|&start| start as usize <= span.start).max(1) - 1;
        let behind = starts.partition_point(|&start| (start as usize) < span.end);
        Some((doc, first, behind.max(first + 1)))
    };
    let (mut pairs, mut kept) = (0, 0);
    let mut before: Option<(DocId, usize)> = None;
    for (doc, first, behind) in passages.filter_map(sentences) {
        let inside = behind - first - 1;
        pairs += inside + usize::from(before.is_some());
        // Two passages may share the sentence in which one ends and the other begins.
        let follows =
            |(other, end): (DocId, usize)| other == doc && (end == first || end == first + 1);
        kept += inside + usize::from(before.is_some_and(follows));
        before = Some((doc, behind));
    }
    (pairs as u32, kept as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testing::{candidate, document, spot};
    use umbel_core::expand::Expansion;
    use umbel_core::merge::MergeConfig;
    use umbel_core::pack::{Order, PackConfig};

    fn ranker(fusion: Fusion, lexical_weight: f32, depth: usize) -> Ranker {
        let support = SupportConfig { section: 0.0, document: 0.0 };
        let policy = Policy::Score;
        Ranker { fusion, lexical_weight, fusion_depth: 10, k_prime: 10, depth, support, policy }
    }

    /// The dense leg has the leaves 0, 1, 2; the lexical one 2 and 3.
    fn candidates() -> Vec<Candidate> {
        vec![
            candidate(2, Some(0.5), Some(9.0)),
            candidate(0, Some(0.9), None),
            candidate(1, Some(0.7), None),
            candidate(3, None, Some(8.0)),
        ]
    }

    /// The leaves of the list, best first.
    fn check(ranker: &Ranker, expected: &[u32]) {
        let candidates = candidates();
        let ranked = rank(&candidates, &Standings::new(), ranker);
        let leaves = ranked.order.iter().map(|&at| candidates[at as usize].record.ordinal);
        assert_eq!(leaves.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn candidates_are_fused_anew() {
        check(&ranker(Fusion::Convex, 0.0, 9), &[0, 1, 2]);
        check(&ranker(Fusion::Convex, 1.0, 9), &[2, 3]);
        check(&ranker(Fusion::Convex, 0.25, 9), &[0, 1, 2, 3]);
        check(&ranker(Fusion::Reciprocal { k: 60.0 }, 0.5, 9), &[2, 0, 1, 3]);
        check(&ranker(Fusion::Convex, 0.25, 2), &[0, 1]);
    }

    #[test]
    fn legs_are_read_no_further_than_the_setting_says() {
        let ranker = Ranker { fusion_depth: 1, k_prime: 1, ..ranker(Fusion::Convex, 0.5, 1) };
        // Each leg scales to 1 alone; ties go by leaf.
        check(&ranker, &[0]);
    }

    /// What is delivered of the list, merging on or off.
    fn delivered(enabled: bool) -> Delivery {
        let document = document();
        let library: Library<'_> = [(DocId(0), &document)].into_iter().collect();
        let config = AssembleConfig {
            depth: 9,
            merge: MergeConfig { enabled, ..MergeConfig::default() },
            expansion: Expansion::None,
            parent_cap_tokens: 800,
            pack: PackConfig {
                budget_tokens: 100,
                reserve_tokens: 0,
                limit: None,
                order: Order::Evidence,
            },
        };
        let candidates = vec![candidate(0, Some(0.9), None), candidate(2, Some(0.5), None)];
        let ranked = rank(&candidates, &Standings::new(), &ranker(Fusion::Convex, 0.0, 9));
        assemble(&ranked, &library, &config)
    }

    #[test]
    fn a_delivery_says_what_fired_and_what_it_cost() {
        let got = delivered(true);
        assert_eq!(got.passages, [spot(0, 39)]);
        let fire = got.fires[0];
        assert_eq!((fire.node, fire.matched, fire.of, fire.absorbed), (0, 2, 4, false));
        assert_eq!((fire.tokens_before, fire.tokens_after), (10, 20));
        // Four sentences in a row.
        assert_eq!((got.neighbours, got.ranked), ((3, 3), vec![0, 1]));
    }

    #[test]
    fn sentences_with_a_gap_between_them_are_no_neighbours() {
        let got = delivered(false);
        assert_eq!(got.passages, [spot(0, 9), spot(20, 29)]);
        assert_eq!((got.neighbours, got.fired(), got.could_fire), ((1, 0), false, false));
    }
}
