//! What the catalog holds and the index does not → points in the index.
//!
//! Invariant: the catalog learns that a document is indexed after the index was flushed; whatever stops the work before is done again.

use super::ingest::{hash, leaf_records};
use super::{Engine, EngineError, OnProgress, Progress};
use crate::catalog::{Catalog, CatalogError, DocumentEntry, Pending, StoredDocument};
use crate::index::{Facets, Point};
use crate::metadata::Metadata;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use umbel_core::document::Document;
use umbel_core::hit::LeafRecord;
use umbel_core::leaf::embedded_text;

/// Documents that are applied to the index between two flushes.
const DOCUMENTS_PER_FLUSH: usize = 200;
/// Leaves that are deleted, or given another cluster, between two flushes where no document waits.
const LEAVES_PER_FLUSH: usize = 10_000;
/// Leaves that are handed to the index at once, or those of one large document: a call has its costs, whatever it brings.
const LEAVES_PER_UPSERT: usize = 1000;
/// Texts that are embedded between two steps of the progress.
const TEXTS_PER_STEP: usize = 64;
/// The index is optimized when at least one in so many of its leaves changed.
const OPTIMIZE_SHARE: usize = 10;

impl Engine {
    /// Brings the index up to the catalog: upserts and deletes what is marked, flushes, then settles. Where it is asked to
    /// stop, it settles what it has done.
    pub(super) async fn apply_pending(
        &self,
        progress: OnProgress<'_>,
    ) -> Result<Applied, EngineError> {
        let mut applied = Applied::default();
        let mut changed = 0;
        let mut steps = Steps { done: 0, total: self.pending_leaves().await?, progress };
        while !applied.interrupted {
            let mut pending = self.catalog.pending(DOCUMENTS_PER_FLUSH).await?;
            if pending.documents.is_empty() {
                pending = self.catalog.pending(LEAVES_PER_FLUSH).await?;
            }
            if !self.can_embed().await? {
                // Without the model, what is gone is still taken out; the rest waits.
                pending.documents.clear();
            }
            if pending == Pending::default() {
                break;
            }
            let Pending { deletes, clusters, documents } = pending;
            let mut done = Pending { documents: Vec::new(), deletes, clusters };
            let mut batch = Vec::new();
            for id in documents {
                // One at a time: a batch of large documents would hold all of their texts and offsets.
                for document in self.catalog.load(&[id]).await?.into_iter().flatten() {
                    let Some((points, fresh)) = self.points(&document, &mut steps).await? else {
                        applied.interrupted = true;
                        break;
                    };
                    applied.embedded += fresh;
                    changed += points.len();
                    batch.extend(points);
                }
                if applied.interrupted {
                    break;
                }
                done.documents.push(id);
                if batch.len() >= LEAVES_PER_UPSERT {
                    self.index.upsert(std::mem::take(&mut batch)).await?;
                }
            }
            self.index.upsert(batch).await?;
            changed += done.deletes.len() + done.clusters.len();
            self.index.delete(&done.deletes).await?;
            self.index.assign(&done.clusters).await?;
            self.index.flush().await?;
            self.catalog.settle(&done).await?;
        }
        // Optimizing rebuilds whole segments: a small edit does not pay for it.
        let worth = changed * OPTIMIZE_SHARE >= self.index.describe().await?.points.max(1);
        if worth && !applied.interrupted && progress(Progress::Optimizing).is_continue() {
            self.index.optimize().await?;
            self.index.flush().await?;
        }
        Ok(applied)
    }

    /// Whether leaves can be added: there is an embedder, or the store has no vectors.
    pub(super) async fn can_embed(&self) -> Result<bool, EngineError> {
        Ok(self.embedder.is_some() || self.index.describe().await?.dimension.is_none())
    }

    async fn pending_leaves(&self) -> Result<usize, EngineError> {
        Ok(self
            .catalog
            .list()
            .await?
            .iter()
            .filter(|entry| !entry.indexed)
            .map(|entry| entry.leaves)
            .sum())
    }

    /// The points of a document's leaves, and how many vectors were not in the cache; `None` where it was stopped.
    async fn points(
        &self,
        stored: &StoredDocument,
        steps: &mut Steps<'_>,
    ) -> Result<Option<(Vec<Point>, usize)>, EngineError> {
        let document = &stored.document;
        let texts: Vec<String> = texts_to_embed(document).collect();
        let Some((vectors, fresh)) = self.vectors(&texts, steps).await? else { return Ok(None) };
        let mut vectors = vectors.into_iter();
        let facets = facets(&stored.entry);
        let records = clustered_records(&*self.catalog, stored).await?;
        let points = records.into_iter().zip(&texts).map(|(record, text)| Point {
            record,
            facets: facets.clone(),
            dense: vectors.next(),
            lexical: self.lexical.passage(text),
        });
        Ok(Some((points.collect(), fresh)))
    }

    /// One vector a text, from the cache where it has it; none at all for a store without vectors. `None` where it was stopped.
    pub(super) async fn vectors(
        &self,
        texts: &[String],
        steps: &mut Steps<'_>,
    ) -> Result<Option<(Vec<Vec<f32>>, usize)>, EngineError> {
        let Some(embedder) = &self.embedder else {
            return Ok(steps.take(texts.len()).is_continue().then_some((Vec::new(), 0)));
        };
        let model = &embedder.describe().model;
        let hashes: Vec<[u8; 32]> = texts.iter().map(|text| hash(text)).collect();
        let cached = self.catalog.cached(model, &hashes).await?;
        let mut known: BTreeMap<[u8; 32], Vec<f32>> = BTreeMap::new();
        let mut missing: BTreeMap<[u8; 32], &str> = BTreeMap::new();
        for ((hash, text), vector) in hashes.iter().zip(texts).zip(cached) {
            match vector {
                Some(vector) => {
                    known.insert(*hash, vector);
                }
                None => {
                    missing.insert(*hash, text);
                }
            }
        }
        let fresh = missing.len();
        if steps.take(texts.len() - fresh).is_break() {
            return Ok(None);
        }
        let missing: Vec<([u8; 32], &str)> = missing.into_iter().collect();
        for step in missing.chunks(TEXTS_PER_STEP) {
            let batch: Vec<&str> = step.iter().map(|&(_, text)| text).collect();
            let vectors = embedder.embed_passages(&batch).await?;
            let made: Vec<([u8; 32], Vec<f32>)> =
                step.iter().map(|&(hash, _)| hash).zip(vectors).collect();
            self.catalog.cache(model, &made).await?;
            known.extend(made);
            if steps.take(step.len()).is_break() {
                return Ok(None);
            }
        }
        Ok(Some((hashes.iter().filter_map(|hash| known.get(hash).cloned()).collect(), fresh)))
    }
}

/// What bringing the index up to the catalog came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Applied {
    /// Texts that were embedded; cached ones are not counted.
    pub(super) embedded: usize,
    /// Whether it was stopped before its end.
    pub(super) interrupted: bool,
}

/// How far the leaves of a call are.
pub(super) struct Steps<'a> {
    pub(super) done: usize,
    pub(super) total: usize,
    pub(super) progress: OnProgress<'a>,
}

impl Steps<'_> {
    /// Counts leaves as done; whether to go on.
    fn take(&mut self, n_leaves: usize) -> ControlFlow<()> {
        self.done += n_leaves;
        (self.progress)(Progress::Indexing(self.done, self.total))
    }
}

/// The texts of a document that are embedded, and searched by words: one a leaf, in order.
pub(super) fn texts_to_embed(document: &Document) -> impl Iterator<Item = String> {
    let Document { text, title, tree, .. } = document;
    tree.leaves.iter().map(|leaf| embedded_text(text, title, tree, leaf))
}

/// What the index stores of a document's leaves, in order, under the cluster run in effect.
pub(super) async fn clustered_records(
    catalog: &dyn Catalog,
    stored: &StoredDocument,
) -> Result<Vec<LeafRecord>, CatalogError> {
    let clusters = catalog.clusters_of(&stored.leaf_ids).await?;
    let records = leaf_records(stored.entry.id, &stored.document, &stored.leaf_ids);
    Ok(records.zip(clusters).map(|(record, cluster)| LeafRecord { cluster, ..record }).collect())
}

/// What the index knows of a document.
pub(super) fn facets(entry: &DocumentEntry) -> Facets {
    let Metadata { connector, language, labels, updated, .. } = &entry.metadata;
    let everyone = labels.is_empty().then(String::new);
    Facets {
        source: entry.source.clone(),
        connector: connector.clone().unwrap_or_default(),
        language: language.clone().unwrap_or_default(),
        labels: labels.iter().cloned().chain(everyone).collect(),
        updated_at: updated.map(|updated| updated.at),
    }
}
