//! A question → the spans worth reading within a token budget, and the reason for each.
//!
//! Invariant: retrieve, collapse, merge, expand, pack, in this order; the last four are the pure core.

use super::answer::{SearchRequest, SearchResponse};
use super::inspect::count_only;
use super::log::{LogRecord, QueryLog};
use super::observe::Lists;
use super::{Engine, EngineError};
use crate::catalog::StoredDocument;
use crate::filter::Filter;
use crate::index::{Clause, Leg, SearchRequest as LegRequest};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use umbel_core::collapse::collapse;
use umbel_core::document::Library;
use umbel_core::hit::{self, Hit, RankedList, fuse};
use umbel_core::id::DocId;
use umbel_core::pack::Frame;
use umbel_core::trace::deliver;

impl Engine {
    /// Finds the spans worth reading. No hit gives an empty context, not an error.
    ///
    /// # Errors
    /// [`EngineError::NoModel`] for a store with vectors and no embedder; catalog, index and embedder as they fail.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResponse, EngineError> {
        self.search_within(request, 0, None, None).await
    }

    /// The same, where `reserve_tokens` more of the budget are kept, and something stands around each passage in the prompt. A search
    /// whose lists are observed is not logged.
    pub(super) async fn search_within(
        &self,
        request: &SearchRequest,
        reserve_tokens: usize,
        frame: Option<&Frame<'_>>,
        observed: Option<&mut Lists>,
    ) -> Result<SearchResponse, EngineError> {
        let mut clock = Clock::start();
        let settings = request.config.settings();
        let info = self.catalog.describe().await?;
        let mut warnings = self.warnings.clone();

        let filter = self.clauses(&request.filter).await?;
        if !filter.is_empty() {
            clock.lap("filter");
        }
        let lists = self.retrieve(request, &filter, &mut clock, &mut warnings).await?;
        if !filter.is_empty() && lists.iter().all(|list| list.leaves.is_empty()) {
            let entries = self.catalog.list().await?;
            if !entries.iter().any(|entry| request.filter.holds(entry)) {
                warnings.push("no document passes the filter".to_owned());
            }
        }
        let mut hits = fuse(&lists, request.config.fusion());
        let candidates = if observed.is_some() { hits.clone() } else { Vec::new() };
        hits.truncate(settings.search.k_prime);
        clock.lap("fuse");

        let documents = self.hydrate(&mut hits, info.generation, &mut warnings).await?;
        clock.lap("hydrate");

        let mut config = request.config.assemble(request.limit);
        config.pack.reserve_tokens += reserve_tokens;
        let mut list = collapse(hits, config.depth);
        if self.rerank_leaves(request, &mut list, &documents, &mut warnings).await {
            clock.lap("rerank");
        }
        let library: Library<'_> =
            documents.iter().map(|(&id, stored)| (id, &stored.document)).collect();
        let (mut context, trace) = deliver(&list, &library, &config, frame);
        clock.lap("assemble");
        if self.rerank_passages(request, &mut context, &documents, &mut warnings).await {
            clock.lap("rerank");
        }
        let compressed = self.compress(request, &mut context, &documents, &mut warnings).await;
        if compressed.is_some() {
            clock.lap("compress");
        }
        // Documents of one leaf have nothing to merge, which is no fault of the rule.
        let has_parents = list.voices.iter().any(|voice| !voice.hit.record.ancestors.is_empty());
        let merges = config.merge.enabled && has_parents;
        if merges && trace.merge.fires.is_empty() && !trace.merge.could_fire {
            warnings.push(
                "merging could not fire: no node above these leaves can meet the rule".to_owned(),
            );
        }
        warnings.extend(count_only(&request.config));

        let mut response = SearchResponse {
            query: request.query.clone(),
            also: request.also.clone(),
            budget_tokens: settings.search.budget,
            context,
            compressed,
            trace,
            documents,
            config: request.config.hash(),
            generation: info.generation,
            k_prime: settings.search.k_prime,
            timings: clock.laps,
            warnings,
        };
        match observed {
            Some(observed) => *observed = Lists { candidates, collapsed: list },
            None => self.remember(request, &mut response),
        }
        Ok(response)
    }

    /// Adds a search to the log. One that cannot be added is answered all the same.
    fn remember(&self, request: &SearchRequest, response: &mut SearchResponse) {
        let settings = &request.config.settings().log;
        if !settings.enabled {
            return;
        }
        let filtered = !request.filter.is_empty();
        let record = LogRecord::of(response, filtered, settings.queries, Timestamp::now());
        if let Err(error) = QueryLog::of(&self.layout).append(&record, settings) {
            response.warnings.push(format!("this search is not in the log: {error}"));
        }
    }

    /// The conditions of a search, as the index takes them.
    async fn clauses(&self, filter: &Filter) -> Result<Vec<Clause>, EngineError> {
        let documents =
            if filter.needs_documents() { self.catalog.list().await? } else { Vec::new() };
        Ok(filter.clauses(&documents))
    }

    /// The two legs of each question, all read to the same depth. A store without vectors has the lexical one only.
    async fn retrieve(
        &self,
        request: &SearchRequest,
        filter: &[Clause],
        clock: &mut Clock,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<RankedList>, EngineError> {
        let settings = &request.config.settings().search;
        let limit = settings.fusion_depth.max(settings.k_prime);
        let has_vectors = self.index.describe().await?.dimension.is_some();
        let lexical_weight = if has_vectors { settings.lexical_weight } else { 1.0 };
        if !has_vectors {
            warnings.push("the store has no vectors: searched by words only".to_owned());
        }
        let mut lists = Vec::new();
        for query in std::iter::once(&request.query).chain(&request.also) {
            let mut legs = Vec::new();
            if lexical_weight < 1.0 {
                legs.push((hit::Leg::Dense, 1.0 - lexical_weight, self.dense(query).await?));
                clock.lap("embed");
            }
            if lexical_weight > 0.0 {
                let words = Leg::Lexical(self.lexical.query(query));
                legs.push((hit::Leg::Lexical, lexical_weight, words));
            }
            for (kind, weight, leg) in legs {
                let asked = LegRequest { leg, limit, filter: filter.to_vec() };
                let found = self.index.search(&asked).await?;
                let leaves = found.into_iter().map(|scored| (scored.record, scored.score));
                lists.push(RankedList { leg: kind, weight, leaves: leaves.collect() });
                clock.lap(if kind == hit::Leg::Dense { "dense" } else { "lexical" });
            }
        }
        Ok(lists)
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

    /// The documents of the hits. A hit that is not in the catalog as the index knows it is left out.
    async fn hydrate(
        &self,
        hits: &mut Vec<Hit>,
        generation: u64,
        warnings: &mut Vec<String>,
    ) -> Result<BTreeMap<DocId, Arc<StoredDocument>>, EngineError> {
        let mut ids: Vec<DocId> = hits.iter().map(|hit| hit.record.doc).collect();
        ids.sort_unstable();
        ids.dedup();
        let documents = self.documents(&ids, generation).await?;
        let before = hits.len();
        hits.retain(|hit| {
            let (record, stored) = (&hit.record, documents.get(&hit.record.doc));
            let ordinal = record.ordinal as usize;
            stored.is_some_and(|stored| {
                let leaf = stored.document.tree.leaves.get(ordinal);
                stored.leaf_ids.get(ordinal) == Some(&record.leaf)
                    && leaf.is_some_and(|leaf| leaf.span == record.span && leaf.node == record.node)
            })
        });
        if hits.len() < before {
            warnings.push(format!(
                "{} hits were left out: the catalog does not hold them",
                before - hits.len()
            ));
        }
        Ok(documents)
    }
}

/// Measures steps.
struct Clock {
    at: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Clock {
    fn start() -> Clock {
        Clock { at: Instant::now(), laps: Vec::new() }
    }

    fn lap(&mut self, name: &'static str) {
        let took = self.at.elapsed();
        match self.laps.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += took,
            None => self.laps.push((name, took)),
        }
        self.at = Instant::now();
    }
}
