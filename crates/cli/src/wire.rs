//! Answers of the engine → the JSON that every door prints.
//!
//! Invariant: fields may be added, never renamed.

use serde::Serialize;
use std::collections::BTreeMap;
use umbel::catalog::StoredDocument;
use umbel::core::document::Document;
use umbel::core::hit::Scores;
use umbel::core::id::DocId;
use umbel::core::merge::{BlockedBy, Evidence, ItemKind, NodeRef, Share};
use umbel::core::pack::{DropReason, Passage};
use umbel::core::span::{Span, slice};
use umbel::core::tree::NodeKind;
use umbel::engine::ingest::{IngestReport, Plan, Skipped};
use umbel::engine::inspect::{Distribution, Histogram, Sample, Stats};
use umbel::engine::search::SearchResponse;
use umbel::metadata::{Metadata, show_date};

#[derive(Debug, Serialize)]
pub(crate) struct SpanJson {
    start: usize,
    end: usize,
}

impl From<Span> for SpanJson {
    fn from(span: Span) -> SpanJson {
        SpanJson { start: span.start, end: span.end }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct SearchJson {
    query: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
    context: ContextJson,
    trace: TraceJson,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
struct ContextJson {
    budget: usize,
    tokens: usize,
    passages: Vec<PassageJson>,
    dropped: Vec<DroppedJson>,
}

#[derive(Debug, Serialize)]
struct PassageJson {
    rank: usize,
    doc: String,
    title: String,
    heading_path: Vec<String>,
    headings: Vec<String>,
    span: SpanJson,
    tokens: usize,
    kind: &'static str,
    text: String,
    page: Option<u32>,
    page_end: Option<u32>,
    anchor: Option<String>,
    line: usize,
    #[serde(flatten)]
    metadata: MetadataJson,
    prefix: Vec<SpanJson>,
    kept: Vec<SpanJson>,
    rendered: String,
    scores: ScoresJson,
    score_from: &'static str,
    evidence: Vec<EvidenceJson>,
    cluster: ClusterJson,
}

/// What is known of a document besides its text.
#[derive(Debug, Serialize)]
pub(crate) struct MetadataJson {
    connector: Option<String>,
    url: Option<String>,
    updated_at: Option<String>,
    /// Which of several dates it is: `rule`, `front matter`, `format`, `git` or `file`.
    updated_from: Option<&'static str>,
    labels: Vec<String>,
    language: Option<String>,
}

impl From<&Metadata> for MetadataJson {
    fn from(metadata: &Metadata) -> MetadataJson {
        let Metadata { connector, url, updated, labels, language } = metadata.clone();
        MetadataJson {
            connector,
            url,
            updated_at: updated.map(|updated| show_date(updated.at)),
            updated_from: updated.map(|updated| updated.from.name()),
            labels: labels.into_iter().collect(),
            language,
        }
    }
}

#[derive(Debug, Serialize)]
struct ScoresJson {
    dense: Option<f32>,
    lexical: Option<f32>,
    fused: f32,
    rerank: Option<f32>,
    #[serde(rename = "final")]
    final_score: f32,
}

#[derive(Debug, Serialize)]
struct EvidenceJson {
    leaf: String,
    span: SpanJson,
    heading_path: Vec<String>,
    scores: ScoresJson,
}

#[derive(Debug, Serialize)]
struct ClusterJson {
    id: String,
    seen: usize,
    in_index: usize,
    also_in: Vec<AlsoInJson>,
}

#[derive(Debug, Serialize)]
struct AlsoInJson {
    doc: String,
    url: Option<String>,
}

#[derive(Debug, Serialize)]
struct DroppedJson {
    doc: String,
    span: SpanJson,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct TraceJson {
    config: String,
    generation: u64,
    cluster_run: Option<String>,
    k_prime: usize,
    retrieved: usize,
    examined: usize,
    shortfall: usize,
    retry: bool,
    fired: bool,
    could_fire: bool,
    fires: Vec<FireJson>,
    near_misses: Vec<ShareJson>,
    blocked: Vec<BlockedJson>,
    crops: Vec<CropJson>,
    counts: CountsJson,
    timings_ms: serde_json::Map<String, serde_json::Value>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ShareJson {
    node: String,
    level: Option<&'static str>,
    matched: usize,
    of: usize,
    ratio: f64,
    wanted: f64,
}

#[derive(Debug, Serialize)]
struct FireJson {
    #[serde(flatten)]
    share: ShareJson,
    tokens_before: usize,
    tokens_after: usize,
    absorbed_by: Option<String>,
}

#[derive(Debug, Serialize)]
struct BlockedJson {
    #[serde(flatten)]
    share: ShareJson,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct CropJson {
    node: String,
    tokens: usize,
    window: SpanJson,
}

#[derive(Debug, Serialize)]
struct CountsJson {
    children_retrieved: usize,
    after_merge: usize,
    parents_substituted: usize,
    final_context: usize,
}

/// The word for what a passage is.
pub(crate) fn kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Leaf => "leaf",
        ItemKind::Merged => "merged",
        ItemKind::Parent => "parent",
        ItemKind::Siblings => "siblings",
        ItemKind::Window => "window",
        ItemKind::Cropped => "cropped",
    }
}

/// The word for a node's place.
pub(crate) fn level(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Root => "root",
        NodeKind::Section => "section",
        NodeKind::Part => "part",
        NodeKind::Leaf => "leaf",
    }
}

/// Why a node was not merged.
pub(crate) fn blocked(reason: BlockedBy) -> &'static str {
    match reason {
        BlockedBy::MaxMergeTokens => "max_merge_tokens",
        BlockedBy::Budget => "budget",
        BlockedBy::Root => "merge_root",
        BlockedBy::ParentMissing => "parent missing",
        BlockedBy::Rival => "rival",
    }
}

/// Why something was not delivered.
pub(crate) fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Budget => "budget",
        DropReason::Limit => "limit",
        DropReason::DocumentMissing => "document missing",
    }
}

/// A document's name, or its number where the catalog lost it.
pub(crate) fn doc_name(response: &SearchResponse, doc: DocId) -> String {
    response
        .documents
        .get(&doc)
        .map_or_else(|| format!("#{}", doc.0), |stored| stored.entry.name.clone())
}

/// A node as a citation: `guide/billing.md:120..980`.
pub(crate) fn node_name(response: &SearchResponse, node: NodeRef, span: Option<Span>) -> String {
    let stored = response.documents.get(&node.doc);
    let span = span.or_else(|| stored?.document.tree.node(node.node).map(|n| n.span));
    match span {
        Some(span) => format!("{}:{span}", doc_name(response, node.doc)),
        None => format!("{}#{}", doc_name(response, node.doc), node.node),
    }
}

/// The headings of a passage: those above it, and those inside it.
pub(crate) fn headings(document: &Document, passage: &Passage) -> (Vec<String>, Vec<String>) {
    let tree = &document.tree;
    let path = tree.node(passage.node).map(|node| node.path.clone()).unwrap_or_default();
    let inside = tree.headings.iter().enumerate().filter(|(at, heading)| {
        passage.span.contains(heading.span) && !path.contains(&(*at as u32))
    });
    (tree.heading_texts(&path), inside.map(|(_, heading)| heading.text.clone()).collect())
}

fn scores(scores: Scores) -> ScoresJson {
    let Scores { dense, lexical, fused, rerank } = scores;
    ScoresJson { dense, lexical, fused, rerank, final_score: scores.final_score() }
}

fn evidence(stored: &StoredDocument, evidence: &Evidence) -> EvidenceJson {
    let tree = &stored.document.tree;
    let leaf = tree.leaves_in(evidence.span).next().and_then(|at| tree.leaves.get(at));
    EvidenceJson {
        leaf: evidence.leaf.to_string(),
        span: evidence.span.into(),
        heading_path: leaf.map(|leaf| tree.heading_texts(&leaf.path)).unwrap_or_default(),
        scores: scores(evidence.scores),
    }
}

fn passage(stored: &StoredDocument, passage: &Passage, rank: usize) -> PassageJson {
    let document = &stored.document;
    let (heading_path, headings) = headings(document, passage);
    let best = passage.evidence.first();
    PassageJson {
        rank,
        doc: stored.entry.name.clone(),
        title: document.title.clone(),
        heading_path,
        headings,
        span: passage.span.into(),
        tokens: passage.tokens,
        kind: kind(passage.kind),
        text: slice(&document.text, passage.span).to_owned(),
        page: document.page_at(passage.span.start),
        page_end: document.page_at(passage.span.end.saturating_sub(1)),
        anchor: document.element_at(passage.span.start).map(str::to_owned),
        line: document.line_at(passage.span.start),
        metadata: (&stored.entry.metadata).into(),
        prefix: passage.prefix.iter().map(|&span| span.into()).collect(),
        kept: Vec::new(),
        rendered: passage.rendered(document),
        scores: scores(passage.scores()),
        score_from: if passage.kind == ItemKind::Leaf && passage.evidence.len() == 1 {
            "leaf"
        } else {
            "max of evidence"
        },
        evidence: passage.evidence.iter().map(|e| evidence(stored, e)).collect(),
        cluster: ClusterJson {
            id: best.map(|e| e.cluster.0.to_string()).unwrap_or_default(),
            seen: best.map_or(0, |e| e.cluster.1),
            in_index: 1,
            also_in: Vec::new(),
        },
    }
}

fn share(response: &SearchResponse, share: &Share) -> ShareJson {
    ShareJson {
        node: node_name(response, share.node, share.span),
        level: share.kind.map(level),
        matched: share.matched,
        of: share.of,
        ratio: share.ratio,
        wanted: share.wanted,
    }
}

/// The answer to a search.
pub(crate) fn search(response: &SearchResponse) -> SearchJson {
    let (context, trace) = (&response.context, &response.trace);
    let passages = context.passages.iter().enumerate().filter_map(|(at, found)| {
        response.documents.get(&found.doc).map(|stored| passage(stored, found, at + 1))
    });
    let fires = trace.merge.fires.iter().map(|fire| FireJson {
        share: share(response, &fire.share),
        tokens_before: fire.tokens_before,
        tokens_after: fire.tokens_after,
        absorbed_by: fire.absorbed_by.map(|node| node_name(response, node, None)),
    });
    let timings = response.timings.iter().map(|(name, took)| {
        let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
        ((*name).to_owned(), ms.into())
    });
    SearchJson {
        query: response.query.clone(),
        also: response.also.clone(),
        context: ContextJson {
            budget: response.budget_tokens,
            tokens: context.tokens,
            passages: passages.collect(),
            dropped: context
                .dropped
                .iter()
                .map(|dropped| DroppedJson {
                    doc: doc_name(response, dropped.doc),
                    span: dropped.span.into(),
                    reason: drop_reason(dropped.reason),
                })
                .collect(),
        },
        trace: TraceJson {
            config: response.config.clone(),
            generation: response.generation,
            cluster_run: None,
            k_prime: response.k_prime,
            retrieved: trace.retrieved,
            examined: trace.examined,
            shortfall: trace.shortfall,
            retry: false,
            fired: !trace.merge.fires.is_empty(),
            could_fire: trace.merge.could_fire,
            fires: fires.collect(),
            near_misses: trace
                .merge
                .near_misses
                .iter()
                .map(|missed| share(response, missed))
                .collect(),
            blocked: trace
                .merge
                .blocked
                .iter()
                .map(|(node, reason)| BlockedJson {
                    share: share(response, node),
                    reason: blocked(*reason),
                })
                .collect(),
            crops: trace
                .crops
                .iter()
                .map(|crop| CropJson {
                    node: node_name(response, crop.node, None),
                    tokens: crop.tokens,
                    window: crop.window.into(),
                })
                .collect(),
            counts: CountsJson {
                children_retrieved: trace.counts.children_retrieved,
                after_merge: trace.counts.after_merge,
                parents_substituted: trace.counts.parents_substituted,
                final_context: trace.counts.final_context,
            },
            timings_ms: timings.collect(),
            warnings: response.warnings.clone(),
        },
        cursor: None,
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct IndexJson {
    documents: usize,
    unchanged: usize,
    added: usize,
    updated: usize,
    removed: usize,
    leaves: usize,
    embedded: usize,
    skipped: Vec<SkippedJson>,
    warnings: Vec<WarningJson>,
    interrupted: bool,
}

#[derive(Debug, Serialize)]
struct SkippedJson {
    path: String,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct WarningJson {
    doc: String,
    warning: String,
}

/// What ingestion did.
pub(crate) fn index(report: &IngestReport) -> IndexJson {
    IndexJson {
        documents: report.documents,
        unchanged: report.unchanged,
        added: report.added,
        updated: report.updated,
        removed: report.removed,
        leaves: report.leaves,
        embedded: report.embedded,
        skipped: skipped(&report.skipped),
        warnings: warnings(&report.warnings),
        interrupted: report.interrupted,
    }
}

fn skipped(skipped: &[Skipped]) -> Vec<SkippedJson> {
    let row =
        |s: &Skipped| SkippedJson { path: s.path.clone(), reason: s.reason.clone(), hint: s.hint };
    skipped.iter().map(row).collect()
}

fn warnings(warnings: &[(String, String)]) -> Vec<WarningJson> {
    let row = |(doc, warning): &(String, String)| WarningJson {
        doc: doc.clone(),
        warning: warning.clone(),
    };
    warnings.iter().map(row).collect()
}

/// What ingestion would do: lists where [`IndexJson`] has counts.
#[derive(Debug, Serialize)]
pub(crate) struct PlanJson {
    added: Vec<String>,
    updated: Vec<String>,
    removed: Vec<String>,
    unchanged: usize,
    leaves: usize,
    embedded: usize,
    skipped: Vec<SkippedJson>,
    warnings: Vec<WarningJson>,
}

/// What ingestion would do.
pub(crate) fn plan(plan: &Plan) -> PlanJson {
    PlanJson {
        added: plan.added.clone(),
        updated: plan.updated.clone(),
        removed: plan.removed.clone(),
        unchanged: plan.unchanged,
        leaves: plan.leaves,
        embedded: plan.embedded,
        skipped: skipped(&plan.skipped),
        warnings: warnings(&plan.warnings),
    }
}

#[derive(Debug, Serialize)]
struct DistributionJson {
    min: u32,
    p10: u32,
    p50: u32,
    p90: u32,
    max: u32,
}

impl From<Distribution> for DistributionJson {
    fn from(Distribution { min, p10, p50, p90, max, .. }: Distribution) -> DistributionJson {
        DistributionJson { min, p10, p50, p90, max }
    }
}

#[derive(Debug, Serialize)]
struct ClassJson {
    tokens: String,
    count: usize,
}

#[derive(Debug, Serialize)]
struct BeforeMergeJson {
    chunks: usize,
    tokens: DistributionJson,
    histogram: Vec<ClassJson>,
}

#[derive(Debug, Serialize)]
struct SourceJson {
    name: String,
    root: String,
    documents: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct StatsJson {
    documents: usize,
    leaves: usize,
    tokens: usize,
    sources: Vec<SourceJson>,
    model: Option<String>,
    leaf_tokens: DistributionJson,
    leaf_histogram: Vec<ClassJson>,
    before_merge: BeforeMergeJson,
    empty_bodies: usize,
    heading_only: usize,
    across_top_level: usize,
    children_per_parent: serde_json::Map<String, serde_json::Value>,
    tree_depth: serde_json::Map<String, serde_json::Value>,
    level_tokens: BTreeMap<&'static str, LevelJson>,
    whole_sections_share: Option<f64>,
    satisfiable_share: Option<f64>,
    can_fire_share: Option<f64>,
    greedy_parents: usize,
    documents_with_warnings: usize,
    advice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LevelJson {
    nodes: usize,
    tokens: DistributionJson,
}

/// Leaves to be read.
#[derive(Debug, Serialize)]
pub(crate) struct SamplesJson {
    sample: Vec<SampleJson>,
}

#[derive(Debug, Serialize)]
struct SampleJson {
    doc: String,
    span: SpanJson,
    tokens: u32,
    heading_path: Vec<String>,
    headings: Vec<String>,
    text: String,
}

/// Leaves to be read.
pub(crate) fn samples(samples: &[Sample]) -> SamplesJson {
    let row = |sample: &Sample| SampleJson {
        doc: sample.document.clone(),
        span: sample.span.into(),
        tokens: sample.tokens,
        heading_path: sample.heading_path.clone(),
        headings: sample.headings.clone(),
        text: sample.text.clone(),
    };
    SamplesJson { sample: samples.iter().map(row).collect() }
}

fn counts(counts: &BTreeMap<usize, usize>) -> serde_json::Map<String, serde_json::Value> {
    counts.iter().map(|(n, count)| (n.to_string(), (*count).into())).collect()
}

fn classes(histogram: &Histogram) -> Vec<ClassJson> {
    histogram
        .0
        .iter()
        .map(|(tokens, count)| ClassJson { tokens: tokens.clone(), count: *count })
        .collect()
}

/// Counts over a whole store.
pub(crate) fn stats(stats: &Stats) -> StatsJson {
    let source = |(source, documents): &(umbel::catalog::Source, usize)| SourceJson {
        name: source.name.clone(),
        root: source.root.display().to_string(),
        documents: *documents,
    };
    StatsJson {
        documents: stats.documents,
        leaves: stats.leaves,
        tokens: stats.tokens,
        sources: stats.sources.iter().map(source).collect(),
        model: stats.model.clone(),
        leaf_tokens: stats.leaf_tokens.into(),
        leaf_histogram: classes(&stats.leaf_histogram),
        before_merge: BeforeMergeJson {
            chunks: stats.before_merge.n,
            tokens: stats.before_merge.into(),
            histogram: classes(&stats.before_histogram),
        },
        empty_bodies: stats.empty_bodies,
        heading_only: stats.heading_only,
        across_top_level: stats.across_top_level,
        children_per_parent: counts(&stats.children_per_parent),
        tree_depth: counts(&stats.tree_depth),
        level_tokens: stats
            .level_tokens
            .iter()
            .map(|(kind, tokens)| {
                (level(*kind), LevelJson { nodes: tokens.n, tokens: (*tokens).into() })
            })
            .collect(),
        whole_sections_share: stats.whole_sections_share,
        satisfiable_share: stats.merging.satisfiable_share(),
        can_fire_share: stats.merging.can_fire_share(),
        greedy_parents: stats.merging.greedy,
        documents_with_warnings: stats.documents_with_warnings,
        advice: stats.advice.clone(),
    }
}
