//! A question → the spans worth reading within a token budget, and the reason for each.
//!
//! Invariant: retrieve, support, collapse, merge, expand, pack, in this order; the last four are the pure core.

use super::answer::{SearchRequest, SearchResponse, Shortage};
use super::clock::Clock;
use super::cursor::Cursor;
use super::inspect::count_only;
use super::log::{LogRecord, QueryLog};
use super::observe::Lists;
use super::retrieve::{Found, standings};
use super::{Engine, EngineError};
use crate::catalog::Member;
use crate::filter::Filter;
use crate::index::{Clause, Test};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use umbel_core::collapse::Collapsed;
use umbel_core::document::Library;
use umbel_core::id::ClusterId;
use umbel_core::pack::{Context, Frame};
use umbel_core::trace::{AssembleConfig, Trace, deliver};

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
        let earlier = self.resume(request, &info, &mut warnings)?;

        let filter = self.clauses(request, &earlier).await?;
        if !filter.is_empty() {
            clock.lap("filter");
        }
        let Found { mut list, fused: mut candidates, met, reading } =
            self.find(request, &filter, &mut clock, &mut warnings).await?;
        let of_first = candidates.iter().take(reading.fused).filter(|_| observed.is_some());
        let of_first = of_first.cloned().collect();
        candidates.truncate(reading.k_prime);
        if candidates.is_empty() && !request.filter.is_empty() {
            let entries = self.catalog.list().await?;
            if !entries.iter().any(|entry| request.filter.holds(entry)) {
                warnings.push("no document passes the filter".to_owned());
            }
        }
        let documents = self.hydrate(&mut list, info.generation, &mut warnings).await?;
        list.choose(settings.collapse.policy(), &standings(&documents, &settings.collapse));
        clock.lap("hydrate");

        let mut config = request.config.assemble(request.limit);
        config.pack.reserve_tokens += reserve_tokens;
        if self.rerank_leaves(request, &mut list, &documents, &mut warnings).await {
            clock.lap("rerank");
        }
        let library: Library<'_> =
            documents.iter().map(|(&id, stored)| (id, &stored.document)).collect();
        let delivered = earlier.delivered(&documents);
        let (mut context, trace) = deliver(&list, &library, &delivered, &config, frame);
        clock.lap("assemble");
        if self.rerank_passages(request, &mut context, &documents, &mut warnings).await {
            clock.lap("rerank");
        }
        let compressed = self.compress(request, &mut context, &documents, &mut warnings).await;
        if compressed.is_some() {
            clock.lap("compress");
        }
        let shortage = Shortage::of(&request.query, &list, &reading);
        warnings.extend(merge_warning(&list, &trace, &config));
        warnings.extend(count_only(&request.config));
        let lacks = shortage.as_ref().filter(|_| context.dropped.is_empty());
        warnings.extend(lacks.map(ToString::to_string));

        let clusters = self.clusters(&context, &request.filter).await?;
        let mut response = SearchResponse {
            query: request.query.clone(),
            also: request.also.clone(),
            budget_tokens: settings.search.budget,
            context,
            compressed,
            trace,
            candidates,
            reading,
            shortage,
            total_clusters: earlier.n_met(&met),
            documents,
            clusters,
            cluster_run: info.cluster_run,
            config: request.config.hash(),
            generation: info.generation,
            timings: Vec::new(),
            warnings,
            cursor: None,
        };
        response.cursor = self.next_page(earlier, &response, &list, &met).await?;
        clock.lap("cursor");
        response.timings = clock.laps;
        match observed {
            Some(observed) => *observed = Lists { candidates: of_first, collapsed: list },
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
        let record = LogRecord::of(response, filtered, settings, Timestamp::now());
        if let Err(error) = QueryLog::of(&self.layout).append(&record, settings) {
            response.warnings.push(format!("this search is not in the log: {error}"));
        }
    }

    /// The clusters of the passages' best evidence, with the members that a filter on labels lets the asker know of.
    async fn clusters(
        &self,
        context: &Context,
        filter: &Filter,
    ) -> Result<BTreeMap<ClusterId, Vec<Member>>, EngineError> {
        let best = context.passages.iter().filter_map(|passage| passage.evidence.first());
        let clustered = best.filter(|evidence| evidence.cluster.0 != evidence.leaf.into());
        let ids: BTreeSet<ClusterId> = clustered.map(|evidence| evidence.cluster.0).collect();
        let ids: Vec<ClusterId> = ids.into_iter().collect();
        let mut members = self.catalog.members(&ids).await?;
        for members in &mut members {
            members.retain(|member| filter.may_name(&member.document));
        }
        Ok(ids.into_iter().zip(members).collect())
    }

    /// The conditions of a search, as the index takes them; what earlier pages delivered is left out.
    pub(super) async fn clauses(
        &self,
        request: &SearchRequest,
        earlier: &Cursor,
    ) -> Result<Vec<Clause>, EngineError> {
        let filter = &request.filter;
        let documents =
            if filter.needs_documents() { self.catalog.list().await? } else { Vec::new() };
        let mut clauses = filter.clauses(&documents);
        if !earlier.clusters.is_empty() {
            let known = earlier.clusters.iter().copied().collect();
            clauses.push(Clause { test: Test::Clusters(known), negated: true });
        }
        Ok(clauses)
    }
}

/// What to know where merging was wanted and could not be.
fn merge_warning(list: &Collapsed, trace: &Trace, config: &AssembleConfig) -> Option<String> {
    // Documents of one leaf have nothing to merge, which is no fault of the rule.
    let has_parents = list.voices.iter().any(|voice| !voice.hit.record.ancestors.is_empty());
    let merges = config.merge.enabled && has_parents;
    (merges && trace.merge.fires.is_empty() && !trace.merge.could_fire)
        .then(|| "merging could not fire: no node above these leaves can meet the rule".to_owned())
}
