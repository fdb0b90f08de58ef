//! The leaves of a store → pairs of them, some of each band of similarity, for a person to say which are duplicates.
//!
//! Invariant: the same store, method and seed give the same pairs; nothing is marked.

use super::compared::Found;
use crate::dedup::words::leaf_text;
use crate::dedup::{Method, nodes};
use crate::engine::{Engine, EngineError, OnProgress};
use std::collections::BTreeMap;
use umbel_core::id::LeafId;
use umbel_core::span::Span;

/// Bands that a sample is drawn from.
pub const BANDS: usize = 8;

/// Two leaves and how similar they are.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledPair {
    /// The lower and the upper end of its band, the upper one not in it but for the last.
    pub band: (f64, f64),
    /// Pairs of wordings in the band.
    pub pairs_in_band: usize,
    /// How similar they are by the method: 0 to 1.
    pub similarity: f64,
    /// Whether the method takes them for duplicates from their similarity on: no other facts, and words enough in common.
    pub accepted: bool,
    /// One leaf.
    pub a: SampledLeaf,
    /// The other.
    pub b: SampledLeaf,
}

/// A leaf of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledLeaf {
    /// Its document.
    pub document: String,
    /// Its bytes in it.
    pub span: Span,
    /// What it says.
    pub text: String,
}

impl Engine {
    /// At most `per_band` pairs of each of [`BANDS`] equal bands between the method's threshold and 1. A pair stands for two
    /// wordings; the leaves are the first of each.
    ///
    /// # Errors
    /// As [`mark_duplicates`](Engine::mark_duplicates).
    pub async fn sample_pairs(
        &self,
        method: Method,
        per_band: usize,
        seed: u64,
        progress: OnProgress<'_>,
    ) -> Result<Vec<SampledPair>, EngineError> {
        self.can_compare(&method).await?;
        // Sketches do not depend on a rule, and no rule has this name.
        let sketches = self.sketches("", progress).await?;
        let nodes = nodes(&sketches.leaves, &method);
        let found = self.similar(&nodes, &sketches.docs, &|_| true, &method, progress).await?;
        let Some(from) = method.threshold() else { return Ok(Vec::new()) };
        let width = (1.0 - from) / BANDS as f64;
        let mut bands: BTreeMap<usize, Vec<Found>> = BTreeMap::new();
        for found in found {
            let similarity = method.similarity(&found.likeness, found.cosine);
            if similarity >= from {
                let band = (((similarity - from) / width) as usize).min(BANDS - 1);
                bands.entry(band).or_default().push(found);
            }
        }
        let mut sampled = Vec::new();
        for (band, pairs) in bands {
            let low = from + band as f64 * width;
            let pairs_in_band = pairs.len();
            for found in draw(pairs, per_band, seed) {
                let leaf = |at: usize| nodes.get(at).and_then(|node| node.leaves.first()).copied();
                let (a, b) = (leaf(found.likeness.a), leaf(found.likeness.b));
                let (Some(a), Some(b)) =
                    (self.leaf(a, &sketches).await?, self.leaf(b, &sketches).await?)
                else {
                    continue;
                };
                sampled.push(SampledPair {
                    band: (low, low + width),
                    pairs_in_band,
                    similarity: method.similarity(&found.likeness, found.cosine),
                    accepted: method.accepts(&found.likeness, found.cosine).is_some(),
                    a,
                    b,
                });
            }
        }
        Ok(sampled)
    }

    async fn leaf(
        &self,
        leaf: Option<LeafId>,
        sketches: &super::Sketches,
    ) -> Result<Option<SampledLeaf>, EngineError> {
        let Some(doc) = leaf.and_then(|leaf| sketches.docs.get(&leaf)) else { return Ok(None) };
        let stored = self.catalog.load(&[*doc]).await?.into_iter().flatten().next();
        Ok(stored.and_then(|stored| {
            let mut leaves = stored.document.tree.leaves.iter().zip(&stored.leaf_ids);
            let (found, _) = leaves.find(|(_, id)| Some(**id) == leaf)?;
            Some(SampledLeaf {
                document: stored.entry.name.clone(),
                span: found.span,
                text: leaf_text(&stored.document, found),
            })
        }))
    }
}

/// Some of these, by a hash of the seed and their place, in their order.
fn draw(pairs: Vec<Found>, n: usize, seed: u64) -> Vec<Found> {
    let rank = |at: usize| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&(at as u64).to_le_bytes());
        hasher.finalize()
    };
    let mut ranked: Vec<(blake3::Hash, usize, Found)> =
        pairs.into_iter().enumerate().map(|(at, found)| (rank(at), at, found)).collect();
    ranked.sort_unstable_by(|(a, ..), (b, ..)| a.as_bytes().cmp(b.as_bytes()));
    ranked.truncate(n);
    ranked.sort_unstable_by_key(|&(_, at, _)| at);
    ranked.into_iter().map(|(_, _, found)| found).collect()
}
