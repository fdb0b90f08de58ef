//! Ranked leaves → one voice for each cluster of duplicates, at the rank of its best member.
//!
//! Invariant: clusters are distinct and keep the order of their best members.

use crate::hit::Hit;
use crate::id::ClusterId;
use std::collections::BTreeMap;

/// A cluster in a ranked list.
#[derive(Debug, Clone, PartialEq)]
pub struct Voice {
    /// The member that speaks: the best one.
    pub hit: Hit,
    /// The other members that were fetched, best first.
    pub others: Vec<Hit>,
}

impl Voice {
    /// The members that were fetched, the one that speaks first.
    pub fn members(&self) -> impl Iterator<Item = &Hit> {
        std::iter::once(&self.hit).chain(&self.others)
    }

    /// How many members were fetched.
    pub fn seen(&self) -> usize {
        1 + self.others.len()
    }
}

/// What is left of a ranked list when each cluster speaks once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collapsed {
    /// The clusters, best first.
    pub voices: Vec<Voice>,
    /// Hits that the list held.
    pub retrieved: usize,
    /// Hits that were looked at until there were as many clusters as wanted.
    pub examined: usize,
}

impl Collapsed {
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
        }
        // Stable: what scores alike keeps the order of fusion.
        let score = |voice: &Voice| voice.hit.scores.final_score();
        self.voices.sort_by(|a, b| score(b).total_cmp(&score(a)));
    }
}

/// Keeps the first `depth` distinct clusters of a list in falling score. Members
/// further down the list are kept with their cluster.
pub fn collapse(hits: Vec<Hit>, depth: usize) -> Collapsed {
    let mut voices: Vec<Voice> = Vec::new();
    let mut places: BTreeMap<ClusterId, usize> = BTreeMap::new();
    let mut examined = None;
    let fetched = hits.len();
    for (at, hit) in hits.into_iter().enumerate() {
        match places.get(&hit.record.cluster) {
            Some(&place) => {
                if let Some(voice) = voices.get_mut(place) {
                    voice.others.push(hit);
                }
            }
            None if voices.len() == depth => {
                examined.get_or_insert(at);
            }
            None => {
                places.insert(hit.record.cluster, voices.len());
                voices.push(Voice { hit, others: Vec::new() });
            }
        }
    }
    Collapsed { voices, retrieved: fetched, examined: examined.unwrap_or(fetched) }
}
