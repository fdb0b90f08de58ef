//! Ranked lists of leaves → one ranked list.
//!
//! Invariant: a list holds each leaf once, in falling score, ties by id.

use crate::id::{ClusterId, DocId, LeafId};
use crate::span::Span;
use serde::{Deserialize, Serialize};

/// A node above a leaf, as the index knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// Its index in the document's tree.
    pub node: u32,
    /// How many children it has in all, retrieved or not.
    pub children: u32,
}

/// What the index stores beside each vector: enough to merge and collapse without a second look-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafRecord {
    /// The leaf.
    pub leaf: LeafId,
    /// Its document.
    pub doc: DocId,
    /// Its bytes in the document.
    pub span: Span,
    /// Its place among the document's leaves, from 0.
    pub ordinal: u32,
    /// Budget tokens of the span.
    pub tokens: u32,
    /// Its own node in the document's tree.
    pub node: u32,
    /// The nodes above it, nearest first.
    pub ancestors: Vec<Ancestor>,
    /// The cluster of duplicates it belongs to.
    pub cluster: ClusterId,
}

/// What a leaf was given by each step. Higher is better everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scores {
    /// Cosine, -1 to 1; `None` where the dense leg did not find the leaf.
    pub dense: Option<f32>,
    /// BM25, 0 and up; `None` where the lexical leg did not find the leaf.
    pub lexical: Option<f32>,
    /// What fusion made of both.
    pub fused: f32,
    /// What the best others of its section and document add to that, 0 and up.
    pub support: f32,
    /// What a reranker gave it, if one ran.
    pub rerank: Option<f32>,
}

impl Scores {
    /// What the list is ordered by: the reranker's score if there is one, else the fused one with its support.
    pub fn final_score(&self) -> f32 {
        self.rerank.unwrap_or(self.fused + self.support)
    }
}

/// A leaf that was retrieved.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// What the index knows of it.
    pub record: LeafRecord,
    /// Its scores.
    pub scores: Scores,
}

/// Which leg of a search a list comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leg {
    /// By vector.
    Dense,
    /// By words.
    Lexical,
}

/// One leg's leaves, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedList {
    /// The leg.
    pub leg: Leg,
    /// How much it counts; only the proportion to the other lists matters.
    pub weight: f32,
    /// Leaves with their scores, in falling score.
    pub leaves: Vec<(LeafRecord, f32)>,
}

/// How several ranked lists become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fusion {
    /// Weighted reciprocal rank: `score = Σ weight / (k + rank)`, ranks from 1.
    ///
    /// Source: Cormack, Clarke and Büttcher, SIGIR 2009; `k = 60` is their choice.
    Reciprocal {
        /// Damps the first ranks; above 0.
        k: f32,
    },
    /// Weighted mean of scores scaled to 0..1 by each list's own smallest and largest; a leaf that a list lacks gets 0 of it.
    ///
    /// Source: Bruch, Gai and Ingber, ACM TOIS 42(1), 2023.
    Convex,
}

/// Fuses ranked lists into one, best first, ties by leaf id. The result holds each leaf once; no list gives an empty one.
///
/// O(n log n) for n leaves in all. A list with one score only scales to 1.
pub fn fuse(lists: &[RankedList], fusion: Fusion) -> Vec<Hit> {
    let mut hits: std::collections::BTreeMap<LeafId, Hit> = std::collections::BTreeMap::new();
    let total: f32 = lists.iter().map(|list| list.weight).sum();
    for list in lists {
        let best = list.leaves.iter().map(|&(_, score)| score).fold(f32::NEG_INFINITY, f32::max);
        let worst = list.leaves.iter().map(|&(_, score)| score).fold(f32::INFINITY, f32::min);
        for (rank, (record, score)) in list.leaves.iter().enumerate() {
            let part = match fusion {
                Fusion::Reciprocal { k } => list.weight / (k + rank as f32 + 1.0),
                Fusion::Convex if best > worst => {
                    list.weight / total * (score - worst) / (best - worst)
                }
                Fusion::Convex => list.weight / total,
            };
            let hit = hits
                .entry(record.leaf)
                .or_insert_with(|| Hit { record: record.clone(), scores: Scores::default() });
            hit.scores.fused += part;
            let kept = match list.leg {
                Leg::Dense => &mut hit.scores.dense,
                Leg::Lexical => &mut hit.scores.lexical,
            };
            *kept = Some(kept.map_or(*score, |before| before.max(*score)));
        }
    }
    let mut fused: Vec<Hit> = hits.into_values().collect();
    sort(&mut fused);
    fused
}

/// Continues a fused list with what a further search found. Leaves that the list holds stay as they are; the others come behind,
/// in the order of their own fusion. Scores of two fusions do not compare, so theirs are all shifted by one number, which puts
/// the best of them at the score of the list's last leaf.
pub fn extend(list: &mut Vec<Hit>, mut further: Vec<Hit>) {
    let held: std::collections::BTreeSet<LeafId> = list.iter().map(|hit| hit.record.leaf).collect();
    further.retain(|hit| !held.contains(&hit.record.leaf));
    if let (Some(last), Some(best)) = (list.last(), further.first()) {
        let shift = last.scores.final_score() - best.scores.final_score();
        for hit in &mut further {
            hit.scores.fused += shift;
        }
    }
    list.extend(further);
}

/// Orders hits by final score, best first, ties by leaf id.
pub fn sort(hits: &mut [Hit]) {
    hits.sort_by(|a, b| {
        b.scores
            .final_score()
            .total_cmp(&a.scores.final_score())
            .then_with(|| a.record.leaf.cmp(&b.record.leaf))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(n: u8) -> LeafRecord {
        LeafRecord {
            leaf: LeafId([n; 16]),
            doc: DocId(0),
            span: Span::new(0, 1),
            ordinal: u32::from(n),
            tokens: 1,
            node: u32::from(n),
            ancestors: Vec::new(),
            cluster: LeafId([n; 16]).into(),
        }
    }

    fn list(leg: Leg, weight: f32, leaves: &[(u8, f32)]) -> RankedList {
        RankedList {
            leg,
            weight,
            leaves: leaves.iter().map(|&(n, score)| (record(n), score)).collect(),
        }
    }

    fn check(lists: &[RankedList], fusion: Fusion, expected: &[(u8, f32)]) {
        let found: Vec<_> =
            fuse(lists, fusion).iter().map(|h| (h.record.leaf.0[0], h.scores.fused)).collect();
        let close = |(a, b): (&(u8, f32), &(u8, f32))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(close),
            "{found:?}"
        );
    }

    #[test]
    fn reciprocal_ranks_add_up() {
        let lists =
            [list(Leg::Dense, 1.0, &[(1, 0.9), (2, 0.8)]), list(Leg::Lexical, 1.0, &[(2, 7.0)])];
        check(
            &lists,
            Fusion::Reciprocal { k: 60.0 },
            &[(2, 1.0 / 62.0 + 1.0 / 61.0), (1, 1.0 / 61.0)],
        );
    }

    #[test]
    fn a_convex_sum_scales_each_list_by_itself() {
        let lists = [
            list(Leg::Dense, 0.75, &[(1, 0.9), (2, 0.8), (3, 0.7)]),
            list(Leg::Lexical, 0.25, &[(3, 7.0), (1, 2.0)]),
        ];
        check(&lists, Fusion::Convex, &[(1, 0.75), (2, 0.375), (3, 0.25)]);
        check(&[], Fusion::Convex, &[]);
    }

    #[test]
    fn a_further_search_comes_behind_the_first() {
        let fused = |leaves| fuse(&[list(Leg::Dense, 1.0, leaves)], Fusion::Convex);
        let first = fused(&[(1, 0.9), (2, 0.8), (3, 0.5)]);
        let mut joined = first.clone();
        extend(&mut joined, fused(&[(4, 0.6), (2, 0.55), (5, 0.2)]));
        assert_eq!(joined[..3], first, "what was found first is as it was");
        let rest: Vec<_> = joined[3..].iter().map(|h| (h.record.leaf.0[0], h.scores)).collect();
        let scores = |dense, fused| Scores { dense: Some(dense), fused, ..Scores::default() };
        assert_eq!(rest, [(4, scores(0.6, 0.0)), (5, scores(0.2, -1.0))]);
        let mut none = Vec::new();
        extend(&mut none, first.clone());
        assert_eq!(none, first);
    }

    #[test]
    fn scores_of_the_legs_stay_apart() {
        let lists = [list(Leg::Dense, 1.0, &[(1, 0.5)]), list(Leg::Lexical, 1.0, &[(1, 3.0)])];
        let hit = fuse(&lists, Fusion::Convex).remove(0);
        assert_eq!(
            (hit.scores.dense, hit.scores.lexical, hit.scores.fused),
            (Some(0.5), Some(3.0), 1.0)
        );
    }

    proptest! {
        #[test]
        fn a_fused_list_holds_each_leaf_once_in_falling_score(
            lists in prop::collection::vec((0.0f32..2.0, prop::collection::btree_map(0u8..20, -1.0f32..9.0, 0..12)), 0..4),
            reciprocal in any::<bool>(),
        ) {
            let lists: Vec<RankedList> = lists.into_iter().enumerate().map(|(at, (weight, leaves))| {
                let mut leaves: Vec<(u8, f32)> = leaves.into_iter().collect();
                leaves.sort_by(|a, b| b.1.total_cmp(&a.1));
                list(if at % 2 == 0 { Leg::Dense } else { Leg::Lexical }, weight + 0.1, &leaves)
            }).collect();
            let fused = fuse(&lists, if reciprocal { Fusion::Reciprocal { k: 60.0 } } else { Fusion::Convex });
            let mut ids: Vec<_> = fused.iter().map(|h| h.record.leaf).collect();
            prop_assert!(fused.windows(2).all(|pair| pair[0].scores.fused >= pair[1].scores.fused));
            prop_assert!(fused.iter().all(|hit| hit.scores.fused.is_finite()));
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), fused.len());
        }
    }
}
