//! Ranked leaves → one voice for each cluster of duplicates, at the rank and with the score of its best member.
//!
//! Invariant: clusters are distinct and keep the order and the scores of their best members, to whatever length the list is
//! read. Only hits of the list can speak: a leaf that a filter kept out of it cannot.

use crate::hit::{self, Hit};
use crate::id::{ClusterId, DocId, LeafId};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

/// Which member speaks for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The one with the best score.
    Score,
    /// That of the document that was changed last, then the one with the best score.
    Fresh,
    /// That of the connector of the highest rank, then as [`Policy::Fresh`].
    Authority,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 3] = [Policy::Score, Policy::Fresh, Policy::Authority];

    /// What the policy looks at of a document; documents that it does not tell apart are given the same.
    pub fn standing(self, of: Standing) -> Standing {
        match self {
            Policy::Score => Standing::default(),
            Policy::Fresh => Standing { authority: 0, ..of },
            Policy::Authority => of,
        }
    }
}

/// Where a document stands among those that hold the same: the greatest speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Standing {
    /// The rank of its connector; higher ones speak.
    pub authority: i64,
    /// When it was last changed, in seconds since 1970; none stands behind every date.
    pub updated_at: Option<i64>,
}

/// The standings of documents; one that is not named has the lowest of its kind, [`Standing::default`].
pub type Standings = BTreeMap<DocId, Standing>;

/// A cluster in a ranked list.
#[derive(Debug, Clone, PartialEq)]
pub struct Voice {
    /// The member that speaks, with its own scores.
    pub hit: Hit,
    /// The other members that were fetched, best first.
    pub others: Vec<Hit>,
    /// What the cluster is ranked by: the final score of its best member, or what a reranker gave the one that speaks.
    pub score: f32,
}

impl Voice {
    /// A cluster of which one member was fetched.
    pub fn new(hit: Hit) -> Voice {
        let score = hit.scores.final_score();
        Voice { hit, others: Vec::new(), score }
    }

    /// The members that were fetched, the one that speaks first.
    pub fn members(&self) -> impl Iterator<Item = &Hit> {
        std::iter::once(&self.hit).chain(&self.others)
    }

    /// How many members were fetched.
    pub fn seen(&self) -> usize {
        1 + self.others.len()
    }

    /// Lets a member speak; nothing changes where it is not one.
    fn let_speak(&mut self, leaf: LeafId) {
        if let Some(other) = self.others.iter_mut().find(|other| other.record.leaf == leaf) {
            std::mem::swap(&mut self.hit, other);
            hit::sort(&mut self.others);
        }
    }
}

/// What is left of a ranked list when each cluster speaks once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collapsed {
    /// The clusters, best first.
    pub voices: Vec<Voice>,
    /// Where their documents stand in the order of the policy that chose; empty before.
    pub standings: Standings,
    /// Hits that the list held.
    pub retrieved: usize,
    /// Hits that were looked at until there were as many clusters as wanted.
    pub examined: usize,
}

impl Collapsed {
    /// Has a policy choose who speaks, before anything is reranked: for each cluster the member whose document stands highest,
    /// then the one with the best score. Of members that tie, the one whose parent speaks for most of the other clusters, then
    /// the one with the smallest id.
    pub fn choose(&mut self, policy: Policy, standings: &Standings) {
        self.standings = standings.iter().map(|(&doc, &of)| (doc, policy.standing(of))).collect();
        let mut speaking: BTreeMap<(DocId, Option<u32>), usize> = BTreeMap::new();
        let mut tied = Vec::new();
        for (at, voice) in self.voices.iter_mut().enumerate() {
            match foremost(voice, &self.standings).as_slice() {
                [only] => {
                    voice.let_speak(*only);
                    *speaking.entry(parent(&voice.hit)).or_default() += 1;
                }
                several => tied.push((at, several.to_vec())),
            }
        }
        for (at, foremost) in tied {
            let Some(voice) = self.voices.get_mut(at) else { continue };
            let members = voice.members().filter(|hit| foremost.contains(&hit.record.leaf));
            let n_speaking = |hit: &Hit| speaking.get(&parent(hit)).copied().unwrap_or_default();
            let first = members.max_by_key(|hit| (n_speaking(hit), Reverse(hit.record.leaf)));
            if let Some(leaf) = first.map(|hit| hit.record.leaf) {
                voice.let_speak(leaf);
                *speaking.entry(parent(&voice.hit)).or_default() += 1;
            }
        }
    }

    /// Leaves out members; a cluster that loses all of them is gone, one that loses its best is ranked by the next.
    pub fn retain(&mut self, keep: impl Fn(&Hit) -> bool) {
        let voices = std::mem::take(&mut self.voices).into_iter().filter_map(|voice| {
            let mut members = std::iter::once(voice.hit).chain(voice.others).filter(&keep);
            let mut kept = Voice::new(members.next()?);
            kept.others = members.collect();
            Some(kept)
        });
        self.voices = voices.collect();
    }

    /// Gives all members of each cluster the score that a reranker gave to its speaker, in order, and sorts the list by it.
    ///
    /// # Panics
    /// If there are not as many scores as clusters: a broken promise of the caller.
    pub fn rerank(&mut self, scores: &[f32]) {
        assert_eq!(scores.len(), self.voices.len(), "one score for each cluster");
        for (voice, &score) in self.voices.iter_mut().zip(scores) {
            // The others too: a member may stand for the cluster as evidence, and scores of two kinds do not compare.
            for hit in std::iter::once(&mut voice.hit).chain(&mut voice.others) {
                hit.scores.rerank = Some(score);
            }
            voice.score = score;
        }
        // Stable: what scores alike keeps the order of fusion.
        self.voices.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
}

/// The node above a hit; a document of one leaf stands for itself.
fn parent(hit: &Hit) -> (DocId, Option<u32>) {
    (hit.record.doc, hit.record.ancestors.first().map(|above| above.node))
}

/// The members whose document stands highest and that have the best score of these.
fn foremost(voice: &Voice, standings: &Standings) -> Vec<LeafId> {
    let rank = |hit: &Hit| {
        let standing = standings.get(&hit.record.doc).copied().unwrap_or_default();
        (standing, hit.scores.final_score())
    };
    let mut best: Vec<&Hit> = Vec::new();
    for hit in voice.members() {
        let (standing, score) = rank(hit);
        let order = best.first().map_or(Ordering::Greater, |first| {
            let (of_first, score_of_first) = rank(first);
            standing.cmp(&of_first).then(score.total_cmp(&score_of_first))
        });
        match order {
            Ordering::Greater => best = vec![hit],
            Ordering::Equal => best.push(hit),
            Ordering::Less => {}
        }
    }
    best.iter().map(|hit| hit.record.leaf).collect()
}

/// Keeps the first `depth` distinct clusters of a list in falling score, each speaking through its best member. Members
/// further down the list are kept with their cluster.
pub fn collapse(hits: Vec<Hit>, depth: usize) -> Collapsed {
    let mut voices: Vec<Voice> = Vec::new();
    let mut places: BTreeMap<ClusterId, usize> = BTreeMap::new();
    let retrieved = hits.len();
    let mut examined = retrieved;
    for (at, hit) in hits.into_iter().enumerate() {
        match places.get(&hit.record.cluster) {
            Some(&place) => {
                if let Some(voice) = voices.get_mut(place) {
                    voice.others.push(hit);
                }
            }
            None if voices.len() == depth => {}
            None => {
                places.insert(hit.record.cluster, voices.len());
                voices.push(Voice::new(hit));
                if voices.len() == depth {
                    examined = at + 1;
                }
            }
        }
    }
    Collapsed { voices, standings: Standings::default(), retrieved, examined }
}

/// The places in a list, from 1, at which a cluster comes again. How far the list must be read until so many distinct clusters
/// have come follows from them, for any number.
pub fn repeats(hits: &[Hit]) -> Vec<usize> {
    let mut seen: BTreeSet<ClusterId> = BTreeSet::new();
    let again = hits.iter().enumerate().filter(|(_, hit)| !seen.insert(hit.record.cluster));
    again.map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::{Ancestor, LeafRecord, Scores};
    use crate::span::Span;
    use proptest::prelude::*;

    /// The leaf `n` of a cluster, under the node `parent` of a document.
    fn hit(n: u8, cluster: u8, (doc, parent): (u64, u32), fused: f32) -> Hit {
        let record = LeafRecord {
            leaf: LeafId([n; 16]),
            doc: DocId(doc),
            span: Span::new(0, 1),
            ordinal: 0,
            tokens: 1,
            node: u32::from(n),
            ancestors: vec![Ancestor { node: parent, children: 4 }],
            cluster: ClusterId([cluster; 16]),
        };
        Hit { record, scores: Scores { fused, ..Scores::default() } }
    }

    /// Of each document, its connector's rank and the year of its last change.
    fn standings(of: &[(u64, i64, i64)]) -> Standings {
        let standing =
            |&(doc, authority, year)| (DocId(doc), Standing { authority, updated_at: Some(year) });
        of.iter().map(standing).collect()
    }

    /// The leaves that speak, in order.
    fn speakers(list: &Collapsed) -> Vec<u8> {
        list.voices.iter().map(|voice| voice.hit.record.leaf.0[0]).collect()
    }

    fn chosen(hits: &[Hit], policy: Policy, of: &Standings) -> Collapsed {
        let mut list = collapse(hits.to_vec(), 10);
        list.choose(policy, of);
        list
    }

    #[test]
    fn d1_the_copy_that_the_policy_prefers_speaks_at_the_rank_of_the_best() {
        // Leaf 1: 0.92, of 2022, a wiki; leaf 2: 0.89, of 2025, a policy. Leaves 3 and 4 are alone.
        let hits = [(1, 9, 1, 0.92), (3, 3, 3, 0.91), (4, 4, 4, 0.90), (2, 9, 2, 0.89)]
            .map(|(n, cluster, doc, score)| hit(n, cluster, (doc, 0), score));
        let of = standings(&[(1, 0, 2022), (2, 3, 2025)]);
        let check = |policy, speaker| {
            let list = chosen(&hits, policy, &of);
            assert_eq!(speakers(&list), [speaker, 3, 4], "{policy:?}");
            let first = &list.voices[0];
            assert_eq!((first.score, first.seen()), (0.92, 2), "the cluster keeps its score");
            let own = if speaker == 1 { hits[0].scores } else { hits[3].scores };
            assert_eq!(first.hit.scores, own, "and the speaker its own");
        };
        check(Policy::Score, 1);
        check(Policy::Fresh, 2);
        check(Policy::Authority, 2);
    }

    #[test]
    fn authority_comes_before_freshness_and_freshness_before_the_score() {
        let hits = [(1, 0.9, 1), (2, 0.8, 2), (3, 0.7, 3)]
            .map(|(n, score, doc)| hit(n, 9, (doc, 0), score));
        let check = |policy, of: &[(u64, i64, i64)], speaker| {
            assert_eq!(speakers(&chosen(&hits, policy, &standings(of))), [speaker], "{of:?}");
        };
        check(Policy::Authority, &[(1, 1, 2024), (2, 2, 2020), (3, 2, 2021)], 3);
        check(Policy::Authority, &[(1, 1, 2024), (2, 2, 2020), (3, 2, 2020)], 2);
        check(Policy::Fresh, &[(1, 1, 2024), (2, 2, 2020), (3, 2, 2021)], 1);
        // A connector without a rank has 0, and a document without a date stands behind all others.
        check(Policy::Authority, &[(1, -1, 2024), (2, -1, 2024)], 3);
        check(Policy::Fresh, &[(2, 0, 1901)], 2);
    }

    #[test]
    fn a_tie_goes_to_the_member_whose_parent_speaks_already() {
        // Clusters 7 and 8 are mirrored in documents 1 and 2; leaf 5 of document 2 is alone, and ranks last.
        let mirrored = [hit(1, 7, (1, 3), 0.9), hit(2, 7, (2, 3), 0.9), hit(3, 8, (1, 3), 0.8)];
        let rest = [hit(4, 8, (2, 3), 0.8)];
        let hits = [&mirrored[..], &rest].concat();
        let of = Standings::default();
        assert_eq!(speakers(&chosen(&hits, Policy::Authority, &of)), [1, 3], "the smallest id");
        let with_alone = [&hits[..], &[hit(5, 5, (2, 3), 0.1)]].concat();
        assert_eq!(speakers(&chosen(&with_alone, Policy::Authority, &of)), [2, 4, 5]);
        let elsewhere = [&hits[..], &[hit(5, 5, (2, 9), 0.1)]].concat();
        assert_eq!(speakers(&chosen(&elsewhere, Policy::Authority, &of)), [1, 3, 5]);
    }

    #[test]
    fn a_hit_that_is_its_own_cluster_is_left_as_it_was() {
        let hits = [hit(1, 1, (1, 0), 0.5), hit(2, 2, (1, 0), 0.4)];
        for policy in Policy::ALL {
            let list = chosen(&hits, policy, &standings(&[(1, 1, 2020)]));
            let left: Vec<Hit> = list.voices.iter().map(|voice| voice.hit.clone()).collect();
            assert_eq!(left, hits);
        }
        assert_eq!(collapse(Vec::new(), 10), Collapsed::default());
    }

    #[test]
    fn only_hits_of_the_list_can_speak() {
        // The fresher copy was kept out of the list by a filter.
        let of = standings(&[(1, 0, 2020), (2, 9, 2025)]);
        let list = chosen(&[hit(1, 9, (1, 0), 0.9)], Policy::Authority, &of);
        assert_eq!((speakers(&list), list.voices[0].seen()), (vec![1], 1));
    }

    #[test]
    fn a_reranker_scores_the_member_that_speaks() {
        let hits = [hit(1, 9, (1, 0), 0.9), hit(2, 2, (3, 0), 0.8), hit(3, 9, (2, 0), 0.7)];
        let mut list = chosen(&hits, Policy::Fresh, &standings(&[(1, 0, 2020), (2, 0, 2021)]));
        list.rerank(&[1.0, 2.0]);
        assert_eq!(speakers(&list), [2, 3]);
        let last = &list.voices[1];
        assert_eq!((last.score, last.others[0].scores.rerank), (1.0, Some(1.0)));
    }

    #[test]
    fn what_the_catalog_lacks_does_not_speak() {
        let hits = [hit(1, 9, (1, 0), 0.9), hit(2, 2, (3, 0), 0.8), hit(3, 9, (2, 0), 0.7)];
        let mut list = collapse(hits.to_vec(), 10);
        list.retain(|hit| hit.record.doc == DocId(2));
        assert_eq!((speakers(&list), list.voices[0].score), (vec![3], 0.7));
    }

    #[test]
    fn examined_ends_with_the_last_cluster_that_was_wanted() {
        let hits = [1, 1, 2, 1, 3, 4]
            .iter()
            .enumerate()
            .map(|(at, &cluster)| hit(at as u8, cluster, (1, 0), 1.0 - at as f32 / 10.0));
        let hits: Vec<Hit> = hits.collect();
        let check = |depth, examined| assert_eq!(collapse(hits.clone(), depth).examined, examined);
        check(1, 1);
        check(2, 3);
        check(3, 5);
        check(4, 6);
        check(5, 6);
        assert_eq!(repeats(&hits), [2, 4]);
    }

    /// A list in falling score of leaves in few clusters and documents, many with the same score.
    fn any_list() -> impl Strategy<Value = Vec<Hit>> {
        let leaf = (0u8..30, (0u64..5, 0u32..3), 0u8..20);
        prop::collection::vec(leaf, 0..80).prop_map(|leaves| {
            let mut hits: Vec<Hit> = leaves
                .into_iter()
                .enumerate()
                .map(|(n, (cluster, at, score))| hit(n as u8, cluster, at, f32::from(score)))
                .collect();
            hit::sort(&mut hits);
            hits
        })
    }

    fn any_standings() -> impl Strategy<Value = Standings> {
        let standing = (-2i64..3, prop::option::of(0i64..4))
            .prop_map(|(authority, updated_at)| Standing { authority, updated_at });
        prop::collection::btree_map((0u64..5).prop_map(DocId), standing, 0..6)
    }

    proptest! {
        #[test]
        fn the_head_does_not_depend_on_how_far_the_list_is_read(
            hits in any_list(),
            of in any_standings(),
            policy in prop::sample::select(Policy::ALL.to_vec()),
        ) {
            let head = |k_prime: usize| {
                let read: Vec<Hit> = hits.iter().take(k_prime).cloned().collect();
                let list = chosen(&read, policy, &of);
                list.voices.iter().map(|v| (v.hit.record.cluster, v.score)).collect::<Vec<_>>()
            };
            let (short, longer, long) = (head(14), head(24), head(60));
            prop_assert_eq!(&short[..], &longer[..short.len()]);
            prop_assert_eq!(&longer[..], &long[..longer.len()]);
        }

        #[test]
        fn a_collapse_only_takes_away_and_each_cluster_has_one_voice(
            hits in any_list(),
            of in any_standings(),
            policy in prop::sample::select(Policy::ALL.to_vec()),
            depth in 1usize..40,
        ) {
            let mut list = collapse(hits.clone(), depth);
            list.choose(policy, &of);
            prop_assert!(list.voices.len() <= depth.min(hits.len()));
            let clusters: BTreeSet<ClusterId> =
                list.voices.iter().map(|voice| voice.hit.record.cluster).collect();
            prop_assert_eq!(clusters.len(), list.voices.len());
            prop_assert!(list.voices.windows(2).all(|pair| pair[0].score >= pair[1].score));
            for voice in &list.voices {
                // Every member is a hit of the list, as it was.
                prop_assert!(voice.members().all(|member| hits.contains(member)));
                let in_list = hits.iter().filter(|h| h.record.cluster == voice.hit.record.cluster);
                prop_assert_eq!(voice.seen(), in_list.clone().count());
                let best = in_list.map(|h| h.scores.fused).fold(f32::MIN, f32::max);
                prop_assert!(voice.score.total_cmp(&best).is_eq());
                let stands = |h: &Hit| {
                    policy.standing(of.get(&h.record.doc).copied().unwrap_or_default())
                };
                prop_assert!(voice.others.iter().all(|other| stands(other) <= stands(&voice.hit)));
            }
            // A second choice does not depend on the first.
            let again = |list: &Collapsed| {
                let mut list = list.clone();
                list.choose(Policy::Fresh, &of);
                list
            };
            prop_assert_eq!(again(&list), again(&collapse(hits.clone(), depth)));
            // Distinct clusters are what is no repeat.
            prop_assert_eq!(collapse(hits.clone(), 80).voices.len(), hits.len() - repeats(&hits).len());
        }
    }
}
