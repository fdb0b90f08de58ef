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
    /// How many members the list held.
    pub seen: usize,
}

/// Keeps the first `depth` distinct clusters of a list in falling score, and how many hits were examined for them.
pub fn collapse(hits: Vec<Hit>, depth: usize) -> (Vec<Voice>, usize) {
    let mut voices: Vec<Voice> = Vec::new();
    let mut places: BTreeMap<ClusterId, usize> = BTreeMap::new();
    let mut examined = 0;
    for hit in hits {
        match places.get(&hit.record.cluster) {
            Some(&place) => {
                if let Some(voice) = voices.get_mut(place) {
                    voice.seen += 1;
                }
            }
            None if voices.len() == depth => break,
            None => {
                places.insert(hit.record.cluster, voices.len());
                voices.push(Voice { hit, seen: 1 });
            }
        }
        examined += 1;
    }
    (voices, examined)
}
