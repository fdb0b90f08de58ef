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

/// Keeps the first `depth` distinct clusters of a list in falling score, and how many hits were examined for them. Members
/// further down the list are kept with their cluster.
pub fn collapse(hits: Vec<Hit>, depth: usize) -> (Vec<Voice>, usize) {
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
    (voices, examined.unwrap_or(fetched))
}
