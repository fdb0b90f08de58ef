//! Leaves → clusters of leaves that say the same.
//!
//! Invariant: the same leaves give the same clusters, whatever their order and the number of threads; any two members of a
//! cluster are similar enough by themselves; what says something else is not a duplicate, however similar its form.

pub mod words;
pub mod sketch;
pub mod compare;
pub mod cluster;
pub mod difference;

use cluster::{Pair, cluster};
use compare::Likeness;
use serde::{Deserialize, Serialize};
use sketch::Sketch;
use std::collections::BTreeMap;
use std::fmt;
use umbel_core::id::{ClusterId, LeafId};

/// What tells one wording from others: leaves of the same wording are compared as one.
pub type Wording = [u8; 16];

/// How duplicates are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase")]
pub enum Method {
    /// The same text but for blanks.
    Exact,
    /// Much the same words in the same order, and no other facts.
    Near {
        /// Jaccard similarity of their shingles, at the least: 0 to 1.
        jaccard: f64,
    },
    /// Neighbours by their vectors that share words and state no other facts.
    Semantic {
        /// Cosine of their vectors, at the least: -1 to 1.
        cosine: f64,
        /// Jaccard similarity of their words, at the least: 0 to 1.
        floor: f64,
    },
}

impl Default for Method {
    /// Near duplicates at the threshold of `docs/duplicates.md`.
    fn default() -> Method {
        Method::Near { jaccard: 0.8 }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Exact => f.write_str("exact"),
            Method::Near { jaccard } => write!(f, "near, jaccard {jaccard}"),
            Method::Semantic { cosine, floor } => {
                write!(f, "semantic, cosine {cosine}, floor {floor}")
            }
        }
    }
}

impl Method {
    /// The default cosine and floor of [`Method::Semantic`].
    pub const SEMANTIC: (f64, f64) = (0.92, 0.3);

    /// What a sketch's leaf is known by under this method.
    fn wording(&self, sketch: &Sketch) -> Wording {
        match self {
            Method::Exact => sketch.text_key,
            Method::Near { .. } | Method::Semantic { .. } => sketch.key,
        }
    }

    /// The similarity from which on pairs are duplicates; `None` where only the same is.
    pub fn threshold(&self) -> Option<f64> {
        match *self {
            Method::Exact => None,
            Method::Near { jaccard } => Some(jaccard),
            Method::Semantic { cosine, .. } => Some(cosine),
        }
    }

    /// How similar a pair is in the eyes of this method.
    pub fn similarity(&self, likeness: &Likeness, cosine: f32) -> f64 {
        match self {
            Method::Exact | Method::Near { .. } => likeness.shingles,
            Method::Semantic { .. } => cosine.into(),
        }
    }

    /// How similar a pair is, if that makes it duplicates.
    pub fn accepts(&self, likeness: &Likeness, cosine: f32) -> Option<f32> {
        let similarity = self.similarity(likeness, cosine);
        let floor = match *self {
            Method::Exact | Method::Near { .. } => 0.0,
            Method::Semantic { floor, .. } => floor,
        };
        let passes = self.threshold().is_some_and(|threshold| similarity >= threshold);
        let is_duplicate = passes && likeness.words >= floor && likeness.facts_agree;
        is_duplicate.then_some(similarity as f32)
    }
}

/// Leaves of one wording.
#[derive(Debug, Clone)]
pub struct Node<'a> {
    /// The wording.
    pub wording: Wording,
    /// The sketch of one of the leaves; all have the same words.
    pub sketch: &'a Sketch,
    /// The leaves, rising.
    pub leaves: Vec<LeafId>,
}

/// The leaves by wording, rising.
pub fn nodes<'a>(leaves: &'a [(LeafId, Sketch)], method: &Method) -> Vec<Node<'a>> {
    let mut nodes: BTreeMap<Wording, Node<'a>> = BTreeMap::new();
    for (leaf, sketch) in leaves {
        let wording = method.wording(sketch);
        let node = nodes.entry(wording);
        node.or_insert_with(|| Node { wording, sketch, leaves: Vec::new() }).leaves.push(*leaf);
    }
    let mut nodes: Vec<Node<'a>> = nodes.into_values().collect();
    for node in &mut nodes {
        node.leaves.sort_unstable();
    }
    nodes
}

/// Leaves that say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its id: it follows from the representative.
    pub id: ClusterId,
    /// The members, rising; at least two. The first one is the representative.
    pub members: Vec<LeafId>,
}

/// Clusters of leaves: those of one wording, and those of wordings that are pairs, rising.
pub fn clusters(nodes: &[Node<'_>], pairs: &[Pair<Wording>]) -> Vec<Cluster> {
    let mut leaves: BTreeMap<Wording, &[LeafId]> =
        nodes.iter().map(|node| (node.wording, node.leaves.as_slice())).collect();
    let known: Vec<Pair<Wording>> = pairs
        .iter()
        .filter(|pair| leaves.contains_key(&pair.a) && leaves.contains_key(&pair.b))
        .copied()
        .collect();
    let joined = cluster(&known).into_iter().map(|wordings| {
        wordings.iter().filter_map(|wording| leaves.remove(wording)).flatten().copied().collect()
    });
    let mut members: Vec<Vec<LeafId>> = joined.collect();
    members.extend(leaves.into_values().filter(|leaves| leaves.len() > 1).map(<[_]>::to_vec));
    for cluster in &mut members {
        cluster.sort_unstable();
    }
    members.sort_unstable();
    members
        .into_iter()
        .filter_map(|members| Some(Cluster { id: id_of(*members.first()?), members }))
        .collect()
}

/// The id of the cluster with this representative. It is no leaf's id, so a leaf that leaves the cluster is not in it by its own.
fn id_of(representative: LeafId) -> ClusterId {
    let mut hasher = blake3::Hasher::new_derive_key("umbel 2026 cluster of duplicates");
    hasher.update(&representative.0);
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    ClusterId(id)
}
