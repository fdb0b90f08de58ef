//! `umbel eval run`: judged queries → a file with what was found and delivered.

use super::replay::outcome;
use super::{allowed, documents, hash, place, read_judgments, refused, score};
use crate::args::Args;
use crate::args::eval::EvalRun;
use crate::commands::{configuration, open_for_search};
use crate::interrupt;
use crate::output::{Output, counted, usage};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use umbel::catalog::{ClusterRun, DocumentEntry, StoredDocument};
use umbel::config::{Config, RerankBackend};
use umbel::core::document::Library;
use umbel::core::hit::LeafRecord;
use umbel::core::id::{ClusterId, DocId, LeafId};
use umbel::dedup::Method;
use umbel::engine::answer::SearchRequest;
use umbel::engine::inspect::Inspector;
use umbel::engine::observe::Observed;
use umbel::engine::{Engine, EngineError};
use umbel_eval::judgment::Judgment;
use umbel_eval::replay::{Ranked, delivery};
use umbel_eval::run::{
    Begun, Candidate, Clusters, Entry, Identity, JudgedLeaf, RUN_VERSION, Run, Spot, Unit, begun,
    parse,
};

/// Different warnings that are shown of a run.
const WARNINGS: usize = 5;

pub(super) async fn run(args: &Args, run: &EvalRun, output: &Output) -> anyhow::Result<u8> {
    let (text, judgments) = read_judgments(&run.queries)?;
    let config = configuration(args, &[])?;
    let engine = open_for_search(args, &config, output).await?;
    let inspector = Inspector::open(&args.store)?;
    let names: BTreeSet<&str> =
        judgments.iter().flat_map(|j| &j.relevant).map(|r| r.doc.as_str()).collect();
    let judged_documents = documents(&inspector, &names).await?;
    let checked = place(&judgments, &judged_documents);
    allowed(&run.queries, &checked, run.allow_unjudged, output)?;
    let identity = identity(&inspector, &config, &text, &checked).await?;
    let Begun { bytes, entries: done } = beginning(run, &identity)?;
    if done > 0 && done < checked.judged.len() {
        output.warning(format!("going on behind {done} of {} queries", checked.judged.len()));
    }
    let catalog: BTreeMap<DocId, DocumentEntry> =
        inspector.list().await?.into_iter().map(|entry| (entry.id, entry)).collect();
    let asking = Asking {
        engine: &engine,
        inspector: &inspector,
        config: &config,
        catalog,
        judged_documents,
    };
    let mut file = fs_err::OpenOptions::new().create(true).append(true).open(&run.out)?;
    file.set_len(bytes as u64)?;
    if bytes == 0 {
        writeln!(file, "{}", serde_json::to_string(&identity)?)?;
    }
    interrupt::listen()?;
    let bar = output.progress();
    for (index, judgment) in checked.judged.iter().enumerate().skip(done) {
        if bar.step("asking", index, checked.judged.len()).is_break() {
            return Err(EngineError::Interrupted.into());
        }
        let mut line = serde_json::to_vec(&asking.ask(judgment, run.latency).await?)?;
        line.push(b'\n');
        file.write_all(&line)?;
    }
    drop(bar);
    let finished = parse(&fs_err::read_to_string(&run.out)?)
        .map_err(|error| refused(&run.out, &error, error.hint()))?;
    warn(&finished, output);
    score::print(&finished, &[], score::FEW_RESAMPLES, output)
}

/// Says of how many queries the search warned, each warning once.
fn warn(run: &Run, output: &Output) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for warning in run.entries.iter().flat_map(|entry| &entry.warnings) {
        *counts.entry(warning).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let of = run.entries.len();
    for (warning, n) in counts.iter().take(WARNINGS) {
        output.warning(format!("{n} of {}: {warning}", counted(of, "query", "queries")));
    }
    if counts.len() > WARNINGS {
        let more = counted(counts.len() - WARNINGS, "other warning", "other warnings");
        output.warning(format!("{more}: `warnings` of the run's lines"));
    }
}

/// What the run is made of.
async fn identity(
    inspector: &Inspector,
    config: &Config,
    judgments: &str,
    checked: &umbel_eval::judgment::Checked<'_>,
) -> anyhow::Result<Identity> {
    let store = inspector.identity().await?;
    let settings = config.settings();
    Ok(Identity {
        run: RUN_VERSION,
        code: env!("CARGO_PKG_VERSION").to_owned(),
        data: store.data,
        index: store.index,
        model: store.model,
        queries: hash(judgments),
        judged: checked.judged.len(),
        unjudged: checked.unjudged.len(),
        clusters: store.cluster_run.map(|run| clusters(&run)).transpose()?,
        config: config.hash(),
        settings: config.to_toml(),
        candidates: settings.search.fusion_depth.max(settings.search.k_prime),
        depth: settings.search.depth,
        replays: settings.rerank.backend == RerankBackend::None && settings.search.keep >= 1.0,
        unit: Unit::Leaf,
    })
}

/// What a run keeps of a cluster run.
fn clusters(run: &ClusterRun) -> anyhow::Result<Clusters> {
    let method: Method = serde_json::from_str(&run.method)?;
    Ok(Clusters { run: run.id.to_string(), method: method.to_string() })
}

/// How much of the run is in its file.
fn beginning(run: &EvalRun, identity: &Identity) -> anyhow::Result<Begun> {
    let text = match fs_err::read_to_string(&run.out) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(usage(error.to_string(), "name another file with --out")),
    };
    begun(&text, identity).map_err(|error| {
        refused(&run.out, &error, "name another file with --out, or remove this one")
    })
}

/// What queries are asked of.
struct Asking<'a> {
    engine: &'a Engine,
    inspector: &'a Inspector,
    config: &'a Config,
    catalog: BTreeMap<DocId, DocumentEntry>,
    judged_documents: BTreeMap<String, StoredDocument>,
}

impl Asking<'_> {
    async fn ask(&self, judgment: &Judgment, latency: bool) -> anyhow::Result<Entry> {
        let request = SearchRequest::new(&judgment.query, self.config.clone());
        let Observed { response, lists } = self.engine.observe(&request).await?;

        let judged: Vec<&StoredDocument> =
            judgment.relevant.iter().filter_map(|r| self.judged_documents.get(&r.doc)).collect();
        let found = lists.candidates.iter().map(|hit| hit.record.doc);
        let ids: BTreeSet<DocId> = found
            .chain(judged.iter().map(|stored| stored.entry.id))
            .filter(|id| self.catalog.contains_key(id))
            .collect();
        let places: BTreeMap<DocId, u32> = ids.iter().copied().zip(0..).collect();
        let candidates: Vec<Candidate> = lists
            .candidates
            .iter()
            .filter_map(|hit| Some(Candidate::of(hit, *places.get(&hit.record.doc)?)))
            .collect();
        let ranked = Ranked::of(lists.collapsed, &candidates);
        let library: Library<'_> =
            response.documents.iter().map(|(&id, stored)| (id, &stored.document)).collect();
        let made = (&response.context, &response.trace);
        let mut entry = Entry {
            id: judgment.id.clone(),
            query: judgment.query.clone(),
            answers: judgment.answers.clone(),
            group: judgment.group.clone(),
            docs: ids.iter().filter_map(|id| Some(self.catalog.get(id)?.name.clone())).collect(),
            relevant: judgment.relevant.clone(),
            leaves: self.judged_leaves(judgment, &places).await?,
            candidates,
            delivery: delivery(ranked.order, &library, made, |id| places.get(&id).copied()),
            outcome: None,
            warnings: response.warnings.clone(),
            took_us: latency
                .then(|| response.timings.iter().map(|(_, took)| took.as_micros() as u64).sum()),
        };
        entry.outcome = outcome(&entry, &entry.delivery);
        Ok(entry)
    }

    /// The leaves of the judged documents that overlap or touch the evidence, with their clusters and the copies of them in
    /// documents of the entry.
    async fn judged_leaves(
        &self,
        judgment: &Judgment,
        places: &BTreeMap<DocId, u32>,
    ) -> anyhow::Result<Vec<JudgedLeaf>> {
        let names: BTreeSet<&str> = judgment.relevant.iter().map(|r| r.doc.as_str()).collect();
        let (mut ids, mut spots) = (Vec::new(), Vec::new());
        for stored in names.into_iter().filter_map(|name| self.judged_documents.get(name)) {
            let Some(&doc) = places.get(&stored.entry.id) else { continue };
            for (leaf, id) in stored.document.tree.leaves.iter().zip(&stored.leaf_ids) {
                let span = leaf.span;
                let mut of_doc = judgment.relevant.iter().filter(|r| r.doc == stored.entry.name);
                if of_doc.any(|r| span.start <= r.end && r.start <= span.end) {
                    ids.push(*id);
                    spots.push(Spot { doc, span });
                }
            }
        }
        let records = self.engine.leaf_records(&ids).await?;
        let clusters: Vec<ClusterId> = records
            .into_iter()
            .zip(&ids)
            .map(|(record, &id)| record.map_or_else(|| id.into(), |record| record.cluster))
            .collect();
        let copies = self.copies(&ids, &clusters, places).await?;
        let leaves = spots.into_iter().zip(clusters).zip(copies);
        let leaf = |((spot, cluster), copies): ((Spot, ClusterId), Vec<Spot>)| JudgedLeaf {
            spot,
            cluster: cluster.to_string(),
            copies,
        };
        Ok(leaves.map(leaf).collect())
    }

    /// The other members of the leaves' clusters, where they stand in documents of the entry.
    async fn copies(
        &self,
        leaves: &[LeafId],
        clusters: &[ClusterId],
        places: &BTreeMap<DocId, u32>,
    ) -> anyhow::Result<Vec<Vec<Spot>>> {
        let mut copies = Vec::with_capacity(leaves.len());
        for (leaf, members) in leaves.iter().zip(self.inspector.cluster_members(clusters).await?) {
            let others = members
                .iter()
                .filter(|member| member.leaf != *leaf && places.contains_key(&member.document.id));
            let others: Vec<LeafId> = others.map(|member| member.leaf).collect();
            let records = self.engine.leaf_records(&others).await?;
            let spot = |record: LeafRecord| {
                Some(Spot { doc: *places.get(&record.doc)?, span: record.span })
            };
            copies.push(records.into_iter().flatten().filter_map(spot).collect());
        }
        Ok(copies)
    }
}
