//! A question → its distinct clusters of duplicates, best first: legs, fusion, support, collapse, and one second search where the first
//! gave too few.
//!
//! Invariant: the list does not depend on how far it is read but at its end; no search of the index follows the second.

use super::answer::{Reading, SearchRequest};
use super::clock::Clock;
use super::{Engine, EngineError};
use crate::catalog::StoredDocument;
use crate::config::{CollapseSettings, Config};
use crate::index::{Clause, Leg, SearchRequest as LegRequest, Test};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use umbel_core::collapse::{Collapsed, Standings, Voice, collapse, repeats};
use umbel_core::hit::{self, Hit, RankedList, fuse};
use umbel_core::id::{ClusterId, DocId};
use umbel_core::support::support;

/// What was found for a question.
pub(super) struct Found {
    /// The clusters, each speaking through its best member.
    pub(super) list: Collapsed,
    /// What the legs found, fused, best first: [`Reading::fused`] leaves of the first search, then those of a second one. The
    /// first [`Reading::k_prime`] were collapsed.
    pub(super) fused: Vec<Hit>,
    /// Every cluster that the search met, also of leaves behind the candidates.
    pub(super) met: BTreeSet<ClusterId>,
    /// How far the list was read.
    pub(super) reading: Reading,
}

/// A leg that can be read to any depth.
struct Reader {
    kind: hit::Leg,
    /// Of the fused score.
    weight: f32,
    leg: Leg,
}

/// A fused list.
struct Fused {
    hits: Vec<Hit>,
    /// Whether every leaf that matches is in it.
    is_whole: bool,
}

impl Engine {
    /// Finds up to `search.depth` distinct clusters. Where `search.k_prime` leaves hold fewer and there may be more, the index is
    /// searched once more, further, for leaves of other clusters.
    pub(super) async fn find(
        &self,
        request: &SearchRequest,
        filter: &[Clause],
        clock: &mut Clock,
        warnings: &mut Vec<String>,
    ) -> Result<Found, EngineError> {
        let settings = request.config.settings();
        let depth = settings.search.depth;
        let readers = self.readers(request, clock, warnings).await?;
        let mut k_prime = settings.search.k_prime;
        let mut limit = settings.search.fusion_depth.max(k_prime);
        let mut fused = self.fused(&readers, limit, filter, &request.config, clock).await?;
        let mut reading = Reading {
            depth,
            fused: fused.hits.len(),
            repeats: repeats(&fused.hits),
            ..Reading::default()
        };
        let mut list = head(&fused.hits, k_prime, depth);

        let is_more = !fused.is_whole || fused.hits.len() > k_prime;
        reading.retry = list.voices.len() < depth && is_more && settings.collapse.retry_factor > 0;
        if reading.retry {
            k_prime *= settings.collapse.retry_factor;
            limit = limit.max(k_prime);
            let known = list.voices.iter().map(|voice| voice.hit.record.cluster).collect();
            let others = Clause { test: Test::Clusters(known), negated: true };
            let filter = [filter, &[others]].concat();
            let further = self.fused(&readers, limit, &filter, &request.config, clock).await?;
            hit::extend(&mut fused.hits, further.hits);
            fused.is_whole = further.is_whole;
            list = head(&fused.hits, k_prime, depth);
        }
        reading.k_prime = k_prime;
        reading.is_whole = fused.is_whole;
        let met = fused.hits.iter().map(|hit| hit.record.cluster).collect();
        clock.lap("collapse");
        Ok(Found { list, fused: fused.hits, met, reading })
    }

    /// The legs of each question. A store without vectors has the lexical ones only.
    async fn readers(
        &self,
        request: &SearchRequest,
        clock: &mut Clock,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Reader>, EngineError> {
        let has_vectors = self.index.describe().await?.dimension.is_some();
        let lexical_weight =
            if has_vectors { request.config.settings().search.lexical_weight } else { 1.0 };
        if !has_vectors {
            warnings.push("the store has no vectors: searched by words only".to_owned());
        }
        let mut readers = Vec::new();
        for query in std::iter::once(&request.query).chain(&request.also) {
            if lexical_weight < 1.0 {
                let (kind, weight) = (hit::Leg::Dense, 1.0 - lexical_weight);
                readers.push(Reader { kind, weight, leg: self.dense(query).await? });
                clock.lap("embed");
            }
            if lexical_weight > 0.0 {
                let (kind, leg) = (hit::Leg::Lexical, Leg::Lexical(self.lexical.query(query)));
                readers.push(Reader { kind, weight: lexical_weight, leg });
            }
        }
        Ok(readers)
    }

    async fn dense(&self, query: &str) -> Result<Leg, EngineError> {
        match &self.embedder {
            Some(embedder) => Ok(Leg::Dense(embedder.embed_query(query).await?)),
            None => {
                let info = self.catalog.describe().await?;
                let model = info.settings.get("model").cloned().unwrap_or_default();
                Err(EngineError::NoModel { model })
            }
        }
    }

    /// Reads each leg to the same depth, fuses what they find, and has it support itself.
    async fn fused(
        &self,
        readers: &[Reader],
        limit: usize,
        filter: &[Clause],
        config: &Config,
        clock: &mut Clock,
    ) -> Result<Fused, EngineError> {
        let mut lists = Vec::new();
        for Reader { kind, weight, leg } in readers {
            let asked = LegRequest { leg: leg.clone(), limit, filter: filter.to_vec() };
            let found = self.index.search(&asked).await?;
            let leaves = found.into_iter().map(|scored| (scored.record, scored.score));
            lists.push(RankedList { leg: *kind, weight: *weight, leaves: leaves.collect() });
            clock.lap(if *kind == hit::Leg::Dense { "dense" } else { "lexical" });
        }
        let is_whole = lists.iter().all(|list| list.leaves.len() < limit);
        let mut hits = fuse(&lists, config.fusion());
        support(&mut hits, config.support());
        clock.lap("fuse");
        Ok(Fused { hits, is_whole })
    }

    /// The documents of a list's leaves. A leaf that is not in the catalog as the index knows it is left out.
    pub(super) async fn hydrate(
        &self,
        list: &mut Collapsed,
        generation: u64,
        warnings: &mut Vec<String>,
    ) -> Result<BTreeMap<DocId, Arc<StoredDocument>>, EngineError> {
        let n_members = |list: &Collapsed| list.voices.iter().map(Voice::seen).sum::<usize>();
        let members = list.voices.iter().flat_map(Voice::members);
        let ids: BTreeSet<DocId> = members.map(|hit| hit.record.doc).collect();
        let ids: Vec<DocId> = ids.into_iter().collect();
        let documents = self.documents(&ids, generation).await?;
        let before = n_members(list);
        list.retain(|hit| {
            let (record, stored) = (&hit.record, documents.get(&hit.record.doc));
            let ordinal = record.ordinal as usize;
            stored.is_some_and(|stored| {
                let leaf = stored.document.tree.leaves.get(ordinal);
                stored.leaf_ids.get(ordinal) == Some(&record.leaf)
                    && leaf.is_some_and(|leaf| leaf.span == record.span && leaf.node == record.node)
            })
        });
        let left_out = before - n_members(list);
        if left_out > 0 {
            warnings.push(format!("{left_out} hits were left out: the catalog does not hold them"));
        }
        Ok(documents)
    }
}

/// The clusters of the first `k_prime` leaves.
fn head(hits: &[Hit], k_prime: usize, depth: usize) -> Collapsed {
    collapse(hits.iter().take(k_prime).cloned().collect(), depth)
}

/// Where documents stand among copies.
pub(super) fn standings(
    documents: &BTreeMap<DocId, Arc<StoredDocument>>,
    settings: &CollapseSettings,
) -> Standings {
    let standing = |(&id, stored): (&DocId, &Arc<StoredDocument>)| {
        let metadata = &stored.entry.metadata;
        let updated_at = metadata.updated.map(|updated| updated.at);
        (id, settings.standing(metadata.connector.as_deref(), updated_at))
    };
    documents.iter().map(standing).collect()
}
