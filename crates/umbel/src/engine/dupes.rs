//! A store → clusters of duplicates, marked in its catalog and in its index.
//!
//! Invariant: nothing is deleted, and a run that is reverted leaves no trace in the index. A run over what is new gives what a
//! run over everything gives: old pairs are kept, and clusters follow from the pairs.

mod compared;
pub mod sample;
pub mod view;

use super::{Engine, EngineError, OnProgress, Progress};
use crate::catalog::{ClusterRun, NewRun, RunId, StoredPair, StoredSketch};
use crate::dedup::cluster::Pair;
use crate::dedup::sketch::Sketch;
use crate::dedup::{Cluster, Method, Wording, clusters, nodes};
use jiff::Timestamp;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::document::Document;
use umbel_core::id::{ClusterId, DocId, LeafId};

/// Documents that are read together.
const DOCUMENTS_PER_LOAD: usize = 100;

/// The sketches of a store's leaves.
struct Sketches {
    /// By leaf.
    leaves: Vec<(LeafId, Sketch)>,
    /// The document of each leaf.
    docs: BTreeMap<LeafId, DocId>,
    /// Leaves that were compared with all others before.
    compared: BTreeSet<LeafId>,
}

impl Engine {
    /// Looks for duplicates and marks them. What was compared in a run with the same method is not compared again.
    ///
    /// # Errors
    /// [`EngineError::NoVectors`] and [`EngineError::NoModel`] where vectors are asked for; [`EngineError::Interrupted`],
    /// with the run before still in effect; catalog and index as they fail.
    pub async fn mark_duplicates(
        &self,
        method: Method,
        progress: OnProgress<'_>,
    ) -> Result<ClusterRun, EngineError> {
        self.can_compare(&method).await?;
        let rule = serde_json::to_string(&method).expect("a method is plain data");
        let sketches = self.sketches(&rule, progress).await?;
        let nodes = nodes(&sketches.leaves, &method);
        let pairs = match method {
            Method::Exact => Vec::new(),
            Method::Near { .. } | Method::Semantic { .. } => {
                let is_new =
                    |leaves: &[LeafId]| leaves.iter().all(|l| !sketches.compared.contains(l));
                let found =
                    self.similar(&nodes, &sketches.docs, &is_new, &method, progress).await?;
                let wording = |at: usize| nodes.get(at).map(|node| node.wording);
                let pairs = found.iter().filter_map(|found| {
                    let similarity = method.accepts(&found.likeness, found.cosine)?;
                    let (a, b) = (wording(found.likeness.a)?, wording(found.likeness.b)?);
                    let Pair { a, b, similarity } = Pair::new(a, b, similarity);
                    Some(StoredPair { a, b, similarity })
                });
                self.catalog.compared(&rule, &pairs.collect::<Vec<_>>()).await?;
                self.pairs(&rule).await?
            }
        };
        let found = clusters(&nodes, &pairs);
        let run = NewRun {
            method: rule,
            at: Timestamp::now().as_second(),
            leaves: sketches.leaves.len(),
            clusters: found.iter().map(|cluster| with_docs(cluster, &sketches.docs)).collect(),
        };
        let run = self.catalog.mark(run).await?;
        self.apply_pending(progress).await?;
        Ok(run)
    }

    /// Takes a run out of effect, and returns the one that is in effect now.
    ///
    /// # Errors
    /// [`EngineError::UnknownRun`] for one that is not kept or was reverted before; catalog and index as they fail.
    pub async fn revert_duplicates(
        &self,
        run: RunId,
        progress: OnProgress<'_>,
    ) -> Result<Option<RunId>, EngineError> {
        if !self.catalog.revert(run).await? {
            let runs = self.catalog.runs().await?;
            let known = runs.iter().filter(|run| !run.reverted).map(|run| run.id).collect();
            return Err(EngineError::UnknownRun { run, known });
        }
        self.apply_pending(progress).await?;
        Ok(self.catalog.describe().await?.cluster_run)
    }

    /// Whether what a method looks at is there.
    async fn can_compare(&self, method: &Method) -> Result<(), EngineError> {
        if !matches!(method, Method::Semantic { .. }) {
            return Ok(());
        }
        if self.index.describe().await?.dimension.is_none() {
            return Err(EngineError::NoVectors);
        }
        if self.embedder.is_none() {
            let info = self.catalog.describe().await?;
            let model = info.settings.get("model").cloned().unwrap_or_default();
            return Err(EngineError::NoModel { model });
        }
        Ok(())
    }

    /// The pairs that are kept under a rule.
    async fn pairs(&self, rule: &str) -> Result<Vec<Pair<Wording>>, EngineError> {
        let stored = self.catalog.pairs(rule).await?.into_iter();
        Ok(stored.map(|StoredPair { a, b, similarity }| Pair { a, b, similarity }).collect())
    }

    /// The sketches of all leaves; those that are missing are made and kept.
    async fn sketches(
        &self,
        rule: &str,
        progress: OnProgress<'_>,
    ) -> Result<Sketches, EngineError> {
        let mut kept: BTreeMap<LeafId, (DocId, bool, Sketch)> = BTreeMap::new();
        let mut n_kept: BTreeMap<DocId, usize> = BTreeMap::new();
        for StoredSketch { leaf, doc, sketch, compared, .. } in self.catalog.sketches(rule).await? {
            if let Some(sketch) = Sketch::decode(&sketch) {
                *n_kept.entry(doc).or_default() += 1;
                kept.insert(leaf, (doc, compared, sketch));
            }
        }
        let entries = self.catalog.list().await?;
        let lacks = entries.iter().filter(|e| n_kept.get(&e.id).copied().unwrap_or(0) < e.leaves);
        let lacks: Vec<DocId> = lacks.map(|entry| entry.id).collect();
        for (at, some) in lacks.chunks(DOCUMENTS_PER_LOAD).enumerate() {
            if progress(Progress::Reading(at * DOCUMENTS_PER_LOAD, lacks.len())).is_break() {
                return Err(EngineError::Interrupted);
            }
            let documents = self.catalog.load(some).await?;
            let leaves: Vec<_> = documents
                .iter()
                .flatten()
                .flat_map(|stored| {
                    let Document { tree, .. } = &stored.document;
                    let leaves = tree.leaves.iter().zip(&stored.leaf_ids);
                    leaves.map(|(leaf, &id)| (stored.entry.id, id, &stored.document, leaf))
                })
                .collect();
            let made: Vec<(LeafId, DocId, Sketch)> = leaves
                .par_iter()
                .map(|&(doc, id, document, leaf)| (id, doc, Sketch::of_leaf(document, leaf)))
                .collect();
            let stored: Vec<StoredSketch> = made
                .iter()
                .map(|(leaf, doc, sketch)| StoredSketch {
                    leaf: *leaf,
                    doc: *doc,
                    words: sketch.key,
                    sketch: sketch.encode(),
                    compared: false,
                })
                .collect();
            self.catalog.sketch(&stored).await?;
            kept.extend(made.into_iter().map(|(leaf, doc, sketch)| (leaf, (doc, false, sketch))));
        }
        let compared = kept.iter().filter(|(_, (_, compared, _))| *compared);
        Ok(Sketches {
            compared: compared.map(|(leaf, _)| *leaf).collect(),
            docs: kept.iter().map(|(leaf, (doc, ..))| (*leaf, *doc)).collect(),
            leaves: kept.into_iter().map(|(leaf, (_, _, sketch))| (leaf, sketch)).collect(),
        })
    }
}

/// A cluster with the document of each member.
fn with_docs(
    cluster: &Cluster,
    docs: &BTreeMap<LeafId, DocId>,
) -> (ClusterId, Vec<(LeafId, DocId)>) {
    let members = cluster.members.iter().filter_map(|leaf| Some((*leaf, *docs.get(leaf)?)));
    (cluster.id, members.collect())
}
