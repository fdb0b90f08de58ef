//! Wordings of a store → pairs of them with how alike they are.
//!
//! Invariant: at most the profiles of [`DOCUMENTS_AT_ONCE`] documents are in memory, however many pairs there are.

use crate::dedup::compare::{Likeness, Profile, compare};
use crate::dedup::sketch::{Sketch, candidates};
use crate::dedup::{Method, Node};
use crate::engine::{Engine, EngineError, OnProgress, Progress, Steps, texts_to_embed};
use crate::index::{Leg, SearchRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use umbel_core::id::{DocId, LeafId};

/// Documents whose leaves are compared at once.
const DOCUMENTS_AT_ONCE: usize = 256;
/// Neighbours of a leaf that are asked for first, and at the most.
const FIRST_NEIGHBOURS: usize = 32;
const MOST_NEIGHBOURS: usize = 512;

/// Two wordings, as their places among the nodes, and how alike they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// By their words.
    pub(super) likeness: Likeness,
    /// Cosine of their vectors; 0 where they were not looked at.
    pub(super) cosine: f32,
}

impl Engine {
    /// Pairs of which one `is_new` that may be as similar as a method wants, compared.
    pub(super) async fn similar(
        &self,
        nodes: &[Node<'_>],
        docs: &BTreeMap<LeafId, DocId>,
        is_new: &(dyn Fn(&[LeafId]) -> bool + Sync),
        method: &Method,
        progress: OnProgress<'_>,
    ) -> Result<Vec<Found>, EngineError> {
        let new: Vec<bool> = nodes.iter().map(|node| is_new(&node.leaves)).collect();
        let is_new = |at: usize| new.get(at).copied().unwrap_or_default();
        // Where a wording stands: at the first of its places, so that pages that mirror each other are read together.
        let places: Vec<Option<(DocId, LeafId)>> = nodes
            .iter()
            .map(|node| node.leaves.iter().filter_map(|leaf| Some((*docs.get(leaf)?, *leaf))).min())
            .collect();
        let worth: BTreeMap<(usize, usize), f32> = match *method {
            Method::Exact => BTreeMap::new(),
            Method::Near { jaccard } => {
                let sketches: Vec<&Sketch> = nodes.iter().map(|node| node.sketch).collect();
                let pairs = candidates(&sketches, &is_new, jaccard);
                pairs.into_iter().map(|pair| (pair, 0.0)).collect()
            }
            Method::Semantic { cosine, .. } => {
                self.neighbours(nodes, &places, &is_new, cosine, progress).await?
            }
        };
        let found = self.compare(worth.keys().copied().collect(), &places, progress).await?;
        let cosine = |a, b| worth.get(&(a, b)).copied().unwrap_or_default();
        let found = found.into_iter();
        Ok(found
            .map(|likeness| Found { likeness, cosine: cosine(likeness.a, likeness.b) })
            .collect())
    }

    /// Pairs of wordings whose vectors have at least this cosine, with it.
    async fn neighbours(
        &self,
        nodes: &[Node<'_>],
        places: &[Option<(DocId, LeafId)>],
        is_new: &dyn Fn(usize) -> bool,
        cosine: f64,
        progress: OnProgress<'_>,
    ) -> Result<BTreeMap<(usize, usize), f32>, EngineError> {
        let node_of: BTreeMap<LeafId, usize> = nodes
            .iter()
            .enumerate()
            .flat_map(|(at, node)| node.leaves.iter().map(move |&leaf| (leaf, at)))
            .collect();
        let mut by_doc: BTreeMap<DocId, Vec<(LeafId, usize)>> = BTreeMap::new();
        for (at, place) in places.iter().enumerate().filter(|(at, _)| is_new(*at)) {
            if let Some((doc, leaf)) = place {
                by_doc.entry(*doc).or_default().push((*leaf, at));
            }
        }
        let mut pairs: BTreeMap<(usize, usize), f32> = BTreeMap::new();
        for (n, (doc, wanted)) in by_doc.iter().enumerate() {
            if progress(Progress::Comparing(n, by_doc.len())).is_break() {
                return Err(EngineError::Interrupted);
            }
            for stored in self.catalog.load(&[*doc]).await?.into_iter().flatten() {
                let texts: Vec<String> = texts_to_embed(&stored.document).collect();
                let mut steps =
                    Steps { done: 0, total: 0, progress: &|_| ControlFlow::Continue(()) };
                let Some((vectors, _)) = self.vectors(&texts, &mut steps).await? else { continue };
                let vectors: BTreeMap<LeafId, Vec<f32>> =
                    stored.leaf_ids.iter().copied().zip(vectors).collect();
                for (leaf, at) in wanted {
                    let Some(vector) = vectors.get(leaf) else { continue };
                    for (other, score) in self.nearest(vector, cosine).await? {
                        if let Some(&other) = node_of.get(&other).filter(|&other| other != at) {
                            let kept = pairs.entry((*at.min(&other), *at.max(&other))).or_default();
                            *kept = kept.max(score);
                        }
                    }
                }
            }
        }
        Ok(pairs)
    }

    /// The leaves whose vectors have at least this cosine with one, [`MOST_NEIGHBOURS`] at the most.
    async fn nearest(
        &self,
        vector: &[f32],
        cosine: f64,
    ) -> Result<Vec<(LeafId, f32)>, EngineError> {
        let mut limit = FIRST_NEIGHBOURS;
        loop {
            let leg = Leg::Dense(vector.to_vec());
            let hits = self.index.search(&SearchRequest { leg, limit, filter: Vec::new() }).await?;
            let n_hits = hits.len();
            let near = hits.into_iter().filter(|hit| f64::from(hit.score) >= cosine);
            let near: Vec<_> = near.map(|hit| (hit.record.leaf, hit.score)).collect();
            if near.len() < n_hits || n_hits < limit || limit >= MOST_NEIGHBOURS {
                return Ok(near);
            }
            limit = (limit * 4).min(MOST_NEIGHBOURS);
        }
    }

    /// Compares pairs of wordings by their words.
    async fn compare(
        &self,
        mut pairs: Vec<(usize, usize)>,
        places: &[Option<(DocId, LeafId)>],
        progress: OnProgress<'_>,
    ) -> Result<Vec<Likeness>, EngineError> {
        let doc = |at: usize| places.get(at).copied().flatten().map(|(doc, _)| doc);
        pairs.sort_unstable_by_key(|&(a, b)| (doc(a), doc(b), a, b));
        let n_pairs = pairs.len();
        let mut found = Vec::new();
        let mut profiles = Profiles::default();
        let mut rest = pairs.as_slice();
        while !rest.is_empty() {
            if progress(Progress::Comparing(n_pairs - rest.len(), n_pairs)).is_break() {
                return Err(EngineError::Interrupted);
            }
            let mut wanted: BTreeSet<DocId> = BTreeSet::new();
            let n_fitting = rest.iter().take_while(|&&(a, b)| {
                wanted.extend([doc(a), doc(b)].into_iter().flatten());
                wanted.len() <= DOCUMENTS_AT_ONCE
            });
            // Two documents fit always.
            let (now, later) = rest.split_at(n_fitting.count());
            rest = later;
            profiles.read(self, now, places).await?;
            found.extend(compare(now, &|at| profiles.by_node.get(&at)));
        }
        Ok(found)
    }
}

/// The profiles that a step of comparisons needs.
#[derive(Default)]
struct Profiles {
    by_node: BTreeMap<usize, Profile>,
}

impl Profiles {
    /// Reads those that the pairs need and are not there, and forgets those that they do not need.
    async fn read(
        &mut self,
        engine: &Engine,
        pairs: &[(usize, usize)],
        places: &[Option<(DocId, LeafId)>],
    ) -> Result<(), EngineError> {
        let needed: BTreeSet<usize> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
        self.by_node.retain(|at, _| needed.contains(at));
        let mut missing: BTreeMap<DocId, BTreeMap<LeafId, usize>> = BTreeMap::new();
        for &at in needed.iter().filter(|at| !self.by_node.contains_key(at)) {
            if let Some((doc, leaf)) = places.get(at).copied().flatten() {
                missing.entry(doc).or_default().insert(leaf, at);
            }
        }
        for (doc, leaves) in missing {
            for stored in engine.catalog.load(&[doc]).await?.into_iter().flatten() {
                let document = &stored.document;
                for (leaf, id) in document.tree.leaves.iter().zip(&stored.leaf_ids) {
                    if let Some(&at) = leaves.get(id) {
                        self.by_node.insert(at, Profile::of_leaf(document, leaf));
                    }
                }
            }
        }
        Ok(())
    }
}
