//! An answer → the JSON that every door gives and the query log keeps.
//!
//! `docs/schema/search.json` is the schema of [`SearchJson`], as tested.

mod shape;

pub use self::shape::{
    AlsoInJson, AskJson, BlockedJson, CitationJson, ClusterJson, CompressedJson, ContextJson,
    CountsJson, CropJson, DroppedJson, ErrorJson, EvidenceJson, FireJson, MetadataJson,
    PassageJson, ScoresJson, SearchJson, SeenJson, ShareJson, ShortageJson, SpanJson, TotalJson,
    TraceJson, UsageJson,
};

use self::shape::Word;
use super::answer::{AskResponse, SearchResponse, Shortage};
use crate::catalog::StoredDocument;
use crate::generate::Finish;
use std::collections::BTreeMap;
use umbel_core::document::Document;
use umbel_core::hit::Scores;
use umbel_core::id::{ClusterId, DocId};
use umbel_core::merge::{BlockedBy, Evidence, ItemKind, NodeRef, RatioBy, Share};
use umbel_core::pack::{DropReason, Passage};
use umbel_core::span::{Span, slice};
use umbel_core::tree::NodeKind;

/// The JSON Schema of [`AskJson`], draft 7.
pub fn ask_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(AskJson)).expect("a schema is JSON")
}

/// The JSON Schema of [`SearchJson`], draft 7.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(SearchJson)).expect("a schema is JSON")
}

/// The word for what a passage is.
pub fn kind(kind: ItemKind) -> &'static str {
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
pub fn level(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Root => "root",
        NodeKind::Section => "section",
        NodeKind::Part => "part",
        NodeKind::Leaf => "leaf",
    }
}

/// Why a node was not merged.
pub fn blocked(reason: BlockedBy) -> &'static str {
    match reason {
        BlockedBy::MaxMergeTokens => "max_merge_tokens",
        BlockedBy::Budget => "budget",
        BlockedBy::Root => "merge_root",
        BlockedBy::ParentMissing => "parent missing",
        BlockedBy::Rival => "rival",
    }
}

/// Why something was not delivered.
pub fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Budget => "budget",
        DropReason::Limit => "limit",
        DropReason::DocumentMissing => "document missing",
    }
}

/// A document's name, or its number where the catalog lost it.
pub fn doc_name(response: &SearchResponse, doc: DocId) -> String {
    response
        .documents
        .get(&doc)
        .map_or_else(|| format!("#{}", doc.0), |stored| stored.entry.name.clone())
}

/// A node as a citation: `guide/billing.md:120..980`.
pub fn node_name(response: &SearchResponse, node: NodeRef, span: Option<Span>) -> String {
    let stored = response.documents.get(&node.doc);
    let span = span.or_else(|| stored?.document.tree.node(node.node).map(|n| n.span));
    match span {
        Some(span) => format!("{}:{span}", doc_name(response, node.doc)),
        None => format!("{}#{}", doc_name(response, node.doc), node.node),
    }
}

/// The share of the tokens that compression removed, 0 to 1; `None` where nothing was compressed.
pub fn removed(response: &SearchResponse) -> Option<f64> {
    let (before, after) = response.compressed.filter(|&(before, _)| before > 0)?;
    Some(1.0 - after as f64 / before as f64)
}

/// The headings of a passage: those above it, and those inside it.
pub fn headings(document: &Document, passage: &Passage) -> (Vec<String>, Vec<String>) {
    let tree = &document.tree;
    let path = tree.node(passage.node).map(|node| node.path.clone()).unwrap_or_default();
    let inside = tree.headings.iter().enumerate().filter(|(at, heading)| {
        passage.span.contains(heading.span) && !path.contains(&(*at as u32))
    });
    (tree.heading_texts(&path), inside.map(|(_, heading)| heading.text.clone()).collect())
}

fn scores(scores: Scores) -> ScoresJson {
    let Scores { dense, lexical, fused, support, rerank } = scores;
    ScoresJson { dense, lexical, fused, support, rerank, final_score: scores.final_score() }
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

/// The cluster of a passage's best evidence, and the other documents that say the same.
pub fn cluster(response: &SearchResponse, passage: &Passage) -> ClusterJson {
    let best = passage.evidence.first();
    let members = best.and_then(|evidence| response.clusters.get(&evidence.cluster.0));
    let members = members.map(Vec::as_slice).unwrap_or_default();
    let others = members.iter().map(|member| &member.document);
    let others: BTreeMap<&str, Option<String>> = others
        .filter(|entry| entry.id != passage.doc)
        .map(|entry| (entry.name.as_str(), entry.metadata.url.clone()))
        .collect();
    ClusterJson {
        id: best.map(|e| e.cluster.0.to_string()).unwrap_or_default(),
        score: best.map_or(0.0, |e| e.cluster_score),
        seen: best.map_or(0, |e| e.cluster.1),
        in_index: members.len().max(1),
        also_in: others
            .into_iter()
            .map(|(doc, url)| AlsoInJson { doc: doc.to_owned(), url })
            .collect(),
    }
}

fn passage(
    response: &SearchResponse,
    stored: &StoredDocument,
    passage: &Passage,
    rank: usize,
) -> PassageJson {
    let document = &stored.document;
    let (heading_path, headings) = headings(document, passage);
    PassageJson {
        rank,
        doc: stored.entry.name.clone(),
        title: document.title.clone(),
        heading_path,
        headings,
        span: passage.span.into(),
        tokens: passage.tokens,
        kind: kind(passage.kind).into(),
        text: slice(&document.text, passage.span).to_owned(),
        page: document.page_at(passage.span.start),
        page_end: document.page_at(passage.span.end.saturating_sub(1)),
        anchor: document.element_at(passage.span.start).map(str::to_owned),
        line: document.line_at(passage.span.start),
        metadata: (&stored.entry.metadata).into(),
        prefix: passage.prefix.iter().map(|&span| span.into()).collect(),
        kept: passage.kept.iter().map(|&span| span.into()).collect(),
        rendered: passage.rendered(document),
        scores: scores(passage.scores()),
        score_from: if passage.kind == ItemKind::Leaf && passage.evidence.len() == 1 {
            "leaf".into()
        } else {
            "max of evidence".into()
        },
        evidence: passage.evidence.iter().map(|e| evidence(stored, e)).collect(),
        cluster: cluster(response, passage),
    }
}

fn share(response: &SearchResponse, share: &Share) -> ShareJson {
    ShareJson {
        node: node_name(response, share.node, share.span),
        level: share.kind.map(|kind| level(kind).into()),
        matched: share.matched,
        of: share.of,
        ratio_by: match share.by {
            RatioBy::Children => "children".into(),
            RatioBy::Tokens => "tokens".into(),
        },
        ratio: share.ratio,
        wanted: share.wanted,
    }
}

fn shortage(shortage: &Shortage) -> ShortageJson {
    let seen = |&(id, seen): &(ClusterId, usize)| SeenJson { id: id.to_string(), seen };
    ShortageJson {
        query: Some(shortage.query.clone()),
        wanted: shortage.wanted,
        clusters: shortage.clusters.iter().map(seen).collect(),
    }
}

/// Why the context is what it is.
pub fn trace(response: &SearchResponse) -> TraceJson {
    let trace = &response.trace;
    let fires = trace.merge.fires.iter().map(|fire| FireJson {
        share: share(response, &fire.share),
        tokens_before: fire.tokens_before,
        tokens_after: fire.tokens_after,
        absorbed_by: fire.absorbed_by.map(|node| node_name(response, node, None)),
    });
    let timings = response.timings.iter().map(|(name, took)| {
        let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
        ((*name).to_owned(), ms)
    });
    TraceJson {
        config: response.config.clone(),
        generation: response.generation,
        cluster_run: response.cluster_run.map(|run| run.to_string()),
        depth: response.reading.depth,
        k_prime: response.reading.k_prime,
        fused: response.reading.fused,
        repeats: response.reading.repeats.clone(),
        exhausted: response.reading.is_whole,
        retrieved: trace.retrieved,
        examined: trace.examined,
        shortfall: trace.shortfall,
        shortage: response.shortage.as_ref().map(shortage),
        retry: response.reading.retry,
        fired: !trace.merge.fires.is_empty(),
        could_fire: trace.merge.could_fire,
        fires: fires.collect(),
        near_misses: trace.merge.near_misses.iter().map(|missed| share(response, missed)).collect(),
        blocked: trace
            .merge
            .blocked
            .iter()
            .map(|(node, reason)| BlockedJson {
                share: share(response, node),
                reason: blocked(*reason).into(),
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
        compressed: response.compressed.zip(removed(response)).map(|((before, after), removed)| {
            CompressedJson { tokens_before: before, tokens_after: after, removed }
        }),
        counts: CountsJson {
            children_retrieved: trace.counts.children_retrieved,
            after_merge: trace.counts.after_merge,
            parents_substituted: trace.counts.parents_substituted,
            final_context: trace.counts.final_context,
        },
        timings_ms: timings.collect(),
        warnings: response.warnings.clone(),
    }
}

/// The answer to a search.
pub fn search(response: &SearchResponse) -> SearchJson {
    let context = &response.context;
    let ranks = ranks(&context.passages);
    let passages = context.passages.iter().zip(ranks).filter_map(|(found, rank)| {
        response.documents.get(&found.doc).map(|stored| passage(response, stored, found, rank))
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
                    reason: drop_reason(dropped.reason).into(),
                })
                .collect(),
        },
        trace: trace(response),
        total: TotalJson {
            clusters: response.total_clusters,
            relation: if response.reading.is_whole { "exact" } else { "at least" }.into(),
        },
        cursor: response.cursor.clone(),
    }
}

/// The place of each passage by its best evidence, from 1.
pub fn ranks(passages: &[Passage]) -> Vec<usize> {
    let better = |one: &Passage| passages.iter().filter(|other| other.rank() < one.rank()).count();
    passages.iter().map(|passage| better(passage) + 1).collect()
}

/// An answer that a model wrote.
pub fn ask(response: &AskResponse) -> AskJson {
    let search = search(&response.search);
    let citations = response.citations.iter().map(|citation| {
        let passage = citation.passage.and_then(|at| search.context.passages.get(at));
        CitationJson {
            number: citation.number,
            passage: citation.passage,
            mentions: citation.mentions.iter().map(|&span| span.into()).collect(),
            doc: passage.map(|passage| passage.doc.clone()),
            span: passage.map(|passage| passage.span),
            also_in: passage.map_or(0, |passage| passage.cluster.also_in.len()),
        }
    });
    AskJson {
        answer: response.answer.clone(),
        citations: citations.collect(),
        model: response.model.clone(),
        finish: response.finish.as_ref().map(finish),
        usage: response.usage.map(|usage| UsageJson {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
        }),
        error: response
            .failure
            .as_ref()
            .map(|error| ErrorJson { message: with_causes(error), hint: error.hint() }),
        search,
    }
}

fn finish(finish: &Finish) -> Word {
    match finish {
        Finish::Stop => "stop".into(),
        Finish::Length => "length".into(),
        Finish::Filtered => "filtered".into(),
        Finish::Broken => "broken off".into(),
        Finish::Unstated => "unstated".into(),
        Finish::Other(reason) => reason.clone().into(),
    }
}

/// An error with what caused it.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    // An error that only passes on another says the same.
    words.dedup();
    words.join(": ")
}
